//! The servers of these tests and their drills: the model server, and small ones in Python and Node that bring their
//! record to the disk.

use std::fs;

use serde_json::Value;

use super::drills::deploy_as;
use super::ground::Ground;
use super::small::drill;

/// A crash of a drill: how it is called, and the rest of it.
pub type Crash<'a> = (&'a str, &'a str);

/// The model server at these crashes, with changes to the drill that ships.
pub fn deploy(name: &str, crashes: &[Crash<'_>], changes: &[(&str, &str)]) -> String {
    let text = deploy_as(name, changes);
    let (head, rest) = text.split_once("\ncrash:\n").unwrap();
    let (_, tail) = rest.split_once("\n\n").unwrap();
    let crashes: Vec<String> = crashes
        .iter()
        .map(|(name, crash)| format!("  - {{ name: {name}, {crash} }}\n"))
        .collect();
    format!("{head}\ncrash:\n{}\n{tail}", crashes.concat())
}

/// A server in Python: the good one of the fixtures, with `changes` in its class, and `first` before it runs.
pub fn python(ground: &Ground, name: &str, first: &str, changes: &str) -> Value {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/python");
    let text = format!(
        "import os, signal, socket, sys, time\nsys.path.insert(0, {fixtures:?})\nfrom mcp import Server\n\n\
         class Own(Server):\n    own = True\n{changes}\n{first}\nOwn().run()\n"
    );
    let file = ground.path().join(format!("{name}.py"));
    fs::write(&file, text).unwrap();
    drill(name, &["python3", "-S", file.to_str().unwrap()])
}

/// A server in Node: the good one of the fixtures, with `changes` in its class.
pub fn node(ground: &Ground, name: &str, changes: &str) -> Value {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/node/mcp.mjs");
    let text = format!(
        "import fs from \"node:fs\";\nimport {{ Server }} from {fixture:?};\n\
         class Own extends Server {{\n{changes}\n}}\nnew Own().run();\n"
    );
    let file = ground.path().join(format!("{name}.mjs"));
    fs::write(&file, text).unwrap();
    drill(name, &["node", file.to_str().unwrap()])
}

/// Each row is synced, through a descriptor of its own.
pub const SYNCS_IN_PYTHON: &str = "
    def record(self, call, outcome, **more):
        super().record(call, outcome, **more)
        log = os.open(os.environ['ACTIVITY_LOG'], os.O_RDONLY)
        os.fsync(log)
        os.close(log)
";

/// The same.
pub const SYNCS_IN_NODE: &str = r#"
  record(...row) {
    super.record(...row);
    const log = fs.openSync(process.env.ACTIVITY_LOG, "r");
    fs.fsyncSync(log);
    fs.closeSync(log);
  }
"#;

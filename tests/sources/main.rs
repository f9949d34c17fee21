//! The record of ownership from stderr, from log notifications and from OTLP: the good server of each is found good, in both
//! kinds of cell, and its bad twin is found out.
//!
//! ```text
//!   server × crash ──> one drill file a server ──> cargo-drill, once in each kind of cell ──> compared, trial by trial
//! ```
//!
//! OTLP is exported by the SDK of OpenTelemetry for Python as it is, over HTTP and over gRPC.

#[path = "../outside/answers.rs"]
mod answers;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/needs.rs"]
mod needs;
#[expect(dead_code, reason = "the table of the small servers has more of them")]
#[path = "../small_servers/row.rs"]
mod small;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use answers::{difference, trials_in};
use ground::{Ground, folders_in};
use needs::test;

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                each_source_is_read_where_the_cell_is_of_namespaces,
                "python3",
                "packages of python3",
                "namespaces"
            ),
            test!(
                each_source_is_read_where_the_cell_is_a_subreaper,
                "python3",
                "packages of python3"
            ),
        ],
    )
}

/// A server, and the questions that do not hold at each crash.
struct Server {
    name: &'static str,
    drill: Value,
    crashes: Vec<(&'static str, &'static str)>,
}

const BEFORE: &str = "before-dispatch";
const HELD: &str = "after-acceptance";
const STDIN_CLOSED: &str = "after-acceptance::stdin-closed";
const AFTER: &str = "after-result";

fn crash(name: &str) -> Value {
    match name {
        STDIN_CLOSED => json!({ "at": HELD, "name": "stdin-closed", "close": ["stdin"] }),
        point => json!(point),
    }
}

impl Server {
    fn new(
        name: &'static str,
        command: &[&str],
        from: &str,
        crashes: &[(&'static str, &'static str)],
    ) -> Self {
        let mut drill = small::drill(name, command);
        let ownership = &mut drill["expect"]["ownership"];
        ownership.as_object_mut().unwrap().remove("log");
        ownership["from"] = json!(from);
        drill["crash"] = crashes.iter().map(|(name, _)| crash(name)).collect();
        Self {
            name,
            drill,
            crashes: crashes.to_vec(),
        }
    }

    /// What the SDK of OpenTelemetry exports of `otlp_rows.py`, in the words that stand in no drill.
    fn otlp(
        name: &'static str,
        words: &[&str],
        protocol: &str,
        crashes: &[(&'static str, &'static str)],
    ) -> Self {
        let command = [&["@python/.venv/bin/python", "@python/otlp_rows.py"], words].concat();
        let mut server = Self::new(name, &command, "otlp", crashes);
        let expect = &mut server.drill["expect"];
        expect["ownership"]
            .as_object_mut()
            .unwrap()
            .remove("record");
        // The words that stand in no drill have none for a key.
        expect["handle"] = json!({ "skip": "the record has no key" });
        let env = &mut server.drill["server"]["env"];
        env["OTEL_EXPORTER_OTLP_PROTOCOL"] = json!(protocol);
        env["OTEL_EXPERIMENTAL_RESOURCE_DETECTORS"] = json!("process");
        server
    }
}

fn servers(cell: &str) -> Vec<Server> {
    let late: &[_] = match cell {
        "namespaces" => &[(BEFORE, "ownership"), (HELD, "ownership")],
        // Where the cell cannot hold a dispatch, a row that comes soon after it is there at the next crash point, or not.
        _ => &[(BEFORE, "ownership")],
    };
    let python = |server: &'static str| ["python3", "-S", server];
    let good = [(BEFORE, ""), (HELD, ""), (AFTER, "")];
    let mut servers = vec![
        Server::new(
            "stderr-rows",
            &python("@python/stderr_rows.py"),
            "stderr",
            &good,
        ),
        Server::new(
            "stderr-late",
            &python("@python/stderr_late.py"),
            "stderr",
            late,
        ),
        // The row of the intent is there; the outcome is told to nobody.
        Server::new(
            "notifies",
            &python("@python/notifies.py"),
            "logging",
            &[
                (BEFORE, "ownership"),
                (HELD, "ownership"),
                (STDIN_CLOSED, ""),
                (AFTER, ""),
            ],
        ),
    ];
    servers.push(Server::new(
        "notifies-by-call",
        &["python3", "-S", "@python/notifies.py", "by-call"],
        "logging",
        &[(BEFORE, "ownership"), (STDIN_CLOSED, ""), (AFTER, "")],
    ));
    for (name, words, protocol) in [
        ("http-logs", "logs", "http/protobuf"),
        ("http-spans", "spans", "http/protobuf"),
        ("grpc-logs", "logs", "grpc"),
        ("grpc-spans", "spans", "grpc"),
    ] {
        servers.push(Server::otlp(name, &[words], protocol, &good));
    }
    for (name, words) in [("batch-logs", "logs"), ("batch-spans", "spans")] {
        let crashes = [(BEFORE, "ownership"), (HELD, "ownership")];
        let batch = [words, "batch"];
        let mut server = Server::otlp(name, &batch, "http/protobuf", &crashes);
        // As by default, but for the few seconds after which a slow machine would see an export by chance.
        let env = &mut server.drill["server"]["env"];
        env["OTEL_BLRP_SCHEDULE_DELAY"] = json!("60000");
        env["OTEL_BSP_SCHEDULE_DELAY"] = json!("60000");
        servers.push(server);
    }
    servers
}

/// Runs the drills, and returns what they answered and the bundles that they left.
fn run(ground: &Ground, servers: &[Server], cell: &str) -> BTreeMap<String, Value> {
    for server in servers {
        ground.drill(server.name, &server.drill.to_string());
    }
    let output = ground
        .command(["--format", "json", "--test-threads", "6"])
        .env("CARGO_DRILL_CELL", cell)
        .output()
        .unwrap();
    let diagnostics = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{diagnostics}");
    trials_in(&String::from_utf8(output.stdout).unwrap())
}

fn each_is_right_in(cell: &str) {
    let ground = Ground::new();
    let servers = servers(cell);
    let trials = run(&ground, &servers, cell);
    let wrong: String = servers
        .iter()
        .flat_map(|server| server.crashes.iter().map(move |crash| (server, crash)))
        .filter_map(|(server, (point, right))| {
            let right = right.split_whitespace().map(str::to_owned).collect();
            difference(&trials, &format!("{}::{point}", server.name), &right)
        })
        .collect();
    assert!(wrong.is_empty(), "in {cell}: {wrong}");

    let ownership = |trial: &str| {
        let answers = trials[trial]["answers"].as_array().unwrap();
        let mut answers = answers.iter();
        answers
            .find(|a| a["question"] == "ownership")
            .unwrap()
            .clone()
    };
    says_who_it_was(&ownership("stderr-rows::after-acceptance"));
    dies_with_the_client(&ownership("notifies::after-acceptance"));
    let bundles = folders_in(&ground.run());
    stderr_is_kept(&bundles_of("stderr-rows", &bundles));
    says_by_which_attribute(&ownership("http-spans::after-result"));
    exports_are_kept(&bundles_of("http-spans", &bundles));
}

fn bundles_of<'b>(drill: &str, all: &'b [std::path::PathBuf]) -> Vec<&'b Path> {
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let bundles = all.iter().map(AsRef::as_ref);
    let bundles: Vec<&Path> = bundles
        .filter(|path| name(path).starts_with(drill))
        .collect();
    assert!(!bundles.is_empty());
    bundles
}

fn says_who_it_was(ownership: &Value) {
    let named = json!([
        { "question": "run", "answered": true, "by": "/run_id" },
        { "question": "process", "answered": true, "by": "/pid" },
        { "question": "decision", "answered": true, "by": "/approval_id" },
        { "question": "operation", "answered": true, "by": "/key" },
    ]);
    assert_eq!(ownership["named"], named);
}

fn says_by_which_attribute(ownership: &Value) {
    let by = ownership["named"].as_array().unwrap().iter();
    let by: Vec<&str> = by.map(|named| named["by"].as_str().unwrap()).collect();
    let expected = [
        "/attributes/drill.run.id",
        "/attributes/process.pid",
        "/attributes/drill.approval.id",
        "/attributes/drill.effect.id",
    ];
    assert_eq!(by, expected);
}

fn dies_with_the_client(ownership: &Value) {
    let because = ownership["because"].as_str().unwrap();
    let told = "a record that dies with the client is no durable record";
    assert!(because.contains(told), "{because}");
}

fn stderr_is_kept(bundles: &[&Path]) {
    for bundle in bundles {
        let kept = std::fs::read_to_string(bundle.join("stderr-a.txt")).unwrap();
        assert!(
            kept.contains("is intended") && kept.contains("\"run_id\""),
            "{kept}"
        );
    }
}

fn exports_are_kept(bundles: &[&Path]) {
    for bundle in bundles {
        let kept = std::fs::read_to_string(bundle.join("otlp.jsonl")).unwrap();
        let first: Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
        assert_eq!(first["signal"], "span", "{first}");
        assert_eq!(
            first["trace_id"].as_str().map(str::len),
            Some(32),
            "{first}"
        );
    }
}

fn each_source_is_read_where_the_cell_is_of_namespaces() {
    each_is_right_in("namespaces");
}

fn each_source_is_read_where_the_cell_is_a_subreaper() {
    each_is_right_in("subreaper");
}

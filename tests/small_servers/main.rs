//! Small servers in several languages, good and bad, through the built command: each breaks exactly the questions that it
//! should.
//!
//! ```text
//!   table ──> one drill file a row ──> cargo-drill, once ──> JSON lines ──> compared, crash by crash
//! ```
//!
//! They share nothing with the harness but the protocol, and fail in ways of their own: a thread that blocks, a task that
//! is cancelled, a process that was forked, an event loop that a timer keeps alive.

#[path = "../outside/answers.rs"]
mod answers;
#[path = "../outside/needs.rs"]
mod needs;
mod row;
mod table;
mod whatever_else;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

use answers::{difference, trials_in};
use needs::test;
use row::Row;
use table::table;
use whatever_else::each_question_has_the_same_answer_whatever_else_is_asked;

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                each_server_breaks_exactly_the_questions_that_it_should,
                "python3",
                "node",
                "perl"
            ),
            test!(each_server_of_the_folders_stands_in_the_table),
            test!(
                each_question_has_the_same_answer_whatever_else_is_asked,
                "python3"
            ),
        ],
    )
}

fn each_server_breaks_exactly_the_questions_that_it_should() {
    let rows = table();
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    fs::create_dir(&drills).unwrap();
    for row in &rows {
        let path = drills.join(format!("{}.yaml", row.name));
        assert!(!path.exists(), "{} stands twice in the table", row.name);
        fs::write(path, row.drill()).unwrap();
    }

    let trials = run(&drills, &folder.path().join("reports"));

    let wrong: String = rows
        .iter()
        .flat_map(|row| row.at.iter().map(move |at| (row, at)))
        .filter_map(|(row, (point, right))| {
            let right = right.iter().map(|&question| question.to_owned()).collect();
            difference(&trials, &format!("{}::{}", row.name, point.name()), &right)
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Some need a crash, a record or a reader that the other tables have.
const OTHER_TABLES: [&str; 7] = [
    include_str!("../authorities/main.rs"),
    include_str!("../cell/temporary.rs"),
    include_str!("../crashes.rs"),
    include_str!("../lost.rs"),
    include_str!("../network.rs"),
    include_str!("../page/main.rs"),
    include_str!("../sources/main.rs"),
];

fn each_server_of_the_folders_stands_in_the_table() {
    let drills: String = table().iter().map(Row::drill).collect();
    for (folder, ending) in [("python", ".py"), ("node", ".mjs"), ("perl", ".pl")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(folder);
        for entry in fs::read_dir(path).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let is_server = file.ends_with(ending) && !file.starts_with("mcp.");
            let stem = file.trim_end_matches(ending);
            let by_stem = format!("{folder}(\"{stem}\")");
            let by_file = format!("@{folder}/{file}\"");
            let is_elsewhere = OTHER_TABLES
                .iter()
                .any(|table| table.contains(&by_stem) || table.contains(&by_file));
            assert!(
                !is_server || is_elsewhere || drills.contains(&format!("/{folder}/{file}")),
                "fixtures/{folder}/{file} is not drilled"
            );
        }
    }
}

/// The folder of Python itself comes first: `python3` may be a script that looks for it, and takes longer than Python.
fn path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    let asked = Command::new("python3")
        .args([
            "-c",
            "import os, sys; print(os.path.dirname(sys.executable), end='')",
        ])
        .output();
    if let Some(asked) = asked.ok().filter(|asked| asked.status.success()) {
        let mut folder = OsString::from_vec(asked.stdout);
        folder.push(":");
        folder.push(path);
        path = folder;
    }
    path
}

/// Runs all drills at once. Trials mostly wait, so many of them share a processor.
fn run(drills: &Path, reports: &Path) -> BTreeMap<String, Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .args(["--format", "json", "--test-threads", "12", "--drills"])
        .arg(drills)
        .arg("--reports")
        .arg(reports)
        .env("PATH", path())
        .env_remove("CI")
        .output()
        .unwrap();
    let diagnostics = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{diagnostics}");
    trials_in(&String::from_utf8(output.stdout).unwrap())
}

//! The exports of real runs, and of runs that no server makes on demand, before validators that others wrote.
//!
//! ```text
//!   drills ──> cargo-drill ──> reports/runs/RUN ──┐
//!                                                 ├──> accepted.py: trestle, JSON Schema, XML Schema, GitHub's Markdown
//!   results that are made up ──> export::files ───┘
//! ```

#[path = "../outside/drills.rs"]
mod drills;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/said.rs"]
mod said;

mod made_up;
mod real;

use std::path::Path;
use std::process::Command;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exports");

/// What the validators have against the exports in these folders, a line each. `None`, and a word on it, where they are
/// not installed.
fn refused(folders: &[&Path]) -> Option<String> {
    let python = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/python/.venv/bin/python"
    );
    let asked = Command::new(python)
        .args(["-c", "import trestle, jsonschema, xmlschema, cmarkgfm"])
        .output();
    if !asked.is_ok_and(|asked| asked.status.success()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "fixtures/python/.venv has no validators"
        );
        println!("skipped: fixtures/python/.venv has no validators");
        return None;
    }
    let output = Command::new(python)
        .arg(format!("{HERE}/accepted.py"))
        .args(folders)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout);
    match output.status.code() {
        Some(0 | 1) if output.status.success() == said.is_empty() => Some(said),
        _ => panic!("the validators failed:\n{said}\n{}", text(&output.stderr)),
    }
}

/// Fails with what the validators refuse.
fn assert_accepted(folders: &[&Path]) {
    if let Some(refused) = refused(folders) {
        assert_eq!(refused, "");
    }
}

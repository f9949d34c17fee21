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
#[path = "../outside/needs.rs"]
mod needs;
#[path = "../outside/said.rs"]
mod said;

mod made_up;
mod real;

use needs::test;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                made_up::runs_of_every_kind_are_accepted,
                "packages of python3"
            ),
            test!(
                made_up::a_run_of_a_thousand_trials_is_accepted,
                "packages of python3"
            ),
            test!(
                made_up::the_validators_refuse_what_is_wrong,
                "packages of python3"
            ),
            test!(
                real::the_exports_of_a_mixed_run_are_accepted_and_lead_to_the_evidence,
                "packages of python3"
            ),
            test!(real::annotations_point_at_the_crash_and_nothing_else_is_a_command),
            test!(real::without_being_asked_for_it_prints_no_command),
            test!(real::the_controls_of_a_run_are_shown_in_every_format),
            test!(real::a_control_without_evidence_fails_a_gate),
            test!(real::a_run_that_was_changed_or_did_not_end_is_no_evidence),
            test!(real::without_a_run_or_a_control_it_says_what_to_do),
        ],
    )
}

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exports");

/// What the validators have against the exports in these folders, a line each.
fn refused(folders: &[&Path]) -> String {
    let python = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/python/.venv/bin/python"
    );
    let output = Command::new(python)
        .arg(format!("{HERE}/accepted.py"))
        .args(folders)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout);
    match output.status.code() {
        Some(0 | 1) if output.status.success() == said.is_empty() => said,
        _ => panic!("the validators failed:\n{said}\n{}", text(&output.stderr)),
    }
}

/// Fails with what the validators refuse.
fn assert_accepted(folders: &[&Path]) {
    assert_eq!(refused(folders), "");
}

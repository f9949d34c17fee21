//! The release gate and the difference of two runs, as a release job meets them: real runs, real keys, the built command.
//! (Not to be confused with `tests/gate/`, which is about system calls.)

#[path = "../outside/drills.rs"]
mod drills;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/keys.rs"]
mod keys;
#[path = "../outside/needs.rs"]
mod needs;
#[path = "../outside/said.rs"]
mod said;

mod decisions;
mod differences;
mod policies;
mod signatures;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use keys::key_pair;
use needs::test;
use said::{Said, json_in, say};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(decisions::a_good_server_goes_out_and_its_broken_twin_does_not),
            test!(decisions::a_waiver_lasts_until_its_day),
            test!(decisions::a_waiver_that_nothing_needs_is_in_the_way),
            test!(decisions::what_was_not_run_or_not_drilled_is_not_fine),
            test!(decisions::a_bundle_that_was_changed_closes_the_gate),
            test!(decisions::a_run_that_was_killed_is_not_complete),
            test!(decisions::what_cannot_be_decided_is_neither),
            test!(decisions::the_decision_is_told_to_machines_and_to_a_page),
            test!(decisions::in_a_job_of_github_nothing_that_is_shown_is_taken_for_a_command),
            test!(
                decisions::what_a_server_says_is_text_in_every_form,
                "python3"
            ),
            test!(differences::two_runs_of_one_server_do_not_differ),
            test!(differences::a_broken_twin_differs_in_what_it_breaks_and_its_events_are_shown),
            test!(differences::a_trial_that_only_one_run_knows_is_named),
            test!(differences::what_cannot_be_read_is_no_difference),
            test!(policies::mistakes_are_shown_with_their_place_and_with_what_would_be_right),
            test!(policies::a_policy_that_is_not_there_or_empty_says_so),
            test!(policies::the_schema_of_the_policy_is_printed_and_describes_every_key),
            test!(policies::the_policy_that_ships_is_well_written_and_decides),
            test!(signatures::only_the_named_keys_count),
            test!(signatures::the_signed_decision_names_policy_and_bundles_by_digest),
            test!(
                signatures::openssl_checks_the_signature_and_a_refusal_is_signed_as_well,
                "bash",
                "jq",
                "openssl"
            ),
            test!(signatures::a_place_for_the_statement_needs_a_key),
        ],
    )
}

/// Two points of one drill, `deploy`.
const POINTS: &str = "idle, after-acceptance";

/// A ground with a run of the good server.
fn drilled() -> Ground {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", POINTS, &[]));
    run(&ground, &[]);
    ground
}

/// Runs all drills and returns the name of the run.
fn run(ground: &Ground, arguments: &[&str]) -> String {
    let before = ground.runs();
    let said = say(ground.command([]).args(arguments));
    assert!(matches!(said.code, Some(0 | 1)), "{said}");
    let runs = ground.runs();
    let new: Vec<&PathBuf> = runs.iter().filter(|run| !before.contains(run)).collect();
    let [new] = new.as_slice() else {
        panic!("{new:?}");
    };
    new.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Drills the server with a fault from here on.
fn with_fault(ground: &Ground, fault: &str) {
    let faulty = format!("command: [\"{{{{ fixture }}}}\", deploy, --fault, {fault}]");
    let drill = deploy_at("deploy", POINTS, &[(GOOD_SERVER, &faulty)]);
    ground.drill("deploy", &drill);
}

/// Writes `release.yaml`: the rule, unless there is another, and what is added.
fn policy(ground: &Ground, rest: &str) {
    let rules = if rest.contains("rules:") {
        ""
    } else {
        "rules:\n  - { servers: [deploy], at: [idle, after-acceptance], questions: [eof, effects, reconcile] }\n"
    };
    let text = format!("policy: release\n{rules}{rest}");
    fs::write(ground.path().join("release.yaml"), text).unwrap();
}

fn gate(ground: &Ground, arguments: &[&str]) -> Said {
    let mut command = ground.command(["drill", "gate", "--policy", "release.yaml"]);
    say(command.args(arguments))
}

fn decision(ground: &Ground, arguments: &[&str]) -> Value {
    let said = gate(ground, &[arguments, &["--format", "json"]].concat());
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A key pair: `NAME.pem` and `NAME.pub`.
fn key(ground: &Ground, name: &str) {
    let at = |ending: &str| ground.path().join(format!("{name}.{ending}"));
    key_pair(&at("pem"), &at("pub"));
}

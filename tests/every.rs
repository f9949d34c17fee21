//! `crash: every`: a trial at each boundary of the call, so that no moment is left out because nobody thought of it.

#[path = "outside/drills.rs"]
mod drills;
#[expect(dead_code, reason = "no folder of a run is looked into here")]
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/needs.rs"]
mod needs;
#[expect(dead_code, reason = "no file of a run is read whole here")]
#[path = "outside/said.rs"]
mod said;
#[expect(dead_code, reason = "the table of the small servers has more of them")]
#[path = "small_servers/row.rs"]
mod small;

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;

use serde_json::{Value, json};

use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use needs::test;
use said::{Said, say};
use small::{Row, node, python};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                the_model_server_holds_at_each_of_its_boundaries_in_both_cells,
                "namespaces"
            ),
            test!(what_is_listed_is_what_runs_and_one_of_it_runs_alone),
            test!(the_rehearsal_is_made_once_for_each_state_of_drill_and_server),
            test!(the_line_says_where_an_answer_changes, "namespaces"),
            test!(
                a_call_that_is_not_answered_has_no_boundaries_and_says_why,
                "namespaces"
            ),
            test!(
                small_servers_in_other_languages_hold_at_each_boundary,
                "python3",
                "node"
            ),
        ],
    )
}

/// The boundaries of the model server's call, of which the gate sees those in the middle.
const WITH_GATE: [&str; 15] = [
    "01-startup",
    "02-idle",
    "03-torn-call",
    "04-call-unread",
    "05-call-written",
    "06-fdatasync-1",
    "07-connect-1",
    "08-connection-1",
    "09-request-1",
    "10-reply-1",
    "11-half-reply-1",
    "12-replied-1",
    "13-fdatasync-2",
    "14-write-1",
    "15-after-result",
];

fn run(ground: &Ground, cell: &str) -> Said {
    say(ground
        .command(["--color", "never"])
        .env("CARGO_DRILL_CELL", cell))
}

fn listed(ground: &Ground) -> Vec<String> {
    let said = say(&mut ground.command(["--list"]));
    assert_eq!(said.code, Some(0), "{said}");
    let names = said
        .out
        .lines()
        .map(|line| line.trim_end_matches(": test").to_owned());
    names.collect()
}

fn trials(ground: &Ground) -> Vec<Value> {
    let said = say(&mut ground.command(["--format", "json"]));
    assert!(matches!(said.code, Some(0 | 1)), "{said}");
    said.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn with_gate(name: &str, changes: &[(&str, &str)]) -> String {
    deploy_at(name, "{ at: every, gate: true }", changes)
}

fn small_drill(row: &Row) -> String {
    let mut drill: Value = serde_json::from_str(&row.drill()).unwrap();
    drill["crash"] = json!("every");
    drill["gate"] = json!(true);
    drill.to_string()
}

fn the_model_server_holds_at_each_of_its_boundaries_in_both_cells() {
    for cell in ["namespaces", "subreaper"] {
        let ground = Ground::new();
        ground.drill("deploy", &with_gate("deploy", &[]));
        let said = run(&ground, cell);
        assert_eq!(said.code, Some(0), "{cell}: {said}");
        for boundary in WITH_GATE {
            assert!(
                said.out.contains(&format!("deploy::every::{boundary}")),
                "{cell}: {said}"
            );
        }
        assert!(said.out.contains("15 trials: 15 held"), "{cell}: {said}");
        assert!(
            said.out.contains("deploy::every  15 boundaries"),
            "{cell}: {said}"
        );
        assert!(
            said.out.contains("no answer changes along it"),
            "{cell}: {said}"
        );
        assert!(!said.err.contains("in one clean run"), "{cell}: {said}");
    }
}

fn what_is_listed_is_what_runs_and_one_of_it_runs_alone() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "every", &[]));
    let listed = listed(&ground);
    assert_eq!(listed.len(), 11, "{listed:?}");
    let ran: BTreeSet<String> = trials(&ground)
        .iter()
        .map(|trial| trial["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ran, listed.iter().cloned().collect());
    let one = "deploy::every::07-request-1";
    let said = say(&mut ground.command(["--exact", one]));
    assert!(said.out.contains("1 trial: 1 held"), "{said}");
}

fn the_rehearsal_is_made_once_for_each_state_of_drill_and_server() {
    let ground = Ground::new();
    let kept = || {
        let folder = fs::read_dir(ground.path().join("reports/runs/.courses"));
        folder.map_or(0, Iterator::count)
    };
    ground.drill("deploy", &deploy_at("deploy", "every", &[]));
    listed(&ground);
    listed(&ground);
    assert_eq!(kept(), 1);
    ground.drill(
        "deploy",
        &deploy_at("deploy", "every", &[("ref: v1.2.3", "ref: v1.2.4")]),
    );
    listed(&ground);
    assert_eq!(kept(), 2);
}

fn the_line_says_where_an_answer_changes() {
    let ground = Ground::new();
    let faulty = r#"command: ["{{ fixture }}", deploy, --fault, no-key]"#;
    ground.drill(
        "deploy",
        &deploy_at("deploy", "every", &[(GOOD_SERVER, faulty)]),
    );
    let said = run(&ground, "namespaces");
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.out.contains("first change at 07-request-1: "),
        "{said}"
    );
    assert!(said.out.contains("reconcile is broken"), "{said}");
}

fn a_call_that_is_not_answered_has_no_boundaries_and_says_why() {
    let ground = Ground::new();
    let absent = [(
        "command: [\"{{ fixture }}\", deploy]",
        "command: [\"false\"]",
    )];
    ground.drill("deploy", &deploy_at("deploy", "every", &absent));
    assert_eq!(listed(&ground), ["deploy::every"]);
    let said = run(&ground, "namespaces");
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("unproven"), "{said}");
    assert!(said.out.contains("ended with status 1"), "{said}");
}

fn small_servers_in_other_languages_hold_at_each_boundary() {
    let ground = Ground::new();
    for row in [python("good"), node("good")] {
        ground.drill(&row.name, &small_drill(&row));
    }
    for trial in trials(&ground) {
        assert_eq!(trial["verdict"], "held", "{trial:#}");
    }
}

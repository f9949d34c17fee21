//! What a server can reach in a cell, and what it cannot.

mod fence;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/needs.rs"]
mod needs;
#[path = "../outside/said.rs"]
mod said;
mod server;
mod temporary;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use ground::Ground;
use needs::test;
use said::{Said, json_in};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                temporary::folders_of_temporary_files_are_the_trials_own_and_gone_with_it,
                "python3",
                "namespaces"
            ),
            test!(
                temporary::other_trials_folders_are_not_seen_where_they_lie_beside_the_trials_own,
                "python3",
                "namespaces"
            ),
            test!(
                temporary::trials_at_once_answer_as_trials_one_after_another,
                "python3",
                "namespaces"
            ),
            test!(
                temporary::what_the_drill_needs_is_found_through_links_and_in_other_temporary_folders,
                "python3",
                "namespaces"
            ),
            test!(
                temporary::without_mounts_the_folders_are_the_hosts_and_that_is_said,
                "python3"
            ),
            test!(
                fence::below_a_subreaper_a_server_reaches_the_remote_alone,
                "python3"
            ),
            test!(
                fence::a_drill_that_opens_the_network_gets_all_of_it_below_a_subreaper,
                "python3"
            ),
            test!(
                fence::without_namespaces_and_without_a_fence_a_trial_is_an_error_unless_the_drill_opens_the_network,
                "python3"
            ),
            test!(
                fence::good_servers_of_two_runtimes_work_behind_the_fence,
                "python3",
                "node"
            ),
            test!(
                fence::a_gateway_that_listens_in_the_cell_can_be_reached_and_reaches_nothing_else,
                "python3"
            ),
        ],
    )
}

/// The verdicts of each trial of the only run, by question.
fn verdicts(ground: &Ground) -> BTreeMap<String, BTreeMap<String, String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let results = json_in(&ground.run(), "results.json");
    let trials = results["trials"].as_array().unwrap();
    let of = |trial: &Value| {
        let answers = trial["answers"].as_array().unwrap();
        let verdicts = answers
            .iter()
            .map(|answer| (text(&answer["question"]), text(&answer["verdict"])));
        (text(&trial["name"]), verdicts.collect())
    };
    trials.iter().map(of).collect()
}

fn assert_all_held(ground: &Ground, said: &Said) {
    let wrong: Vec<_> = verdicts(ground)
        .into_iter()
        .filter(|(_, answers)| answers.values().any(|verdict| verdict != "held"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{said}");
    assert_eq!(said.code, Some(0), "{said}");
}

/// What the cell of a trial weakens, a sentence each.
fn weakens(bundle: &Path) -> Vec<String> {
    let journal = std::fs::read_to_string(bundle.join("journal.jsonl")).unwrap();
    let ready = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["kind"] == "cell-ready")
        .unwrap();
    serde_json::from_value(ready["weakens"].clone()).unwrap()
}

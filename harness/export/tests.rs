//! What the formats say of runs in which everything occurs, and what they keep out.

mod matrix;
mod untrusted;

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::judge::{Answer, Verdict};
use crate::report::samples::{answer, eventful, name, results, trial};
use crate::report::{
    Commit, DrillFacts, Population, Results, RunFacts, ServerFacts, SnapshotState, TrialResult,
};
use crate::spec::{CrashPoint, Question};

/// The facts of [`eventful`]: two drills, of which the first names two controls.
fn facts() -> RunFacts {
    let run = eventful();
    let population = run.trials.iter().zip(10..).map(|(trial, line)| Population {
        drill: trial.drill.clone(),
        trial: Some(trial.name.clone()),
        line: Some(line),
        not_run: trial.reason.clone(),
        repeats: Vec::new(),
    });
    RunFacts {
        commit: Some(Commit {
            id: "c0ffee".to_owned(),
            dirty: Some(false),
            folder: Some("tools/my drills/".to_owned()),
        }),
        cell: Some("namespaces".to_owned()),
        drills: vec![
            drill("deploy", &["SOC 2 CC7.4", "AC-2(1)"]),
            drill("notes", &["AC-2(1)"]),
        ],
        population: population.collect(),
        ..RunFacts::default()
    }
}

fn drill(name: &str, controls: &[&str]) -> DrillFacts {
    DrillFacts {
        drill: name.to_owned(),
        file: format!("drills/{name}.yaml"),
        sha256: "ab".repeat(32),
        about: None,
        controls: controls.iter().map(ToString::to_string).collect(),
        known: BTreeMap::from([(Question::Eof, "reported upstream".to_owned())]),
        server: ServerFacts {
            command: vec!["{{ fixture }}".to_owned(), name.to_owned()],
            ..ServerFacts::default()
        },
    }
}

fn sarif(results: &Results, facts: &RunFacts) -> Value {
    let text = render_sarif(&EndedRun::new(results, facts, false)).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["runs"][0].clone()
}

fn oscal(results: &Results, facts: &RunFacts) -> Value {
    let text = render_oscal(&[EndedRun::new(results, facts, false)]).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["assessment-results"].clone()
}

#[test]
fn sarif_has_a_result_for_each_answer_that_did_not_hold() {
    let run = sarif(&eventful(), &facts());
    let told: Vec<(&str, &str)> = run["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| {
            (
                result["ruleId"].as_str().unwrap(),
                result["level"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("reconcile/duplicate", "error"),
            ("quiet/end-not-seen", "error"),
            ("eof/still-running", "note"),
            ("snapshot", "error"),
        ]
    );
    let reconcile = &run["results"][0];
    let index = usize::try_from(reconcile["ruleIndex"].as_u64().unwrap()).unwrap();
    let rule = &run["tool"]["driver"]["rules"][index];
    assert_eq!(rule["id"], "reconcile/duplicate");
    assert!(
        rule["help"]["text"]
            .as_str()
            .unwrap()
            .contains("idempotency key")
    );
    let place = &reconcile["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 11);
    let uri = &place["artifactLocation"]["uri"];
    assert_eq!(uri, "tools/my%20drills/drills/deploy.yaml");
}

#[test]
fn sarif_suppresses_what_is_known_with_the_reason_of_the_drill() {
    let run = sarif(&eventful(), &facts());
    let known = &run["results"][2];
    assert_eq!(known["suppressions"][0]["kind"], "external");
    assert_eq!(
        known["suppressions"][0]["justification"],
        "reported upstream"
    );
}

#[test]
fn a_trial_that_is_an_error_is_a_notification_of_a_run_that_failed() {
    let run = sarif(&eventful(), &facts());
    let invocation = &run["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let said = &invocation["toolExecutionNotifications"][0]["message"]["text"];
    assert!(said.as_str().unwrap().contains("notes::startup"), "{said}");
    let mut good = eventful();
    good.trials.retain(|trial| trial.error.is_none());
    let run = sarif(&good, &facts());
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
}

#[test]
fn a_fingerprint_is_the_same_in_the_next_run_and_another_for_another_answer() {
    let first = sarif(&eventful(), &facts());
    let mut next = eventful();
    next.trials[1].answers[4].because = "pid 99 made another".to_owned();
    next.started = "2026-12-01T00:00:00.000Z".to_owned();
    let second = sarif(&next, &facts());
    let of = |run: &Value, at: usize| run["results"][at]["partialFingerprints"].clone();
    assert_eq!(of(&first, 0), of(&second, 0));
    assert_ne!(of(&first, 0), of(&first, 1));
}

#[test]
fn what_held_although_it_is_known_is_an_objection() {
    let mut stale = trial(
        &name("deploy", CrashPoint::Sent),
        vec![answer(Question::Eof, Verdict::Held, "It exited.")],
    );
    stale.stale_known = vec![Question::Eof];
    let told = objections(&stale, false);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].kind, told[0].about().as_str()),
        (Kind::Stale, "eof")
    );
    let run = results(vec![stale]);
    let said = render_summary(&EndedRun::new(&run, &facts(), false));
    assert!(said.contains("take it out of"), "{said}");
}

#[test]
fn a_trial_without_an_answer_is_not_passed_over() {
    let mut silent = trial(&name("deploy", CrashPoint::Sent), Vec::new());
    silent.verdict = crate::report::TrialVerdict::Unproven;
    let told = objections(&silent, false);
    assert_eq!(told[0].kind, Kind::Unproven);
    let run = results(vec![silent]);
    assert_eq!(sarif(&run, &facts())["results"][0]["ruleId"], "trial");
    let observed = &oscal(&run, &facts())["results"][0]["observations"];
    assert_eq!(observed[0]["props"][3]["value"], "unproven");
}

#[test]
fn a_new_snapshot_objects_where_it_fails_the_run() {
    let new = trial(&name("deploy", CrashPoint::Sent), Vec::new());
    let new = new.with(Some(SnapshotState::New), None);
    assert_eq!(objections(&new, false), []);
    assert_eq!(objections(&new, true)[0].kind, Kind::Snapshot);
}

#[test]
fn oscal_has_an_observation_for_each_answer_and_a_finding_for_each_control() {
    let run = eventful();
    let document = oscal(&run, &facts());
    let result = &document["results"][0];
    let answers: usize = run.trials.iter().map(|trial| trial.answers.len()).sum();
    let observations = result["observations"].as_array().unwrap();
    // And one for the trial that could not be carried through.
    assert_eq!(observations.len(), answers + 1);
    let findings = result["findings"].as_array().unwrap();
    let of: Vec<(&str, &str)> = findings
        .iter()
        .map(|finding| {
            let target = &finding["target"];
            (
                target["target-id"].as_str().unwrap(),
                target["status"]["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        of,
        [
            ("ac-2.1", "not-satisfied"),
            ("soc-2-cc7.4", "not-satisfied")
        ]
    );
    let known: Vec<&str> = observations
        .iter()
        .map(|observation| observation["uuid"].as_str().unwrap())
        .collect();
    for finding in findings {
        for related in finding["related-observations"].as_array().unwrap() {
            let uuid = related["observation-uuid"].as_str().unwrap();
            assert!(known.contains(&uuid), "{uuid} names nothing");
        }
    }
}

#[test]
fn a_control_is_satisfied_where_everything_held() {
    let good = trial(
        &name("deploy", CrashPoint::Sent),
        vec![answer(Question::Eof, Verdict::Held, "It exited.")],
    );
    let run = results(vec![good]);
    let mut facts = facts();
    facts.population.clear();
    let document = oscal(&run, &facts);
    let findings = &document["results"][0]["findings"];
    assert_eq!(findings[1]["target"]["status"]["state"], "satisfied");
    // The other drill that names it did not run.
    assert_eq!(findings[0]["target"]["status"]["state"], "not-satisfied");
    let remarks = &findings[0]["target"]["status"]["remarks"];
    assert!(remarks.as_str().unwrap().contains("notes"), "{remarks}");
}

#[test]
fn the_same_results_have_the_same_identifiers_and_others_have_others() {
    let (run, facts) = (eventful(), facts());
    assert_eq!(oscal(&run, &facts), oscal(&run, &facts));
    let mut other = run.clone();
    other.trials[1].answers[0].because.push('!');
    let of = |run: &Results| oscal(run, &facts)["uuid"].clone();
    assert_ne!(of(&run), of(&other));
}

#[test]
fn the_summary_says_what_did_not_hold_and_how_to_see_it_again() {
    let (run, facts) = (eventful(), facts());
    let said = render_summary(&EndedRun::new(&run, &facts, false));
    for expected in [
        "**6 trials: 3 held, 1 broken, 1 error, 1 ignored, 1 new snapshot, 1 differing snapshot**",
        "| deploy | 1 broken, 2 held | (✗) known 1/3 | ✓ held | ? unproven 1/3 |",
        "| notes | 1 error, 1 held, 1 ignored | ! error 1/2 | ! error 1/2 | ! error 1/2 | · | · |",
        "- **deploy::after-acceptance** (`tools/my drills/drills/deploy.yaml`, line 11)",
        "  - quiet unproven: The quiet period was cut short",
        "  - again: `cargo drill deploy::after-acceptance --exact`",
        "(known: reported upstream)",
        "- **notes**, 1 trial: fixtures/node/node\\_modules is missing",
        "- **SOC 2 CC7.4**: broken",
    ] {
        assert!(said.contains(expected), "`{expected}` in\n{said}");
    }
}

#[test]
fn a_summary_of_a_thousand_broken_trials_is_bounded_and_says_what_is_left_out() {
    let sentence = "x".repeat(400);
    let answers: Vec<Answer> = Question::ALL
        .iter()
        .map(|question| {
            answer(
                *question,
                Verdict::Broken,
                &format!("{question} {sentence}"),
            )
        })
        .collect();
    let trials: Vec<TrialResult> = (0..1000)
        .map(|at| {
            trial(
                &name(&format!("drill-{at}"), CrashPoint::Sent),
                answers.clone(),
            )
        })
        .collect();
    let mut run = results(trials);
    run.trials.push(TrialResult::ignored(
        &name("notes", CrashPoint::Sent),
        "npm is missing",
    ));
    let said = render_summary(&EndedRun::new(&run, &facts(), false));
    assert!(said.len() < 512 * 1024, "{}", said.len());
    assert!(said.contains("more trials: see `results.json`"));
    // There is room for what comes after it.
    assert!(said.contains("npm is missing"));
    assert!(said.contains("**SOC 2 CC7.4**: not evidenced"));
}

#[test]
fn annotations_point_into_the_drill_s_file_the_worst_first() {
    let (run, facts) = (eventful(), facts());
    let said = render_annotations(&EndedRun::new(&run, &facts, false), "reports/runs/x");
    let lines: Vec<&str> = said.lines().collect();
    let starts = [
        "::error file=tools/my drills/drills/notes.yaml,line=15,title=notes%3A%3Astartup error::failed to start",
        "::error file=tools/my drills/drills/deploy.yaml,line=11,title=deploy%3A%3Aafter-acceptance reconcile broken::",
        "::error file=tools/my drills/drills/deploy.yaml,line=11,title=deploy%3A%3Aafter-acceptance quiet unproven::",
        "::error file=tools/my drills/drills/notes.yaml,line=14,title=notes%3A%3Aidle::The snapshot differs",
        "::warning file=tools/my drills/drills/deploy.yaml,line=13,title=deploy%3A%3Aafter-result eof known::",
        "::notice title=cargo drill::3 held, 1 broken, 1 error, 1 ignored",
    ];
    assert_eq!(lines.len(), starts.len(), "{said}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[test]
fn the_notice_says_how_many_annotations_github_leaves_out() {
    let broken = |at: usize| {
        trial(
            &name(&format!("drill-{at}"), CrashPoint::Sent),
            vec![answer(Question::Eof, Verdict::Broken, "It is alive.")],
        )
    };
    let of = |count: usize| {
        let run = results((0..count).map(broken).collect());
        render_annotations(&EndedRun::new(&run, &RunFacts::default(), false), "runs/x")
    };
    assert!(!of(10).contains("GitHub shows"));
    assert!(of(11).contains("GitHub shows 10 of 11 errors; all are in runs/x/summary.md"));
}

#[test]
fn an_empty_slice_is_no_error() {
    let run = results(Vec::new());
    let facts = RunFacts {
        partition: Some("slice:3/3".to_owned()),
        ..RunFacts::default()
    };
    let said = render_annotations(&EndedRun::new(&run, &facts, false), "runs/x");
    assert!(said.starts_with("::notice"), "{said}");
}

#[test]
fn a_run_in_which_nothing_was_run_says_so_and_shows_nothing_as_held() {
    let ignored = TrialResult::ignored(&name("notes", CrashPoint::Sent), "npm is missing");
    let run = results(vec![ignored]);
    let said = render_summary(&EndedRun::new(&run, &facts(), false));
    assert!(said.contains("nothing is proven"), "{said}");
    assert!(!said.contains("✓"), "{said}");
    let annotations = render_annotations(&EndedRun::new(&run, &facts(), false), "runs/x");
    assert!(
        annotations.starts_with("::error title=cargo drill::Nothing was run"),
        "{annotations}"
    );
}

//! `junit.xml`, for the systems that read nothing else: a suite for each drill, a case for each trial.
//!
//! `JUnit` knows no `unproven`; it gates, so it is a failure, and its type says which.
//!
//! No schema of `JUnit` lets a case have properties, and the one of Jenkins is enforced by those who use it. So the facts of
//! a run and of a drill are properties of the suite, and what belongs to a case stands in its output, a line each, as
//! `[[PROPERTY|bundle=deploy__sent]]`: a convention that some readers know, and that people can read.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::lines::{MOST_SOUGHT, spell_moments};
use super::outcome::{SnapshotState, TrialResult, TrialVerdict};
use super::style::one_line;
use crate::export::EndedRun;
use crate::journal::printable;

/// The text of `junit.xml`.
pub fn render_junit(run: &EndedRun<'_>) -> Result<String, SerializeError> {
    let mut report = Report::new("cargo-drill");
    let mut suites: Vec<(&str, TestSuite)> = Vec::new();
    for trial in run.results.in_order() {
        if suites.last().is_none_or(|(drill, _)| *drill != trial.drill) {
            suites.push((&trial.drill, suite(run, &trial.drill)));
        }
        if let Some((_, suite)) = suites.last_mut() {
            suite.add_test_case(case(trial, run.new_fails));
        }
    }
    let mut total = Duration::ZERO;
    for (_, mut suite) in suites {
        let time = suite.test_cases.iter().filter_map(|case| case.time).sum();
        total += time;
        suite.set_time(time);
        report.add_test_suite(suite);
    }
    report.set_time(total);
    // The suites count what was skipped. On the root no schema knows the word, and the first is the root's.
    let skipped = format!(" skipped=\"{}\"", report.skipped);
    Ok(report.to_string()?.replacen(&skipped, "", 1))
}

/// A suite with what is known of its run and of its drill.
fn suite(run: &EndedRun<'_>, drill: &str) -> TestSuite {
    let mut suite = TestSuite::new(text(drill));
    suite.timestamp = run.results.started.parse().ok();
    let mut add = |name: &str, value: &str| {
        let value = text(&one_line(value));
        if !value.is_empty() {
            suite.add_property((name, value.as_str()));
        }
    };
    add("run", run.results.run.as_str());
    if let Some(commit) = &run.facts.commit {
        add("commit", &commit.id);
    }
    add("cell", run.facts.cell.as_deref().unwrap_or_default());
    if let Some(facts) = run.drill(drill) {
        add("file", &run.file_of(facts));
        add("sha256", &facts.sha256);
        add("about", facts.about.as_deref().unwrap_or_default());
        add("server", &facts.server.command.join(" "));
        for package in &facts.server.packages {
            add("package", &package.url());
        }
        for control in &facts.controls {
            add("control", control);
        }
    }
    suite
}

fn case(trial: &TrialResult, new_fails: bool) -> TestCase {
    let mut case = TestCase::new(text(&trial.name), status(trial, new_fails));
    case.set_classname(text(&trial.drill));
    case.set_time(Duration::try_from_secs_f64(trial.seconds).unwrap_or_default());
    let properties = properties(trial);
    if !properties.is_empty() {
        let lines: Vec<String> = properties
            .iter()
            .map(|(name, value)| format!("[[PROPERTY|{name}={}]]", text(&one_line(value))))
            .collect();
        case.set_system_out(lines.join("\n"));
    }
    case
}

/// What there is to say of a trial besides its verdict.
fn properties(trial: &TrialResult) -> Vec<(&'static str, String)> {
    let repeats = trial.spell_repeats().map(|said| ("repeats", said));
    let moments = spell_moments(&trial.moments).map(|said| ("moments", said));
    let sought = trial.sought.iter().take(MOST_SOUGHT);
    let sought = sought.map(|sought| ("sought", sought.to_string()));
    let bundles = trial.bundles().into_iter().map(|bundle| ("bundle", bundle));
    repeats
        .into_iter()
        .chain(moments)
        .chain(sought)
        .chain(bundles)
        .collect()
}

fn status(trial: &TrialResult, new_fails: bool) -> TestCaseStatus {
    let of_kind = |kind, word: &str, message: &str| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_type(word).set_message(text(message));
        status
    };
    match trial.verdict {
        TrialVerdict::Ignored => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(text(trial.reason.as_deref().unwrap_or_default()));
            status
        }
        TrialVerdict::Error => of_kind(
            NonSuccessKind::Error,
            "error",
            trial.error.as_deref().unwrap_or_default(),
        ),
        TrialVerdict::Broken | TrialVerdict::Unproven => {
            let sentences: Vec<String> = trial
                .objections()
                .map(|a| format!("{}: {}", a.question, trial.sentence_of(a)))
                .collect();
            of_kind(
                NonSuccessKind::Failure,
                &trial.verdict.to_string(),
                &sentences.join("\n"),
            )
        }
        TrialVerdict::Held => match trial.snapshot {
            Some(SnapshotState::Differs) => of_kind(
                NonSuccessKind::Failure,
                "snapshot",
                "The snapshot differs from the approved one.",
            ),
            Some(SnapshotState::New) if new_fails => of_kind(
                NonSuccessKind::Failure,
                "snapshot",
                "Nobody has approved a snapshot of this trial.",
            ),
            _ => TestCaseStatus::success(),
        },
    }
}

/// Safe to show, and without the two characters that XML has no way to write and that quick-junit lets through.
fn text(untrusted: &str) -> String {
    printable(untrusted).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{eventful, results, unstable};
    use crate::report::{Commit, DrillFacts, Results, RunFacts, ServerFacts};

    fn rendered(results: &Results, new_fails: bool) -> String {
        let facts = RunFacts::default();
        render_junit(&EndedRun::new(results, &facts, new_fails)).unwrap()
    }

    fn parsed(results: &Results, new_fails: bool) -> Report {
        Report::deserialize_from_str(&rendered(results, new_fails)).unwrap()
    }

    #[test]
    fn there_is_a_suite_for_each_drill_and_a_case_for_each_trial() {
        let report = parsed(&eventful(), false);
        let suites: Vec<(&str, usize)> = report
            .test_suites
            .iter()
            .map(|suite| (suite.name.as_str(), suite.test_cases.len()))
            .collect();
        assert_eq!(suites, [("deploy", 3), ("notes", 3)]);
        assert!(
            report
                .test_suites
                .iter()
                .all(|suite| suite.timestamp.is_some())
        );
        // Broken, and a snapshot that differs.
        assert_eq!((report.failures, report.errors), (2, 1));
        assert_eq!(parsed(&eventful(), true).failures, 3);
    }

    #[test]
    fn a_failure_carries_the_sentences_of_its_objections() {
        let report = parsed(&eventful(), false);
        let TestCaseStatus::NonSuccess { message, ty, .. } =
            &report.test_suites[0].test_cases[1].status
        else {
            panic!("the trial is broken");
        };
        let message = message.as_deref().unwrap();
        assert!(message.contains("reconcile: The retry"), "{message}");
        assert!(message.contains("quiet: The quiet"), "{message}");
        assert_eq!(ty.as_deref(), Some("broken"));
    }

    #[test]
    fn a_trial_that_was_not_run_is_skipped_with_its_reason() {
        let report = parsed(&eventful(), false);
        let skipped = report.test_suites[1]
            .test_cases
            .iter()
            .find(|case| case.name.as_str() == "notes::sent")
            .unwrap();
        assert!(matches!(
            &skipped.status,
            TestCaseStatus::Skipped { message: Some(message), .. } if message.contains("npm ci")
        ));
    }

    #[test]
    fn every_repeat_s_bundle_is_named() {
        let report = parsed(&results(vec![unstable()]), false);
        let case = &report.test_suites[0].test_cases[0];
        let said = case.system_out.as_ref().unwrap().as_str().to_owned();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines[0],
            "[[PROPERTY|repeats=held in 19 of 20, broken in 1]]"
        );
        assert_eq!(lines[1], "[[PROPERTY|bundle=deploy__sent]]");
        assert_eq!(lines[2], "[[PROPERTY|bundle=deploy__sent~2]]");
        assert_eq!(lines.len(), 21);
        assert!(case.properties.is_empty(), "no schema has them");
        let TestCaseStatus::NonSuccess { message, .. } = &case.status else {
            panic!("the trial is unstable");
        };
        let expected = "helpers: unstable: held in 19 of 20, broken in 1: pid 12 is alive.";
        assert_eq!(message.as_deref(), Some(expected));
    }

    #[test]
    fn a_suite_says_what_was_drilled() {
        let facts = RunFacts {
            commit: Some(Commit {
                id: "c0ffee".to_owned(),
                dirty: None,
                folder: Some("tools/".to_owned()),
            }),
            drills: vec![DrillFacts {
                drill: "deploy".to_owned(),
                file: "drills/deploy.yaml".to_owned(),
                sha256: "ab".repeat(32),
                about: None,
                controls: vec!["SOC 2 CC7.4".to_owned()],
                known: std::collections::BTreeMap::new(),
                server: ServerFacts::default(),
            }],
            ..RunFacts::default()
        };
        let run = eventful();
        let xml = render_junit(&EndedRun::new(&run, &facts, false)).unwrap();
        let report = Report::deserialize_from_str(&xml).unwrap();
        let properties = &report.test_suites[0].properties;
        let of = |name: &str| {
            let property = properties.iter().find(|p| p.name.as_str() == name);
            property.map(|property| property.value.as_str())
        };
        assert_eq!(of("run"), Some("20261129T234510Z-3f9a"));
        assert_eq!(of("file"), Some("tools/drills/deploy.yaml"));
        assert_eq!(of("control"), Some("SOC 2 CC7.4"));
        assert!(!xml.lines().nth(1).unwrap().contains("skipped"), "{xml}");
    }

    #[test]
    fn control_characters_do_not_reach_the_file() {
        let mut run = eventful();
        run.trials[1].answers[4].because = "a\u{1b}[2J\u{0}\u{9b}\u{ffff}<b>".to_owned();
        let xml = rendered(&run, false);
        assert!(
            !xml.chars()
                .any(|c| (c.is_control() && c != '\n') || c == '\u{ffff}'),
            "{xml}"
        );
        parsed(&run, false);
    }
}

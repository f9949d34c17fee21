//! `junit.xml`, for the systems that read nothing else: a suite for each drill, a case for each trial.
//!
//! `JUnit` knows no `unproven`; it gates, so it is a failure, and its type says which.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, SerializeError, TestCase, TestCaseStatus, TestSuite};

use super::lines::spell_moments;
use super::outcome::{SnapshotState, TrialResult, TrialVerdict};
use super::results::Results;
use crate::journal::printable;

/// The text of `junit.xml`.
///
/// `new_fails` is whether a snapshot that nobody has approved fails the run, as it does in CI.
pub fn render_junit(results: &Results, new_fails: bool) -> Result<String, SerializeError> {
    let mut report = Report::new("cargo-drill");
    report.timestamp = results.started.parse().ok();
    let mut suites: Vec<(&str, TestSuite)> = Vec::new();
    for trial in results.in_order() {
        if suites.last().is_none_or(|(drill, _)| *drill != trial.drill) {
            suites.push((&trial.drill, TestSuite::new(text(&trial.drill))));
        }
        if let Some((_, suite)) = suites.last_mut() {
            suite.add_test_case(case(trial, new_fails));
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
    report.to_string()
}

fn case(trial: &TrialResult, new_fails: bool) -> TestCase {
    let mut case = TestCase::new(text(&trial.name), status(trial, new_fails));
    case.set_classname(text(&trial.drill));
    case.set_time(Duration::try_from_secs_f64(trial.seconds).unwrap_or_default());
    if let Some(repeats) = trial.spell_repeats() {
        case.add_property(("repeats", repeats.as_str()));
    }
    if let Some(moments) = spell_moments(&trial.moments) {
        case.add_property(("moments", text(&moments).as_str()));
    }
    for bundle in trial.bundles() {
        case.add_property(("bundle", text(&bundle).as_str()));
    }
    case
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

    fn parsed(results: &Results, new_fails: bool) -> Report {
        Report::deserialize_from_str(&render_junit(results, new_fails).unwrap()).unwrap()
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
        assert!(report.timestamp.is_some());
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
        let properties = &case.properties;
        let of = |name: &str| {
            let named = properties.iter().filter(|p| p.name.as_str() == name);
            named.map(|p| p.value.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of("repeats"), ["held in 19 of 20, broken in 1"]);
        assert_eq!(of("bundle").len(), 20);
        assert_eq!(of("bundle")[..2], ["deploy__sent", "deploy__sent~2"]);
        let TestCaseStatus::NonSuccess { message, .. } = &case.status else {
            panic!("the trial is unstable");
        };
        let expected = "helpers: unstable: held in 19 of 20, broken in 1: pid 12 is alive.";
        assert_eq!(message.as_deref(), Some(expected));
    }

    #[test]
    fn control_characters_do_not_reach_the_file() {
        let mut run = eventful();
        run.trials[1].answers[4].because = "a\u{1b}[2J\u{0}\u{9b}\u{ffff}<b>".to_owned();
        let xml = render_junit(&run, false).unwrap();
        assert!(
            !xml.chars()
                .any(|c| (c.is_control() && c != '\n') || c == '\u{ffff}'),
            "{xml}"
        );
        parsed(&run, false);
    }
}

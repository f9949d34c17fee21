//! Why a run failed: the last that is said of it, whether it is read on a terminal or on its page.

use super::outcome::{SnapshotState, TrialResult, TrialVerdict};
use super::results::Results;
use super::style::one_line;

/// How many trials are named where many have one thing in common.
const NAMED: usize = 4;

/// What decides whether a run has failed, besides its results.
#[derive(Debug, Clone, Copy, Default)]
pub struct Circumstances<'a> {
    /// A snapshot that nobody has approved fails, as it does in CI.
    pub new_fails: bool,
    /// How many trials were not run because the run was interrupted, where it was.
    pub interrupted: Option<usize>,
    /// Trials of which the repeats have snapshots that differ from each other, so that there is nothing to approve.
    pub torn: &'a [&'a str],
    /// What a command needs to find the drills and reports of this run, with a space before it; often nothing.
    pub flags: &'a str,
}

/// The reasons for which the run failed, a sentence each and the worst first. Empty where it did not.
pub fn reasons(results: &Results, around: Circumstances<'_>) -> Vec<String> {
    let trials = results.in_order();
    let named = |wanted: &dyn Fn(&TrialResult) -> bool| -> Vec<&str> {
        let found = trials.iter().filter(|trial| wanted(trial));
        found.map(|trial| trial.name.as_str()).collect()
    };
    let with = |verdict| named(&|trial| trial.verdict == verdict && !is_stale_alone(trial));
    let flags = around.flags;
    let whither = format!(
        "In CI nothing is approved: run `cargo drill{flags}` and `cargo drill accept{flags}` elsewhere, and commit the \
         snapshots."
    );
    let mut reasons = Vec::new();
    if let Some(left) = around.interrupted {
        reasons.push(match left {
            0 => "The run was interrupted.".to_owned(),
            1 => "The run was interrupted before 1 trial.".to_owned(),
            left => format!("The run was interrupted before {left} trials."),
        });
    }
    for (names, word) in [
        (with(TrialVerdict::Error), "did not complete"),
        (with(TrialVerdict::Broken), "broken"),
        (with(TrialVerdict::Unproven), "unproven"),
    ] {
        let is = match (word, names.len()) {
            ("did not complete", _) => "",
            (_, 1) => "is ",
            _ => "are ",
        };
        if !names.is_empty() {
            let count = trials_of(names.len());
            reasons.push(format!("{count} {is}{word}: {}.", some_of(&names)));
        }
    }
    for trial in trials.iter().filter(|trial| !trial.stale_known.is_empty()) {
        let questions: Vec<String> = trial.stale_known.iter().map(ToString::to_string).collect();
        reasons.push(format!(
            "{} is known to be broken at {}, and holds: take it out of `known`.",
            questions.join(", "),
            one_line(&trial.name)
        ));
    }
    let is_torn = |trial: &TrialResult| around.torn.contains(&trial.name.as_str());
    let differs = |trial: &TrialResult| trial.snapshot == Some(SnapshotState::Differs);
    let differing = named(&|trial| differs(trial) && !is_torn(trial));
    if !differing.is_empty() {
        let snapshots = snapshots_of(&differing, "differs", "differ");
        let advice = if around.new_fails {
            whither.clone()
        } else {
            format!("If the change is meant, approve it with `cargo drill accept{flags}`.")
        };
        reasons.push(format!("{snapshots} from the approved one. {advice}"));
    }
    let torn = named(&|trial| is_torn(trial) && (differs(trial) || around.new_fails));
    if !torn.is_empty() {
        let snapshots = snapshots_of(&torn, "differs", "differ");
        reasons.push(format!(
            "{snapshots} from repeat to repeat, so there is nothing to approve."
        ));
    }
    let new = named(&|trial| trial.snapshot == Some(SnapshotState::New) && !is_torn(trial));
    if around.new_fails && !new.is_empty() {
        let snapshots = snapshots_of(&new, "is new", "are new");
        reasons.push(format!("{snapshots}. {whither}"));
    }
    reasons
}

/// Fails for nothing but that it holds where it is known to be broken.
fn is_stale_alone(trial: &TrialResult) -> bool {
    let mut objections = trial.objections().peekable();
    objections.peek().is_some()
        && objections.all(|answer| trial.stale_known.contains(&answer.question))
}

fn trials_of(count: usize) -> String {
    match count {
        1 => "1 trial".to_owned(),
        count => format!("{count} trials"),
    }
}

fn snapshots_of(names: &[&str], one: &str, many: &str) -> String {
    match names {
        [name] => format!("The snapshot of {} {one}", one_line(name)),
        names => format!("The snapshots of {} {many}", some_of(names)),
    }
}

/// The first few names, and how many more there are.
pub(super) fn some_of(names: &[&str]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| one_line(name))
        .collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Answer, Verdict};
    use crate::report::samples::{answer, name, results, trial};
    use crate::spec::{CrashPoint, Question};

    fn held(point: CrashPoint) -> TrialResult {
        let held = answer(Question::Eof, Verdict::Held, "It exited.");
        trial(&name("deploy", point), vec![held])
    }

    fn with(snapshot: SnapshotState) -> TrialResult {
        held(CrashPoint::Idle).with(Some(snapshot), None)
    }

    #[test]
    fn a_run_that_held_has_no_reason() {
        let run = results(vec![held(CrashPoint::Idle), with(SnapshotState::Same)]);
        assert_eq!(reasons(&run, Circumstances::default()), [""; 0]);
    }

    #[test]
    fn a_snapshot_that_differs_is_named_with_the_command_that_approves_it() {
        let run = results(vec![with(SnapshotState::Differs)]);
        let around = Circumstances {
            flags: " --drills d",
            ..Circumstances::default()
        };
        assert_eq!(
            reasons(&run, around),
            [
                "The snapshot of deploy::idle differs from the approved one. If the change is meant, approve it with \
                 `cargo drill accept --drills d`."
            ]
        );
    }

    #[test]
    fn a_new_snapshot_is_a_reason_in_ci_alone() {
        let run = results(vec![with(SnapshotState::New)]);
        assert_eq!(reasons(&run, Circumstances::default()), [""; 0]);
        let in_ci = Circumstances {
            new_fails: true,
            ..Circumstances::default()
        };
        assert_eq!(
            reasons(&run, in_ci),
            [
                "The snapshot of deploy::idle is new. In CI nothing is approved: run `cargo drill` and `cargo drill \
                 accept` elsewhere, and commit the snapshots."
            ]
        );
    }

    #[test]
    fn what_is_known_to_be_broken_and_holds_is_not_called_broken() {
        let mut stale = held(CrashPoint::Idle);
        stale.verdict = TrialVerdict::Broken;
        stale.stale_known = vec![Question::Eof];
        assert_eq!(
            reasons(&results(vec![stale.clone()]), Circumstances::default()),
            ["eof is known to be broken at deploy::idle, and holds: take it out of `known`."]
        );
        let broken = Answer {
            question: Question::Quiet,
            ..answer(Question::Quiet, Verdict::Broken, "It retried.")
        };
        stale.answers.push(broken);
        let both = reasons(&results(vec![stale]), Circumstances::default());
        assert_eq!(both[0], "1 trial is broken: deploy::idle.");
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn an_interrupted_run_says_what_it_did_not_come_to() {
        let around = Circumstances {
            interrupted: Some(3),
            ..Circumstances::default()
        };
        assert_eq!(
            reasons(&results(Vec::new()), around),
            ["The run was interrupted before 3 trials."]
        );
    }
}

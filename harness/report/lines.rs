//! A trial as it ends: a line for people, one character, or a JSON object.

use std::fmt::Write as _;

use crate::journal::Sought;
use crate::judge::Moments;

use super::outcome::{SnapshotState, TrialResult, TrialVerdict};
use super::style::{Shape, Style, one_line, spell_seconds};

/// So many things that were sought besides the remote are told below a trial.
pub(super) const MOST_SOUGHT: usize = 4;

/// Where the trial's name begins, and what its sentences are indented by.
const NAME_AT: usize = "unproven ".len();

/// `--format pretty`: `held     deploy::after-acceptance  41 ms`, and below it why it did not hold. No newline at the end.
pub fn pretty_line(trial: &TrialResult, style: &Style) -> String {
    let shape = Shape::from(trial.verdict);
    let verdict = format!("{:NAME_AT$}", trial.verdict);
    let mut out = format!("{}{}", style.paint(shape, &verdict), one_line(&trial.name));
    if trial.verdict == TrialVerdict::Ignored {
        if let Some(reason) = &trial.reason {
            below(&mut out, "", &style.sentence(reason, NAME_AT));
        }
        return out;
    }
    let _ = write!(out, "  {}", style.dim(&spell_seconds(trial.seconds)));
    if let Some(repeats) = trial.spell_repeats() {
        let _ = write!(out, "  {}", style.dim(&repeats));
    }
    let unstable = questions(trial, Shape::Unstable);
    if !unstable.is_empty() {
        let unstable = format!("unstable: {unstable}");
        let _ = write!(out, "  {}", style.paint(Shape::Unstable, &unstable));
    }
    let known = questions(trial, Shape::Known);
    if !known.is_empty() {
        let _ = write!(
            out,
            "  {}",
            style.paint(Shape::Known, &format!("known: {known}"))
        );
    }
    if let Some((state, word)) = match trial.snapshot {
        Some(state @ SnapshotState::New) => Some((state, "snapshot new")),
        Some(state @ SnapshotState::Differs) => Some((state, "snapshot differs")),
        Some(SnapshotState::Same) | None => None,
    } {
        let _ = write!(out, "  {}", style.snapshot(state, word));
    }
    if trial.verdict != TrialVerdict::Held {
        for (answers, sentence) in trial.grouped_objections() {
            if let [answer] = answers.as_slice() {
                let name = answer.question.to_string();
                let text = style.sentence(&sentence, NAME_AT + name.len() + 2);
                below(
                    &mut out,
                    &style.paint(Shape::of(answer), &name),
                    &format!(": {text}"),
                );
            } else {
                let names: Vec<String> = answers
                    .iter()
                    .map(|answer| style.paint(Shape::of(answer), &answer.question.to_string()))
                    .collect();
                below(&mut out, &names.join(", "), ":");
                let text = style.sentence(&sentence, NAME_AT + 2);
                below(&mut out, "", &format!("  {text}"));
            }
        }
        if let Some(error) = &trial.error {
            below(&mut out, "", &style.sentence(error, NAME_AT));
        }
        if let Some(moments) = spell_moments(&trial.moments) {
            below(&mut out, "", &style.dim(&moments));
        }
    }
    for line in spell_sought(&trial.sought, MOST_SOUGHT) {
        below(&mut out, "", &style.dim(&style.sentence(&line, NAME_AT)));
    }
    out
}

/// A line each for the first of what was sought besides the remote, and one that says how many there are more.
pub(crate) fn spell_sought(sought: &[Sought], most: usize) -> Vec<String> {
    let more = match sought.len().saturating_sub(most) {
        0 => None,
        more => Some(format!("and {more} more hosts besides the remote")),
    };
    let first = sought.iter().take(most);
    first.map(ToString::to_string).chain(more).collect()
}

/// The three moments, in the order in which they came: `last operation POST /builds at 12 ms, client gone at 15 ms`.
pub(super) fn spell_moments(moments: &Moments) -> Option<String> {
    let operation = moments.last_operation.as_ref();
    let mut came: Vec<(u64, String)> = [
        (moments.client_gone, "client gone".to_owned()),
        (
            operation.map(|operation| operation.at),
            format!(
                "last operation {}",
                operation.map_or("", |operation| operation.name.as_str())
            ),
        ),
        (moments.revoked, "authority revoked".to_owned()),
    ]
    .into_iter()
    .filter_map(|(at, what)| Some((at?, what)))
    .collect();
    came.sort();
    let spelled: Vec<String> = came
        .iter()
        .map(|(at, what)| {
            let seconds = std::time::Duration::from_nanos(*at).as_secs_f64();
            format!("{} at {}", one_line(what), spell_seconds(seconds))
        })
        .collect();
    (!spelled.is_empty()).then(|| spelled.join(", "))
}

/// `--format terse`: one character a trial.
pub fn terse_mark(trial: &TrialResult, style: &Style) -> String {
    let mark = match trial.verdict {
        TrialVerdict::Held => ".",
        TrialVerdict::Broken => "F",
        TrialVerdict::Unproven => "?",
        TrialVerdict::Error => "E",
        TrialVerdict::Ignored => "i",
    };
    style.paint(trial.verdict.into(), mark)
}

/// `--format json`: the object of `results.json` on one line, without a newline at its end.
///
/// JSON escapes C0 alone; the constructors of [`TrialResult`] have escaped the rest of what a terminal acts on.
pub fn json_line(trial: &TrialResult) -> Result<String, serde_json::Error> {
    serde_json::to_string(trial)
}

/// The questions whose answers have this shape.
fn questions(trial: &TrialResult, shape: Shape) -> String {
    let questions: Vec<String> = trial
        .answers
        .iter()
        .filter(|answer| Shape::of(answer) == shape)
        .map(|answer| answer.question.to_string())
        .collect();
    questions.join(", ")
}

fn below(out: &mut String, label: &str, text: &str) {
    let _ = write!(out, "\n{}{label}{text}", " ".repeat(NAME_AT));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::report::TrialName;
    use crate::report::samples::{answer, eventful, name, trial, unstable};
    use crate::spec::{CrashPoint, Question};

    #[test]
    fn a_trial_that_held_takes_one_line() {
        let held = trial(
            &name("deploy", CrashPoint::AfterAcceptance),
            vec![answer(Question::Eof, Verdict::Held, "It exited.")],
        );
        assert_eq!(
            pretty_line(&held, &Style::plain(80)),
            "held     deploy::after-acceptance  41 ms"
        );
    }

    #[test]
    fn a_trial_that_did_not_hold_says_why() {
        let run = eventful();
        assert_eq!(
            pretty_line(&run.trials[1], &Style::plain(80)),
            "\
broken   deploy::after-acceptance  41 ms
         reconcile: The retry in session B made a second build: the remote holds
                    2 builds for call 7c1f, with 2 different idempotency keys.
         quiet: The quiet period was cut short: the remote's port was taken over
                after 212 ms."
        );
        assert_eq!(
            pretty_line(&run.trials[5], &Style::plain(80)),
            "\
error    notes::startup  3 ms
         failed to start the cell: unshare: Operation not permitted"
        );
    }

    #[test]
    fn what_is_excused_stays_visible() {
        assert_eq!(
            pretty_line(&eventful().trials[3], &Style::plain(80)),
            "held     deploy::after-result  41 ms  known: eof  snapshot new"
        );
    }

    #[test]
    fn a_trial_that_is_repeated_says_how_often_it_gave_its_verdict() {
        let once = trial(&name("deploy", CrashPoint::Sent), Vec::new());
        let held = once.repeated([Verdict::Held; 20].into_iter().collect(), 20);
        assert_eq!(
            pretty_line(&held, &Style::plain(100)),
            "held     deploy::sent  41 ms  20 of 20"
        );
        assert_eq!(
            pretty_line(&unstable(), &Style::plain(100)),
            "\
broken   deploy::sent  2.0 s  held in 19 of 20, broken in 1  unstable: helpers  snapshot differs
         helpers: unstable: held in 19 of 20, broken in 1: pid 12 is alive."
        );
    }

    #[test]
    fn one_character_tells_each_verdict() {
        let marks: String = eventful()
            .trials
            .iter()
            .map(|trial| terse_mark(trial, &Style::plain(80)))
            .collect();
        assert_eq!(marks, "iF...E");
    }

    #[test]
    fn json_is_one_line_without_control_characters() {
        let hostile = TrialName {
            variant: Some("\u{1b}[2J\n\u{9b}".to_owned()),
            ..name("deploy", CrashPoint::Sent)
        };
        let line = json_line(&trial(
            &hostile,
            vec![answer(Question::Eof, Verdict::Broken, "a\nb\u{9b}\u{7f}")],
        ))
        .unwrap();
        assert!(!line.chars().any(char::is_control), "{line}");
    }
}

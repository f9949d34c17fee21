//! The line of boundaries of a drill that is crashed at every one: the verdict at each, and where an answer changes.
//!
//! ```text
//! deploy::every  17 boundaries
//!   ✓ torn-call ─ ✓ call-unread ─ ✗ connection-1 ─ ✗ request-1 ─ ✓ after-result
//!   changes at 03-connection-1: effects is broken from here on
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::outcome::{TrialResult, TrialVerdict};
use super::style::{Shape, Style, columns_of, one_line};
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

const INDENT: usize = 2;

/// The lines of all drills that have one; each begins with its drill's name.
pub(super) fn render(out: &mut String, trials: &[&TrialResult], style: Style) {
    for (drill, line) in lines(trials) {
        let count = match line.len() {
            1 => "1 boundary".to_owned(),
            n => format!("{n} boundaries"),
        };
        let heading = style.bold(&one_line(&drill));
        let _ = writeln!(out, "{heading}  {}", style.dim(&count));
        draw(out, &line, style);
        let changes = changes(&line);
        let indent = " ".repeat(INDENT);
        if let Some((first, rest)) = changes.split_first() {
            let _ = writeln!(out, "{indent}first change at {first}");
            for change in rest {
                let _ = writeln!(out, "{indent}then at {change}");
            }
        } else {
            let _ = writeln!(out, "{indent}{}", style.dim("no answer changes along it"));
        }
        out.push('\n');
    }
}

/// The trials of each drill and variant of `every`, in the order of the boundaries.
pub(crate) fn lines<'t>(trials: &[&'t TrialResult]) -> BTreeMap<String, Vec<&'t TrialResult>> {
    let mut lines: BTreeMap<String, Vec<&TrialResult>> = BTreeMap::new();
    for trial in trials {
        let is_run = trial.verdict != TrialVerdict::Ignored;
        if trial.crash_point == CrashPoint::Every && is_run && place(trial).is_some() {
            lines.entry(line_of(trial)).or_default().push(trial);
        }
    }
    for line in lines.values_mut() {
        line.sort_by_key(|trial| place(trial));
    }
    lines
}

/// `deploy::every`, with the name of the crash where it has one.
fn line_of(trial: &TrialResult) -> String {
    let mut parts = trial.name.split("::");
    let (drill, every) = (parts.next(), parts.next());
    let variant = parts.nth(1);
    let parts = [drill, every, variant].into_iter().flatten();
    parts.collect::<Vec<_>>().join("::")
}

/// `03-connection-1`.
fn boundary_of(trial: &TrialResult) -> &str {
    trial.name.split("::").nth(2).unwrap_or_default()
}

/// `connection-1`.
pub(crate) fn short_name(trial: &TrialResult) -> &str {
    boundary_of(trial)
        .split_once('-')
        .map_or("", |(_, name)| name)
}

fn place(trial: &TrialResult) -> Option<u32> {
    boundary_of(trial).split_once('-')?.0.parse().ok()
}

fn draw(out: &mut String, line: &[&TrialResult], style: Style) {
    let joint = if style.unicode { " ─ " } else { " - " };
    let mut column = INDENT;
    out.push_str(&" ".repeat(INDENT));
    for (n, trial) in line.iter().enumerate() {
        let shape = if trial.is_unstable() {
            Shape::Unstable
        } else {
            Shape::from(trial.verdict)
        };
        let name = one_line(short_name(trial));
        let text = format!("{} {name}", style.shape(shape));
        let width = columns_of(&text) + columns_of(joint);
        if n > 0 && column + width > style.width {
            let _ = write!(out, "\n{}", " ".repeat(INDENT));
            column = INDENT;
        } else if n > 0 {
            out.push_str(joint);
        }
        out.push_str(&style.paint(shape, &text));
        column += width;
    }
    out.push('\n');
}

/// Where the verdict of a question is not what it was at the boundary before: `03-connection-1: effects is broken`.
pub(crate) fn changes(line: &[&TrialResult]) -> Vec<String> {
    let mut last: BTreeMap<Question, Verdict> = BTreeMap::new();
    let mut changes = Vec::new();
    for trial in line {
        let now: Vec<(Question, Verdict)> = trial
            .answers
            .iter()
            .map(|answer| (answer.question, answer.verdict))
            .collect();
        let new: Vec<String> = now
            .iter()
            .filter(|(question, verdict)| {
                // The first time that a question is asked it is expected to hold.
                *verdict != last.get(question).copied().unwrap_or(Verdict::Held)
            })
            .map(|(question, verdict)| format!("{question} is {}", TrialVerdict::from(*verdict)))
            .collect();
        if !new.is_empty() {
            let boundary = one_line(boundary_of(trial));
            changes.push(format!("{boundary}: {}", new.join(", ")));
        }
        last.extend(now);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::super::TrialName;
    use super::super::samples::{answer, trial};
    use super::*;

    fn at(boundary: &str, effects: Verdict) -> TrialResult {
        let name = TrialName {
            drill: "deploy".to_owned(),
            point: CrashPoint::Every,
            variant: Some(boundary.to_owned()),
        };
        let eof = answer(Question::Eof, Verdict::Held, "It exited.");
        trial(&name, vec![eof, answer(Question::Effects, effects, "Two.")])
    }

    #[test]
    fn the_line_shows_each_boundary_and_where_an_answer_changes() {
        let line = [
            at("01-torn-call", Verdict::Held),
            at("02-connection-1", Verdict::Broken),
            at("10-request-1", Verdict::Broken),
            at("11-after-result", Verdict::Held),
        ];
        let trials: Vec<&TrialResult> = line.iter().rev().collect();
        let mut out = String::new();
        render(&mut out, &trials, Style::plain(100));
        assert_eq!(
            out,
            "deploy::every  4 boundaries\n\
             \x20 ✓ torn-call ─ ✗ connection-1 ─ ✗ request-1 ─ ✓ after-result\n\
             \x20 first change at 02-connection-1: effects is broken\n\
             \x20 then at 11-after-result: effects is held\n\n"
        );
    }

    #[test]
    fn a_drill_that_is_not_crashed_everywhere_has_no_line() {
        let name = super::super::samples::name("deploy", CrashPoint::Idle);
        let idle = trial(&name, Vec::new());
        let mut out = String::new();
        render(&mut out, &[&idle], Style::plain(80));
        assert_eq!(out, "");
    }
}

//! A judgement on its own, as `cargo drill judge` shows it: every answer with its sentence and its evidence.

use std::fmt::Write as _;

use super::repeats::spell;
use super::style::{Shape, Style, columns_of, one_line};
use crate::judge::{Judgement, Together, Verdict};

const QUESTION_AT: usize = 11;
const SENTENCE_AT: usize = QUESTION_AT + 12;

/// Every answer, with the numbers of the events that prove it. A newline at the end.
pub fn render_judgement(judgement: &Judgement, style: &Style) -> String {
    let mut out = String::new();
    if let Some(error) = &judgement.error {
        let _ = writeln!(out, "error      {}", style.sentence(error, QUESTION_AT));
    }
    if judgement.answers.is_empty() && judgement.verdict == Verdict::Unproven {
        let because = "the run was cut short before its first event: nothing was asked";
        let _ = writeln!(out, "unproven   {}", style.sentence(because, QUESTION_AT));
    }
    for answer in &judgement.answers {
        let shape = Shape::of(answer);
        let word = format!("{} {}", style.shape(shape), shape.word());
        let fill = " ".repeat(QUESTION_AT.saturating_sub(columns_of(&word)));
        let question = format!("{:12}", answer.question.to_string());
        let evidence: Vec<String> = answer.evidence.iter().map(ToString::to_string).collect();
        let evidence = format!("events {}", evidence.join(", "));
        let _ = writeln!(
            out,
            "{}{fill}{question}{}\n{}{}",
            style.paint(shape, &word),
            style.sentence(&answer.because, SENTENCE_AT),
            " ".repeat(SENTENCE_AT),
            style.dim(&style.sentence(&evidence, SENTENCE_AT)),
        );
    }
    for skipped in &judgement.skipped {
        let question = format!("{:12}", skipped.question.to_string());
        let reason = style.sentence(&skipped.reason, SENTENCE_AT);
        let _ = writeln!(out, "{:QUESTION_AT$}{question}{reason}", "left out");
    }
    out
}

/// What is to be said of a trial's repeats besides the judgement of each: the answers whose verdicts differ. Empty where
/// none does.
pub fn render_unstable(trial: &str, together: &Together, style: &Style) -> String {
    let mut out = String::new();
    for answer in &together.judgement.answers {
        let Some(tally) = &answer.unstable else {
            continue;
        };
        if out.is_empty() {
            let heading = format!("{}, {} repeats", one_line(trial), together.repeats.total());
            let _ = writeln!(out, "{heading}");
        }
        let word = format!("{:QUESTION_AT$}", Shape::Unstable.word());
        let _ = writeln!(
            out,
            "{}{:12}{}",
            style.paint(Shape::Unstable, &word),
            answer.question.to_string(),
            spell(tally)
        );
    }
    out
}

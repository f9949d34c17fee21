//! Verdicts in shape, word and colour, and the moments of crashes in words.

use maud::{Markup, html};

use crate::judge::Answer;
use crate::report::{Shape, Style, TrialResult, TrialVerdict};
use crate::spec::{CrashPoint, Question};

/// The shape that a terminal shows as well.
pub(super) fn glyph(shape: Shape) -> &'static str {
    Style::plain(0).shape(shape)
}

/// The class of the style sheet, and so the colour.
pub(super) fn class(shape: Shape) -> &'static str {
    match shape {
        Shape::Held => "held",
        Shape::Broken => "broken",
        Shape::Unproven => "unproven",
        Shape::Error => "error",
        Shape::Unstable => "unstable",
        Shape::Known => "known",
        Shape::Skipped => "left-out",
        Shape::NotAsked => "not-asked",
    }
}

/// Shape and word.
pub(super) fn verdict(shape: Shape) -> Markup {
    html! { span.verdict.(class(shape)) { span aria-hidden="true" { (glyph(shape)) } " " (shape.word()) } }
}

/// What a trial that was run, or not, came to.
pub(super) fn of_trial(trial: &TrialResult) -> Shape {
    if trial.is_unstable() {
        Shape::Unstable
    } else {
        trial.verdict.into()
    }
}

/// What a trial says to a question.
pub(super) fn of_question(trial: &TrialResult, question: Question) -> Option<Shape> {
    if let Some(answer) = trial.answers.iter().find(|a| a.question == question) {
        return Some(Shape::of(answer));
    }
    if trial.skipped.iter().any(|s| s.question == question) {
        return Some(Shape::Skipped);
    }
    (!trial.answers.is_empty()).then_some(Shape::NotAsked)
}

/// The order in which shapes hide one another where one stands for many: the worst is seen.
pub(super) fn weight(shape: Shape) -> u8 {
    match shape {
        Shape::NotAsked => 0,
        Shape::Skipped => 1,
        Shape::Held => 2,
        Shape::Known => 3,
        Shape::Unproven => 4,
        Shape::Unstable => 5,
        Shape::Broken => 6,
        Shape::Error => 7,
    }
}

pub(super) fn was_run(trial: &TrialResult) -> bool {
    trial.verdict != TrialVerdict::Ignored
}

/// `unstable` and the like say how often; a plain answer says its sentence.
pub(super) fn sentence(trial: &TrialResult, answer: &Answer) -> String {
    trial.sentence_of(answer)
}

/// The judge puts what it quotes between backticks. Where a server's own backticks leave them without a partner, the
/// sentence stays as it is.
pub(super) fn with_code(sentence: &str) -> Markup {
    let parts: Vec<&str> = sentence.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (sentence) };
    }
    html! {
        @for (n, part) in parts.iter().enumerate() {
            @if n % 2 == 0 { (part) } @else { code { (part) } }
        }
    }
}

/// What was so when the client died, for a reader who does not know what the names of the points mean. Nothing of it is
/// said of a crash that did not land.
pub(crate) fn moment(trial: &TrialResult) -> &'static str {
    match trial.moments.crash {
        Some(_) => meaning(trial.crash_point),
        None => "The crash did not land at this point.",
    }
}

fn meaning(point: CrashPoint) -> &'static str {
    match point {
        CrashPoint::Startup => "The server was started, and nothing was written to it.",
        CrashPoint::Idle => "The session was open, and nothing had been asked.",
        CrashPoint::TornCall => "Half of the call's line was written.",
        CrashPoint::CallUnread => {
            "The whole line of the call was in the pipe, and the client dead before the server read it."
        }
        CrashPoint::CallWritten => "The server had read the whole line of the call.",
        CrashPoint::BeforeApproval => "An approval was asked for, and nothing was decided.",
        CrashPoint::AfterApproval => "The call was approved, and nobody had been told.",
        CrashPoint::BeforeDispatch => {
            "The server was reaching for the remote; no byte of the request had arrived."
        }
        CrashPoint::Sent => "The remote had the whole request and had not applied it.",
        CrashPoint::AfterAcceptance => {
            "The remote had applied the request, and the reply had not come."
        }
        CrashPoint::TornReply => "Half of the reply was delivered.",
        CrashPoint::AfterReply => {
            "The reply was delivered, and the client had not read the result."
        }
        CrashPoint::AfterResult => "The client had the result: nothing may break here.",
        CrashPoint::Syscall => "The server was held in a system call.",
        CrashPoint::Boundary | CrashPoint::Every => {
            "A boundary of the call, which a clean run of it has shown."
        }
    }
}

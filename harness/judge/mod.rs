//! The judge: answers are a pure function of the drill and the journal. No I/O, no clock.
//!
//! ```text
//!   drill ──────────────┐
//!                       ├─> History ──> one function a question ──> Findings ──> Answer ─┐
//!   journal lines ──────┘   (read only)  eof, helpers, quiet, …     (the worst one        ├─> Judgement
//!                                                                    decides)   known ────┘
//! ```
//!
//! So the same journal gives the same answers years later. The judge takes any journal, also one that stops in the middle:
//! then what is proven broken stays so, and everything else is unproven. It never says `held` of what it did not see.
#![forbid(unsafe_code)]

mod answer;
mod asked;
mod attempts;
mod authority;
mod beside;
mod cast;
mod code;
mod durable;
mod effects;
mod elsewhere;
mod ending;
mod eof;
mod finding;
mod handle;
mod helpers;
mod history;
mod incidents;
mod landed;
mod ledger;
mod limit;
mod lives;
mod lost;
mod mistakes;
mod moment;
mod moments;
mod named;
mod next;
mod ownership;
mod protocol;
mod quiet;
mod reconcile;
mod repeats;
mod resources;
mod revocation;
mod secrets;
mod sentence;
mod spinning;
#[cfg(test)]
mod tests;
mod truth;
mod words;

pub use answer::*;
pub use code::{Code, FINDINGS, Finding, NoSuchCode};
pub use incidents::{Action, Incident, IncidentKind, Party, Place, RevokedBy, Sent, incidents};
pub use moments::{Moments, Operation};
pub use repeats::*;

use crate::journal::{Event, Line, Session, SessionFault};
use crate::spec::{Asked, Count, CrashPoint, Drill, Question};

use elsewhere::Elsewhere;
use finding::Findings;
use history::History;

/// Answers every question that this trial is asked.
#[must_use]
pub fn judge(drill: &Drill, lines: &[Line]) -> Judgement {
    let skipped = asked::skipped(drill);
    let error = |because: String| Judgement {
        verdict: Verdict::Error,
        answers: Vec::new(),
        skipped: skipped.clone(),
        stale_known: Vec::new(),
        moments: Moments::default(),
        sought: Vec::new(),
        error: Some(because),
    };
    // Killed between making the journal and its first line: nothing went wrong, and nothing was seen.
    if lines.is_empty() {
        return Judgement {
            verdict: Verdict::Unproven,
            error: None,
            ..error(String::new())
        };
    }
    let Some(history) = History::of(drill, lines) else {
        return error("the journal does not begin with the start of a trial".to_owned());
    };
    if let Some(because) = failure_of_ours(&history) {
        return error(because);
    }
    let history = history.up_to_breach();
    let mut answers: Vec<Answer> = Question::ALL
        .into_iter()
        .filter_map(|question| answer(&history, question))
        .collect();
    for answer in &mut answers {
        answer.known =
            answer.verdict == Verdict::Broken && listed(&history, answer.question).is_some();
    }
    leave_chance_out(&history, &mut answers);
    let stale_known: Vec<Question> = answers
        .iter()
        .filter(|answer| answer.verdict == Verdict::Held)
        .filter(|answer| listed(&history, answer.question) == Some(Listed::ThisTrial))
        .map(|answer| answer.question)
        .collect();
    Judgement {
        verdict: weigh(&answers, &stale_known),
        answers,
        skipped,
        stale_known,
        moments: moments::moments(&history),
        sought: elsewhere::sought(&history),
        error: None,
    }
}

/// What went wrong on our side or the machine's: then nothing is said of the server.
fn failure_of_ours(history: &History<'_>) -> Option<String> {
    // The crash ends session A's client; that is no failure of it.
    if let Some((ended, exit)) = history.authority_ended() {
        return Some(format!(
            "the authority ended with {exit} in the middle of the trial (event {})",
            ended.seq
        ));
    }
    let crash = history.crash_fired();
    let is_after_crash = |place: usize| crash.is_some_and(|crash| crash.place < place);
    history.all().find_map(|seen| match seen.event {
        Event::TrialFailed { because } => Some(because.clone()),
        Event::SessionFailed {
            session,
            fault: SessionFault::NotExecuted | SessionFault::Client,
            detail,
            ..
        } if *session != Session::A || !is_after_crash(seen.place) => {
            Some(format!("{session} could not be started: {detail}"))
        }
        _ => None,
    })
}

fn answer(history: &History<'_>, question: Question) -> Option<Answer> {
    if !asked::is_asked(history, question) {
        return None;
    }
    let findings = found(history, question)?;
    let ending = match history.breach {
        Some(breach) => limit::ending(history, breach, question),
        None => history.ending(),
    };
    let mut answer = findings.answer(question, ending);
    if question == Question::Ownership
        && let Some(log) = words::log(history.drill)
    {
        answer.named = named::named(history, log).unwrap_or_default();
        if answer.verdict == Verdict::Held
            && let Some(missing) = named::missing(history, &answer.named)
        {
            answer.because = format!("{}; {}", answer.because, missing.said());
            answer.stable = format!("{}; {}", answer.stable, missing.stable());
        }
    }
    Some(answer)
}

fn found(history: &History<'_>, question: Question) -> Option<Findings> {
    // What a trial leaves that did not land, or in which a call came to nothing, cannot be known: `handle` is not asked.
    let is_known = question != Question::Handle;
    let why_not = landed::why_not(history);
    let mistake = mistakes::in_call(history).or_else(|| {
        why_not
            .as_ref()
            .and_then(|_| mistakes::before_crash(history))
    });
    let is_mistaken = mistake.is_some();
    let elsewhere = Elsewhere::of(history);
    if let Some((code, reason, evidence)) = mistake.or(why_not) {
        let instead = elsewhere.and_then(|elsewhere| elsewhere.of_unlanded(question));
        if let Some(findings) = instead.filter(|_| !is_mistaken) {
            return is_known.then_some(findings);
        }
        let mut findings = match question {
            Question::Protocol if is_mistaken => protocol::judge_noise(history),
            Question::Protocol => protocol::judge_unlanded(history),
            Question::Resources => resources::judge_unlanded(history),
            _ => Findings::default(),
        };
        findings.unproven(code, reason, evidence);
        return is_known.then_some(findings);
    }
    let mistake = mistakes::in_credential(history, question)
        .or_else(|| mistakes::in_later_call(history, question));
    match mistake {
        Some((code, reason, evidence)) => {
            is_known.then(|| finding::unproven(code, reason, evidence))
        }
        None => judged(history, question).map(|found| match &elsewhere {
            Some(elsewhere) => elsewhere.amend(question, found),
            None => found,
        }),
    }
}

fn judged(history: &History<'_>, question: Question) -> Option<Findings> {
    let expect = &history.drill.expect;
    match question {
        Question::Eof => Some(eof::judge(history, expect.eof.ask()?)),
        Question::Helpers => Some(helpers::judge(history, expect.helpers.ask()?)),
        Question::Quiet => Some(quiet::judge(history, expect.quiet.ask()?)),
        Question::Effects => Some(effects::judge(history, expect.effects.ask()?)),
        Question::Reconcile => Some(reconcile::judge(history, expect.reconcile.ask()?)),
        Question::Handle => handle::judge(history, words::log(history.drill)?),
        Question::Ownership => {
            let log = expect.ownership.as_ref().and_then(Asked::ask)?;
            Some(ownership::judge(history, log))
        }
        Question::Revocation => Some(revocation::judge(history, expect.revocation.ask()?)),
        Question::Protocol => Some(protocol::judge(history)),
        Question::Secrets => Some(secrets::judge(history)),
        Question::Resources => Some(resources::judge(history)),
    }
}

/// Where the server runs on while its client dies, the effect may come or not. Both are right, and what holds is told in
/// one way or the other: for whoever compares two runs that is no difference.
fn leave_chance_out(history: &History<'_>, answers: &mut [Answer]) {
    let runs_on = (history.is_anywhere() && !history.is_at_approval())
        || matches!(
            history.crash.at,
            CrashPoint::CallUnread | CrashPoint::CallWritten
        );
    let expected = history.drill.expect.effects.ask();
    let either_is_right = expected.is_some_and(|expected| {
        matches!(effects::right_count(history, expected), Count::AtMost(_))
    });
    if !runs_on || !either_is_right {
        return;
    }
    let held = |answer: &&mut Answer| answer.verdict == Verdict::Held;
    for answer in answers.iter_mut().filter(held) {
        answer.stable = match answer.question {
            Question::Effects | Question::Reconcile | Question::Ownership | Question::Quiet => {
                "<whether the effect came or not>".to_owned()
            }
            // It is asked only where an effect came whose outcome is not known.
            Question::Handle => {
                answer.by_chance = true;
                continue;
            }
            _ => continue,
        };
    }
}

/// How the drill lists a question as known to be broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    /// For this trial: it fails once the answer holds.
    ThisTrial,
    /// For the point of this named crash, which it shares with another crash of the drill: it may hold here and be broken
    /// there.
    ItsPoint,
}

fn listed(history: &History<'_>, question: Question) -> Option<Listed> {
    let known = history.drill.known.get(&question)?;
    let crash = history.crash;
    let point = crash.point();
    if crash.of_every.is_some() {
        let variant = crash.variant().unwrap_or_default();
        let names_this = |at: &String| *at == point || *at == variant;
        return if known.at.iter().any(names_this) {
            Some(Listed::ThisTrial)
        } else {
            // At which of the boundaries it is broken is not said.
            let every = CrashPoint::Every.to_string();
            (known.at.is_empty() || known.at.contains(&every)).then_some(Listed::ItsPoint)
        };
    }
    let alone = history
        .drill
        .crash
        .iter()
        .filter(|other| other.point() == point)
        .count()
        == 1;
    let names_this = |at: &String| match &crash.name {
        Some(name) => at == name || *at == format!("{point}::{name}") || (alone && *at == point),
        None => *at == point,
    };
    if known.at.is_empty() || known.at.iter().any(names_this) {
        Some(Listed::ThisTrial)
    } else {
        known.at.contains(&point).then_some(Listed::ItsPoint)
    }
}

/// The worst answer that counts. No answer at all proves nothing.
fn weigh(answers: &[Answer], stale_known: &[Question]) -> Verdict {
    if answers.is_empty() {
        return Verdict::Unproven;
    }
    let stale = (!stale_known.is_empty()).then_some(Verdict::Broken);
    answers
        .iter()
        .filter(|answer| !answer.known)
        .map(|answer| answer.verdict)
        .chain(stale)
        .max()
        .unwrap_or(Verdict::Held)
}

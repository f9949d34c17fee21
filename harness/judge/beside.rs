//! The session beside session A: it is not crashed, so nothing may befall it, and its rows are its own.
//!
//! What it lost is told under the question that lost it: a session that was disturbed under `resources`, a write that
//! vanished under `effects`, a row that names another owner under `ownership`.
#![forbid(unsafe_code)]

use crate::journal::{AnswerShape, Moment, Phase, Pid, Session};
use crate::spec::Ownership;

use super::code::Code;
use super::finding::Findings;
use super::history::{Failure, History, Reply};
use super::ledger::seqs;
use super::sentence::{Sentence, counted, say};

/// `resources`: it is still there when session A is gone, and its call works.
pub(super) fn undisturbed(history: &History<'_>, findings: &mut Findings) {
    if !history.drill.client.beside {
        return;
    }
    if let Some(failure) = history.failure(Session::Beside) {
        disturbed(history, failure, findings);
        return;
    }
    let Some(reply) = history.reply(Session::Beside) else {
        let told = say("nothing shows how the call of the session beside ended");
        findings.unproven(Code::ResourcesNotSeen, told, []);
        return;
    };
    if reply.shape == AnswerShape::Result {
        let told = say("the session beside was not disturbed");
        findings.held(told, [reply.seen.seq]);
    } else {
        let told = say("the session beside was disturbed: when session A was gone, ");
        findings.broken(
            Code::ResourcesBeside,
            told.then(what_came(history, reply)),
            [reply.seen.seq],
        );
    }
}

fn disturbed(history: &History<'_>, failure: Failure<'_>, findings: &mut Findings) {
    let was_open = history.handshaken(Session::Beside).is_some();
    if !was_open {
        findings.unproven(
            Code::ResourcesNotSeen,
            say("the session beside could not be opened: ").quote(failure.detail, "detail"),
            [failure.seen.seq],
        );
        return;
    }
    let exit = history
        .cast
        .server(Session::Beside)
        .and_then(|pid| history.exit(pid));
    let (told, evidence) = match exit {
        Some((seen, exit)) => (
            say(format!("its server ended with {exit}")),
            vec![seen.seq, failure.seen.seq],
        ),
        None => (
            Sentence::default().quote(failure.detail, "detail"),
            vec![failure.seen.seq],
        ),
    };
    let recovered = history.phase(Phase::SessionB);
    let by = match recovered {
        Some(recovered) if recovered.place < failure.seen.place => Session::B,
        _ => Session::A,
    };
    findings.broken(
        Code::ResourcesBeside,
        say(format!("the session beside was disturbed by {by}: ")).then(told),
        evidence,
    );
}

fn what_came(history: &History<'_>, reply: Reply<'_>) -> Sentence {
    match reply.shape {
        AnswerShape::Nothing => {
            let why = history.why_nothing(Session::Beside, reply);
            say("its call got no answer").then(why)
        }
        _ => say("its call was answered with an error: ").quote(reply.text, "answer"),
    }
}

/// `effects`: what the session beside was told to be done is done, once.
pub(super) fn own_effect(history: &History<'_>, findings: &mut Findings) {
    let (Some(window), Some(reply)) = (
        history.window_of(Session::Beside),
        history.reply(Session::Beside),
    ) else {
        return;
    };
    if reply.shape != AnswerShape::Result {
        return;
    }
    let effects = history.ledger.effects_in(window);
    if effects.len() != 1 {
        findings.broken(
            Code::EffectsBeside,
            say(format!(
                "the call of the session beside was answered as done, and made {} instead of one of its own",
                counted(effects.len(), "effect", "effects")
            )),
            seqs(&effects).into_iter().chain([reply.seen.seq]),
        );
    }
}

/// `ownership`: the rows of its call name its own run, approval and process.
pub(super) fn own_record(history: &History<'_>, log: &Ownership, findings: &mut Findings) {
    let (Some(owner), Some(reply), Some(record)) = (
        history.identity(Session::Beside),
        history.reply(Session::Beside),
        history.record(Moment::AfterBeside),
    ) else {
        return;
    };
    if reply.shape != AnswerShape::Result || record.unreadable.is_some() {
        return;
    }
    let rows = record.rows_of(owner.call);
    let evidence = [reply.seen.seq, record.seen.seq];
    if rows.is_empty() {
        findings.broken(
            Code::OwnershipBeside,
            say("no row of the record names the call of the session beside"),
            evidence,
        );
        return;
    }
    let named = &log.record;
    for row in rows {
        let is_another = |field: &str, right: &str| {
            row.text(field)
                .is_some_and(|text| !text.is_empty() && text != right)
        };
        let pid: Option<Pid> = row
            .text("process")
            .and_then(|text| text.trim().parse().ok());
        let what = if named.run.is_some() && is_another("run", owner.run) {
            "run"
        } else if named.approval.is_some() && is_another("approval", owner.approval) {
            "approval"
        } else if named.process.is_some() && pid.is_some_and(|pid| history.cast.is_in_tree(pid)) {
            "process"
        } else {
            continue;
        };
        findings.broken(
            Code::OwnershipBeside,
            say(format!(
                "a row of the session beside's call names another {what}"
            )),
            evidence,
        );
        return;
    }
}

//! What the record names of the last call of a session that is gone: who it was, and what came of it.
//!
//! ```text
//!   which run started it · which process sent it · which decision allowed it · which external operation came of it
//! ```
//!
//! Whoever reads the record after a crash has these questions and nothing else to go by. Each is answered here as the
//! record stands when all of session A has ended, whether the drill requires it or not; what is required, and when, is
//! judged in [`ownership`](super::ownership).
#![forbid(unsafe_code)]

use crate::journal::{Row, Session};
use crate::spec::Ownership;

use super::history::History;
use super::sentence::{Sentence, say};
use super::words::{self, Claim};
use super::{Named, Whose};

/// The answers, in the order in which they are asked; `None` where no record was read.
pub(super) fn named(history: &History<'_>, log: &Ownership) -> Option<Vec<Named>> {
    let owner = history.identity(Session::A)?;
    let window = history.window_a();
    let record = history
        .records()
        .rfind(|record| window.contains(record.seen.place))?;
    let rows = record.rows_of(owner.call);
    let pointers = &log.record;
    let is = |field: &str, right: &str| {
        rows.iter()
            .any(|row| row.text(field).as_deref() == Some(right))
    };
    let of_tree = |row: &&Row| {
        let pid = row.text("process").and_then(|pid| pid.trim().parse().ok());
        pid.is_some_and(|pid| history.cast.is_in_tree(pid))
    };
    let by = |answered: bool, pointer: Option<&String>| pointer.filter(|_| answered).cloned();
    let answers = [
        (Whose::Run, by(is("run", owner.run), pointers.run.as_ref())),
        (
            Whose::Process,
            by(rows.iter().any(of_tree), pointers.process.as_ref()),
        ),
        (
            Whose::Decision,
            by(is("approval", owner.approval), pointers.approval.as_ref()),
        ),
        (Whose::Operation, operation(history, log, &rows)),
    ];
    let named = answers.map(|(question, by)| Named {
        question,
        answered: by.is_some(),
        by,
    });
    Some(named.into())
}

/// By the remote's id of what was made, or by the key with which it can be found; where nothing was made, by the row that
/// says so.
fn operation(history: &History<'_>, log: &Ownership, rows: &[&Row]) -> Option<String> {
    let window = history.window_a();
    let effects = history.ledger.effects_in(window);
    let holds = |field: &str, value: &str| {
        rows.iter()
            .any(|row| row.text(field).as_deref() == Some(value))
    };
    if effects.iter().any(|effect| holds("effect", effect.id)) {
        return log.record.effect.clone();
    }
    let mut writes = history
        .ledger
        .requests_in(window)
        .filter(|request| request.writes);
    if writes.any(|request| request.key.is_some_and(|key| holds("key", key))) {
        return log.record.key.clone();
    }
    let (_, claim) = words::outcome(rows, &log.outcomes)?;
    let says_nothing_came = matches!(claim, Claim::Failed | Claim::Refused);
    (effects.is_empty() && says_nothing_came).then(|| log.record.outcome.clone())
}

/// What is missing, for the sentence of an answer that holds all the same: the drill does not ask for it. Where nothing came
/// of the call, nothing can be named.
pub(super) fn missing(history: &History<'_>, named: &[Named]) -> Option<Sentence> {
    let came = !history.ledger.effects_in(history.window_a()).is_empty();
    let missing: Vec<Sentence> = named
        .iter()
        .filter(|named| !named.answered && (came || named.question != Whose::Operation))
        .map(|named| {
            say(match named.question {
                Whose::Run => "which run started it",
                Whose::Process => "which process sent it",
                Whose::Decision => "which decision allowed it",
                Whose::Operation => "which external operation came of it",
            })
        })
        .collect();
    (!missing.is_empty()).then(|| say("the record does not say ").then(Sentence::list(missing)))
}

//! Which questions a trial is asked. A question that cannot be asked is absent, not held; one that the drill leaves out is
//! listed with its reason.
#![forbid(unsafe_code)]

use crate::spec::{Asked, CrashPoint, Drill, Question};

use super::Skipped;
use super::history::History;
use super::ownership;
use super::words;

/// The questions that the drill leaves out.
pub(super) fn skipped(drill: &Drill) -> Vec<Skipped> {
    Question::ALL
        .into_iter()
        .filter_map(|question| {
            skip_reason(drill, question).map(|reason| Skipped {
                question,
                reason: reason.to_owned(),
            })
        })
        .collect()
}

fn skip_reason(drill: &Drill, question: Question) -> Option<&str> {
    let expect = &drill.expect;
    match question {
        Question::Eof => expect.eof.skipped(),
        Question::Helpers => expect.helpers.skipped(),
        Question::Quiet => expect.quiet.skipped(),
        Question::Effects => expect.effects.skipped(),
        Question::Reconcile => expect.reconcile.skipped(),
        Question::Handle => expect.handle.skipped(),
        Question::Ownership => expect.ownership.as_ref().and_then(Asked::skipped),
        Question::Revocation => expect.revocation.skipped(),
        Question::Protocol => expect.protocol.skipped(),
        Question::Secrets => expect.secrets.skipped(),
        Question::Resources => expect.resources.skipped(),
    }
}

/// Whether this trial is asked this question, as far as the drill and the crash decide it. `handle` depends on what the
/// trial leaves as well.
pub(super) fn is_asked(history: &History<'_>, question: Question) -> bool {
    let drill = history.drill;
    if skip_reason(drill, question).is_some() {
        return false;
    }
    match question {
        Question::Quiet | Question::Protocol | Question::Secrets | Question::Resources => true,
        Question::Eof => history.sends_eof(),
        // With a session that goes on, helpers are in use.
        Question::Helpers => history.ends_session(),
        Question::Effects => history.makes_effects(),
        Question::Reconcile => drill.recover.is_some(),
        Question::Handle => words::log(drill).is_some() && drill.remote.is_some(),
        Question::Ownership => {
            words::log(drill).is_some()
                && history.crash.at >= CrashPoint::BeforeApproval
                && ownership::is_due(history)
        }
        Question::Revocation => drill.authority.is_some(),
    }
}

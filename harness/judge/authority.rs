//! What the journal tells of the authority: what it revoked and decided, whose calls it made, and whether it was there.
#![forbid(unsafe_code)]

use crate::journal::{Credential, Event, Exit, Phase};
use crate::spec::{CrashPoint, Revocable};

use super::attempts::failed_command_in;
use super::history::{History, Seen, Window};
use super::ledger::Request;
use super::sentence::Sentence;

impl<'a> History<'a> {
    pub(super) fn revoked(&self) -> Option<Seen<'a>> {
        // A job that is cancelled leaves its run what it was.
        self.first(|e| matches!(e, Event::Revoked { of, .. } if *of != Revocable::Job))
    }

    /// Whether the call waits for a decision when the crash comes: nothing has been dispatched then.
    pub(super) fn is_at_approval(&self) -> bool {
        matches!(
            self.crash.at,
            CrashPoint::BeforeApproval | CrashPoint::AfterApproval
        )
    }

    /// Whether an authority stands between server and remote: it refuses by itself, makes the calls, and keeps a record.
    pub(super) fn is_brokered(&self) -> bool {
        let authority = self.drill.authority.as_ref();
        authority.is_some_and(|authority| authority.commands().is_some())
    }

    /// Whether the remote has seen calls that the authority made itself.
    pub(super) fn is_called_by_authority(&self) -> bool {
        let mut requests = self.ledger.requests.iter();
        requests.any(|request| matches!(request.credential, Credential::Authority { .. }))
    }

    /// Whether this request asks for a decision.
    pub(super) fn asks_for_decision(&self, request: &Request<'_>) -> bool {
        self.drill.remote.as_ref().is_some_and(|remote| {
            let mut routes = remote.routes.iter();
            routes.any(|route| route.approval && Some(&*route.on) == request.route)
        })
    }

    /// When the authority ended, where that was before the close.
    pub(super) fn authority_ended(&self) -> Option<(Seen<'a>, Exit)> {
        let served = self.all().find_map(|seen| match seen.event {
            Event::AuthorityServes { pid, .. } => Some(*pid),
            _ => None,
        })?;
        // From then on it is the cell that ends it.
        let over = self.first(|e| {
            matches!(
                e,
                Event::PhaseStarted {
                    phase: Phase::Close
                } | Event::Interrupted
                    | Event::TrialFailed { .. }
                    | Event::TrialEnded
            )
        });
        let close = over.map_or(usize::MAX, |seen| seen.place);
        self.exit(served).filter(|(ended, _)| ended.place < close)
    }
}

/// The authority's own journal was found not to be whole: before the revoked session, and since that began. The two are asked
/// by different questions, so that what that session does to the journal breaks only the one for which it is made.
pub(super) fn torn_before_revoked_session<'a>(
    history: &History<'a>,
) -> Option<(Seen<'a>, Sentence)> {
    let to = revoked_session(history);
    failed_command_in(history, "verify", Window { from: 0, to })
}

pub(super) fn torn_since_revoked_session<'a>(
    history: &History<'a>,
) -> Option<(Seen<'a>, Sentence)> {
    let (from, to) = (revoked_session(history), usize::MAX);
    failed_command_in(history, "verify", Window { from, to })
}

fn revoked_session(history: &History<'_>) -> usize {
    let began = history.phase(Phase::RevokedSession);
    began.map_or(usize::MAX, |seen| seen.place)
}

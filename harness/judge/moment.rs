//! Which crash point a trial's answers follow: a moment has one rule, whichever name the drill gave it.
//!
//! A `connection-N` that carries the effect is `before-dispatch`, the `request-N` that makes the effect is `sent`, and so on
//! to `replied-N`, which is `after-reply`. A boundary of a request without an effect is no named point and has rules of its
//! own.
#![forbid(unsafe_code)]

use crate::journal::Event;
use crate::spec::{Boundary, BoundaryEvent, CrashPoint};

use super::history::{History, Seen};
use super::ledger::Request;

impl<'a> History<'a> {
    /// The crash point whose rules hold for this trial.
    pub(super) fn moment(&self) -> CrashPoint {
        let at = self.crash.at;
        let Some(boundary) = self.crash.boundary.filter(|_| at == CrashPoint::Boundary) else {
            return at;
        };
        let named = match boundary.event {
            BoundaryEvent::Connection if self.connection_carries_effect(boundary) => {
                return CrashPoint::BeforeDispatch;
            }
            BoundaryEvent::Connection | BoundaryEvent::Line => return at,
            BoundaryEvent::Request => CrashPoint::Sent,
            BoundaryEvent::Reply => CrashPoint::AfterAcceptance,
            BoundaryEvent::HalfReply => CrashPoint::TornReply,
            BoundaryEvent::Replied => CrashPoint::AfterReply,
        };
        let request = self.request_of(boundary.event);
        if request.is_some_and(|request| request.writes) {
            named
        } else {
            at
        }
    }

    /// What came over the connection that was held decides; where nothing came, what a clean run sent over it.
    fn connection_carries_effect(&self, Boundary { nth, .. }: Boundary) -> bool {
        let crash = self.before_crash();
        let held = self.ledger.connections.iter();
        let held = held.filter(|(_, connection)| connection.is_held_at(crash));
        let came = held
            .filter_map(|(number, _)| {
                let mut requests = self.ledger.requests.iter();
                requests.find(|request| request.connection == *number)
            })
            .next_back();
        match came {
            Some(request) => request.writes,
            None => self.carrier() == Some(nth),
        }
    }

    /// The number, among the connections of the call, of the one that carries the effect: as the drill or a clean run says.
    fn carrier(&self) -> Option<u32> {
        self.crash.connection.or_else(|| {
            self.all().find_map(|seen| match seen.event {
                Event::Rehearsed { connection, .. } => *connection,
                _ => None,
            })
        })
    }

    /// The request that the trial was held at, or whose reply.
    fn request_of(&self, event: BoundaryEvent) -> Option<&Request<'a>> {
        let crash = self.before_crash();
        let number = |seen: Seen<'a>| match (event, seen.event) {
            (BoundaryEvent::Request, Event::RequestHeld { request })
            | (BoundaryEvent::Reply, Event::ReplyHeld { request, .. })
            | (BoundaryEvent::HalfReply, Event::HalfReplySent { request, .. })
            | (BoundaryEvent::Replied, Event::ReplySent { request, .. }) => Some(*request),
            _ => None,
        };
        let number = self
            .all()
            .rev()
            .filter(|seen| seen.place < crash)
            .find_map(number)?;
        self.ledger.request(number)
    }

    fn before_crash(&self) -> usize {
        self.crash_fired().map_or(usize::MAX, |seen| seen.place)
    }
}

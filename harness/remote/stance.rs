//! How the remote stands to requests and replies at one moment: what is held, what goes on, and to which request the
//! drill's `then` happens. Nothing here waits; the [`Gate`](super::gate::Gate) does.
//!
//! ```text
//!   arming ──────────── crash ───────────── client gone ─────── release ─────────────────── as ever
//!    as `hold` says      `then` is known     what waits for      nothing is held, and        │
//!                        and takes the one   `then` goes on,     `then` still waits for a    │
//!                        request             unless withheld     request that comes late     │
//! ```

use crate::spec::{Decision, Then};

use super::Hold;

/// What there is of a request when it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It has arrived, and nothing has come of it.
    Request,
    /// It was applied, and no byte of its reply is out.
    Reply,
    /// Half of its reply is out.
    OtherHalf,
}

impl Part {
    /// Whether this can still happen to the request. What was applied is not turned away any more, and whoever has half of a
    /// reply has its status already.
    fn suits(self, then: Then) -> bool {
        match (self, then) {
            // These two govern all requests and take none.
            (_, Then::Given | Then::Held) => false,
            (Self::Request, _) | (Self::OtherHalf, Then::Dropped | Then::Slow) => true,
            (Self::Reply, then) => !then.is_before_commit(),
            (Self::OtherHalf, _) => false,
        }
    }
}

/// How a reply is written.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Whole,
    /// One half, and the other when the gate lets it go.
    Halved,
    /// The head at once, the body byte by byte, and its last byte not before the release.
    Slow,
    /// Not at all: the connection is reset.
    Reset,
}

/// What comes back for a request that was asked.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// Its reply.
    Reply(Pace),
    /// An error in place of its reply.
    Error,
    /// The reply to the same request, sent once more.
    Replay,
}

/// Of a reply that is made, where its delivery is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Waits,
    GoesOut,
}

/// How the remote stands to requests and replies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stance {
    hold: Hold,
    /// From the crash on.
    next: Option<Then>,
    decision: Decision,
    /// Decisions that waited for the revocation go on.
    decisions_given: bool,
    client_gone: bool,
    released: bool,
    /// Of replies that wait to be delivered.
    delivery: Delivery,
    /// The effect request that was held first.
    held: Option<(u32, Part)>,
    /// The effect request to which `next` happens, once.
    taken: Option<u32>,
    /// Since arming: requests that have arrived, replies that were made, replies that were delivered.
    arrived: u32,
    made: u32,
    delivered: u32,
}

impl Stance {
    /// Holds nothing.
    pub fn open() -> Self {
        Self {
            released: true,
            ..Self::armed(Hold::Nothing)
        }
    }

    pub fn armed(hold: Hold) -> Self {
        Self {
            hold,
            next: None,
            decision: Decision::Given,
            decisions_given: false,
            client_gone: false,
            released: false,
            delivery: Delivery::Waits,
            held: None,
            taken: None,
            arrived: 0,
            made: 0,
            delivered: 0,
        }
    }

    // ---- what happens to the remote --------------------------------------------------------------------------

    /// After the release a crash means nothing to the remote any more.
    pub fn crash(&mut self, then: Then) {
        if self.released {
            return;
        }
        self.next = Some(then);
        self.taken = self
            .held
            .filter(|(_, part)| part.suits(then))
            .map(|(request, _)| request);
    }

    pub fn deliver_replies(&mut self) {
        self.delivery = Delivery::GoesOut;
    }

    pub fn decide_as(&mut self, decision: Decision) {
        self.decision = decision;
    }

    pub fn give_decisions(&mut self) {
        self.decisions_given = true;
    }

    pub fn lose_client(&mut self) {
        self.client_gone = self.next.is_some();
    }

    pub fn release(&mut self) {
        self.released = true;
    }

    /// What has not happened by now does not happen any more.
    pub fn settle(&mut self) {
        self.next = None;
        if self.decision == Decision::Refused {
            self.decision = Decision::Given;
        }
    }

    // ---- what happens to requests ----------------------------------------------------------------------------

    pub fn arrive(&mut self) {
        self.arrived = self.arrived.saturating_add(1);
    }

    pub fn make_reply(&mut self) {
        self.made = self.made.saturating_add(1);
    }

    pub fn deliver(&mut self) {
        self.delivered = self.delivered.saturating_add(1);
    }

    /// This effect request waits, from before the crash on.
    pub fn note_held(&mut self, request: u32, part: Part) {
        if self.next.is_none() {
            self.held.get_or_insert((request, part));
        }
    }

    /// This effect request is decided now: the first one after the crash is the one to which `then` happens.
    pub fn decide(&mut self, request: u32, part: Part) {
        if self.taken.is_none() && self.next.is_some_and(|then| part.suits(then)) {
            self.taken = Some(request);
        }
    }

    fn taken_by(&self, request: u32) -> Option<Then> {
        self.next.filter(|_| self.taken == Some(request))
    }

    // ---- what is held ----------------------------------------------------------------------------------------

    /// Whether what is held goes on now.
    pub fn goes_on(&self) -> bool {
        self.released || (self.client_gone && self.next != Some(Then::Held))
    }

    /// Whether this reply waits, made, to be delivered: whoever is to see its delivery is not ready for it. It is not
    /// withheld.
    pub fn holds_delivery(&self, is_effect: bool, made: bool) -> bool {
        let waits = match self.hold {
            Hold::Delivery => is_effect && made,
            Hold::NthReplied(nth) => self.made >= nth,
            _ => false,
        };
        waits && !self.delivers()
    }

    /// Whether a reply that waited to be delivered goes out now.
    pub fn delivers(&self) -> bool {
        self.delivery == Delivery::GoesOut || !self.is_before_crash()
    }

    /// Whether a decision waits here: before it is made (`Hold::Approval`), or before it is given (`Hold::Decision`). One
    /// that waits for the revocation waits wherever it is asked for.
    pub fn holds_decision(&self, at: Hold) -> bool {
        if self.is_before_crash() {
            return self.hold == at;
        }
        at == Hold::Decision && !self.decisions_go_on()
    }

    /// Whether decisions that wait are given now.
    pub fn decisions_go_on(&self) -> bool {
        match self.decision {
            Decision::AfterRevocation => self.decisions_given,
            Decision::Given | Decision::Refused => self.released,
        }
    }

    /// What is decided.
    pub fn approves(&self) -> bool {
        self.decision != Decision::Refused
    }

    fn is_before_crash(&self) -> bool {
        self.next.is_none() && !self.released
    }

    /// Whether a request that arrives now, whatever it is for, is held before anything comes of it.
    pub fn holds_arrivals(&self) -> bool {
        self.is_before_crash()
            && match self.hold {
                Hold::NthRequest(nth) => self.arrived >= nth,
                Hold::NthReplied(nth) => self.delivered >= nth,
                _ => false,
            }
    }

    /// Whether this effect request is held before it is applied. From the crash on only the one that is to be turned away.
    pub fn holds_applying(&self, request: u32) -> bool {
        (self.is_before_crash() && self.hold == Hold::Request)
            || (!self.goes_on() && self.turns_away(request).is_some())
    }

    /// The status with which this request is turned away instead of being applied.
    pub fn turns_away(&self, request: u32) -> Option<u16> {
        match self.taken_by(request)? {
            Then::Error503 => Some(503),
            Then::Error429 => Some(429),
            _ => None,
        }
    }

    /// Whether this reply is withheld. `made`: it speaks of an effect that the remote holds. From the crash on it is
    /// replies to effect requests that are withheld: all of them, or the one to which something is to happen.
    pub fn holds_reply(&self, request: u32, is_effect: bool, made: bool) -> bool {
        if self.is_before_crash() {
            return match self.hold {
                Hold::Reply => is_effect && made,
                Hold::NthReply(nth) => self.made >= nth,
                _ => false,
            };
        }
        let waits = match self.next {
            Some(Then::Held | Then::Given) => true,
            _ => self.taken_by(request).is_some(),
        };
        is_effect && waits && !self.goes_on()
    }

    /// Whether this reply is torn: half of it goes out, and then nothing.
    fn tears(&self, is_effect: bool, made: bool) -> bool {
        self.is_before_crash()
            && match self.hold {
                Hold::HalfReply => is_effect && made,
                Hold::NthHalfReply(nth) => self.made >= nth,
                _ => false,
            }
    }

    /// What comes back, once nothing holds it any more.
    pub fn course(&self, request: u32, is_effect: bool, made: bool) -> Course {
        match self.taken_by(request).filter(|_| is_effect) {
            Some(Then::Dropped) => Course::Reply(Pace::Reset),
            Some(Then::Error500) => Course::Error,
            Some(Then::Replayed) => Course::Replay,
            // Nothing slows it down after the release.
            Some(Then::Slow) if !self.released => Course::Reply(Pace::Slow),
            _ if self.tears(is_effect, made) => Course::Reply(Pace::Halved),
            _ => Course::Reply(Pace::Whole),
        }
    }

    /// How the other half follows, once nothing holds it any more.
    pub fn other_half(&self, request: u32) -> Pace {
        match self.taken_by(request) {
            Some(Then::Dropped) => Pace::Reset,
            Some(Then::Slow) if !self.released => Pace::Slow,
            _ => Pace::Whole,
        }
    }

    pub fn is_released(&self) -> bool {
        self.released
    }
}

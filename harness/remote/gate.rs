//! The gate: whether a whole request, or a reply, goes on now, and what becomes of it.
//!
//! That something is held is written down while the gate cannot move, so `request-held` and `reply-held` stand in the
//! journal exactly when they are true, and never after `remote-released`.

use std::time::Duration;

use tokio::sync::watch;

use crate::journal::{Event, Journal};
use crate::spec::{Decision, Then};

use super::Hold;
use super::stance::{Course, Pace, Part, Stance};

/// wiremock applies a request in a millisecond, on a loaded machine later.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);

/// Between two bytes of a reply that is given slowly: too short for a time limit between two reads, and long enough that a
/// reply of common size takes more than a second.
const BYTE_EVERY: Duration = Duration::from_millis(20);

/// The gate through which requests and their replies go.
#[derive(Debug)]
pub(super) struct Gate {
    journal: Journal,
    stance: watch::Sender<Stance>,
    /// Effect requests that have arrived and are not applied.
    unapplied: watch::Sender<usize>,
}

/// An effect request on its way to being applied, until this is dropped.
#[must_use]
pub(super) struct Applying<'g>(&'g Gate);

impl Drop for Applying<'_> {
    fn drop(&mut self) {
        self.0.unapplied.send_modify(|requests| *requests -= 1);
    }
}

impl Gate {
    pub fn new(journal: Journal) -> Self {
        Self {
            journal,
            stance: watch::Sender::new(Stance::open()),
            unapplied: watch::Sender::new(0),
        }
    }

    /// From now on holds as `hold` says.
    pub fn arm(&self, hold: Hold) {
        self.stance.send_replace(Stance::armed(hold));
    }

    /// The client is being killed: from now on effect requests are met as `then` says.
    pub fn crash(&self, then: Then) {
        self.stance.send_modify(|stance| stance.crash(then));
    }

    /// Replies that wait to be delivered go out.
    pub fn deliver_replies(&self) {
        self.stance.send_modify(Stance::deliver_replies);
    }

    /// What becomes of a decision that is held.
    pub fn decide_as(&self, decision: Decision) {
        self.stance.send_modify(|stance| stance.decide_as(decision));
    }

    /// Run A is revoked: decisions that waited for that are given.
    pub fn give_decisions(&self) {
        self.stance.send_modify(Stance::give_decisions);
    }

    /// The client is gone: what waits for that goes on.
    pub fn lose_client(&self) {
        self.stance.send_modify(Stance::lose_client);
    }

    /// Everything goes on from here.
    pub fn release(&self) {
        self.stance.send_modify(|stance| {
            self.journal.append(Event::RemoteReleased);
            stance.release();
        });
    }

    /// Requests that come from here on are answered as ever.
    pub fn settle(&self) {
        self.stance.send_modify(Stance::settle);
    }

    /// Returns when what had arrived before the release is applied.
    pub async fn applied(&self) {
        let mut unapplied = self.unapplied.subscribe();
        let none = unapplied.wait_for(|requests| *requests == 0);
        // A server that asks without a pause would be waited for without an end.
        let _ = tokio::time::timeout(APPLIED_WITHIN, none).await;
    }

    /// Returns when something may come of this request, which has just arrived.
    pub async fn before_anything(&self, request: u32, is_effect: bool) -> Option<Applying<'_>> {
        let applying = is_effect.then(|| {
            self.unapplied.send_modify(|requests| *requests += 1);
            Applying(self)
        });
        let held = self.look(|stance| {
            stance.arrive();
            let held = stance.holds_arrivals();
            if held {
                self.note_request(stance, request, is_effect);
            }
            held
        });
        if held {
            self.until_it_goes_on().await;
        }
        applying
    }

    /// Returns when this effect request is to be applied; or not, and the status with which it is turned away.
    pub async fn before_applying(&self, request: u32) -> Result<(), u16> {
        let held = self.look(|stance| {
            stance.decide(request, Part::Request);
            let held = stance.holds_applying(request);
            if held {
                self.note_request(stance, request, true);
            }
            held
        });
        if held {
            self.until_it_goes_on().await;
        }
        self.look(|stance| {
            stance.decide(request, Part::Request);
            let Some(status) = stance.turns_away(request) else {
                return Ok(());
            };
            self.journal
                .append(Event::RequestTurnedAway { request, status });
            Err(status)
        })
    }

    /// Decides about a call, and returns when the decision is to be given, and what is given.
    pub async fn decide(&self, request: u32) -> bool {
        self.hold_decision(request, Hold::Approval).await;
        self.journal.append(Event::Decided {
            request,
            approved: true,
        });
        self.hold_decision(request, Hold::Decision).await;
        let given = self.look(|stance| stance.approves());
        if !given {
            self.journal.append(Event::Decided {
                request,
                approved: false,
            });
        }
        given
    }

    /// Returns when a decision may be made, or be given.
    async fn hold_decision(&self, request: u32, at: Hold) {
        let held = self.look(|stance| {
            let held = stance.holds_decision(at);
            if held {
                self.journal.append(Event::DecisionHeld {
                    request,
                    made: at == Hold::Decision,
                });
            }
            held
        });
        if held {
            self.until(Stance::decisions_go_on).await;
        }
    }

    fn note_request(&self, stance: &mut Stance, request: u32, is_effect: bool) {
        self.journal.append(Event::RequestHeld { request });
        if is_effect {
            stance.note_held(request, Part::Request);
        }
    }

    /// Returns when something is to come back for this request, and what. `made`: its reply speaks of an effect that the
    /// remote holds.
    pub async fn before_replying(
        &self,
        request: u32,
        status: u16,
        is_effect: bool,
        made: bool,
    ) -> Course {
        let waits = self.look(|stance| {
            stance.make_reply();
            let waits = stance.holds_delivery(is_effect, made);
            if waits {
                self.journal.append(Event::ReplyReady { request, status });
            }
            waits
        });
        if waits {
            self.until(Stance::delivers).await;
        }
        let held = self.look(|stance| {
            if is_effect {
                stance.decide(request, Part::Reply);
            }
            let held = stance.holds_reply(request, is_effect, made);
            if held {
                self.journal.append(Event::ReplyHeld { request, status });
                if is_effect {
                    stance.note_held(request, Part::Reply);
                }
            }
            held
        });
        if held {
            self.until_it_goes_on().await;
        }
        self.look(|stance| {
            let course = stance.course(request, is_effect, made);
            if course == Course::Reply(Pace::Slow) {
                self.journal.append(Event::ReplySlowed { request, status });
            }
            course
        })
    }

    /// Called when `bytes` of `whole` bytes of a reply have been handed to the kernel; returns when the others are to follow,
    /// and how.
    pub async fn before_other_half(
        &self,
        request: u32,
        status: u16,
        bytes: u64,
        whole: u64,
    ) -> Pace {
        let held = self.look(|stance| {
            self.journal.append(Event::HalfReplySent {
                request,
                status,
                bytes,
                whole,
            });
            let held = !stance.goes_on();
            if held {
                self.journal.append(Event::ReplyHeld { request, status });
                stance.note_held(request, Part::OtherHalf);
            }
            held
        });
        if held {
            self.until_it_goes_on().await;
        }
        self.look(|stance| {
            let pace = stance.other_half(request);
            if pace == Pace::Slow {
                self.journal.append(Event::ReplySlowed { request, status });
            }
            pace
        })
    }

    /// Returns when the next byte of a slow reply is to follow.
    pub async fn before_byte(&self, is_last: bool) {
        if is_last {
            // Else a short body would be whole long before the release.
            self.until(Stance::is_released).await;
        } else {
            let released = self.until(Stance::is_released);
            let _ = tokio::time::timeout(BYTE_EVERY, released).await;
        }
    }

    /// A reply has been delivered.
    pub fn delivered(&self, request: u32, status: u16) {
        self.look(|stance| {
            self.journal.append(Event::ReplySent { request, status });
            stance.deliver();
        });
    }

    async fn until_it_goes_on(&self) {
        self.until(Stance::goes_on).await;
    }

    async fn until(&self, is: impl Fn(&Stance) -> bool) {
        // The sender lives as long as we do.
        let _ = self.stance.subscribe().wait_for(is).await;
    }

    /// Looks at the stance while it cannot move, and may note something in it. Nobody waits for what is noted.
    fn look<T>(&self, see: impl FnOnce(&mut Stance) -> T) -> T {
        let mut seen = None;
        let mut see = Some(see);
        self.stance.send_if_modified(|stance| {
            seen = see.take().map(|see| see(stance));
            false
        });
        seen.unwrap_or_else(|| unreachable!("send_if_modified calls it once"))
    }
}

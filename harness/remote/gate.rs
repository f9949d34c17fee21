//! The gate: whether a whole request, or a reply, goes on now.
//!
//! That something is held is written down while the gate cannot move, so `request-held` and `reply-held` stand in the
//! journal exactly when they are true, and never after `remote-released`.

use std::time::Duration;

use tokio::sync::watch;

use crate::journal::{Event, Journal};
use crate::spec::ReplyTiming;

use super::Hold;

/// wiremock applies a request in a millisecond, on a loaded machine later.
const APPLIED_WITHIN: Duration = Duration::from_secs(5);

/// How the remote stands to effect requests and their replies.
#[derive(Debug, Clone, Copy)]
struct Stance {
    hold: Hold,
    /// From the crash on.
    replies: Option<ReplyTiming>,
    released: bool,
}

impl Stance {
    /// Once there is a crash, requests that come are applied: what then waits is the reply.
    fn holds_new_requests(self) -> bool {
        self.hold == Hold::Request && self.replies.is_none()
    }

    /// A request held before the crash stays held through the observation, unless replies are to flow: there is none
    /// without it.
    fn keeps_requests(self) -> bool {
        self.hold == Hold::Request && self.replies != Some(ReplyTiming::Given)
    }

    /// Half of the reply goes on, then nothing.
    fn tears_replies(self, made: bool) -> bool {
        self.hold == Hold::HalfReply && made && self.replies.is_none()
    }

    /// As with a request: the rest of a torn reply waits through the observation, unless replies are to flow.
    fn keeps_halves(self) -> bool {
        self.hold == Hold::HalfReply && self.replies != Some(ReplyTiming::Given)
    }

    /// `made`: the reply speaks of an effect that the remote holds. From the crash on, every reply to an effect request
    /// is withheld.
    fn holds_replies(self, made: bool) -> bool {
        match self.replies {
            Some(ReplyTiming::Held) => true,
            Some(ReplyTiming::Given) => false,
            None => self.hold == Hold::Reply && made,
        }
    }
}

/// How a reply is written.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Whole,
    /// One half, and the other when [`Gate::before_other_half`] has returned.
    Halved,
}

/// The gate through which effect requests and their replies go.
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
        let (stance, _) = watch::channel(Stance {
            hold: Hold::Nothing,
            replies: None,
            released: true,
        });
        let (unapplied, _) = watch::channel(0);
        Self {
            journal,
            stance,
            unapplied,
        }
    }

    /// From now on holds as `hold` says.
    pub fn arm(&self, hold: Hold) {
        self.stance.send_replace(Stance {
            hold,
            replies: None,
            released: false,
        });
    }

    /// What becomes of replies from the crash on. After the release nothing is held any more.
    pub fn replies(&self, timing: ReplyTiming) {
        self.stance.send_modify(|stance| {
            if !stance.released {
                stance.replies = Some(timing);
            }
        });
    }

    /// Everything goes on from here.
    pub fn release(&self) {
        self.stance.send_modify(|stance| {
            self.journal.append(Event::RemoteReleased);
            *stance = Stance {
                hold: Hold::Nothing,
                replies: None,
                released: true,
            };
        });
    }

    /// Returns when what had arrived before the release is applied.
    pub async fn applied(&self) {
        let mut unapplied = self.unapplied.subscribe();
        let none = unapplied.wait_for(|requests| *requests == 0);
        // A server that asks without a pause would be waited for without an end.
        let _ = tokio::time::timeout(APPLIED_WITHIN, none).await;
    }

    /// Returns when the request is to be applied.
    pub async fn before_applying(&self, request: u32) -> Applying<'_> {
        self.unapplied.send_modify(|requests| *requests += 1);
        let applying = Applying(self);
        let mut stance = self.stance.subscribe();
        {
            let now = stance.borrow_and_update();
            if !now.holds_new_requests() {
                return applying;
            }
            self.journal.append(Event::RequestHeld { request });
        }
        // The sender lives as long as we do.
        let _ = stance.wait_for(|now| !now.keeps_requests()).await;
        applying
    }

    /// Returns when the reply is to be sent, and how.
    pub async fn before_replying(&self, request: u32, status: u16, made: bool) -> Pace {
        let mut stance = self.stance.subscribe();
        {
            let now = stance.borrow_and_update();
            if now.tears_replies(made) {
                return Pace::Halved;
            }
            if !now.holds_replies(made) {
                return Pace::Whole;
            }
            self.journal.append(Event::ReplyHeld { request, status });
        }
        // As above.
        let _ = stance.wait_for(|now| !now.holds_replies(made)).await;
        Pace::Whole
    }

    /// Called when one half of the reply has been handed to the kernel; returns when the other is to follow.
    pub async fn before_other_half(&self, request: u32, status: u16) {
        let mut stance = self.stance.subscribe();
        {
            let now = stance.borrow_and_update();
            if !now.keeps_halves() {
                return;
            }
            self.journal.append(Event::ReplyHeld { request, status });
        }
        // As above.
        let _ = stance.wait_for(|now| !now.keeps_halves()).await;
    }
}

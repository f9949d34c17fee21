//! What the remote did next with the call's effect request, and what the server can have known of it.
//!
//! ```text
//!   given, replayed ──> the reply came                     its outcome can be known
//!   held, dropped ────> no reply came                      it cannot
//!   slow, torn ───────> a part of it came                  it cannot, unless that part named the effect
//!   error-500 ────────> something came, and not the reply  it cannot: a 500 says nothing of what was done before it
//!   error-503, -429 ──> something came, nothing was done   it can, and need not
//! ```
#![forbid(unsafe_code)]

use crate::journal::Event;
use crate::spec::Then;

use super::history::{History, Seen};
use super::ledger::{Effect, Request};
use super::sentence::{Sentence, say};

/// What the drill had the remote do with a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    /// Turned away with this status before anything was applied.
    pub(super) turned_away: Option<u16>,
    /// Answered with this status in place of its reply.
    pub(super) replaced: Option<u16>,
    /// The connection was reset in place of its reply, or of the rest of it.
    pub(super) reset: bool,
    /// Half of its reply was delivered, or its reply came byte by byte.
    pub(super) in_part: bool,
    pub(super) slowed: bool,
    /// It is not the server's own: a proxy sent this request once more.
    pub(super) replay_of: Option<u32>,
}

impl Fate {
    /// Notes the event, if it tells of such a fate: the request, and the change to make to what is known of it.
    pub(super) fn of(event: &Event) -> Option<(u32, impl FnOnce(&mut Self))> {
        let (request, told) = match event {
            Event::RequestTurnedAway { request, status } => (request, Told::TurnedAway(*status)),
            Event::ReplyReplaced { request, status } => (request, Told::Replaced(*status)),
            Event::ConnectionReset { request } => (request, Told::Reset),
            Event::HalfReplySent { request, .. } => (request, Told::Torn),
            Event::ReplySlowed { request, .. } => (request, Told::Slowed),
            _ => return None,
        };
        Some((*request, move |fate: &mut Self| match told {
            Told::TurnedAway(status) => fate.turned_away = Some(status),
            Told::Replaced(status) => fate.replaced = Some(status),
            Told::Reset => fate.reset = true,
            Told::Torn => fate.in_part = true,
            Told::Slowed => (fate.in_part, fate.slowed) = (true, true),
        }))
    }
}

enum Told {
    TurnedAway(u16),
    Replaced(u16),
    Reset,
    Torn,
    Slowed,
}

impl<'a> History<'a> {
    /// What let a withheld reply go: that the client was gone, where the drill does not withhold it longer, or else the
    /// release.
    pub(super) fn let_go(&self, request: &Request<'a>, held: Seen<'a>) -> Option<Seen<'a>> {
        let early = self.crash.next() != Then::Held && !request.fate.slowed;
        let mut all = self.all().filter(|seen| seen.place > held.place);
        all.find(|seen| match seen.event {
            Event::EofInPipe { .. } => early,
            // No EOF is to come, so the remote does not wait for it.
            Event::CrashFired { .. } => early && !self.sends_eof(),
            Event::RemoteReleased => true,
            _ => false,
        })
    }
}

/// `; a proxy that sent the request once more made one of them`, where one did.
pub(super) fn by_proxy(history: &History<'_>, effects: &[&Effect<'_>]) -> Sentence {
    let is_replay = |effect: &&&Effect<'_>| {
        let request = history.ledger.request(effect.request);
        request.is_some_and(|request| request.fate.replay_of.is_some())
    };
    match (
        effects.len(),
        effects.iter().any(|effect| is_replay(&effect)),
    ) {
        (_, false) => Sentence::default(),
        (1, true) => say("; a proxy that sent the request once more made it"),
        (_, true) => say("; a proxy that sent the request once more made one of them"),
    }
}

/// What came back in place of the reply to these effects' requests, as a clause.
pub(super) fn instead(history: &History<'_>, effects: &[&Effect<'_>]) -> Sentence {
    let fate = effects.iter().find_map(|effect| {
        let fate = history.ledger.request(effect.request)?.fate;
        (fate.replaced.is_some() || fate.reset || fate.in_part).then_some(fate)
    });
    match fate {
        Some(Fate {
            replaced: Some(status),
            ..
        }) => say(format!(
            "a {status}, which says nothing of what was done before it, came in place of the remote's reply"
        )),
        Some(Fate { reset: true, .. }) => {
            say("the connection was reset before the remote's reply had arrived")
        }
        Some(_) => say("the remote's reply never arrived whole"),
        None => say("the remote's reply never arrived"),
    }
}

//! What came over the wire and what the remote made of it, joined by request and by connection.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Credential, Event, Phase, Seq, Session};

use super::history::{Seen, Window};
use super::next::Fate;

/// The number of what the harness itself asks of the remote, past the wire.
const OPERATOR: u32 = 0;

/// A request, with what became of it.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) number: u32,
    pub(super) connection: u32,
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) credential: &'a Credential,
    pub(super) route: Option<&'a str>,
    /// It goes to a route that makes an effect.
    pub(super) writes: bool,
    pub(super) key: Option<&'a str>,
    pub(super) refused: Option<Seen<'a>>,
    pub(super) unmatched: bool,
    /// Its reply was withheld.
    pub(super) held: Option<Seen<'a>>,
    /// The whole reply was handed to the kernel.
    pub(super) replied: Option<Seen<'a>>,
    /// Not the first request on its connection.
    pub(super) again: bool,
    pub(super) fate: Fate,
}

impl Request<'_> {
    fn shows_beside(&self) -> bool {
        let beside = Session::Beside;
        matches!(self.credential, Credential::Run { run, .. } if *run == beside)
    }

    /// By its method it changes nothing (RFC 9110, 9.2.1).
    pub(super) fn is_safe(&self) -> bool {
        matches!(self.method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
    }

    /// `POST /builds`: the route where one matched, otherwise the path without its query.
    pub(super) fn name(&self) -> String {
        self.route.map_or_else(
            || {
                let path = self.target.split('?').next().unwrap_or_default();
                format!("{} {path}", self.method)
            },
            str::to_owned,
        )
    }
}

/// An effect that the remote has applied.
#[derive(Debug, Clone)]
pub(super) struct Effect<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) request: u32,
    pub(super) id: &'a str,
    pub(super) of: &'a str,
    pub(super) key: Option<&'a str>,
}

/// A connection of the server to the remote.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connection<'a> {
    pub(super) sought: Option<Seen<'a>>,
    pub(super) held: Option<Seen<'a>>,
    pub(super) released: Option<Seen<'a>>,
}

impl Connection<'_> {
    /// Whether it was held pending at this place of the journal.
    pub(super) fn is_held_at(&self, place: usize) -> bool {
        self.held.is_some_and(|held| held.place < place)
            && self.released.is_none_or(|released| released.place > place)
    }
}

/// An effect that was answered again instead of being made again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeat<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) effect: &'a str,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Ledger<'a> {
    pub(super) requests: Vec<Request<'a>>,
    pub(super) effects: Vec<Effect<'a>>,
    pub(super) repeats: Vec<Repeat<'a>>,
    pub(super) cancelled: Vec<Repeat<'a>>,
    /// Effects that the operator cancelled.
    pub(super) revoked_jobs: Vec<Repeat<'a>>,
    pub(super) connections: BTreeMap<u32, Connection<'a>>,
    /// Connections that have carried a request.
    pub(super) used: BTreeSet<u32>,
    /// From this place on the session beside is over, and its credential is shown by others.
    beside_over: Option<usize>,
}

impl<'a> Ledger<'a> {
    pub(super) fn of(all: impl Iterator<Item = Seen<'a>>) -> Self {
        let mut ledger = Self::default();
        for seen in all {
            ledger.note(seen);
        }
        ledger
    }

    fn note(&mut self, seen: Seen<'a>) {
        match seen.event {
            Event::PhaseStarted { phase } if *phase > Phase::Beside => {
                self.beside_over.get_or_insert(seen.place);
            }
            Event::ConnectionSought { connection, .. } => {
                self.connection(*connection).sought.get_or_insert(seen);
            }
            Event::ConnectionHeld { connection } => self.connection(*connection).held = Some(seen),
            Event::ConnectionReleased { connection } => {
                self.connection(*connection).released = Some(seen);
            }
            Event::RequestReceived {
                request,
                connection,
                method,
                target,
                credential,
                route,
                effect,
                key,
                body_bytes: _,
            } => {
                let again = !self.used.insert(*connection);
                self.requests.push(Request {
                    seen,
                    number: *request,
                    connection: *connection,
                    method,
                    target,
                    credential,
                    route: route.as_deref(),
                    writes: effect.is_some(),
                    key: key.as_deref(),
                    refused: None,
                    unmatched: false,
                    held: None,
                    replied: None,
                    again,
                    fate: Fate::default(),
                });
            }
            Event::RequestReplayed {
                request,
                as_request,
            } => self.note_replay(seen, *request, *as_request),
            Event::RequestRefused { request, .. } => {
                self.amend(*request, |r| r.refused = Some(seen));
            }
            Event::RequestUnmatched { request, .. } => self.amend(*request, |r| r.unmatched = true),
            Event::ReplyHeld { request, .. } => self.amend(*request, |r| r.held = Some(seen)),
            Event::ReplySent { request, .. } => self.amend(*request, |r| r.replied = Some(seen)),
            Event::EffectApplied {
                request,
                effect,
                of,
                key,
            } => self.effects.push(Effect {
                seen,
                request: *request,
                id: effect,
                of,
                key: key.as_deref(),
            }),
            Event::EffectRepeated { effect, .. } => self.repeats.push(Repeat { seen, effect }),
            Event::EffectCancelled { request, effect } => {
                let by = if *request == OPERATOR {
                    &mut self.revoked_jobs
                } else {
                    &mut self.cancelled
                };
                by.push(Repeat { seen, effect });
            }
            event => {
                if let Some((request, change)) = Fate::of(event) {
                    self.amend(request, |r| change(&mut r.fate));
                }
            }
        }
    }

    /// The same request once more, under a number of its own.
    fn note_replay(&mut self, seen: Seen<'a>, request: u32, as_request: u32) {
        if let Some(first) = self.request(request) {
            let replay = Request {
                seen,
                number: as_request,
                held: None,
                replied: None,
                fate: Fate {
                    replay_of: Some(request),
                    ..Fate::default()
                },
                ..first.clone()
            };
            self.requests.push(replay);
        }
    }

    fn connection(&mut self, number: u32) -> &mut Connection<'a> {
        self.connections.entry(number).or_default()
    }

    fn amend(&mut self, number: u32, change: impl FnOnce(&mut Request<'a>)) {
        if let Some(request) = self.requests.iter_mut().rev().find(|r| r.number == number) {
            change(request);
        }
    }

    /// The requests that the server made in this window: without those of a proxy and of the session beside. The harness
    /// itself asks the remote past the wire: its probes are no requests.
    pub(super) fn requests_in(&self, window: Window) -> impl Iterator<Item = &Request<'a>> {
        self.requests
            .iter()
            .filter(move |r| window.contains(r.seen.place))
            .filter(|r| r.fate.replay_of.is_none() && !self.is_beside(r))
    }

    fn is_beside(&self, request: &Request<'_>) -> bool {
        let is_over = |over| request.seen.place > over;
        request.shows_beside() && !self.beside_over.is_some_and(is_over)
    }

    /// The effects that were applied in this window.
    pub(super) fn effects_in(&self, window: Window) -> Vec<&Effect<'a>> {
        self.effects
            .iter()
            .filter(|effect| window.contains(effect.seen.place))
            .collect()
    }

    pub(super) fn request(&self, number: u32) -> Option<&Request<'a>> {
        self.requests.iter().find(|r| r.number == number)
    }
}

/// The event numbers of these effects.
pub(super) fn seqs(effects: &[&Effect<'_>]) -> Vec<Seq> {
    effects.iter().map(|effect| effect.seen.seq).collect()
}

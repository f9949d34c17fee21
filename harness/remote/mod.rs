//! The remote: the mocked external API that the server under drill writes to.
//!
//! It does things and appends events, and knows no verdict. wiremock matches and answers; the ledger and idempotency
//! live in its responders; the front stands before it and decides *when*:
//!
//! ```text
//!   cell             door               front                      wiremock
//!
//!   connect() ──SYN──> pending?
//!                      sought
//!                      held ─ ─ released
//!                      accepted
//!   request ─────────────────────────> whole, numbered, judged
//!                                      401 / 404
//!                                      request held? ─ ─ client gone, or released
//!                                                  ─────────────> matched
//!                                                                 ledger: applied, repeated, conflict, cancelled
//!                                                  <───────────── reply
//!                                      reply held? ─ ─ client gone, or released
//!   reply  <────────────────────────── sent, replaced, reset, or lost
//! ```
//!
//! Only the front waits. wiremock's responders answer one at a time and must not block, and a client that dies in the
//! middle of a body would be a panic there: so the front collects the whole request first.
//!
//! Every reply says `Connection: close`. Each request then needs a connection of its own, and holding the connection
//! holds exactly one request, before its first byte.

#![forbid(unsafe_code)]

mod authority;
mod connection;
mod door;
mod front;
mod gate;
mod grant;
mod ledger;
mod lookout;
mod misplaced;
mod oauth;
mod packet;
mod paste;
mod queue;
mod reply;
mod request;
mod responder;
mod route;
mod stance;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use serde_json::{Map, Value};
use wiremock::MockServer;

use crate::journal::{Event, Journal};
use crate::spec::{self, Decision, Templates, Then};

use door::Door;
use front::Front;
use gate::Gate;
use ledger::Ledger;
use responder::Answers;
use route::Routes;

pub use authority::{Authority, Issued};
pub use ledger::Effect;

/// Looks at the world at the moment of dispatch of this connection. It may block.
pub type AtDispatch = Arc<dyn Fn(u32) + Send + Sync>;

/// Where the server's connections come in.
pub struct Inlet {
    /// Listens on 127.0.0.1:`port` inside the cell.
    pub listener: TcpListener,
    pub port: u16,
    /// `AF_PACKET`/`SOCK_RAW`, bound to the cell's `lo`, nonblocking. Absent in the fallback cell.
    pub packets: Option<OwnedFd>,
    /// A fresh, unconnected TCP socket in the cell's network namespace. May block.
    pub sockets: Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>,
    /// Local ports of the cell that are in `SYN_SENT` towards `port`. May block.
    pub connecting: Arc<dyn Fn() -> io::Result<Vec<u16>> + Send + Sync>,
}

impl fmt::Debug for Inlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inlet")
            .field("port", &self.port)
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

/// What the remote holds, from arming on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    Nothing,
    /// The nth connection, from 1, and all that come after it: pending, no byte has arrived.
    Connection {
        nth: u32,
    },
    /// Requests for a decision, before anything is decided.
    Approval,
    /// Decisions that were made.
    Decision,
    /// Effect requests, whole, before they are applied.
    Request,
    /// Replies to effects that were applied.
    Reply,
    /// The second half of replies to effects that were applied: the first has been handed to the kernel.
    HalfReply,
    /// The nth request, from 1, whatever it is for, and all that come after it: whole, before anything comes of them.
    NthRequest(u32),
    /// The nth reply, from 1, whatever it is to, and all that come after it.
    NthReply(u32),
    /// The second half of the nth reply, from 1, whatever it is to, and of all that come after it.
    NthHalfReply(u32),
    /// Replies to effects that were applied, until [`Remote::deliver`].
    Delivery,
    /// The nth reply, from 1, whatever it is to, until [`Remote::deliver`]; and what comes after its delivery: requests, as
    /// with `NthRequest`. That it was delivered is the nth `reply-sent` since arming.
    NthReplied(u32),
}

impl Hold {
    /// The first connection that is held.
    fn nth(self) -> Option<u32> {
        match self {
            Self::Connection { nth } => Some(nth),
            _ => None,
        }
    }
}

/// Why the remote could not be started or armed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("the route `{on}` cannot be read: {because}")]
    Route { on: String, because: &'static str },
    #[error("failed to make a token of the authorisation server: {0}")]
    Issuer(String),
    #[error("failed to {doing}: {source}")]
    Io {
        doing: &'static str,
        source: io::Error,
    },
}

/// The remote of one trial.
#[derive(Debug)]
pub struct Remote {
    door: Door,
    front: Arc<Front>,
    /// Dropping it ends wiremock's thread.
    _mock: MockServer,
    journal: Journal,
}

impl Remote {
    /// Starts serving. Templates of replies know `surroundings` as well.
    pub async fn start(
        spec: &spec::Remote,
        authority: Authority,
        inlet: Inlet,
        journal: Journal,
        surroundings: Map<String, Value>,
    ) -> Result<Self, RemoteError> {
        let answers = Arc::new(Answers {
            routes: Routes::new(spec, authority.exchange(), authority.has_issuer())?,
            authority,
            ledger: Ledger::new(journal.clone()),
            templates: Templates::default(),
            journal: journal.clone(),
            surroundings,
        });
        let mock = answers.mount().await;
        let front = Arc::new(Front {
            gate: Gate::new(journal.clone()),
            answers,
            journal: journal.clone(),
            mock: *mock.address(),
            requests: AtomicU32::new(0),
        });
        let door = Door::open(inlet, Arc::clone(&front), journal.clone()).map_err(|source| {
            RemoteError::Io {
                doing: "open the remote's door",
                source,
            }
        })?;
        Ok(Self {
            door,
            front,
            _mock: mock,
            journal,
        })
    }

    /// From now on each new connection is held pending until `at_dispatch` has run; then let through, or held, as `hold`
    /// says. With nothing to run and no connection to hold, connections are accepted as before.
    pub async fn arm(
        &self,
        hold: Hold,
        at_dispatch: Option<AtDispatch>,
    ) -> Result<(), RemoteError> {
        self.door
            .arm(hold, at_dispatch)
            .await
            .map_err(|source| RemoteError::Io {
                doing: "arm the remote",
                source,
            })
    }

    /// Lets go the replies that wait for it; with [`Hold::Delivery`] and [`Hold::NthReplied`] they do, once each is made
    /// (`reply-ready`).
    pub fn deliver(&self) {
        self.front.gate.deliver_replies();
    }

    /// From the crash on: effect requests are met as `then` says. What is held already stays held until the client is gone,
    /// and with [`Then::Held`] until the release. Connections stay as they are.
    pub fn crash(&self, then: Then) {
        self.front.gate.crash(then);
    }

    /// What becomes of a decision that is held, from the crash on. To be said before it.
    pub fn decide(&self, decision: Decision) {
        self.front.gate.decide_as(decision);
    }

    /// Run A is revoked: decisions that waited for that are given.
    pub fn give_decisions(&self) {
        self.front.gate.give_decisions();
    }

    /// The client is gone: what `then` says happens from now on.
    pub fn lose_client(&self) {
        self.front.gate.lose_client();
    }

    /// Connections that are held go on, and none is held any more. Requests and replies stay as they are.
    pub async fn let_connections_go(&self) {
        self.door.let_connections_go().await;
    }

    /// Everything held goes on, nothing is held or watched from here on. Returns when the requests that were held are
    /// applied: they are the work of the session that sent them, whoever comes next.
    pub async fn release(&self) {
        self.door.release().await;
        self.front.gate.applied().await;
    }

    /// What `then` says, and has not happened by now, does not happen any more. The release alone leaves it waiting: a
    /// connection that was held pending brings its request only then.
    pub fn answer_as_ever(&self) {
        self.front.gate.settle();
    }

    /// Returns when all that was sent to the remote so far has come to its end: applied, answered, or lost. For when
    /// nobody is left who could send more.
    pub async fn settle(&self) {
        self.door.settle().await;
    }

    /// Asks the identity route with this token, from inside the harness: the server under drill has no part in it. `None`
    /// where the drill has no such route.
    pub async fn probe(&self, token: &str) -> Option<u16> {
        let (route, status) = self.front.probe(token).await?;
        self.journal.append(Event::Probed { route, status });
        Some(status)
    }

    /// Cancels this effect from inside the harness, with a credential that nobody revokes. Nothing happens where the drill
    /// has no route for it.
    pub async fn cancel(&self, effect: &str) {
        if let Some((route, status)) = self.front.cancel(effect).await {
            self.journal.append(Event::CancelAsked {
                effect: effect.to_owned(),
                route,
                status,
            });
        }
    }

    /// What the remote has applied so far.
    pub fn effects(&self) -> Vec<Effect> {
        self.front.answers.ledger.effects()
    }

    /// Local ports of connections that the remote itself made inside the cell, to fill the queue. They are not the
    /// server's, and a look at the cell's sockets leaves them out.
    pub fn own_ports(&self) -> Vec<u16> {
        self.door.own_ports()
    }

    /// Ends everything. What is still held is lost without a word.
    pub async fn stop(self) {
        self.door.stop().await;
    }
}

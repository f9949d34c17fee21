//! How session A ends: what the crash tells the server, and where the harness's own signals begin.
#![forbid(unsafe_code)]

use crate::journal::{Event, Phase, Session};
use crate::spec::{Group, Kill, Signal, Stream};

use super::history::{History, Seen};

/// signal(7).
pub(super) const SIGKILL: i32 = 9;

impl<'a> History<'a> {
    /// The first signal that the harness sent to a survivor: what comes after it is not of the server's own doing. Signals
    /// up to the crash (a server is stopped and continued at `call-unread`) are part of the point.
    pub(super) fn stop(&self) -> Option<Seen<'a>> {
        let observed = self.phase(Phase::Observe).or_else(|| self.crash_fired())?;
        self.all()
            .filter(|seen| seen.place > observed.place)
            .find(|seen| {
                matches!(
                    seen.event,
                    Event::SignalSent {
                        signal: Signal::Kill | Signal::Term | Signal::Int | Signal::Hup,
                        ..
                    } | Event::PhaseStarted {
                        phase: Phase::Stop
                            | Phase::SessionB
                            | Phase::Beside
                            | Phase::RevokedSession
                            | Phase::Close
                    }
                )
            })
    }

    /// Whether this crash ends the session, so that the server can know it. A stopped client, or one that closes only what
    /// it reads from, still holds the server's stdin open.
    pub(super) fn ends_session(&self) -> bool {
        if self.crash.close.is_empty() {
            self.crash.signal != Signal::Stop
        } else {
            self.crash.close.contains(&Stream::Stdin)
        }
    }

    /// Whether EOF is what this crash tells the server.
    pub(super) fn sends_eof(&self) -> bool {
        let spares_server = matches!(self.crash.kill, Kill::Client | Kill::Polite(_))
            || (self.crash.kill == Kill::Group && self.drill.client.group == Group::Own);
        self.ends_session() && (spares_server || !self.crash.close.is_empty())
    }

    /// Whether this crash ends the server itself, by this signal.
    pub(super) fn kills_server(&self) -> Option<Signal> {
        let reaches_server = match self.crash.kill {
            Kill::Client | Kill::Polite(_) => false,
            Kill::Server | Kill::Both => true,
            Kill::Group => self.drill.client.group == Group::Shared,
        };
        (self.crash.close.is_empty() && reaches_server).then_some(self.crash.signal)
    }

    /// EOF in session A's stdin, as long as nobody had been signalled: a holder that we kill lets EOF through too.
    pub(super) fn eof(&self) -> Option<Seen<'a>> {
        let stop = self.stop().map_or(usize::MAX, |seen| seen.place);
        self.first(|e| {
            matches!(
                e,
                Event::EofInPipe {
                    session: Session::A
                }
            )
        })
        .filter(|seen| seen.place < stop)
    }

    /// EOF never arrived, because somebody whom the client started holds the write end: the server cannot know that its
    /// session is over.
    pub(super) fn eof_is_withheld(&self) -> bool {
        let held = self.last(|e| {
            matches!(
                e,
                Event::StdinHeld {
                    session: Session::A,
                    ..
                }
            )
        });
        self.eof().is_none()
            && held.is_some_and(|held| {
                matches!(held.event, Event::StdinHeld { by_server, by_client, .. }
                    if by_server.is_empty() && !by_client.is_empty())
            })
    }

    /// The client, which shuts the server down politely, sent it this signal.
    pub(super) fn client_signalled(&self, wanted: Signal) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::ClientSignalled { signal, .. } if *signal == wanted))
    }

    /// The moment from which on the server has no session: EOF is in the pipe, or the crash has ended the server.
    pub(super) fn session_gone(&self) -> Option<Seen<'a>> {
        if self.kills_server().is_none() {
            return self.eof();
        }
        let crash = self.crash_fired()?;
        let exit = self
            .cast
            .server(Session::A)
            .and_then(|pid| self.exit(pid))
            .map(|(seen, _)| seen)
            .filter(|seen| seen.place > crash.place);
        // The server may have gone in the same instant; the later of the two is safe.
        Some(exit.unwrap_or(crash))
    }
}

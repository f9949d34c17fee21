//! The journal of one trial, read only and indexed: where phases begin, who was started, what was seen when.
//!
//! Order is that of time, which each event bears from where it happened; events of one time are in the order of their
//! arrival. A `place` is a position in this order, evidence is told by `seq`.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::journal::{
    AnswerShape, CallRole, Event, Exit, Line, Moment, Phase, Pid, Process, Row, Seq, Session,
    SessionFault, Socket, Way, in_time,
};
use crate::spec::{Crash, CrashPoint, Drill, Signal};

use super::cast::Cast;
use super::finding::Ending;
use super::ledger::{Ledger, Request};
use super::limit::Breach;

/// An event and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The position in the order of all things.
    pub(super) place: usize,
    pub(super) seq: Seq,
    pub(super) at: u64,
    pub(super) event: &'a Event,
}

impl Seen<'_> {
    /// Nanoseconds from `earlier` to this.
    pub(super) fn since(&self, earlier: Seen<'_>) -> u64 {
        self.at.saturating_sub(earlier.at)
    }
}

/// A part of the journal: from a place up to, and without, another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Window {
    pub(super) fn contains(self, place: usize) -> bool {
        (self.from..self.to).contains(&place)
    }
}

/// One look at the processes and sockets of the cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) moment: Moment,
    pub(super) session: Session,
    pub(super) processes: &'a [Process],
    pub(super) sockets: &'a [Socket],
}

/// One reading of the ownership log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) moment: Moment,
    pub(super) connection: Option<u32>,
    pub(super) present: bool,
    pub(super) bytes: u64,
    pub(super) rows: &'a [Row],
    pub(super) lines: u64,
    pub(super) torn: u64,
    pub(super) unreadable: Option<&'a str>,
}

impl<'a> Record<'a> {
    /// The rows of one call, in file order.
    pub(super) fn rows_of(&self, call: &str) -> Vec<&'a Row> {
        self.rows
            .iter()
            .filter(|row| row.text("call").as_deref() == Some(call))
            .collect()
    }
}

/// The identity of a session, as the harness minted it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    pub(super) run: &'a str,
    pub(super) call: &'a str,
    pub(super) approval: &'a str,
    /// The run that the client said it was; empty in a journal of before clients did.
    pub(super) declared: &'a str,
}

/// What came back for the main call of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) shape: AnswerShape,
    pub(super) text: &'a str,
}

/// Why a session did not get to its calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) fault: SessionFault,
    pub(super) detail: &'a str,
    pub(super) stderr: &'a str,
}

/// Whether a trial came to its own end: not interrupted, and not killed.
pub(super) fn is_whole<'a>(lines: impl IntoIterator<Item = &'a Line>) -> bool {
    let mut has_ended = false;
    for line in lines {
        match line.event {
            Event::Interrupted => return false,
            Event::TrialEnded => has_ended = true,
            _ => {}
        }
    }
    has_ended
}

/// Bytes of a session so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) into: u64,
    pub(super) out: u64,
}

/// The journal with the drill that it belongs to.
#[derive(Debug)]
pub(super) struct History<'a> {
    pub(super) drill: &'a Drill,
    pub(super) crash: &'a Crash,
    pub(super) ledger: Ledger<'a>,
    pub(super) cast: Cast<'a>,
    /// A limit of the cell was exceeded.
    pub(super) breach: Option<Breach<'a>>,
    /// In the order of time.
    lines: Vec<&'a Line>,
}

impl<'a> History<'a> {
    /// None for a journal that does not say which trial it is of.
    pub(super) fn of(drill: &'a Drill, lines: &'a [Line]) -> Option<Self> {
        let lines = in_time(lines);
        let crash = seen(&lines).find_map(|seen| match seen.event {
            Event::TrialStarted { crash, .. } => Some(crash),
            _ => None,
        })?;
        Some(Self {
            drill,
            crash,
            ledger: Ledger::of(seen(&lines)),
            cast: Cast::of(seen(&lines)),
            breach: Breach::of(seen(&lines)),
            lines,
        })
    }

    /// Without what the cell did when a limit was exceeded, and what came of that.
    pub(super) fn up_to_breach(self) -> Self {
        let Some(breach) = self.breach else {
            return self;
        };
        let lines = self.lines[..breach.place()].to_vec();
        Self {
            ledger: Ledger::of(seen(&lines)),
            cast: Cast::of(seen(&lines)),
            lines,
            ..self
        }
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = Seen<'a>> + use<'_, 'a> {
        seen(&self.lines)
    }

    pub(super) fn within(&self, window: Window) -> impl Iterator<Item = Seen<'a>> + use<'_, 'a> {
        self.all().filter(move |seen| window.contains(seen.place))
    }

    pub(super) fn first(&self, mut is: impl FnMut(&Event) -> bool) -> Option<Seen<'a>> {
        self.all().find(|seen| is(seen.event))
    }

    pub(super) fn last(&self, mut is: impl FnMut(&Event) -> bool) -> Option<Seen<'a>> {
        self.all().rev().find(|seen| is(seen.event))
    }

    /// UTC, RFC 3339.
    pub(super) fn time(&self, seen: Seen<'_>) -> String {
        self.lines
            .get(seen.place)
            .map(|line| line.time.clone())
            .unwrap_or_default()
    }

    pub(super) fn ending(&self) -> Ending {
        let phase = self
            .all()
            .rev()
            .find_map(|seen| match seen.event {
                Event::PhaseStarted { phase } => Some(*phase),
                _ => None,
            })
            .unwrap_or(Phase::Prepare);
        if self.first(|e| matches!(e, Event::Interrupted)).is_some() {
            Ending::Interrupted(phase)
        } else if self.is_whole() {
            Ending::Whole
        } else {
            Ending::CutShort(phase)
        }
    }

    /// The trial came to its own end, so what is absent did not happen.
    pub(super) fn is_whole(&self) -> bool {
        is_whole(self.lines.iter().copied())
    }

    // ---- phases ----------------------------------------------------------------------------------------------

    pub(super) fn phase(&self, wanted: Phase) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::PhaseStarted { phase } if *phase == wanted))
    }

    /// Whether a later phase than this one has begun.
    pub(super) fn is_past(&self, over: Phase) -> bool {
        self.first(|e| matches!(e, Event::PhaseStarted { phase } if *phase > over))
            .is_some()
    }

    pub(super) fn crash_fired(&self) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::CrashFired { .. }))
    }

    pub(super) fn client_gone(&self) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::ClientGone { .. }))
    }

    pub(super) fn released(&self) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::RemoteReleased))
    }

    pub(super) fn quiet_ended(&self) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::QuietEnded { .. }))
    }

    /// From the arming of the point to the end of session A and of everything that it left.
    pub(super) fn window_a(&self) -> Window {
        let armed = self
            .first(|e| matches!(e, Event::Armed { .. }))
            .or_else(|| self.phase(Phase::Arm));
        let from = match (self.crash.at, armed) {
            // Before any call nothing may arrive at all, wherever the arming stands.
            (crate::spec::CrashPoint::Startup, _) => 0,
            (_, Some(armed)) => armed.place,
            (_, None) => self.lines.len(),
        };
        Window {
            from,
            to: self.end_a(),
        }
    }

    /// Whether nothing more can be added to the window of session A.
    pub(super) fn window_a_is_over(&self) -> bool {
        self.quiet_ended().is_some() || self.window_a().to < self.lines.len()
    }

    fn end_a(&self) -> usize {
        self.end_of(Phase::Stop)
    }

    /// The first place behind a phase: where a later one begins, or the trial ends.
    fn end_of(&self, over: Phase) -> usize {
        self.first(|e| match e {
            Event::PhaseStarted { phase } => *phase > over,
            Event::TrialEnded => true,
            _ => false,
        })
        .map_or(self.lines.len(), |seen| seen.place)
    }

    /// All that belongs to one of the sessions. The later ones come one after another, each in a phase of its own, so that
    /// none has a part in the window of another.
    pub(super) fn window_of(&self, session: Session) -> Option<Window> {
        let own = match session {
            Session::A => return Some(self.window_a()),
            Session::B => Phase::SessionB,
            Session::Beside => Phase::Beside,
            Session::Revoked => Phase::RevokedSession,
        };
        Some(Window {
            from: self.phase(own)?.place,
            to: self.end_of(own),
        })
    }

    /// Whether the crash is at a moment that has no place of its own in the call.
    pub(super) fn is_anywhere(&self) -> bool {
        matches!(self.moment(), CrashPoint::Syscall | CrashPoint::Boundary) || self.is_at_approval()
    }

    /// Whether the cell sees each connection before it is made.
    pub(super) fn sees_dispatch(&self) -> bool {
        let packet_socket = self.all().find_map(|seen| match seen.event {
            Event::CellReady { packet_socket, .. } => Some(*packet_socket),
            _ => None,
        });
        packet_socket.unwrap_or_default()
    }

    /// The port of the remote inside the cell.
    pub(super) fn remote_port(&self) -> Option<u16> {
        self.all().find_map(|seen| match seen.event {
            Event::CellReady { remote_port, .. } => Some(*remote_port),
            _ => None,
        })
    }

    // ---- sessions --------------------------------------------------------------------------------------------

    pub(super) fn identity(&self, of: Session) -> Option<Identity<'a>> {
        self.all().find_map(|seen| match seen.event {
            Event::Minted {
                session,
                run,
                call,
                approval,
                declared,
            } if *session == of => Some(Identity {
                run,
                call,
                approval,
                declared,
            }),
            _ => None,
        })
    }

    pub(super) fn handshaken(&self, of: Session) -> Option<Seen<'a>> {
        self.first(|e| matches!(e, Event::Handshaken { session, .. } if *session == of))
    }

    pub(super) fn failure(&self, of: Session) -> Option<Failure<'a>> {
        self.all().find_map(|seen| match seen.event {
            Event::SessionFailed {
                session,
                fault,
                detail,
                stderr_tail,
            } if *session == of => Some(Failure {
                seen,
                fault: *fault,
                detail,
                stderr: stderr_tail,
            }),
            _ => None,
        })
    }

    /// From when on what happens can come of the call: the harness asked for it, or, at the latest, it was written.
    pub(super) fn issued(&self, of: Session, as_role: CallRole) -> Option<Seen<'a>> {
        self.first(|e| match e {
            Event::CallAsked { session, role, .. } | Event::CallIssued { session, role, .. } => {
                *session == of && *role == as_role
            }
            _ => false,
        })
    }

    /// The last answer to a call that a session makes before its main call.
    pub(super) fn answered_before(&self, of: Session) -> Option<Seen<'a>> {
        self.last(|e| {
            matches!(e, Event::CallAnswered { session, role: CallRole::Before, .. } if *session == of)
        })
    }

    /// The correlations of the calls that a session was asked to make.
    pub(super) fn calls_of(&self, of: Session) -> Vec<&'a str> {
        let asked = self.all().filter_map(|seen| match seen.event {
            Event::CallAsked { session, call, .. } if *session == of => Some(call.as_str()),
            _ => None,
        });
        asked.collect()
    }

    /// The correlation of the call that has this JSON-RPC id.
    pub(super) fn call_of(&self, of: Session, id: &str) -> Option<&'a str> {
        self.all().find_map(|seen| match seen.event {
            Event::CallIssued {
                session,
                call,
                rpc_id,
                ..
            } if *session == of && rpc_id == id => Some(call.as_str()),
            _ => None,
        })
    }

    /// What had passed over a session's pipes by then.
    pub(super) fn passed_before(&self, of: Session, then: Seen<'_>) -> Passed {
        let mut passed = Passed::default();
        for seen in self.all().take(then.place) {
            if let Event::LinePassed {
                session,
                way,
                bytes,
                ..
            } = seen.event
                && *session == of
            {
                let sum = match way {
                    Way::ToServer => &mut passed.into,
                    Way::FromServer => &mut passed.out,
                };
                *sum = sum.saturating_add(*bytes);
            }
        }
        passed
    }

    /// The answer to the main call of a session.
    pub(super) fn reply(&self, of: Session) -> Option<Reply<'a>> {
        self.all().find_map(|seen| match seen.event {
            Event::CallAnswered {
                session,
                role: CallRole::Main,
                shape,
                text,
                ..
            } if *session == of => Some(Reply {
                seen,
                shape: *shape,
                text,
            }),
            _ => None,
        })
    }

    pub(super) fn exit(&self, of: Pid) -> Option<(Seen<'a>, Exit)> {
        self.all().find_map(|seen| match seen.event {
            Event::ProcessExited { pid, exit, .. } if *pid == of => Some((seen, *exit)),
            _ => None,
        })
    }

    /// The reply to a request, where it reached a process that ended at this place of the journal.
    ///
    /// A reply that was sent was taken by a living peer, and two witnesses tell of the reply and of the peer's end: when
    /// both happen in the same moment, the end may stand first. What let the reply go stands before both.
    pub(super) fn reply_before(&self, request: u32, end: usize) -> Option<Seen<'a>> {
        let request = self.ledger.request(request)?;
        // An error in its place is not the reply.
        let sent = request
            .replied
            .filter(|_| request.fate.replaced.is_none())?;
        let let_go = match request.held {
            None => Some(request.seen),
            Some(held) => self.let_go(request, held),
        };
        let earliest = let_go.map_or(sent.place, |let_go| let_go.place.min(sent.place));
        (earliest < end).then_some(sent)
    }

    /// The first time that this survivor was sent this signal.
    pub(super) fn signal(&self, to: Pid, wanted: Signal) -> Option<Seen<'a>> {
        let stop = self.stop()?.place;
        self.all().filter(|seen| seen.place >= stop).find(|seen| {
            matches!(seen.event, Event::SignalSent { pid, signal, .. } if *pid == to && *signal == wanted)
        })
    }

    // ---- looks and records -----------------------------------------------------------------------------------

    pub(super) fn looks(&self) -> impl DoubleEndedIterator<Item = Look<'a>> + use<'_, 'a> {
        self.all().filter_map(|seen| match seen.event {
            Event::Looked {
                moment,
                session,
                processes,
                sockets,
            } => Some(Look {
                seen,
                moment: *moment,
                session: *session,
                processes,
                sockets,
            }),
            _ => None,
        })
    }

    pub(super) fn look(&self, moment: Moment) -> Option<Look<'a>> {
        self.looks().rev().find(|look| look.moment == moment)
    }

    pub(super) fn records(&self) -> impl DoubleEndedIterator<Item = Record<'a>> + use<'_, 'a> {
        self.all().filter_map(|seen| match seen.event {
            Event::RecordRead {
                moment,
                connection,
                present,
                bytes,
                rows,
                lines,
                torn,
                unreadable,
            } => Some(Record {
                seen,
                moment: *moment,
                connection: *connection,
                present: *present,
                bytes: *bytes,
                rows,
                lines: *lines,
                torn: *torn,
                unreadable: unreadable.as_deref(),
            }),
            _ => None,
        })
    }

    pub(super) fn record(&self, moment: Moment) -> Option<Record<'a>> {
        self.records().rev().find(|record| record.moment == moment)
    }

    /// The record as session A left it: after the stop, or at the end where the trial is over and nothing came later.
    pub(super) fn record_left(&self) -> Option<Record<'a>> {
        self.record(Moment::AfterStop).or_else(|| {
            self.record(Moment::End)
                .filter(|_| self.phase(Phase::Stop).is_none() && self.is_whole())
        })
    }
}

impl History<'_> {
    /// Whether the remote can make an effect at all.
    pub(super) fn makes_effects(&self) -> bool {
        self.drill.makes_effects()
    }

    /// Whether this request asks the remote what it holds.
    pub(super) fn finds(&self, request: &Request<'_>) -> bool {
        self.drill.remote.as_ref().is_some_and(|remote| {
            let mut routes = remote.routes.iter();
            routes.any(|route| route.find.is_some() && Some(&*route.on) == request.route)
        })
    }
}

/// A limit of the drill, in ns.
pub(super) fn ns(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

fn seen<'a>(lines: &[&'a Line]) -> impl DoubleEndedIterator<Item = Seen<'a>> {
    lines.iter().enumerate().map(|(place, line)| Seen {
        place,
        seq: line.seq,
        at: line.at,
        event: &line.event,
    })
}

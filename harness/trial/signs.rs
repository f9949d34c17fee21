//! The signs of a crash point: which event means that it is reached, and which that it never will be.

use super::gate;
use crate::journal::{CallRole, Entry, Event, Session, SessionFault, Way};
use crate::spec::{Boundary, BoundaryEvent, Crash, CrashPoint};

/// What an event means for whoever waits for a crash point.
pub(super) enum Sign {
    /// It is reached: what proves it.
    Reached(String),
    /// It never will be: what happened instead.
    Missed(String),
    /// The call was answered before it. A server may answer first and write afterwards, so what is on its way still comes.
    Answered(String),
    /// Somebody has ended, or the server's stdout has: the server may be gone.
    Ended,
    /// The reply whose delivery is the point is made, and goes out when the client has stopped reading.
    Ready,
}

/// What has been seen so far on the way to a crash point.
pub(super) struct Signs<'c> {
    crash: &'c Crash,
    armed: bool,
    /// Since the arming.
    replies: u32,
    lines: u32,
    /// The requests that are to make an effect.
    effects: Vec<u32>,
    /// The request whose reply's delivery is the point.
    ready: Option<u32>,
}

impl<'c> Signs<'c> {
    pub fn of(crash: &'c Crash) -> Self {
        Self {
            crash,
            armed: false,
            replies: 0,
            lines: 0,
            effects: Vec::new(),
            ready: None,
        }
    }

    /// What this event means, if it means anything.
    pub fn read(&mut self, entry: &Entry) -> Option<Sign> {
        self.armed |= matches!(*entry.event, Event::Armed { .. });
        if !self.armed {
            return None;
        }
        match &*entry.event {
            Event::RequestReceived {
                request,
                effect: Some(_),
                ..
            } => self.effects.push(*request),
            Event::ReplyReady { request, .. } => {
                self.ready.get_or_insert(*request);
            }
            Event::ReplySent { .. } => self.replies += 1,
            Event::LinePassed {
                session: Session::A,
                way: Way::FromServer,
                ..
            } => self.lines += 1,
            _ => {}
        }
        let boundary = self.crash.boundary;
        boundary
            .and_then(|boundary| self.is_at(boundary, &entry.event))
            .map(Sign::Reached)
            .or_else(|| self.sign(entry))
    }

    fn is_at(&self, Boundary { event, nth }: Boundary, seen: &Event) -> Option<String> {
        match (event, seen) {
            (BoundaryEvent::Connection, Event::ConnectionHeld { connection }) => Some(format!(
                "connection {connection}, number {nth} of the call, is held pending"
            )),
            (BoundaryEvent::Request, Event::RequestHeld { request }) => Some(format!(
                "request {request}, number {nth} of the call, has arrived whole, and nothing has come of it"
            )),
            (BoundaryEvent::Reply, Event::ReplyHeld { request, status }) => Some(format!(
                "the reply to request {request}, number {nth} of the call, status {status}, is made and withheld"
            )),
            (
                BoundaryEvent::HalfReply,
                Event::HalfReplySent {
                    request,
                    status,
                    bytes,
                    whole,
                },
            ) => Some(format!(
                "{bytes} of the {whole} bytes of the reply to request {request}, number {nth} of the call, status \
                 {status}, are delivered"
            )),
            (BoundaryEvent::Replied, Event::ReplySent { request, status })
                if self.replies == nth =>
            {
                Some(format!(
                    "the reply to request {request}, number {nth} of the call, status {status}, is delivered"
                ))
            }
            (
                BoundaryEvent::Line,
                Event::LinePassed {
                    session: Session::A,
                    way: Way::FromServer,
                    bytes,
                    ..
                },
            ) if self.lines == nth => Some(format!(
                "the client has read line {nth} of the call, of {bytes} bytes"
            )),
            _ => None,
        }
    }

    fn sign(&self, entry: &Entry) -> Option<Sign> {
        let point = self.crash.at;
        if point == CrashPoint::Syscall
            && let Some(proof) = gate::sign(entry)
        {
            return Some(Sign::Reached(proof));
        }
        match (&*entry.event, point) {
            (Event::ConnectionHeld { connection }, CrashPoint::BeforeDispatch) => {
                Some(Sign::Reached(format!(
                    "connection {connection}, which carries the effect, is held pending; no byte of it has arrived"
                )))
            }
            (
                Event::DecisionHeld {
                    request,
                    made: false,
                },
                CrashPoint::BeforeApproval,
            ) => Some(Sign::Reached(format!(
                "request {request} asks for a decision, and none is made"
            ))),
            (
                Event::DecisionHeld {
                    request,
                    made: true,
                },
                CrashPoint::AfterApproval,
            ) => Some(Sign::Reached(format!(
                "what request {request} asks about is approved, and nobody has been told"
            ))),
            (Event::RequestHeld { request }, CrashPoint::Sent) => Some(Sign::Reached(format!(
                "request {request} has arrived whole and is not applied"
            ))),
            (Event::ReplyHeld { request, status }, CrashPoint::AfterAcceptance) => {
                Some(Sign::Reached(format!(
                    "request {request} was applied and its reply, status {status}, is withheld"
                )))
            }
            (Event::CallTorn { bytes, of, .. }, CrashPoint::TornCall) => Some(Sign::Reached(
                format!("{bytes} of the {of} bytes of the call's line were written"),
            )),
            (Event::CallUnread { bytes: 0, .. }, CrashPoint::CallUnread) => Some(Sign::Missed(
                "the call's line was read at once, although the server is stopped".to_owned(),
            )),
            (Event::CallUnread { .. }, CrashPoint::CallUnread) => Some(Sign::Reached(
                "the call's line is written whole and unread, and the server is stopped".to_owned(),
            )),
            (Event::CallTaken { .. }, CrashPoint::CallWritten) => Some(Sign::Reached(
                "the call's line is written whole, and nothing in the server's stdin is unread"
                    .to_owned(),
            )),
            (Event::ReplySent { request, status }, CrashPoint::AfterReply)
                if self.effects.contains(request) =>
            {
                Some(Sign::Reached(format!(
                    "the reply to request {request}, status {status}, is delivered, and the client has stopped reading"
                )))
            }
            (
                Event::HalfReplySent {
                    request,
                    status,
                    bytes,
                    whole,
                },
                CrashPoint::TornReply,
            ) => Some(Sign::Reached(format!(
                "request {request} was applied, and {bytes} of the {whole} bytes of its reply, status {status}, are delivered"
            ))),
            (
                Event::CallAnswered {
                    session: Session::A,
                    role: CallRole::Main,
                    shape,
                    ..
                },
                CrashPoint::AfterResult,
            ) => Some(Sign::Reached(format!(
                "the client has read the answer, {shape:?}"
            ))),
            // It was read, whatever came of it so fast; that is told in a moment.
            (Event::CallAnswered { .. }, CrashPoint::CallWritten) => None,
            (
                Event::CallAnswered {
                    session: Session::A,
                    role: CallRole::Main,
                    shape,
                    text,
                    ..
                },
                _,
            ) => Some(Sign::Answered(format!(
                "the call was answered before the point was reached, {shape:?}: {}",
                crate::journal::excerpt(text, 300)
            ))),
            (
                Event::ProcessExited { .. }
                | Event::StdoutEnded {
                    session: Session::A,
                    ..
                },
                _,
            ) => Some(Sign::Ended),
            (Event::ReplyReady { .. }, _) => Some(Sign::Ready),
            (Event::ReplyLost { request, .. }, _) if self.ready == Some(*request) => {
                Some(Sign::Missed(format!(
                    "the server closed its connection before the reply to request {request} was delivered"
                )))
            }
            (
                Event::SessionFailed {
                    session: Session::A,
                    fault: SessionFault::Client,
                    detail,
                    ..
                },
                _,
            ) => Some(Sign::Missed(detail.clone())),
            _ => None,
        }
    }
}

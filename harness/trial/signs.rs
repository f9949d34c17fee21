//! The signs of a crash point: which event means that it is reached, and which that it never will be.

use super::gate;
use crate::journal::{CallRole, Entry, Event, Pid, Session, SessionFault, Way};
use crate::spec::{Boundary, BoundaryEvent, Crash, CrashPoint};

/// What has been seen so far on the way to a crash point.
pub(super) struct Signs<'c> {
    crash: &'c Crash,
    server: Pid,
    armed: bool,
    /// Since the arming.
    replies: u32,
    lines: u32,
    /// The requests that are to make an effect.
    effects: Vec<u32>,
}

impl<'c> Signs<'c> {
    pub fn of(crash: &'c Crash, server: Pid) -> Self {
        Self {
            crash,
            server,
            armed: false,
            replies: 0,
            lines: 0,
            effects: Vec::new(),
        }
    }

    /// The proof that the point is reached, or what happened instead.
    pub fn read(&mut self, entry: &Entry) -> Option<Result<String, String>> {
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
            .map(Ok)
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

    fn sign(&self, entry: &Entry) -> Option<Result<String, String>> {
        let point = self.crash.at;
        if point == CrashPoint::Syscall
            && let Some(proof) = gate::sign(entry)
        {
            return Some(Ok(proof));
        }
        match (&*entry.event, point) {
            (Event::ConnectionHeld { connection }, CrashPoint::BeforeDispatch) => {
                Some(Ok(format!(
                    "connection {connection}, which carries the effect, is held pending; no byte of it has arrived"
                )))
            }
            (
                Event::DecisionHeld {
                    request,
                    made: false,
                },
                CrashPoint::BeforeApproval,
            ) => Some(Ok(format!(
                "request {request} asks for a decision, and none is made"
            ))),
            (
                Event::DecisionHeld {
                    request,
                    made: true,
                },
                CrashPoint::AfterApproval,
            ) => Some(Ok(format!(
                "what request {request} asks about is approved, and nobody has been told"
            ))),
            (Event::RequestHeld { request }, CrashPoint::Sent) => Some(Ok(format!(
                "request {request} has arrived whole and is not applied"
            ))),
            (Event::ReplyHeld { request, status }, CrashPoint::AfterAcceptance) => {
                Some(Ok(format!(
                    "request {request} was applied and its reply, status {status}, is withheld"
                )))
            }
            (Event::CallTorn { bytes, of, .. }, CrashPoint::TornCall) => Some(Ok(format!(
                "{bytes} of the {of} bytes of the call's line were written"
            ))),
            (Event::CallUnread { bytes: 0, .. }, CrashPoint::CallUnread) => Some(Err(
                "the call's line was read at once, although the server is stopped".to_owned(),
            )),
            (Event::CallUnread { .. }, CrashPoint::CallUnread) => Some(Ok(
                "the call's line is written whole and unread, and the server is stopped".to_owned(),
            )),
            (Event::CallTaken { .. }, CrashPoint::CallWritten) => Some(Ok(
                "the call's line is written whole, and nothing in the server's stdin is unread"
                    .to_owned(),
            )),
            (Event::ReplySent { request, status }, CrashPoint::AfterReply)
                if self.effects.contains(request) =>
            {
                Some(Ok(format!(
                    "the reply to request {request}, status {status}, is delivered, and the client reads nothing any more"
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
            ) => Some(Ok(format!(
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
            ) => Some(Ok(format!("the client has read the answer, {shape:?}"))),
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
            ) => Some(Err(format!(
                "the call was answered before the point was reached, {shape:?}: {}",
                crate::journal::excerpt(text, 300)
            ))),
            (Event::ProcessExited { pid, exit, .. }, _) if *pid == self.server => Some(Err(
                format!("the server ended with {exit} before the point was reached"),
            )),
            (
                Event::StdoutEnded {
                    session: Session::A,
                    ..
                },
                _,
            ) => Some(Err(
                "the server closed its stdout before the point was reached".to_owned(),
            )),
            (
                Event::SessionFailed {
                    session: Session::A,
                    fault: SessionFault::Client,
                    detail,
                    ..
                },
                _,
            ) => Some(Err(detail.clone())),
            _ => None,
        }
    }
}

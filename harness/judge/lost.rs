//! A server that left its client without an answer: in the middle of a session that lived, it ended, or closed its stdout.
#![forbid(unsafe_code)]

use crate::journal::{Event, Exit, LineShape, Session, Way};

use super::code::Code;
use super::finding::Findings;
use super::history::{History, Reply, Seen};
use super::protocol;
use super::sentence::{Sentence, say};

/// How a server left its client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost<'a> {
    pub(super) seen: Seen<'a>,
    /// Absent where it had only closed its stdout.
    exit: Option<Exit>,
    /// Bytes of what its client had written that it had not read, where that is known.
    unread: Option<u64>,
    stderr: &'a str,
}

/// A request on its way to the server.
struct Asked<'a> {
    seen: Seen<'a>,
    id: &'a str,
    method: &'a str,
    bytes: u64,
    /// Bytes that the client wrote after it.
    then: u64,
}

/// Whether the server read a request, or began to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Yes,
    No,
    Unknown,
}

impl<'a> History<'a> {
    /// How a session's server left its client, if it did.
    pub(super) fn lost(&self, of: Session) -> Option<Lost<'a>> {
        self.all().find_map(|seen| match seen.event {
            Event::ServerLost {
                session,
                exit,
                unread,
                stderr_tail,
            } if *session == of => Some(Lost {
                seen,
                exit: *exit,
                unread: *unread,
                stderr: stderr_tail,
            }),
            _ => None,
        })
    }

    /// Why nothing came back for a call.
    pub(super) fn why_nothing(&self, of: Session, reply: Reply<'_>) -> Sentence {
        let why = match reply.text {
            "" => String::new(),
            text => format!(" ({text})"),
        };
        let stderr = self.lost(of).map(|lost| stderr_told(lost.stderr).said());
        Sentence::default().varies(format!("{why}{}", stderr.unwrap_or_default()), "")
    }
}

impl Lost<'_> {
    /// `exited with status 1`.
    fn how(&self) -> String {
        match self.exit {
            Some(exit @ Exit::Code(_)) => format!("exited with {exit}"),
            Some(exit @ Exit::Signal { .. }) => format!("was ended by {exit}"),
            None => "closed its stdout, and did not exit,".to_owned(),
        }
    }

    pub(super) fn stderr_told(&self) -> Sentence {
        stderr_told(self.stderr)
    }
}

/// The end of a server's stderr, behind a sentence about its end. The snapshot leaves it out.
pub(super) fn stderr_told(stderr: &str) -> Sentence {
    let told = match stderr.trim() {
        "" => say(", and wrote nothing to stderr"),
        stderr => say("; its stderr ended with ").quote_end(stderr, "stderr"),
    };
    Sentence::default().varies(told.said(), "")
}

/// `protocol`: each request that such a server had read is a request that was lost, wherever its client could still read.
pub(super) fn requests(history: &History<'_>, of: Session, findings: &mut Findings) {
    let Some(lost) = history.lost(of) else {
        return;
    };
    let is_crashed = of == Session::A
        && history
            .crash_fired()
            .is_some_and(|crash| crash.place < lost.seen.place);
    if is_crashed || protocol::has_stopped_reading(history, of, lost.seen) {
        return;
    }
    for asked in unanswered(history, of, lost.seen) {
        if of == Session::A && protocol::is_accounted_for(history, asked.id) {
            continue;
        }
        let whose = match asked.method {
            "tools/call" => say("its call"),
            method => say("its request ").word(method),
        };
        let told = say(format!("the server of {of} {} while ", lost.how())).then(whose);
        let evidence = [asked.seen.seq, lost.seen.seq];
        match is_read(history, &asked, lost) {
            Read::Yes => {
                let told = told.text(" was not answered").then(lost.stderr_told());
                findings.broken(Code::ProtocolLost, told, evidence);
            }
            Read::No => {}
            Read::Unknown => {
                let told = told.text(" was not answered, and nothing shows whether it had read it");
                findings.unproven(
                    Code::ProtocolPerhapsLost,
                    told.then(lost.stderr_told()),
                    evidence,
                );
            }
        }
    }
}

/// The requests of a session proper that had no response by then. A probe of the handshake need not be answered.
fn unanswered<'a>(history: &History<'a>, of: Session, then: Seen<'_>) -> Vec<Asked<'a>> {
    let Some(open) = history.handshaken(of) else {
        return Vec::new();
    };
    let mut asked: Vec<Asked<'a>> = Vec::new();
    for seen in history.all().take(then.place) {
        let Event::LinePassed {
            session,
            way,
            shape,
            bytes,
            id,
            method,
            ..
        } = seen.event
        else {
            continue;
        };
        if *session != of {
            continue;
        }
        match (way, shape, id) {
            (Way::ToServer, shape, id) => {
                for before in &mut asked {
                    before.then = before.then.saturating_add(*bytes);
                }
                if let (LineShape::Request, Some(id)) = (shape, id)
                    && seen.place > open.place
                {
                    asked.push(Asked {
                        seen,
                        id,
                        method: method.as_deref().unwrap_or("request"),
                        bytes: *bytes,
                        then: 0,
                    });
                }
            }
            (Way::FromServer, LineShape::Response, Some(id)) => asked.retain(|it| it.id != id),
            _ => {}
        }
    }
    asked
}

/// What is unread in the pipe is the end of what was written. Where the kernel does not tell, a request that came of the
/// call tells that it was read.
fn is_read(history: &History<'_>, asked: &Asked<'_>, lost: Lost<'_>) -> Read {
    let Some(unread) = lost.unread else {
        let places = asked.seen.place..lost.seen.place;
        let connections = history.ledger.connections.values();
        let mut requests = history.ledger.requests.iter();
        let acted = connections
            .filter_map(|connection| connection.sought)
            .any(|sought| places.contains(&sought.place))
            || requests.any(|request| places.contains(&request.seen.place));
        return if acted { Read::Yes } else { Read::Unknown };
    };
    // A server that ends over the half of a line has read that.
    if unread < asked.then.saturating_add(asked.bytes) {
        Read::Yes
    } else {
        Read::No
    }
}

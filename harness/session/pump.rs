//! What the client tells becomes events, the transcript and the file of stderr; what the session waits for is passed on.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;

use super::keep::Keep;
use super::message::{Timed, Told};
use crate::journal::{
    AnswerShape, CallRole, Event, Journal, LineShape, Pid, Session, Stamp, Way, excerpt,
};
use crate::spec::Stream;

/// What the pump and the session both touch.
#[derive(Default)]
pub(super) struct Shared {
    /// Calls that were asked for and not yet seen on the wire, in order.
    pub asked: VecDeque<(CallRole, String, String)>,
    /// Roles of the calls on the wire, by JSON-RPC id.
    pub issued: HashMap<String, CallRole>,
    pub stderr_tail: String,
    pub server: Option<Pid>,
    /// What the server left unread in its stdin when it closed its stdout, or ended.
    pub unread: Option<u64>,
}

/// Reads what the client tells, appends it, and passes on what the session waits for.
pub(super) struct Pump {
    pub session: Session,
    pub journal: Journal,
    pub keep: Keep,
    pub shared: Arc<Mutex<Shared>>,
    pub pass: mpsc::UnboundedSender<Timed>,
}

impl Pump {
    pub async fn run(mut self, reads: OwnedReadHalf) {
        let mut lines = BufReader::new(reads).lines();
        let mut failure = None;
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(timed) = serde_json::from_str::<Timed>(&line) else {
                continue;
            };
            failure = self.note(&timed).err().or(failure);
            if !timed.told.is_bulk() {
                let _ = self.pass.send(timed);
            }
        }
        failure = self.keep.close().err().or(failure);
        if let Some(error) = failure {
            self.journal.append(Event::TrialFailed {
                because: format!("failed to keep the transcript: {error}"),
            });
        }
        self.journal.append(Event::SessionEnded {
            session: self.session,
        });
    }

    fn note(&mut self, timed: &Timed) -> io::Result<()> {
        let session = self.session;
        let at = timed.at;
        let append = |event| self.journal.append_at(at, event);
        match &timed.told {
            Told::Line {
                way,
                shape,
                bytes,
                id,
                method,
                text,
            } => {
                self.keep.line(at, *way, text)?;
                let noise = *shape == LineShape::Noise;
                append(Event::LinePassed {
                    session,
                    way: *way,
                    shape: *shape,
                    bytes: *bytes,
                    id: id.as_deref().map(|id| excerpt(id, 100)),
                    method: method.as_deref().map(|method| excerpt(method, 100)),
                    excerpt: noise.then(|| excerpt(text, 200)),
                });
                if *way == Way::ToServer && method.as_deref() == Some("tools/call") {
                    self.note_issued(at, id.as_deref().unwrap_or_default());
                }
            }
            Told::Answer { id, shape, text } => self.note_answer(at, id, *shape, text),
            Told::Stderr { text } => {
                self.keep.stderr(text)?;
                lock(&self.shared).stderr_tail = self.keep.tail();
            }
            Told::StderrEnded { bytes } => {
                append(Event::StderrEnded {
                    session,
                    bytes: *bytes,
                });
            }
            Told::StdoutEnded { torn, unread } => {
                let mut shared = lock(&self.shared);
                shared.unread = unread.or(shared.unread);
                drop(shared);
                append(Event::StdoutEnded {
                    session,
                    torn: *torn,
                });
            }
            Told::Closed { stream } => {
                let stream = match stream {
                    Stream::Stdin => "stdin",
                    Stream::Stdout => "stdout",
                    Stream::Stderr => "stderr",
                };
                append(Event::ClientClosed {
                    session,
                    stream: stream.to_owned(),
                });
            }
            Told::SiblingStarted { pid, argv } => {
                append(Event::SiblingStarted {
                    session,
                    pid: *pid,
                    argv: argv.clone(),
                });
            }
            Told::ServerExited { exit, unread } => {
                let mut shared = lock(&self.shared);
                shared.unread = unread.or(shared.unread);
                let server = shared.server;
                drop(shared);
                if let Some(pid) = server {
                    self.journal.append_exit(at, pid, *exit, None);
                }
            }
            Told::CallTorn { bytes, of } => {
                append(Event::CallTorn {
                    session,
                    bytes: *bytes,
                    of: *of,
                });
            }
            Told::CallUnread { bytes } => {
                append(Event::CallUnread {
                    session,
                    bytes: *bytes,
                });
            }
            Told::CallTaken => {
                append(Event::CallTaken { session });
            }
            Told::ReadingStopped => {
                append(Event::ReadingStopped { session });
            }
            Told::ReadingResumed => {
                append(Event::ReadingResumed { session });
            }
            Told::Signalled { signal, group } => {
                append(Event::ClientSignalled {
                    session,
                    signal: *signal,
                    group: *group,
                });
            }
            Told::Started { pid, .. } => lock(&self.shared).server = Some(*pid),
            Told::NotStarted { .. }
            | Told::Handshaken { .. }
            | Told::NotHandshaken { .. }
            | Told::ShutDown
            | Told::ToolsListed { .. } => {}
        }
        Ok(())
    }

    fn note_issued(&self, at: Stamp, rpc_id: &str) {
        let mut shared = lock(&self.shared);
        if let Some((role, tool, call)) = shared.asked.pop_front() {
            shared.issued.insert(rpc_id.to_owned(), role);
            drop(shared);
            let issued = Event::CallIssued {
                session: self.session,
                role,
                tool,
                call,
                rpc_id: rpc_id.to_owned(),
            };
            self.journal.append_at(at, issued);
        }
    }

    fn note_answer(&self, at: Stamp, rpc_id: &str, shape: AnswerShape, text: &str) {
        let role = lock(&self.shared).issued.remove(rpc_id);
        if let Some(role) = role {
            let answered = Event::CallAnswered {
                session: self.session,
                role,
                rpc_id: rpc_id.to_owned(),
                shape,
                text: text.to_owned(),
            };
            self.journal.append_at(at, answered);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

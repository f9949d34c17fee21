//! A server that ends, or closes its stdout, while its client lives and waits: what there is to say of it.

use std::time::Duration;

use tokio::time::Instant;

use super::stage::Stage;
use crate::journal::{AnswerShape, Entry, Event, Exit, Session};
use crate::session::LiveSession;
use crate::spec::Quiet;

/// What a server wrote last, and how it ended, are told by the client within milliseconds, on a loaded machine later. One
/// that only closes its stdout is waited for as long.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);

/// How a server left its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ending(Option<Exit>);

impl Ending {
    /// `the server ended with status 1`; what it is to come before follows.
    pub fn told(self) -> String {
        match self.0 {
            Some(exit) => format!("the server ended with {exit}"),
            None => "the server closed its stdout, and did not exit,".to_owned(),
        }
    }
}

impl Stage {
    /// After so long without an event a server that has answered is done.
    pub fn idle_for(&self) -> Duration {
        let quiet = self.drill.expect.quiet.ask();
        quiet.map_or(Quiet::default().window.0, |quiet| quiet.window.0)
    }

    /// Returns when a server that has answered is done, or when this time is over.
    pub async fn idle(&self, within: Duration) {
        let deadline = Instant::now() + within;
        let mut watch = self.journal.watch();
        watch.skip_to_end();
        let any = |_: &Entry| Some(());
        while watch
            .until(deadline.min(Instant::now() + self.idle_for()), any)
            .await
            .is_some()
        {}
    }

    /// Whether a session's server has gone, as far as anybody has told: it has ended, or closed its stdout.
    pub fn is_gone(&self, live: &LiveSession) -> bool {
        self.is_dead(live) || self.has_closed_stdout(live.session())
    }

    fn has_closed_stdout(&self, session: Session) -> bool {
        let ended = self.journal.latest(|entry| match &*entry.event {
            Event::StdoutEnded { session: of, .. } if *of == session => Some(()),
            _ => None,
        });
        ended.is_some()
    }

    /// Waits until all is told of a server that has gone, and notes it.
    pub async fn lost(&self, live: &LiveSession) -> Ending {
        let session = live.session();
        let (mut stdout, mut exited) = (false, false);
        let mut stderr = !live.reads_stderr();
        let deadline = Instant::now() + LAST_WORDS_WITHIN;
        let mut watch = self.journal.watch();
        let told = watch.until(deadline, |entry| {
            match &*entry.event {
                Event::StdoutEnded { session: of, .. } => stdout |= *of == session,
                Event::StderrEnded { session: of, .. } => stderr |= *of == session,
                Event::ProcessExited { .. } => exited = exited || self.is_dead(live),
                _ => {}
            }
            (stdout && stderr && exited).then_some(())
        });
        let _ = told.await;
        let exit = self.status_of(self.serving(live));
        self.journal.append(Event::ServerLost {
            session,
            exit,
            unread: live.left_unread(),
            stderr_tail: live.stderr_tail(),
        });
        Ending(exit)
    }

    /// What came back for the call of this JSON-RPC id.
    pub fn answer_to(&self, session: Session, id: &str) -> Option<AnswerShape> {
        self.journal.latest(|entry| match &*entry.event {
            Event::CallAnswered {
                session: of,
                rpc_id,
                shape,
                ..
            } if *of == session && rpc_id == id => Some(*shape),
            _ => None,
        })
    }
}

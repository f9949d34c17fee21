//! The crash, and what is seen after it until nothing moves any more.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::fire::{ClientIs, client_gone, fire};
use super::gate;
use super::quiet::watch_quiet;
use super::stage::Stage;
use super::still::go_on;
use super::{TrialError, enter};
use crate::cell::Present;
use crate::journal::{Entry, Event, Moment, Phase, Pid, PipeEnd, Session, Stamp, Watch};
use crate::session::LiveSession;
use crate::spec::{Crash, CrashPoint, Decision, Kill, Signal};

/// The most patient of the polite clients has sent SIGKILL after 6 s.
const LEFT_WITHIN: Duration = Duration::from_secs(20);

/// Whoever reaps a process that has ended, the client or the cell, tells of it within milliseconds, on a loaded machine
/// later.
const REAPED_WITHIN: Duration = Duration::from_secs(5);

/// What the phases after the observation need to know of it.
pub(super) struct Aftermath {
    /// Processes of the client's side that still live: never survivors.
    pub clients: HashSet<Pid>,
    /// The server had ended when the deadline passed.
    pub in_time: bool,
}

/// Crash, observe, release, quiet, evidence again.
pub(super) async fn crash_and_observe(
    stage: &mut Stage,
    crash: &Crash,
    live: &mut LiveSession,
) -> Result<Aftermath, TrialError> {
    enter(&stage.journal, Phase::Crash);
    let mut watch = stage.watch_from_here();
    if let Some(remote) = &stage.remote {
        remote.decide(crash.decision);
        remote.crash(crash.next());
    }
    let siblings: HashSet<Pid> = stage
        .journal
        .collect(|entry| match &*entry.event {
            Event::SiblingStarted { pid, .. } => Some(*pid),
            _ => None,
        })
        .into_iter()
        .collect();
    let client = fire(stage, crash, live).await?;
    let mut clients = siblings.clone();
    if client != ClientIs::Gone {
        clients.insert(live.client());
    }

    enter(&stage.journal, Phase::Observe);
    let observer = Observer {
        stage,
        crash,
        clients: &clients,
        siblings: &siblings,
    };
    observer.observe(live, &mut watch, client).await?;

    enter(&stage.journal, Phase::Release);
    if let Some(remote) = &stage.remote {
        remote.release().await;
    }
    enter(&stage.journal, Phase::Quiet);
    watch_quiet(stage, &clients).await?;
    if let Some(remote) = &stage.remote {
        remote.answer_as_ever();
    }
    // A decision that is held until the run is revoked has not come to its end before.
    if survivors(stage, &clients)?.is_empty()
        && crash.decision != Decision::AfterRevocation
        && let Some(remote) = &stage.remote
    {
        // Before anything is revoked: a request that was sent in time is not refused for the remote's delay.
        remote.settle().await;
    }

    enter(&stage.journal, Phase::EvidenceAgain);
    stage
        .look(Moment::End, Some(Moment::EndAgain), Session::A, live)
        .await?;
    stage.read_record(Moment::End);
    stage.search_logs(Session::A)?;
    let in_time = stage.exit_of(stage.serving(live));
    Ok(Aftermath { clients, in_time })
}

struct Observer<'a> {
    stage: &'a Stage,
    crash: &'a Crash,
    clients: &'a HashSet<Pid>,
    siblings: &'a HashSet<Pid>,
}

impl Observer<'_> {
    /// Until the server's tree has ended, or `eof.within` has passed since EOF was in the pipe.
    async fn observe(
        &self,
        live: &mut LiveSession,
        watch: &mut Watch,
        client: ClientIs,
    ) -> Result<(), TrialError> {
        let within = self
            .stage
            .drill
            .expect
            .eof
            .ask()
            .map_or(crate::spec::Eof::default().within.0, |eof| eof.within.0);
        let mut eof = false;
        let mut held = None;
        let mut looked = false;
        let mut left = false;
        let mut deadline = Instant::now() + within;
        if !self.eof_is_sent() {
            // A client that hangs, has closed only what it reads, or has lost its server is as gone now as it will ever be.
            // The remote knows nothing of clients, and has nothing to wait for.
            self.let_remote_go_on();
        }
        loop {
            if !eof && self.eof_is_sent() {
                let (holders, at) = self.holders(live)?;
                if holders.is_empty() {
                    let session = Session::A;
                    let journal = &self.stage.journal;
                    journal.append_at(at, Event::EofInPipe { session });
                    eof = true;
                    deadline = Instant::now() + within;
                    self.let_remote_go_on();
                } else if held.as_ref() != Some(&holders) {
                    self.note_held(&holders);
                    held = Some(holders);
                }
            }
            // A look takes its time; a reply that is given is not held up by it.
            if !std::mem::replace(&mut looked, true) {
                self.go_on().await?;
                let moment = Moment::ClientGone;
                self.stage.look(moment, None, Session::A, live).await?;
            }
            if client == ClientIs::Leaving && looked && !left {
                // Until then it is the client who waits for the server, and signals it.
                left = true;
                let patience = LEFT_WITHIN;
                if !client_gone(self.stage, live, Instant::now() + patience).await {
                    return Err(TrialError::Prepare(
                        "the client did not end its polite shutdown".to_owned(),
                    ));
                }
                continue;
            }
            if self.nothing_to_wait_for(live)? {
                self.hear_of_the_exit(live).await;
                self.end(live, false).await?;
                return Ok(());
            }
            let exited = watch
                .until(deadline, |entry| {
                    matches!(*entry.event, Event::ProcessExited { .. }).then_some(())
                })
                .await;
            if exited.is_none() {
                self.end(live, true).await?;
                return Ok(());
            }
        }
    }

    /// Whatever was held still up to the crash moves again.
    async fn go_on(&self) -> Result<(), TrialError> {
        gate::release(self.stage, self.crash);
        go_on(self.stage, self.crash)?;
        if self.crash.at == CrashPoint::CallWritten
            && let Some(remote) = &self.stage.remote
        {
            remote.let_connections_go().await;
        }
        Ok(())
    }

    /// A server that has ended shows in the process table at once; how it ended is told by whoever reaped it, a moment
    /// later. A stopped client tells nothing.
    async fn hear_of_the_exit(&self, live: &LiveSession) {
        let is_hung = self.crash.signal == Signal::Stop && self.crash.kill != Kill::Server;
        if self.crash.close.is_empty() && is_hung {
            return;
        }
        let server = self.stage.serving(live);
        let told = |entry: &Entry| match &*entry.event {
            Event::ProcessExited { pid, .. } if *pid == server => Some(()),
            _ => None,
        };
        let deadline = Instant::now() + REAPED_WITHIN;
        let _ = self.stage.journal.watch().until(deadline, told).await;
    }

    async fn end(&self, live: &LiveSession, deadline_passed: bool) -> Result<(), TrialError> {
        let empty = survivors(self.stage, self.clients)?.is_empty();
        if deadline_passed && !empty {
            let moment = Moment::Deadline;
            self.stage.look(moment, None, Session::A, live).await?;
        }
        self.stage.journal.append(Event::ObservationEnded {
            empty,
            deadline_passed,
        });
        Ok(())
    }

    /// The remote does what the crash says of it.
    fn let_remote_go_on(&self) {
        if let Some(remote) = &self.stage.remote {
            remote.lose_client();
        }
    }

    /// Whether the crash closes the client's end of stdin at all: a stopped client does not, nor one whose server is
    /// killed.
    fn eof_is_sent(&self) -> bool {
        if self.crash.close.is_empty() {
            match self.crash.kill {
                Kill::Client | Kill::Both | Kill::Group => self.crash.signal != Signal::Stop,
                Kill::Polite(_) => true,
                Kill::Server => false,
            }
        } else {
            self.crash.close.contains(&crate::spec::Stream::Stdin)
        }
    }

    /// Who holds the write end of the server's stdin, and when that was looked for.
    fn holders(&self, live: &LiveSession) -> Result<(Vec<Pid>, Stamp), TrialError> {
        let cell = self.stage.cell.line();
        Ok(cell.holders(live.pipes(), PipeEnd::StdinWrite)?)
    }

    fn note_held(&self, holders: &[Pid]) {
        let (by_client, by_server) = holders
            .iter()
            .partition(|pid| self.siblings.contains(pid) || self.clients.contains(pid));
        self.stage.journal.append(Event::StdinHeld {
            session: Session::A,
            by_server,
            by_client,
        });
    }

    /// True where nobody is left, or only helpers that the drill declares durable.
    fn nothing_to_wait_for(&self, live: &LiveSession) -> Result<bool, TrialError> {
        let survivors = survivors(self.stage, self.clients)?;
        let allowed: Vec<regex::Regex> = self
            .stage
            .drill
            .expect
            .helpers
            .ask()
            .map(|helpers| {
                helpers
                    .allow
                    .iter()
                    .filter_map(|allow| regex::Regex::new(&allow.command).ok())
                    .collect()
            })
            .unwrap_or_default();
        // An expression that is meant for a helper may match the server's own command as well.
        let server = self.stage.serving(live);
        let is_helper = |pid| pid != server;
        Ok(survivors.iter().all(|survivor| {
            is_helper(survivor.pid)
                && allowed
                    .iter()
                    .any(|regex| regex.is_match(&survivor.command))
        }))
    }
}

/// Everybody in the cell who is not of the client's side, nor of the session beside.
pub(super) fn survivors(stage: &Stage, clients: &HashSet<Pid>) -> Result<Vec<Present>, TrialError> {
    let mut present = stage.cell.line().census()?;
    stage.leave_out_bystanders(&mut present);
    present.retain(|present| !clients.contains(&present.pid));
    Ok(present)
}

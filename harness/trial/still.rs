//! Holding the server still: it is stopped before the call's line is written, and continued when the client is dead.
//!
//! The readers of the server's stdin are stopped one by one, never as a group. The cell, the client and the server are of
//! one session, so the client's death orphans no process group, and the kernel continues nobody by itself.

use std::time::Duration;

use tokio::time::Instant;

use super::TrialError;
use super::stage::Stage;
use crate::journal::{Event, Pid, PipeEnd};
use crate::session::LiveSession;
use crate::spec::{Crash, Kill, Signal};

/// A thread that runs sees the signal within a tick, on a loaded machine later.
const STOPPED_WITHIN: Duration = Duration::from_secs(5);

/// The kernel tells a stop to the parent alone, and we are not it: it is asked this often.
const ASK_AGAIN: Duration = Duration::from_micros(200);

/// Stops everybody who reads the server's stdin. False where one of them did not stop.
pub(super) async fn stop_readers(
    stage: &Stage,
    live: &LiveSession,
) -> Result<Result<(), String>, TrialError> {
    let cell = stage.cell.line();
    let (mut pids, _) = cell.holders(live.pipes(), PipeEnd::StdinRead)?;
    if pids.is_empty() {
        // What a process holds may be hidden from us; the one that was started reads, or has somebody else read for it.
        pids.push(stage.serving(live));
    }
    for pid in &pids {
        cell.signal(*pid, Signal::Stop)?;
    }
    if !stopped_in_time(stage, &pids).await? {
        let within = STOPPED_WITHIN.as_secs();
        return Ok(Err(format!("the server did not stop within {within} s")));
    }
    stage.journal.append(Event::ServerStopped { pids });
    Ok(Ok(()))
}

/// Waits until all of these, which were sent SIGSTOP, have stopped.
pub(super) async fn stopped_in_time(stage: &Stage, pids: &[Pid]) -> Result<bool, TrialError> {
    let deadline = Instant::now() + STOPPED_WITHIN;
    while !stage.cell.line().are_stopped(pids)? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
    Ok(true)
}

/// Continues those that were stopped; where they had not stayed so, the crash fell on another moment.
pub(super) fn go_on(stage: &Stage, crash: &Crash) -> Result<(), TrialError> {
    let Some(pids) = stopped(stage) else {
        return Ok(());
    };
    let cell = stage.cell.line();
    // Who was killed while it was stopped has read nothing.
    let is_spared = matches!(crash.kill, Kill::Client | Kill::Polite(_));
    if is_spared && !cell.are_stopped(&pids)? {
        let point = crash.at;
        let instead = "the server did not stay stopped until the client was gone".to_owned();
        stage.journal.append(Event::PointLost { point, instead });
    }
    for pid in &pids {
        cell.go_on(*pid)?;
    }
    stage.journal.append(Event::ServerContinued { pids });
    Ok(())
}

fn stopped(stage: &Stage) -> Option<Vec<Pid>> {
    stage.journal.latest(|entry| match &*entry.event {
        Event::ServerStopped { pids } => Some(pids.clone()),
        _ => None,
    })
}

//! When a session uses more than it may: the cell kills everybody in it, and the trial, wherever it stands, goes to its
//! close.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::TrialError;
use super::stage::Stage;
use crate::cell::Line;
use crate::journal::{Entry, Event, Journal, Session};

/// Some thousand processes that were killed have ended and been waited for by then.
const CLEARED_WITHIN: Duration = Duration::from_secs(10);

/// Does what a trial does until it is done or a limit is exceeded, and then `None`.
pub(super) async fn within_limits<T>(
    journal: &Journal,
    cell: &Line,
    acts: impl Future<Output = Result<T, TrialError>>,
) -> Result<Option<T>, TrialError> {
    let acted = tokio::select! {
        biased;
        () = exceeded(journal) => return Ok(None),
        acted = acts => acted,
    };
    // That the client has gone may be known before the reason for it. What the cell told before it answers, stands in the
    // journal when it has.
    let _ = cell.census();
    if journal.latest(is_exceeded).is_some() {
        return Ok(None);
    }
    acted.map(Some)
}

async fn exceeded(journal: &Journal) {
    let mut watch = journal.watch();
    while is_exceeded(&watch.next().await).is_none() {}
}

fn is_exceeded(entry: &Entry) -> Option<()> {
    matches!(*entry.event, Event::LimitExceeded { .. }).then_some(())
}

/// Waits until all have ended, and keeps what is there to be kept.
pub(super) async fn clear(stage: &Stage) -> Result<(), TrialError> {
    let deadline = Instant::now() + CLEARED_WITHIN;
    let mut started = Vec::new();
    let mut here = true;
    let _ = stage.journal.collect(|entry| -> Option<()> {
        match &*entry.event {
            Event::ClientStarted { session, .. } => started.push(*session),
            Event::LimitExceeded { rehearsal, .. } => here = !rehearsal,
            _ => {}
        }
        None
    });
    // The cell of the rehearsal has gone; in this one the client lives, and tells nothing more.
    if here {
        let cleared = stage
            .journal
            .watch()
            .until(deadline, |entry| {
                matches!(*entry.event, Event::CellCleared { .. }).then_some(())
            })
            .await;
        cleared.ok_or_else(|| {
            TrialError::Prepare("a process did not end when a limit was exceeded".to_owned())
        })?;
        for session in &started {
            told_all(stage, *session, deadline).await;
        }
    }
    stage.search_logs(started.pop().unwrap_or(Session::A))
}

/// Everything that the client told before it died is in the journal, the transcript and the file of stderr.
async fn told_all(stage: &Stage, of: Session, deadline: Instant) {
    let is_ended = |entry: &Entry| match &*entry.event {
        Event::SessionEnded { session } if *session == of => Some(()),
        _ => None,
    };
    let _ = stage.journal.watch().until(deadline, is_ended).await;
}

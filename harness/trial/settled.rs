//! Waiting for the last word of an authority.
//!
//! A server has written what it will write when it has ended. An authority goes on: it has had the remote's reply, and will
//! note it in a moment. The kernel tells when its log changes (inotify(7)).

use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::TrialError;
use super::stage::Stage;
use crate::journal::Session;

/// Who has had a reply has noted it by then, on a loaded machine too.
const NOTED_WITHIN: Duration = Duration::from_secs(2);

/// Returns when the authority's log tells the outcome of session A's call, where it tells of an intent.
pub(super) async fn outcome_noted(stage: &Stage) -> Result<(), TrialError> {
    let is_brokered = stage
        .drill
        .authority
        .as_ref()
        .is_some_and(|authority| authority.commands().is_some());
    let (Some(record), true) = (&stage.record, is_brokered) else {
        return Ok(());
    };
    let Some(path) = record.path().filter(|path| path.exists()) else {
        return Ok(());
    };
    let deadline = Instant::now() + NOTED_WITHIN;
    let changes = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(std::io::Error::from)?;
    changes
        .add_watch(path, AddWatchFlags::IN_MODIFY)
        .map_err(std::io::Error::from)?;
    let changes = AsyncFd::with_interest(changes, Interest::READABLE)?;
    let call = &stage.identity(Session::A).call;
    // Watched before it is read: what changes in between is seen.
    while record.leaves_open(call) {
        let Ok(changed) = timeout_at(deadline, changes.readable()).await else {
            break;
        };
        let mut changed = changed?;
        // Which change it was says nothing that the log itself does not say.
        let _ = changed.get_inner().read_events();
        changed.clear_ready();
    }
    Ok(())
}

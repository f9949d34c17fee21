//! Waiting for the last word of an authority.
//!
//! A server has written what it will write when it has ended. An authority goes on: it has had the remote's reply, and will
//! note it in a moment. The kernel tells when its log changes (inotify(7)).

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, timeout_at};

use super::TrialError;
use super::stage::Stage;
use crate::journal::Session;

/// Who has had a reply has noted it by then, on a loaded machine too.
const NOTED_WITHIN: Duration = Duration::from_secs(2);

#[expect(
    deprecated,
    reason = "what replaces it is unsafe for the sake of types whose descriptor may change; an OwnedFd keeps its own"
)]
fn registered(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

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
    // tokio waits on a descriptor that it may own; both lead to the same queue.
    let ours = changes.as_fd().try_clone_to_owned()?;
    let readable = registered(ours)?;
    let call = &stage.identity(Session::A).call;
    // Watched before it is read: what changes in between is seen.
    while record.leaves_open(call) {
        let Ok(woken) = timeout_at(deadline, readable.readable()).await else {
            break;
        };
        let mut woken = woken?;
        // Which change it was says nothing that the log itself does not say.
        let _ = changes.read_events();
        woken.clear_ready();
    }
    Ok(())
}

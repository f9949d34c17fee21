//! The quiet period: a window in which nobody does anything to the server, and it should do nothing either.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::TrialError;
use super::crash::survivors;
use super::stage::Stage;
use crate::cell::Present;
use crate::journal::{Event, Pid};

/// Spinning is judged over no shorter window: in less, one time slice of the scheduler decides.
const SHORTEST_WINDOW: Duration = Duration::from_millis(200);

/// A connection attempt that was dropped is tried again by the kernel 1 s later, then 2 s after that.
const CONNECTED_WITHIN: Duration = Duration::from_secs(4);

/// How often `/proc/net/tcp` is read while a connection attempt waits for the kernel's next try.
const CONNECTING_EVERY: Duration = Duration::from_millis(5);

/// What the server was in the middle of, a reply that came with the release, costs time on a loaded machine, and so does the
/// end of a wrapper, a shell and a server one after another; a process that spins does so in every window. As many windows
/// are looked at as it takes to find one in which nothing moved, at most these.
const WINDOWS: usize = 3;

/// Watches until a window has passed in which nobody ended and hardly anybody wanted to run. Ends at once when nobody is
/// left.
pub(super) async fn watch_quiet(stage: &Stage, clients: &HashSet<Pid>) -> Result<(), TrialError> {
    connections_settle(stage).await?;
    stage.journal.append(Event::QuietStarted);
    let length = stage
        .drill
        .expect
        .quiet
        .ask()
        .map_or(crate::spec::Quiet::default().window.0, |quiet| {
            quiet.window.0
        })
        .max(SHORTEST_WINDOW);
    let mut seen = window(stage, clients, length).await?;
    for _ in 1..WINDOWS {
        if !seen.is_moving() {
            break;
        }
        seen = window(stage, clients, length).await?;
    }
    let Window {
        empty,
        length,
        wanted,
        ended: _,
    } = seen;
    stage.journal.append(Event::QuietEnded {
        empty,
        window: length,
        wanted,
    });
    Ok(())
}

struct Window {
    empty: bool,
    /// ns.
    length: u64,
    /// By those present at both ends, ns.
    wanted: BTreeMap<Pid, u64>,
    /// Somebody ended meanwhile.
    ended: bool,
}

impl Window {
    /// Whether what is left is still on its way. Who waits wants no more of the CPU than a timer takes.
    fn is_moving(&self) -> bool {
        !self.empty && (self.ended || self.wanted.values().sum::<u64>() > self.length / 4)
    }
}

async fn window(
    stage: &Stage,
    clients: &HashSet<Pid>,
    length: Duration,
) -> Result<Window, TrialError> {
    let mut watch = stage.watch_from_here();
    let begun = Instant::now();
    let before = survivors(stage, clients)?;
    let mut after = before.clone();
    while !after.is_empty() {
        let exited = watch
            .until(begun + length, |entry| {
                matches!(*entry.event, Event::ProcessExited { .. }).then_some(())
            })
            .await;
        after = survivors(stage, clients)?;
        if exited.is_none() {
            break;
        }
    }
    let length = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Window {
        empty: after.is_empty(),
        length,
        wanted: wanted_between(&before, &after, length),
        ended: after.len() < before.len(),
    })
}

/// Who is awake at both ends and has not slept in between wanted the CPU all the time: the kernel counts a wait only when it
/// is over, and on a loaded machine one may be longer than the window.
fn wanted_between(before: &[Present], after: &[Present], length: u64) -> BTreeMap<Pid, u64> {
    after
        .iter()
        .filter_map(|late| {
            let early = before
                .iter()
                .find(|early| (early.pid, early.started) == (late.pid, late.started))?;
            let wanted = if late.slept.is_some() && late.slept == early.slept {
                length
            } else {
                late.wanted.saturating_sub(early.wanted)
            };
            Some((late.pid, wanted))
        })
        .collect()
}

/// A connection attempt that was held goes on when the kernel tries again: the quiet period starts after that.
async fn connections_settle(stage: &Stage) -> Result<(), TrialError> {
    if stage.remote.is_none() || stage.cell.line().census()?.is_empty() {
        return Ok(());
    }
    let deadline = Instant::now() + CONNECTED_WITHIN;
    while !stage.cell.line().connecting()?.is_empty() && Instant::now() < deadline {
        // The kernel tells nobody when it tries again.
        tokio::time::sleep_until(Instant::now() + CONNECTING_EVERY).await;
    }
    Ok(())
}

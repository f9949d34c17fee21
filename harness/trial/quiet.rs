//! The quiet period: a window in which nobody does anything to the server, and it should do nothing either.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::TrialError;
use super::crash::survivors;
use super::stage::Stage;
use crate::cell::Present;
use crate::journal::{Event, Pid, QuietWindow, Work};
use crate::spec::Drill;

/// Spinning is judged over no shorter window: in less, one time slice of the scheduler decides.
const SHORTEST_WINDOW: Duration = Duration::from_millis(200);

/// A connection attempt that was dropped is tried again by the kernel 1 s later, then 2 s after that.
const CONNECTED_WITHIN: Duration = Duration::from_secs(4);

/// How often `/proc/net/tcp` is read while a connection attempt waits for the kernel's next try.
const CONNECTING_EVERY: Duration = Duration::from_millis(5);

/// Watches until a window has passed in which nobody ended and hardly anybody wanted to run, or what is left has had its
/// time to exit once more: what the server was in the middle of, a reply that came with the release, may take long on a loaded
/// machine, and ends. Ends at once when nobody is left.
pub(super) async fn watch_quiet(stage: &Stage, clients: &HashSet<Pid>) -> Result<(), TrialError> {
    connections_settle(stage).await?;
    stage.journal.append(Event::QuietStarted);
    let expect = &stage.drill.expect;
    let length = expect.quiet.ask().map_or_else(
        || crate::spec::Quiet::default().window.0,
        |quiet| quiet.window.0,
    );
    let length = length.max(SHORTEST_WINDOW);
    let time_to_exit = expect
        .eof
        .ask()
        .map_or_else(|| crate::spec::Eof::default().within.0, |eof| eof.within.0);
    let deadline = Instant::now() + time_to_exit;
    let may_work = may_work(&stage.drill);
    let mut windows = Vec::new();
    loop {
        let seen = window(stage, clients, length).await?;
        let is_moving = seen.is_moving(&may_work);
        windows.push(seen.told);
        // Two are needed to tell that somebody wants the CPU in one after another.
        let is_over = Instant::now() >= deadline && windows.len() >= 2;
        if !is_moving || is_over {
            let empty = seen.left.is_empty();
            stage.journal.append(Event::QuietEnded { empty, windows });
            return Ok(());
        }
    }
}

/// Which processes may work as long as they like: the drill declares them.
fn may_work(drill: &Drill) -> Vec<regex::Regex> {
    let allowed = drill.expect.helpers.ask();
    let allowed = allowed.map_or(&[][..], |helpers| &helpers.allow);
    // A pattern that is none was refused when the drill was read.
    let patterns = allowed
        .iter()
        .filter_map(|helper| regex::Regex::new(&helper.command).ok());
    patterns.collect()
}

struct Window {
    told: QuietWindow,
    left: Vec<Present>,
    /// Somebody ended meanwhile.
    ended: bool,
}

impl Window {
    /// Whether what is left is still on its way. A process that waits wants no more of the CPU than a timer takes.
    fn is_moving(&self, may_work: &[regex::Regex]) -> bool {
        let is_allowed = |pid: Pid| {
            let process = self.left.iter().find(|process| process.pid == pid);
            process.is_some_and(|process| {
                let mut patterns = may_work.iter();
                patterns.any(|pattern| pattern.is_match(&process.command))
            })
        };
        let work = self.told.work.iter();
        let wanted: u64 = work
            .filter(|work| !is_allowed(work.pid))
            .map(|work| work.wanted)
            .sum();
        !self.left.is_empty() && (self.ended || wanted > self.told.length / 4)
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
    let work = work_between(&before, &after, length);
    Ok(Window {
        told: QuietWindow { length, work },
        ended: after.len() < before.len(),
        left: after,
    })
}

/// A process that is awake at both ends and has not slept in between wanted the CPU all the time: the kernel counts a wait
/// only when it is over, and on a loaded machine one may be longer than the window.
fn work_between(before: &[Present], after: &[Present], length: u64) -> Vec<Work> {
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
            let passed = late.passed.zip(early.passed);
            Some(Work {
                pid: late.pid,
                wanted,
                passed: passed.map(|(late, early)| late.saturating_sub(early)),
            })
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

//! The guard of the cell: looks every few milliseconds at what the session uses, and ends all in the cell when that is
//! more than it may use.
//!
//! ```text
//!   count, look ─► within the bounds ─► pause ─► count, look …
//!        └───────► beyond them ─► nothing is started any more ─► all are killed ─► the harness is told
//! ```
//!
//! A thread of its own: the loop of the cell may be in the middle of a look at hundreds of processes when the hundreds
//! become thousands. The kernel could set bounds by cgroups, which not everybody may use, or for each process alone
//! (`RLIMIT_AS` keeps V8 from starting, `RLIMIT_NPROC` is not for root), and it tells nobody when it does.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::bounds::Bounds;
use super::inside::Teller;
use super::kill::kill_all;
use super::message::Report;
use super::sys;
use super::usage::{self, Usage};
use crate::journal::{Eater, Limit, Pid, Stamp};

/// Between two counts of the processes. A fork bomb makes some ten in a millisecond.
const COUNT_EVERY: Duration = Duration::from_millis(5);

/// The same as long as no bound is near.
const COUNT_CALMLY_EVERY: Duration = Duration::from_millis(20);

/// A bound is near when this part of it is used.
const NEAR: u64 = 4;

/// Where counting is work, without a pid namespace, longer for each process.
const COUNT_LATER: Duration = Duration::from_micros(100);

/// Between two looks at what they use. An eater of memory takes some megabytes in a millisecond.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Longer for each process: a look is to take a small share of the time.
const LOOK_LATER: Duration = Duration::from_micros(200);

const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A close look at memory takes time itself: at most one part in this many.
const SHARE_OF_CLOSE_LOOKS: u32 = 10;

pub(super) struct Guard {
    /// Whose descendants the cell holds.
    root: Pid,
    bounds: Bounds,
    teller: Arc<Teller>,
    session: Mutex<Session>,
    exceeded: AtomicBool,
}

/// What the guard knows of the session that it watches.
struct Session {
    /// The client processes so far, and the CPU time of each of their own that was seen last, ns.
    clients: HashMap<Pid, u64>,
    /// What had been used when the session began, ns.
    cpu_before: u64,
    /// Bytes that its processes had in memory at the last look.
    resident: u64,
    /// No look at what the processes use before this, and no close look at their memory.
    no_look_before: Instant,
    no_close_look_before: Instant,
}

/// What a bound was exceeded by.
struct Breach {
    limit: Limit,
    most: u64,
    used: u64,
    by: Vec<Eater>,
}

impl Guard {
    pub fn new(root: Pid, bounds: Bounds, teller: Arc<Teller>) -> Self {
        Self {
            root,
            bounds,
            teller,
            session: Mutex::new(Session {
                clients: HashMap::new(),
                cpu_before: 0,
                resident: 0,
                no_look_before: Instant::now(),
                no_close_look_before: Instant::now(),
            }),
            exceeded: AtomicBool::new(false),
        }
    }

    /// Starts the client of a session; the first one begins the watch. Fails when a bound has been exceeded.
    pub fn admit(self: &Arc<Self>, start: impl FnOnce() -> io::Result<Pid>) -> io::Result<Pid> {
        // A client is not looked at before it is known to be one.
        let mut session = self.session();
        if self.is_exceeded() {
            return Err(io::Error::other("a limit of the cell was exceeded"));
        }
        let left = usage::members(self.root, usize::MAX)?;
        session.cpu_before = session.cpu_so_far(&usage::of(&left));
        let client = start()?;
        let is_first = session.clients.is_empty();
        session.clients.insert(client, 0);
        drop(session);
        if is_first {
            let guard = Arc::clone(self);
            thread::Builder::new()
                .name("guard".to_owned())
                .spawn(move || guard.watch())?;
        }
        Ok(client)
    }

    /// Whether all was ended. True before the first process ends by that.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::SeqCst)
    }

    /// Waits until the harness has been told why.
    pub fn has_told(&self) {
        drop(self.session());
    }

    fn watch(&self) {
        // A hundred processes that want to run leave little of a processor to one more.
        sys::run_first();
        loop {
            let mut session = self.session();
            // A process table that cannot be read now can be the next time.
            let most = session.most_members(&self.bounds);
            let pids = usage::members(self.root, most).unwrap_or_default();
            if let Some(breach) = session.breach(&pids, &self.bounds) {
                self.end(breach, &session, &pids);
                return;
            }
            let every = session.count_every(pids.len(), &self.bounds);
            drop(session);
            // There is no event for a process that is forked, or for a page that is taken.
            thread::sleep(self.pause(every, pids.len()));
        }
    }

    fn pause(&self, every: Duration, processes: usize) -> Duration {
        if self.root == 1 {
            every
        } else if sys::lists_children() {
            (every + times(COUNT_LATER, processes)).min(LONGEST_PAUSE)
        } else {
            // Each count is a walk through all processes of the machine.
            LONGEST_PAUSE
        }
    }

    fn end(&self, mut breach: Breach, session: &Session, pids: &[Pid]) {
        self.exceeded.store(true, Ordering::SeqCst);
        let at = Stamp::now();
        // First of all. What cannot be killed now is killed when the cell ends.
        let _ = kill_all(pids);
        if breach.limit == Limit::Processes {
            // Nobody has waited for the dead yet, so they are all there.
            let dead = usage::members(self.root, usize::MAX).unwrap_or_default();
            breach.are(&usage::of(&session.of_server(&dead)), &self.bounds);
        }
        let Breach {
            limit,
            most,
            used,
            by,
        } = breach;
        // A harness that has gone needs no report.
        let _ = self.teller.tell(&Report::Exceeded {
            at,
            limit,
            most,
            used,
            by,
        });
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Breach {
    fn of(limit: Limit, most: u64, used: u64, by: Vec<Eater>) -> Self {
        Self {
            limit,
            most,
            used,
            by,
        }
    }

    /// These are the processes of which there were too many. Some may have gone.
    fn are(&mut self, processes: &[Usage], bounds: &Bounds) {
        self.used = self.used.max(beside_siblings(processes.len(), bounds));
        self.by = usage::eaters(processes.iter().map(|process| (process, 1)));
    }
}

impl Session {
    fn of_server(&self, pids: &[Pid]) -> Vec<Pid> {
        let mut pids = pids.to_vec();
        pids.retain(|pid| !self.clients.contains_key(pid));
        pids
    }

    fn count_every(&self, processes: usize, bounds: &Bounds) -> Duration {
        let is_near = |used: u64, most: u64| used > most / NEAR;
        if is_near(processes as u64, bounds.processes.into())
            || is_near(self.resident, bounds.memory)
        {
            COUNT_EVERY
        } else {
            COUNT_CALMLY_EVERY
        }
    }

    /// The processes of a cell in which there are just not too many.
    fn most_members(&self, bounds: &Bounds) -> usize {
        let of_server = u64::from(bounds.processes) + u64::from(bounds.siblings);
        usize::try_from(of_server)
            .unwrap_or(usize::MAX)
            .saturating_add(self.clients.len())
    }

    fn breach(&mut self, pids: &[Pid], bounds: &Bounds) -> Option<Breach> {
        let of_server = self.of_server(pids);
        let count = beside_siblings(of_server.len(), bounds);
        let most = u64::from(bounds.processes);
        if count > most {
            return Some(Breach::of(Limit::Processes, most, count, Vec::new()));
        }
        if Instant::now() < self.no_look_before {
            return None;
        }
        let breach = self.too_much(&usage::of(pids), bounds);
        self.no_look_before = Instant::now() + LOOK_EVERY + times(LOOK_LATER, pids.len());
        breach
    }

    fn too_much(&mut self, processes: &[Usage], bounds: &Bounds) -> Option<Breach> {
        let cpu = self.cpu_so_far(processes).saturating_sub(self.cpu_before);
        let of_server: Vec<&Usage> = processes
            .iter()
            .filter(|process| !self.clients.contains_key(&process.pid))
            .collect();
        let by = |use_of: &dyn Fn(&Usage) -> u64| {
            usage::eaters(of_server.iter().map(|process| (*process, use_of(process))))
        };

        let (threads, most) = (
            of_server.iter().map(|process| process.threads).sum(),
            u64::from(bounds.threads),
        );
        if threads > most {
            let by = by(&|process| process.threads);
            return Some(Breach::of(Limit::Threads, most, threads, by));
        }
        if let Some(most) = bounds.cpu.map(ns).filter(|most| cpu > *most) {
            let by = by(&|process| process.cpu + process.cpu_of_waited);
            return Some(Breach::of(Limit::Cpu, most, cpu, by));
        }
        let resident: u64 = of_server.iter().map(|process| process.resident).sum();
        self.resident = resident;
        if resident <= bounds.memory || Instant::now() < self.no_close_look_before {
            return None;
        }
        let begun = Instant::now();
        let own = usage::own_memory(&of_server);
        self.no_close_look_before = Instant::now() + begun.elapsed() * SHARE_OF_CLOSE_LOOKS;
        let used = own.values().sum();
        let by = by(&|process| own.get(&process.pid).copied().unwrap_or_default());
        (used > bounds.memory).then(|| Breach::of(Limit::Memory, bounds.memory, used, by))
    }

    /// CPU time of all that ever lived in the cell and was waited for, without the clients' own, ns.
    fn cpu_so_far(&mut self, processes: &[Usage]) -> u64 {
        let mut sum = usage::cpu_of_waited();
        let mut dead = self.clients.clone();
        for process in processes {
            sum += process.cpu_of_waited;
            match self.clients.get_mut(&process.pid) {
                Some(seen) => {
                    *seen = process.cpu;
                    dead.remove(&process.pid);
                }
                None => sum += process.cpu,
            }
        }
        // What a dead client had used stands among what we have waited for.
        sum.saturating_sub(dead.values().sum())
    }
}

/// What the drill itself has started beside the server does not count.
fn beside_siblings(processes: usize, bounds: &Bounds) -> u64 {
    (processes as u64).saturating_sub(bounds.siblings.into())
}

fn times(each: Duration, n: usize) -> Duration {
    each.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX))
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

//! What the processes of a session may use together, where the drill says so and where it does not.
//!
//! The guard holds them to it. Behind it stands what the kernel has to offer without cgroups, should the guard be late:
//! fork(2) fails long before the machine has no room for a process more.

use std::fs;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::{proc, sys};
use crate::spec::Limits;

/// Where the drill names no number: more than any server that is in its right mind, and far less than a machine has.
const PROCESSES: u32 = 1024;

/// Node has some ten threads in each process, a JVM or a browser several dozen.
const THREADS_PER_PROCESS: u32 = 32;
const FEWEST_THREADS: u32 = 512;
const MOST_THREADS: u32 = 4096;

const MEMORY: u64 = 4 << 30;

/// Threads of the cell itself and of the client, and some to spare: more than the limit, so that the guard sees it
/// exceeded.
const OF_THE_CELL: u64 = 256;

/// Threads that the user's other programs may start while a trial runs.
const OF_OTHERS: u64 = 4096;

/// The bounds of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    pub processes: u32,
    pub threads: u32,
    /// Bytes.
    pub memory: u64,
    pub cpu: Option<Duration>,
    /// Processes that the drill has the client start beside the server: they do not count.
    pub siblings: u32,
}

impl Bounds {
    pub fn of(limits: Limits, siblings: u32) -> Self {
        let processes = limits.processes.unwrap_or(PROCESSES);
        Self {
            processes,
            threads: processes
                .saturating_mul(THREADS_PER_PROCESS)
                .clamp(FEWEST_THREADS, MOST_THREADS)
                .max(processes),
            memory: limits.memory.map_or_else(
                || memory_of_machine().map_or(MEMORY, |all| MEMORY.min(all / 2)),
                |size| size.0,
            ),
            cpu: limits.cpu.map(|time| time.0),
            siblings,
        }
    }
}

impl Bounds {
    /// In a new pid namespace, for all that will live in it.
    pub(super) fn harden_namespace(self, user_namespace: bool) {
        /// Before, there is one for the whole machine, which is not ours to set.
        const PID_MAX_OF_NAMESPACE: (u32, u32) = (6, 14);
        /// Before, it counts what the user has in all of the machine.
        const NPROC_OF_USER_NAMESPACE: (u32, u32) = (5, 14);
        // A cell without it is a cell still.
        if sys::kernel_is_at_least(PID_MAX_OF_NAMESPACE) {
            // With numbers to spare, so that one is not soon used again.
            let most = self.threads.max(MOST_THREADS).saturating_mul(2);
            let _ = fs::write("/proc/sys/kernel/pid_max", most.to_string());
        }
        if user_namespace && sys::kernel_is_at_least(NPROC_OF_USER_NAMESPACE) {
            bound_threads(u64::from(self.threads) + OF_THE_CELL);
        }
    }

    /// Without a namespace: for this process and its descendants, as many as the user has now and the cell's. Root is
    /// not bound by it.
    pub(super) fn harden_user(self) {
        if let Ok(threads) = proc::threads_of_user() {
            bound_threads(threads + u64::from(self.threads) + OF_THE_CELL + OF_OTHERS);
        }
    }
}

/// Never more than it was.
fn bound_threads(most: u64) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NPROC) else {
        return;
    };
    let _ = setrlimit(Resource::RLIMIT_NPROC, soft.min(most), hard.min(most));
}

/// Bytes; `MemTotal` of `proc_meminfo(5)`.
fn memory_of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{CpuTime, Size};

    #[test]
    fn what_the_drill_says_goes_before_what_is_usual() {
        let usual = Bounds::of(Limits::default(), 0);
        assert_eq!((usual.processes, usual.threads), (1024, 4096));
        assert!(usual.memory <= MEMORY && usual.memory > 0);
        assert_eq!(usual.cpu, None);

        let said = Bounds::of(
            Limits {
                processes: Some(5000),
                memory: Some(Size(8 << 30)),
                cpu: Some(CpuTime(Duration::from_secs(3))),
            },
            1,
        );
        assert_eq!((said.processes, said.threads), (5000, 5000));
        assert_eq!(said.memory, 8 << 30);
        assert_eq!(said.cpu, Some(Duration::from_secs(3)));
    }
}

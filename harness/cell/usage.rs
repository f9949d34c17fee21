//! What the processes of the cell use: how many they are, their memory, their CPU time.
//!
//! This is read again and again while a trial runs, so it reads one small file a process (`stat` of proc(5)), and more
//! only of those that seem to have too much.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::proc::{self, Stat};
use super::sys;
use crate::journal::{Eater, Pid};

/// The most names that a breach is put down to.
const NAMED: usize = 4;

/// One process.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    pub pid: Pid,
    ppid: Pid,
    pub comm: String,
    pub threads: u64,
    /// CPU time of its own, ns.
    pub cpu: u64,
    /// CPU time of those that it has waited for, and of theirs, ns.
    pub cpu_of_waited: u64,
    /// Bytes of its address space.
    size: u64,
    /// Bytes in memory, with those of files and those that it shares: never less than what is its own.
    pub resident: u64,
}

/// The processes below `root`, zombies included. Looks for no more than one beyond `most`: whoever is late, since there
/// are so many, must not have more to do for it.
pub(super) fn members(root: Pid, most: usize) -> io::Result<Vec<Pid>> {
    if root == 1 {
        let all = proc::pids()?.filter(|pid| *pid != root);
        return Ok(all.take(most.saturating_add(1)).collect());
    }
    if sys::lists_children() {
        return Ok(descendants(root, most));
    }
    let mut all: Vec<Pid> = proc::below(root)?.into_iter().collect();
    all.sort_unstable();
    Ok(all)
}

/// What they use, as far as they are still there. A parent comes before its child where its number is lower: CPU time that
/// moves from one to the other meanwhile, when the child has been waited for, is then missed and not counted twice.
pub(super) fn of(pids: &[Pid]) -> Vec<Usage> {
    pids.iter().filter_map(|pid| usage(*pid)).collect()
}

/// The processes below `root`, without a look at all others of the machine. One that is forked, or loses its parent, in
/// the meantime may be missing: it is there the next time.
pub(super) fn descendants(root: Pid, most: usize) -> Vec<Pid> {
    let mut found = vec![root];
    let mut seen = HashSet::from([root]);
    let mut next = 0;
    while let Some(parent) = found
        .get(next)
        .filter(|_| found.len() <= most.saturating_add(1))
    {
        found.extend(
            children(*parent)
                .into_iter()
                .filter(|child| seen.insert(*child)),
        );
        next += 1;
    }
    found.split_off(1)
}

/// Zombies included; none where the kernel does not list them.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(folder(parent).join("task")) else {
        return Vec::new();
    };
    threads
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|list| {
            list.split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<Pid>>()
        })
        .collect()
}

fn usage(pid: Pid) -> Option<Usage> {
    let stat = Stat::read(&folder(pid))?;
    Some(Usage {
        pid,
        ppid: stat.ppid,
        size: stat.size,
        threads: stat.threads,
        cpu: sys::ticks_to_ns(stat.ran),
        cpu_of_waited: sys::ticks_to_ns(stat.ran_waited),
        resident: sys::pages_to_bytes(stat.resident),
        comm: stat.comm,
    })
}

/// CPU time of all that this process has waited for, and of theirs, ns.
pub(super) fn cpu_of_waited() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |used| {
        let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
        u64::try_from(micros).unwrap_or_default() * 1000
    })
}

/// Bytes by process: what it has for itself, and its share of what several have. The kernel walks through their page tables
/// for it, a millisecond for some hundred megabytes.
pub(super) fn own_memory(processes: &[&Usage]) -> HashMap<Pid, u64> {
    processes
        .iter()
        .filter(|process| !is_being_born(process, processes))
        .map(|process| (process.pid, own_memory_of(process.pid)))
        .collect()
}

/// Between vfork(2) and execve(2) a child has its parent's memory, all of it, and none of its own.
fn is_being_born(child: &Usage, processes: &[&Usage]) -> bool {
    let parent = processes.iter().find(|other| other.pid == child.ppid);
    parent.is_some_and(|parent| {
        sys::have_one_memory(parent.pid, child.pid).unwrap_or(parent.size == child.size)
    })
}

fn own_memory_of(pid: Pid) -> u64 {
    let folder = folder(pid);
    // A kernel may be built without this file, and the process may be one that we may not look into.
    let exact = fs::read_to_string(folder.join("smaps_rollup")).ok();
    exact
        .as_deref()
        .and_then(shared_out)
        .or_else(|| unshared(&fs::read_to_string(folder.join("statm")).ok()?))
        .unwrap_or_default()
}

/// Anonymous and shared memory, and what of it is in swap: each page divided by the number of those who have it.
fn shared_out(rollup: &str) -> Option<u64> {
    let mut fields = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]
        .into_iter()
        .map(|name| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        });
    fields.try_fold(0_u64, |sum, kib| Some(sum + kib? * 1024))
}

/// `size resident shared …` in pages: what is resident and not of a file.
fn unshared(statm: &str) -> Option<u64> {
    let mut fields = statm.split_ascii_whitespace().skip(1);
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (resident, shared) = (number()?, number()?);
    Some(sys::pages_to_bytes(resident.saturating_sub(shared)))
}

/// Those with the most, by name.
pub(super) fn eaters<'u>(uses: impl IntoIterator<Item = (&'u Usage, u64)>) -> Vec<Eater> {
    let mut by_name: HashMap<&str, Eater> = HashMap::new();
    for (usage, amount) in uses {
        let eater = by_name.entry(&usage.comm).or_insert_with(|| Eater {
            comm: usage.comm.clone(),
            processes: 0,
            uses: 0,
        });
        eater.processes += 1;
        eater.uses += amount;
    }
    let mut eaters: Vec<Eater> = by_name.into_values().collect();
    eaters.sort_by(|a, b| b.uses.cmp(&a.uses).then_with(|| a.comm.cmp(&b.comm)));
    eaters.truncate(NAMED);
    eaters
}

fn folder(pid: Pid) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn memory_is_what_a_process_has_for_itself_and_its_share_of_the_rest() {
        let rollup = "55d0-7ffd ---p 00000000 00:00 0    [rollup]\nRss:  8948 kB\nPss:  5008 kB\nPss_Anon: 3000 kB\n\
                      Pss_File: 2000 kB\nPss_Shmem: 8 kB\nShared_Clean: 5000 kB\nSwap: 64 kB\nSwapPss: 32 kB\n";
        assert_eq!(shared_out(rollup), Some((3000 + 8 + 32) * 1024));
        assert_eq!(shared_out("Rss: 8948 kB\n"), None);
        assert_eq!(
            unshared("5000 2237 1500 10 0 600 0"),
            Some(sys::pages_to_bytes(737))
        );
    }

    #[test]
    fn a_child_and_its_memory_are_seen() {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // What it answers, it answers when it has started: from then on it grows no more.
        let stdin = child.stdin.as_mut().unwrap();
        stdin.write_all(b".").unwrap();
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        let (me, pid) = (
            std::process::id().cast_signed(),
            Pid::try_from(child.id()).unwrap(),
        );
        // While children of other tests end, the kernel's list of them may be cut short.
        while !members(me, usize::MAX).unwrap().contains(&pid) {}
        let usage = of(&[pid]);
        let memory = own_memory(&usage.iter().collect::<Vec<_>>());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((usage[0].threads, usage[0].ppid), (1, me));
        assert!((1..=usage[0].resident).contains(&memory[&pid]));
    }

    #[test]
    fn those_with_the_most_are_named_first() {
        let usage = |comm: &str| Usage {
            pid: 1,
            ppid: 0,
            comm: comm.to_owned(),
            threads: 1,
            cpu: 0,
            cpu_of_waited: 0,
            size: 0,
            resident: 0,
        };
        let (worker, shell) = (usage("worker"), usage("sh"));
        let named = eaters([(&shell, 1), (&worker, 2), (&worker, 3)]);
        let named: Vec<_> = named
            .iter()
            .map(|eater| (eater.comm.as_str(), eater.processes, eater.uses))
            .collect();
        assert_eq!(named, [("worker", 2, 5), ("sh", 1, 1)]);
    }
}

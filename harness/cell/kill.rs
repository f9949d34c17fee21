//! Ending all that lives in the cell, also what forks while it is ended.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid as NixPid, getpgid, getpgrp, getpid};

use super::proc::{self, Stat};
use super::usage;
use crate::journal::Pid;

/// Kills everything below this process: all of the pid namespace where it is its init, the descendants otherwise. When
/// this returns none of them runs its program any more; they still have to be waited for.
///
/// `known` are some of them: without a namespace these and their groups are killed first, which takes no time.
pub(super) fn kill_all(known: &[Pid]) -> io::Result<()> {
    let me = getpid().as_raw();
    if me == 1 {
        // From the init of a namespace this reaches all in it and nobody else, and a fork that is under way fails: it
        // cannot be outrun (kill(2), pid_namespaces(7)).
        return match kill(NixPid::from_raw(-1), Signal::SIGKILL) {
            Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    // Groups do not reach over sessions, and ours is of the cell alone: nobody else is in theirs. We are in our own.
    let mut groups = HashSet::from([getpgrp()]);
    for pid in known {
        kill_with_group(*pid, &mut groups);
    }
    kill_children(me, &mut groups);
    kill_below(me, &mut groups)
}

/// The group at once, so that a fork in it that is under way fails, and the process itself.
fn kill_with_group(pid: Pid, groups: &mut HashSet<NixPid>) {
    let pid = NixPid::from_raw(pid);
    if let Ok(group) = getpgid(Some(pid))
        && group.as_raw() > 1
        && groups.insert(group)
    {
        let _ = kill(NixPid::from_raw(-group.as_raw()), Signal::SIGKILL);
    }
    let _ = kill(pid, Signal::SIGKILL);
}

/// Who has lost its parent is a child of this process, and those are listed in one file: this is over before a bomb has
/// grown much, and leaves little for the pass through all processes of the machine.
fn kill_children(me: Pid, groups: &mut HashSet<NixPid>) {
    let mut killed = HashSet::new();
    loop {
        let mut children = usage::children(me);
        children.retain(|pid| killed.insert(*pid));
        if children.is_empty() {
            return;
        }
        for pid in children {
            kill_with_group(pid, groups);
        }
    }
}

/// One that has been sent SIGKILL forks no more, and the kernel lists processes by rising number, so that those forked
/// during a pass are met in it or in the next one: a pass that meets nobody new has ended all.
fn kill_below(root: Pid, groups: &mut HashSet<NixPid>) -> io::Result<()> {
    // All that are ours, killed or not: a child may have a lower number than its parent, where numbers have run out once.
    let mut ours = HashSet::from([root]);
    let mut killed = HashSet::new();
    loop {
        let mut met = false;
        for pid in proc::pids()? {
            let Some(stat) = Stat::read(&Path::new("/proc").join(pid.to_string())) else {
                continue;
            };
            if ours.contains(&stat.ppid) && killed.insert((pid, stat.started)) {
                ours.insert(pid);
                met = true;
                kill_with_group(pid, groups);
            }
        }
        if !met {
            return Ok(());
        }
    }
}

//! What the kernel counts of a process: bytes that it has read and written, sleeps, and time that it wanted to run.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

/// `wchar` of `/proc/PID/io`.
pub(super) fn written(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("io")).ok()?;
    of_io(&text, "wchar:")
}

/// `rchar` and `wchar` of `/proc/PID/io`: the bytes that reads and writes have passed. One that fails, or finds the end of a
/// file, passes none.
pub(super) fn passed(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("io")).ok()?;
    Some(of_io(&text, "rchar:")? + of_io(&text, "wchar:")?)
}

fn of_io(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .trim()
        .parse()
        .ok()
}

/// `voluntary_ctxt_switches` of `proc_pid_status(5)`.
pub(super) fn slept(folder: &Path) -> Option<u64> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let line = status
        .lines()
        .find(|line| line.starts_with("voluntary_ctxt_switches:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Time on the CPU plus time waiting for it, ns, over all threads: `/proc/PID/schedstat` is the leader's alone.
pub(super) fn wanted(folder: &Path) -> u64 {
    let Ok(tasks) = fs::read_dir(folder.join("task")) else {
        return 0;
    };
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .map(|text| {
            text.split_ascii_whitespace()
                .take(2)
                .filter_map(|n| n.parse::<u64>().ok())
                .sum::<u64>()
        })
        .sum()
}

//! What a run leaves behind, as the operating system has it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::ground::{Ground, folders_in};

/// Far more than anything here takes; a test that waits this long has failed.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks at something outside that tells nobody when it changes: /proc, a file that grows.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The journals of all trials of all runs so far.
pub fn journals(ground: &Ground) -> Vec<PathBuf> {
    ground
        .runs()
        .iter()
        .flat_map(|run| folders_in(run))
        .map(|bundle| bundle.join("journal.jsonl"))
        .filter(|journal| journal.exists())
        .collect()
}

/// What is still here of a run that has ended: processes, and folders in TMPDIR.
fn left(ground: &Ground) -> Vec<String> {
    let folders = fs::read_dir(ground.path().join("tmp")).unwrap();
    let folders = folders.map(|entry| format!("folder {}", entry.unwrap().path().display()));
    let mark = ground.path().to_str().unwrap();
    let processes = pids().filter_map(|pid| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let told = [
            fs::read(process.join("cmdline")),
            fs::read(process.join("environ")),
            fs::read_link(process.join("cwd")).map(|cwd| cwd.into_os_string().into_encoded_bytes()),
        ];
        told.into_iter()
            .flatten()
            .any(|text| String::from_utf8_lossy(&text).contains(mark))
            .then(|| spell(pid))
    });
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(mark));
    folders
        .chain(processes)
        .chain(mounts.map(|line| format!("mount {line}")))
        .collect()
}

/// Waits until nothing is left any more, neither of the ground nor of the `family`, and says what is left if that does
/// not come.
pub fn wait_until_clear(ground: &Ground, family: &Family, within: Duration) -> Result<(), String> {
    let mut left = Vec::new();
    let clear = until(within, || {
        left = self::left(ground);
        left.extend(family.living());
        left.is_empty().then_some(())
    });
    clear.ok_or_else(|| left.join("\n"))
}

/// Asks again until there is an answer, or until it has taken too long.
pub fn until<T>(within: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() > deadline {
            return None;
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Processes that descend from one, told apart from later ones of the same number by when they started.
#[derive(Default)]
pub struct Family {
    members: BTreeMap<i32, u64>,
}

impl Family {
    /// All descendants of this process now. What another process forks in the meantime may be missing.
    pub fn of(root: u32) -> Self {
        let root = i32::try_from(root).unwrap();
        let all: Vec<(i32, i32, u64)> = pids()
            .filter_map(|pid| stat(pid).map(|(parent, started)| (pid, parent, started)))
            .collect();
        let mut members = BTreeMap::new();
        let mut parents = vec![root];
        while let Some(parent) = parents.pop() {
            for (pid, _, started) in all.iter().filter(|(_, of, _)| *of == parent) {
                if members.insert(*pid, *started).is_none() {
                    parents.push(*pid);
                }
            }
        }
        Self { members }
    }

    fn living(&self) -> Vec<String> {
        self.members
            .iter()
            .filter(|(pid, started)| stat(**pid).is_some_and(|(_, now)| now == **started))
            .map(|(pid, _)| spell(*pid))
            .collect()
    }

    /// The members whose command line holds this word.
    pub fn with(&self, word: &str) -> Vec<i32> {
        self.members
            .keys()
            .copied()
            .filter(|pid| spell(*pid).contains(word))
            .collect()
    }
}

fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Parent and start time of a process that is no zombie; see proc(5).
fn stat(pid: i32) -> Option<(i32, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if fields[0] == "Z" {
        return None;
    }
    Some((fields[1].parse().ok()?, fields[19].parse().ok()?))
}

fn spell(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    format!("process {pid}: {line}")
}

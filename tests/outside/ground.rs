//! The ground on which the command is run: drills, reports and a folder for temporary files, all of the test's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far more than anything here takes; a test that waits this long has failed.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks at something outside that tells nobody when it changes: /proc, a file that grows.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A kind of cell, as `CARGO_DRILL_CELL` names it.
pub const CELLS: [&str; 2] = ["namespaces", "subreaper"];

pub struct Ground {
    folder: TempDir,
}

impl Ground {
    /// Empty, but for an empty folder `drills`.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["drills", "tmp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `drills/NAME.yaml`.
    pub fn drill(&self, name: &str, text: &str) {
        fs::write(self.path().join(format!("drills/{name}.yaml")), text).unwrap();
    }

    /// `cargo-drill` in this folder, with the variables that change its behaviour taken away.
    pub fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-drill"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("TMPDIR", self.path().join("tmp"))
            .env("LANG", "C.UTF-8");
        for name in [
            "CI",
            "CARGO_DRILL_CELL",
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "COLUMNS",
            "LC_ALL",
            "LC_CTYPE",
            "NEXTEST_RUN_ID",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// The folders of all runs so far.
    pub fn runs(&self) -> Vec<PathBuf> {
        folders_in(&self.path().join("reports/runs"))
    }

    /// The folder of the only run.
    pub fn run(&self) -> PathBuf {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// The journals of all trials of all runs so far.
    pub fn journals(&self) -> Vec<PathBuf> {
        self.runs()
            .iter()
            .flat_map(|run| folders_in(run))
            .map(|bundle| bundle.join("journal.jsonl"))
            .filter(|journal| journal.exists())
            .collect()
    }

    /// What is still here of a run that has ended: processes, and folders in TMPDIR.
    pub fn left(&self) -> Vec<String> {
        let folders = fs::read_dir(self.path().join("tmp")).unwrap();
        let folders = folders.map(|entry| format!("folder {}", entry.unwrap().path().display()));
        let mark = self.path().to_str().unwrap();
        let processes = pids().filter_map(|pid| {
            let process = PathBuf::from(format!("/proc/{pid}"));
            let told = [
                fs::read(process.join("cmdline")),
                fs::read(process.join("environ")),
                fs::read_link(process.join("cwd"))
                    .map(|cwd| cwd.into_os_string().into_encoded_bytes()),
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
}

/// Waits until nothing is left any more, neither of the ground nor of the `family`, and says what is left if that does
/// not come.
pub fn wait_until_clear(ground: &Ground, family: &Family, within: Duration) -> Result<(), String> {
    let mut left = Vec::new();
    let clear = until(within, || {
        left = ground.left();
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

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

//! `crash: every`: one trial for each boundary of the call.
//!
//! The boundaries must be known before a trial is named, so the call is rehearsed first, twice, and side by side. What was
//! found is kept under the digest of the drill, of the server and of this tool: a run, its listing and each process of
//! nextest then name the same trials.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::note;
use super::subject::{command, find};
use super::suite::wanted_cell;
use crate::journal::hex;
use crate::spec::{Crash, CrashPoint, DrillFile, PlannedTrial};
use crate::trial::{Course, NoCourse, Spoken, Surroundings, TOOL, course};

/// Below `reports/runs`, which no repository keeps.
const FOLDER: &str = ".courses";

/// What a drill's trials are found with.
#[derive(Debug, Clone)]
pub struct Finder<'f> {
    pub reports: &'f Path,
    pub fixture: Option<&'f Path>,
}

#[derive(Serialize, Deserialize)]
struct Found {
    course: Course,
    /// How a second clean run differed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    differs: Option<String>,
}

impl Finder<'_> {
    /// The trials of a drill, `every` replaced by the boundaries that a rehearsal found. Where it found none, the trial
    /// `every` is left, which says why. `courses` is told where two clean runs differed.
    pub fn trials(&self, file: &DrillFile, courses: &mut Vec<String>) -> Vec<PlannedTrial> {
        let mut trials = Vec::new();
        for planned in file.trials() {
            if planned.crash.at != CrashPoint::Every {
                trials.push(planned);
                continue;
            }
            match self.found(file, &planned.crash) {
                Ok(found) => {
                    if let Some(differs) = found.differs {
                        courses.push(format!("{}: {differs}", planned.name));
                    }
                    let crashes = found.course.crashes(&planned.crash);
                    let line = planned.line;
                    trials.extend(crashes.into_iter().map(|crash| file.planned(crash, line)));
                }
                // The trial that is left meets the same, and tells of it.
                Err(_) => trials.push(planned),
            }
        }
        trials
    }

    fn found(&self, file: &DrillFile, every: &Crash) -> Result<Found, NoCourse> {
        let kept = self.kept(file, every);
        if let Some(found) = read(&kept) {
            return Ok(found);
        }
        if io::stderr().is_terminal() {
            let drill = &file.drill.drill;
            note(&format!(
                "rehearsing {drill} to find the boundaries of its call"
            ));
        }
        let found = self.rehearse(file, every)?;
        // Without the file the next process rehearses again, and that is all.
        let _ = keep(&kept, &found);
        Ok(found)
    }

    fn rehearse(&self, file: &DrillFile, every: &Crash) -> Result<Found, NoCourse> {
        let (_nobody, interrupted) = watch::channel(false);
        let surroundings = Surroundings {
            // What is wrong with it is said when the trials begin.
            cell: wanted_cell().unwrap_or(crate::cell::Wanted::Best),
            root: file.root.clone(),
            drill_folder: folder_of(file),
            places: file.places(),
            fixture: self.fixture.map(Path::to_owned),
            interrupted,
            spoken: Spoken::default(),
        };
        let drill = Arc::new(file.drill.clone());
        let once = || {
            let folder = tempfile::tempdir().map_err(crate::trial::TrialError::from)?;
            course(&drill, every, &surroundings, folder.path())
        };
        let (first, second) = std::thread::scope(|scope| {
            let second = scope.spawn(once);
            (once(), second.join())
        });
        let first = first?;
        let differs = match second {
            Ok(Ok(second)) => first.differs_from(&second),
            Ok(Err(error)) => Some(format!("of two clean runs one failed: {error}")),
            Err(_) => None,
        };
        Ok(Found {
            course: first,
            differs,
        })
    }

    /// Where the course is kept: named by all that it depends on, as far as that can be known beforehand.
    fn kept(&self, file: &DrillFile, every: &Crash) -> PathBuf {
        let mut digest = Sha256::new();
        let mut add = |part: &[u8]| {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        };
        add(TOOL.as_bytes());
        add(&std::env::current_exe().map_or_else(|_| Vec::new(), |exe| stamp(&exe)));
        add(&serde_json::to_vec(&file.drill).unwrap_or_default());
        add(&serde_json::to_vec(every).unwrap_or_default());
        add(format!("{:?}", wanted_cell()).as_bytes());
        for part in command(file, self.fixture) {
            add(part.as_bytes());
            if let Some(program) = find(&part, &folder_of(file)) {
                add(&stamp(&program));
            }
        }
        let name = hex(&digest.finalize());
        self.reports
            .join("runs")
            .join(FOLDER)
            .join(format!("{}.json", &name[..32]))
    }
}

fn folder_of(file: &DrillFile) -> PathBuf {
    file.path.parent().unwrap_or(&file.root).to_owned()
}

/// What tells one state of a file from another without reading it.
fn stamp(file: &Path) -> Vec<u8> {
    let Ok(metadata) = fs::metadata(file) else {
        return Vec::new();
    };
    let (inode, size) = (metadata.ino(), metadata.size());
    let (seconds, ns) = (metadata.mtime(), metadata.mtime_nsec());
    format!("{inode} {size} {seconds} {ns}").into_bytes()
}

fn read(kept: &Path) -> Option<Found> {
    serde_json::from_slice(&fs::read(kept).ok()?).ok()
}

/// Whole or not at all: another process may read it at any moment.
fn keep(kept: &Path, found: &Found) -> io::Result<()> {
    let folder = kept.parent().unwrap_or(kept);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(found)?)?;
    file.persist(kept)?;
    Ok(())
}

//! `manifest.json`: what is in the run's folder, and all that a reviewer needs to know what is missing from it.
//!
//! A bundle that shows twelve trials held says little unless it also says that there were fourteen. So the manifest names
//! every drill and trial that was found, with the reason for each one not run. And a hash chain does not show that its
//! tail was cut, so the manifest keeps each journal's final count and hash beside the digests of all files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::atomic;
use super::provenance::{Actor, Commit, Machine, Tool};
use super::results::Results;
use crate::journal::{GENESIS, hex};

const FILE_NAME: &str = "manifest.json";
const SCHEMA: u32 = 1;
/// How much of a file is in memory at a time, in bytes.
const CHUNK: usize = 64 * 1024;
/// The longest last line of a journal whose hash is read, in bytes.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// The whole of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: u32,
    pub run: String,
    pub tool: Tool,
    pub started: String,
    /// Absent for a run that did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    #[serde(flatten)]
    pub facts: RunFacts,
    pub machine: Machine,
    pub actor: Actor,
    /// By path, relative to the run's folder.
    pub journals: BTreeMap<String, JournalEnd>,
    /// Every file besides this one, by path.
    pub files: BTreeMap<String, FileEntry>,
    /// What is no file and has no digest (a link, a socket), by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, NotAFile>,
}

/// What the manifest cannot see for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunFacts {
    /// [`Commit::at`] the folder that holds the drills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Which kind of cell was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Every trial of every drill that was found.
    pub population: Vec<Population>,
}

/// One trial that exists, run or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Population {
    pub drill: String,
    /// Absent where the drill's file could not be read, so that its trials are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// Why it was not run: ignored, filtered out, a mistake in the file. Absent: it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// Of a trial that is repeated: the folder of each repeat that was carried out, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<String>,
}

/// A file and what it held when the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// In bytes.
    pub size: u64,
    /// In hex.
    pub sha256: String,
}

/// Where a journal ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEnd {
    /// How many whole lines it has.
    pub events: u64,
    /// The hash of the last whole line; 64 zeros for an empty journal, absent where that line is no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// It ends in the middle of a line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub torn: bool,
}

/// Something in the folder that has no content of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotAFile {
    LinkTo(String),
    Special,
}

/// A way in which a folder is not what its manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discrepancy {
    Missing(String),
    Changed(String),
    /// It is there, and the manifest does not know it.
    Unlisted(String),
}

/// Writes `manifest.json` into the run's folder, as the last file of the run.
pub fn write_manifest(folder: &Path, results: &Results, facts: RunFacts) -> io::Result<Manifest> {
    let contents = Contents::of(folder)?;
    let manifest = Manifest {
        schema: SCHEMA,
        run: results.run.to_string(),
        tool: Tool::this(),
        started: results.started.clone(),
        finished: results.finished.clone(),
        facts,
        machine: Machine::this(),
        actor: Actor::this(),
        journals: contents.journals,
        files: contents.files,
        others: contents.others,
    };
    let mut text = serde_json::to_vec_pretty(&manifest)?;
    text.push(b'\n');
    atomic::write(&folder.join(FILE_NAME), &text)?;
    Ok(manifest)
}

/// Compares a run's folder with its manifest.
pub fn verify(folder: &Path) -> io::Result<Vec<Discrepancy>> {
    let manifest: Manifest = serde_json::from_slice(&fs::read(folder.join(FILE_NAME))?)?;
    let found = Contents::of(folder)?;
    let mut discrepancies = Vec::new();
    compare(&manifest.files, &found.files, &mut discrepancies);
    compare(&manifest.others, &found.others, &mut discrepancies);
    for (path, end) in &manifest.journals {
        // The digest tells as much, unless somebody forged it and forgot this.
        if found.journals.get(path).is_some_and(|found| found != end) {
            let changed = Discrepancy::Changed(path.clone());
            if !discrepancies.contains(&changed) {
                discrepancies.push(changed);
            }
        }
    }
    Ok(discrepancies)
}

fn compare<T: PartialEq>(
    listed: &BTreeMap<String, T>,
    found: &BTreeMap<String, T>,
    discrepancies: &mut Vec<Discrepancy>,
) {
    for (path, entry) in listed {
        match found.get(path) {
            None => discrepancies.push(Discrepancy::Missing(path.clone())),
            Some(found) if found != entry => {
                discrepancies.push(Discrepancy::Changed(path.clone()));
            }
            Some(_) => {}
        }
    }
    for path in found.keys().filter(|path| !listed.contains_key(*path)) {
        discrepancies.push(Discrepancy::Unlisted(path.clone()));
    }
}

/// What a run's folder holds.
#[derive(Default)]
struct Contents {
    files: BTreeMap<String, FileEntry>,
    journals: BTreeMap<String, JournalEnd>,
    others: BTreeMap<String, NotAFile>,
}

impl Contents {
    fn of(folder: &Path) -> io::Result<Self> {
        let mut contents = Self::default();
        let mut unread = vec![folder.to_path_buf()];
        while let Some(current) = unread.pop() {
            for entry in fs::read_dir(&current)? {
                let entry = entry?;
                let path = entry.path();
                // The type of the entry itself: a link may lead anywhere, and reading from a fifo may never end.
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    unread.push(path);
                    continue;
                }
                let relative = path.strip_prefix(folder).unwrap_or(&path);
                let relative = relative.to_string_lossy().into_owned();
                if relative == FILE_NAME {
                    continue;
                }
                if kind.is_file() {
                    contents.read(&path, relative)?;
                } else {
                    let what = if kind.is_symlink() {
                        NotAFile::LinkTo(fs::read_link(&path)?.to_string_lossy().into_owned())
                    } else {
                        NotAFile::Special
                    };
                    contents.others.insert(relative, what);
                }
            }
        }
        Ok(contents)
    }

    fn read(&mut self, path: &Path, relative: String) -> io::Result<()> {
        let is_journal = path.file_name().is_some_and(|name| name == "journal.jsonl");
        let mut tail = is_journal.then(Tail::default);
        let mut digest = Sha256::new();
        let mut size = 0;
        let mut chunk = vec![0; CHUNK];
        let mut file = File::open(path)?;
        loop {
            let read = match file.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => &chunk[..read],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += read.len() as u64;
            digest.update(read);
            if let Some(tail) = &mut tail {
                tail.feed(read);
            }
        }
        if let Some(tail) = tail {
            self.journals.insert(relative.clone(), tail.end());
        }
        let sha256 = hex(&digest.finalize());
        self.files.insert(relative, FileEntry { size, sha256 });
        Ok(())
    }
}

/// Follows a journal to its last whole line, with that line alone in memory.
#[derive(Default)]
struct Tail {
    lines: u64,
    last: Vec<u8>,
    open: Vec<u8>,
}

impl Tail {
    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(newline) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..newline]);
            std::mem::swap(&mut self.last, &mut self.open);
            self.open.clear();
            self.lines += 1;
            bytes = &bytes[newline + 1..];
        }
        self.extend(bytes);
    }

    /// A line beyond all measure is cut, and then is no event.
    fn extend(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE.saturating_sub(self.open.len());
        self.open.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end(self) -> JournalEnd {
        #[derive(Deserialize)]
        struct Hashed {
            hash: String,
        }
        let head = if self.lines == 0 {
            Some(GENESIS.to_owned())
        } else {
            let line = serde_json::from_slice::<Hashed>(&self.last);
            line.ok().map(|line| line.hash)
        };
        JournalEnd {
            events: self.lines,
            head,
            torn: !self.open.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Event, Journal, Secrets};
    use crate::report::samples::eventful;

    /// A run's folder with two trials' files and its manifest.
    fn written() -> (tempfile::TempDir, Manifest) {
        let folder = tempfile::tempdir().unwrap();
        let trial = folder.path().join("deploy__sent");
        fs::create_dir(&trial).unwrap();
        let journal = Journal::create(&trial.join("journal.jsonl"), Secrets::default()).unwrap();
        for connection in 1..4 {
            journal.append(Event::ConnectionHeld { connection });
        }
        fs::write(trial.join("stderr.log"), vec![b'x'; 3 * CHUNK + 17]).unwrap();
        fs::write(folder.path().join("results.json"), "abc").unwrap();
        let manifest = write_manifest(folder.path(), &eventful(), facts()).unwrap();
        (folder, manifest)
    }

    fn facts() -> RunFacts {
        RunFacts {
            commit: None,
            cell: Some("namespaces".to_owned()),
            population: vec![
                Population {
                    drill: "deploy".to_owned(),
                    trial: Some("deploy::sent".to_owned()),
                    not_run: None,
                    repeats: Vec::new(),
                },
                Population {
                    drill: "notes".to_owned(),
                    trial: Some("notes::idle".to_owned()),
                    not_run: Some("filtered out".to_owned()),
                    repeats: Vec::new(),
                },
            ],
        }
    }

    #[test]
    fn every_file_is_listed_with_its_digest() {
        let (folder, manifest) = written();
        let paths: Vec<&str> = manifest.files.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "deploy__sent/journal.jsonl",
                "deploy__sent/stderr.log",
                "results.json"
            ]
        );
        // The test vector of FIPS 180-2.
        assert_eq!(
            manifest.files["results.json"].sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(manifest.files["results.json"].size, 3);
        let read: Manifest =
            serde_json::from_slice(&fs::read(folder.path().join(FILE_NAME)).unwrap()).unwrap();
        assert_eq!(read, manifest);
        assert_eq!(verify(folder.path()).unwrap(), []);
    }

    #[test]
    fn what_was_changed_dropped_or_added_afterwards_is_found() {
        let (folder, _) = written();
        let at = |path: &str| folder.path().join(path);
        fs::write(at("results.json"), "abd").unwrap();
        fs::remove_file(at("deploy__sent/stderr.log")).unwrap();
        fs::write(at("extra"), "").unwrap();
        assert_eq!(
            verify(folder.path()).unwrap(),
            [
                Discrepancy::Missing("deploy__sent/stderr.log".to_owned()),
                Discrepancy::Changed("results.json".to_owned()),
                Discrepancy::Unlisted("extra".to_owned()),
            ]
        );
    }

    #[test]
    fn a_journal_s_end_is_its_count_and_its_last_hash() {
        let (folder, manifest) = written();
        let path = "deploy__sent/journal.jsonl";
        let recorded = crate::journal::read(&folder.path().join(path)).unwrap();
        assert_eq!(
            manifest.journals[path],
            JournalEnd {
                events: 3,
                head: Some(recorded.lines[2].hash.clone()),
                torn: false
            }
        );
    }

    #[test]
    fn a_torn_journal_ends_at_its_last_whole_line() {
        let mut tail = Tail::default();
        for byte in b"{\"hash\":\"one\"}\n{\"hash\":\"two\"}\n{\"ha" {
            tail.feed(&[*byte]);
        }
        assert_eq!(
            tail.end(),
            JournalEnd {
                events: 2,
                head: Some("two".to_owned()),
                torn: true
            }
        );
        assert_eq!(Tail::default().end().head.as_deref(), Some(GENESIS));
    }

    #[test]
    fn links_are_recorded_and_not_followed() {
        let (folder, _) = written();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let manifest = write_manifest(folder.path(), &eventful(), facts()).unwrap();
        assert_eq!(
            manifest.others["link"],
            NotAFile::LinkTo("/etc/passwd".to_owned())
        );
        assert_eq!(verify(folder.path()).unwrap(), []);
    }

    #[test]
    fn the_population_names_what_was_not_run_and_why() {
        let (folder, _) = written();
        let text = fs::read(folder.path().join(FILE_NAME)).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["population"][1]["not_run"], "filtered out");
        assert!(value["population"][0].get("not_run").is_none());
        assert_eq!(value["cell"], "namespaces");
    }
}

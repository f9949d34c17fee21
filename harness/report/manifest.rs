//! `manifest.json`: what is in the run's folder, and all that a reviewer needs to know what is missing from it.
//!
//! A bundle that shows twelve trials held says little unless it also says that there were fourteen. So the manifest names
//! every drill and trial that was found, with the reason for each one not run. And a hash chain does not show that its
//! tail was cut, so the manifest keeps each journal's final count and hash beside the digests of all files.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::atomic;
use super::contents::{Contents, FileEntry, JournalEnd, NotAFile};
use super::provenance::{Actor, Commit, Machine, Tool};
use super::results::Results;
use super::subject::DrillFacts;

/// The manifest's own file, in the run's folder.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The signed statements about it, and the key that they can be checked with.
pub(crate) const ATTESTATION: &str = "attestation.intoto.jsonl";
pub(crate) const SIGNER: &str = "signer.pem";
/// What stands beside the bundle rather than in it.
pub(crate) const BESIDES: [&str; 3] = [MANIFEST, ATTESTATION, SIGNER];
const SCHEMA: u32 = 1;

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
    /// Somebody interrupted it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The id of the key that signs the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// Which part of the trials was run, as `slice:1/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// The runs that this bundle was joined from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<Shard>,
    /// Which kind of cell was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// Every drill that was found, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drills: Vec<DrillFacts>,
    /// Every trial of every drill that was found.
    pub population: Vec<Population>,
}

/// A run whose bundle was joined with others. Its manifest is kept below `shards/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub run: String,
    /// Absent for a run of nextest, which has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
}

/// One trial that exists, run or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Population {
    pub drill: String,
    /// Absent where the drill's file could not be read, so that its trials are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// The line of the drill's file on which its crash stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Why it was not run: ignored, filtered out, a mistake in the file. Absent: it was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_run: Option<String>,
    /// Of a trial that is repeated: the folder of each repeat that was carried out, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<String>,
}

/// Writes `manifest.json` into the run's folder, as the last file of the run.
pub fn write_manifest(folder: &Path, results: &Results, facts: RunFacts) -> io::Result<Manifest> {
    let contents = Contents::of(folder, &BESIDES)?;
    let manifest = Manifest {
        finished: results.finished.clone(),
        journals: contents.journals,
        files: contents.files,
        others: contents.others,
        ..Manifest::opening(results, facts)
    };
    manifest.write(folder)?;
    Ok(manifest)
}

/// Writes the manifest of a run that has just begun: what is to come, and no file yet.
pub(crate) fn open_manifest(folder: &Path, results: &Results, facts: RunFacts) -> io::Result<()> {
    Manifest::opening(results, facts).write(folder)
}

/// Why a trial was not run that the user stopped.
pub(crate) const INTERRUPTED: &str = "interrupted";

impl Manifest {
    /// The run ended, and nobody interrupted it.
    pub fn is_complete(&self) -> bool {
        let interrupted = |entry: &Population| entry.not_run.as_deref() == Some(INTERRUPTED);
        self.finished.is_some()
            && !self.facts.interrupted
            && !self.facts.population.iter().any(interrupted)
    }

    fn opening(results: &Results, facts: RunFacts) -> Self {
        Self {
            schema: SCHEMA,
            run: results.run.to_string(),
            tool: Tool::this(),
            started: results.started.clone(),
            finished: None,
            facts,
            machine: Machine::this(),
            actor: Actor::this(),
            journals: BTreeMap::new(),
            files: BTreeMap::new(),
            others: BTreeMap::new(),
        }
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        atomic::write_durably(&folder.join(MANIFEST), &text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        fs::write(trial.join("stderr.log"), vec![b'x'; 3 * 64 * 1024 + 17]).unwrap();
        fs::write(folder.path().join("results.json"), "abc").unwrap();
        let manifest = write_manifest(folder.path(), &eventful(), facts()).unwrap();
        (folder, manifest)
    }

    fn facts() -> RunFacts {
        RunFacts {
            commit: None,
            interrupted: false,
            signer: None,
            partition: None,
            shards: Vec::new(),
            cell: Some("namespaces".to_owned()),
            drills: Vec::new(),
            population: vec![
                Population {
                    drill: "deploy".to_owned(),
                    trial: Some("deploy::sent".to_owned()),
                    line: Some(12),
                    not_run: None,
                    repeats: Vec::new(),
                },
                Population {
                    drill: "notes".to_owned(),
                    trial: Some("notes::idle".to_owned()),
                    line: None,
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
            serde_json::from_slice(&fs::read(folder.path().join(MANIFEST)).unwrap()).unwrap();
        assert_eq!(read, manifest);
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
    fn links_are_recorded_and_not_followed() {
        let (folder, _) = written();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let manifest = write_manifest(folder.path(), &eventful(), facts()).unwrap();
        assert_eq!(
            manifest.others["link"],
            NotAFile::LinkTo("/etc/passwd".to_owned())
        );
    }

    #[test]
    fn the_population_names_what_was_not_run_and_why() {
        let (folder, _) = written();
        let text = fs::read(folder.path().join(MANIFEST)).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["population"][1]["not_run"], "filtered out");
        assert!(value["population"][0].get("not_run").is_none());
        assert_eq!(value["cell"], "namespaces");
    }
}

//! `seal.json`, the last file of a trial's folder: the digest of every other one, and where the journal ends.
//!
//! The run's manifest is written when the run ends, and a run may be killed before. What a trial has sealed is whole, and
//! a reader can tell, whatever becomes of the run. Before the seal, and once more before the manifest, every secret is
//! searched for: what is handed on must not hold one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::atomic;
use super::contents::{Contents, FileEntry, JOURNAL, JournalEnd, Kind, NotAFile, walk};
use crate::journal::Secrets;

pub(crate) const SEAL: &str = "seal.json";
const SCHEMA: u32 = 1;

/// What a trial's folder held when the trial had ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub schema: u32,
    pub trial: String,
    /// By path, relative to the trial's folder.
    pub journals: BTreeMap<String, JournalEnd>,
    pub files: BTreeMap<String, FileEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, NotAFile>,
}

impl Seal {
    /// The folder as it is now.
    pub fn of(folder: &Path, trial: &str) -> io::Result<Self> {
        let contents = Contents::of(folder, &[SEAL])?;
        Ok(Self {
            schema: SCHEMA,
            trial: trial.to_owned(),
            journals: contents.journals,
            files: contents.files,
            others: contents.others,
        })
    }
}

/// Seals a trial's folder.
pub fn seal(folder: &Path, trial: &str) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(&Seal::of(folder, trial)?)?;
    text.push(b'\n');
    atomic::write(&folder.join(SEAL), &text)
}

/// A secret that stood in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// Relative to the folder that was searched.
    pub file: String,
    pub secret: String,
    /// The secret's name stands there now. A journal is never rewritten.
    pub mended: bool,
}

/// Searches everything below a folder for secrets, and writes their names in their place where that can be done.
pub fn search(folder: &Path, secrets: &Secrets) -> io::Result<Vec<Leak>> {
    let mut leaks = Vec::new();
    for found in walk(folder)? {
        let found = found?;
        let path = folder.join(&found.path);
        let mut names = secrets.found_in(found.path.as_bytes())?;
        let mut mended = false;
        match found.kind {
            Kind::File => {
                let inside = secrets.found_in(File::open(&path)?)?;
                if !inside.is_empty() && !found.path.ends_with(JOURNAL) {
                    conceal(&path, secrets)?;
                    // The path itself cannot be mended: nobody would find what names it.
                    mended = names.is_empty();
                }
                names.extend(inside);
            }
            Kind::Other(NotAFile::LinkTo(target)) => {
                names.extend(secrets.found_in(target.as_bytes())?);
            }
            Kind::Other(NotAFile::Special) => {}
        }
        leaks.extend(names.into_iter().map(|secret| Leak {
            file: secrets.conceal(&found.path),
            secret,
            mended,
        }));
    }
    Ok(leaks)
}

fn conceal(path: &Path, secrets: &Secrets) -> io::Result<()> {
    atomic::write_with(path, |file| {
        let mut to = BufWriter::new(file);
        secrets.copy_concealed(File::open(path)?, &mut to)?;
        to.flush()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_secret_in_a_file_is_replaced_by_its_name_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let secrets = Secrets::default();
        secrets.mint("token of run A", "drill-0011223344");
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("sub/stderr"), "is drill-0011223344!").unwrap();
        fs::write(at(JOURNAL), "drill-0011223344").unwrap();
        fs::write(at("clean"), "drill-00").unwrap();
        let leak = |file: &str, mended| Leak {
            file: file.to_owned(),
            secret: "token of run A".to_owned(),
            mended,
        };
        let leaks = search(folder.path(), &secrets).unwrap();
        assert_eq!(leaks, [leak(JOURNAL, false), leak("sub/stderr", true)]);
        let text = fs::read_to_string(at("sub/stderr")).unwrap();
        assert_eq!(text, "is <token of run A>!");
        let again = search(folder.path(), &secrets).unwrap();
        assert_eq!(again, [leak(JOURNAL, false)]);
    }

    #[test]
    fn a_seal_has_every_file_but_itself() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("stderr"), "abc").unwrap();
        for _ in 0..2 {
            seal(folder.path(), "deploy::idle").unwrap();
        }
        let text = fs::read(folder.path().join(SEAL)).unwrap();
        let read: Seal = serde_json::from_slice(&text).unwrap();
        assert_eq!(read, Seal::of(folder.path(), "deploy::idle").unwrap());
        assert_eq!(read.files.keys().collect::<Vec<_>>(), ["stderr"]);
    }
}

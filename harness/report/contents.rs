//! What a folder of evidence holds: its files with their digests, and where its journals end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::journal::{GENESIS, hex};

/// How much of a file is in memory at a time, in bytes.
const CHUNK: usize = 64 * 1024;
/// The longest last line of a journal whose hash is read, in bytes.
const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// The name of each journal.
pub(crate) const JOURNAL: &str = "journal.jsonl";

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

/// What a folder holds.
#[derive(Default)]
pub(super) struct Contents {
    pub files: BTreeMap<String, FileEntry>,
    pub journals: BTreeMap<String, JournalEnd>,
    pub others: BTreeMap<String, NotAFile>,
}

impl Contents {
    /// All that is below the folder, but for the files named in `besides`, which lie at its top.
    pub fn of(folder: &Path, besides: &[&str]) -> io::Result<Self> {
        let mut contents = Self::default();
        for found in walk(folder)? {
            let Found { path, kind } = found?;
            if besides.contains(&path.as_str()) {
                continue;
            }
            match kind {
                Kind::File => {
                    let (entry, end) = read(&folder.join(&path), &path)?;
                    contents.journals.extend(end.map(|end| (path.clone(), end)));
                    contents.files.insert(path, entry);
                }
                Kind::Other(what) => {
                    contents.others.insert(path, what);
                }
            }
        }
        Ok(contents)
    }
}

/// Something below a folder.
#[derive(Debug)]
pub(crate) struct Found {
    /// Relative to the folder.
    pub path: String,
    pub kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    File,
    Other(NotAFile),
}

/// What is below a folder, sorted by path, with no more in memory than the listings of the folders on the way.
pub(crate) fn walk(folder: &Path) -> io::Result<Walk> {
    Ok(Walk {
        root: folder.to_path_buf(),
        levels: vec![listed(folder, "")?],
    })
}

#[derive(Debug)]
pub(crate) struct Walk {
    root: PathBuf,
    /// Of each folder on the way, what is still to be seen, the next at the end. Folders end in a slash.
    levels: Vec<Vec<String>>,
}

impl Iterator for Walk {
    type Item = io::Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(path) = self.levels.last_mut()?.pop() else {
                self.levels.pop();
                continue;
            };
            if !path.ends_with('/') {
                let kind = kind_of(&self.root.join(&path));
                return Some(kind.map(|kind| Found { path, kind }));
            }
            match listed(&self.root.join(&path), &path) {
                Ok(below) => self.levels.push(below),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The entries of a folder as paths, last first: with the slash of a folder they come in the order of whole paths.
fn listed(folder: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // The type of the entry itself: a link to a folder is not entered.
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        let name = entry.file_name();
        paths.push(format!("{prefix}{}{slash}", name.to_string_lossy()));
    }
    paths.sort_unstable_by(|a, b| b.cmp(a));
    Ok(paths)
}

/// A link may lead anywhere, and reading from a fifo may never end: only files are read.
fn kind_of(path: &Path) -> io::Result<Kind> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_file() {
        return Ok(Kind::File);
    }
    Ok(Kind::Other(if kind.is_symlink() {
        NotAFile::LinkTo(fs::read_link(path)?.to_string_lossy().into_owned())
    } else {
        NotAFile::Special
    }))
}

/// The size and digest of a file, and of a journal its end.
pub(crate) fn read(file: &Path, path: &str) -> io::Result<(FileEntry, Option<JournalEnd>)> {
    let is_journal = path.rsplit('/').next() == Some(JOURNAL);
    let mut tail = is_journal.then(Tail::default);
    let entry = digest(File::open(file)?, |read| {
        if let Some(tail) = &mut tail {
            tail.feed(read);
        }
    })?;
    Ok((entry, tail.map(Tail::end)))
}

/// Reads to the end, a piece at a time, each of which `see` sees as well.
pub(crate) fn digest(mut from: impl Read, mut see: impl FnMut(&[u8])) -> io::Result<FileEntry> {
    let mut digest = Sha256::new();
    let mut size = 0;
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => &chunk[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        size += read.len() as u64;
        digest.update(read);
        see(read);
    }
    let sha256 = hex(&digest.finalize());
    Ok(FileEntry { size, sha256 })
}

/// Follows a journal to its last whole line, with that line alone in memory.
#[derive(Debug, Default)]
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

    #[test]
    fn what_is_below_a_folder_comes_in_the_order_of_the_paths() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a-b", "a/b", "a/c/d", "a.b", "a/", "b"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !path.is_dir() {
                fs::write(path, "").unwrap();
            }
        }
        std::os::unix::fs::symlink("/", folder.path().join("root")).unwrap();
        let paths: Vec<String> = walk(folder.path())
            .unwrap()
            .map(|found| found.unwrap().path)
            .collect();
        assert_eq!(paths, ["a-b", "a.b", "a/b", "a/c/d", "b", "root"]);
        assert!(paths.is_sorted());
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
}

//! Reading the ownership log as it stands on disk: another process can read it, or it is no record.
//!
//! The log belongs to the server under drill, so nothing about it is trusted: it may be a FIFO that never answers, a link
//! that leads out of the work folder, or larger than memory.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::journal::{Event, Journal, Moment, Row, excerpt};
use crate::spec::Ownership;

/// A log that is larger is not read.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A field that is longer is cut.
const LONGEST_FIELD: usize = 1024;

/// Reads the ownership log of one trial.
#[derive(Debug, Clone)]
pub(super) struct Record {
    path: PathBuf,
    work: PathBuf,
    pointers: Vec<(&'static str, String)>,
    journal: Journal,
}

impl Record {
    pub fn new(ownership: &Ownership, path: PathBuf, work: &Path, journal: &Journal) -> Self {
        let record = &ownership.record;
        let named = [
            ("run", record.run.as_ref()),
            ("call", Some(&record.call)),
            ("process", record.process.as_ref()),
            ("approval", record.approval.as_ref()),
            ("target", record.target.as_ref()),
            ("key", record.key.as_ref()),
            ("effect", record.effect.as_ref()),
            ("outcome", Some(&record.outcome)),
        ];
        Self {
            path,
            work: work.to_owned(),
            pointers: named
                .into_iter()
                .filter_map(|(name, pointer)| Some((name, pointer?.clone())))
                .collect(),
            journal: journal.clone(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the log and appends `record-read`.
    pub fn read(&self, moment: Moment, connection: Option<u32>) {
        let mut event = Read {
            present: true,
            ..Read::default()
        };
        match read_regular(&self.path, &self.work) {
            Ok(bytes) => self.take(&bytes, &mut event),
            Err(error) if error.kind() == io::ErrorKind::NotFound => event.present = false,
            Err(error) => event.unreadable = Some(error.to_string()),
        }
        let Read {
            present,
            bytes,
            rows,
            lines,
            torn,
            unreadable,
        } = event;
        self.journal.append(Event::RecordRead {
            moment,
            connection,
            present,
            bytes,
            rows,
            lines,
            torn,
            unreadable,
        });
    }

    fn take(&self, bytes: &[u8], event: &mut Read) {
        event.bytes = bytes.len() as u64;
        let mut end = 0;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            end += line.len() as u64;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            event.lines += 1;
            match serde_json::from_slice::<Value>(line) {
                Ok(row @ Value::Object(_)) => {
                    let row = self.row(index as u64 + 1, end, &row);
                    if row.fields.contains_key("call") {
                        event.rows.push(row);
                    }
                }
                _ => event.torn += 1,
            }
        }
    }

    fn row(&self, line: u64, end: u64, row: &Value) -> Row {
        let fields: BTreeMap<String, Value> = self
            .pointers
            .iter()
            .filter_map(|(name, pointer)| {
                let value = row.pointer(pointer)?;
                let bounded = match value {
                    Value::String(text) => Value::String(excerpt(text, LONGEST_FIELD)),
                    Value::Array(_) | Value::Object(_) => {
                        Value::String(excerpt(&value.to_string(), LONGEST_FIELD))
                    }
                    scalar => scalar.clone(),
                };
                Some(((*name).to_owned(), bounded))
            })
            .collect();
        Row {
            line,
            end: Some(end),
            fields,
        }
    }
}

#[derive(Default)]
struct Read {
    present: bool,
    bytes: u64,
    rows: Vec<Row>,
    lines: u64,
    torn: u64,
    unreadable: Option<String>,
}

/// The content of a regular file inside `work`. Never blocks, never follows a link.
pub(super) fn read_regular(path: &Path, work: &Path) -> io::Result<Vec<u8>> {
    let folder = path.parent().unwrap_or(work).canonicalize()?;
    if !folder.starts_with(work.canonicalize()?) {
        return Err(io::Error::other("it is outside the work folder"));
    }
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
    {
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(io::Error::other("it is a symbolic link"));
        }
        other => other?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > LARGEST {
        return Err(io::Error::other(format!(
            "it is larger than {} MiB",
            LARGEST >> 20
        )));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Secrets;
    use crate::spec::RecordPointers;

    fn record(work: &Path) -> (Record, Journal) {
        let journal = Journal::create(&work.join("journal.jsonl"), Secrets::default()).unwrap();
        let ownership = Ownership {
            log: String::new(),
            record: RecordPointers {
                call: "/call_id".to_owned(),
                outcome: "/outcome".to_owned(),
                ..RecordPointers::default()
            },
            outcomes: crate::spec::Outcomes::default(),
            durable: false,
        };
        (
            Record::new(&ownership, work.join("activity.jsonl"), work, &journal),
            journal,
        )
    }

    fn last(journal: &Journal) -> Event {
        journal
            .latest(|entry| Some((*entry.event).clone()))
            .unwrap()
    }

    #[test]
    fn rows_are_seen_through_the_pointers_and_half_lines_are_counted() {
        let work = tempfile::tempdir().unwrap();
        let (record, journal) = record(work.path());
        std::fs::write(
            record.path(),
            "{\"call_id\":\"c1\",\"outcome\":\"intended\",\"other\":1}\n{\"x\":1}\n{\"call_id\":\"c1\",\"outc",
        )
        .unwrap();
        record.read(Moment::Point, None);
        let Event::RecordRead {
            rows, lines, torn, ..
        } = last(&journal)
        else {
            panic!()
        };
        assert_eq!((rows.len(), lines, torn), (1, 3, 1));
        assert_eq!(rows[0].text("outcome").as_deref(), Some("intended"));
        assert_eq!(rows[0].fields.len(), 2);
        assert_eq!(rows[0].end, Some(48));
    }

    #[test]
    fn a_missing_log_is_not_present() {
        let work = tempfile::tempdir().unwrap();
        let (record, journal) = record(work.path());
        record.read(Moment::Point, None);
        let Event::RecordRead {
            present,
            unreadable,
            ..
        } = last(&journal)
        else {
            panic!()
        };
        assert!(!present && unreadable.is_none());
    }

    #[test]
    fn a_fifo_does_not_hang_and_a_link_is_not_followed() {
        let work = tempfile::tempdir().unwrap();
        let (record, journal) = record(work.path());
        nix::unistd::mkfifo(record.path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        record.read(Moment::Point, None);
        let Event::RecordRead { unreadable, .. } = last(&journal) else {
            panic!()
        };
        assert_eq!(unreadable.as_deref(), Some("it is not a regular file"));

        std::fs::remove_file(record.path()).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", record.path()).unwrap();
        record.read(Moment::Point, None);
        let Event::RecordRead { unreadable, .. } = last(&journal) else {
            panic!()
        };
        assert_eq!(unreadable.as_deref(), Some("it is a symbolic link"));
    }
}

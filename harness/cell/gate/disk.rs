//! How the ownership log comes to the disk: what had been synced by when.
//!
//! What a sync takes with it is what stands in the file when it begins. It counts once it has returned, which the kernel
//! does not tell: the thread that made it is looked at whenever it matters, before a connection is sought.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::look::{is_in, low_half};
use super::notify::Call;
use crate::journal::{Event, Journal, Pid};

/// The ownership log, as far as it goes to the disk.
#[derive(Debug)]
pub(super) struct Disk {
    record: PathBuf,
    journal: Journal,
    /// Syncs that have begun. One of another file than the log may become one of it: a log that is replaced as a whole is
    /// written and synced under another name, and renamed.
    begun: Vec<Sync>,
}

#[derive(Debug)]
struct Sync {
    thread: i32,
    number: i32,
    pid: Pid,
    file: (u64, u64),
    bytes: u64,
    has_returned: bool,
}

/// Of a server that syncs more files than this before it dispatches anything, the oldest is forgotten.
const MOST_SYNCS: usize = 256;

impl Disk {
    pub fn new(record: PathBuf, journal: &Journal) -> Self {
        Self {
            record,
            journal: journal.clone(),
            begun: Vec::new(),
        }
    }

    /// A file is about to be opened for writing.
    pub fn open(&self, pid: Pid, path: &Path, synchronous: bool) {
        if self.is_record(path) {
            self.journal
                .append(Event::RecordOpened { pid, synchronous });
        }
    }

    /// A file is about to be synced, or everything is where `all`.
    pub fn sync(&mut self, call: &Call, pid: Pid, all: bool) {
        let synced = if all {
            fs::metadata(&self.record)
        } else {
            let descriptor = low_half(call.arguments[0]);
            fs::metadata(format!("/proc/{}/fd/{descriptor}", call.thread))
        };
        let Ok(synced) = synced else { return };
        // A call that is told again is the same sync.
        self.begun
            .retain(|sync| sync.thread != call.thread || sync.has_returned);
        if self.begun.len() == MOST_SYNCS {
            self.begun.remove(0);
        }
        self.begun.push(Sync {
            thread: call.thread,
            number: call.number,
            pid,
            file: (synced.dev(), synced.ino()),
            bytes: synced.len(),
            has_returned: false,
        });
    }

    /// The sync of this thread is answered with an error.
    pub fn fail(&mut self, call: &Call) {
        self.begun
            .retain(|sync| sync.thread != call.thread || sync.has_returned);
    }

    /// Tells of the syncs that have returned. `now` waits in a call: whatever it did before has returned.
    pub fn settle(&mut self, now: &Call) {
        let journal = &self.journal;
        for sync in self.begun.iter_mut().filter(|sync| !sync.has_returned) {
            let in_it = (sync.thread != now.thread).then(|| is_in(sync.thread, sync.number));
            if in_it == Some(None) {
                journal.append(Event::GateUnavailable {
                    because: "whether a sync has returned cannot be told here".to_owned(),
                });
            }
            sync.has_returned = matches!(in_it, None | Some(Some(false)));
        }
        let record = fs::metadata(&self.record).map(|record| (record.dev(), record.ino()));
        let Ok(record) = record else { return };
        self.begun.retain(|sync| {
            let is_of_record = sync.has_returned && sync.file == record;
            if is_of_record {
                journal.append(Event::RecordSynced {
                    pid: sync.pid,
                    bytes: sync.bytes,
                });
            }
            !is_of_record
        });
    }

    fn is_record(&self, path: &Path) -> bool {
        path == self.record
            || placed(path).is_some_and(|place| Some(place) == placed(&self.record))
            || matches!(
                (fs::metadata(path), fs::metadata(&self.record)),
                (Ok(one), Ok(other)) if is_one(&one, &other)
            )
    }
}

/// The folder of a path without links, and its name: also of a file that is not there yet.
fn placed(path: &Path) -> Option<(PathBuf, &std::ffi::OsStr)> {
    Some((path.parent()?.canonicalize().ok()?, path.file_name()?))
}

fn is_one(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

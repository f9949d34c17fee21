//! What is collected of a server in files of the trial's own: its stderr, or the notifications that its client received.
//!
//! A file for each session, in the scratch folder of the cell. The server holds its stderr open itself, so it may write
//! there when its client has gone, and long after. Notifications stand there as the client has received them; when it has
//! gone, nobody receives any more.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::file::{read_beginning, read_regular};
use crate::journal::{Moment, Session};
use crate::session::{Noting, file_stem};

/// The client reads what is in a pipe within milliseconds, on a loaded machine later.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// The sessions, in the order in which they begin to write.
const SESSIONS: [Session; 4] = [Session::Beside, Session::A, Session::B, Session::Revoked];

/// What is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trial) enum Collected {
    Stderr,
    Notifications,
}

/// Where it is collected, and whom to ask whether it is all. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::trial) struct Collector {
    what: Collected,
    folder: PathBuf,
    taps: Arc<Mutex<HashMap<Session, Tap>>>,
}

/// Where a client is asked.
#[derive(Debug)]
struct Tap {
    stream: UnixStream,
    asked: u8,
}

/// What became of the question whether the client has received all that its server had written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// It has.
    All,
    /// It reads no more: it has gone, or its server has. What it has received is what there is.
    Gone,
    /// It did not say.
    Nothing,
}

impl Collector {
    pub fn new(what: Collected, folder: PathBuf) -> Self {
        Self {
            what,
            folder,
            taps: Arc::default(),
        }
    }

    /// The file for the stderr of a session, where that is collected.
    pub fn stderr_of(&self, session: Session) -> Option<PathBuf> {
        (self.what == Collected::Stderr).then(|| self.file_of(session))
    }

    /// The file for the notifications of a session, where those are collected.
    pub fn noting_of(&self, session: Session) -> Option<Noting> {
        (self.what == Collected::Notifications).then(|| Noting {
            file: self.file_of(session),
            tap: self.folder.join(format!("tap-{}", file_stem(session))),
        })
    }

    fn file_of(&self, session: Session) -> PathBuf {
        let what = match self.what {
            Collected::Stderr => "stderr",
            Collected::Notifications => "notes",
        };
        self.folder.join(format!("{what}-{}", file_stem(session)))
    }

    /// From here on the client of this session can be asked.
    pub fn listen(&self, session: Session, stream: UnixStream) {
        let tap = Tap { stream, asked: 0 };
        self.lock().insert(session, tap);
    }

    /// What each session has left so far.
    ///
    /// # Errors
    ///
    /// A file cannot be read. Or, where nothing has been crashed yet, a client does not say that it has received all: then
    /// a row may be on its way, and its absence proves nothing.
    pub fn read(&self, moment: Moment) -> io::Result<Vec<Vec<u8>>> {
        let is_before_crash = matches!(moment, Moment::Dispatch | Moment::Point);
        let heard = self.ask_all();
        if heard.contains(&Heard::Nothing) && is_before_crash {
            return Err(io::Error::other(format!(
                "the client did not read its server's stdout to the end within {} s",
                TAKEN_WITHIN.as_secs()
            )));
        }
        let mut files = Vec::new();
        for session in SESSIONS {
            match read_regular(&self.file_of(session), &self.folder) {
                Ok(bytes) => files.push(bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// What each session wrote to its stderr, where that is collected; of more than fits into memory the beginning.
    pub fn all_stderr(&self) -> Vec<(Session, io::Result<Vec<u8>>)> {
        let files = SESSIONS.into_iter().filter_map(|session| {
            let file = self.stderr_of(session)?;
            let bytes = read_beginning(&file, &self.folder);
            let error = bytes.as_ref().err();
            let is_there = error.is_none_or(|error| error.kind() != io::ErrorKind::NotFound);
            is_there.then_some((session, bytes))
        });
        files.collect()
    }

    /// Who has gone, or does not answer, is not asked again.
    fn ask_all(&self) -> Vec<Heard> {
        let mut all = Vec::new();
        self.lock().retain(|_, tap| {
            let heard = tap.ask();
            all.push(heard);
            heard == Heard::All
        });
        all
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Session, Tap>> {
        self.taps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap {
    fn ask(&mut self) -> Heard {
        self.asked = self.asked.wrapping_add(1);
        let mut answer = [0];
        let asked = self
            .stream
            .set_read_timeout(Some(TAKEN_WITHIN))
            .and_then(|()| self.stream.write_all(&[self.asked]))
            .and_then(|()| self.stream.read(&mut answer));
        match asked {
            Ok(1) if answer[0] == self.asked => Heard::All,
            Ok(0) => Heard::Gone,
            Err(error) if is_gone(&error) => Heard::Gone,
            Ok(_) | Err(_) => Heard::Nothing,
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(what: Collected) -> (tempfile::TempDir, Collector) {
        let folder = tempfile::tempdir().unwrap();
        let collector = Collector::new(what, folder.path().to_owned());
        (folder, collector)
    }

    #[test]
    fn the_files_of_the_sessions_are_read_in_the_order_of_their_beginning() {
        let (_folder, collector) = collector(Collected::Stderr);
        let write = |session, text| {
            std::fs::write(collector.stderr_of(session).unwrap(), text).unwrap();
        };
        write(Session::B, "b");
        write(Session::A, "a");
        assert_eq!(collector.read(Moment::End).unwrap(), [b"a", b"b"]);
        assert!(collector.noting_of(Session::A).is_none());
    }

    #[test]
    fn a_client_that_has_gone_has_left_all_there_is() {
        let (_folder, collector) = collector(Collected::Notifications);
        let (ours, theirs) = UnixStream::pair().unwrap();
        collector.listen(Session::A, ours);
        drop(theirs);
        std::fs::write(collector.noting_of(Session::A).unwrap().file, "a").unwrap();
        assert_eq!(collector.read(Moment::Point).unwrap(), [b"a"]);
    }

    #[test]
    fn a_client_that_has_taken_all_says_so() {
        let (_folder, collector) = collector(Collected::Notifications);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        collector.listen(Session::A, ours);
        let client = std::thread::spawn(move || {
            let mut token = [0];
            theirs.read_exact(&mut token).unwrap();
            theirs.write_all(&token).unwrap();
        });
        assert!(collector.read(Moment::Point).unwrap().is_empty());
        client.join().unwrap();
    }
}

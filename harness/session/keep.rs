//! What a session leaves on disk as it goes: the transcript of raw lines, and the server's stderr.
//!
//! Secrets are replaced by their names before anything is written, and looked for in the same pass.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::journal::{Event, Journal, Place, Session, Stamp, Way, excerpt, printable};

/// More stderr than this is counted and searched, and not kept.
const MOST_STDERR: u64 = 8 * 1024 * 1024;

/// The end of stderr that a report quotes.
const TAIL: usize = 2048;

pub(super) struct Keep {
    session: Session,
    journal: Journal,
    transcript: File,
    /// Absent where stderr goes to a file of its own, which is gathered when all is over.
    stderr: Option<File>,
    stderr_bytes: u64,
    searched: u64,
    tail: String,
    /// The last line so far without its end: a secret may be cut by a chunk.
    unfinished: String,
    seen: HashSet<(String, &'static str)>,
}

#[derive(Serialize)]
struct TranscriptLine<'a> {
    /// Nanoseconds since the trial's start.
    at: u64,
    way: Way,
    line: &'a str,
}

impl Keep {
    pub fn open(
        session: Session,
        folder: &Path,
        has_collector: bool,
        journal: &Journal,
    ) -> io::Result<Self> {
        let name = file_stem(session);
        let stderr = (!has_collector).then(|| File::create(stderr_of(session, folder)));
        Ok(Self {
            session,
            journal: journal.clone(),
            transcript: File::create(folder.join(format!("transcript-{name}.jsonl")))?,
            stderr: stderr.transpose()?,
            stderr_bytes: 0,
            searched: 0,
            tail: String::new(),
            unfinished: String::new(),
            seen: HashSet::new(),
        })
    }

    pub fn line(&mut self, at: Stamp, way: Way, text: &str) -> io::Result<()> {
        if way == Way::FromServer {
            self.search(text, Place::Stdout, "a line of stdout");
        }
        let line = &self.journal.secrets().conceal(text);
        let text = serde_json::to_string(&TranscriptLine {
            at: self.journal.since_start(at),
            way,
            line,
        })?;
        writeln!(self.transcript, "{}", escape(&text))
    }

    pub fn stderr(&mut self, chunk: &str) -> io::Result<()> {
        self.unfinished.push_str(chunk);
        let Some(end) = self
            .unfinished
            .rfind('\n')
            .map(|end| end + 1)
            .or_else(|| (self.unfinished.len() > 64 * 1024).then_some(self.unfinished.len()))
        else {
            return Ok(());
        };
        let whole: String = self.unfinished.drain(..end).collect();
        self.keep_stderr(&whole)
    }

    /// The end of stderr as far as it has come.
    pub fn tail(&self) -> String {
        let text = format!(
            "{}{}",
            self.tail,
            self.journal.secrets().conceal(&self.unfinished)
        );
        last(&text, TAIL).trim().to_owned()
    }

    /// Writes what is left and says what was searched.
    pub fn close(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.unfinished);
        let kept = self.keep_stderr(&rest);
        if self.stderr_bytes > 0 {
            self.journal.append(Event::StderrKept {
                session: self.session,
                tail: self.tail(),
            });
        }
        let mut places = vec!["stdout".to_owned()];
        places.extend(self.stderr.as_ref().map(|_| "stderr".to_owned()));
        self.journal.append(Event::SecretsSought {
            session: self.session,
            places,
            bytes: self.searched,
        });
        kept
    }

    fn keep_stderr(&mut self, whole: &str) -> io::Result<()> {
        if whole.is_empty() {
            return Ok(());
        }
        self.search(whole, Place::Stderr, "a line of stderr");
        let before = self.stderr_bytes;
        self.stderr_bytes += whole.len() as u64;
        let is_kept = before < MOST_STDERR;
        // Twice as much as is quoted, so that a secret that is cut stands outside of the quote.
        let worth = if is_kept {
            whole
        } else {
            last(whole, 2 * TAIL)
        };
        let safe = printable(&self.journal.secrets().conceal(worth));
        self.tail.push_str(&safe);
        self.tail = last(&self.tail, TAIL).to_owned();
        if let Some(file) = self.stderr.as_mut().filter(|_| is_kept) {
            file.write_all(safe.as_bytes())?;
            if self.stderr_bytes >= MOST_STDERR {
                writeln!(file, "\n[the rest of stderr is not kept]")?;
            }
        }
        Ok(())
    }

    fn search(&mut self, text: &str, place: Place, what: &'static str) {
        self.searched += text.len() as u64;
        for secret in self.journal.secrets().seen_in(text.as_bytes()) {
            if self.seen.insert((secret.clone(), what)) {
                let at = text
                    .lines()
                    .find(|line| !self.journal.secrets().seen_in(line.as_bytes()).is_empty());
                let quote = excerpt(&self.journal.secrets().conceal(at.unwrap_or(text)), 200);
                self.journal.append(Event::SecretSeen {
                    session: self.session,
                    secret,
                    place,
                    detail: format!("{what}: {quote}"),
                });
            }
        }
    }
}

/// How a session's files are named.
pub fn file_stem(session: Session) -> &'static str {
    match session {
        Session::Beside => "beside",
        Session::A => "a",
        Session::Revoked => "revoked",
        Session::B => "b",
    }
}

fn stderr_of(session: Session, folder: &Path) -> PathBuf {
    folder.join(format!("stderr-{}.txt", file_stem(session)))
}

/// The end of a stderr that goes to this file.
pub(super) fn tail_of(file: &Path, journal: &Journal) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(file)?;
        let end = file.metadata()?.len();
        // Twice as much as is quoted, so that a secret that is cut stands outside of the quote.
        file.seek(SeekFrom::Start(end.saturating_sub(2 * TAIL as u64)))?;
        let mut bytes = Vec::new();
        file.take(2 * TAIL as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let safe = printable(&journal.secrets().conceal(&String::from_utf8_lossy(&bytes)));
    last(&safe, TAIL).trim().to_owned()
}

/// Searches what a session wrote to a stderr that is a file, and keeps it, as it is done with the other kind as it comes.
pub fn gather_stderr(
    session: Session,
    bytes: &[u8],
    folder: &Path,
    journal: &Journal,
) -> io::Result<()> {
    let secrets = journal.secrets();
    let mut seen = HashSet::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        for secret in secrets.seen_in(line) {
            if !seen.insert(secret.clone()) {
                continue;
            }
            let text = secrets.conceal(&String::from_utf8_lossy(line));
            journal.append(Event::SecretSeen {
                session,
                secret,
                place: Place::Stderr,
                detail: format!("a line of stderr: {}", excerpt(&text, 200)),
            });
        }
    }
    journal.append(Event::SecretsSought {
        session,
        places: vec!["stderr".to_owned()],
        bytes: bytes.len() as u64,
    });
    let text = secrets.conceal(&String::from_utf8_lossy(bytes));
    if !bytes.is_empty() {
        journal.append(Event::StderrKept {
            session,
            tail: last(&printable(&text), TAIL).trim().to_owned(),
        });
    }
    let most = usize::try_from(MOST_STDERR).unwrap_or(usize::MAX);
    let end = (0..=text.len().min(most))
        .rev()
        .find(|&i| text.is_char_boundary(i));
    let kept = &text[..end.unwrap_or_default()];
    let mut file = File::create(stderr_of(session, folder))?;
    file.write_all(printable(kept).as_bytes())?;
    if kept.len() < text.len() {
        writeln!(file, "\n[the rest of stderr is not kept]")?;
    }
    Ok(())
}

/// Characters that a terminal would act on, as JSON escapes: the line stays what it was, and `cat` is safe.
fn escape(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if printable(c.encode_utf8(&mut [0; 4])).len() > c.len_utf8() {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

fn last(text: &str, most: usize) -> &str {
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len())
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(text.len());
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escaped_line_is_the_same_json() {
        let json = serde_json::to_string("a\u{9b}31m \u{202e} é").unwrap();
        let safe = escape(&json);
        assert!(
            !safe.contains('\u{9b}') && !safe.contains('\u{202e}'),
            "{safe}"
        );
        assert_eq!(
            serde_json::from_str::<String>(&safe).unwrap(),
            "a\u{9b}31m \u{202e} é"
        );
    }
}

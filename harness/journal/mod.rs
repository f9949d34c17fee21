//! The journal: the ordered, typed, hash-chained events of a trial.
//!
//! It is the spine of a trial. Whoever does something appends what was seen; whoever waits, waits for an event:
//!
//! ```text
//!   cell ─┐                 ┌─> journal.jsonl   one line an event, written at once
//!  session├─> append(event) ┤
//!  remote ┘                 └─> Watch           the trial: `watch.until(deadline, |event| …)`
//! ```
//!
//! A line is in the file before anybody can see its event, so a harness that is killed leaves a journal that ends where it
//! stood. Secrets never reach the file: their names stand in their place.
//!
//! `seq` and the chain are in the order in which events arrived here, `at` is when each thing happened, where it happened:
//! what a client saw just before its death arrives after the cell has told of that death. Whoever asks what came first
//! reads a journal in the order of [`Line::place`].

mod chain;
mod clock;
mod event;
mod host;
mod printable;
pub(crate) mod regular;
mod secrets;
mod seen;
mod watch;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch as tokio_watch;

pub use chain::{ChainError, GENESIS, Recorded, hash, hex, read};
pub use clock::Stamp;
pub use event::*;
pub use host::{Asker, Host, HostOutcome, Sought, Transport, hosts_sought};
pub use printable::{excerpt, printable};
pub use secrets::{Secret, Secrets, names_in};
pub use seen::*;
pub use watch::Watch;

/// One line of `journal.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The order of arrival.
    pub seq: Seq,
    /// When it happened: nanoseconds since the trial's start.
    pub at: u64,
    /// The same in UTC, RFC 3339.
    pub time: String,
    #[serde(flatten)]
    pub event: Event,
    /// The hash of the line before; 64 zeros in the first.
    pub prev: String,
    /// SHA-256 over the RFC 8785 canonical form of this line without `hash`.
    pub hash: String,
}

impl Line {
    /// What the order of time goes by. Two things of one nanosecond happened in the order in which they arrived.
    #[must_use]
    pub fn place(&self) -> (u64, Seq) {
        (self.at, self.seq)
    }
}

/// The lines of a journal in the order in which things happened.
#[must_use]
pub fn in_time(lines: &[Line]) -> Vec<&Line> {
    let mut lines: Vec<&Line> = lines.iter().collect();
    lines.sort_by_key(|line| line.place());
    lines
}

/// An event as those in the harness see it.
#[derive(Debug, Clone)]
pub struct Entry {
    pub seq: Seq,
    /// When it happened.
    pub at: Stamp,
    pub event: Arc<Event>,
}

/// The journal of one trial. Cheap to clone; all clones append to one file.
#[derive(Debug, Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    start: Stamp,
    /// The trial's start on the clock of the wall.
    started: jiff::Timestamp,
    secrets: Secrets,
    state: Mutex<State>,
    /// The number of events so far.
    count: tokio_watch::Sender<usize>,
}

#[derive(Debug)]
struct State {
    file: File,
    head: String,
    entries: Vec<Entry>,
    failure: Option<String>,
}

impl Journal {
    /// Starts an empty journal at `path`; the trial's clock starts now.
    pub fn create(path: &Path, secrets: Secrets) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let (count, _) = tokio_watch::channel(0);
        Ok(Self {
            inner: Arc::new(Inner {
                start: Stamp::now(),
                started: jiff::Timestamp::now(),
                secrets,
                state: Mutex::new(State {
                    file,
                    head: GENESIS.to_owned(),
                    entries: Vec::new(),
                    failure: None,
                }),
                count,
            }),
        })
    }

    /// Appends an event that happens now and returns its number.
    ///
    /// An event that cannot be written (a full disk) is kept in memory, so that the trial can go on to its orderly end;
    /// [`Journal::failure`] says so, and the trial is an `error`.
    pub fn append(&self, event: Event) -> Seq {
        self.write_down(event, None)
    }

    /// Appends an event that another process saw at `when`. Nothing happens before the trial has started, nor after it was
    /// told.
    pub fn append_at(&self, when: Stamp, event: Event) -> Seq {
        self.write_down(event, Some(when))
    }

    /// Appends how a process ended, unless it is a server of which that is told already: where its client dies as well,
    /// that client and the cell's init can both have seen it.
    pub fn append_exit(&self, when: Stamp, pid: Pid, exit: Exit, comm: Option<String>) {
        let state = self.state();
        let mut is_told = false;
        // A pid can come again: what counts is what was told of it since a server had it.
        for entry in state.entries.iter().rev() {
            match &*entry.event {
                Event::ProcessExited { pid: of, .. } if *of == pid => is_told = true,
                Event::ServerStarted { pid: of, .. } if *of == pid && is_told => return,
                Event::ServerStarted { pid: of, .. } if *of == pid => break,
                _ => {}
            }
        }
        self.write_into(state, Event::ProcessExited { pid, exit, comm }, Some(when));
    }

    fn write_down(&self, event: Event, when: Option<Stamp>) -> Seq {
        self.write_into(self.state(), event, when)
    }

    fn write_into(
        &self,
        mut state: MutexGuard<'_, State>,
        event: Event,
        when: Option<Stamp>,
    ) -> Seq {
        let seq = state.entries.len() as Seq;
        let at = self.possible(when.unwrap_or_else(Stamp::now));
        if state.failure.is_none()
            && let Err(error) = self.write(&mut state, seq, at, &event)
        {
            state.failure = Some(format!("failed to write the journal: {error}"));
        }
        state.entries.push(Entry {
            seq,
            at,
            event: Arc::new(event),
        });
        let count = state.entries.len();
        drop(state);
        self.inner.count.send_replace(count);
        seq
    }

    fn write(&self, state: &mut State, seq: Seq, at: Stamp, event: &Event) -> io::Result<()> {
        let at = at.since(self.inner.start);
        let mut line = serde_json::to_value(Line {
            seq,
            at,
            time: self.utc(at),
            event: event.clone(),
            prev: state.head.clone(),
            hash: String::new(),
        })?;
        self.make_safe(&mut line);
        let hash = hash(&line)?;
        line["hash"] = Value::String(hash.clone());
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        state.file.write_all(&text)?;
        state.head = hash;
        Ok(())
    }

    /// Conceals secrets and control characters in every string below `value`.
    fn make_safe(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = printable(&self.inner.secrets.conceal(text)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.make_safe(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.make_safe(field)),
            _ => {}
        }
    }

    /// All events from the first on, those to come included.
    pub fn watch(&self) -> Watch {
        Watch::new(self.clone(), self.inner.count.subscribe())
    }

    /// Nanoseconds from the trial's start to `when`, which is not later than now.
    pub fn since_start(&self, when: Stamp) -> u64 {
        self.possible(when).since(self.inner.start)
    }

    fn possible(&self, when: Stamp) -> Stamp {
        when.within(self.inner.start, Stamp::now())
    }

    /// A time of this trial on the clock of the wall, as that stood when the trial started.
    fn utc(&self, at: u64) -> String {
        let since = jiff::SignedDuration::from_nanos(i64::try_from(at).unwrap_or(i64::MAX));
        let started = self.inner.started;
        started.checked_add(since).unwrap_or(started).to_string()
    }

    /// The latest event for which `pick` returns something.
    pub fn latest<T>(&self, mut pick: impl FnMut(&Entry) -> Option<T>) -> Option<T> {
        self.state().entries.iter().rev().find_map(&mut pick)
    }

    /// Whatever `pick` returns, for all events so far, in order.
    pub fn collect<T>(&self, pick: impl FnMut(&Entry) -> Option<T>) -> Vec<T> {
        self.state().entries.iter().filter_map(pick).collect()
    }

    /// The secrets whose values never reach the file.
    pub fn secrets(&self) -> &Secrets {
        &self.inner.secrets
    }

    /// Why the file is not whole, if it is not.
    pub fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Brings the file to the disk. The journal is not written after this.
    pub fn seal(&self) -> io::Result<()> {
        self.state().file.sync_all()
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        self.state().entries.get(index).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (tempfile::TempDir, Journal) {
        let folder = tempfile::tempdir().unwrap();
        let journal =
            Journal::create(&folder.path().join("journal.jsonl"), Secrets::default()).unwrap();
        (folder, journal)
    }

    #[test]
    fn what_was_appended_is_read_back_in_order_and_chained() {
        let (folder, journal) = journal();
        journal.append(Event::PhaseStarted {
            phase: Phase::Prepare,
        });
        journal.append(Event::ConnectionSought {
            connection: 1,
            port: 40000,
        });
        journal.append(Event::TrialEnded);
        let recorded = read(&folder.path().join("journal.jsonl")).unwrap();
        assert_eq!(recorded.lines.len(), 3);
        assert!(!recorded.torn_tail);
        assert_eq!(recorded.lines[0].prev, GENESIS);
        assert_eq!(recorded.lines[2].prev, recorded.lines[1].hash);
        assert_eq!(
            recorded.lines[1].event,
            Event::ConnectionSought {
                connection: 1,
                port: 40000
            }
        );
    }

    #[test]
    fn what_is_told_late_stands_in_the_order_of_arrival_and_happened_when_it_did() {
        let (folder, journal) = journal();
        let call = Stamp::now();
        journal.append(Event::ConnectionHeld { connection: 1 });
        journal.append_at(
            call,
            Event::CallTaken {
                session: Session::A,
            },
        );
        let lines = read(&folder.path().join("journal.jsonl")).unwrap().lines;
        assert!(lines[0].seq < lines[1].seq && lines[0].at > lines[1].at);
        let utc = |line: &Line| line.time.parse::<jiff::Timestamp>().unwrap();
        let apart = utc(&lines[0]).duration_since(utc(&lines[1])).as_nanos();
        assert_eq!(apart, i128::from(lines[0].at - lines[1].at));
        let told: Vec<Seq> = in_time(&lines).iter().map(|line| line.seq).collect();
        assert_eq!(told, [1, 0]);
    }

    #[test]
    fn a_quiet_period_with_survivors_is_read_back() {
        let (folder, journal) = journal();
        let ended = Event::QuietEnded {
            empty: false,
            windows: vec![QuietWindow {
                length: 500_000_000,
                work: vec![
                    Work {
                        pid: 3,
                        wanted: 250,
                        passed: Some(8),
                    },
                    Work {
                        pid: 5,
                        wanted: 0,
                        passed: None,
                    },
                ],
            }],
        };
        journal.append(ended.clone());
        let recorded = read(&folder.path().join("journal.jsonl")).unwrap();
        assert_eq!(recorded.lines[0].event, ended);
    }

    #[test]
    fn a_changed_line_is_found() {
        let (folder, journal) = journal();
        journal.append(Event::ConnectionSought {
            connection: 1,
            port: 40000,
        });
        let path = folder.path().join("journal.jsonl");
        let changed = std::fs::read_to_string(&path)
            .unwrap()
            .replace("40000", "40001");
        std::fs::write(&path, changed).unwrap();
        assert!(matches!(
            read(&path),
            Err(ChainError::Changed { line: 1, .. })
        ));
    }

    #[test]
    fn a_dropped_line_is_found() {
        let (folder, journal) = journal();
        for connection in 1..4 {
            journal.append(Event::ConnectionHeld { connection });
        }
        let path = folder.path().join("journal.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let dropped: Vec<&str> = text
            .lines()
            .enumerate()
            .filter(|(i, _)| *i != 1)
            .map(|(_, l)| l)
            .collect();
        std::fs::write(&path, dropped.join("\n") + "\n").unwrap();
        assert!(matches!(
            read(&path),
            Err(ChainError::Unchained { line: 2 })
        ));
    }

    #[test]
    fn a_journal_cut_in_the_middle_of_a_line_is_read_up_to_it() {
        let (folder, journal) = journal();
        journal.append(Event::TrialEnded);
        journal.append(Event::TrialEnded);
        let path = folder.path().join("journal.jsonl");
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 10]).unwrap();
        let recorded = read(&path).unwrap();
        assert_eq!(recorded.lines.len(), 1);
        assert!(recorded.torn_tail);
    }

    #[test]
    fn secrets_and_control_sequences_never_reach_the_file() {
        let (folder, journal) = journal();
        journal.secrets().mint("token of run A", "drill-0011223344");
        journal.append(Event::PointMissed {
            point: crate::spec::CrashPoint::Idle,
            instead: "drill-0011223344 \u{1b}[2J".to_owned(),
        });
        let text = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
        assert!(text.contains("<token of run A>"), "{text}");
        assert!(
            !text.contains("0011223344") && !text.contains("\\u001b"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_watch_sees_what_came_before_it_and_what_comes_after() {
        let (_folder, journal) = journal();
        journal.append(Event::ConnectionHeld { connection: 1 });
        let mut watch = journal.watch();
        let later = journal.clone();
        let task = tokio::spawn(async move { later.append(Event::TrialEnded) });
        assert!(matches!(
            *watch.next().await.event,
            Event::ConnectionHeld { connection: 1 }
        ));
        assert!(matches!(*watch.next().await.event, Event::TrialEnded));
        task.await.unwrap();
    }
}

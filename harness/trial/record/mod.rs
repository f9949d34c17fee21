//! Reading the record of ownership as it stands: another process can read it, or it is no record.
//!
//! ```text
//!   a log file ──────────────────────┐
//!   stderr, collected in a file ─────┤ lines ─┐
//!   notifications that the client has│        ├─> rows ──pointers──> `record-read`
//!     received, kept in a file ──────┘        │
//!   OTLP, received ───────────────────────────┘
//! ```
//!
//! Wherever the rows come from, they are JSON objects, and a row counts where it names a call.

mod collected;
mod file;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::journal::{Event, Journal, Moment, Row, excerpt};
use crate::otlp::Received;
use crate::spec::Ownership;

pub(super) use collected::{Collected, Collector};
pub(super) use file::read_regular;

/// A field that is longer is cut.
const LONGEST_FIELD: usize = 1024;

/// Reads the record of one trial.
#[derive(Debug, Clone)]
pub(super) struct Record {
    source: Source,
    pointers: Vec<(&'static str, String)>,
    /// The words for an intent.
    intended: Vec<String>,
    journal: Journal,
}

/// Where its rows are.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Log { path: PathBuf, work: PathBuf },
    Collected(Collector),
    Otlp(Received),
}

impl Record {
    pub fn new(ownership: &Ownership, source: Source, journal: &Journal) -> Self {
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
            source,
            pointers: named
                .into_iter()
                .filter_map(|(name, pointer)| Some((name, pointer?.clone())))
                .collect(),
            intended: ownership.outcomes.intended.clone(),
            journal: journal.clone(),
        }
    }

    /// The log file, where the record is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::Log { path, .. } => Some(path),
            Source::Collected(_) | Source::Otlp(_) => None,
        }
    }

    /// What is collected, where the record is that.
    pub fn collector(&self) -> Option<&Collector> {
        match &self.source {
            Source::Collected(collector) => Some(collector),
            Source::Log { .. } | Source::Otlp(_) => None,
        }
    }

    /// Whether the log tells that this call was intended, and not what came of it.
    pub fn leaves_open(&self, call: &str) -> bool {
        let Source::Log { path, work } = &self.source else {
            return false;
        };
        let mut event = Read::default();
        if let Ok(bytes) = read_regular(path, work) {
            self.take(&bytes, Others::PassedOver, &mut event);
        }
        let of_call = |row: &&Row| row.text("call").as_deref() == Some(call);
        let last = event
            .rows
            .iter()
            .rfind(of_call)
            .and_then(|row| row.text("outcome"));
        last.is_some_and(|word| self.intended.contains(&word))
    }

    /// Reads the record and appends `record-read`.
    pub fn read(&self, moment: Moment, connection: Option<u32>) {
        let mut event = Read {
            present: true,
            ..Read::default()
        };
        match &self.source {
            Source::Log { path, work } => match read_regular(path, work) {
                Ok(bytes) => self.take(&bytes, Others::Torn, &mut event),
                Err(error) if error.kind() == io::ErrorKind::NotFound => event.present = false,
                Err(error) => event.unreadable = Some(error.to_string()),
            },
            Source::Collected(collector) => match collector.read(moment) {
                Ok(files) => {
                    for bytes in files {
                        self.take(&bytes, Others::PassedOver, &mut event);
                    }
                }
                Err(error) => event.unreadable = Some(error.to_string()),
            },
            Source::Otlp(received) => self.take_received(received, &mut event),
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

    fn take(&self, bytes: &[u8], others: Others, event: &mut Read) {
        event.bytes += bytes.len() as u64;
        let mut end = 0;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            end += line.len() as u64;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            event.lines += 1;
            match serde_json::from_slice::<Value>(line) {
                Ok(row @ Value::Object(_)) => {
                    let row = Row {
                        line: index as u64 + 1,
                        end: Some(end),
                        fields: self.fields(&row),
                    };
                    event.take(row);
                }
                _ if others == Others::Torn => event.torn += 1,
                _ => {}
            }
        }
    }

    /// What an export does not say of its call, its trace does: each call comes with a trace of its own.
    fn take_received(&self, received: &Received, event: &mut Read) {
        let standing = received.standing();
        let calls: BTreeMap<String, String> = self
            .journal
            .collect(|entry| match &*entry.event {
                Event::CallAsked { call, .. } => Some((trace_of(call), call.clone())),
                _ => None,
            })
            .into_iter()
            .collect();
        event.bytes = standing.bytes;
        event.lines = standing.rows.len() as u64;
        event.unreadable = standing.missing;
        for (index, row) in standing.rows.iter().enumerate() {
            let mut fields = self.fields(row);
            let trace = row.get("trace_id").and_then(Value::as_str);
            if !fields.contains_key("call")
                && let Some(call) = trace.and_then(|trace| calls.get(trace))
            {
                fields.insert("call".to_owned(), Value::from(call.as_str()));
            }
            event.take(Row {
                line: index as u64 + 1,
                end: None,
                fields,
            });
        }
    }

    fn fields(&self, row: &Value) -> BTreeMap<String, Value> {
        self.pointers
            .iter()
            .filter_map(|(name, pointer)| {
                let value = self.find(row, pointer)?;
                let bounded = match value {
                    Value::String(text) => Value::String(excerpt(text, LONGEST_FIELD)),
                    Value::Array(_) | Value::Object(_) => {
                        Value::String(excerpt(&value.to_string(), LONGEST_FIELD))
                    }
                    scalar => scalar.clone(),
                };
                Some(((*name).to_owned(), bounded))
            })
            .collect()
    }

    /// An attribute that an export does not have itself may be one of its resource: there stands what is true of the whole
    /// process.
    fn find<'r>(&self, row: &'r Value, pointer: &str) -> Option<&'r Value> {
        row.pointer(pointer).or_else(|| {
            let Source::Otlp(_) = self.source else {
                return None;
            };
            let attribute = pointer.strip_prefix("/attributes/")?;
            row.pointer(&format!("/resource/{attribute}"))
        })
    }
}

/// What a line is that is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Half of one: nothing else has a place in a log.
    Torn,
    /// Whatever else is written there.
    PassedOver,
}

/// The trace of a call: 32 hex digits, as W3C Trace Context writes them. The trace is the call's, also when it is tried again.
pub(super) fn trace_of(call_id: &str) -> String {
    let trace = call_id.rsplit('-').next().unwrap_or_default();
    format!("{trace:0>32}")
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

impl Read {
    fn take(&mut self, row: Row) {
        if row.fields.contains_key("call") {
            self.rows.push(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::journal::Secrets;
    use crate::spec::{RecordPlace, RecordPointers};

    fn record(work: &Path) -> (Record, Journal) {
        let journal = Journal::create(&work.join("journal.jsonl"), Secrets::default()).unwrap();
        let ownership = Ownership {
            place: RecordPlace::Log(String::new()),
            record: RecordPointers {
                call: "/call_id".to_owned(),
                outcome: "/outcome".to_owned(),
                ..RecordPointers::default()
            },
            outcomes: crate::spec::Outcomes::default(),
            durable: false,
        };
        let source = Source::Log {
            path: work.join("activity.jsonl"),
            work: work.to_owned(),
        };
        (Record::new(&ownership, source, &journal), journal)
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
            record.path().unwrap(),
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
        nix::unistd::mkfifo(record.path().unwrap(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        record.read(Moment::Point, None);
        let Event::RecordRead { unreadable, .. } = last(&journal) else {
            panic!()
        };
        assert_eq!(unreadable.as_deref(), Some("it is not a regular file"));

        std::fs::remove_file(record.path().unwrap()).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", record.path().unwrap()).unwrap();
        record.read(Moment::Point, None);
        let Event::RecordRead { unreadable, .. } = last(&journal) else {
            panic!()
        };
        assert_eq!(unreadable.as_deref(), Some("it is a symbolic link"));
    }

    fn reads(place: RecordPlace, record: RecordPointers, source: Source) -> (Vec<Row>, u64) {
        let work = tempfile::tempdir().unwrap();
        let journal =
            Journal::create(&work.path().join("journal.jsonl"), Secrets::default()).unwrap();
        journal.append(Event::CallAsked {
            session: crate::journal::Session::A,
            role: crate::journal::CallRole::Main,
            tool: "t".to_owned(),
            call: "call-abababababababababababababababab".to_owned(),
        });
        let ownership = Ownership {
            place,
            record,
            outcomes: crate::spec::Outcomes::default(),
            durable: false,
        };
        Record::new(&ownership, source, &journal).read(Moment::Point, None);
        let Event::RecordRead { rows, torn, .. } = last(&journal) else {
            panic!()
        };
        (rows, torn)
    }

    #[test]
    fn in_stderr_other_lines_are_no_half_rows() {
        let folder = tempfile::tempdir().unwrap();
        let collector = Collector::new(Collected::Stderr, folder.path().to_owned());
        let stderr = collector.stderr_of(crate::journal::Session::A).unwrap();
        std::fs::write(
            stderr,
            "starting {\n{\"call_id\":\"c1\",\"outcome\":\"intended\"}\n[1]\n",
        )
        .unwrap();
        let pointers = RecordPointers {
            call: "/call_id".to_owned(),
            outcome: "/outcome".to_owned(),
            ..RecordPointers::default()
        };
        let place = RecordPlace::From(crate::spec::Source::Stderr);
        let (rows, torn) = reads(place, pointers, Source::Collected(collector));
        assert_eq!((rows.len(), torn), (1, 0));
    }

    #[test]
    fn an_export_is_joined_by_its_trace_and_completed_by_its_resource() {
        let received = Received::of(vec![
            json!({
                "trace_id": "abababababababababababababababab", "resource": { "process.pid": 7 },
                "attributes": { "drill.outcome": "intended" },
            }),
            json!({
                "trace_id": "abababababababababababababababab", "attributes": { "drill.call.id": "c1" },
            }),
            json!({ "trace_id": "0123", "attributes": { "drill.outcome": "intended" } }),
        ]);
        let place = RecordPlace::From(crate::spec::Source::Otlp);
        let (rows, _) = reads(place, RecordPointers::of_otlp(), Source::Otlp(received));
        let fields: Vec<Value> = rows.iter().map(|row| json!(row.fields)).collect();
        assert_eq!(
            fields,
            [
                json!({
                    "call": "call-abababababababababababababababab", "outcome": "intended", "process": 7
                }),
                json!({ "call": "c1" }),
            ]
        );
    }
}

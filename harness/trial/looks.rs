//! What a trial looks at: the processes of the cell, the record, and the logs of the work folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::TrialError;
use super::record::{self, Collector, Record};
use super::stage::Stage;
use crate::cell::Look;
use crate::journal::{Event, Moment, Place, Session};
use crate::otlp::Received;
use crate::session::{LiveSession, gather_stderr};

/// Between two looks at something that should pass by itself: a zombie, a half-closed socket.
const SECOND_LOOK_AFTER: Duration = Duration::from_millis(100);

impl Stage {
    /// Looks at the cell; where something is seen that should pass by itself, looks again.
    pub async fn look(
        &self,
        moment: Moment,
        again: Option<Moment>,
        session: Session,
        live: &LiveSession,
    ) -> Result<Look, TrialError> {
        let secrets = self.journal.secrets();
        let look = self
            .cell
            .line()
            .look(moment, session, live.pipes(), secrets)?;
        self.keep_look(moment, &look)?;
        let lingering = look
            .processes
            .iter()
            .any(crate::journal::Process::is_zombie)
            || look
                .sockets
                .iter()
                .any(|socket| socket.state == "CLOSE_WAIT");
        if let Some(again) = again.filter(|_| lingering) {
            // There is no event for something that stays: it is there 100 ms later or it is not.
            tokio::time::sleep_until(Instant::now() + SECOND_LOOK_AFTER).await;
            let second = self
                .cell
                .line()
                .look(again, session, live.pipes(), secrets)?;
            self.keep_look(again, &second)?;
        }
        Ok(look)
    }

    fn keep_look(&self, moment: Moment, look: &Look) -> Result<(), TrialError> {
        let Value::String(moment) = json!(moment) else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(&json!({
            "processes": look.processes,
            "sockets": look.sockets,
        }))
        .map_err(io::Error::from)?;
        let text = self.journal.secrets().conceal(&text);
        Ok(fs::write(
            self.bundle.join(format!("processes-{moment}.json")),
            text,
        )?)
    }

    pub fn read_record(&self, moment: Moment) {
        if let Some(record) = &self.record {
            record.read(moment, None);
        }
    }

    /// Searches the logs of the work folder for secrets, and keeps a copy of the record.
    pub fn search_logs(&self, session: Session) -> Result<(), TrialError> {
        /// Deep enough for `logs/2026/11/server.log`.
        const DEPTH: usize = 4;
        let secrets = self.journal.secrets();
        let mut places = Vec::new();
        let mut bytes = 0;
        let mut logs = Vec::new();
        logs_below(&self.work, DEPTH, &mut logs);
        let record = self.record.as_ref().and_then(Record::path);
        logs.extend(record.map(Path::to_owned));
        logs.sort();
        logs.dedup();
        for path in logs {
            let Ok(content) = record::read_regular(&path, &self.work) else {
                continue;
            };
            let name = path
                .strip_prefix(&self.work)
                .unwrap_or(&path)
                .display()
                .to_string();
            bytes += content.len() as u64;
            for secret in secrets.seen_in(&content) {
                // A log is one for all sessions: what an earlier one left is not found again in the name of a later one.
                if !self.has_seen(&secret, &name) {
                    self.journal.append(Event::SecretSeen {
                        session,
                        secret,
                        place: Place::Log,
                        detail: name.clone(),
                    });
                }
            }
            if record == Some(path.as_path()) {
                let text = secrets.conceal(&String::from_utf8_lossy(&content));
                fs::write(self.bundle.join("record.jsonl"), text)?;
            }
            places.push(name);
        }
        self.journal.append(Event::SecretsSought {
            session,
            places,
            bytes,
        });
        Ok(())
    }

    /// Whether this secret was seen in this log before.
    fn has_seen(&self, wanted: &str, log: &str) -> bool {
        let seen = self.journal.latest(|entry| match &*entry.event {
            Event::SecretSeen {
                secret,
                place: Place::Log,
                detail,
                ..
            } => (secret == wanted && detail == log).then_some(()),
            _ => None,
        });
        seen.is_some()
    }
}

impl Stage {
    /// Keeps what was collected of all sessions, and searches it for secrets: nobody writes to it any more.
    pub fn gather(&self) -> Result<(), TrialError> {
        let collector = self.record.as_ref().and_then(Record::collector);
        // Notifications passed through the client, and stand in its transcript.
        for (session, bytes) in collector.map(Collector::all_stderr).unwrap_or_default() {
            match bytes {
                Ok(bytes) => gather_stderr(session, &bytes, &self.bundle, &self.journal)?,
                // A server can get at the file, and put something else in its place.
                Err(error) => {
                    self.journal.append(Event::SecretsSought {
                        session,
                        places: vec![format!("stderr, which could not be read: {error}")],
                        bytes: 0,
                    });
                }
            }
        }
        if let Some(otlp) = &self.otlp {
            self.keep_received(&otlp.received)?;
        }
        Ok(())
    }

    fn keep_received(&self, received: &Received) -> Result<(), TrialError> {
        const NAME: &str = "otlp.jsonl";
        let standing = received.standing();
        let secrets = self.journal.secrets();
        let mut kept = String::new();
        for row in standing.rows {
            kept += &row.to_string();
            kept.push('\n');
        }
        for secret in secrets.seen_in(kept.as_bytes()) {
            self.journal.append(Event::SecretSeen {
                session: Session::A,
                secret,
                place: Place::Log,
                detail: NAME.to_owned(),
            });
        }
        self.journal.append(Event::SecretsSought {
            session: Session::A,
            places: vec![NAME.to_owned()],
            bytes: kept.len() as u64,
        });
        Ok(fs::write(self.bundle.join(NAME), secrets.conceal(&kept))?)
    }
}

fn logs_below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => logs_below(&path, depth - 1, found),
            Ok(kind) if kind.is_file() => {
                let is_log = path
                    .extension()
                    .and_then(|extension| extension.to_str())
                    .is_some_and(|extension| matches!(extension, "log" | "jsonl" | "ndjson"));
                if is_log {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
}

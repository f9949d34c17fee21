//! Writes down what is sought, and by whom.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tally::Tally;
use crate::cell::Line;
use crate::journal::{Event, Host, HostOutcome, Journal, Transport};

pub(super) struct Notes {
    line: Line,
    journal: Journal,
    tally: Mutex<Tally>,
}

impl Notes {
    pub fn new(line: Line, journal: Journal) -> Self {
        Self {
            line,
            journal,
            tally: Mutex::default(),
        }
    }

    /// By the process that has this port.
    pub fn note(&self, host: Host, outcome: HostOutcome, transport: Transport, port: u16) {
        if !self.tally().count(&host, outcome) {
            return;
        }
        // Of a cell that has ended nobody is left to be found.
        let by = self.line.owner(transport, port).ok().flatten();
        self.journal.append(Event::HostSought {
            host,
            outcome,
            by,
            times: 1,
        });
    }

    pub fn note_all(&self, asked: Vec<(Host, HostOutcome)>, transport: Transport, port: u16) {
        for (host, outcome) in asked {
            self.note(host, outcome, transport, port);
        }
    }

    /// What was counted and not told.
    pub fn close(&self) {
        for event in self.tally().untold() {
            self.journal.append(event);
        }
    }

    pub fn fail(&self, because: String) {
        self.journal.append(Event::TrialFailed { because });
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

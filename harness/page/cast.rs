//! Who is who among the processes of a trial, and so in which lane each of them stands.

use std::collections::BTreeMap;

use crate::journal::{Event, Line, Pid, PipeEnd, Process, Seq, Session};

/// Where an event stands in the order of time: [`Line::place`].
pub(crate) type When = (u64, Seq);

/// A column of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lane {
    Client,
    Server,
    /// What the server started, and what else was found in the cell.
    Helpers,
    Remote,
    Authority,
}

impl Lane {
    pub(crate) const ALL: [Self; 5] = [
        Self::Client,
        Self::Server,
        Self::Helpers,
        Self::Remote,
        Self::Authority,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Helpers => "helpers",
            Self::Remote => "remote",
            Self::Authority => "authority",
        }
    }
}

/// A process and the time in which it was there, in events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) pid: Pid,
    pub(crate) lane: Lane,
    /// `client of session A`, or the name that the kernel has.
    pub(crate) name: String,
    pub(crate) from: When,
    /// Absent where nobody saw its end.
    pub(crate) to: Option<When>,
}

/// The processes of a trial.
#[derive(Debug, Default)]
pub(crate) struct Cast {
    lives: BTreeMap<Pid, Life>,
    /// Whose end was the first that was heard of it.
    unknown: Option<Pid>,
}

impl Cast {
    pub(crate) fn of(lines: &[Line]) -> Self {
        let mut cast = Self::default();
        for line in lines {
            cast.note(line.place(), &line.event);
        }
        cast
    }

    /// In the order of their pids.
    pub(crate) fn lives(&self) -> impl Iterator<Item = &Life> {
        self.lives.values()
    }

    pub(crate) fn lane(&self, pid: Pid) -> Lane {
        self.lives.get(&pid).map_or(Lane::Helpers, |life| life.lane)
    }

    /// `server of session A (pid 7)`.
    pub(crate) fn name(&self, pid: Pid) -> String {
        match self.lives.get(&pid) {
            Some(life) => format!("{} (pid {pid})", life.name),
            None => format!("pid {pid}"),
        }
    }

    /// Whether somebody in this lane lives at this event.
    pub(crate) fn is_alive(&self, lane: Lane, at: When) -> bool {
        self.lives.values().any(|life| {
            life.lane == lane && life.from <= at && life.to.is_none_or(|ended| ended > at)
        })
    }

    fn note(&mut self, when: When, event: &Event) {
        match event {
            Event::ClientStarted { session, pid } => {
                self.begin(*pid, Lane::Client, format!("client of {session}"), when);
            }
            Event::SiblingStarted { pid, argv, .. } => {
                let name = argv.first().map_or("sibling", String::as_str);
                self.begin(*pid, Lane::Client, name.to_owned(), when);
            }
            Event::ServerStarted { session, pid, .. } => {
                self.begin(*pid, Lane::Server, format!("server of {session}"), when);
            }
            Event::AuthorityServes { pid, others, .. } => {
                self.begin(*pid, Lane::Authority, "authority".to_owned(), when);
                for other in others {
                    self.begin(*other, Lane::Authority, "authority".to_owned(), when);
                }
            }
            Event::Looked {
                session, processes, ..
            } => self.note_look(when, *session, processes),
            Event::ProcessExited { pid, comm, .. } => {
                let name = comm.as_deref().unwrap_or("process").to_owned();
                if !self.lives.contains_key(pid) {
                    self.unknown = Some(*pid);
                }
                // One that nobody looked at in time has no length.
                self.begin(*pid, Lane::Helpers, name, when);
                self.end(*pid, when);
            }
            Event::AuthorityCommand { .. } => {
                // Nobody tells of its start: it is the last one that was unknown when it ended.
                if let Some(life) = self.unknown.and_then(|pid| self.lives.get_mut(&pid)) {
                    life.lane = Lane::Authority;
                }
            }
            Event::ClientGone { pid, .. } => self.end(*pid, when),
            Event::CellCleared { .. } => {
                for life in self.lives.values_mut() {
                    life.to.get_or_insert(when);
                }
            }
            _ => {}
        }
    }

    fn note_look(&mut self, when: When, session: Session, processes: &[Process]) {
        // A look sees every process: whoever is not in it has ended, though nobody told of it.
        for life in self.lives.values_mut() {
            if processes.iter().all(|process| process.pid != life.pid) {
                life.to.get_or_insert(when);
            }
        }
        for process in processes {
            // What a wrapper started and what speaks with the client is the server, too.
            let speaks = process.holds.contains(&PipeEnd::StdinRead)
                && process.holds.contains(&PipeEnd::StdoutWrite);
            let (lane, name) = if speaks {
                (Lane::Server, format!("{}, of {session}", process.comm))
            } else {
                (Lane::Helpers, process.comm.clone())
            };
            self.begin(process.pid, lane, name, when);
            if process.is_zombie() {
                self.end(process.pid, when);
            }
        }
    }

    fn begin(&mut self, pid: Pid, lane: Lane, name: String, when: When) {
        self.lives.entry(pid).or_insert(Life {
            pid,
            lane,
            name,
            from: when,
            to: None,
        });
    }

    fn end(&mut self, pid: Pid, when: When) {
        if let Some(life) = self.lives.get_mut(&pid) {
            life.to.get_or_insert(when);
        }
    }
}

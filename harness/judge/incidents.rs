//! The incident record: what somebody has to know who finds a process that outlived its session, or a call that nobody saw
//! the end of.
//!
//! It tells facts and decides nothing; each comes from the journal, and what the journal does not show is absent. It holds
//! no request body, no query and no secret.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use crate::journal::{AnswerShape, CallRole, Event, Line, Moment, Pid, Process, Seq, Session};
use crate::spec::{Drill, Signal};

use super::history::{History, Look, Record, Seen, Window};
use super::ledger::{Effect, Request};
use super::words::{self, Claim};

/// What an incident is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// A process that outlived its session.
    Survivor,
    /// A call whose answer never reached the client.
    UnresolvedCall,
}

/// A process, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// Inside the cell.
    pub pid: Pid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Where a process stands among others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub parent: Pid,
    pub group: Pid,
    pub session: Pid,
    /// Its parent has gone, and the cell's init has taken it over.
    pub os_orphan: bool,
    /// The session that gave it meaning has gone.
    pub logical_orphan: bool,
}

/// Something that was done or tried at the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// UTC.
    pub at: String,
    /// `POST /builds`.
    pub operation: String,
    /// What came of it: a status, or why there is none.
    pub result: String,
    /// The event that shows it.
    pub event: Seq,
}

/// A signal and when it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// UTC.
    pub at: String,
    pub signal: Signal,
}

/// When a run was revoked, and who did it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedBy {
    /// UTC.
    pub at: String,
    pub operator: String,
}

/// One survivor, or one unresolved call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    pub kind: IncidentKind,
    /// UTC: when this was seen to be so.
    pub observed_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Party>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Party>,
    /// The survivor itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Party>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The run that owned the session.
    pub run: String,
    /// The correlation of the call.
    pub call: String,
    pub approval: String,
    /// What was decided about the call, where somebody was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// What the run may still do at the end of the trial.
    pub authorisation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Action>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Action>,
    /// What the record says that the call changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What the record says of its outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// The remote's ids of what came of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_jobs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<RevokedBy>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Sent>,
    /// How the process ended: `status 0`, `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// What somebody has to do.
    pub follow_up: String,
}

/// The incidents of a trial, survivors first. None where its journal does not begin as one does.
#[must_use]
pub fn incidents(drill: &Drill, lines: &[Line]) -> Vec<Incident> {
    let Some(history) = History::of(drill, lines) else {
        return Vec::new();
    };
    let Some(scene) = Scene::of(&history) else {
        return Vec::new();
    };
    let survivors = scene.survivors();
    survivors
        .into_iter()
        .chain(scene.unresolved_call())
        .collect()
}

/// What was told last of the decision about session A's call.
fn decision(history: &History<'_>) -> Option<String> {
    let decided = history
        .within(history.window_a())
        .filter_map(|seen| match seen.event {
            Event::Decided { approved, .. } => Some(*approved),
            _ => None,
        });
    let told = if decided.last()? {
        "approved"
    } else {
        "refused"
    };
    Some(told.to_owned())
}

/// What all incidents of a trial share.
struct Scene<'h, 'a> {
    history: &'h History<'a>,
    /// From the arming to the end of what session A left.
    window: Window,
    shared: Incident,
}

impl<'h, 'a> Scene<'h, 'a> {
    fn of(history: &'h History<'a>) -> Option<Self> {
        let owner = history.identity(Session::A)?;
        let fired = history.crash_fired()?;
        let window = history.window_a();
        let party = |pid| Party {
            pid,
            command: history.cast.command(pid),
        };
        let client = history.all().find_map(|seen| match seen.event {
            Event::ClientStarted {
                session: Session::A,
                pid,
            } => Some(*pid),
            _ => None,
        });
        let revoked = history.all().find_map(|seen| match seen.event {
            Event::Revoked { by, .. } => Some(RevokedBy {
                at: history.time(seen),
                operator: by.clone(),
            }),
            _ => None,
        });
        let mut scene = Self {
            history,
            window,
            shared: Incident {
                kind: IncidentKind::UnresolvedCall,
                observed_at: history.time(fired),
                client: client.map(|pid| Party {
                    pid,
                    command: Some("the MCP client of the drill".to_owned()),
                }),
                server: history.cast.server(Session::A).map(party),
                process: None,
                place: None,
                run: owner.run.to_owned(),
                call: owner.call.to_owned(),
                approval: owner.approval.to_owned(),
                decision: decision(history),
                authorisation: match (&revoked, &history.drill.authority) {
                    (_, None) => "no authority: there was nothing to revoke".to_owned(),
                    (None, Some(_)) => "still authorised: it was not revoked".to_owned(),
                    (Some(_), Some(_)) => "revoked".to_owned(),
                },
                last_success: None,
                last_attempt: None,
                target: None,
                recorded: None,
                remote_jobs: Vec::new(),
                revoked,
                signals: Vec::new(),
                exit: None,
                follow_up: String::new(),
            },
        };
        scene.note_actions();
        scene.note_record();
        Some(scene)
    }

    fn note_actions(&mut self) {
        let requests: Vec<&Request<'_>> = self.history.ledger.requests_in(self.window).collect();
        let action = |request: &Request<'_>| Action {
            at: self.history.time(request.seen),
            operation: request.name(),
            result: self.result(request),
            event: request.seen.seq,
        };
        let worked = |request: &&&Request<'_>| {
            request.refused.is_none()
                && self
                    .status(request)
                    .is_some_and(|s| (200..300).contains(&s))
        };
        let last_success = requests
            .iter()
            .rev()
            .find(worked)
            .map(|request| action(request));
        let last_attempt = requests.last().map(|request| action(request));
        self.shared.last_success = last_success;
        self.shared.last_attempt = last_attempt;
        self.shared.remote_jobs = self
            .effects()
            .iter()
            .map(|effect| effect.id.to_owned())
            .collect();
    }

    fn effects(&self) -> Vec<&'h Effect<'a>> {
        self.history.ledger.effects_in(self.window)
    }

    /// The status of the reply that was given, or lost on its way.
    fn status(&self, request: &Request<'_>) -> Option<u16> {
        self.history.all().find_map(|seen| match seen.event {
            Event::ReplySent {
                request: of,
                status,
            } if *of == request.number => Some(*status),
            _ => None,
        })
    }

    fn result(&self, request: &Request<'_>) -> String {
        if request.refused.is_some() {
            return "refused".to_owned();
        }
        if let Some(status) = self.status(request) {
            return format!("status {status}");
        }
        let applied = self
            .effects()
            .iter()
            .any(|effect| effect.request == request.number);
        let told = if applied {
            "applied, and the reply was not delivered"
        } else {
            "no reply was delivered"
        };
        told.to_owned()
    }

    fn note_record(&mut self) {
        let Some(log) = words::log(self.history.drill) else {
            return;
        };
        let rows = self
            .record()
            .map(|record| record.rows_of(&self.shared.call))
            .unwrap_or_default();
        self.shared.target = rows.iter().rev().find_map(|row| row.text("target"));
        self.shared.recorded = words::outcome(&rows, &log.outcomes)
            .map(|(row, _)| row.text("outcome").unwrap_or_default())
            .or_else(|| rows.last().and_then(|row| row.text("outcome")));
    }

    fn record(&self) -> Option<Record<'a>> {
        self.history
            .record_left()
            .or_else(|| self.history.record(Moment::End))
            .or_else(|| self.history.record(Moment::Point))
    }

    fn recorded(&self) -> Option<Claim> {
        let log = words::log(self.history.drill)?;
        let rows = self.record()?.rows_of(&self.shared.call);
        words::outcome(&rows, &log.outcomes).map(|(_, claim)| claim)
    }

    // ---- survivors -------------------------------------------------------------------------------------------

    /// Whoever of the server's side lived when the observation was over.
    fn survivors(&self) -> Vec<Incident> {
        let Some(look) = self.history.look(Moment::End) else {
            return Vec::new();
        };
        let alive = |process: &&Process| !process.is_zombie();
        self.history
            .cast
            .of_server(&look)
            .filter(alive)
            .map(|process| self.survivor(&look, process))
            .collect()
    }

    fn survivor(&self, look: &Look<'a>, process: &Process) -> Incident {
        let pid = process.pid;
        let signals = self.signals(pid);
        let exit = self.history.exit(pid).map(|(_, exit)| exit.to_string());
        Incident {
            kind: IncidentKind::Survivor,
            observed_at: self.history.time(look.seen),
            process: Some(Party {
                pid,
                command: self.history.cast.command(pid),
            }),
            place: Some(self.place(look, process)),
            follow_up: self.follow_survivor(&signals, exit.is_some()),
            signals,
            exit,
            ..self.shared.clone()
        }
    }

    fn signals(&self, pid: Pid) -> Vec<Sent> {
        let sent = self.history.all().filter_map(|seen| match seen.event {
            Event::SignalSent {
                pid: to, signal, ..
            } if *to == pid => Some(Sent {
                at: self.history.time(seen),
                signal: *signal,
            }),
            _ => None,
        });
        sent.collect()
    }

    fn place(&self, look: &Look<'a>, process: &Process) -> Place {
        let gone = self.history.client_gone();
        Place {
            parent: process.ppid,
            group: process.pgid,
            session: process.sid,
            os_orphan: !look.processes.iter().any(|other| other.pid == process.ppid),
            logical_orphan: gone.is_some_and(|gone| gone.place < look.seen.place),
        }
    }

    fn follow_survivor(&self, signals: &[Sent], ended: bool) -> String {
        let end = match (ended, signals.last().map(|sent| sent.signal)) {
            (false, _) => {
                "it was not seen to end: end it, and find out what keeps it alive".to_owned()
            }
            (true, None) => {
                "it ended by itself, after its time: find out what it waited for".to_owned()
            }
            (true, Some(Signal::Kill)) => {
                "it needed SIGKILL: what it held in memory is lost, so check what it had begun"
                    .to_owned()
            }
            (true, Some(_)) => "it ended by SIGTERM: have it end when its session does".to_owned(),
        };
        let gone = self.history.client_gone().map(|seen| seen.place);
        let later = gone.map_or(0, |place| {
            let from = Window {
                from: place,
                to: self.window.to,
            };
            self.history.ledger.requests_in(from).count()
        });
        match later {
            0 => end,
            1 => format!("{end}; 1 request came after its client had gone: check what it did"),
            n => format!("{end}; {n} requests came after its client had gone: check what they did"),
        }
    }

    // ---- the call --------------------------------------------------------------------------------------------

    /// The call of session A, where its client has not read an answer.
    fn unresolved_call(&self) -> Option<Incident> {
        let issued = self.history.issued(Session::A, CallRole::Main)?;
        let answered = self.history.reply(Session::A);
        if answered.is_some_and(|reply| reply.shape != AnswerShape::Nothing) {
            return None;
        }
        let observed: Seen<'_> = self.history.client_gone().unwrap_or(issued);
        let server = self.history.cast.server(Session::A);
        let exit = server
            .and_then(|pid| self.history.exit(pid))
            .map(|(_, exit)| exit.to_string());
        let signals = server.map(|pid| self.signals(pid)).unwrap_or_default();
        let place = server.and_then(|pid| {
            // Its parents while the client lived are not those that it has now.
            let mut later = self
                .history
                .looks()
                .filter(|look| look.seen.place >= observed.place);
            later.find_map(|look| {
                let mut processes = look.processes.iter();
                let process = processes.find(|p| p.pid == pid && !p.is_zombie())?;
                Some(self.place(&look, process))
            })
        });
        Some(Incident {
            observed_at: self.history.time(observed),
            place,
            signals,
            exit,
            follow_up: self.follow_call(),
            ..self.shared.clone()
        })
    }

    fn follow_call(&self) -> String {
        let claim = self.recorded();
        let standing: Vec<&str> = self
            .effects()
            .iter()
            .filter(|effect| {
                let mut cancelled = self.history.ledger.cancelled.iter();
                !cancelled.any(|c| c.effect == effect.id)
            })
            .map(|effect| effect.id)
            .collect();
        let revoked = &self.history.ledger.revoked_jobs;
        if !standing.is_empty()
            && standing
                .iter()
                .all(|id| revoked.iter().any(|job| job.effect == *id))
        {
            return "the operator has cancelled what came of it: tell whoever owns the run now"
                .to_owned();
        }
        match (standing.as_slice(), claim) {
            ([], _) if !self.history.makes_effects() => {
                "nobody can tell from outside what it did: ask its record".to_owned()
            }
            ([], Some(Claim::Success)) => {
                "the record says that it was done, and nothing stands at the remote: correct the record".to_owned()
            }
            ([], _) => "nothing stands at the remote: it may be made again by whoever owns the run now".to_owned(),
            ([_], Some(Claim::Success)) => {
                "one job stands, and the record names it: tell whoever owns the run now".to_owned()
            }
            ([_], Some(Claim::Failed | Claim::Refused)) => {
                "one job stands, and the record says that there is none: correct the record, then adopt or cancel the job"
                    .to_owned()
            }
            ([_], _) => "one job stands whose outcome nobody was told: find it, then adopt or cancel it".to_owned(),
            (several, _) => format!("{} jobs stand for one call: cancel all but one", several.len()),
        }
    }
}

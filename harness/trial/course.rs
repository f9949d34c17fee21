//! The course of a call: what divides it, as a clean run of it showed. `crash: every` is a trial at each of these.
//!
//! ```text
//!   startup ─ idle ─ call ─ connection ─ request ─ reply ─ half of it ─ all of it ─ line ─ result
//!        └─ with the gate, the system calls in between: openat, fsync, connect, write, …
//! ```
//!
//! Nobody had to think of a moment for it to be drilled. A deterministic server has one course; where two clean runs
//! differ, that is told, since a boundary that does not come cannot be crashed at.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rehearsal::rehearse_into;
use super::{Surroundings, TrialError};
use crate::journal::{CallRole, Entry, Event, Journal, Phase, Secrets, Session, Way};
use crate::spec::{Boundary, BoundaryEvent, Crash, CrashPoint, Drill, Syscall};

/// What divides a call, in the order of its happening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    pub steps: Vec<Step>,
    /// Which connection of the call carried the effect, from 1: a crash at it is one before dispatch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier: Option<u32>,
}

/// One of the boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// A moment that has a name.
    Point(CrashPoint),
    Boundary(Boundary),
    Syscall(Syscall),
}

impl Course {
    /// The crashes at these boundaries, as `every` says what is done at each.
    pub fn crashes(&self, every: &Crash) -> Vec<Crash> {
        let steps = self.steps.iter().zip(1..);
        steps
            .map(|(step, place)| {
                let mut crash = every.clone();
                crash.of_every = Some(place);
                match step {
                    Step::Point(point) => crash.at = *point,
                    Step::Boundary(boundary) => {
                        crash.at = CrashPoint::Boundary;
                        crash.boundary = Some(*boundary);
                        crash.connection = self.carrier;
                    }
                    Step::Syscall(syscall) => {
                        crash.at = CrashPoint::Syscall;
                        crash.syscall = Some(*syscall);
                    }
                }
                crash
            })
            .collect()
    }

    /// Where two courses part, in words; `None` where they are one.
    pub fn differs_from(&self, other: &Self) -> Option<String> {
        let at = (0..self.steps.len().max(other.steps.len()))
            .find(|place| self.steps.get(*place) != other.steps.get(*place))?;
        let told = |course: &Self| {
            let step = course.steps.get(at);
            step.map_or_else(|| "nothing".to_owned(), Step::to_string)
        };
        Some(format!(
            "boundary {} was {} in one clean run and {} in another",
            at + 1,
            told(self),
            told(other)
        ))
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Point(point) => point.fmt(f),
            Self::Boundary(Boundary { event, nth }) => write!(f, "{event}-{nth}"),
            Self::Syscall(Syscall { name, nth }) => write!(f, "{name}-{nth}"),
        }
    }
}

/// Why a call has no course.
#[derive(Debug, thiserror::Error)]
pub enum NoCourse {
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error("the rehearsal found no boundary: {0}")]
    Unanswered(String),
}

/// Has the call made once without a crash, and returns its course. Whatever it leaves goes into the empty folder `folder`.
pub fn course(
    drill: &Arc<Drill>,
    every: &Crash,
    surroundings: &Surroundings,
    folder: &Path,
) -> Result<Course, NoCourse> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(TrialError::from)?;
    let journal = Journal::create(&folder.join("journal.jsonl"), Secrets::default())
        .map_err(TrialError::from)?;
    let drill = Arc::clone(drill);
    let rehearsal = rehearse_into(&journal, drill, Some(every), surroundings.clone(), folder);
    let event = runtime.block_on(rehearsal)?;
    match event {
        Event::Rehearsed { .. } => {}
        other => {
            let because = format!("a limit was exceeded: {other:?}");
            return Err(NoCourse::Unanswered(because));
        }
    }
    let course = walk(&journal);
    if course.steps.last() != Some(&Step::Point(CrashPoint::AfterResult)) {
        let detail = match event {
            Event::Rehearsed { detail, .. } if !detail.is_empty() => detail,
            _ => "the call was not answered".to_owned(),
        };
        return Err(NoCourse::Unanswered(detail));
    }
    Ok(course)
}

/// The boundaries that a journal shows, from the arming to the answer.
fn walk(journal: &Journal) -> Course {
    // What came first is what divides the call, whoever was first to tell.
    let mut entries = journal.collect(|entry| Some(entry.clone()));
    entries.sort_by_key(|entry| (entry.at, entry.seq));
    let mut walk = Walk::default();
    for entry in &entries {
        walk.pass(entry);
    }
    Course {
        steps: walk.steps,
        carrier: walk.carrier,
    }
}

#[derive(Default)]
struct Walk {
    steps: Vec<Step>,
    armed: bool,
    /// The remote's numbers of the call's connections.
    connections: Vec<u32>,
    carrier: Option<u32>,
    requests: u32,
    lines: u32,
}

impl Walk {
    fn pass(&mut self, entry: &Entry) {
        if self.steps.last() == Some(&Step::Point(CrashPoint::AfterResult)) {
            return;
        }
        match &*entry.event {
            Event::PhaseStarted { phase: Phase::Arm } => {
                self.armed = true;
                let before = [CrashPoint::Startup, CrashPoint::Idle];
                self.steps.extend(before.map(Step::Point));
            }
            _ if !self.armed => {}
            Event::CallAsked {
                role: CallRole::Main,
                ..
            } => self.steps.extend(
                [
                    CrashPoint::TornCall,
                    CrashPoint::CallUnread,
                    CrashPoint::CallWritten,
                ]
                .map(Step::Point),
            ),
            Event::ConnectionSought { connection, .. } => {
                self.connections.push(*connection);
                let nth = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
                let event = BoundaryEvent::Connection;
                self.steps.push(Step::Boundary(Boundary { event, nth }));
            }
            // Its reply is told of by the remote, and what the server does on it by others: a moment that both happen in
            // has no order. No server that waits for its reply does anything before.
            Event::RequestReceived {
                connection, effect, ..
            } => {
                self.requests += 1;
                let nth = self.requests;
                if effect.is_some() && self.carrier.is_none() {
                    let carries = |(_, number): &(u32, &u32)| *number == connection;
                    self.carrier = (1..).zip(&self.connections).find(carries).map(|(n, _)| n);
                }
                let steps = [
                    BoundaryEvent::Request,
                    BoundaryEvent::Reply,
                    BoundaryEvent::HalfReply,
                    BoundaryEvent::Replied,
                ];
                let boundaries = steps.map(|event| Step::Boundary(Boundary { event, nth }));
                self.steps.extend(boundaries);
            }
            Event::SyscallEntered { name, nth, .. } => {
                let (name, nth) = (*name, *nth);
                self.steps.push(Step::Syscall(Syscall { name, nth }));
            }
            Event::LinePassed {
                session: Session::A,
                way: Way::FromServer,
                ..
            } => {
                self.lines += 1;
                let (event, nth) = (BoundaryEvent::Line, self.lines);
                self.steps.push(Step::Boundary(Boundary { event, nth }));
            }
            Event::CallAnswered {
                role: CallRole::Main,
                ..
            } => {
                // The line that carries the answer, and that the client has it, are one moment.
                if let Some(Step::Boundary(Boundary {
                    event: BoundaryEvent::Line,
                    ..
                })) = self.steps.last()
                {
                    self.steps.pop();
                }
                self.steps.push(Step::Point(CrashPoint::AfterResult));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Kill;

    fn course_of(events: Vec<Event>) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path, Secrets::default()).unwrap();
        for event in events {
            journal.append(event);
        }
        let course = walk(&journal);
        course.steps.iter().map(ToString::to_string).collect()
    }

    fn course_with(steps: Vec<Step>) -> Course {
        Course {
            steps,
            carrier: None,
        }
    }

    fn sought() -> Event {
        Event::ConnectionSought {
            connection: 7,
            port: 1,
        }
    }

    fn received() -> Event {
        Event::RequestReceived {
            request: 9,
            connection: 7,
            method: "POST".to_owned(),
            target: "/builds".to_owned(),
            credential: crate::journal::Credential::Absent,
            route: None,
            effect: None,
            key: None,
            body_bytes: 0,
        }
    }

    fn asked() -> Event {
        Event::CallAsked {
            session: Session::A,
            role: CallRole::Main,
            tool: "t".to_owned(),
            call: "c".to_owned(),
        }
    }

    fn answered() -> Event {
        Event::CallAnswered {
            session: Session::A,
            role: CallRole::Main,
            rpc_id: "1".to_owned(),
            shape: crate::journal::AnswerShape::Result,
            text: String::new(),
        }
    }

    #[test]
    fn a_course_begins_when_the_call_is_made_and_ends_with_its_answer() {
        let events = vec![
            sought(),
            Event::PhaseStarted { phase: Phase::Arm },
            asked(),
            sought(),
            received(),
            answered(),
            sought(),
        ];
        assert_eq!(
            course_of(events),
            [
                "startup",
                "idle",
                "torn-call",
                "call-unread",
                "call-written",
                "connection-1",
                "request-1",
                "reply-1",
                "half-reply-1",
                "replied-1",
                "after-result"
            ]
        );
    }

    #[test]
    fn a_course_knows_which_of_its_connections_carries_the_effect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::create(&path, Secrets::default()).unwrap();
        let sought = |connection| Event::ConnectionSought {
            connection,
            port: 1,
        };
        let arrived = |connection, makes: Option<&str>| {
            let mut event = received();
            if let Event::RequestReceived {
                connection: over,
                effect,
                ..
            } = &mut event
            {
                *over = connection;
                *effect = makes.map(str::to_owned);
            }
            event
        };
        for event in [
            sought(3),
            Event::PhaseStarted { phase: Phase::Arm },
            asked(),
            sought(4),
            arrived(4, None),
            sought(5),
            arrived(5, Some("build")),
            answered(),
        ] {
            journal.append(event);
        }
        let course = walk(&journal);
        assert_eq!(course.carrier, Some(2));
        let every: Crash = serde_json::from_value(serde_json::json!("every")).unwrap();
        let crashes = course.crashes(&every);
        let second = crashes.iter().find(|crash| crash.point() == "connection-2");
        assert_eq!(second.unwrap().connection, Some(2));
    }

    #[test]
    fn each_boundary_is_a_crash_with_a_place_in_the_line() {
        let every: Crash = serde_json::from_value(serde_json::json!({
            "at": "every", "kill": "server"
        }))
        .unwrap();
        let course = course_with(vec![
            Step::Point(CrashPoint::TornCall),
            Step::Boundary(Boundary {
                event: BoundaryEvent::Request,
                nth: 2,
            }),
        ]);
        let crashes = course.crashes(&every);
        let names: Vec<_> = crashes.iter().map(Crash::variant).collect();
        assert_eq!(
            names,
            [
                Some("01-torn-call".to_owned()),
                Some("02-request-2".to_owned())
            ]
        );
        assert!(
            crashes
                .iter()
                .all(|crash| crash.kill == Kill::Server && crash.listed_at() == CrashPoint::Every)
        );
    }

    #[test]
    fn two_courses_part_at_the_first_boundary_that_differs() {
        let torn = Step::Point(CrashPoint::TornCall);
        let one = course_with(vec![torn, Step::Point(CrashPoint::AfterResult)]);
        let other = course_with(vec![torn]);
        assert_eq!(one.differs_from(&one), None);
        assert_eq!(
            one.differs_from(&other).as_deref(),
            Some("boundary 2 was after-result in one clean run and nothing in another")
        );
    }
}

//! One event of a journal in words, and where in the picture it stands.
//!
//! It says what the event says, and nothing of what it means: that is the judge's.

use super::cast::{Cast, Lane};
use super::hosts::about_hosts;
use super::names::{count, limit_name, moment_name, phase_name, short};
use super::wire::{about_requests, about_the_session};
use crate::journal::{Event, Line, Moment, Session, excerpt};
use crate::spec::Revocable;

/// How much of a text of the server's stands in the row, in bytes.
pub(super) const EXCERPT: usize = 160;

/// What is drawn for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawn {
    /// A step of the trial begins.
    Heading,
    /// Something goes from one to another.
    Arrow {
        from: Lane,
        to: Lane,
        arrival: Arrival,
    },
    At(Lane, Mark),
    /// It concerns all of them.
    Across(Mark),
}

/// What becomes of something on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Whole,
    /// Nothing is sent yet.
    Reaching,
    /// Half of it, or nothing at all.
    Lost,
}

/// What kind of thing happens at a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Note,
    Start,
    Exit,
    Crash,
    Eof,
    Effect,
    Refused,
    Revoked,
    Trouble,
}

/// An event that is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) drawn: Drawn,
    pub(crate) text: String,
    /// Whatever has no room in the row; may be empty.
    pub(crate) more: String,
    /// Told only where an answer rests on it.
    pub(crate) minor: bool,
}

pub(super) fn told(drawn: Drawn, text: impl Into<String>) -> Told {
    Told {
        drawn,
        text: text.into(),
        more: String::new(),
        minor: false,
    }
}

impl Told {
    pub(super) fn more(self, more: impl Into<String>) -> Self {
        Self {
            more: more.into(),
            ..self
        }
    }

    pub(super) fn minor(self) -> Self {
        Self {
            minor: true,
            ..self
        }
    }
}

pub(super) fn arrow(from: Lane, to: Lane) -> Drawn {
    let arrival = Arrival::Whole;
    Drawn::Arrow { from, to, arrival }
}

pub(super) fn reaching(from: Lane, to: Lane) -> Drawn {
    let arrival = Arrival::Reaching;
    Drawn::Arrow { from, to, arrival }
}

pub(super) fn lost(from: Lane, to: Lane) -> Drawn {
    let arrival = Arrival::Lost;
    Drawn::Arrow { from, to, arrival }
}

/// The event in words; `None` for one that tells a reader nothing.
pub(crate) fn tell(line: &Line, cast: &Cast) -> Option<Told> {
    let event = &line.event;
    about_the_trial(event)
        .or_else(|| about_processes(event, cast))
        .or_else(|| about_system_calls(event, cast))
        .or_else(|| about_the_session(event))
        .or_else(|| about_requests(event, line, cast))
        .or_else(|| about_hosts(event, line, cast))
        .or_else(|| about_the_crash(event, cast))
        .or_else(|| about_the_record(event))
}

fn about_the_trial(event: &Event) -> Option<Told> {
    let across = |mark| Drawn::Across(mark);
    Some(match event {
        Event::PhaseStarted { phase } => told(Drawn::Heading, phase_name(*phase)),
        Event::CellReady { .. } => told(across(Mark::Note), "the cell is ready").minor(),
        Event::Minted { session, run, .. } => told(
            across(Mark::Note),
            format!("{session} is run {}", short(run)),
        )
        .minor(),
        Event::Rehearsed {
            requests, detail, ..
        } => told(across(Mark::Note), "a clean run of the call")
            .more(format!("{}; {detail}", requests.join(", ")))
            .minor(),
        Event::Armed { point } => told(across(Mark::Note), format!("waiting for {point}")).minor(),
        Event::PointReached { point, proof } => {
            told(across(Mark::Note), format!("{point} is reached: {proof}"))
        }
        Event::PointMissed { point, instead } => told(
            across(Mark::Trouble),
            format!("{point} was never reached: {instead}"),
        ),
        Event::PointLost { point, instead } => told(
            across(Mark::Trouble),
            format!("the crash missed {point}: {instead}"),
        ),
        Event::TrialFailed { because } => told(
            across(Mark::Trouble),
            format!("the trial failed: {because}"),
        ),
        Event::Interrupted => told(across(Mark::Trouble), "somebody interrupted the run"),
        Event::GateUnavailable { because } => told(
            across(Mark::Trouble),
            format!("system calls are not seen: {because}"),
        ),
        Event::TrialEnded => told(across(Mark::Note), "the trial ended").minor(),
        _ => return None,
    })
}

fn about_processes(event: &Event, cast: &Cast) -> Option<Told> {
    Some(match event {
        Event::ClientStarted { session, pid } => told(
            Drawn::At(Lane::Client, Mark::Start),
            format!("client of {session} starts, pid {pid}"),
        ),
        Event::SiblingStarted { pid, argv, .. } => told(
            Drawn::At(Lane::Client, Mark::Start),
            format!("the client starts pid {pid} beside the server"),
        )
        .more(argv.join(" ")),
        Event::ServerStarted { session, pid, argv } => told(
            Drawn::At(Lane::Server, Mark::Start),
            format!("server of {session} starts, pid {pid}"),
        )
        .more(argv.join(" ")),
        Event::ProcessExited { pid, exit, .. } => {
            let lane = cast.lane(*pid);
            let told = told(
                Drawn::At(lane, Mark::Exit),
                format!("{} ends: {exit}", cast.name(*pid)),
            );
            // `client-gone` tells it of session A's; the others end when the harness is done with them. A command of the
            // authority tells its own end.
            if matches!(lane, Lane::Client | Lane::Authority) {
                told.minor()
            } else {
                told
            }
        }
        Event::Looked {
            moment, processes, ..
        } => told(
            Drawn::At(Lane::Server, Mark::Note),
            format!(
                "a look {}: {}",
                moment_name(*moment),
                count(processes.len(), "process", "processes")
            ),
        )
        .minor(),
        Event::SignalSent { pid, signal, .. } => told(
            Drawn::At(cast.lane(*pid), Mark::Trouble),
            format!(
                "{} to {}",
                nix::sys::signal::Signal::from(*signal),
                cast.name(*pid)
            ),
        ),
        Event::LimitExceeded {
            limit, used, most, ..
        } => told(
            Drawn::At(Lane::Server, Mark::Trouble),
            format!("beyond its limit of {}: all are ended", limit_name(*limit)),
        )
        .more(format!("{used}, of at most {most}")),
        Event::CellCleared { ended } => told(
            Drawn::Across(Mark::Exit),
            format!("the cell is cleared: {ended} ended"),
        ),
        _ => return None,
    })
}

fn about_system_calls(event: &Event, cast: &Cast) -> Option<Told> {
    let at = |pid: i32| Drawn::At(cast.lane(pid), Mark::Note);
    Some(match event {
        Event::SyscallEntered {
            pid, name, detail, ..
        } => told(at(*pid), format!("{name} {detail}")).minor(),
        Event::SyscallHeld { pid, name, nth } => {
            told(at(*pid), format!("{name} {nth} is held in the kernel"))
        }
        Event::SyscallReleased {
            pid,
            name,
            nth,
            errno: None,
        } => told(at(*pid), format!("{name} {nth} goes on")).minor(),
        Event::SyscallReleased {
            pid,
            name,
            nth,
            errno: Some(errno),
        } => {
            let errno = format!("{errno:?}").to_uppercase();
            told(
                Drawn::At(cast.lane(*pid), Mark::Trouble),
                format!("{name} {nth} fails with {errno}"),
            )
        }
        Event::RecordOpened { pid, synchronous } => {
            let how = if *synchronous { ", synchronously" } else { "" };
            told(at(*pid), format!("the record is opened for writing{how}")).minor()
        }
        Event::RecordSynced { pid, bytes } => told(
            at(*pid),
            format!("the record is on the disk, {bytes} bytes of it"),
        ),
        _ => return None,
    })
}

fn about_the_crash(event: &Event, cast: &Cast) -> Option<Told> {
    let server = |mark| Drawn::At(Lane::Server, mark);
    let pids = |pids: &[i32]| {
        let names: Vec<String> = pids.iter().map(|pid| cast.name(*pid)).collect();
        names.join(", ")
    };
    Some(match event {
        Event::CrashFired { action, .. } => {
            told(Drawn::Across(Mark::Crash), format!("CRASH: {action}"))
        }
        Event::ClientGone { exit, .. } => told(
            Drawn::At(Lane::Client, Mark::Exit),
            format!("client gone: {exit}"),
        ),
        Event::ClientSignalled { signal, group, .. } => {
            let whom = if *group {
                "the server's group"
            } else {
                "the server"
            };
            let signal = nix::sys::signal::Signal::from(*signal);
            told(
                arrow(Lane::Client, Lane::Server),
                format!("{signal} to {whom}"),
            )
        }
        Event::ServerStopped { pids: stopped } => {
            told(server(Mark::Note), "the server is stopped").more(pids(stopped))
        }
        Event::ServerContinued { pids: continued } => {
            told(server(Mark::Note), "the server runs again").more(pids(continued))
        }
        Event::EofInPipe {
            session: Session::A,
        } => told(
            server(Mark::Eof),
            "EOF: nobody holds the write end of stdin",
        ),
        Event::EofInPipe { session } => {
            told(server(Mark::Eof), format!("EOF for {session}")).minor()
        }
        Event::StdinHeld {
            by_server,
            by_client,
            ..
        } => {
            let holders: Vec<i32> = by_server.iter().chain(by_client).copied().collect();
            told(
                server(Mark::Trouble),
                format!("no EOF: {} holds stdin open", pids(&holders)),
            )
        }
        Event::ObservationEnded {
            empty,
            deadline_passed,
        } => {
            let how = match (empty, deadline_passed) {
                (true, _) => "nothing is left",
                (false, true) => "the deadline has passed",
                (false, false) => "something is left",
            };
            told(
                Drawn::Across(Mark::Note),
                format!("the observation ends: {how}"),
            )
        }
        Event::QuietStarted => told(Drawn::Across(Mark::Note), "the quiet period begins").minor(),
        Event::QuietEnded { empty, windows } => {
            let how = if *empty {
                ", with nothing left to watch"
            } else {
                ""
            };
            let window = windows.iter().map(|window| window.length).sum::<u64>() / 1_000_000;
            told(
                Drawn::Across(Mark::Note),
                format!("the quiet period ends after {window} ms{how}"),
            )
            .minor()
        }
        _ => return None,
    })
}

fn about_the_record(event: &Event) -> Option<Told> {
    let authority = |mark| Drawn::At(Lane::Authority, mark);
    Some(match event {
        Event::RecordRead {
            moment,
            present,
            rows,
            unreadable,
            ..
        } => {
            let found = match (unreadable, present) {
                (Some(why), _) => why.clone(),
                (None, false) => "there is none".to_owned(),
                (None, true) => count(rows.len(), "row", "rows"),
            };
            let told = told(
                Drawn::At(Lane::Server, Mark::Note),
                format!("the record {}: {found}", moment_name(*moment)),
            );
            match moment {
                Moment::Dispatch | Moment::Point => told,
                _ => told.minor(),
            }
        }
        Event::SecretsSought { bytes, .. } => told(
            Drawn::Across(Mark::Note),
            format!("{bytes} bytes are searched for secrets"),
        )
        .minor(),
        Event::SecretSeen {
            secret,
            place,
            detail,
            ..
        } => {
            let place = format!("{place:?}").to_lowercase();
            told(
                Drawn::At(Lane::Server, Mark::Trouble),
                format!("{secret} stands in its {place}"),
            )
            .more(detail.clone())
        }
        Event::Revoked { run, of, by } => {
            let what = match of {
                Revocable::Credential => "the credential of",
                Revocable::Run => "the run of",
                Revocable::Job => "the job of",
            };
            let told = told(authority(Mark::Revoked), format!("{what} {run} is revoked"));
            if by.is_empty() {
                told
            } else {
                told.more(format!("by {by}"))
            }
        }
        Event::Probed { route, status } => told(
            arrow(Lane::Authority, Lane::Remote),
            format!("the harness asks {route}: {status}"),
        ),
        Event::CancelAsked { effect, status, .. } => told(
            arrow(Lane::Authority, Lane::Remote),
            format!("the operator cancels {effect}: {status}"),
        ),
        Event::AuthorityServes { pid, argv, .. } => told(
            authority(Mark::Start),
            format!("the authority serves, pid {pid}"),
        )
        .more(argv.join(" ")),
        Event::AuthorityCommand {
            what,
            run,
            exit,
            stderr,
            ..
        } => {
            let how = exit.map_or_else(|| "no end".to_owned(), |exit| exit.to_string());
            told(authority(Mark::Note), format!("{what} for {run}: {how}"))
                .more(excerpt(stderr, EXCERPT))
        }
        Event::RefusalsRead { refusals, .. } => told(
            authority(Mark::Note),
            format!("tells of {}", count(refusals.len(), "refusal", "refusals")),
        )
        .minor(),
        _ => return None,
    })
}

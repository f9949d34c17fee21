//! `resources`: zombies, sockets in `CLOSE_WAIT`, and whatever else keeps the next session from being as good as the first;
//! and a limit of the cell that was exceeded.
//!
//! One look shows what may be gone a moment later; only what two looks 100 ms apart both show is left behind.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{Event, Moment, Pid, Process, Seq, Session, SessionFault, Socket};
use crate::spec::CrashPoint;

use super::beside;
use super::code::Code;
use super::finding::Findings;
use super::history::{History, Look};
use super::limit;
use super::sentence::{counted, say};

pub(super) fn judge(history: &History<'_>) -> Findings {
    let mut findings = judge_unlanded(history);
    let mut evidence: Vec<Seq> = Vec::new();
    let moments = [
        (Moment::Point, Moment::PointAgain, "at the crash"),
        (Moment::End, Moment::EndAgain, "at the end"),
    ];
    for (first, again, when) in moments {
        let Some(look) = history.look(first) else {
            findings.unproven(
                Code::TrialNoEvidence,
                say(format!("nobody looked at the processes {when}")),
                [],
            );
            continue;
        };
        evidence.push(look.seen.seq);
        zombies(history, &look, history.look(again), when, &mut findings);
        half_closed(history, &look, history.look(again), when, &mut findings);
    }
    if history.drill.recover.is_some() {
        evidence.extend(next_session(history, &mut findings));
    }
    let clean = findings.is_clean();
    beside::undisturbed(history, &mut findings);
    if clean {
        let next = match history.handshaken(Session::B) {
            Some(_) => ", and session B started as session A did",
            None => "",
        };
        findings.held(
            say(format!(
                "no zombie and no half-closed socket was left at the crash or at the end{next}"
            )),
            evidence,
        );
    }
    findings
}

/// What can be said where the crash did not land: more than the limit is too much at any time.
pub(super) fn judge_unlanded(history: &History<'_>) -> Findings {
    let mut findings = Findings::default();
    if let Some(breach) = history.breach
        && !limit::is_of_revocation(history)
    {
        findings.broken(
            Code::ResourcesLimit,
            breach.told(history),
            breach.evidence(),
        );
    }
    findings
}

fn zombies(
    history: &History<'_>,
    look: &Look<'_>,
    again: Option<Look<'_>>,
    when: &str,
    findings: &mut Findings,
) {
    let seen = zombies_in(history, look);
    if seen.is_empty() {
        return;
    }
    let Some(again) = again else {
        findings.unproven(
            Code::ResourcesNotSeen,
            say(format!(
                "a zombie was seen once {when}, and nobody looked again"
            )),
            [look.seen.seq],
        );
        return;
    };
    let still: BTreeSet<(i32, u64)> = zombies_in(history, &again)
        .into_iter()
        .map(|process| (process.pid, process.started))
        .collect();
    let left: Vec<&&Process> = seen
        .iter()
        .filter(|process| still.contains(&(process.pid, process.started)))
        .collect();
    if left.is_empty() {
        return;
    }
    findings.broken(
        Code::ResourcesZombie,
        say(format!(
            "{} left {when}: ",
            counted(left.len(), "zombie was", "zombies were")
        ))
        .then(
            history
                .cast
                .all_called(left.iter().map(|process| process.pid)),
        )
        .text(", never waited for by ")
        .then(
            history.cast.all_called(
                left.iter()
                    .map(|process| process.ppid)
                    .collect::<BTreeSet<_>>(),
            ),
        ),
        [look.seen.seq, again.seen.seq],
    );
}

/// The zombies that somebody of the server's tree should have waited for. An orphan's are the init's, and a parent that the
/// drill has stopped, or holds in a system call, cannot wait.
fn zombies_in<'l>(history: &History<'_>, look: &Look<'l>) -> Vec<&'l Process> {
    let tree: Vec<&'l Process> = history.cast.of_server(look).collect();
    let waits = |pid: i32| {
        tree.iter()
            .any(|parent| parent.pid == pid && !is_stopped(history, look, parent))
    };
    tree.iter()
        .copied()
        .filter(|process| process.is_zombie() && waits(process.ppid))
        .collect()
}

fn is_stopped(history: &History<'_>, look: &Look<'_>, process: &Process) -> bool {
    matches!(process.state, 'T' | 't') || is_held(history, look, process.pid)
}

/// Whether the drill held this process in a system call when it was looked at.
fn is_held(history: &History<'_>, look: &Look<'_>, of: Pid) -> bool {
    let last = history
        .all()
        .take(look.seen.place)
        .filter_map(|seen| match seen.event {
            Event::SyscallHeld { pid, .. } => Some((*pid, true)),
            Event::SyscallReleased { pid, .. } => Some((*pid, false)),
            _ => None,
        })
        .last();
    last == Some((of, true))
}

/// The remote has closed its end of these, and nobody of the server's tree has closed the other.
fn half_closed(
    history: &History<'_>,
    look: &Look<'_>,
    again: Option<Look<'_>>,
    when: &str,
    findings: &mut Findings,
) {
    let stopped = |look: &Look<'_>| {
        let mut tree = history.cast.of_server(look);
        tree.any(|process| is_stopped(history, look, process))
    };
    let port = history.remote_port();
    let seen: Vec<&Socket> = close_wait(look, port).collect();
    if seen.is_empty() || stopped(look) {
        return;
    }
    let Some(again) = again else {
        findings.unproven(
            Code::ResourcesNotSeen,
            say(format!(
                "a socket in CLOSE_WAIT was seen once {when}, and nobody looked again"
            )),
            [look.seen.seq],
        );
        return;
    };
    let left = seen
        .iter()
        .filter(|socket| close_wait(&again, port).any(|still| still == **socket))
        .count();
    if left > 0 && !stopped(&again) {
        findings.broken(
            Code::ResourcesCloseWait,
            say(format!(
                "{} to the remote stayed in CLOSE_WAIT {when}",
                counted(left, "socket", "sockets")
            )),
            [look.seen.seq, again.seen.seq],
        );
    }
}

/// The server's ends alone: the remote's own end waits to be closed for as long as it withholds a reply.
fn close_wait<'l>(
    look: &Look<'l>,
    port: Option<u16>,
) -> impl Iterator<Item = &'l Socket> + use<'l> {
    look.sockets.iter().filter(move |socket| {
        socket.state == "CLOSE_WAIT" && port.is_none_or(|port| socket.remote_port == port)
    })
}

/// Session B's server must start as session A's did.
fn next_session(history: &History<'_>, findings: &mut Findings) -> Option<Seq> {
    if let Some(failure) = history.failure(Session::B) {
        let first_was_better = history.handshaken(Session::A).is_some();
        // At this point session A was asked for no handshake, and might have failed at it as well.
        let first_was_asked = history.crash.at != CrashPoint::Startup;
        let what = match failure.fault {
            SessionFault::Exited if first_was_asked => "ended before it answered the handshake",
            SessionFault::TimedOut if first_was_asked => "did not answer the handshake in time",
            SessionFault::Refused if first_was_better => "refused the handshake",
            SessionFault::Lost if first_was_better => "ended, or closed stdout, before the call",
            _ => {
                findings.unproven(
                    Code::ResourcesNotSeen,
                    say("session B did not get to its call: ").quote(failure.detail, "detail"),
                    [failure.seen.seq],
                );
                return None;
            }
        };
        let stderr = if failure.stderr.trim().is_empty() {
            say(", and wrote nothing to stderr")
        } else {
            say("; its stderr ended with ").quote_end(failure.stderr, "stderr")
        };
        findings.broken(
            Code::ResourcesNextSession,
            say(format!(
                "session B is not as good as session A: its server {what} ("
            ))
            .quote(failure.detail, "detail")
            .text(")")
            .then(stderr),
            [failure.seen.seq],
        );
        return None;
    }
    let handshaken = history.handshaken(Session::B);
    if handshaken.is_none() {
        findings.unproven(
            Code::ResourcesNotSeen,
            say("nothing shows that session B started"),
            [],
        );
    }
    handshaken.map(|seen| seen.seq)
}

//! `helpers`: is any process that the server started still alive when the session is over?
//!
//! A zombie is dead here, and is counted under `resources`. How a process got away is said, since that is what its author
//! has to mend: a group kill misses a session of its own, a walk over children misses an orphan.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{Moment, Pid, PipeEnd, Process, Session};
use crate::spec::Helpers;

use super::cast::holds_session;
use super::code::Code;
use super::finding::{Findings, unproven};
use super::history::{History, Look};
use super::sentence::{Sentence, counted, say};

pub(super) fn judge(history: &History<'_>, expected: &Helpers) -> Findings {
    let Some(look) = history.look(Moment::End) else {
        return unproven(
            Code::TrialNoEvidence,
            say("nobody looked at the processes at the end"),
            [],
        );
    };
    let (allowed, left): (Vec<&Process>, Vec<&Process>) = left(history, &look)
        .into_iter()
        .partition(|process| history.cast.is_allowed(&expected.allow, process.pid));
    let mut findings = Findings::default();
    let here: BTreeSet<Pid> = left.iter().map(|process| process.pid).collect();
    outlived(history, expected, &here, &mut findings);
    if left.is_empty() && findings.is_clean() {
        let declared = if allowed.is_empty() {
            Sentence::default()
        } else {
            say(", besides the declared ")
                .then(history.cast.all_called(allowed.iter().map(|p| p.pid)))
        };
        findings.held(
            say("no process that the server started was alive at the end").then(declared),
            [look.seen.seq],
        );
        return findings;
    }
    if left.is_empty() {
        return findings;
    }
    if history.eof_is_withheld() && server_lives(history, &look) {
        findings.unproven(
            Code::HelpersInUse,
            say("EOF never reached the server, so what it has started is still in use"),
            [look.seen.seq],
        );
        return findings;
    }
    findings.broken(
        Code::HelpersAlive,
        alive(history, &look, &left, "at the end"),
        [look.seen.seq],
    );
    findings
}

/// Who was still alive, and when.
fn alive(history: &History<'_>, look: &Look<'_>, who: &[&Process], when: &str) -> Sentence {
    let many = counted(
        who.len(),
        "process that the server started was",
        "processes that the server started were",
    );
    let each = who
        .iter()
        .map(|process| described(history, look, process))
        .collect();
    say(format!("{many} still alive {when}: ")).then(Sentence::list(each))
}

fn server_lives(history: &History<'_>, look: &Look<'_>) -> bool {
    let server = history.cast.server(Session::A);
    look.processes
        .iter()
        .any(|process| Some(process.pid) == server && !process.is_zombie())
}

/// What was still there when the time to end at EOF was over, although the server had gone: that it went when the remote
/// let go of its request is no merit of its own. While the server is there, so is whom it waits for, and `eof` tells.
fn outlived(
    history: &History<'_>,
    expected: &Helpers,
    named: &BTreeSet<Pid>,
    findings: &mut Findings,
) {
    let Some(look) = history.look(Moment::Deadline) else {
        return;
    };
    if server_lives(history, &look) {
        return;
    }
    let outlived: Vec<&Process> = left(history, &look)
        .into_iter()
        .filter(|process| !history.cast.is_allowed(&expected.allow, process.pid))
        .filter(|process| !named.contains(&process.pid))
        .collect();
    if outlived.is_empty() {
        return;
    }
    let when = "when the time to end at EOF was over, and the server was not";
    findings.broken(
        Code::HelpersOutlived,
        alive(history, &look, &outlived, when),
        [look.seen.seq],
    );
}

/// What the server started and is still alive, without the server itself.
pub(super) fn left<'l>(history: &History<'_>, look: &Look<'l>) -> Vec<&'l Process> {
    let server = history.cast.server(Session::A);
    history
        .cast
        .of_server(look)
        .filter(|process| !process.is_zombie() && Some(process.pid) != server)
        .collect()
}

fn described(history: &History<'_>, look: &Look<'_>, process: &Process) -> Sentence {
    let parent = look
        .processes
        .iter()
        .find(|other| other.pid == process.ppid && !other.is_zombie());
    let mut told = history.cast.called(process.pid);
    told = match parent {
        Some(parent) => told
            .text(", a logical orphan of parent ")
            .then(history.cast.called(parent.pid)),
        None => told.text(", an OS orphan with parent ").pid(process.ppid),
    };
    // The server as it was when it was last seen; it may have gone since.
    let server = history.looks().rev().find_map(|look| {
        let server = history.cast.server(Session::A)?;
        look.processes.iter().find(|p| p.pid == server)
    });
    if let Some(server) = server {
        if process.sid != server.sid {
            told = told.text(", in a session of its own");
        } else if process.pgid != server.pgid {
            told = told.text(", in a process group of its own");
        }
    }
    let holds = |end| process.holds.contains(&end);
    if holds_session(process) && has_served(history, look, process) {
        told.text(
            ", which holds the session's pipes: it looks like the real server behind a wrapper",
        )
    } else if holds(PipeEnd::StdoutWrite) || holds(PipeEnd::StderrWrite) {
        told.text(", which keeps the server's output open")
    } else {
        told
    }
}

/// Whether what came out of the session can have come from this process: a helper that has only inherited the pipes has not
/// written that much.
fn has_served(history: &History<'_>, look: &Look<'_>, process: &Process) -> bool {
    let passed = history.passed_before(Session::A, look.seen);
    process.written.is_none_or(|written| written >= passed.out)
}

//! `helpers`: is any process that the server started still alive when the session is over?
//!
//! A zombie is dead here, and is counted under `resources`. How a process got away is said, since that is what its author
//! has to mend: a group kill misses a session of its own, a walk over children misses an orphan.
#![forbid(unsafe_code)]

use crate::journal::{Moment, PipeEnd, Process, Session};
use crate::spec::Helpers;

use super::finding::{Findings, unproven};
use super::history::{History, Look};
use super::sentence::{Sentence, counted, say};

pub(super) fn judge(history: &History<'_>, expected: &Helpers) -> Findings {
    let Some(look) = history.look(Moment::End) else {
        return unproven(say("nobody looked at the processes at the end"), []);
    };
    let (allowed, left): (Vec<&Process>, Vec<&Process>) = left(history, &look)
        .into_iter()
        .partition(|process| history.cast.is_allowed(&expected.allow, process.pid));
    let mut findings = Findings::default();
    if left.is_empty() {
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
    if history.eof_is_withheld() && server_lives(history, &look) {
        findings.unproven(
            say("EOF never reached the server, so what it has started is still in use"),
            [look.seen.seq],
        );
        return findings;
    }
    let many = counted(
        left.len(),
        "process that the server started was",
        "processes that the server started were",
    );
    let each = left
        .iter()
        .map(|process| described(history, &look, process))
        .collect();
    findings.broken(
        say(format!("{many} still alive at the end: ")).then(Sentence::list(each)),
        [look.seen.seq],
    );
    findings
}

fn server_lives(history: &History<'_>, look: &Look<'_>) -> bool {
    let server = history.cast.server(Session::A);
    look.processes
        .iter()
        .any(|process| Some(process.pid) == server && !process.is_zombie())
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
    if holds(PipeEnd::StdinRead) && holds(PipeEnd::StdoutWrite) {
        told.text(
            ", which holds the session's pipes: it looks like the real server behind a wrapper",
        )
    } else if holds(PipeEnd::StdoutWrite) || holds(PipeEnd::StderrWrite) {
        told.text(", which keeps the server's output open")
    } else {
        told
    }
}

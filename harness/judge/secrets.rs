//! `secrets`: did a credential that the drill minted appear in argv, in a log, or in a process that should not hold it?
//!
//! Only the processes from the started one down to the one that holds the session's pipes may have it in their environment.
//! Ours are never judged: the client passes it on.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{Event, Moment, Pid, PipeEnd, Place, Process, Seq, Session};
use crate::spec::CrashPoint;

use super::cast::{chain, holds_session};
use super::code::Code;
use super::finding::Findings;
use super::history::{History, Look, Passed};
use super::sentence::say;

/// A process, and not another one that got its pid later.
type Who = (Pid, u64);

pub(super) fn judge(history: &History<'_>) -> Findings {
    let mut findings = Findings::default();
    let mut looks: Vec<Seq> = Vec::new();
    let mut named = BTreeSet::new();
    for session in [Session::A, Session::B, Session::Revoked] {
        let of_session: Vec<Look<'_>> = history
            .looks()
            .filter(|look| look.session == session)
            .collect();
        let path = path_of(history, session, &of_session);
        for look in &of_session {
            looks.push(look.seen.seq);
            for process in history.cast.of_server(look).filter(|p| !p.is_zombie()) {
                let may_hold = path.contains(&(process.pid, process.started))
                    || is_worker(process, &of_session, &path)
                    || is_being_born(process, look, &of_session, &path)
                    || is_launch(history, look);
                in_process(history, look, process, may_hold, &mut named, &mut findings);
            }
        }
    }
    in_texts(history, &mut findings);
    searched(history, &mut findings);
    if findings.is_clean() {
        let sought = history
            .all()
            .filter(|seen| matches!(seen.event, Event::SecretsSought { .. }))
            .map(|seen| seen.seq);
        let told = if history.drill.authority.is_some() {
            say(
                "no credential was seen in arguments, in output, in a log, or in a process off the way to the server",
            )
        } else {
            say("the drill minted no credential, and none was seen")
        };
        let evidence: Vec<Seq> = looks.into_iter().chain(sought).collect();
        findings.held(told, evidence);
    }
    findings
}

/// Where nothing was written to the server yet, a launcher may still be at work, with commands of its own that are gone
/// when the server is there. What is left of them at the end counts.
fn is_launch(history: &History<'_>, look: &Look<'_>) -> bool {
    history.crash.at == CrashPoint::Startup
        && look.session == Session::A
        && !matches!(look.moment, Moment::End | Moment::EndAgain)
}

/// A fork of the server that still has its hand on the session is the server's own program, with the server's own memory.
/// One that has cut itself loose is not.
fn is_worker(process: &Process, looks: &[Look<'_>], path: &BTreeSet<Who>) -> bool {
    let holds = [PipeEnd::StdinRead, PipeEnd::StdoutWrite];
    let has_hand = holds.iter().any(|end| process.holds.contains(end));
    let mut all = looks.iter().flat_map(|look| look.processes);
    has_hand
        && all.any(|other| path.contains(&(other.pid, other.started)) && other.argv == process.argv)
}

/// Between fork and exec a child shows its parent's memory, and with it the environment that it will not keep. Only a copy
/// that another look shows again is one.
fn is_being_born(
    process: &Process,
    look: &Look<'_>,
    looks: &[Look<'_>],
    path: &BTreeSet<Who>,
) -> bool {
    // Its parent may have gone when the copy is seen.
    let mut all = looks.iter().flat_map(|look| look.processes);
    let is_copy = all.any(|other| {
        path.contains(&(other.pid, other.started))
            && other.pid != process.pid
            && other.argv == process.argv
    });
    let is_again = |other: &Process| {
        (other.pid, other.started) == (process.pid, process.started) && other.argv == process.argv
    };
    let is_seen_again = looks
        .iter()
        .filter(|other| other.seen.place != look.seen.place)
        .any(|other| other.processes.iter().any(is_again));
    is_copy && !is_seen_again
}

/// What one look shows of one process, which is named once for each kind of finding, however often it was seen.
fn in_process(
    history: &History<'_>,
    look: &Look<'_>,
    process: &Process,
    may_hold: bool,
    named: &mut BTreeSet<(Who, &'static str)>,
    findings: &mut Findings,
) {
    let who = (process.pid, process.started);
    let called = || history.cast.called(process.pid);
    let evidence = [look.seen.seq];
    if !process.secrets_in_argv.is_empty() && named.insert((who, "argv")) {
        findings.broken(
            Code::SecretsArgv,
            say(process.secrets_in_argv.join(", "))
                .text(" stood in the arguments of ")
                .then(called()),
            evidence,
        );
    }
    if !process.secrets_in_environ.is_empty() && !may_hold && named.insert((who, "environ")) {
        findings.broken(
            Code::SecretsEnvironment,
            say(process.secrets_in_environ.join(", "))
                .text(" stood in the environment of ")
                .then(called())
                .text(", which does not serve the session"),
            evidence,
        );
    }
    if !process.readable && named.insert((who, "unreadable")) {
        findings.unproven(
            Code::SecretsUnreadable,
            say("the environment of ")
                .then(called())
                .text(" could not be read"),
            evidence,
        );
    }
}

/// The processes that may hold the credential, over all looks of a session: a wrapper can have gone, and its server have got
/// another parent, when the next look comes.
fn path_of(history: &History<'_>, session: Session, looks: &[Look<'_>]) -> BTreeSet<Who> {
    let Some(server) = history.cast.server(session) else {
        return BTreeSet::new();
    };
    let with_output: Vec<(&Look<'_>, Passed)> = looks
        .iter()
        .map(|look| (look, history.passed_before(session, look.seen)))
        .collect();
    // Before the first byte nothing tells a server from a helper that inherited its pipes. Such a look only counts where
    // there is no better one.
    let telling: Vec<_> = with_output
        .iter()
        .filter(|(_, passed)| passed.out > 0)
        .collect();
    let used: Vec<_> = if telling.is_empty() {
        with_output.iter().collect()
    } else {
        telling
    };
    let mut path = BTreeSet::new();
    for (look, passed) in used {
        path.extend(path_in(look, server, *passed));
    }
    // The started process is the one that the client gave the credential to.
    path.extend(
        looks
            .iter()
            .flat_map(|look| look.processes)
            .filter(|process| process.pid == server)
            .map(|process| (process.pid, process.started)),
    );
    path
}

/// From the started process down to those through which the session passes and that have written what came out of it.
fn path_in(look: &Look<'_>, server: Pid, passed: Passed) -> Vec<Who> {
    let way_down = |process: &Process| -> Option<Vec<Who>> {
        let mut way = vec![(process.pid, process.started)];
        if process.pid == server {
            return Some(way);
        }
        for above in chain(look, process) {
            way.push((above.pid, above.started));
            if above.pid == server {
                return Some(way);
            }
        }
        None
    };
    let wire = Wire::of(look);
    look.processes
        .iter()
        .filter(|process| !process.is_zombie())
        .filter(|process| {
            if passed.out == 0 {
                return holds_session(process);
            }
            let least = passed.out.min(passed.into);
            wire.carries(process.pid) && process.written.is_none_or(|written| written >= least)
        })
        .filter_map(way_down)
        .flatten()
        .collect()
}

/// The processes through which a session may pass: from its stdin, by way of pipes that one of them writes and the next
/// reads, to its stdout. A wrapper may pass on either or both, and a `cat` before or behind the server does.
struct Wire {
    from_stdin: BTreeSet<Pid>,
    to_stdout: BTreeSet<Pid>,
}

impl Wire {
    fn of(look: &Look<'_>) -> Self {
        let with = |end: PipeEnd| -> BTreeSet<Pid> {
            let holders = look.processes.iter().filter(|p| p.holds.contains(&end));
            holders.map(|process| process.pid).collect()
        };
        let (mut from_stdin, mut to_stdout) =
            (with(PipeEnd::StdinRead), with(PipeEnd::StdoutWrite));
        // No way is longer than there are processes.
        for _ in look.processes {
            for process in look.processes {
                if process.reads_from.iter().any(|w| from_stdin.contains(w)) {
                    from_stdin.insert(process.pid);
                }
                if to_stdout.contains(&process.pid) {
                    to_stdout.extend(&process.reads_from);
                }
            }
        }
        Self {
            from_stdin,
            to_stdout,
        }
    }

    fn carries(&self, pid: Pid) -> bool {
        self.from_stdin.contains(&pid) && self.to_stdout.contains(&pid)
    }
}

fn in_texts(history: &History<'_>, findings: &mut Findings) {
    for seen in history.all() {
        if let Event::SecretSeen {
            session,
            secret,
            place,
            detail,
        } = seen.event
        {
            let (code, place) = match place {
                Place::Stderr => (Code::SecretsStderr, "stderr"),
                Place::Stdout => (Code::SecretsStdout, "stdout"),
                Place::Log => (Code::SecretsLog, "a log"),
            };
            findings.broken(
                code,
                say(format!("{secret} stood in {place} of {session}: ")).quote(detail, "detail"),
                [seen.seq],
            );
        }
    }
}

/// Where there is a credential, the output of every session whose server started must have been searched.
fn searched(history: &History<'_>, findings: &mut Findings) {
    if history.drill.authority.is_none() {
        return;
    }
    for of in [Session::A, Session::B, Session::Revoked] {
        let Some(started) = history.cast.server_started(of) else {
            continue;
        };
        let sought =
            history.first(|e| matches!(e, Event::SecretsSought { session, .. } if *session == of));
        if sought.is_none() {
            findings.unproven(
                Code::SecretsNotSearched,
                say(format!(
                    "the output of {of} was not searched for the credential"
                )),
                [started],
            );
        }
    }
}

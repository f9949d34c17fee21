//! `eof`: did closing stdin reach the server, and did it exit within the deadline, with a truthful status?
//!
//! This is about the process that the client started, a wrapper if there is one. Whatever else is left is `helpers`.
#![forbid(unsafe_code)]

use crate::journal::{Event, Exit, Pid, Session};
use crate::spec::{Eof, ReplyTiming, Signal, Status, Then};

use super::code::Code;
use super::ending::SIGKILL;
use super::finding::{Findings, unproven};
use super::history::{History, Seen, ns};
use super::sentence::{Sentence, say};

pub(super) fn judge(history: &History<'_>, expected: &Eof) -> Findings {
    let Some(pid) = history.cast.server(Session::A) else {
        return unproven(
            Code::TrialNoEvidence,
            say("the journal does not say which process the server was"),
            [],
        );
    };
    let Some(crash) = history.crash_fired() else {
        return unproven(Code::TrialNoEvidence, say("the crash did not happen"), []);
    };
    let stop = history.stop().map_or(usize::MAX, |stop| stop.place);
    let own_exit = history
        .exit(pid)
        .filter(|(seen, _)| seen.place > crash.place && seen.place < stop);

    let Some(eof) = history.eof() else {
        return without_eof(history, pid, own_exit, expected);
    };
    if let Some(signalled) = history.client_signalled(Signal::Term) {
        return impatient(history, pid, eof, signalled);
    }
    match own_exit {
        Some((exited, exit)) if exited.since(eof) <= ns(expected.within.0) => {
            status(history, pid, Some(eof), exited, exit, expected)
        }
        _ => too_late(history, pid, eof, expected),
    }
}

/// A client that shuts down politely waits for its own time, and not for the drill's.
fn impatient(history: &History<'_>, pid: Pid, eof: Seen<'_>, signalled: Seen<'_>) -> Findings {
    let told = say("the server ")
        .then(history.cast.called(pid))
        .text(" had not exited ")
        .time(signalled.since(eof))
        .text(" after EOF, when its client lost patience and sent SIGTERM");
    let killed = history.client_signalled(Signal::Kill);
    let exit = history.exit(pid);
    let told = match (killed, exit) {
        (Some(_), _) => told.text("; that did not end it, and the client killed it"),
        (None, Some((_, exit))) => told.text(format!("; then it ended with {exit}")),
        (None, None) => told,
    };
    let mut findings = Findings::default();
    let evidence = [eof, signalled].into_iter().chain(killed);
    findings.broken(
        Code::EofClientLostPatience,
        told,
        evidence
            .map(|seen| seen.seq)
            .chain(exit.map(|(seen, _)| seen.seq)),
    );
    findings
}

/// EOF never arrived: somebody holds the write end, or the server had gone by itself.
fn without_eof(
    history: &History<'_>,
    pid: Pid,
    own_exit: Option<(Seen<'_>, Exit)>,
    expected: &Eof,
) -> Findings {
    let held = history.last(|e| {
        matches!(
            e,
            Event::StdinHeld {
                session: Session::A,
                ..
            }
        )
    });
    let mut findings = Findings::default();
    if let Some(held) = held
        && let Event::StdinHeld {
            by_server,
            by_client,
            ..
        } = held.event
    {
        if !by_server.is_empty() {
            findings.broken(
                Code::EofStdinHeld,
                say("EOF never reached the server: ")
                    .then(history.cast.all_called(by_server.iter().copied()))
                    .text(", started by the server, still held the write end of its stdin"),
                [held.seq],
            );
            return findings;
        }
        if !by_client.is_empty() {
            findings.unproven(
                Code::EofClientHoldsStdin,
                say("EOF never reached the server: ")
                    .then(history.cast.all_called(by_client.iter().copied()))
                    .text(", started by the client, still held the write end of its stdin"),
                [held.seq],
            );
            return findings;
        }
    }
    if let Some((exited, exit)) = own_exit {
        return status(history, pid, None, exited, exit, expected);
    }
    unproven(
        Code::EofNotSeen,
        say("nothing shows that EOF arrived in the server's stdin"),
        held.map(|seen| seen.seq),
    )
}

/// It exited in time: was the status a truthful one?
fn status(
    history: &History<'_>,
    pid: Pid,
    eof: Option<Seen<'_>>,
    exited: Seen<'_>,
    exit: Exit,
    expected: &Eof,
) -> Findings {
    let evidence = eof.map(|seen| seen.seq).into_iter().chain([exited.seq]);
    let when = match eof.filter(|eof| eof.place < exited.place) {
        Some(eof) => say("").time(exited.since(eof)).text(" after EOF"),
        // Whether we or the server were first to see the end of the client differs from run to run.
        None => say("").varies(
            if history.crash.close.is_empty() {
                "as soon as the client was gone"
            } else {
                "as soon as its stdin was closed"
            },
            "<time> after EOF",
        ),
    };
    let launched = if history.cast.has_lost_launcher(Session::A) {
        ", which its launcher had left,"
    } else {
        ""
    };
    let server = say("the server ")
        .then(history.cast.called(pid))
        .text(launched);
    let mut findings = Findings::default();
    match (exit, &expected.status) {
        (Exit::Signal { core, .. }, _) => {
            let dumped = if core { " and dumped core" } else { "" };
            findings.broken(
                Code::EofSignal,
                server
                    .text(format!(" was ended by {exit}{dumped}, "))
                    .then(when)
                    .text(", instead of exiting"),
                evidence,
            )
        }
        (Exit::Code(code), Status::Codes(allowed)) if !allowed.contains(&code) => {
            let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
            findings.broken(
                Code::EofStatus,
                server
                    .text(format!(" exited with {exit}, "))
                    .then(when)
                    .text(format!(", where only {} is right", allowed.join(" or "))),
                evidence,
            )
        }
        (Exit::Code(_), allowed) => findings.held(
            server
                .text(" exited with ")
                .then(status_of(history, exit, allowed))
                .text(", ")
                .then(when)
                .text(" (at most ")
                .limit(expected.within.0)
                .text(")"),
            evidence,
        ),
    };
    findings
}

/// Where the reply comes when the client has gone, whether a server sees that or the end of its stdin first differs from
/// run to run, and with it whether it writes its answer to nobody. Where any status is right, none is the approved one.
fn status_of(history: &History<'_>, exit: Exit, allowed: &Status) -> Sentence {
    let (then, reply) = (history.crash.then, history.crash.reply);
    let is_given = then == Some(Then::Given) || then.is_none() && reply == ReplyTiming::Given;
    if is_given && *allowed == Status::Any {
        return say("").varies(exit.to_string(), "<status>");
    }
    say("").text(exit.to_string())
}

/// The remote kept the server waiting.
fn is_hold(event: &Event) -> bool {
    matches!(
        event,
        Event::ConnectionHeld { .. } | Event::RequestHeld { .. } | Event::ReplyHeld { .. }
    )
}

/// It was still running at the deadline; what ended it later is what a reader needs to know.
fn too_late(history: &History<'_>, pid: Pid, eof: Seen<'_>, expected: &Eof) -> Findings {
    let within = ns(expected.within.0);
    let passed = history
        .all()
        .find(|seen| seen.place > eof.place && seen.since(eof) > within)
        .or_else(|| {
            history.first(|e| {
                matches!(
                    e,
                    Event::ObservationEnded {
                        deadline_passed: true,
                        ..
                    }
                )
            })
        });
    let exit = history.exit(pid);
    let ended_by_kill = exit
        .is_none_or(|(_, exit)| matches!(exit, Exit::Signal { number, .. } if number == SIGKILL));
    let by_signal = [Signal::Kill, Signal::Term]
        .into_iter()
        .filter(|signal| ended_by_kill || *signal != Signal::Kill)
        .find_map(|signal| history.signal(pid, signal).map(|sent| (signal, sent)))
        .filter(|(_, sent)| exit.is_none_or(|(exited, _)| sent.place < exited.place));
    // Nobody waited for the whole deadline: the journal ends before it, or a signal came first.
    let Some(passed) =
        passed.filter(|passed| by_signal.is_none_or(|(_, s)| passed.place <= s.place))
    else {
        return unproven(
            Code::EofNotWatched,
            say("the server was not watched until ")
                .limit(expected.within.0)
                .text(" after EOF"),
            [eof.seq],
        );
    };
    let sentence = say("the server ")
        .then(history.cast.called(pid))
        .text(" was still running ")
        .limit(expected.within.0)
        .text(" after EOF was in its stdin");
    let released = history.released();
    let sentence = match (exit, by_signal) {
        (Some((_, exit)), Some((Signal::Kill, _))) => {
            sentence.text(format!("; SIGTERM did not end it, SIGKILL did ({exit})"))
        }
        (Some((exited, exit)), Some((_, sent))) => sentence
            .text(format!("; it ended with {exit}, "))
            .time(exited.since(sent))
            .text(" after SIGTERM"),
        (Some((exited, exit)), None) => {
            let waited = history.first(is_hold).is_some();
            let released = released.filter(|seen| waited && seen.place < exited.place);
            let (since, what) = released.map_or((eof, "EOF"), |released| {
                (released, "the remote's reply was let go")
            });
            sentence
                .text(format!("; it ended with {exit}, "))
                .time(exited.since(since))
                .text(format!(" after {what}"))
        }
        (None, _) => sentence.text("; its end was not seen"),
    };
    let mut findings = Findings::default();
    findings.broken(
        Code::EofStillRunning,
        sentence,
        [eof.seq, passed.seq]
            .into_iter()
            .chain(exit.map(|(seen, _)| seen.seq)),
    );
    findings
}

//! `quiet`: after the session was gone, did the server start any new external operation, spin, or ignore SIGTERM?
//!
//! What was on its way when the session ended is not new. A connection that was held pending and completes afterwards is:
//! its request had not left the server when EOF was there to be seen.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{Event, Exit, Moment, Pid, Seq};
use crate::spec::{AllowedHelper, Asked, BoundaryEvent, CrashPoint, Quiet, Signal};

use super::code::Code;
use super::ending::SIGKILL;
use super::finding::Findings;
use super::history::{History, Seen};
use super::ledger::Request;
use super::sentence::{Sentence, counted, say};
use super::spinning;

pub(super) fn judge(history: &History<'_>, expected: &Quiet) -> Findings {
    let mut findings = Findings::default();
    let uncounted = operations(history, &mut findings);
    spinning::judge(history, &mut findings);
    deaf(history, &mut findings);
    if findings.is_clean() {
        hold(history, expected, &uncounted, &mut findings);
    }
    findings
}

/// A request that arrived after the session was gone and is none of the server's new ones.
struct Uncounted<'h, 'a> {
    request: &'h Request<'a>,
    because: &'static str,
}

/// New requests, and new connections that never got to one. Returns what arrived and does not count.
fn operations<'h, 'a>(history: &'h History<'a>, findings: &mut Findings) -> Vec<Uncounted<'h, 'a>> {
    let mut uncounted = Vec::new();
    let Some(gone) = history.session_gone() else {
        if history.ends_session()
            && let Some(since) = since_crash(history)
        {
            findings.unproven(
                Code::QuietEndNotSeen,
                say("nothing shows when the session was gone for the server, so what it asked of the remote since the crash cannot be told to be late"),
                [since.seq],
            );
        }
        return uncounted;
    };
    let mut window = history.window_a();
    let fired = crash_of_client(history, gone);
    let mut late: Vec<&Request<'_>> = Vec::new();
    let mut held = false;
    let mut allowance = Allowance::of(history);
    for request in history.ledger.requests_in(history.window_a()) {
        let connection = history
            .ledger
            .connections
            .get(&request.connection)
            .copied()
            .unwrap_or_default();
        let was_held = connection.is_held_at(gone.place);
        let begun_after = |place: usize| connection.sought.is_none_or(|s| s.place > place);
        // A poller's next question may fall into the moment of the kill by chance; what is to change something does not.
        let from = if request.is_safe() { gone } else { fired };
        let is_new = window.contains(request.seen.place)
            && request.seen.place > from.place
            && (begun_after(from.place)
                || (request.seen.place > gone.place && (was_held || request.again)));
        // What the call had done before uses up its allowance as well.
        let is_covered = allowance.covers(request);
        if is_new && !is_covered {
            held |= was_held;
            late.push(request);
        } else if request.seen.place > gone.place {
            let because = if is_new {
                allowance.because
            } else {
                "its connection had been begun before"
            };
            uncounted.push(Uncounted { request, because });
        }
    }
    if let Some(first) = late.first() {
        let names: BTreeSet<String> = late.iter().map(|request| request.name()).collect();
        let names: Vec<String> = names.into_iter().take(3).collect();
        let what = if late.len() == 1 {
            " request"
        } else {
            " requests"
        };
        let mut told = Sentence::default()
            .several(late.len())
            .text(format!("{what} arrived after the session was gone ("))
            .text(names.join(", "))
            .text("), the first ")
            .time(first.seen.since(gone))
            .text(" after it");
        let mut code = Code::QuietLateRequest;
        if held {
            code = Code::QuietLateWrite;
            told =
                told.text(", on a connection that was pending when the client died: a late write");
        }
        findings.broken(
            code,
            told,
            std::iter::once(gone.seq).chain(late.iter().map(|r| r.seen.seq)),
        );
        return uncounted;
    }
    window.from = window.from.max(gone.place);
    let attempts: Vec<Seen<'_>> = history
        .ledger
        .connections
        .iter()
        .filter(|(number, _)| !history.ledger.used.contains(number))
        .filter_map(|(_, connection)| connection.sought)
        .filter(|sought| sought.place > gone.place && window.contains(sought.place))
        .skip(allowance.connections(history, gone))
        .collect();
    if let Some(first) = attempts.first() {
        let what = counted(
            attempts.len(),
            "connection to the remote was",
            "connections to the remote were",
        );
        findings.broken(
            Code::QuietLateConnection,
            Sentence::default()
                .varies(
                    what.clone(),
                    if attempts.len() == 1 {
                        what.as_str()
                    } else {
                        "several connections to the remote were"
                    },
                )
                .text(" begun after the session was gone, the first ")
                .time(first.since(gone))
                .text(" after it"),
            std::iter::once(gone.seq).chain(attempts.iter().map(|seen| seen.seq)),
        );
    }
    uncounted
}

/// From when on a write of the server came after its client: the crash itself, where that ended the client. A client that
/// is killed closes its pipes before anybody is told of its end, and a fast server asks in between.
fn crash_of_client<'a>(history: &History<'a>, gone: Seen<'a>) -> Seen<'a> {
    match history.crash_fired() {
        Some(fired) if history.kills_server().is_none() => fired,
        _ => gone,
    }
}

/// The first thing that the server asked of the remote since the crash.
fn since_crash<'a>(history: &History<'a>) -> Option<Seen<'a>> {
    let mut window = history.window_a();
    window.from = history.crash_fired().map_or(window.from, |seen| seen.place);
    let requests = history.ledger.requests_in(window).map(|r| r.seen);
    let connections = history.ledger.connections.values();
    let sought = connections.filter_map(|connection| connection.sought);
    requests
        .chain(sought.filter(|sought| window.contains(sought.place)))
        .min_by_key(|seen| seen.place)
}

/// What the call itself may still do where the client died before its dispatch: each of its requests once.
struct Allowance {
    applies: bool,
    /// Why it does.
    because: &'static str,
    /// The server runs on while its client dies: what it asks next may be on its way in that very moment.
    runs_on: bool,
    used: BTreeSet<String>,
}

impl Allowance {
    fn of(history: &History<'_>) -> Self {
        let runs_on = history.crash.boundary.is_some_and(|boundary| {
            matches!(boundary.event, BoundaryEvent::Replied | BoundaryEvent::Line)
        });
        // A held system call goes on after the crash, and the call with it.
        let because = match history.crash.at {
            CrashPoint::CallUnread => {
                Some("the server read the call after its client had died and dispatched it once")
            }
            CrashPoint::CallWritten => {
                Some("the server had just been given the call when its client died")
            }
            CrashPoint::Syscall => {
                Some("the server was held in a system call of the call when its client died")
            }
            _ if runs_on => Some("the server was in the middle of the call when its client died"),
            _ => None,
        };
        Self {
            applies: because.is_some(),
            because: because.unwrap_or_default(),
            runs_on,
            used: BTreeSet::new(),
        }
    }

    fn covers(&mut self, request: &Request<'_>) -> bool {
        self.applies && self.used.insert(request.name())
    }

    /// New connections that may stay without a request: one, where the call had not reached out before.
    fn connections(&self, history: &History<'_>, gone: Seen<'_>) -> usize {
        let window = history.window_a();
        let reached_out = history
            .ledger
            .connections
            .values()
            .filter_map(|connection| connection.sought)
            .any(|sought| window.contains(sought.place) && sought.place < gone.place);
        usize::from(self.applies && self.used.is_empty() && (self.runs_on || !reached_out))
    }
}

/// Who was sent SIGTERM and had to be sent SIGKILL.
fn deaf(history: &History<'_>, findings: &mut Findings) {
    if let (Some(asked), Some(killed)) = (
        history.client_signalled(Signal::Term),
        history.client_signalled(Signal::Kill),
    ) {
        let told = say("the server ignored the SIGTERM of its client, which killed it ");
        let told = told.time(killed.since(asked)).text(" later");
        findings.broken(Code::QuietIgnoresSigterm, told, [asked.seq, killed.seq]);
    }
    let Some(stop) = history.stop() else { return };
    let window = history.window_a();
    let mut named = BTreeSet::new();
    for killed in history
        .within(window)
        .filter(|seen| seen.place >= stop.place)
    {
        let Event::SignalSent {
            pid,
            signal: Signal::Kill,
            ..
        } = killed.event
        else {
            continue;
        };
        let Some(asked) = history.signal(*pid, Signal::Term) else {
            continue;
        };
        // It may have been about to end when SIGKILL was sent: how it ended tells.
        let ended_by_itself = history.exit(*pid).is_some_and(|(exited, exit)| {
            exited.place < killed.place
                || !matches!(
                    exit,
                    Exit::Signal {
                        number: SIGKILL,
                        ..
                    }
                )
        });
        if asked.place < killed.place
            && !ended_by_itself
            && is_answerable(history, *pid)
            && named.insert(*pid)
        {
            findings.broken(
                Code::QuietIgnoresSigterm,
                history
                    .cast
                    .called(*pid)
                    .text(" ignored SIGTERM and had to be killed ")
                    .time(killed.since(asked))
                    .text(" later"),
                [asked.seq, killed.seq],
            );
        }
    }
}

/// Neither ours nor declared durable by the drill.
pub(super) fn is_answerable(history: &History<'_>, pid: Pid) -> bool {
    let allowed: &[AllowedHelper] = match &history.drill.expect.helpers {
        Asked::Ask(helpers) => &helpers.allow,
        Asked::Skip { .. } => &[],
    };
    !history.cast.is_ours(pid) && !history.cast.is_allowed(allowed, pid)
}

fn hold(
    history: &History<'_>,
    expected: &Quiet,
    uncounted: &[Uncounted<'_, '_>],
    findings: &mut Findings,
) {
    let Some(ended) = history.quiet_ended() else {
        return;
    };
    let gone = history.session_gone();
    let evidence: Vec<Seq> = gone
        .map(|seen| seen.seq)
        .into_iter()
        .chain(history.look(Moment::End).map(|look| look.seen.seq))
        .chain([ended.seq])
        .chain(uncounted.iter().map(|uncounted| uncounted.request.seen.seq))
        .collect();
    let empty = matches!(ended.event, Event::QuietEnded { empty: true, .. });
    let sentence = match gone {
        None if history.ends_session() => say(
            "no request arrived after the crash, nothing was spinning and nothing ignored SIGTERM",
        ),
        None => say(
            "the crash sent no EOF, so only CPU and SIGTERM were asked: nothing was spinning or ignored SIGTERM",
        ),
        Some(gone) if empty => say("nothing was left ")
            .time(ended.since(gone))
            .text(" after the session was gone, and no new request had arrived")
            .then(not_counted(uncounted, gone)),
        Some(gone) => say("in a quiet period of ")
            .limit(expected.window.0)
            .text(" no new request arrived, nothing was spinning and nothing ignored SIGTERM")
            .then(not_counted(uncounted, gone)),
    };
    findings.held(sentence, evidence);
}

/// `; not counted: POST /builds, 252 ms after the session was gone (…)`
fn not_counted(uncounted: &[Uncounted<'_, '_>], gone: Seen<'_>) -> Sentence {
    if uncounted.is_empty() {
        return Sentence::default();
    }
    let each = uncounted.iter().map(|uncounted| {
        say(uncounted.request.name())
            .text(", ")
            .time(uncounted.request.seen.since(gone))
            .text(format!(
                " after the session was gone ({})",
                uncounted.because
            ))
    });
    say("; not counted: ").then(Sentence::list(each.collect()))
}

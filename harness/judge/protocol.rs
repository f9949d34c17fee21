//! `protocol`: is every byte on stdout JSON-RPC, and is every request read before EOF answered or accounted for?
//!
//! The first is asked of every session. The second is asked where the client could still read: of every session up to its
//! crash, of a client that closed its stdin and reads on, and at `after-result`.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{CallRole, Event, LineShape, Moment, Seq, Session, SessionFault, Way};
use crate::spec::{CrashPoint, Stream};

use super::code::Code;
use super::finding::Findings;
use super::history::{History, Seen};
use super::landed;
use super::lost;
use super::sentence::{counted, say};
use super::words;

const SESSIONS: [Session; 4] = [Session::Beside, Session::A, Session::B, Session::Revoked];

pub(super) fn judge(history: &History<'_>) -> Findings {
    let mut findings = Findings::default();
    let mut lines = 0;
    let mut evidence: Vec<Seq> = Vec::new();
    for session in SESSIONS {
        noise(history, session, &mut findings);
        torn(history, session, &mut findings);
        unasked(history, session, &mut findings);
        let (n, last) = lines_of(history, session);
        lines += n;
        evidence.extend(last.map(|seen| seen.seq));
    }
    lost_in_a(history, &mut findings);
    for session in SESSIONS {
        lost::requests(history, session, &mut findings);
    }
    if findings.is_clean() {
        let told = if lines == 0 {
            say("nothing came on stdout")
        } else {
            say("all lines on stdout were JSON-RPC")
        };
        if lines == 0 {
            evidence.extend(history.look(Moment::End).map(|look| look.seen.seq));
        }
        let told = match answers_due(history) {
            Some(_) => told.text(", and every request was answered or accounted for"),
            None => told,
        };
        findings.held(told, evidence);
    }
    findings
}

/// What can be said where the crash did not land: noise is noise, a request that was lost is lost, and a server that cannot
/// open a session is no server.
pub(super) fn judge_unlanded(history: &History<'_>) -> Findings {
    let mut findings = judge_noise(history);
    for session in SESSIONS {
        lost::requests(history, session, &mut findings);
    }
    if let Some(failure) = landed::early_failure(history)
        && matches!(
            failure.fault,
            SessionFault::Exited | SessionFault::TimedOut | SessionFault::Refused
        )
    {
        let what = match failure.fault {
            SessionFault::Exited => "the server ended before it answered the handshake",
            SessionFault::TimedOut => "the server did not answer the handshake in time",
            _ => "the server's handshake was not MCP",
        };
        let detail = say(" (").quote(failure.detail, "detail").text(")");
        let told = say(what)
            .then(detail)
            .then(lost::stderr_told(failure.stderr));
        findings.broken(Code::ProtocolNoHandshake, told, [failure.seen.seq]);
    }
    findings
}

/// What can be said where the drill itself is mistaken.
pub(super) fn judge_noise(history: &History<'_>) -> Findings {
    let mut findings = Findings::default();
    for session in SESSIONS {
        noise(history, session, &mut findings);
    }
    findings
}

fn lines_of<'a>(history: &History<'a>, of: Session) -> (usize, Option<Seen<'a>>) {
    let lines: Vec<Seen<'a>> = history
        .all()
        .filter(|seen| {
            matches!(
                seen.event,
                Event::LinePassed { session, way: Way::FromServer, .. } if *session == of
            )
        })
        .collect();
    (lines.len(), lines.last().copied())
}

fn noise(history: &History<'_>, of: Session, findings: &mut Findings) {
    let noise: Vec<(Seen<'_>, Option<&String>)> = history
        .all()
        .filter_map(|seen| match seen.event {
            Event::LinePassed {
                session,
                way: Way::FromServer,
                shape: LineShape::Noise,
                excerpt,
                ..
            } if *session == of => Some((seen, excerpt.as_ref())),
            _ => None,
        })
        .collect();
    if let Some((_, excerpt)) = noise.first() {
        let what = if noise.len() == 1 {
            "1 line that is not JSON-RPC"
        } else {
            "lines that are not JSON-RPC"
        };
        findings.broken(
            Code::ProtocolNoise,
            say(format!("{of} had {what} on stdout: "))
                .quote(excerpt.map_or("", String::as_str), "line"),
            noise.iter().map(|(seen, _)| seen.seq),
        );
    }
}

/// Answers that answer nothing: to an id that no request had, or a second time (JSON-RPC 2.0, section 5).
fn unasked(history: &History<'_>, of: Session, findings: &mut Findings) {
    let ids = |wanted: Way, shapes: LineShape| {
        history.all().filter_map(move |seen| match seen.event {
            Event::LinePassed {
                session,
                way,
                shape,
                id: Some(id),
                ..
            } if (*session, *way, *shape) == (of, wanted, shapes) => Some((seen, id.as_str())),
            _ => None,
        })
    };
    let asked: BTreeSet<&str> = ids(Way::ToServer, LineShape::Request)
        .map(|(_, id)| id)
        .collect();
    let mut answered = BTreeSet::new();
    for (seen, id) in ids(Way::FromServer, LineShape::Response) {
        let what = if !asked.contains(id) {
            "answered a request that was never made"
        } else if !answered.insert(id) {
            "answered one request twice"
        } else {
            continue;
        };
        findings.broken(
            Code::ProtocolUnasked,
            say(format!("{of}: the server {what} (id "))
                .id(id)
                .text(")"),
            [seen.seq],
        );
        return;
    }
}

/// So much is written to a pipe at once, or not at all (pipe(7), `PIPE_BUF`).
const AT_ONCE: u64 = 4096;

/// A last line without its end, although nobody had killed the server or its client. EOF is no reason: what is begun is
/// written to its end, or not begun. Nor is SIGKILL, where the line was short enough to be written at once.
fn torn(history: &History<'_>, of: Session, findings: &mut Findings) {
    let Some((ended, torn)) = history.all().find_map(|seen| match seen.event {
        Event::StdoutEnded { session, torn } if *session == of && *torn > 0 => Some((seen, *torn)),
        _ => None,
    }) else {
        return;
    };
    let was_killed = history
        .all()
        .take(ended.place)
        .any(|seen| match seen.event {
            Event::SessionEnded { session } => *session == of,
            Event::CrashFired { .. } => {
                of == Session::A && history.kills_server().is_some() && torn >= AT_ONCE
            }
            Event::SignalSent { pid, .. } => history.cast.server(of) == Some(*pid),
            _ => false,
        });
    if !was_killed {
        findings.broken(
            Code::ProtocolTorn,
            say(format!(
                "{of} ended its stdout in the middle of a line, after "
            ))
            .text(counted(
                usize::try_from(torn).unwrap_or(usize::MAX),
                "byte of it",
                "bytes of it",
            )),
            [ended.seq],
        );
    }
}

// ---- answers -----------------------------------------------------------------------------------------------------

/// Up to where session A's requests must be answered: until EOF where the client closes its stdin and reads on, until the
/// crash where it has its result. Nowhere else could it have read the answer.
fn answers_due<'a>(history: &History<'a>) -> Option<Seen<'a>> {
    let close = &history.crash.close;
    if history.crash.at == CrashPoint::AfterResult {
        history.crash_fired()
    } else if !close.is_empty() && !close.contains(&Stream::Stdout) {
        let until = history.eof()?;
        (!has_stopped_reading(history, Session::A, history.all().last()?)).then_some(until)
    } else {
        None
    }
}

/// Whether the client of a session had stopped reading by then, and not gone on.
pub(super) fn has_stopped_reading(history: &History<'_>, of: Session, then: Seen<'_>) -> bool {
    let mut stopped = false;
    for seen in history.all().take(then.place) {
        match seen.event {
            Event::ReadingStopped { session } if *session == of => stopped = true,
            Event::ReadingResumed { session } if *session == of => stopped = false,
            _ => {}
        }
    }
    stopped
}

fn lost_in_a(history: &History<'_>, findings: &mut Findings) {
    let Some(until) = answers_due(history) else {
        return;
    };
    let Some(server) = history.cast.server(Session::A) else {
        return;
    };
    let at_result = history.crash.at == CrashPoint::AfterResult;
    let exit = history.exit(server);
    let by_itself =
        exit.filter(|(exited, _)| history.stop().is_none_or(|stop| exited.place < stop.place));
    if !at_result && by_itself.is_none() {
        // It still runs, or we ended it: nothing is lost by its own doing. That it stays is asked by `eof`.
        return;
    }
    for (asked, id, method) in requests(history, until) {
        if is_answered(history, id) || is_accounted_for(history, id) {
            continue;
        }
        let end = match by_itself {
            Some((_, exit)) => format!(", and the server exited with {exit}"),
            None => String::new(),
        };
        findings.broken(
            Code::ProtocolLost,
            say("a request that was written before EOF (")
                .text(method)
                .text(format!(") was never answered{end}")),
            [asked.seq]
                .into_iter()
                .chain(by_itself.map(|(exited, _)| exited.seq)),
        );
    }
}

/// The requests of the session proper: a probe of the handshake need not be answered by an old server, and the list of the
/// tools is asked for by nobody but the drill.
fn requests<'a>(
    history: &History<'a>,
    until: Seen<'_>,
) -> impl Iterator<Item = (Seen<'a>, &'a str, &'a str)> {
    let from = history
        .handshaken(Session::A)
        .map_or(usize::MAX, |seen| seen.place);
    history
        .all()
        .filter(move |seen| seen.place > from)
        .take_while(move |seen| seen.place < until.place)
        .filter_map(|seen| match seen.event {
            Event::LinePassed {
                session: Session::A,
                way: Way::ToServer,
                shape: LineShape::Request,
                id: Some(id),
                method,
                ..
            } if method.as_deref() != Some("tools/list") => {
                Some((seen, id.as_str(), method.as_deref().unwrap_or("request")))
            }
            _ => None,
        })
}

fn is_answered(history: &History<'_>, wanted: &str) -> bool {
    history
        .first(|e| {
            matches!(
                e,
                Event::LinePassed {
                    session: Session::A,
                    way: Way::FromServer,
                    shape: LineShape::Response,
                    id: Some(id),
                    ..
                } if id == wanted
            )
        })
        .is_some()
}

/// The main call is accounted for by an outcome in the record as well.
pub(super) fn is_accounted_for(history: &History<'_>, wanted: &str) -> bool {
    let is_main = history
        .first(|e| {
            matches!(
                e,
                Event::CallIssued { session: Session::A, role: CallRole::Main, rpc_id, .. }
                    if rpc_id == wanted
            )
        })
        .is_some();
    let (true, Some(log), Some(owner)) = (
        is_main,
        words::log(history.drill),
        history.identity(Session::A),
    ) else {
        return false;
    };
    // Session B makes the same call, and its rows say nothing of session A's.
    let own = history.window_a();
    history
        .records()
        .filter(|record| record.seen.place < own.to)
        .any(|record| words::outcome(&record.rows_of(owner.call), &log.outcomes).is_some())
}

//! `revocation`: after revoking, is every protected call refused, at once, without widening, and is each refusal recorded?
//!
//! Two are watched: what survived session A, and a session that is started with run A's revoked credential. The mock remote
//! refuses by itself; the server's part is to ask it, to bring nothing else in its place, and to say what happened.
#![forbid(unsafe_code)]

use crate::journal::{AnswerShape, CallRole, Credential, Event, Moment, Session};
use crate::spec::Revocation;

use super::effects::named;
use super::finding::{Findings, unproven};
use super::history::{History, Seen, Window, ns};
use super::ledger::{Request, seqs};
use super::sentence::{Sentence, counted, say};
use super::words::{self, Claim};

pub(super) fn judge(history: &History<'_>, expected: &Revocation) -> Findings {
    let Some(revoked) = history.revoked() else {
        return unproven(say("run A was not revoked"), []);
    };
    let mut findings = Findings::default();
    authority(history, revoked, &mut findings);
    survivors(history, revoked, &mut findings);
    session(history, expected, revoked, &mut findings);
    findings
}

/// The harness's own probes: if the authority does not refuse, nothing can be asked of a server.
fn authority(history: &History<'_>, revoked: Seen<'_>, findings: &mut Findings) {
    for seen in history.all().filter(|seen| seen.place > revoked.place) {
        if let Event::Probed { route, status } = seen.event
            && (200..300).contains(status)
        {
            findings.unproven(
                say(format!(
                    "the mock still took run A's credential after revoking it ({route} answered {status})"
                )),
                [revoked.seq, seen.seq],
            );
        }
    }
}

// ---- what survived session A -------------------------------------------------------------------------------------

fn survivors(history: &History<'_>, revoked: Seen<'_>, findings: &mut Findings) {
    let mut window = history.window_a();
    window.from = window.from.max(revoked.place);
    let requests: Vec<&Request<'_>> = history.ledger.requests_in(window).collect();
    taken(&requests, "what survived session A", revoked, findings);
    widened(
        history,
        &requests,
        "what survived session A",
        revoked,
        findings,
    );
    let refused: Vec<&Request<'_>> = requests
        .into_iter()
        .filter(|r| r.refused.is_some())
        .collect();
    unrecorded(history, &refused, findings);
}

/// Requests that the remote let through although the run was revoked.
fn taken(requests: &[&Request<'_>], whose: &str, revoked: Seen<'_>, findings: &mut Findings) {
    let let_through = |wanted: bool| -> Vec<&&Request<'_>> {
        requests
            .iter()
            .filter(|r| r.refused.is_none() && !r.unmatched)
            .filter(
                |r| matches!(r.credential, Credential::Run { derived, .. } if *derived == wanted),
            )
            .collect()
    };
    let by_derived = let_through(true);
    if let Some(first) = by_derived.first() {
        let what = if by_derived.len() == 1 {
            "request"
        } else {
            "requests"
        };
        findings.broken(
            say(format!("{whose} got "))
                .several(by_derived.len())
                .text(format!(
                    " {what} through with a second credential of the revoked run, the first {} ",
                    first.name()
                ))
                .time(first.seen.since(revoked))
                .text(" after revoking"),
            std::iter::once(revoked.seq).chain(by_derived.iter().map(|r| r.seen.seq)),
        );
    }
    let by_revoked = let_through(false);
    if !by_revoked.is_empty() {
        findings.unproven(
            say("the mock itself took the revoked credential of run A"),
            by_revoked.iter().map(|r| r.seen.seq),
        );
    }
}

/// Another credential, or none, where that of the revoked run had been shown before: the server fell back to it.
fn widened(
    history: &History<'_>,
    requests: &[&Request<'_>],
    whose: &str,
    revoked: Seen<'_>,
    findings: &mut Findings,
) {
    let earlier = |to: usize| history.ledger.requests_in(Window { from: 0, to });
    let is_foreign = |request: &Request<'_>| matches!(request.credential, Credential::Foreign);
    let is_of_run = |request: &Request<'_>| matches!(request.credential, Credential::Run { .. });
    let foreign = requests.iter().find(|request| is_foreign(request));
    if let Some(first) = foreign.filter(|_| !earlier(revoked.place).any(is_foreign)) {
        if earlier(first.seen.place).any(is_of_run) {
            findings.broken(
                say(format!(
                    "{whose} fell back to a credential that is not of the revoked run ({})",
                    first.name()
                )),
                [revoked.seq, first.seen.seq],
            );
        } else {
            findings.unproven(
                say(format!(
                    "{whose} showed a credential that the drill did not mint, and the run's own was never shown ({})",
                    first.name()
                )),
                [revoked.seq, first.seen.seq],
            );
        }
    }
    // To ask without a credential where one is not needed is no fault: what the same route was shown before tells.
    let bare = requests.iter().find(|request| {
        let is_same = |other: &Request<'_>| other.name() == request.name();
        matches!(request.credential, Credential::Absent)
            && earlier(request.seen.place).any(|other| is_of_run(other) && is_same(other))
            && !earlier(revoked.place)
                .any(|other| matches!(other.credential, Credential::Absent) && is_same(other))
    });
    if let Some(first) = bare {
        findings.broken(
            say(format!(
                "{whose} asked without any credential where that of the run is refused ({})",
                first.name()
            )),
            [revoked.seq, first.seen.seq],
        );
    }
}

/// Attempts without a call id need at least one row together. Rows of other calls are only counted in the journal, so what
/// can be proven is that not a byte was written.
fn unrecorded(history: &History<'_>, refused: &[&Request<'_>], findings: &mut Findings) {
    if refused.is_empty() || words::log(history.drill).is_none() {
        return;
    }
    let (Some(before), Some(after)) = (
        history.record(Moment::End),
        history.record(Moment::AfterStop),
    ) else {
        return;
    };
    let readable = before.unreadable.is_none() && after.unreadable.is_none();
    if readable && (before.bytes, before.lines) == (after.bytes, after.lines) {
        let what = if refused.len() == 1 {
            "attempt was"
        } else {
            "attempts were"
        };
        findings.broken(
            Sentence::default().several(refused.len()).text(format!(
                " {what} refused after revoking, and the record did not get a single row for it"
            )),
            refused
                .iter()
                .map(|r| r.seen.seq)
                .chain([before.seen.seq, after.seen.seq]),
        );
    }
}

// ---- the revoked session -----------------------------------------------------------------------------------------

fn session(
    history: &History<'_>,
    expected: &Revocation,
    revoked: Seen<'_>,
    findings: &mut Findings,
) {
    let Some(window) = history.window_of(Session::Revoked) else {
        findings.unproven(
            say("no session with the revoked credential was started"),
            [revoked.seq],
        );
        return;
    };
    let effects = history.ledger.effects_in(window);
    if !effects.is_empty() {
        findings.broken(
            say(format!(
                "the revoked session made {}",
                counted(effects.len(), "effect", "effects")
            ))
            .then(named(&effects)),
            [revoked.seq].into_iter().chain(seqs(&effects)),
        );
    }
    let requests: Vec<&Request<'_>> = history.ledger.requests_in(window).collect();
    taken(&requests, "the revoked session", revoked, findings);
    widened(history, &requests, "the revoked session", revoked, findings);

    if let Some(failure) = history.failure(Session::Revoked) {
        // Not to start is not an answer; only where nothing worse is proven.
        findings.unproven(
            say("the revoked session did not get to its call: ").quote(failure.detail, "detail"),
            [failure.seen.seq],
        );
        return;
    }
    let Some(reply) = history.reply(Session::Revoked) else {
        findings.unproven(
            say("nothing shows how the revoked session's call ended"),
            [revoked.seq],
        );
        return;
    };
    match reply.shape {
        AnswerShape::Result => findings.broken(
            say("the revoked session's call was answered as a success: ")
                .quote(reply.text, "answer"),
            [revoked.seq, reply.seen.seq],
        ),
        AnswerShape::Nothing => findings.broken(
            say("the revoked session's call got no answer, where an error is due"),
            [revoked.seq, reply.seen.seq],
        ),
        AnswerShape::ToolError | AnswerShape::Error => {
            at_once(history, expected, &requests, reply.seen, revoked, findings)
        }
    };
    recorded(history, findings);
}

/// Whether this trial has seen the drill's call succeed, or reach the remote: a tool that does not exist is "refused" by
/// every server.
fn is_seen_to_work(history: &History<'_>) -> bool {
    let answered = [Session::A, Session::B]
        .into_iter()
        .filter_map(|session| history.reply(session))
        .any(|reply| reply.shape == AnswerShape::Result);
    answered || !history.ledger.effects.is_empty()
}

/// From the first call of the revoked session (its start does not count) to the first refusal.
fn at_once<'f>(
    history: &History<'_>,
    expected: &Revocation,
    requests: &[&Request<'_>],
    answered: Seen<'_>,
    revoked: Seen<'_>,
    findings: &'f mut Findings,
) -> &'f mut Findings {
    let refused = requests.iter().find_map(|request| request.refused);
    let (refusal, by) = match refused {
        Some(refused) => (refused, "by the remote"),
        None => (answered, "by the server itself, without asking the remote"),
    };
    let issued = [CallRole::Before, CallRole::Main]
        .into_iter()
        .find_map(|role| history.issued(Session::Revoked, role));
    let Some(issued) = issued else {
        return findings.unproven(
            say("nothing shows when the revoked session's call was issued"),
            [answered.seq],
        );
    };
    if refused.is_none() && !is_seen_to_work(history) {
        return findings.unproven(
            say(
                "the revoked session's call was answered with an error without asking the remote, and no session of \
                 this trial shows that the call works at all: ",
            )
            .quote(history.reply(Session::Revoked).map_or("", |reply| reply.text), "answer"),
            [revoked.seq, answered.seq],
        );
    }
    let took = refusal.since(issued);
    let evidence = [revoked.seq, issued.seq, refusal.seq, answered.seq];
    let told = say("the revoked session's call was refused ")
        .text(by)
        .text(", ")
        .time(took)
        .text(" after it was issued");
    if took > ns(expected.within.0) {
        findings.broken(
            told.text(", where at most ")
                .limit(expected.within.0)
                .text(" is right"),
            evidence,
        )
    } else {
        findings.held(
            told.text(", and was answered as an error; it changed nothing"),
            evidence,
        )
    }
}

/// The refusal must stand in the ownership log, with the call id of that session.
fn recorded(history: &History<'_>, findings: &mut Findings) {
    let Some(log) = words::log(history.drill) else {
        return;
    };
    let (Some(record), Some(owner)) = (
        history.record(Moment::AfterRevokedSession),
        history.identity(Session::Revoked),
    ) else {
        findings.unproven(say("the record was not read after the revoked session"), []);
        return;
    };
    let evidence = [record.seen.seq];
    if let Some(reason) = record.unreadable {
        findings.unproven(say("the record could not be read: ").text(reason), evidence);
        return;
    }
    let rows = record.rows_of(owner.call);
    match words::outcome(&rows, &log.outcomes) {
        Some((_, Claim::Refused)) => {
            findings.held(say("the refusal stands in the record"), evidence);
        }
        Some((row, _)) => {
            let word = row.text("outcome").unwrap_or_default();
            findings.broken(
                say("the refusal of the revoked session's call stands in the record as ")
                    .word(&word),
                evidence,
            );
        }
        None => {
            findings.broken(
                say("the refusal of the revoked session's call does not stand in the record"),
                evidence,
            );
        }
    }
}

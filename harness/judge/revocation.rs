//! `revocation`: after revoking, is every protected call refused, at once, without widening, and is each refusal recorded?
//!
//! Two are watched: what survived session A, and a session that is started with run A's revoked credential. The mock remote
//! refuses by itself; the server's part is to ask it, to bring nothing else in its place, and to say what happened.
#![forbid(unsafe_code)]

use crate::journal::{AnswerShape, CallRole, Event, Moment, Refusal, Session, SessionFault};
use crate::spec::Revocation;

use super::attempts::{self, Attempts, failed_command};
use super::authority::torn_since_revoked_session;
use super::code::Code;
use super::effects::named;
use super::finding::{Findings, unproven};
use super::history::{History, Seen, ns};
use super::ledger::seqs;
use super::limit;
use super::lives;
use super::sentence::{counted, say};
use super::words::{self, Claim};

pub(super) fn judge(history: &History<'_>, expected: &Revocation) -> Findings {
    let Some(revoked) = history.revoked() else {
        return match failed_command(history, "revoke") {
            Some((seen, how)) => unproven(
                Code::RevocationNotRevoked,
                say("the authority did not revoke run A: ").then(how),
                [seen.seq],
            ),
            None => unproven(Code::RevocationNotRevoked, say("run A was not revoked"), []),
        };
    };
    let mut findings = Findings::default();
    lives::probes(history, &mut findings);
    let survivors = attempts::survivors(history);
    let attempts = Attempts::new(history, history.window_a(), revoked, survivors);
    attempts.judge(&mut findings);
    attempts::wider_key(history, revoked, &mut findings);
    attempts.late_approval(&mut findings);
    attempts.unrecorded(&mut findings);
    if let Some((told, evidence)) = attempts.told() {
        findings.held(told, evidence);
    }
    session(history, expected, revoked, &mut findings);
    if let Some(breach) = history.breach
        && limit::is_of_revocation(history)
    {
        findings.broken(
            Code::RevocationLimit,
            breach.told(history),
            breach.evidence(),
        );
    }
    listed(history, &mut findings);
    if let Some((seen, how)) = torn_since_revoked_session(history) {
        let told =
            say("the authority's own journal, in which its refusals stand, does not verify: ");
        findings.broken(Code::RevocationAuthorityJournal, told.then(how), [seen.seq]);
    }
    lives::job(history, expected, &mut findings);
    findings
}

/// The refusals of the revoked session's calls that the authority lists. One that names no call counts where it was not
/// there before.
fn refusals_listed<'a>(history: &History<'a>) -> Option<(Seen<'a>, usize)> {
    let listed = |wanted: Moment| {
        history.all().rev().find_map(|seen| match seen.event {
            Event::RefusalsRead { moment, refusals } if *moment == wanted => Some((seen, refusals)),
            _ => None,
        })
    };
    let (seen, after) = listed(Moment::AfterRevokedSession)?;
    let nameless = |refusals: &[Refusal]| refusals.iter().filter(|r| r.call.is_none()).count();
    let calls = history.calls_of(Session::Revoked);
    let is_named = |refusal: &&Refusal| {
        let call = refusal.call.as_deref();
        call.is_some_and(|call| calls.contains(&call))
    };
    let before = listed(Moment::BeforeRevokedSession).map_or(0, |(_, before)| nameless(before));
    let named = after.iter().filter(is_named).count();
    Some((seen, named + nameless(after).saturating_sub(before)))
}

/// What the authority itself tells of its refusals, where it is asked. A server that holds the credential itself is refused by
/// the remote, of which the authority knows nothing.
fn listed(history: &History<'_>, findings: &mut Findings) {
    if let Some((seen, how)) = failed_command(history, "refusals") {
        findings.unproven(
            Code::RevocationListUnreadable,
            say("the authority's refusals could not be read: ").then(how),
            [seen.seq],
        );
    }
    let Some((seen, more)) = refusals_listed(history) else {
        return;
    };
    if more > 0 {
        findings.held(
            say("the authority lists ")
                .several(more)
                .text(if more == 1 { " refusal" } else { " refusals" }),
            [seen.seq],
        );
    } else if history.is_called_by_authority() {
        findings.broken(
            Code::RevocationNotListed,
            say("the authority lists no refusal of the revoked session's calls"),
            [seen.seq],
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
            Code::RevocationUntested,
            say("no session with the revoked credential was started"),
            [revoked.seq],
        );
        return;
    };
    let effects = history.ledger.effects_in(window);
    if !effects.is_empty() {
        findings.broken(
            Code::RevocationEffect,
            say(format!(
                "the revoked session made {}",
                counted(effects.len(), "effect", "effects")
            ))
            .then(named(&effects)),
            [revoked.seq].into_iter().chain(seqs(&effects)),
        );
    }
    let attempts = Attempts::new(history, window, revoked, say("the revoked session"));
    attempts.judge(findings);

    if let Some(failure) = history.failure(Session::Revoked) {
        let refused: Vec<Seen<'_>> = attempts.refused().filter_map(|r| r.refused).collect();
        if failure.fault == SessionFault::Exited
            && let Some(first) = refused.first()
        {
            // Who asks at its start whether its credential counts, and goes where it does not, is as contained as can be.
            findings.held(
                say("the revoked session's server was refused by the remote ")
                    .time(first.since(revoked))
                    .text(
                        " after revoking, and ended before it took a call; 0 requests got through",
                    ),
                [revoked.seq, first.seq, failure.seen.seq],
            );
            unrecorded_at_start(history, &refused, findings);
            return;
        }
        // Not to start is not an answer; only where nothing worse is proven.
        findings.unproven(
            Code::RevocationUntested,
            say("the revoked session did not get to its call: ").quote(failure.detail, "detail"),
            [failure.seen.seq],
        );
        return;
    }
    let Some(reply) = history.reply(Session::Revoked) else {
        findings.unproven(
            Code::TrialNoEvidence,
            say("nothing shows how the revoked session's call ended"),
            [revoked.seq],
        );
        return;
    };
    match reply.shape {
        AnswerShape::Result => findings.broken(
            Code::RevocationAnsweredSuccess,
            say("the revoked session's call was answered as a success: ")
                .quote(reply.text, "answer"),
            [revoked.seq, reply.seen.seq],
        ),
        AnswerShape::Nothing => findings.broken(
            Code::RevocationNoAnswer,
            say("the revoked session's call got no answer, where an error is due")
                .then(history.why_nothing(Session::Revoked, reply)),
            [revoked.seq, reply.seen.seq],
        ),
        AnswerShape::ToolError | AnswerShape::Error => {
            at_once(history, expected, &attempts, reply.seen, revoked, findings)
        }
    };
    again(history, revoked, findings);
    // What got through was not refused, and a record that says so is right.
    if reply.shape != AnswerShape::Result {
        recorded(history, findings);
    }
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
    attempts: &Attempts<'_, '_>,
    answered: Seen<'_>,
    revoked: Seen<'_>,
    findings: &'f mut Findings,
) -> &'f mut Findings {
    let refused = attempts.refused().find_map(|request| request.refused);
    let (refusal, by) = match refused {
        Some(refused) => (refused, "by the remote"),
        None if refusals_listed(history).is_some_and(|(_, more)| more > 0) => {
            (answered, "by the authority")
        }
        None if history.is_brokered() => (answered, "by the authority, or by the server itself"),
        None => (answered, "by the server itself, without asking the remote"),
    };
    let issued = [CallRole::Before, CallRole::Main]
        .into_iter()
        .find_map(|role| history.issued(Session::Revoked, role));
    let Some(issued) = issued else {
        return findings.unproven(
            Code::TrialNoEvidence,
            say("nothing shows when the revoked session's call was issued"),
            [answered.seq],
        );
    };
    if refused.is_none() && !is_seen_to_work(history) {
        return findings.unproven(
            Code::RevocationUntested,
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
            Code::RevocationLate,
            told.text(", where at most ")
                .limit(expected.within.0)
                .text(" is right"),
            evidence,
        )
    } else {
        findings.held(
            told.text(" and ").time(refusal.since(revoked)).text(
                " after revoking, and was answered as an error; it changed nothing, and 0 requests got through",
            ),
            evidence,
        )
    }
}

/// Where no call could be made, a row for the refusal has no call id: what can be proven is that not a byte was written.
fn unrecorded_at_start(history: &History<'_>, refused: &[Seen<'_>], findings: &mut Findings) {
    let (Some(before), Some(after)) = (
        history.record(Moment::BeforeRevokedSession),
        history.record(Moment::AfterRevokedSession),
    ) else {
        return;
    };
    if words::log(history.drill).is_some() && before.bytes == after.bytes {
        findings.broken(
            Code::RevocationUnrecorded,
            say("the record did not get a single row for the refusal at its start"),
            refused.iter().map(|seen| seen.seq).chain([after.seen.seq]),
        );
    }
}

/// The same call once more: who refuses once must refuse always.
fn again(history: &History<'_>, revoked: Seen<'_>, findings: &mut Findings) {
    let answered = history.all().find_map(|seen| match seen.event {
        Event::CallAnswered {
            session: Session::Revoked,
            role: CallRole::Again,
            shape: AnswerShape::Result,
            text,
            ..
        } => Some((seen, text)),
        _ => None,
    });
    if let Some((seen, text)) = answered {
        findings.broken(
            Code::RevocationAnsweredSuccess,
            say("the revoked session's call was answered as a success when it was made again: ")
                .quote(text, "answer"),
            [revoked.seq, seen.seq],
        );
    }
}

/// Each refusal must stand in the ownership log, with the call id of that session.
fn recorded(history: &History<'_>, findings: &mut Findings) {
    let Some(log) = words::log(history.drill) else {
        return;
    };
    let (Some(record), Some(owner)) = (
        history.record(Moment::AfterRevokedSession),
        history.identity(Session::Revoked),
    ) else {
        findings.unproven(
            Code::TrialNoEvidence,
            say("the record was not read after the revoked session"),
            [],
        );
        return;
    };
    let evidence = [record.seen.seq];
    if let Some(reason) = record.unreadable {
        findings.unproven(
            Code::TrialRecordUnreadable,
            say("the record could not be read: ").text(reason),
            evidence,
        );
        return;
    }
    let again = history.all().find_map(|seen| match seen.event {
        Event::CallAnswered {
            session: Session::Revoked,
            role: CallRole::Again,
            shape: AnswerShape::ToolError | AnswerShape::Error,
            rpc_id,
            ..
        } => history.call_of(Session::Revoked, rpc_id),
        _ => None,
    });
    let calls = std::iter::once((owner.call, "")).chain(again.map(|call| (call, ", made again,")));
    for (call, which) in calls {
        let rows = record.rows_of(call);
        match words::outcome(&rows, &log.outcomes) {
            Some((_, Claim::Refused)) if which.is_empty() => {
                findings.held(say("the refusal stands in the record"), evidence);
            }
            Some((_, Claim::Refused)) => {}
            Some((row, _)) => {
                let word = row.text("outcome").unwrap_or_default();
                findings.broken(
                    Code::RevocationFalseRecord,
                    say(format!(
                        "the refusal of the revoked session's call{which} stands in the record as "
                    ))
                    .word(&word),
                    evidence,
                );
            }
            None => {
                findings.broken(
                    Code::RevocationUnrecorded,
                    say(format!("the refusal of the revoked session's call{which} does not stand in the record")),
                    evidence,
                );
            }
        }
    }
}

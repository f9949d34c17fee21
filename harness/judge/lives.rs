//! Three things are revoked, and each has a life of its own: the credential, the run, and the remote job. That one is over
//! says nothing of the others, so each is tried.
#![forbid(unsafe_code)]

use crate::journal::{Event, Phase, Session};
use crate::spec::{Authority, Resource, Revocable, Revocation};

use super::code::Code;
use super::finding::Findings;
use super::history::{History, Seen, ns};
use super::ledger::Effect;
use super::sentence::{Sentence, say};

/// The harness's own probes: if the authority does not refuse, nothing can be asked of a server.
pub(super) fn probes(history: &History<'_>, findings: &mut Findings) {
    let mut last: Option<(Seen<'_>, Revocable)> = None;
    for seen in history.all() {
        match seen.event {
            Event::Revoked { of, .. } => last = Some((seen, *of)),
            Event::Probed { route, status } => {
                let Some((revoked, of)) = last else { continue };
                if has_ended(history, seen) {
                    findings.unproven(
                        Code::RevocationMockAccepts,
                        say("the run's token may have ended before the probe, so a refusal shows nothing: give it a longer `lifetime`"),
                        [revoked.seq, seen.seq],
                    );
                    continue;
                }
                if !(200..300).contains(status) {
                    findings.held(
                        say(format!(
                            "after {} was revoked, a probe with the run's credential got {status}",
                            what(of)
                        )),
                        [revoked.seq, seen.seq],
                    );
                } else if checks_signature_alone(history) {
                    // The remote's fault and not the server's, which has to refuse by itself then.
                    findings.held(
                        say(format!(
                            "after {} was revoked, the remote still took its token ({route} answered {status}), because it \
                             checks signature and expiry alone: only the server itself can refuse",
                            what(of)
                        )),
                        [revoked.seq, seen.seq],
                    );
                } else {
                    findings.unproven(
                        Code::RevocationMockAccepts,
                        say(format!(
                            "the mock still took run A's credential after revoking it ({route} answered {status})"
                        )),
                        [revoked.seq, seen.seq],
                    );
                }
            }
            _ => {}
        }
    }
}

/// The end of a token is told in whole seconds.
const SECOND: u64 = 1_000_000_000;

/// Whether the token was old enough to have ended by itself, where that would pass for a revocation.
fn has_ended(history: &History<'_>, probed: Seen<'_>) -> bool {
    let minted = history.first(|e| {
        matches!(
            e,
            Event::Minted {
                session: Session::A,
                ..
            }
        )
    });
    let oauth = history.drill.authority.as_ref().and_then(Authority::oauth);
    checks_signature_alone(history)
        && oauth.zip(minted).is_some_and(|(oauth, minted)| {
            probed.since(minted).saturating_add(SECOND) >= ns(oauth.lifetime.0)
        })
}

fn what(of: Revocable) -> &'static str {
    match of {
        Revocable::Credential => "the credential",
        Revocable::Run => "the run",
        Revocable::Job => "the job",
    }
}

fn checks_signature_alone(history: &History<'_>) -> bool {
    let oauth = history.drill.authority.as_ref().and_then(Authority::oauth);
    oauth.is_some_and(|oauth| oauth.resource == Resource::ChecksSignature)
}

/// The remote job: was it cancelled, by nothing but the handle in the record?
pub(super) fn job(history: &History<'_>, expected: &Revocation, findings: &mut Findings) {
    if !expected.of.contains(&Revocable::Job) {
        return;
    }
    let Some(tried) = history.phase(Phase::RevokeJob) else {
        findings.unproven(
            Code::RevocationJobNotTried,
            say("nobody tried to cancel the remote job"),
            [],
        );
        return;
    };
    let windows =
        [Session::A, Session::B, Session::Revoked].map(|session| history.window_of(session));
    let effects: Vec<&Effect<'_>> = windows
        .into_iter()
        .flatten()
        .flat_map(|window| history.ledger.effects_in(window))
        .collect();
    if effects.is_empty() {
        findings.held(
            say("no remote job came of the call, so there was none to cancel"),
            [tried.seq],
        );
        return;
    }
    let ledger = &history.ledger;
    let cancelled = |effect: &Effect<'_>| {
        let mut cancelled = ledger.revoked_jobs.iter().chain(&ledger.cancelled);
        cancelled
            .find(|c| c.effect == effect.id && c.seen.place > effect.seen.place)
            .map(|c| c.seen)
    };
    for effect in effects {
        if let Some(end) = cancelled(effect) {
            findings.held(
                say(format!(
                    "the remote job ({}) was cancelled by the handle in the record",
                    effect.of
                )),
                [effect.seen.seq, end.seq],
            );
            continue;
        }
        let (why, seen) = why_not(history, effect);
        findings.broken(
            Code::RevocationJobStands,
            say(format!("the remote job ({} ", effect.of))
                .id(effect.id)
                .text(") still stands: ")
                .then(why),
            [effect.seen.seq, tried.seq]
                .into_iter()
                .chain(seen.map(|seen| seen.seq)),
        );
    }
}

fn why_not<'a>(history: &History<'a>, effect: &Effect<'_>) -> (Sentence, Option<Seen<'a>>) {
    let asked = history.all().find_map(|seen| match seen.event {
        Event::CancelAsked {
            effect: of,
            route,
            status,
        } if of == effect.id => Some((seen, route, status)),
        _ => None,
    });
    match asked {
        Some((seen, route, status)) => (say(format!("{route} answered {status}")), Some(seen)),
        None => (say("the record does not name it"), None),
    }
}

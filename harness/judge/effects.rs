//! `effects`: how many external effects did the remote apply for this one call, session B aside?
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Event, Moment};
use crate::spec::{Count, CrashPoint};

use super::beside;
use super::code::Code;
use super::finding::Findings;
use super::history::{History, Window};
use super::ledger::{Effect, seqs};
use super::next::by_proxy;
use super::sentence::{Sentence, counted, say};

pub(super) fn judge(history: &History<'_>, expected: &BTreeMap<CrashPoint, Count>) -> Findings {
    let point = history.crash.point();
    let right = right_count(history, expected);
    let effects = history.ledger.effects_in(history.window_a());
    let n = u32::try_from(effects.len()).unwrap_or(u32::MAX);
    let most = match right {
        Count::Exactly(n) | Count::AtMost(n) => n,
    };
    let mut findings = Findings::default();
    let told = say(format!(
        "the remote applied {} for this call",
        counted(effects.len(), "effect", "effects")
    ))
    .then(named(&effects));
    if n > most {
        findings.broken(
            if most == 0 {
                Code::EffectsUnwanted
            } else {
                Code::EffectsDuplicate
            },
            told.text(format!(", where {} right at {point}", is_right(right)))
                .then(lateness(history, &effects))
                .then(by_proxy(history, &effects)),
            seqs(&effects),
        );
    } else if !history.window_a_is_over() {
        findings.unproven(
            Code::TrialNoEvidence,
            told.text(" up to where the journal ends"),
            seqs(&effects),
        );
    } else if right.allows(n) {
        findings.held(
            told.text(format!(" ({} right at {point})", is_right(right))),
            seqs(&effects).into_iter().chain(watched(history)),
        );
    } else {
        findings.broken(
            Code::EffectsMissing,
            told.text(format!(", where {} right at {point}", is_right(right))),
            seqs(&effects).into_iter().chain(watched(history)),
        );
    }
    against_decision(history, &effects, &mut findings);
    beside::own_effect(history, &mut findings);
    findings
}

/// An effect that was applied when the last decision that was told about the call was a refusal.
fn against_decision(history: &History<'_>, effects: &[&Effect<'_>], findings: &mut Findings) {
    let window = history.window_a();
    let decided = history.within(window).filter_map(|seen| match seen.event {
        Event::Decided { approved, .. } => Some((seen, *approved)),
        _ => None,
    });
    let Some((refused, false)) = decided.last() else {
        return;
    };
    let later = |effect: &&&Effect<'_>| effect.seen.place > refused.place;
    let later: Vec<&Effect<'_>> = effects.iter().filter(later).copied().collect();
    if !later.is_empty() {
        findings.broken(
            Code::EffectsAgainstDecision,
            say(format!(
                "the remote applied {} after the approval of this call had been refused",
                counted(later.len(), "effect", "effects")
            )),
            std::iter::once(refused.seq).chain(seqs(&later)),
        );
    }
}

/// How many effects are right at this trial's crash point.
pub(super) fn right_count(history: &History<'_>, expected: &BTreeMap<CrashPoint, Count>) -> Count {
    let named = expected.get(&history.moment()).copied();
    named.unwrap_or_else(|| by_default(history))
}

/// What is right where the drill does not say.
fn by_default(history: &History<'_>) -> Count {
    match history.moment() {
        // Nothing told the server to give up: its client only hangs, or somebody else holds its stdin open.
        CrashPoint::BeforeApproval | CrashPoint::AfterApproval | CrashPoint::BeforeDispatch
            if !history.ends_session() || history.eof_is_withheld() =>
        {
            Count::AtMost(1)
        }
        CrashPoint::Startup
        | CrashPoint::Idle
        | CrashPoint::TornCall
        | CrashPoint::BeforeApproval
        | CrashPoint::AfterApproval
        | CrashPoint::BeforeDispatch => Count::Exactly(0),
        CrashPoint::CallUnread | CrashPoint::CallWritten | CrashPoint::Sent => Count::AtMost(1),
        CrashPoint::Syscall | CrashPoint::Boundary | CrashPoint::Every => by_course(history),
        CrashPoint::AfterAcceptance
        | CrashPoint::TornReply
        | CrashPoint::AfterReply
        | CrashPoint::AfterResult => Count::Exactly(1),
    }
}

/// What is right at a moment that has no name: what had been applied by then stays, and what had not been may come.
fn by_course(history: &History<'_>) -> Count {
    let crash = history.crash_fired().map_or(usize::MAX, |seen| seen.place);
    let before = Window {
        from: history.window_a().from,
        to: crash,
    };
    if history.ledger.effects_in(before).is_empty() {
        Count::AtMost(1)
    } else {
        Count::Exactly(1)
    }
}

fn is_right(count: Count) -> String {
    match count {
        Count::Exactly(0) => "none is".to_owned(),
        Count::Exactly(n) => format!("exactly {n} is"),
        Count::AtMost(n) => format!("at most {n} is"),
    }
}

/// The events that show that nothing more came.
fn watched(history: &History<'_>) -> impl Iterator<Item = u64> + use<> {
    history
        .look(Moment::End)
        .map(|look| look.seen.seq)
        .into_iter()
        .chain(history.quiet_ended().map(|seen| seen.seq))
}

/// ` (build 7 with key k, build 8 with the same key)`: ids, keys, and how the keys relate.
pub(super) fn named(effects: &[&Effect<'_>]) -> Sentence {
    if effects.is_empty() {
        return Sentence::default();
    }
    let each = effects
        .iter()
        .map(|effect| {
            let told = say(format!("{} ", effect.of)).id(effect.id);
            match effect.key {
                Some(key) => told.text(" with key ").id(key),
                None => told.text(" without a key"),
            }
        })
        .collect();
    let keys: BTreeSet<_> = effects.iter().map(|effect| effect.key).collect();
    let relation = match (effects.len(), keys.len(), keys.contains(&None)) {
        (0 | 1, ..) | (_, 1, true) => "",
        (_, 1, false) => "; one key for all",
        (all, different, _) if all == different => "; each with another key",
        _ => "; with different keys",
    };
    say(" (")
        .then(Sentence::list(each))
        .text(relation)
        .text(")")
}

/// When the effects came, where that was after the client had gone.
fn lateness(history: &History<'_>, effects: &[&Effect<'_>]) -> Sentence {
    let gone = history.client_gone().or_else(|| history.crash_fired());
    let (Some(gone), Some(last)) = (gone, effects.last()) else {
        return Sentence::default();
    };
    if last.seen.place < gone.place {
        return Sentence::default();
    }
    say("; the last one came ")
        .time(last.seen.since(gone))
        .text(" after the crash")
}

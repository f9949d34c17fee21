//! Reasons in words: one for all trials that show the same, and one sentence for it.

use super::census::within;
use super::decide::Objection;
use super::decision::{Reason, ReasonKind};
use crate::report::one_line;

/// How many names a sentence has before it says how many more there are.
const NAMED: usize = 4;

/// One reason for all trials that show the same.
pub(super) fn grouped(objections: Vec<Objection<'_>>) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    for Objection {
        rule,
        kind,
        drill,
        question,
        case,
    } in objections
    {
        let server = Some(one_line(drill));
        let same = reasons.iter_mut().find(|reason| {
            reason.kind == kind
                && reason.server == server
                && reason.question == question
                // Trials that were not run have different things missing.
                && (question.is_some() || reason.cases.iter().all(|c| c.because == case.because))
        });
        match same {
            // Another rule asks for the same.
            Some(reason) if reason.cases.iter().any(|c| c.trial == case.trial) => {}
            Some(reason) => reason.cases.push(case),
            None => reasons.push(Reason {
                kind,
                rule: Some(rule),
                server,
                question,
                because: String::new(),
                cases: vec![case],
            }),
        }
    }
    for reason in &mut reasons {
        reason.because = summed_up(reason);
    }
    reasons
}

fn summed_up(reason: &Reason) -> String {
    let server = reason.server.as_deref().unwrap_or_default();
    let moments: Vec<String> = reason
        .cases
        .iter()
        .map(|case| within(&case.trial, server).to_owned())
        .collect();
    let at = listed(&moments);
    let first = reason
        .cases
        .first()
        .map_or("", |case| case.because.as_str());
    match (reason.question, reason.kind) {
        (Some(question), ReasonKind::LeftOut) => {
            format!("the drill of {server} leaves {question} out: {first}")
        }
        (Some(question), ReasonKind::NotAsked) => {
            format!("{question} of {server} is not asked at {at}")
        }
        (Some(question), ReasonKind::Stale) => format!(
            "{question} of {server} holds at {at}, and its drill lists it as known: take it out of `known`"
        ),
        (Some(question), kind) => format!("{question} of {server} is {} at {at}", kind.word()),
        (None, ReasonKind::NotRun) => format!("{server} was not run at {at}: {first}"),
        (None, kind) => format!("{server} at {at}: {}, {first}", kind.word()),
    }
}

/// `a, b, c, d and 3 more`.
pub(super) fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let more = names.len().saturating_sub(NAMED);
    let shown = shown.join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}

/// `1 trial`, `2 trials`.
pub(super) fn trials(n: usize) -> String {
    format!("{n} trial{}", if n == 1 { "" } else { "s" })
}

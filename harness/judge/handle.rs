//! `handle`: can an effect whose outcome is unknown be found, and cancelled, with nothing but what the record holds?
//!
//! Asked only where the trial leaves such an effect, and where the remote has a route that finds or cancels its kind.
#![forbid(unsafe_code)]

use crate::journal::{Row, Session};
use crate::spec::{Lookup, Ownership, Route};

use super::code::Code;
use super::finding::{Findings, unproven};
use super::history::History;
use super::ledger::Effect;
use super::sentence::{Sentence, say};
use super::words::{self, Claim};

pub(super) fn judge(history: &History<'_>, log: &Ownership) -> Option<Findings> {
    let routes = Routes::of(history);
    let effects: Vec<_> = history
        .ledger
        .effects_in(history.window_a())
        .into_iter()
        .filter(|effect| routes.finds(effect.of).is_some() || routes.cancels(effect.of))
        .collect();
    if effects.is_empty() {
        return None;
    }
    let Some(record) = history.record_left() else {
        return Some(unproven(
            Code::TrialNoEvidence,
            say("the record was not read after the session"),
            effects.iter().map(|effect| effect.seen.seq),
        ));
    };
    if let Some(reason) = record.unreadable {
        return Some(unproven(
            Code::TrialRecordUnreadable,
            say("the record could not be read: ").text(reason),
            [record.seen.seq],
        ));
    }
    let rows = history
        .identity(Session::A)
        .map(|identity| record.rows_of(identity.call))
        .unwrap_or_default();
    let unknown: Vec<_> = effects
        .into_iter()
        .filter(|effect| !is_known(&rows, log, effect))
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let mut findings = Findings::default();
    for effect in &unknown {
        let evidence = [effect.seen.seq, record.seen.seq];
        let told = say(format!("the {} ", effect.of))
            .id(effect.id)
            .text(", whose outcome the record does not know, ");
        match way_to(&routes, &rows, effect) {
            Ok(way) => findings.held(told.text("can be ").then(way), evidence),
            Err(missing) => findings.broken(
                Code::HandleNotFindable,
                told.text("cannot be found from the record alone: ")
                    .then(missing),
                evidence,
            ),
        };
    }
    Some(findings)
}

/// Whether a row says that this effect was made.
fn is_known(rows: &[&Row], log: &Ownership, effect: &Effect<'_>) -> bool {
    rows.iter().any(|row| {
        words::claim(row, &log.outcomes) == Some(Claim::Success)
            && (log.record.effect.is_none() || row.text("effect").as_deref() == Some(effect.id))
    })
}

/// What the drill's remote offers.
struct Routes<'a>(&'a [Route]);

impl<'a> Routes<'a> {
    fn of(history: &History<'a>) -> Self {
        Self(
            history
                .drill
                .remote
                .as_ref()
                .map_or(&[], |remote| remote.routes.as_slice()),
        )
    }

    fn finds(&self, kind: &str) -> Option<&'a Route> {
        let all = || {
            self.0
                .iter()
                .filter(|route| route.find.as_deref() == Some(kind))
        };
        all()
            .find(|route| route.by.is_some())
            .or_else(|| all().next())
    }

    /// Whether the key tells the effect from others: looked up by it, or read in the list of all, which shows the keys.
    fn finds_by_key(&self, kind: &str) -> bool {
        let cancels_by_key = |route: &Route| {
            route.cancel.as_deref() == Some(kind)
                && !matches!(route.by, None | Some(Lookup::Path(_)))
        };
        self.finds(kind).is_some() || self.0.iter().any(cancels_by_key)
    }

    fn cancels(&self, kind: &str) -> bool {
        self.0
            .iter()
            .any(|route| route.cancel.as_deref() == Some(kind))
    }
}

/// How the effect is reached with what the rows hold, or what is missing.
fn way_to(routes: &Routes<'_>, rows: &[&Row], effect: &Effect<'_>) -> Result<Sentence, Sentence> {
    let holds = |field: &str, value: &str| {
        rows.iter()
            .any(|row| row.text(field).as_deref() == Some(value))
    };
    let cancelled = if routes.cancels(effect.of) {
        " and cancelled"
    } else {
        ""
    };
    if holds("effect", effect.id) {
        return Ok(say(format!(
            "found{cancelled}: the record holds the remote's id of it"
        )));
    }
    let holds_key = effect.key.is_some_and(|key| holds("key", key));
    if holds_key && routes.finds_by_key(effect.of) {
        return Ok(say(format!(
            "found{cancelled} by the key that the record holds"
        )));
    }
    Err(if rows.is_empty() {
        say("it has no row of the call")
    } else if effect.key.is_none() {
        say("it was made without a key, and no row holds the remote's id of it")
    } else if !holds_key {
        say("no row holds its key or the remote's id of it")
    } else {
        say(
            "its key is there, but the remote finds nothing by key, and no row holds the remote's id of it",
        )
    })
}

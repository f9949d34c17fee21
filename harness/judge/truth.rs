//! What became of a call, as far as the server could know it, and whether what its record says of it is true.
#![forbid(unsafe_code)]

use crate::journal::{Event, Row};
use crate::spec::{CrashPoint, Ownership};

use super::history::{History, Seen};
use super::ledger::Effect;
use super::next;
use super::sentence::{Sentence, counted, say};
use super::words::Claim;

/// What became of the call, as far as the server could know it.
pub(super) struct Truth<'h, 'a> {
    effects: Vec<&'h Effect<'a>>,
    /// Those that still stand: the server may have cancelled what it could not account for.
    standing: usize,
    /// The reply to one of them was delivered while the server lived.
    delivered: Option<Seen<'a>>,
    /// The remote told of them all the same: by a part of the reply, or by the answer to a search for them.
    told: Option<Seen<'a>>,
    /// The status with which the remote turned the request away.
    turned_away: Option<u16>,
}

impl<'h, 'a> Truth<'h, 'a> {
    pub(super) fn of(history: &'h History<'a>, ended: Seen<'_>) -> Self {
        let window = history.window_a();
        let effects = history.ledger.effects_in(window);
        let repeated = history.within(window).filter_map(|seen| match seen.event {
            Event::EffectRepeated { request, .. } => Some(*request),
            _ => None,
        });
        let delivered = effects
            .iter()
            .map(|effect| effect.request)
            .chain(repeated)
            .find_map(|request| history.reply_before(request, ended.place));
        let cancelled = |effect: &&Effect<'_>| {
            let mut cancelled = history.ledger.cancelled.iter();
            cancelled.any(|c| window.contains(c.seen.place) && c.effect == effect.id)
        };
        let standing = effects.iter().filter(|effect| !cancelled(effect)).count();
        let in_part = effects.iter().find_map(|effect| {
            let request = history.ledger.request(effect.request)?;
            request.fate.in_part.then_some(request.seen)
        });
        let found = || {
            let mut requests = history.ledger.requests_in(window);
            requests.find_map(|request| {
                let answered = history.reply_before(request.number, ended.place)?;
                let after = |effect: &&Effect<'_>| effect.seen.place < request.seen.place;
                let is_search = history.finds(request) && request.refused.is_none();
                (is_search && effects.iter().any(after)).then_some(answered)
            })
        };
        Self {
            told: in_part.or_else(found),
            turned_away: history
                .ledger
                .requests_in(window)
                .find_map(|request| request.fate.turned_away),
            effects,
            standing,
            delivered,
        }
    }

    pub(super) fn evidence(&self) -> Vec<u64> {
        let effects = self.effects.iter().map(|effect| effect.seen.seq);
        effects.chain(self.delivered.map(|seen| seen.seq)).collect()
    }

    pub(super) fn told(&self, history: &History<'_>) -> Sentence {
        match (self.effects.is_empty(), self.delivered, self.turned_away) {
            (true, ..) if !history.makes_effects() => say("no remote can tell otherwise"),
            (true, _, Some(status)) => say(format!(
                "the remote turned the request away with {status}, and applied nothing"
            )),
            (true, _, None) => say("the remote applied nothing"),
            (false, Some(_), _) => say("the remote's reply had been delivered"),
            (false, None, _) => next::instead(history, &self.effects),
        }
    }

    /// Why this claim is not true, if it is not.
    pub(super) fn lie(
        &self,
        history: &History<'_>,
        log: &Ownership,
        row: &Row,
        claim: Claim,
    ) -> Option<Sentence> {
        let point = history.moment();
        let is_named = || {
            let id = row.text("effect").filter(|id| !id.is_empty());
            id.map(|id| self.effects.iter().any(|effect| effect.id == id))
        };
        match claim {
            // What a server without a remote does, nobody but itself can see.
            Claim::Success if !history.makes_effects() => None,
            Claim::Success if self.effects.is_empty() => {
                Some(say("but the remote applied nothing"))
            }
            // Half of a reply may have told the id, and so may the answer to a search; a row that names it is true.
            Claim::Success
                if self.delivered.is_none()
                    && !(self.told.is_some() && is_named() == Some(true)) =>
            {
                let instead = next::instead(history, &self.effects);
                Some(say("but ").then(instead).text(": nobody could know"))
            }
            Claim::Success if log.record.effect.is_some() => match is_named() {
                None => Some(say("without the remote's id of the effect")),
                Some(false) => Some(say("and names another effect than the remote made")),
                Some(true) => None,
            },
            // Also after a 500. It says that something went wrong, and not that nothing was done (RFC 9110, 15.6.1): whoever
            // reads "failed" does not look for the effect that is there, which is what the record is for. After a 503 or a
            // 429 nothing stands, so "failed" is the truth, and "unknown" no lie: who gave the answer, nobody can see.
            Claim::Failed | Claim::Refused if self.standing > 0 => Some(say(format!(
                "but the remote applied {}",
                counted(self.standing, "effect", "effects")
            ))),
            Claim::Unknown if point == CrashPoint::AfterResult && self.delivered.is_some() => {
                Some(say("but the server had given the result to its client"))
            }
            Claim::Success | Claim::Failed | Claim::Refused | Claim::Unknown | Claim::Intended => {
                None
            }
        }
    }
}

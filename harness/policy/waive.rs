//! Waivers: what each excuses, until when, and whether it is still needed.
//!
//! A waiver excuses an answer, never missing evidence: a trial that failed or was not run says nothing that anybody could
//! answer for.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::census::{Census, within};
use super::decide::{Objection, unfit};
use super::decision::{Case, Reason, ReasonKind, Waived};
use super::model::{At, Waiver};
use super::spans::{Date, spell_days};
use super::words::listed;
use crate::judge::Verdict;
use crate::report::one_line;

/// The waivers of a policy on one day.
pub(super) struct Waivers<'p> {
    all: Vec<Used<'p>>,
    today: Date,
}

struct Used<'p> {
    waiver: &'p Waiver,
    /// What it excuses, or would if it had not ended.
    cases: Vec<Case>,
    /// Those of its moments that need it.
    needed_at: BTreeSet<&'p At>,
}

impl<'p> Waivers<'p> {
    pub fn of(waivers: &'p [Waiver], now: Timestamp) -> Self {
        let unused = |waiver| Used {
            waiver,
            cases: Vec::new(),
            needed_at: BTreeSet::new(),
        };
        Self {
            all: waivers.iter().map(unused).collect(),
            today: Date::of(now),
        }
    }

    /// Whether a waiver that lasts excuses it.
    pub fn excuse(&mut self, objection: &Objection<'_>) -> bool {
        let Some(question) = objection.question else {
            return false;
        };
        // A waiver excuses what does not hold, never a drill that is out of date.
        if objection.kind == ReasonKind::Stale {
            return false;
        }
        let moment = within(&objection.case.trial, objection.drill);
        let mut is_excused = false;
        for used in &mut self.all {
            let waiver = used.waiver;
            if waiver.question != question || !waiver.server.matches(objection.drill) {
                continue;
            }
            let named: Vec<&At> = waiver.at.iter().filter(|at| at.matches(moment)).collect();
            if named.is_empty() && !waiver.at.is_empty() {
                continue;
            }
            used.needed_at.extend(named);
            if used.cases.iter().all(|c| c.trial != objection.case.trial) {
                used.cases.push(objection.case.clone());
            }
            is_excused |= waiver.until >= self.today;
        }
        is_excused
    }

    /// The waivers that last, and the reasons that the others are.
    pub fn report(self, census: &Census<'_>, scope: &BTreeSet<&str>) -> (Vec<Waived>, Vec<Reason>) {
        let today = self.today;
        let mut lasting = Vec::new();
        let mut reasons = Vec::new();
        let mut before: Vec<&Waiver> = Vec::new();
        for used in self.all {
            let waiver = used.waiver;
            let days_left = waiver.until.days_after(today);
            if days_left < 0 {
                let because = format!(
                    "the waiver of {} ended on {}, {} ago ({}: {})",
                    spell(waiver),
                    waiver.until,
                    spell_days(-days_left),
                    one_line(&waiver.owner),
                    one_line(&waiver.reason),
                );
                reasons.push(reason(ReasonKind::WaiverEnded, waiver, because));
                continue;
            }
            if before.iter().any(|other| is_for_the_same(other, waiver)) {
                let because = format!(
                    "the waiver of {} is not needed: one before it is for the same; take it out ({})",
                    spell(waiver),
                    one_line(&waiver.owner),
                );
                reasons.push(reason(ReasonKind::WaiverUnneeded, waiver, because));
                continue;
            }
            before.push(waiver);
            let unneeded = used.unneeded(census, scope);
            if !unneeded.is_empty() {
                let because = format!(
                    "the waiver of {} is not needed: {}; take it out ({})",
                    spell(waiver),
                    unneeded.join("; "),
                    one_line(&waiver.owner),
                );
                reasons.push(reason(ReasonKind::WaiverUnneeded, waiver, because));
            }
            if !used.cases.is_empty() {
                lasting.push(Waived {
                    question: waiver.question,
                    server: waiver.server.to_string(),
                    reason: one_line(&waiver.reason),
                    owner: one_line(&waiver.owner),
                    until: waiver.until,
                    days_left,
                    cases: used.cases,
                });
            }
        }
        (lasting, reasons)
    }
}

impl Used<'_> {
    /// Where it excuses nothing, and why: for each moment that it names, or as a whole.
    fn unneeded(&self, census: &Census<'_>, scope: &BTreeSet<&str>) -> Vec<String> {
        let waiver = self.waiver;
        if waiver.at.is_empty() {
            let because = self
                .cases
                .is_empty()
                .then(|| self.why_unneeded(None, census, scope));
            return because.flatten().into_iter().collect();
        }
        let without = waiver.at.iter().filter(|at| !self.needed_at.contains(at));
        without
            .filter_map(|at| self.why_unneeded(Some(at), census, scope))
            .collect()
    }

    /// Nothing, where a trial that it is about says nothing: whether it is needed is not known then.
    fn why_unneeded(
        &self,
        at: Option<&At>,
        census: &Census<'_>,
        scope: &BTreeSet<&str>,
    ) -> Option<String> {
        let waiver = self.waiver;
        let there = at.map_or_else(String::new, |at| format!(" at {at}"));
        let drills = census.drills.iter().copied();
        let drills: BTreeSet<&str> = drills.filter(|d| waiver.server.matches(d)).collect();
        if drills.is_empty() {
            return Some(format!("no bundle has a drill {}", waiver.server));
        }
        let meant = census.trials.iter().filter(|(trial, sighted)| {
            let moment = within(trial, sighted.drill);
            drills.contains(sighted.drill) && at.is_none_or(|at| at.matches(moment))
        });
        let meant: Vec<_> = meant.collect();
        if meant.is_empty() {
            return Some(format!("there is no trial{there}"));
        }
        if !meant.iter().any(|(trial, _)| scope.contains(*trial)) {
            return Some(format!("no rule asks for it{there}"));
        }
        let mut verdicts = Vec::new();
        for (_, sighted) in meant {
            let result = sighted.counts().map(|(_, result)| result);
            let result = result.filter(|result| unfit(result).is_none())?;
            let mut answers = result.answers.iter();
            verdicts.extend(
                answers
                    .find(|a| a.question == waiver.question)
                    .map(|a| a.verdict),
            );
        }
        Some(if verdicts.is_empty() {
            format!("{} is not asked{there}", waiver.question)
        } else if verdicts.iter().all(|verdict| *verdict == Verdict::Held) {
            format!("{} holds now{there}", waiver.question)
        } else {
            format!("no rule objects{there}")
        })
    }
}

/// Whether two waivers excuse exactly the same.
fn is_for_the_same(a: &Waiver, b: &Waiver) -> bool {
    let moments = |waiver: &Waiver| waiver.at.iter().cloned().collect::<BTreeSet<At>>();
    a.question == b.question && a.server == b.server && moments(a) == moments(b)
}

/// `eof of mcp-outline at idle`.
fn spell(waiver: &Waiver) -> String {
    let at: Vec<String> = waiver.at.iter().map(ToString::to_string).collect();
    let at = if at.is_empty() {
        String::new()
    } else {
        format!(" at {}", listed(&at))
    };
    format!("{} of {}{at}", waiver.question, waiver.server)
}

fn reason(kind: ReasonKind, waiver: &Waiver, because: String) -> Reason {
    Reason {
        kind,
        rule: None,
        server: Some(waiver.server.to_string()),
        question: Some(waiver.question),
        because,
        cases: Vec::new(),
    }
}

//! Every trial that any of the bundles knows of, and the bundle that counts for it: the newest that carried it out.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::Evidence;
use crate::report::{TrialResult, TrialVerdict};

/// Why a bundle has no result of a trial that it does not explain.
const NO_RESULT: &str = "the bundle has no result of it";

/// All drills and trials of some bundles.
#[derive(Debug, Default)]
pub(super) struct Census<'e> {
    pub drills: BTreeSet<&'e str>,
    /// By name.
    pub trials: BTreeMap<&'e str, Sighted<'e>>,
    /// Drills whose file could not be read, with the reason.
    pub unread: BTreeMap<&'e str, &'e str>,
}

/// A trial, as the bundles know it.
#[derive(Debug)]
pub(super) struct Sighted<'e> {
    pub drill: &'e str,
    /// The bundles that carried it out, the newest first.
    pub carried_out: Vec<(&'e Evidence, &'e TrialResult)>,
    /// The bundles that know of it and did not, with the reason, the newest first.
    pub not_run: Vec<(&'e Evidence, &'e str)>,
}

impl<'e> Census<'e> {
    /// `evidence` has the newest bundle first.
    pub fn of(evidence: &[&'e Evidence]) -> Self {
        let mut census = Self::default();
        for evidence in evidence.iter().copied() {
            census.drills.extend(
                evidence
                    .facts
                    .drills
                    .iter()
                    .map(|drill| drill.drill.as_str()),
            );
            let mut results: BTreeMap<&str, &TrialResult> = BTreeMap::new();
            for result in &evidence.results.trials {
                results.insert(&result.name, result);
                census
                    .sighted(&result.name, &result.drill)
                    .saw(evidence, result);
            }
            for known in &evidence.facts.population {
                census.drills.insert(&known.drill);
                let Some(trial) = &known.trial else {
                    let because = known.not_run.as_deref().unwrap_or(NO_RESULT);
                    census.unread.insert(&known.drill, because);
                    continue;
                };
                if !results.contains_key(trial.as_str()) {
                    let because = known.not_run.as_deref().unwrap_or(NO_RESULT);
                    let sighted = census.sighted(trial, &known.drill);
                    sighted.not_run.push((evidence, because));
                }
            }
        }
        census
    }

    fn sighted(&mut self, trial: &'e str, drill: &'e str) -> &mut Sighted<'e> {
        self.drills.insert(drill);
        self.trials.entry(trial).or_insert_with(|| Sighted {
            drill,
            carried_out: Vec::new(),
            not_run: Vec::new(),
        })
    }

    /// The trials of a drill, by name.
    pub fn of_drill(&self, drill: &str) -> impl Iterator<Item = (&'e str, &Sighted<'e>)> {
        self.trials
            .iter()
            .filter(move |(_, sighted)| sighted.drill == drill)
            .map(|(name, sighted)| (*name, sighted))
    }
}

impl<'e> Sighted<'e> {
    fn saw(&mut self, evidence: &'e Evidence, result: &'e TrialResult) {
        if result.verdict == TrialVerdict::Ignored {
            let because = result.reason.as_deref().unwrap_or(NO_RESULT);
            self.not_run.push((evidence, because));
        } else {
            self.carried_out.push((evidence, result));
        }
    }

    /// What counts: the newest bundle that carried it out.
    pub fn counts(&self) -> Option<(&'e Evidence, &'e TrialResult)> {
        self.carried_out.first().copied()
    }
}

/// `after-acceptance::reply-given` of `deploy::after-acceptance::reply-given`.
pub(super) fn within<'t>(trial: &'t str, drill: &str) -> &'t str {
    let within = trial.strip_prefix(drill);
    within
        .and_then(|rest| rest.strip_prefix("::"))
        .unwrap_or(trial)
}

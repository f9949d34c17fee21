//! What a decision says of the bundles: whether they can be believed, how old they are, of which builds, and which of them
//! count.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use super::census::{Sighted, within};
use super::decide::{Deciding, drill_of};
use super::decision::{Considered, ReasonKind};
use super::evidence::Evidence;
use super::model::Rule;
use super::spans::spell;
use super::words::{listed, trials};
use crate::report::{ServerFacts, TrialVerdict, one_line};

/// Clocks of two machines may differ by so much before a date counts as one of the future.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

impl<'e> Deciding<'_, 'e> {
    /// Whether each bundle can be believed at all.
    pub(super) fn bundles(&mut self) {
        for evidence in self.evidence.clone() {
            let run = one_line(&evidence.run);
            for finding in &evidence.findings {
                let because = format!("run {run}: {}", one_line(finding));
                self.reason(ReasonKind::Altered, because);
            }
            let terms = &self.policy.evidence;
            if !terms.signed_by.is_empty() && evidence.signers.is_empty() {
                let because = format!(
                    "run {run} is signed by none of {}: {}",
                    one_line(&terms.signed_by.join(", ")),
                    one_line(&evidence.unsigned)
                );
                self.reason(ReasonKind::Unsigned, because);
            }
            if terms.signed_by.is_empty() && !evidence.is_signed {
                self.note(format!(
                    "run {run} is not signed, and the policy names no key in `signed_by`"
                ));
            }
            if let (true, Some(because)) = (terms.complete, &evidence.incomplete) {
                let because = format!("run {run} is incomplete: {}", one_line(because));
                self.reason(ReasonKind::Incomplete, because);
            }
        }
    }

    /// Trials of the last release that none of the bundles knows, although a rule would ask for them.
    pub(super) fn known_only_before(&mut self) {
        let Some(before) = &self.before else {
            return;
        };
        let is_asked = |trial: &str, sighted: &Sighted<'_>| {
            let moment = within(trial, sighted.drill);
            let meant = |rule: &Rule| {
                rule.servers
                    .iter()
                    .any(|pattern| pattern.matches(sighted.drill))
                    && (rule.at.is_empty() || rule.at.iter().any(|at| at.matches(moment)))
            };
            self.policy.rules.iter().any(meant)
        };
        let gone: Vec<String> = before
            .trials
            .iter()
            .filter(|(trial, _)| !self.census.trials.contains_key(*trial))
            .filter(|(trial, sighted)| sighted.counts().is_some() && is_asked(trial, sighted))
            .map(|(trial, _)| one_line(trial))
            .collect();
        if !gone.is_empty() {
            self.note(format!(
                "drilled in the last release, and in none of these bundles: {}",
                listed(&gone)
            ));
        }
    }

    /// The trials in scope for which each bundle counts, and those that it has and that a newer one has as well.
    pub(super) fn shares(&self) -> Vec<(&'e Evidence, usize, usize)> {
        let share = |evidence: &'e Evidence| {
            let mut counts = 0;
            let mut superseded = 0;
            for trial in &self.scope {
                let carried_out = &self.census.trials[trial].carried_out;
                match carried_out
                    .iter()
                    .position(|(e, _)| std::ptr::eq(*e, evidence))
                {
                    Some(0) => counts += 1,
                    Some(_) => superseded += 1,
                    None => {}
                }
            }
            (evidence, counts, superseded)
        };
        self.evidence.iter().copied().map(share).collect()
    }

    /// Whether the bundles that count are young enough.
    pub(super) fn ages(&mut self) {
        for (evidence, counts, _) in self.shares() {
            if counts == 0 {
                continue;
            }
            let run = one_line(&evidence.run);
            let most = self.policy.evidence.max_age.as_ref();
            let because = match (evidence.started, most) {
                _ if evidence.finished.is_none() => format!("run {run} did not end"),
                (None, _) => format!("run {run} does not say when it began"),
                (Some(started), _) if started > self.now + SKEW => {
                    format!("run {run} is dated {started}, which is in the future")
                }
                (Some(started), Some(most)) => {
                    let age = self.now.duration_since(started);
                    if age <= most.duration() {
                        continue;
                    }
                    let age = spell(age);
                    format!("run {run} began {age} ago, and the policy takes {most}")
                }
                (Some(_), None) => continue,
            };
            self.reason(ReasonKind::Old, because);
        }
    }

    /// Whether one build of each server was drilled.
    pub(super) fn builds(&mut self) {
        let mut drills: BTreeMap<&str, Builds<'e>> = BTreeMap::new();
        for trial in &self.scope {
            let sighted = &self.census.trials[trial];
            for (n, (evidence, _)) in sighted.carried_out.iter().enumerate() {
                let Some(facts) = drill_of(evidence, sighted.drill) else {
                    continue;
                };
                let builds = drills.entry(sighted.drill).or_default();
                if n == 0 {
                    builds.files.insert(&facts.sha256);
                }
                let builds = if n == 0 {
                    &mut builds.counting
                } else {
                    &mut builds.older
                };
                if !builds
                    .iter()
                    .any(|(_, seen)| is_same_build(seen, &facts.server))
                {
                    builds.push((&evidence.run, &facts.server));
                }
            }
        }
        for (drill, builds) in drills {
            if builds.files.len() > 1 {
                let drill = one_line(drill);
                self.note(format!(
                    "the trials of {drill} ran by several versions of its drill file"
                ));
            }
            let runs: Vec<String> = builds
                .counting
                .iter()
                .map(|(run, _)| one_line(run))
                .collect();
            let drill = one_line(drill);
            if runs.len() > 1 {
                let because = format!(
                    "the trials of {drill} ran on {} builds of its server, as the runs {} have it",
                    runs.len(),
                    listed(&runs)
                );
                if self.policy.evidence.same_build {
                    self.reason(ReasonKind::SeveralBuilds, because);
                } else {
                    self.note(because);
                }
            } else if let Some((_, counting)) = builds.counting.first()
                && let Some((older, _)) = builds
                    .older
                    .iter()
                    .find(|(_, older)| !is_same_build(older, counting))
            {
                let older = one_line(older);
                self.note(format!(
                    "{drill}: run {older} was of another build of its server"
                ));
            }
        }
    }

    /// Which bundles are partly out of date.
    pub(super) fn superseded(&mut self) {
        for (evidence, _, superseded) in self.shares() {
            if superseded > 0 {
                let run = one_line(&evidence.run);
                let trials = trials(superseded);
                let worse = self.worse_in(evidence);
                let worse = match worse.len() {
                    0 => String::new(),
                    1 => format!("; it was worse in this one: {}", listed(&worse)),
                    _ => format!("; they were worse in this one: {}", listed(&worse)),
                };
                self.note(format!(
                    "run {run}: a newer run counts for {trials} of it{worse}"
                ));
            }
        }
    }

    /// The trials for which a newer bundle counts that says better of them than this one.
    fn worse_in(&self, evidence: &Evidence) -> Vec<String> {
        let in_scope = self.scope.iter().map(|trial| &self.census.trials[trial]);
        let worse = in_scope.filter_map(|sighted| {
            let (_, counts) = sighted.counts()?;
            let mut all = sighted.carried_out.iter();
            let (_, here) = all.find(|(of, _)| std::ptr::eq(*of, evidence))?;
            let is_worse = gravity(here.verdict) > gravity(counts.verdict);
            is_worse.then(|| format!("{} ({})", one_line(&here.name), here.verdict))
        });
        worse.collect()
    }

    /// How far the bundle of the last release can be believed.
    pub(super) fn last_release(&mut self, baseline: &Evidence) {
        let run = one_line(&baseline.run);
        if let Some(finding) = baseline.findings.first() {
            let finding = one_line(finding);
            self.note(format!(
                "run {run} of the last release is not as it was written: {finding}"
            ));
        }
        if !self.policy.evidence.signed_by.is_empty() && baseline.signers.is_empty() {
            let because = one_line(&baseline.unsigned);
            self.note(format!("run {run} of the last release: {because}"));
        }
    }
}

/// The builds of a server, each with the run that drilled it.
#[derive(Default)]
struct Builds<'e> {
    counting: Vec<(&'e str, &'e ServerFacts)>,
    older: Vec<(&'e str, &'e ServerFacts)>,
    /// Digests of the drill's file, as those that count have it.
    files: BTreeSet<&'e str>,
}

/// Orders verdicts from best to worst.
fn gravity(verdict: TrialVerdict) -> u8 {
    match verdict {
        TrialVerdict::Held => 0,
        TrialVerdict::Ignored => 1,
        TrialVerdict::Unproven => 2,
        TrialVerdict::Broken => 3,
        TrialVerdict::Error => 4,
    }
}

/// What is not known differs from nothing.
fn is_same_build(a: &ServerFacts, b: &ServerFacts) -> bool {
    let files = a.files.is_empty() || b.files.is_empty() || a.files == b.files;
    let packages = a.packages.is_empty() || b.packages.is_empty() || a.packages == b.packages;
    files && packages
}

pub(super) fn considered_as(evidence: &Evidence, trials: usize) -> Considered {
    Considered {
        run: one_line(&evidence.run),
        folder: one_line(&evidence.folder),
        manifest_sha256: evidence.manifest_sha256.clone(),
        started: evidence.started.map(|started| started.to_string()),
        finished: evidence.finished.map(|finished| finished.to_string()),
        signers: evidence.signers.iter().map(|name| one_line(name)).collect(),
        trials,
        findings: evidence.findings.iter().map(|f| one_line(f)).collect(),
    }
}

//! The decision: a pure function of the policy, the evidence and the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::bundles::considered_as;
use super::census::{Census, Sighted, within};
use super::decision::{Asked, Before, Case, Decision, Outcome, Reason, ReasonKind};
use super::evidence::Evidence;
use super::model::{At, KnownAnswers, Policy, Rule};
use super::waive::Waivers;
use super::words::{grouped, listed};
use crate::judge::{Answer, Verdict};
use crate::report::{DrillFacts, Tool, TrialResult, TrialVerdict, one_line};
use crate::spec::{Question, did_you_mean, nearest};

/// Decides whether the evidence meets the policy now. `baseline` is the bundle of the last release: it takes part in no
/// reason, and says how what is broken stood then.
#[must_use]
pub fn decide(
    policy: &Policy,
    evidence: &[Evidence],
    baseline: Option<&Evidence>,
    now: Timestamp,
) -> Decision {
    let mut newest_first: Vec<&Evidence> = evidence.iter().collect();
    newest_first.sort_by(|a, b| b.age_order().cmp(&a.age_order()));
    newest_first.dedup_by(|a, b| a.is_same(b));
    let mut deciding = Deciding {
        policy,
        census: Census::of(&newest_first),
        evidence: newest_first,
        before: baseline.map(|baseline| Census::of(&[baseline])),
        now,
        reasons: Vec::new(),
        objections: Vec::new(),
        notes: Vec::new(),
        rules: Vec::new(),
        accepted: BTreeMap::new(),
        scope: BTreeSet::new(),
    };
    deciding.bundles();
    for (n, rule) in (1..).zip(&policy.rules) {
        deciding.rule(n, rule);
    }
    deciding.accepted();
    deciding.known_only_before();
    deciding.ages();
    deciding.builds();
    deciding.superseded();
    if let Some(baseline) = baseline {
        deciding.last_release(baseline);
    }
    deciding.decided(baseline)
}

/// Something that a rule asks for, and that the evidence does not show.
#[derive(Debug, Clone)]
pub(super) struct Objection<'e> {
    /// From 1.
    pub rule: usize,
    pub kind: ReasonKind,
    pub drill: &'e str,
    /// Absent where it is about a trial as a whole.
    pub question: Option<Question>,
    pub case: Case,
}

/// A decision that is being made.
pub(super) struct Deciding<'p, 'e> {
    pub policy: &'p Policy,
    /// The newest first.
    pub evidence: Vec<&'e Evidence>,
    pub census: Census<'e>,
    /// The last release.
    pub before: Option<Census<'e>>,
    pub now: Timestamp,
    pub reasons: Vec<Reason>,
    pub objections: Vec<Objection<'e>>,
    pub notes: Vec<String>,
    pub rules: Vec<Asked>,
    /// What is known to be broken and accepted, by drill and question: at which moments.
    pub accepted: BTreeMap<(&'e str, Question), BTreeSet<String>>,
    /// The trials that some rule asks for.
    pub scope: BTreeSet<&'e str>,
}

impl<'e> Deciding<'_, 'e> {
    pub(super) fn reason(&mut self, kind: ReasonKind, because: String) {
        self.reasons.push(Reason {
            kind,
            rule: None,
            server: None,
            question: None,
            because,
            cases: Vec::new(),
        });
    }

    fn rule(&mut self, n: usize, rule: &Rule) {
        let mut asked = Asked {
            servers: Vec::new(),
            trials: 0,
            held: 0,
            known: 0,
            waived: 0,
            unmet: 0,
            does_not_arise: 0,
        };
        let mut drills: BTreeSet<&'e str> = BTreeSet::new();
        for pattern in &rule.servers {
            let found = self.census.drills.iter().copied();
            let found: Vec<&str> = found.filter(|drill| pattern.matches(drill)).collect();
            if found.is_empty() {
                let known = self.census.drills.iter().copied();
                let guess = did_you_mean(nearest(&pattern.0, known));
                let because = format!("no bundle has a drill {pattern}{}", one_line(&guess));
                self.missing(n, None, because);
                asked.unmet += 1;
            }
            drills.extend(found);
        }
        for drill in drills {
            asked.servers.push(one_line(drill));
            self.drill(n, rule, drill, &mut asked);
        }
        self.rules.push(asked);
    }

    fn missing(&mut self, rule: usize, server: Option<&str>, because: String) {
        self.reasons.push(Reason {
            kind: ReasonKind::Missing,
            rule: Some(rule),
            server: server.map(one_line),
            question: None,
            because,
            cases: Vec::new(),
        });
    }

    fn drill(&mut self, n: usize, rule: &Rule, drill: &'e str, asked: &mut Asked) {
        let name = one_line(drill);
        if let Some(because) = self.census.unread.get(drill) {
            let because = format!("the drill {name} could not be read: {}", one_line(because));
            self.missing(n, Some(drill), because);
            asked.unmet += 1;
        }
        let is_meant = |trial: &str| {
            let within = within(trial, drill);
            rule.at.is_empty() || rule.at.iter().any(|at| at.matches(within))
        };
        for at in &rule.at {
            let is_there = self
                .census
                .of_drill(drill)
                .any(|(trial, _)| at.matches(within(trial, drill)));
            if !is_there {
                let because = format!("{name} has no trial at {at}{}", self.guess(drill, at));
                self.missing(n, Some(drill), because);
                asked.unmet += 1;
            }
        }
        let mut carried_out = Vec::new();
        let mut not_run = Vec::new();
        let mut count = 0;
        for (trial, sighted) in self.census.of_drill(drill).filter(|(t, _)| is_meant(t)) {
            self.scope.insert(trial);
            count += 1;
            match (sighted.counts(), sighted.not_run.first()) {
                (Some((evidence, result)), _) => carried_out.push((evidence, result)),
                (None, Some((evidence, because))) => not_run.push((trial, *evidence, *because)),
                (None, None) => {}
            }
        }
        if count == 0 && rule.at.is_empty() && !self.census.unread.contains_key(drill) {
            let because = format!("no bundle has a trial of {name}");
            self.missing(n, Some(drill), because);
            asked.unmet += 1;
        }
        asked.trials += count;
        carried_out.sort_by_key(|(_, result)| (result.crash_point, &result.name));
        for (trial, evidence, because) in not_run {
            let case = self.case(evidence, trial, None, because);
            self.object(n, ReasonKind::NotRun, drill, None, case);
        }
        let mut whole = Vec::new();
        for (evidence, result) in carried_out {
            match unfit(result) {
                Some((kind, because)) => {
                    let mut case = self.case(evidence, &result.name, None, &because);
                    case.folder = result.bundle.as_deref().map(one_line);
                    self.object(n, kind, drill, None, case);
                }
                None => whole.push((evidence, result)),
            }
        }
        self.questions(n, rule, drill, &whole, asked);
    }

    /// What was probably meant by a moment at which the drill has no trial.
    fn guess(&self, drill: &str, at: &At) -> String {
        let names = self.census.of_drill(drill);
        let names: BTreeSet<&str> = names
            .flat_map(|(trial, _)| within(trial, drill).split("::"))
            .collect();
        one_line(&did_you_mean(nearest(&at.0, names)))
    }

    /// The answers of trials of one drill that were carried out.
    fn questions(
        &mut self,
        n: usize,
        rule: &Rule,
        drill: &'e str,
        trials: &[(&'e Evidence, &'e TrialResult)],
        asked: &mut Asked,
    ) {
        for (evidence, result) in trials {
            let named = if rule.questions.is_empty() {
                for skipped in &result.skipped {
                    self.note(format!(
                        "the drill of {} leaves {} out: {}",
                        one_line(drill),
                        skipped.question,
                        one_line(&skipped.reason)
                    ));
                }
                result.answers.iter().map(|a| a.question).collect()
            } else {
                rule.questions.clone()
            };
            for question in named {
                let Some(answer) = answer_to(question, result) else {
                    let arises = trials.iter().any(|(other, result)| {
                        answer_to(question, result).is_some()
                            && is_same_drill(other, evidence, drill)
                    });
                    let skipped = result.skipped.iter().find(|s| s.question == question);
                    let (kind, because) = match skipped {
                        Some(skipped) => (ReasonKind::LeftOut, skipped.reason.as_str()),
                        // The drill asks it, and this trial is at a moment at which it does not arise.
                        None if arises => {
                            asked.does_not_arise += 1;
                            continue;
                        }
                        None => (ReasonKind::NotAsked, "the drill does not ask it"),
                    };
                    let case = self.case(evidence, &result.name, Some(question), because);
                    self.object(n, kind, drill, Some(question), case);
                    continue;
                };
                let kind = match answer.verdict {
                    Verdict::Held if result.stale_known.contains(&question) => ReasonKind::Stale,
                    Verdict::Held => {
                        asked.held += 1;
                        continue;
                    }
                    Verdict::Error => ReasonKind::Error,
                    _ if answer.known && rule.known == KnownAnswers::Accept => {
                        asked.known += 1;
                        let accepted = self.accepted.entry((drill, question)).or_default();
                        accepted.insert(one_line(within(&result.name, drill)));
                        continue;
                    }
                    _ if answer.known => ReasonKind::Known,
                    Verdict::Unproven => ReasonKind::Unproven,
                    Verdict::Broken => ReasonKind::Broken,
                };
                let mut sentence = result.sentence_of(answer);
                if let Some(because) = known_because(evidence, drill, question)
                    && answer.known
                {
                    sentence = format!("{sentence}; known: {because}");
                }
                let mut case = self.case(evidence, &result.name, Some(question), &sentence);
                case.folder = result.bundle_of(answer).as_deref().map(one_line);
                case.events.clone_from(&answer.evidence);
                self.object(n, kind, drill, Some(question), case);
            }
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn object(
        &mut self,
        rule: usize,
        kind: ReasonKind,
        drill: &'e str,
        question: Option<Question>,
        case: Case,
    ) {
        self.objections.push(Objection {
            rule,
            kind,
            drill,
            question,
            case,
        });
    }

    fn case(
        &self,
        evidence: &Evidence,
        trial: &str,
        question: Option<Question>,
        because: &str,
    ) -> Case {
        Case {
            trial: one_line(trial),
            run: one_line(&evidence.run),
            because: one_line(because),
            folder: None,
            events: Vec::new(),
            before: self
                .before
                .as_ref()
                .map(|before| stood(before, trial, question)),
        }
    }

    /// What a rule lets pass because its drill lists it as known.
    fn accepted(&mut self) {
        for ((drill, question), moments) in std::mem::take(&mut self.accepted) {
            let mut evidence = self.evidence.iter();
            let because = evidence.find_map(|e| known_because(e, drill, question));
            let because = because.map(|because| format!(": {}", one_line(because)));
            let moments: Vec<String> = moments.into_iter().collect();
            self.note(format!(
                "{question} of {} is known to be broken at {}{}",
                one_line(drill),
                listed(&moments),
                because.unwrap_or_default()
            ));
        }
    }

    fn decided(mut self, baseline: Option<&Evidence>) -> Decision {
        let mut waivers = Waivers::of(&self.policy.waivers, self.now);
        let mut unmet: Vec<Objection<'e>> = Vec::new();
        for objection in std::mem::take(&mut self.objections) {
            // Every rule has stood here once.
            let rule = self.rules.get_mut(objection.rule - 1);
            let is_waived = waivers.excuse(&objection);
            if let Some(rule) = rule {
                *(if is_waived {
                    &mut rule.waived
                } else {
                    &mut rule.unmet
                }) += 1;
            }
            if !is_waived {
                unmet.push(objection);
            }
        }
        self.reasons.extend(grouped(unmet));
        let (waived, ended) = waivers.report(&self.census, &self.scope);
        self.reasons.extend(ended);
        self.reasons.sort_by_key(|reason| reason.kind);
        let considered = self.shares().into_iter();
        let considered = considered.map(|(evidence, counts, _)| considered_as(evidence, counts));
        Decision {
            decision: if self.reasons.is_empty() {
                Outcome::Go
            } else {
                Outcome::NoGo
            },
            decided: self.now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
            tool: Tool::this(),
            policy: self.policy.policy.clone(),
            evidence: considered.collect(),
            reasons: self.reasons,
            waived,
            notes: self.notes,
            rules: self.rules,
            baseline: baseline.map(|baseline| considered_as(baseline, 0)),
        }
    }
}

/// Why no answer of this trial can count, whatever it says.
pub(super) fn unfit(result: &TrialResult) -> Option<(ReasonKind, String)> {
    let unexplained = matches!(
        result.verdict,
        TrialVerdict::Broken | TrialVerdict::Unproven
    ) && result.objections().next().is_none()
        && result.stale_known.is_empty();
    if result.verdict == TrialVerdict::Error {
        let because = result.error.clone();
        let because = because.unwrap_or_else(|| "it does not say why".to_owned());
        Some((ReasonKind::Error, because))
    } else if result.answers.is_empty() {
        let because = "nothing was asked in it: it was cut short";
        Some((ReasonKind::NotAsked, because.to_owned()))
    } else if unexplained {
        let because = format!("it is {}, and no answer says why", result.verdict);
        Some((ReasonKind::Unproven, because))
    } else {
        None
    }
}

/// Whether two bundles drilled by the same file: another one may ask other questions.
fn is_same_drill(a: &Evidence, b: &Evidence, drill: &str) -> bool {
    std::ptr::eq(a, b)
        || drill_of(a, drill)
            .zip(drill_of(b, drill))
            .is_some_and(|(a, b)| a.sha256 == b.sha256)
}

pub(super) fn drill_of<'e>(evidence: &'e Evidence, drill: &str) -> Option<&'e DrillFacts> {
    evidence
        .facts
        .drills
        .iter()
        .find(|facts| facts.drill == drill)
}

/// Why the drill lists the question as known.
fn known_because<'e>(evidence: &'e Evidence, drill: &str, question: Question) -> Option<&'e str> {
    let known = &drill_of(evidence, drill)?.known;
    known.get(&question).map(String::as_str)
}

fn answer_to(question: Question, result: &TrialResult) -> Option<&Answer> {
    result
        .answers
        .iter()
        .find(|answer| answer.question == question)
}

/// How a question, or a trial as a whole, stood in the last release.
fn stood(before: &Census<'_>, trial: &str, question: Option<Question>) -> Before {
    let result = before.trials.get(trial).and_then(Sighted::counts);
    let Some((_, result)) = result else {
        return Before::NotAsked;
    };
    let verdict = match question {
        None => result.verdict,
        Some(question) => match answer_to(question, result) {
            Some(answer) => answer.verdict.into(),
            None => return Before::NotAsked,
        },
    };
    match verdict {
        TrialVerdict::Held => Before::Held,
        TrialVerdict::Unproven => Before::Unproven,
        TrialVerdict::Broken => Before::Broken,
        TrialVerdict::Error => Before::Error,
        TrialVerdict::Ignored => Before::NotAsked,
    }
}

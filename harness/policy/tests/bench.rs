//! Policies and evidence as these tests need them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::super::{Decision, Evidence, Policy, Reason, ReasonKind, decide, schema};
use crate::judge::{Answer, Skipped, Verdict};
use crate::report::samples::{answer, name, results, trial};
use crate::report::{DrillFacts, Population, RunFacts, RunId, ServerFacts, TrialName, TrialResult};
use crate::spec::{CrashPoint, Kind, Question};

pub use crate::judge::Verdict::{Broken, Held, Unproven};
pub use crate::spec::CrashPoint::{AfterAcceptance, Idle, Sent};
pub use crate::spec::Question::{Effects, Eof, Ownership, Quiet};

/// 2027-01-31T12:00:00Z.
pub fn now() -> Timestamp {
    "2027-01-31T12:00:00Z".parse().unwrap()
}

/// A policy with one rule, `eof` and `effects` of all servers, and what is added.
pub fn policy(rest: &str) -> Policy {
    let rules = if rest.contains("rules:") {
        ""
    } else {
        "rules: [{ servers: ['*'], questions: [eof, effects] }]\n"
    };
    let text = format!("policy: release\n{rules}{rest}");
    let kind = Kind {
        whole: "the policy",
        noun: "policy",
        begins: "policy: NAME",
    };
    let path = std::path::Path::new("release.yaml");
    let read = kind.parse::<Policy>(path, &text, &schema(), |_, _, _| {});
    read.unwrap_or_else(|mistakes| panic!("{:?}\n{text}", mistakes.mistakes))
}

pub fn said(question: Question, verdict: Verdict) -> Answer {
    answer(question, verdict, &format!("It is {verdict}."))
}

pub fn known(question: Question) -> Answer {
    Answer {
        known: true,
        ..said(question, Broken)
    }
}

/// A trial of the drill `deploy`.
pub fn ran(point: CrashPoint, answers: &[Answer]) -> TrialResult {
    of("deploy", point, answers)
}

pub fn of(drill: &str, point: CrashPoint, answers: &[Answer]) -> TrialResult {
    trial(&name(drill, point), answers.to_vec())
}

pub fn variant(point: CrashPoint, variant: &str, answers: &[Answer]) -> TrialResult {
    let name = TrialName {
        variant: Some(variant.to_owned()),
        ..name("deploy", point)
    };
    trial(&name, answers.to_vec())
}

pub fn left_out(mut trial: TrialResult, question: Question) -> TrialResult {
    trial.skipped.push(Skipped {
        question,
        reason: "it has none".to_owned(),
    });
    trial
}

/// A bundle of a run that ended so many hours ago.
pub fn run(hours: i64, trials: Vec<TrialResult>) -> Evidence {
    let finished = now() - SignedDuration::from_hours(hours);
    let id = format!(
        "{}-{:04x}",
        finished.strftime("%Y%m%dT%H%M%SZ"),
        hours.abs()
    );
    let mut drills: BTreeMap<String, DrillFacts> = BTreeMap::new();
    for trial in &trials {
        drills.insert(trial.drill.clone(), facts(&trial.drill, "00"));
    }
    let population = trials.iter().map(|trial| Population {
        drill: trial.drill.clone(),
        trial: Some(trial.name.clone()),
        line: None,
        not_run: trial.reason.clone(),
        repeats: Vec::new(),
    });
    let population = population.collect();
    let results = crate::report::Results {
        run: RunId::parse(&id).unwrap(),
        finished: Some(finished.to_string()),
        ..results(trials)
    };
    Evidence {
        run: id.clone(),
        folder: format!("reports/runs/{id}"),
        started: Some(finished),
        finished: Some(finished),
        manifest_sha256: "ab".repeat(32),
        findings: Vec::new(),
        incomplete: None,
        is_signed: true,
        signers: Vec::new(),
        unsigned: "it is not signed".to_owned(),
        results,
        facts: RunFacts {
            drills: drills.into_values().collect(),
            population,
            ..RunFacts::default()
        },
    }
}

pub fn facts(drill: &str, build: &str) -> DrillFacts {
    DrillFacts {
        drill: drill.to_owned(),
        file: format!("drills/{drill}.yaml"),
        sha256: "cd".repeat(32),
        about: None,
        controls: Vec::new(),
        known: std::collections::BTreeMap::new(),
        server: ServerFacts {
            command: vec!["server".to_owned()],
            files: [("server".to_owned(), build.repeat(32))].into(),
            packages: Vec::new(),
        },
    }
}

/// A run of an hour ago in which `eof` and `effects` held, at two points.
pub fn good() -> Evidence {
    let held = [said(Eof, Held), said(Effects, Held)];
    run(1, vec![ran(Idle, &held), ran(Sent, &held)])
}

/// The same, with these answers at `sent`.
pub fn good_but(answers: &[Answer]) -> Evidence {
    let held = [said(Eof, Held), said(Effects, Held)];
    run(1, vec![ran(Idle, &held), ran(Sent, answers)])
}

pub fn decided(policy: &Policy, evidence: &[Evidence]) -> Decision {
    decide(policy, evidence, None, now())
}

pub fn opens(policy: &Policy, evidence: &[Evidence]) -> Decision {
    let decision = decided(policy, evidence);
    assert!(decision.is_go(), "{decision:#?}");
    decision
}

/// The one reason for which the gate is closed.
#[track_caller]
pub fn closes(policy: &Policy, evidence: &[Evidence], kind: ReasonKind, because: &str) -> Reason {
    only(&decided(policy, evidence), kind, because)
}

#[track_caller]
pub fn only(decision: &Decision, kind: ReasonKind, because: &str) -> Reason {
    assert!(!decision.is_go(), "{decision:#?}");
    let [reason] = decision.reasons.as_slice() else {
        panic!("{:#?}", decision.reasons);
    };
    assert_eq!(reason.kind, kind, "{reason:#?}");
    assert_eq!(reason.because, because);
    reason.clone()
}

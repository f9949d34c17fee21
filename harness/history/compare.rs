//! Compares two runs by their results, and asks for journals only where something changed.

use std::collections::{BTreeMap, BTreeSet};

use super::difference::{
    AnswerChange, Difference, Ended, Lone, SubjectChange, Told, TrialChange, What,
};
use super::events;
use crate::journal::Line;
use crate::judge::Answer;
use crate::report::{DrillFacts, Results, RunFacts, TrialResult, TrialVerdict, one_line};
use crate::spec::Question;

/// One of the two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    A,
    B,
}

/// A run, as its bundle has it.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'r> {
    pub results: &'r Results,
    pub facts: &'r RunFacts,
}

/// Where the journals are.
pub trait Archive {
    /// The journal in a trial's folder of one of the runs, in the order of time.
    fn journal(&mut self, side: Side, folder: &str) -> Result<Vec<Line>, String>;
}

/// What changed from A to B.
pub fn compare(a: Sides<'_>, b: Sides<'_>, archive: &mut dyn Archive) -> Difference {
    let (of_a, of_b) = (by_name(a.results), by_name(b.results));
    let names: BTreeSet<&str> = of_a.keys().chain(of_b.keys()).copied().collect();
    let mut difference = Difference {
        a: one_line(a.results.run.as_str()),
        b: one_line(b.results.run.as_str()),
        trials: Vec::new(),
        only_a: lone(a, b),
        only_b: lone(b, a),
        subjects: subjects(a.facts, b.facts),
        same: 0,
    };
    let mut both: Vec<(&TrialResult, &TrialResult)> = names
        .iter()
        .filter_map(|name| Some((*of_a.get(name)?, *of_b.get(name)?)))
        .collect();
    both.sort_by_key(|(a, _)| (&a.drill, a.crash_point, &a.name));
    for (a, b) in both {
        let mut answers = Vec::new();
        // Without answers on one side it is the trial that changed.
        if was_judged(a) && was_judged(b) {
            for question in Question::ALL {
                match changed(question, a, b, archive) {
                    Some(change) => answers.push(change),
                    None => difference.same += usize::from(answer_to(question, a).is_some()),
                }
            }
        }
        if a.verdict != b.verdict || !answers.is_empty() {
            difference.trials.push(TrialChange {
                trial: one_line(&a.name),
                a: ended(a),
                b: ended(b),
                answers,
            });
        }
    }
    difference
}

fn by_name(results: &Results) -> BTreeMap<&str, &TrialResult> {
    let trials = results.trials.iter();
    trials.map(|trial| (trial.name.as_str(), trial)).collect()
}

/// The trials that one run has and the other does not know, run or not.
fn lone(this: Sides<'_>, other: Sides<'_>) -> Vec<Lone> {
    let known = |run: Sides<'_>| -> BTreeSet<String> {
        let population = run.facts.population.iter();
        let population = population.filter_map(|entry| entry.trial.clone());
        let results = run.results.trials.iter().map(|trial| trial.name.clone());
        population.chain(results).collect()
    };
    let results = by_name(this.results);
    known(this)
        .difference(&known(other))
        .map(|name| Lone {
            trial: one_line(name),
            verdict: results.get(name.as_str()).map(|trial| trial.verdict),
        })
        .collect()
}

fn was_judged(trial: &TrialResult) -> bool {
    !matches!(trial.verdict, TrialVerdict::Error | TrialVerdict::Ignored)
}

fn ended(trial: &TrialResult) -> Ended {
    let because = trial.error.as_deref().or(trial.reason.as_deref());
    Ended {
        verdict: trial.verdict,
        because: because.map(one_line),
    }
}

fn answer_to(question: Question, trial: &TrialResult) -> Option<&Answer> {
    trial
        .answers
        .iter()
        .find(|answer| answer.question == question)
}

/// How the answer to a question changed, if it did.
fn changed(
    question: Question,
    a: &TrialResult,
    b: &TrialResult,
    archive: &mut dyn Archive,
) -> Option<AnswerChange> {
    let answers = (answer_to(question, a), answer_to(question, b));
    let what = match answers {
        (None, None) => (told(question, a) != told(question, b)).then_some(What::Asked),
        (Some(answer), None) | (None, Some(answer)) => (!answer.by_chance).then_some(What::Asked),
        (Some(of_a), Some(of_b)) => {
            if of_a.verdict != of_b.verdict {
                Some(What::Verdict)
            } else if of_a.known != of_b.known {
                Some(What::Known)
            } else if of_a.unstable.is_some() != of_b.unstable.is_some() {
                Some(What::Stability)
            } else {
                // A sentence may say the same in other words, with other pids and times.
                (of_a.codes != of_b.codes).then_some(What::Finding)
            }
        }
    }?;
    let mut change = AnswerChange {
        question,
        what,
        a: told(question, a),
        b: told(question, b),
        events: Vec::new(),
        same_events: 0,
        unread: None,
    };
    let of_a = evidence(Side::A, a, answers.0, archive);
    let of_b = evidence(Side::B, b, answers.1, archive);
    match (of_a, of_b) {
        (Ok(of_a), Ok(of_b)) => {
            (change.events, change.same_events) = events::differing(&of_a, &of_b);
        }
        (Err(because), _) | (_, Err(because)) => change.unread = Some(one_line(&because)),
    }
    Some(change)
}

fn evidence(
    side: Side,
    trial: &TrialResult,
    answer: Option<&Answer>,
    archive: &mut dyn Archive,
) -> Result<Vec<super::difference::Shown>, String> {
    let Some(answer) = answer else {
        return Ok(Vec::new());
    };
    let folder = trial.bundle_of(answer);
    let folder = folder.ok_or_else(|| format!("{} has no folder", trial.name))?;
    let lines = archive.journal(side, &folder)?;
    Ok(events::of(&lines, &answer.evidence))
}

fn told(question: Question, trial: &TrialResult) -> Told {
    if let Some(answer) = answer_to(question, trial) {
        return Told::Answered {
            verdict: answer.verdict,
            known: answer.known,
            unstable: answer.unstable.is_some(),
            codes: answer.codes.clone(),
            because: one_line(&trial.sentence_of(answer)),
            folder: trial.bundle_of(answer).as_deref().map(one_line),
        };
    }
    let skipped = trial.skipped.iter().find(|s| s.question == question);
    skipped.map_or(Told::NotAsked, |skipped| Told::LeftOut {
        reason: one_line(&skipped.reason),
    })
}

/// What was drilled: builds of servers, drill files, the commit.
fn subjects(a: &RunFacts, b: &RunFacts) -> Vec<SubjectChange> {
    let mut changes = Vec::new();
    let commit = |facts: &RunFacts| {
        let commit = facts.commit.as_ref()?;
        let dirty = if commit.dirty == Some(true) {
            ", changed"
        } else {
            ""
        };
        Some(format!("{}{dirty}", commit.id))
    };
    let (of_a, of_b) = (commit(a), commit(b));
    note(
        &mut changes,
        None,
        "commit",
        of_a.as_deref(),
        of_b.as_deref(),
    );
    for a in &a.drills {
        let same = b.drills.iter().find(|b| b.drill == a.drill);
        if let Some(b) = same {
            drill(&mut changes, a, b);
        }
    }
    changes
}

fn drill(changes: &mut Vec<SubjectChange>, a: &DrillFacts, b: &DrillFacts) {
    let drill = Some(b.drill.as_str());
    let what = format!("drill file {}", b.file);
    note(changes, drill, &what, Some(&a.sha256), Some(&b.sha256));
    // A server that was not run has no digests.
    if a.server.files.is_empty() || b.server.files.is_empty() {
        return;
    }
    let files = a.server.files.keys().chain(b.server.files.keys());
    for file in files.collect::<BTreeSet<_>>() {
        let what = format!("server file {file}");
        let of = |facts: &'_ DrillFacts| facts.server.files.get(file).cloned();
        note(changes, drill, &what, of(a).as_deref(), of(b).as_deref());
    }
    let versions = |facts: &DrillFacts| -> BTreeMap<String, String> {
        let packages = facts.server.packages.iter();
        packages
            .map(|package| (package.name.clone(), package.version.clone()))
            .collect()
    };
    let (of_a, of_b) = (versions(a), versions(b));
    for name in of_a.keys().chain(of_b.keys()).collect::<BTreeSet<_>>() {
        let of = |versions: &BTreeMap<String, String>| versions.get(name).cloned();
        let what = format!("package {name}");
        note(
            changes,
            drill,
            &what,
            of(&of_a).as_deref(),
            of(&of_b).as_deref(),
        );
    }
}

fn note(
    changes: &mut Vec<SubjectChange>,
    drill: Option<&str>,
    what: &str,
    a: Option<&str>,
    b: Option<&str>,
) {
    if a != b {
        changes.push(SubjectChange {
            drill: drill.map(one_line),
            what: one_line(what),
            a: a.map(one_line),
            b: b.map(one_line),
        });
    }
}

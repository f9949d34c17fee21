//! What a run's manifest says besides its files: every drill and every trial there is, run or not.

use std::path::Path;

use super::args::RunArgs;
use super::population::{Candidate, Places, Population as Found, is_wanted};
use super::slice::Slice;
use super::subject::Subjects;
use crate::report::{Commit, Population, Results, RunFacts, TrialResult};
use crate::spec::DrillFile;

/// Why a trial was not run that nobody asked for.
pub const FILTERED_OUT: &str = "filtered out";

/// What is to be run, and what there is besides.
pub struct Plan {
    pub wanted: Vec<Candidate>,
    /// With the reason why each is not.
    pub left: Vec<(Candidate, String)>,
    pub slice: Option<Slice>,
    pub files: Vec<DrillFile>,
    pub courses: Vec<String>,
}

impl Plan {
    /// Divides what there is into what is wanted and what is not.
    pub fn of(found: Found, args: &RunArgs) -> Self {
        let (mut matching, filtered): (Vec<Candidate>, Vec<Candidate>) = found
            .candidates
            .into_iter()
            .partition(|candidate| is_wanted(&candidate.trial.name, args));
        let mut left: Vec<(Candidate, String)> = filtered
            .into_iter()
            .map(|candidate| (candidate, FILTERED_OUT.to_owned()))
            .collect();
        if let Some(slice) = args.partition {
            let mut names: Vec<String> = matching.iter().map(|c| c.trial.name.clone()).collect();
            names.sort();
            let slice_of = |candidate: &Candidate| {
                let index = names.binary_search(&candidate.trial.name);
                slice.of_index(index.unwrap_or_default())
            };
            let (mine, others) = matching.into_iter().partition(|c| slice_of(c) == slice);
            matching = mine;
            let others: Vec<Candidate> = others;
            left.extend(others.into_iter().map(|candidate| {
                let reason = format!("in {}", slice_of(&candidate));
                (candidate, reason)
            }));
        }
        Self {
            wanted: matching,
            left,
            slice: args.partition,
            files: found.files,
            courses: found.courses,
        }
    }
}

/// What is known of a run before it begins. With `of_servers`, of the servers as well, whose files are read for it.
pub fn facts(plan: &Plan, places: &Places, fixture: Option<&Path>, of_servers: bool) -> RunFacts {
    let subjects = Subjects::default();
    let drills = plan.files.iter().map(|file| {
        let is_run = |candidate: &Candidate| {
            candidate.name.drill == file.drill.drill && candidate.ignored.is_none()
        };
        subjects.of(file, fixture, of_servers && plan.wanted.iter().any(is_run))
    });
    let entry = |candidate: &Candidate, not_run: Option<String>| Population {
        drill: candidate.name.drill.clone(),
        trial: Some(candidate.trial.name.clone()),
        line: Some(candidate.line),
        not_run,
        repeats: Vec::new(),
    };
    let wanted = plan
        .wanted
        .iter()
        .map(|candidate| entry(candidate, candidate.ignored.clone()));
    let left = plan
        .left
        .iter()
        .map(|(candidate, reason)| entry(candidate, Some(reason.clone())));
    RunFacts {
        commit: Commit::at(places.drills.parent().unwrap_or(&places.drills)),
        interrupted: false,
        signer: None,
        partition: plan.slice.map(|slice| slice.to_string()),
        shards: Vec::new(),
        cell: None,
        drills: drills.collect(),
        population: wanted.chain(left).collect(),
    }
}

/// The population at the end of a run. What has no result was not run, for a reason that is known now. Of the others, the
/// repeats.
pub fn as_run(
    mut population: Vec<Population>,
    results: &Results,
    otherwise: &str,
) -> Vec<Population> {
    for entry in &mut population {
        let mut trials = results.trials.iter();
        match trials.find(|result| Some(&result.name) == entry.trial.as_ref()) {
            Some(result) if result.repeats.is_some() => {
                entry.repeats = TrialResult::bundles(result);
            }
            Some(_) => {}
            None => {
                entry.not_run.get_or_insert_with(|| otherwise.to_owned());
            }
        }
    }
    population
}

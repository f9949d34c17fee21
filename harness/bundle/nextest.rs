//! A run of nextest, each of whose trials was a process of its own: what they have left, put together.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::journal::{Secrets, regular};
use crate::judge::{Repeat, together};
use crate::report::{FACTS, Results, RunFacts, TrialName, TrialResult, trial_and_numbers};
use crate::trial::rejudge;

/// What the processes of one run of nextest knew of their drills.
pub(super) fn facts(folder: &Path) -> io::Result<Vec<RunFacts>> {
    let files = parts_in(folder, FACTS)?.into_iter();
    let read = |file: PathBuf| Ok(serde_json::from_slice(&regular::read(&file)?)?);
    files.map(read).collect()
}

/// What the processes of a run of nextest have left, by the ending of its name, in order.
fn parts_in(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join("parts"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|kind| kind == ending));
    files.sort();
    Ok(files)
}

/// The results of all processes of one run of nextest. Of a trial that nextest tried again, each attempt is a repeat: one
/// that held does not hide one that broke.
pub(super) fn results(folder: &Path) -> io::Result<Results> {
    let mut whole: Option<Results> = None;
    let mut attempts: BTreeMap<String, Vec<TrialResult>> = BTreeMap::new();
    for file in parts_in(folder, "json")? {
        let part: Results = serde_json::from_slice(&regular::read(&file)?)?;
        for trial in &part.trials {
            let of_trial = attempts.entry(trial.name.clone()).or_default();
            of_trial.push(trial.clone());
        }
        whole = Some(match whole {
            None => Results {
                trials: Vec::new(),
                ..part
            },
            Some(whole) => Results {
                started: whole.started.min(part.started),
                finished: whole.finished.max(part.finished),
                ..whole
            },
        });
    }
    let mut whole = whole.ok_or_else(|| io::Error::other("no process of nextest left a result"))?;
    for (name, mut of_trial) in attempts {
        let result = match of_trial.len() {
            1 => of_trial.remove(0),
            _ => together_of(folder, &name, &of_trial)?,
        };
        whole.trials.push(result);
    }
    Ok(whole)
}

fn together_of(folder: &Path, name: &str, attempts: &[TrialResult]) -> io::Result<TrialResult> {
    let mut bundles: Vec<&str> = attempts
        .iter()
        .filter_map(|attempt| attempt.bundle.as_deref())
        .collect();
    bundles.sort_by_key(|bundle| trial_and_numbers(bundle).1);
    if bundles.len() != attempts.len() || attempts.iter().any(|a| a.repeats.is_some()) {
        return Err(io::Error::other(format!(
            "{name} was tried again by nextest and has repeats, or an attempt without a folder: run it without retries"
        )));
    }
    let repeats: Vec<Repeat> = bundles
        .iter()
        .map(|bundle| rejudge(&folder.join(bundle)).map_err(io::Error::other))
        .collect::<io::Result<_>>()?;
    let all = together(&repeats);
    let total = all.repeats.total();
    let last = &attempts[attempts.len() - 1];
    let named = TrialName {
        drill: last.drill.clone(),
        point: last.crash_point,
        variant: name.splitn(3, "::").nth(2).map(str::to_owned),
    };
    let seconds = attempts.iter().map(|attempt| attempt.seconds).sum();
    let elapsed = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let judged = TrialResult::judged(&named, all.judgement, elapsed, &Secrets::default());
    let snapshot = attempts.iter().filter_map(|attempt| attempt.snapshot).max();
    Ok(judged
        .repeated(all.repeats, total)
        .with(snapshot, bundles.first().map(|bundle| (*bundle).to_owned())))
}

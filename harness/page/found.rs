//! What a run's folder holds, as it is found: whole, torn, or not what it was.
//!
//! A page may be asked for of a run that was killed, and of a bundle that somebody has changed. Whatever cannot be read is
//! said to be so; nothing that cannot be believed is shown.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::journal::{self, Event, Line, Secrets, regular};
use crate::judge::{Incident, Judgement, judge};
use crate::report::{MANIFEST, Manifest, Results, RunFacts, TrialName, TrialResult, runs_in};
use crate::spec::Drill;

/// A run as its folder has it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) results: Results,
    pub(crate) facts: RunFacts,
    /// Folders of trials that were cut short: the run was killed in the middle of them.
    pub(crate) cut_short: Vec<String>,
    /// What is not as it should be, a sentence each.
    pub(crate) troubles: Vec<String>,
    /// A manifest of the whole vouches for the folder.
    pub(crate) is_sealed: bool,
}

/// What was kept of a trial.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) drill: Option<Drill>,
    /// In the order of time.
    pub(crate) lines: Vec<Line>,
    /// As it was written; where nobody did, what the judge says of the journal now.
    pub(crate) judgement: Option<Judgement>,
    pub(crate) incidents: Vec<Incident>,
    pub(crate) troubles: Vec<String>,
}

impl Kept {
    /// Reads a trial's folder.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut kept = Self::default();
        match journal::read(&folder.join("journal.jsonl")) {
            Ok(recorded) => {
                kept.lines = recorded.lines;
                kept.lines.sort_by_key(Line::place);
                if recorded.torn_tail {
                    kept.troubles.push(
                        "The journal ends in the middle of a line: the run was killed while it wrote. What stands here \
                         is what it has up to there."
                            .to_owned(),
                    );
                }
            }
            Err(error) => kept.troubles.push(format!(
                "The journal cannot be believed, so nothing of it is shown: {error}."
            )),
        }
        kept.drill = kept.file(folder, "drill.json");
        kept.judgement = kept.file(folder, "answers.json");
        if let (None, Some(drill)) = (&kept.judgement, &kept.drill)
            && !kept.lines.is_empty()
        {
            kept.judgement = Some(judge(drill, &kept.lines));
        }
        // There is none where there is nothing to tell.
        if folder.join("incidents.json").exists() {
            kept.incidents = kept.file(folder, "incidents.json").unwrap_or_default();
        }
        kept
    }

    fn file<T: DeserializeOwned>(&mut self, folder: &Path, name: &str) -> Option<T> {
        match small_file(&folder.join(name)) {
            Ok(found) => Some(found),
            Err(error) => {
                self.troubles
                    .push(format!("{name} could not be read: {error}."));
                None
            }
        }
    }
}

impl Run {
    /// Reads a run's folder; the trials' folders only where nobody has judged them.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let (results, mut troubles) = match small_file::<Results>(&folder.join("results.json")) {
            Ok(results) => (results, Vec::new()),
            Err(error) => {
                let parts = parts(folder).ok_or(error)?;
                let because = "Each trial of this run was a process of its own: nothing describes it as a whole.";
                (parts, vec![because.to_owned()])
            }
        };
        let (facts, is_sealed) = match small_file::<Manifest>(&folder.join(MANIFEST)) {
            Ok(manifest) => (manifest.facts, manifest.finished.is_some()),
            Err(error) => {
                troubles.push(format!(
                    "There is no manifest ({error}): what the run held when it ended is not known."
                ));
                (RunFacts::default(), false)
            }
        };
        Ok(Self {
            is_sealed,
            ..Self::with(folder, results, facts, troubles)
        })
    }

    /// A run whose results are known.
    pub(crate) fn with(
        folder: &Path,
        mut results: Results,
        facts: RunFacts,
        mut troubles: Vec<String>,
    ) -> Self {
        if results.finished.is_none() {
            troubles.push("The run did not end: it was killed, or it still goes on.".to_owned());
        }
        let mut cut_short = Vec::new();
        for name in unjudged(folder, &results) {
            if let Some(result) = judged_now(&folder.join(&name)) {
                results.trials.push(result.with(None, Some(name.clone())));
                cut_short.push(name);
            } else {
                troubles.push(format!("Nothing can be told of the trial in {name}."));
            }
        }
        results.sort();
        Self {
            results,
            facts,
            cut_short,
            troubles,
            is_sealed: false,
        }
    }

    pub(crate) fn is_cut_short(&self, trial: &TrialResult) -> bool {
        trial
            .bundle
            .as_ref()
            .is_some_and(|bundle| self.cut_short.contains(bundle))
    }
}

/// Folders of trials that no result names.
fn unjudged(folder: &Path, results: &Results) -> Vec<String> {
    let named: Vec<String> = results
        .trials
        .iter()
        .flat_map(TrialResult::bundles)
        .collect();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .filter(|entry| is_trial(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !named.contains(name))
        .collect();
    found.sort();
    found
}

/// What the judge says of a journal that ends where its run was killed.
fn judged_now(folder: &Path) -> Option<TrialResult> {
    let kept = Kept::read(folder);
    let Event::TrialStarted { drill, crash, .. } = &kept.lines.first()?.event else {
        return None;
    };
    let name = TrialName {
        drill: drill.clone(),
        point: crash.listed_at(),
        variant: crash.variant(),
    };
    let judgement = kept.judgement.clone()?;
    let elapsed = Duration::from_nanos(kept.lines.last()?.at);
    // The journal has the names of secrets in their places.
    let none = Secrets::default();
    Some(TrialResult::judged(&name, judgement, elapsed, &none))
}

/// The trials of a run of nextest, each of which wrote a part.
fn parts(folder: &Path) -> Option<Results> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder.join("parts"))
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let mut whole: Option<Results> = None;
    for path in paths {
        let Ok(part) = small_file::<Results>(&path) else {
            continue;
        };
        match &mut whole {
            Some(whole) => {
                whole.started = part.started.min(std::mem::take(&mut whole.started));
                whole.finished = part.finished.max(whole.finished.take());
                whole.trials.extend(part.trials);
            }
            None => whole = Some(part),
        }
    }
    whole
}

fn small_file<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&regular::read(path)?).map_err(io::Error::from)
}

/// Whether this is the folder of one trial.
pub(crate) fn is_trial(folder: &Path) -> bool {
    folder.join("journal.jsonl").is_file()
}

/// Whether this is the folder of a run, whole or not.
pub(crate) fn is_run(folder: &Path) -> bool {
    if folder.join("results.json").is_file() || folder.join("parts").is_dir() {
        return true;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| is_trial(&path))
}

/// The folder of the run that began last.
pub(crate) fn latest(runs: &Path) -> Option<PathBuf> {
    runs_in(runs).into_iter().rev().find(|run| is_run(run))
}

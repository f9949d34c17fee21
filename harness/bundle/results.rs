//! The trials of `results.json`, compared with the population, and each of them judged again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use serde::de::MapAccess;
use serde_json::Value;

use super::finding::Findings;
use super::shards::SHARDS;
use super::sign::{Told, told};
use super::stream::{self, Fields, Items};
use super::trial::{self, Commands, Seen, is_plain};
use crate::journal;
use crate::report::{INTERRUPTED, Population, TrialResult, TrialVerdict};

pub(super) const RESULTS: &str = "results.json";
/// How many trials wait for a thread that judges them.
const WAITING: usize = 8;

/// Whether a bundle is of a run that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Complete,
    /// Why it is not, in a few words.
    Incomplete(String),
}

/// The trials, compared with the population.
pub(super) struct Checked<'v> {
    folder: &'v Path,
    population: BTreeMap<String, Population>,
    pub has_finished: bool,
    /// Its trials are vouched for by the seals that other manifests list.
    pub is_joined: bool,
    pub findings: &'v Findings,
    pub run: Option<String>,
    pub told: BTreeMap<String, Told>,
    bundles: BTreeSet<String>,
    pub trials: u64,
    /// How many of them ended with each verdict, in words.
    pub verdicts: BTreeMap<String, u64>,
    pub not_run: BTreeMap<String, u64>,
    /// Trials that a run which was killed did not come to, or did not end.
    missing: u64,
    /// Trials that were being run when the run was interrupted.
    cut_short: u64,
}

impl<'v> Checked<'v> {
    pub fn new(
        folder: &'v Path,
        population: BTreeMap<String, Population>,
        has_finished: bool,
        findings: &'v Findings,
    ) -> Self {
        Self {
            folder,
            population,
            has_finished,
            is_joined: folder.join(SHARDS).is_dir(),
            findings,
            run: None,
            told: BTreeMap::new(),
            bundles: BTreeSet::new(),
            trials: 0,
            verdicts: BTreeMap::new(),
            not_run: BTreeMap::new(),
            missing: 0,
            cut_short: 0,
        }
    }

    /// Whether the trial was run, so that its evidence has to be looked at.
    fn admit(&mut self, result: &TrialResult) -> bool {
        let place = || format!("{RESULTS} of {}", result.name);
        if self
            .told
            .insert(result.name.clone(), told(result))
            .is_some()
        {
            self.findings.add(place(), "it stands there twice");
            return false;
        }
        let is_run = result.verdict != TrialVerdict::Ignored;
        match self.population.get(&result.name) {
            None => self.findings.add(
                place(),
                "the manifest's population does not know this trial",
            ),
            Some(entry) if is_run && entry.not_run.is_some() => self.findings.add(
                place(),
                "it has a result, and the manifest says that it was not run",
            ),
            Some(entry) if !is_run && entry.not_run != result.reason => self.findings.add(
                place(),
                "the manifest has another reason for its not having been run",
            ),
            Some(entry) => {
                let bundles = result.bundles();
                if result.repeats.is_some() && self.has_finished && entry.repeats != bundles {
                    self.findings
                        .add(place(), "its repeats are not those that the manifest names");
                }
            }
        }
        let prefix = format!("{}::", result.drill);
        if !result.name.starts_with(&prefix) {
            self.findings
                .add(place(), "it is named as a trial of another drill");
        }
        for bundle in result.bundles() {
            if !self.bundles.insert(bundle.clone()) {
                self.findings.add(
                    place(),
                    format!("another trial has its folder, {bundle}, too"),
                );
                return false;
            }
        }
        if is_run && result.bundle.is_none() && result.error.is_none() {
            self.findings
                .add(place(), "there is no folder with its evidence");
        }
        self.trials += u64::from(is_run);
        if is_run {
            *self.verdicts.entry(result.verdict.to_string()).or_default() += 1;
        }
        is_run && result.bundle.is_some()
    }

    /// What has no result.
    pub fn finish(&mut self) -> io::Result<()> {
        for (name, entry) in &self.population {
            let has_result = self.told.contains_key(name);
            match &entry.not_run {
                Some(reason) => {
                    *self.not_run.entry(reason.clone()).or_default() += 1;
                    self.missing += u64::from(reason == INTERRUPTED);
                }
                None if has_result => {}
                None if self.has_finished => self.findings.add(
                    name.as_str(),
                    "it was found and was to be run, and nothing says what became of it",
                ),
                None => self.missing += 1,
            }
        }
        for entry in fs::read_dir(self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let journal = entry.path().join("journal.jsonl");
            if !entry.file_type()?.is_dir() || self.bundles.contains(&name) || !journal.exists() {
                continue;
            }
            if self.has_finished {
                let what = "a trial's folder that no result names: the result was removed";
                self.findings.add(name, what);
            } else if let Err(error) = journal::read(&journal) {
                // It was being run when the run was killed; its journal may end in the middle of a line, and no more.
                self.findings
                    .add(format!("{name}/journal.jsonl"), error.to_string());
            }
        }
        Ok(())
    }

    pub fn state(&self, finished: Option<&str>) -> State {
        match (finished, self.missing) {
            (Some(_), 0) if self.cut_short == 0 => State::Complete,
            (Some(_), 0) => State::Incomplete(format!(
                "it was interrupted in the middle of {} of {} trials",
                self.cut_short,
                self.population.len()
            )),
            (Some(_), missing) => State::Incomplete(format!(
                "it was interrupted, and {missing} of {} trials were not run",
                self.population.len()
            )),
            (None, missing) => State::Incomplete(format!(
                "it did not end: its harness was killed or could not write; {missing} of {} trials have no result",
                self.population.len()
            )),
        }
    }
}

/// Checks every trial of the results, side by side.
pub(super) fn check_results(
    folder: &Path,
    checked: &mut Checked<'_>,
    commands: &Commands,
) -> io::Result<Seen> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (give, take) = sync_channel::<TrialResult>(WAITING);
    let take = Mutex::new(take);
    let findings = checked.findings;
    let is_sealed_alone = !checked.has_finished || checked.is_joined;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(folder, &take, is_sealed_alone, commands, findings)))
            .collect();
        let mut results = Results { checked, give };
        let read = stream::read(&folder.join(RESULTS), &mut results);
        let Results { checked, give } = results;
        drop(give);
        match read {
            Ok(head) => {
                checked.run = head.get("run").and_then(Value::as_str).map(str::to_owned);
                if checked.has_finished && !head.contains_key("finished") {
                    findings.add(RESULTS, "it does not say when the run finished");
                }
            }
            Err(because) => findings.add(RESULTS, because),
        }
        let mut all = Seen::default();
        for thread in started {
            let seen = thread
                .join()
                .map_err(|_| io::Error::other("the judge panicked"))?;
            all.events += seen.events;
            all.answers += seen.answers;
            all.cut_short += seen.cut_short;
        }
        checked.cut_short = all.cut_short;
        Ok(all)
    })
}

struct Results<'c, 'v> {
    checked: &'c mut Checked<'v>,
    give: SyncSender<TrialResult>,
}

impl<'de> Fields<'de> for Results<'_, '_> {
    fn take<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error> {
        if name != "trials" {
            return Ok(false);
        }
        map.next_value_seed(Items::to(|result: TrialResult| {
            if self.checked.admit(&result) {
                // The threads live as long as there is something to take.
                let _ = self.give.send(result);
            }
        }))?;
        Ok(true)
    }
}

fn work(
    folder: &Path,
    take: &Mutex<Receiver<TrialResult>>,
    is_sealed_alone: bool,
    commands: &Commands,
    findings: &Findings,
) -> Seen {
    let mut all = Seen::default();
    loop {
        let next = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(result) = next else {
            return all;
        };
        if is_sealed_alone {
            for bundle in result.bundles().iter().filter(|bundle| is_plain(bundle)) {
                trial::check_seal(folder, bundle, findings);
            }
        }
        let seen = trial::check(folder, &result, commands, findings);
        all.events += seen.events;
        all.answers += seen.answers;
        all.cut_short += seen.cut_short;
    }
}

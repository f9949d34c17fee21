//! Goes through a bundle once and gathers what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::iter::Peekable;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use serde::de::MapAccess;
use serde_json::Value;

use super::finding::{Finding, Findings};
use super::sign::{Told, told};
use super::signature::{self, Held, Signature};
use super::stream::{self, Entries, Fields, Items};
use super::trial::{self, Seen, is_plain};
use crate::attest::PublicKey;
use crate::journal;
use crate::report::{
    BESIDES, FileEntry, INTERRUPTED, JournalEnd, Kind, MANIFEST, NotAFile, Population, SEAL, Shard,
    TrialResult, TrialVerdict, Walk, digest, read_file, walk,
};

const RESULTS: &str = "results.json";
/// Where a bundle that was joined from others keeps their manifests.
pub(super) const SHARDS: &str = "shards";
/// How many trials wait for a thread that judges them.
const WAITING: usize = 8;

/// Whether a bundle is of a run that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Complete,
    /// Why it is not, in a few words.
    Incomplete(String),
}

/// What was found out about a bundle.
#[derive(Debug, Clone)]
pub struct Verification {
    pub run: String,
    pub tool: String,
    pub started: String,
    pub finished: Option<String>,
    pub manifest_sha256: String,
    pub state: State,
    pub signature: Signature,
    pub files: u64,
    /// Trials that were run.
    pub trials: u64,
    pub answers: u64,
    pub events: u64,
    /// How many trials were not run, by reason.
    pub not_run: BTreeMap<String, u64>,
    pub findings: Vec<Finding>,
    /// How many findings there are besides these.
    pub more: usize,
}

impl Verification {
    /// A bundle that can be relied on: of a run that ended, and nothing wrong with it.
    pub fn is_good(&self) -> bool {
        self.state == State::Complete && self.findings.is_empty()
    }
}

/// Verifies the bundle in a run's folder. `trusted` are the keys of which one must have signed it; with none, a signature
/// is checked with the key that the bundle brings along.
///
/// # Errors
///
/// The folder cannot be read, or holds no bundle.
pub fn verify(folder: &Path, trusted: &[PublicKey]) -> io::Result<Verification> {
    let findings = Findings::default();
    if !folder.join(MANIFEST).exists() {
        if folder.join("parts").is_dir() {
            return Err(io::Error::other(
                "it holds the parts of a run of nextest, which `cargo drill merge` makes into a bundle",
            ));
        }
        if !folder.join(RESULTS).exists() {
            return Err(io::Error::other(
                "it holds no bundle: neither manifest.json nor results.json is there",
            ));
        }
        findings.add(MANIFEST, "it is missing");
    }
    let mut listed = Listed {
        folder,
        found: walk(folder)?.peekable(),
        findings: &findings,
        last: String::new(),
        files: 0,
        ends: BTreeMap::new(),
        journals: BTreeMap::new(),
        others: BTreeMap::new(),
        other_found: BTreeMap::new(),
        population: BTreeMap::new(),
    };
    let head = if folder.join(MANIFEST).exists() {
        stream::read(&folder.join(MANIFEST), &mut listed).unwrap_or_else(|because| {
            findings.add(MANIFEST, because);
            serde_json::Map::new()
        })
    } else {
        serde_json::Map::new()
    };
    let text = |name: &str| head.get(name).and_then(Value::as_str).map(str::to_owned);
    let finished = text("finished");
    if finished.is_some() {
        listed.finish();
    }
    listed.check_drills(head.get("drills"));
    let Listed {
        files,
        journals,
        population,
        ..
    } = listed;

    let mut checked = Checked::new(folder, population, finished.is_some(), &findings);
    let seen = check_results(folder, &mut checked)?;
    let run = text("run").unwrap_or_default();
    if checked.run.as_deref() != Some(run.as_str()) {
        findings.add(RESULTS, "it is of another run than the manifest");
    }
    checked.finish()?;
    let state = checked.state(finished.as_deref());
    let shards = head.get("shards").cloned().unwrap_or(Value::Null);
    for shard in serde_json::from_value::<Vec<Shard>>(shards).unwrap_or_default() {
        check_shard(folder, &shard, trusted, &findings);
    }
    let manifest_sha256 = match fs::File::open(folder.join(MANIFEST)) {
        Ok(file) => digest(file, |_| {})?.sha256,
        Err(_) => String::new(),
    };
    let of_bundle = Held {
        run: run.clone(),
        manifest_sha256,
        is_complete: state == State::Complete,
        journals,
        told: checked.told,
    };
    let signature = signature::check(folder, trusted, &of_bundle, &findings);
    let tool = head.get("tool").and_then(|tool| {
        let word = |name: &str| tool.get(name).and_then(Value::as_str);
        Some(format!("{} {}", word("name")?, word("version")?))
    });
    let (trials, not_run) = (checked.trials, checked.not_run);
    let (findings, more) = findings.into_sorted();
    Ok(Verification {
        run,
        tool: tool.unwrap_or_default(),
        started: text("started").unwrap_or_default(),
        finished,
        manifest_sha256: of_bundle.manifest_sha256,
        state,
        signature,
        files,
        trials,
        answers: seen.answers,
        events: seen.events,
        not_run,
        findings,
        more,
    })
}

/// What the manifest lists, compared with what is there as it is read: both are sorted by path.
struct Listed<'v> {
    folder: &'v Path,
    found: Peekable<Walk>,
    findings: &'v Findings,
    /// The path that was listed last.
    last: String,
    files: u64,
    /// Where journals should end.
    ends: BTreeMap<String, JournalEnd>,
    /// Where they do.
    journals: BTreeMap<String, JournalEnd>,
    others: BTreeMap<String, NotAFile>,
    other_found: BTreeMap<String, NotAFile>,
    population: BTreeMap<String, Population>,
}

impl<'de> Fields<'de> for Listed<'_> {
    fn take<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error> {
        match name {
            "files" => {
                map.next_value_seed(Entries::to(|path: String, entry| self.file(&path, &entry)))?;
            }
            "journals" => self.ends = map.next_value()?,
            "others" => self.others = map.next_value()?,
            "population" => {
                map.next_value_seed(Items::to(|entry: Population| self.member(entry)))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Listed<'_> {
    fn member(&mut self, entry: Population) {
        let name = entry.trial.clone().unwrap_or_else(|| entry.drill.clone());
        if self.population.insert(name.clone(), entry).is_some() {
            self.findings
                .add(MANIFEST, format!("its population names {name} twice"));
        }
    }

    fn file(&mut self, path: &str, entry: &FileEntry) {
        if *path <= *self.last {
            self.findings
                .add(MANIFEST, format!("its files are not in order at {path}"));
            return;
        }
        path.clone_into(&mut self.last);
        self.files += 1;
        if self.pass(Some(path)) {
            match read_file(&self.folder.join(path), path) {
                Ok((found, end)) => {
                    if found != *entry {
                        self.findings.add(path, "it was changed");
                    }
                    if let Some(end) = end {
                        if self.ends.get(path) != Some(&end) {
                            let what =
                                "the manifest names another end of it: lines were cut off or added";
                            self.findings.add(path, what);
                        }
                        self.journals.insert(path.to_owned(), end);
                    }
                }
                Err(error) => self
                    .findings
                    .add(path, format!("it cannot be read: {error}")),
            }
        } else {
            self.findings.add(path, "it is missing");
        }
    }

    /// Goes on to the file of this path, or to the end; whether it is there. What is passed on the way is not listed.
    fn pass(&mut self, path: Option<&str>) -> bool {
        while let Some(found) = self.found.next_if(|found| match (found, path) {
            (Ok(found), Some(path)) => found.path.as_str() <= path,
            _ => true,
        }) {
            match found {
                Ok(found) => match found.kind {
                    Kind::File if Some(found.path.as_str()) == path => return true,
                    Kind::File if BESIDES.contains(&found.path.as_str()) => {}
                    Kind::File => {
                        let what = "it was added: the manifest does not know it";
                        self.findings.add(found.path, what);
                    }
                    Kind::Other(what) => {
                        self.other_found.insert(found.path, what);
                    }
                },
                Err(error) => {
                    self.findings
                        .add("", format!("a folder cannot be read: {error}"));
                }
            }
        }
        false
    }

    /// Every drill that was found has trials, and every trial is of a drill that was found.
    fn check_drills(&self, drills: Option<&Value>) {
        let Some(Value::Array(drills)) = drills else {
            return;
        };
        let names: BTreeSet<&str> = drills
            .iter()
            .filter_map(|drill| drill.get("drill")?.as_str())
            .collect();
        let of_trials: BTreeSet<&str> = self
            .population
            .values()
            .map(|entry| entry.drill.as_str())
            .collect();
        for name in names.difference(&of_trials) {
            let what = format!("the drill {name} was found, and none of its trials is named");
            self.findings.add(MANIFEST, what);
        }
        for name in of_trials.difference(&names) {
            let what = format!("trials of {name} are named, and no such drill");
            self.findings.add(MANIFEST, what);
        }
    }

    /// After the last file that is listed.
    fn finish(&mut self) {
        self.pass(None);
        if self.others != self.other_found {
            let what = "the links and special files in the folder are not those that it names";
            self.findings.add(MANIFEST, what);
        }
        for path in self.ends.keys() {
            if !self.journals.contains_key(path) {
                self.findings.add(path.as_str(), "it is missing");
            }
        }
    }
}

/// The trials, compared with the population.
struct Checked<'v> {
    folder: &'v Path,
    population: BTreeMap<String, Population>,
    has_finished: bool,
    /// Its trials are vouched for by the seals that other manifests list.
    is_joined: bool,
    findings: &'v Findings,
    run: Option<String>,
    told: BTreeMap<String, Told>,
    bundles: BTreeSet<String>,
    trials: u64,
    not_run: BTreeMap<String, u64>,
    /// Trials that a run which was killed did not come to, or did not end.
    missing: u64,
}

impl<'v> Checked<'v> {
    fn new(
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
            not_run: BTreeMap::new(),
            missing: 0,
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
        is_run && result.bundle.is_some()
    }

    /// What has no result.
    fn finish(&mut self) -> io::Result<()> {
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

    fn state(&self, finished: Option<&str>) -> State {
        match (finished, self.missing) {
            (Some(_), 0) => State::Complete,
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
fn check_results(folder: &Path, checked: &mut Checked<'_>) -> io::Result<Seen> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (give, take) = sync_channel::<TrialResult>(WAITING);
    let take = Mutex::new(take);
    let findings = checked.findings;
    let is_sealed_alone = !checked.has_finished || checked.is_joined;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| work(folder, &take, is_sealed_alone, findings)))
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
        }
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
        let seen = trial::check(folder, &result, findings);
        all.events += seen.events;
        all.answers += seen.answers;
    }
}

/// A run whose bundle was joined: its manifest is the one that is named, and each trial's seal that it lists is here.
fn check_shard(folder: &Path, shard: &Shard, trusted: &[PublicKey], findings: &Findings) {
    let Some(expected) = &shard.manifest_sha256 else {
        return;
    };
    let place = format!("{SHARDS}/{}/{MANIFEST}", shard.run);
    if !is_plain(&shard.run) {
        return findings.add(place, "its name leads out of the bundle");
    }
    let kept = folder.join(SHARDS).join(&shard.run);
    let found = fs::File::open(kept.join(MANIFEST)).and_then(|file| digest(file, |_| {}));
    let found = found.map(|entry| entry.sha256).unwrap_or_default();
    if found != *expected {
        findings.add(&place, "it is not the manifest that was joined");
    }
    let mut seals = Seals {
        folder,
        findings,
        ends: BTreeMap::new(),
    };
    let head = match stream::read(&kept.join(MANIFEST), &mut seals) {
        Ok(head) => head,
        Err(because) => return findings.add(place, because),
    };
    let of_bundle = Held {
        run: head
            .get("run")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        manifest_sha256: found,
        journals: seals.ends,
        ..Held::default()
    };
    signature::check_kept(&kept, &shard.run, trusted, &of_bundle, findings);
}

/// The seals that a joined bundle's manifest lists.
struct Seals<'v> {
    folder: &'v Path,
    findings: &'v Findings,
    ends: BTreeMap<String, JournalEnd>,
}

impl<'de> Fields<'de> for Seals<'_> {
    fn take<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error> {
        match name {
            "files" => map.next_value_seed(Entries::to(|path: String, entry: FileEntry| {
                let is_seal = path.split_once('/').is_some_and(|(_, name)| name == SEAL);
                if !is_seal || path.starts_with("..") {
                    return;
                }
                let found = fs::File::open(self.folder.join(&path)).and_then(|f| digest(f, |_| {}));
                if found.ok().as_ref() != Some(&entry) {
                    let what = "it is not the seal that the bundle had from which it was joined";
                    self.findings.add(path, what);
                }
            }))?,
            "journals" => self.ends = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

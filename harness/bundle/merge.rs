//! Joins the bundles of several machines, and proves that together they cover every trial exactly once.
//!
//! The bundles that were joined stay checkable: each one's manifest and signature is kept below `shards/`, and the seals
//! that they name are those of the trials here.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::nextest;
use super::results::State;
use super::shards::SHARDS;
use super::trial::is_plain;
use super::verify::verify;
use crate::attest::{PrivateKey, PublicKey};
use crate::journal::Secrets;
use crate::report::{
    ATTESTATION, Commit, DrillFacts, MANIFEST, Manifest, Population, Results, RunFacts, SIGNER,
    Shard, TrialResult, TrialVerdict, Whole, digest, new_run, open_manifest,
};

/// Why bundles cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error("failed to read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} cannot be relied on: {because}; see `cargo drill verify`", path.display())]
    Unreliable { path: PathBuf, because: String },
    #[error("{} and {} are not of one population: {because}", first.display(), second.display())]
    Unlike {
        first: PathBuf,
        second: PathBuf,
        because: String,
    },
    #[error("{trial} was run twice, in {} and in {}", first.display(), second.display())]
    Twice {
        trial: String,
        first: PathBuf,
        second: PathBuf,
    },
    #[error("{} trials were run in none of the bundles, such as {}: {because}", missing.len(), missing[0])]
    Missing {
        missing: Vec<String>,
        because: String,
    },
    #[error("failed to write the joined bundle: {0}")]
    Write(#[from] io::Error),
}

/// What is to be joined, and where to.
pub struct Order<'o> {
    /// The runs' folders. A run of nextest has parts in place of a manifest.
    pub shards: &'o [PathBuf],
    /// The folder for reports.
    pub reports: &'o Path,
    /// With any, each bundle must be signed by one of these.
    pub trusted: &'o [PublicKey],
    pub key: Option<&'o PrivateKey>,
    /// Every trial there is, for runs of nextest, none of whose processes knows more than its own.
    pub population: &'o dyn Fn() -> Result<RunFacts, String>,
    pub new_fails: bool,
}

/// A bundle that was joined from others.
#[derive(Debug)]
pub struct Merged {
    pub folder: PathBuf,
    pub results: Results,
    pub manifest: Manifest,
}

impl Merged {
    /// How many trials no bundle had run, by the reason.
    pub fn not_run(&self) -> BTreeMap<&str, usize> {
        let mut reasons = BTreeMap::new();
        for entry in &self.manifest.facts.population {
            if let Some(reason) = &entry.not_run {
                *reasons.entry(reason.as_str()).or_default() += 1;
            }
        }
        reasons
    }
}

/// One of the bundles.
struct Part {
    folder: PathBuf,
    /// Absent for a run of nextest.
    manifest: Option<Manifest>,
    /// What the processes of a run of nextest knew, of a drill each.
    facts: Vec<RunFacts>,
    results: Results,
}

/// Joins bundles.
pub fn merge(order: &Order<'_>) -> Result<Merged, MergeError> {
    let parts: Vec<Part> = order
        .shards
        .iter()
        .map(|folder| read(folder, order.trusted))
        .collect::<Result<_, _>>()?;
    let mut facts = facts_of(&parts, order)?;
    let trials = cover(&parts, &mut facts)?;

    let (run, folder) = new_run(order.reports)?;
    let started = parts.iter().map(|part| part.results.started.clone()).min();
    let mut results = Results::of(run, started.unwrap_or_default());
    open_manifest(&folder, &results, facts.clone())?;
    for (part, trial) in trials {
        for bundle in trial.bundles() {
            copy_folder(&part.folder.join(&bundle), &folder.join(&bundle))?;
        }
        results.trials.push(trial);
    }
    results.sort();
    results.finished = parts
        .iter()
        .filter_map(|part| part.results.finished.clone())
        .max();
    facts.shards = parts
        .iter()
        .map(|part| keep_manifest(part, &folder))
        .collect::<io::Result<_>>()?;
    let signer = order.key.map(|key| key.public().id());
    let whole = Whole {
        results: &results,
        facts,
        new_fails: order.new_fails,
        signer: signer.as_deref(),
    };
    // What the trials minted is known to nobody any more. Each bundle was searched for it when it was sealed.
    let manifest = whole.write(&folder, &Secrets::default())?;
    if let Some(key) = order.key {
        super::sign(&folder, &manifest, &results, key)?;
    }
    Ok(Merged {
        folder,
        results,
        manifest,
    })
}

fn read(folder: &Path, trusted: &[PublicKey]) -> Result<Part, MergeError> {
    let unreadable = |source| MergeError::Unreadable {
        path: folder.to_owned(),
        source,
    };
    let unreliable = |because: String| MergeError::Unreliable {
        path: folder.to_owned(),
        because,
    };
    if !folder.join(MANIFEST).exists() && folder.join("parts").is_dir() {
        if !trusted.is_empty() {
            return Err(unreliable("a run of nextest is not signed".to_owned()));
        }
        return Ok(Part {
            folder: folder.to_owned(),
            manifest: None,
            facts: nextest::facts(folder).map_err(unreadable)?,
            results: nextest::results(folder).map_err(unreadable)?,
        });
    }
    let verification = verify(folder, trusted).map_err(unreadable)?;
    if let Some(finding) = verification.findings.first() {
        return Err(unreliable(finding.to_string()));
    }
    if let State::Incomplete(because) = verification.state {
        return Err(unreliable(because));
    }
    let json = |name: &str| fs::read(folder.join(name)).map_err(unreadable);
    let manifest: Manifest = serde_json::from_slice(&json(MANIFEST)?)
        .map_err(io::Error::from)
        .map_err(unreadable)?;
    let results = serde_json::from_slice(&json("results.json")?)
        .map_err(io::Error::from)
        .map_err(unreadable)?;
    if !manifest.facts.shards.is_empty() {
        return Err(unreliable(
            "it was joined itself: give the bundles that it was joined from".to_owned(),
        ));
    }
    Ok(Part {
        folder: folder.to_owned(),
        manifest: Some(manifest),
        facts: Vec::new(),
        results,
    })
}

/// What all of them say of the population; the same, or they cannot be joined.
fn facts_of(parts: &[Part], order: &Order<'_>) -> Result<RunFacts, MergeError> {
    let mut joined: Option<(&Part, RunFacts)> = None;
    for part in parts {
        let Some(manifest) = &part.manifest else {
            continue;
        };
        match &mut joined {
            None => joined = Some((part, manifest.facts.clone())),
            Some((first, facts)) => {
                agree(facts, &manifest.facts).map_err(|because| MergeError::Unlike {
                    first: first.folder.clone(),
                    second: part.folder.clone(),
                    because,
                })?;
            }
        }
    }
    if parts.iter().any(|part| part.manifest.is_none()) {
        let found = (order.population)().map_err(|because| MergeError::Unreadable {
            path: order.reports.to_owned(),
            source: io::Error::other(because),
        })?;
        match &mut joined {
            None => joined = Some((&parts[0], found)),
            Some((first, facts)) => agree(facts, &found).map_err(|because| MergeError::Unlike {
                first: first.folder.clone(),
                second: PathBuf::from("drills"),
                because,
            })?,
        }
    }
    if let Some((first, facts)) = &mut joined {
        for part in parts {
            for known in &part.facts {
                takes_in(facts, known).map_err(|because| MergeError::Unlike {
                    first: first.folder.clone(),
                    second: part.folder.clone(),
                    because,
                })?;
            }
        }
    }
    let (_, facts) = joined.ok_or_else(|| {
        let nothing = io::Error::other("there is nothing to join");
        MergeError::Write(nothing)
    })?;
    Ok(RunFacts {
        partition: None,
        signer: None,
        ..facts
    })
}

/// Whether another manifest speaks of the same drills, trials and servers. What only it knows is taken in.
fn agree(facts: &mut RunFacts, other: &RunFacts) -> Result<(), String> {
    facts.commit = same_commit(facts.commit.take(), other.commit.clone())?;
    let names = |facts: &RunFacts| {
        let mut names: Vec<String> = facts.population.iter().map(name_of).collect();
        names.sort();
        names
    };
    if facts.drills.len() != other.drills.len() || names(facts) != names(other) {
        return Err("they found different trials".to_owned());
    }
    for (drill, other) in facts.drills.iter_mut().zip(&other.drills) {
        same_drill(drill, other)?;
    }
    Ok(())
}

/// Whether what a process of nextest knew is of the same drills, too. What it drilled is taken in.
fn takes_in(facts: &mut RunFacts, known: &RunFacts) -> Result<(), String> {
    facts.commit = same_commit(facts.commit.take(), known.commit.clone())?;
    for other in &known.drills {
        let mut drills = facts.drills.iter_mut();
        let drill = drills.find(|drill| drill.drill == other.drill);
        same_drill(drill.ok_or("they found different drills")?, other)?;
    }
    Ok(())
}

/// The commit of both, dirty if either was. One that is not known makes that of the whole unknown.
fn same_commit(one: Option<Commit>, other: Option<Commit>) -> Result<Option<Commit>, String> {
    match (one, other) {
        (Some(one), Some(other)) if one.id != other.id => {
            Err("they are of different commits".to_owned())
        }
        (Some(one), Some(other)) => Ok(Some(Commit {
            dirty: one.dirty.max(other.dirty),
            ..one
        })),
        _ => Ok(None),
    }
}

fn same_drill(drill: &mut DrillFacts, other: &DrillFacts) -> Result<(), String> {
    if (&drill.drill, &drill.sha256) != (&other.drill, &other.sha256) {
        return Err(format!("the drill {} is another", other.drill));
    }
    for (file, sha256) in &other.server.files {
        let known = drill
            .server
            .files
            .entry(file.clone())
            .or_insert_with(|| sha256.clone());
        if known != sha256 {
            return Err(format!(
                "they drilled different servers: {file} of {}",
                other.drill
            ));
        }
    }
    for package in &other.server.packages {
        if !drill.server.packages.contains(package) {
            drill.server.packages.push(package.clone());
        }
    }
    Ok(())
}

fn name_of(entry: &Population) -> String {
    entry.trial.clone().unwrap_or_else(|| entry.drill.clone())
}

/// For each trial the one bundle that has it. Those that no bundle has must have been left out by all, for one reason that
/// is not that another has it.
fn cover<'p>(
    parts: &'p [Part],
    facts: &mut RunFacts,
) -> Result<Vec<(&'p Part, TrialResult)>, MergeError> {
    let mut taken: BTreeMap<&str, (&Part, &TrialResult)> = BTreeMap::new();
    for part in parts {
        for trial in &part.results.trials {
            match taken.get(trial.name.as_str()) {
                // Left out on one machine for what it lacks, and run on another.
                Some((_, known)) if known.verdict == TrialVerdict::Ignored => {
                    taken.insert(&trial.name, (part, trial));
                }
                Some(_) if trial.verdict == TrialVerdict::Ignored => {}
                Some((first, _)) => {
                    return Err(MergeError::Twice {
                        trial: trial.name.clone(),
                        first: first.folder.clone(),
                        second: part.folder.clone(),
                    });
                }
                None => {
                    taken.insert(&trial.name, (part, trial));
                }
            }
        }
    }
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in &mut facts.population {
        let name = name_of(entry);
        if let Some((_, trial)) = taken.get(name.as_str()) {
            entry.not_run.clone_from(&trial.reason);
            entry.repeats = match &trial.repeats {
                Some(_) => trial.bundles(),
                None => Vec::new(),
            };
            continue;
        }
        let mut reasons: Vec<Option<&str>> = parts
            .iter()
            .filter_map(|part| part.manifest.as_ref())
            .map(|manifest| {
                let mut population = manifest.facts.population.iter();
                let entry = population.find(|entry| name_of(entry) == name);
                entry.and_then(|entry| entry.not_run.as_deref())
            })
            .collect();
        if parts.iter().any(|part| part.manifest.is_none()) {
            // A process of nextest says nothing of what was not run.
            reasons.push(entry.not_run.as_deref());
        }
        reasons.sort_unstable();
        reasons.dedup();
        match reasons.as_slice() {
            [Some(reason)] if !reason.starts_with("in slice:") => {
                entry.not_run = Some((*reason).to_owned());
            }
            [Some(reason)] => missing
                .entry(format!(
                    "they are {reason}, and no bundle of that slice was given"
                ))
                .or_default()
                .push(name),
            _ => missing
                .entry("the bundles give no one reason for it".to_owned())
                .or_default()
                .push(name),
        }
    }
    if let Some((because, missing)) = missing.into_iter().next() {
        return Err(MergeError::Missing { missing, because });
    }
    let trials = taken.into_values();
    Ok(trials.map(|(part, trial)| (part, trial.clone())).collect())
}

/// Keeps what a bundle's signer signed.
fn keep_manifest(part: &Part, folder: &Path) -> io::Result<Shard> {
    let run = part.results.run.to_string();
    let Some(manifest) = &part.manifest else {
        return Ok(Shard {
            run,
            manifest_sha256: None,
            partition: None,
        });
    };
    let kept = folder.join(SHARDS).join(&run);
    fs::create_dir_all(&kept)?;
    for file in [MANIFEST, ATTESTATION, SIGNER] {
        if part.folder.join(file).exists() {
            fs::copy(part.folder.join(file), kept.join(file))?;
        }
    }
    let sha256 = digest(fs::File::open(kept.join(MANIFEST))?, |_| {})?.sha256;
    Ok(Shard {
        run,
        manifest_sha256: Some(sha256),
        partition: manifest.facts.partition.clone(),
    })
}

/// Copies a trial's folder. A link is copied as one.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    if !is_plain(&name) {
        return Err(io::Error::other("a trial's folder has no plain name"));
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
        }
    }
    Ok(())
}

//! Which bundles a command is about: named by their folder, by their run, or the latest.

use std::io;
use std::path::{Path, PathBuf};

use super::args::Folders;
use super::population::Places;
use crate::journal::regular;
use crate::report::{MANIFEST, Manifest, Results, RunFacts, RunId, runs_in};

/// The folders of the runs that were named, or of the latest run.
pub fn find(named: &[PathBuf], folders: &Folders) -> Result<Vec<PathBuf>, String> {
    if named.is_empty() {
        return latest_in(&runs(folders)?).map(|run| vec![run]);
    }
    named.iter().map(|name| one(name, folders)).collect()
}

/// What a bundle says of itself: its manifest's facts, and its results.
pub fn contents(folder: &Path) -> io::Result<(RunFacts, Results)> {
    let manifest: Manifest = serde_json::from_slice(&regular::read(&folder.join(MANIFEST))?)?;
    let results: Results = serde_json::from_slice(&regular::read(&folder.join("results.json"))?)?;
    Ok((manifest.facts, results))
}

/// The folder of a run: a path to it, or its name.
pub fn one(name: &Path, folders: &Folders) -> Result<PathBuf, String> {
    if name.is_dir() {
        return Ok(name.to_owned());
    }
    let is_run = name.to_str().and_then(RunId::parse).is_some();
    if !is_run {
        return Err(format!("{} is neither a folder nor a run", name.display()));
    }
    let runs = runs(folders)?;
    let folder = runs.join(name);
    if folder.is_dir() {
        Ok(folder)
    } else {
        Err(format!("no run {} in {}", name.display(), runs.display()))
    }
}

/// `reports/runs`. Where the reports are named, no drills are needed.
pub fn runs(folders: &Folders) -> Result<PathBuf, String> {
    let reports = match &folders.reports {
        Some(reports) => reports.clone(),
        None => Places::find(folders).map_err(|e| e.to_string())?.reports,
    };
    Ok(reports.join("runs"))
}

/// The run that began last, also one that goes on or was killed: nothing may be decided by the one before it.
fn latest_in(runs: &Path) -> Result<PathBuf, String> {
    let last = runs_in(runs).pop();
    last.ok_or_else(|| format!("no run in {}: `cargo drill` makes one", runs.display()))
}

//! Goes through a bundle once and gathers what is wrong with it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::finding::{Finding, Findings};
use super::listed::Listed;
use super::results::{Checked, RESULTS, State, check_results};
use super::shards::check_shard;
use super::signature::{self, Held, Signature};
use super::stream;
use crate::attest::PublicKey;
use crate::report::{MANIFEST, Shard, digest};

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
    let mut listed = Listed::in_folder(folder, &findings)?;
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

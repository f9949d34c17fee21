//! Goes through a bundle once and gathers what is wrong with it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::finding::{Finding, Findings};
use super::listed::Listed;
use super::results::{Checked, RESULTS, State, check_results};
use super::shards::check_shard;
use super::signature::{self, Held, Signature};
use super::stream;
use super::trial::Commands;
use crate::attest::PublicKey;
use crate::journal::regular;
use crate::report::{DrillFacts, MANIFEST, Shard, digest};

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
    /// How many of them ended with each verdict, as the results say.
    pub verdicts: BTreeMap<String, u64>,
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
    // What is no file is there, too, and said to be none.
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    if !is_there(MANIFEST) {
        if folder.join("parts").is_dir() {
            return Err(io::Error::other(
                "it holds the parts of a run of nextest, which `cargo drill merge` makes into a bundle",
            ));
        }
        if !is_there(RESULTS) {
            return Err(io::Error::other(
                "it holds no bundle: neither manifest.json nor results.json is there",
            ));
        }
        findings.add(MANIFEST, "it is missing");
    }
    let mut listed = Listed::in_folder(folder, &findings)?;
    let head = if is_there(MANIFEST) {
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
    check_schema(MANIFEST, &head, &findings);
    let Listed {
        files,
        journals,
        population,
        ..
    } = listed;

    let mut checked = Checked::new(folder, population, finished.is_some(), &findings);
    let seen = check_results(folder, &mut checked, &commands(head.get("drills")))?;
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
    let manifest_sha256 = match regular::open(&folder.join(MANIFEST)) {
        Ok(file) => digest(file, |_| {})?.sha256,
        Err(_) => String::new(),
    };
    let of_bundle = Held {
        run: run.clone(),
        manifest_sha256,
        signer: text("signer"),
        is_complete: state == State::Complete,
        journals,
        told: checked.told,
    };
    let signature = signature::check(folder, trusted, &of_bundle, &findings);
    let tool = head.get("tool").and_then(|tool| {
        let word = |name: &str| tool.get(name).and_then(Value::as_str);
        Some(format!("{} {}", word("name")?, word("version")?))
    });
    let (trials, verdicts, not_run) = (checked.trials, checked.verdicts, checked.not_run);
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
        verdicts,
        answers: seen.answers,
        events: seen.events,
        not_run,
        findings,
        more,
    })
}

/// A version of the shape that this tool does not know may mean something else.
fn check_schema(place: &str, head: &serde_json::Map<String, Value>, findings: &Findings) {
    match head.get("schema").and_then(Value::as_u64) {
        Some(1) => {}
        Some(other) => {
            let what =
                format!("its schema is {other}, and this tool knows 1: use the tool that wrote it");
            findings.add(place, what);
        }
        None if head.is_empty() => {}
        None => findings.add(place, "it does not say which schema it has"),
    }
}

fn commands(drills: Option<&Value>) -> Commands {
    let drills =
        drills.and_then(|drills| serde_json::from_value::<Vec<DrillFacts>>(drills.clone()).ok());
    let named = drills.unwrap_or_default().into_iter();
    named
        .map(|drill| (drill.drill, drill.server.command))
        .collect()
}

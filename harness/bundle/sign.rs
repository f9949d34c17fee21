//! Signs a bundle: two statements, of the same subjects, about the same run.
//!
//! The first is in-toto's test-result v0.1, which every reader of attestations knows. It has names that passed, warned and
//! failed, and no more; what was asked of what, and what was not run, is in the second, whose predicate is ours:
//!
//! ```text
//! run, started, finished, tool, commit, machine, actor, partition     as in manifest.json
//! complete                                     every trial that was found was run, ignored or filtered out
//! drills[]                                     drill, file, sha256, controls, server { command, files, packages }
//! trials[]                                     name, verdict, known[], answers { question: verdict }
//! not_run[]                                    trial, reason
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::attest::{Envelope, PrivateKey, ResourceDescriptor, Statement};
use crate::judge::Verdict;
use crate::report::{
    ATTESTATION, MANIFEST, Manifest, Results, SIGNER, TrialResult, TrialVerdict, digest,
    write_whole,
};

pub(super) const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
pub(super) const RUN: &str = "https://cargo-drill.dev/run/v0.1";

/// What test-result v0.1 says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TestResult {
    pub result: Overall,
    pub configuration: Vec<Value>,
    #[serde(default)]
    pub passed_tests: Vec<String>,
    #[serde(default)]
    pub warned_tests: Vec<String>,
    #[serde(default)]
    pub failed_tests: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Overall {
    Passed,
    Warned,
    Failed,
}

/// How a trial is told in a test-result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Told {
    Passed,
    /// It held because what is broken stands under `known`.
    Warned,
    Failed,
    /// It was not run, and is no test that passed or failed.
    Absent,
}

/// How a trial is told.
pub(super) fn told(trial: &TrialResult) -> Told {
    let is_excused = |t: &TrialResult| t.answers.iter().any(|answer| answer.known);
    match trial.verdict {
        TrialVerdict::Held if is_excused(trial) => Told::Warned,
        TrialVerdict::Held => Told::Passed,
        TrialVerdict::Ignored => Told::Absent,
        TrialVerdict::Unproven | TrialVerdict::Broken | TrialVerdict::Error => Told::Failed,
    }
}

/// Signs the run whose manifest has just been written, and lays statements and public key beside it.
pub fn sign(
    folder: &Path,
    manifest: &Manifest,
    results: &Results,
    key: &PrivateKey,
) -> io::Result<()> {
    let subjects = subjects(folder, manifest)?;
    let statements = [
        Statement::new(
            TEST_RESULT,
            subjects.clone(),
            serde_json::to_value(test_result(manifest, results))?,
        ),
        Statement::new(RUN, subjects, run(manifest, results)),
    ];
    let mut lines = Vec::new();
    for statement in &statements {
        serde_json::to_writer(&mut lines, &Envelope::sign(statement, key)?)?;
        lines.push(b'\n');
    }
    write_whole(&folder.join(SIGNER), key.public().to_pem().as_bytes())?;
    write_whole(&folder.join(ATTESTATION), &lines)
}

/// What the statements are about: the manifest, each journal with its count and head, and the files of the servers.
fn subjects(folder: &Path, manifest: &Manifest) -> io::Result<Vec<ResourceDescriptor>> {
    let file = digest(fs::File::open(folder.join(MANIFEST))?, |_| {})?;
    let mut subjects = vec![ResourceDescriptor::of_sha256(MANIFEST, &file.sha256)];
    for (path, end) in &manifest.journals {
        if let Some(file) = manifest.files.get(path) {
            let journal = ResourceDescriptor::of_sha256(path, &file.sha256)
                .with("events", json!(end.events))
                .with("head", json!(end.head));
            subjects.push(journal);
        }
    }
    // Two drills may name the same interpreter.
    let mut files = BTreeMap::new();
    for drill in &manifest.facts.drills {
        for (path, sha256) in &drill.server.files {
            let entry = files
                .entry((path, sha256))
                .or_insert_with(|| (Vec::new(), Vec::new()));
            let (drills, packages): &mut (Vec<&str>, Vec<String>) = entry;
            drills.push(&drill.drill);
            packages.extend(
                drill
                    .server
                    .packages
                    .iter()
                    .map(crate::report::Package::url),
            );
        }
    }
    for ((path, sha256), (drills, mut packages)) in files {
        packages.sort();
        packages.dedup();
        let mut server = ResourceDescriptor::of_sha256(path, sha256).with("drills", json!(drills));
        if !packages.is_empty() {
            server = server.with("packages", json!(packages));
        }
        subjects.push(server);
    }
    Ok(subjects)
}

fn test_result(manifest: &Manifest, results: &Results) -> TestResult {
    let named = |what: Told| {
        let trials = results.trials.iter().filter(|trial| told(trial) == what);
        trials.map(|trial| trial.name.clone()).collect::<Vec<_>>()
    };
    let (passed, warned, failed) = (
        named(Told::Passed),
        named(Told::Warned),
        named(Told::Failed),
    );
    let drills = manifest.facts.drills.iter();
    TestResult {
        result: overall(
            passed.len(),
            warned.len(),
            failed.len(),
            manifest.is_complete(),
        ),
        configuration: drills
            .map(|drill| json!(ResourceDescriptor::of_sha256(&drill.file, &drill.sha256)))
            .collect(),
        passed_tests: passed,
        warned_tests: warned,
        failed_tests: failed,
    }
}

/// A run in which nothing passed, or that was interrupted, has not passed.
pub(super) fn overall(passed: usize, warned: usize, failed: usize, is_complete: bool) -> Overall {
    if failed > 0 || !is_complete || passed + warned == 0 {
        Overall::Failed
    } else if warned > 0 {
        Overall::Warned
    } else {
        Overall::Passed
    }
}

fn run(manifest: &Manifest, results: &Results) -> Value {
    let trials = results.trials.iter().map(|trial| {
        let answers: serde_json::Map<String, Value> = trial
            .answers
            .iter()
            .map(|answer| (answer.question.to_string(), json!(answer.verdict)))
            .collect();
        let known = trial.answers.iter().filter(|answer| answer.known);
        let known: Vec<_> = known
            .filter(|answer| answer.verdict != Verdict::Held)
            .map(|answer| answer.question)
            .collect();
        json!({ "name": trial.name, "verdict": trial.verdict, "known": known, "answers": answers })
    });
    let not_run = manifest.facts.population.iter().filter_map(|entry| {
        let reason = entry.not_run.as_ref()?;
        let trial = entry.trial.as_ref().unwrap_or(&entry.drill);
        Some(json!({ "trial": trial, "reason": reason }))
    });
    json!({
        "run": manifest.run,
        "started": manifest.started,
        "finished": manifest.finished,
        "tool": manifest.tool,
        "commit": manifest.facts.commit,
        "machine": manifest.machine,
        "actor": manifest.actor,
        "partition": manifest.facts.partition,
        "complete": manifest.is_complete(),
        "drills": manifest.facts.drills,
        "trials": trials.collect::<Vec<_>>(),
        "not_run": not_run.collect::<Vec<_>>(),
    })
}

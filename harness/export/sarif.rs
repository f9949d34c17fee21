//! `results.sarif`: what did not hold, as SARIF 2.1.0, for code scanning and for editors.
//!
//! The rules are the codes of the catalogue of findings. A result stands at the line of the drill's file from which its trial comes, and keeps its
//! fingerprint from run to run. What the drill lists as known is a note that is suppressed, with the drill's reason.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::objection::{excused, objections};
use super::{EndedRun, ExportError, Kind, Objection, inert, uri};
use crate::journal::hex;
use crate::judge::{Answer, FINDINGS, Finding};
use crate::report::{TrialResult, TrialVerdict, one_line};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
/// Where the questions are described.
const HOME: &str = "https://crates.io/crates/cargo-drill";
/// The base of the drills' files: the top of the repository.
const ROOT: &str = "%SRCROOT%";
/// What fails a trial without being a question.
const SNAPSHOT: &str = "snapshot";
const TRIAL: &str = "trial";

/// The text of `results.sarif`.
pub fn render_sarif(run: &EndedRun<'_>) -> Result<String, ExportError> {
    let mut results = Vec::new();
    let mut notifications = Vec::new();
    for trial in run.results.in_order() {
        for objection in objections(trial, run.new_fails) {
            if objection.kind == Kind::Error && objection.answers.is_empty() {
                notifications.push(notification(run, trial, &objection));
            } else {
                results.extend(failures(run, trial, &objection));
            }
        }
        results.extend(excused(trial).flat_map(|answer| known(run, trial, answer)));
    }
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": driver() },
            "automationDetails": { "id": format!("cargo-drill/{}", run.results.run) },
            "originalUriBaseIds": {
                ROOT: { "description": { "text": "The top of the repository that holds the drills." } }
            },
            "invocations": [invocation(run, &notifications)],
            "artifacts": artifacts(run),
            "columnKind": "unicodeCodePoints",
            "results": results,
            "properties": properties(run),
        }],
    });
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

fn driver() -> Value {
    let mut rules: Vec<Value> = FINDINGS.iter().map(rule).collect();
    rules.push(plain_rule(
        SNAPSHOT,
        "The snapshot of a trial is the approved one.",
        "The stable text of a trial differs from the approved one, or nobody has approved it.",
    ));
    rules.push(plain_rule(
        TRIAL,
        "A trial answers its questions, the same in each repeat.",
        "A trial that answers nothing, or differently each time, proves nothing.",
    ));
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "informationUri": HOME,
        "rules": rules,
    })
}

fn rule(finding: &Finding) -> Value {
    plain_rule(
        finding.id,
        finding.found,
        &format!(
            "{} {} What to do: {}",
            finding.found, finding.means, finding.hint
        ),
    )
}

fn plain_rule(id: &str, short: &str, full: &str) -> Value {
    json!({
        "id": id,
        "name": id,
        "shortDescription": { "text": short },
        "fullDescription": { "text": full },
        "help": { "text": full, "markdown": inert(full) },
        "helpUri": HOME,
        "defaultConfiguration": { "level": "error" },
        "properties": { "tags": ["mcp", "crash-drill"] },
    })
}

/// One result for each finding of each answer, so that each keeps a fingerprint of its own.
fn failures(run: &EndedRun<'_>, trial: &TrialResult, objection: &Objection<'_>) -> Vec<Value> {
    let of = |rule: &str, answer: Option<&Answer>| {
        let text = format!(
            "{} {} at {}: {}",
            rule,
            objection.kind.word(),
            trial.name,
            objection.sentence
        );
        let mut result = result(run, trial, rule, answer, &text);
        result["level"] = json!("error");
        result["properties"]["verdict"] = json!(objection.kind.word());
        result
    };
    if objection.answers.is_empty() {
        let rule = if objection.kind == Kind::Snapshot {
            SNAPSHOT
        } else {
            TRIAL
        };
        return vec![of(rule, None)];
    }
    let answers = objection.answers.iter();
    answers
        .flat_map(|answer| {
            let rules = rules_of(answer);
            rules.into_iter().map(|rule| of(rule, Some(answer)))
        })
        .collect()
}

/// The rules that an answer breaks. One that is unstable may have held in the repeat that is shown, and has no code then.
fn rules_of(answer: &Answer) -> Vec<&'static str> {
    if answer.codes.is_empty() {
        return vec![TRIAL];
    }
    answer.codes.iter().map(|code| code.finding().id).collect()
}

fn known(run: &EndedRun<'_>, trial: &TrialResult, answer: &Answer) -> Vec<Value> {
    let because = run.known_because(&trial.drill, answer.question);
    let of = |rule: &str| {
        let text = format!(
            "{rule} {} at {}: {}",
            answer.verdict,
            trial.name,
            trial.sentence_of(answer)
        );
        let mut result = result(run, trial, rule, Some(answer), &text);
        result["level"] = json!("note");
        result["suppressions"] = json!([{
            "kind": "external",
            "status": "accepted",
            "justification": one_line(because.unwrap_or("The drill lists it as known to be broken.")),
        }]);
        result["properties"]["verdict"] = json!("known");
        result
    };
    rules_of(answer).into_iter().map(of).collect()
}

fn result(
    run: &EndedRun<'_>,
    trial: &TrialResult,
    rule: &str,
    answer: Option<&Answer>,
    text: &str,
) -> Value {
    let fingerprint = fingerprint(trial, rule);
    let bundle = answer.map_or_else(|| trial.bundle.clone(), |answer| trial.bundle_of(answer));
    let mut result = json!({
        "ruleId": rule,
        "ruleIndex": rule_index(rule),
        "kind": "fail",
        "message": { "text": message(text) },
        "locations": [location(run, trial)],
        // GitHub tells alerts apart by the second, and would make it from the line alone.
        "partialFingerprints": {
            "answer/v1": fingerprint,
            "primaryLocationLineHash": format!("{}:1", &fingerprint[..16]),
        },
        "properties": {
            "trial": trial.name,
            "evidence": answer.map(|answer| answer.evidence.clone()).unwrap_or_default(),
        },
    });
    if let Some(bundle) = bundle {
        result["properties"]["bundle"] = json!(bundle);
    }
    result
}

fn location(run: &EndedRun<'_>, trial: &TrialResult) -> Value {
    let mut location = json!({
        "logicalLocations": [{ "fullyQualifiedName": trial.name, "kind": "member" }],
    });
    if let Some((file, line)) = run.place_of(&trial.drill, &trial.name) {
        location["physicalLocation"] = json!({
            "artifactLocation": { "uri": uri(&file), "uriBaseId": ROOT },
            "region": { "startLine": line },
        });
    }
    location
}

fn notification(run: &EndedRun<'_>, trial: &TrialResult, objection: &Objection<'_>) -> Value {
    json!({
        "level": "error",
        "message": { "text": message(&format!("{}: {}", trial.name, objection.sentence)) },
        "locations": [location(run, trial)],
        "properties": { "trial": trial.name },
    })
}

fn invocation(run: &EndedRun<'_>, notifications: &[Value]) -> Value {
    let has_failed = |trial: &TrialResult| trial.verdict == TrialVerdict::Error;
    let finished = run.results.finished.as_deref();
    let successful = finished.is_some() && !run.results.trials.iter().any(has_failed);
    let mut invocation = json!({
        "executionSuccessful": successful,
        "startTimeUtc": run.results.started,
        "toolExecutionNotifications": notifications,
    });
    if let Some(finished) = finished {
        invocation["endTimeUtc"] = json!(finished);
    }
    invocation
}

/// The drills' files, by their digests.
fn artifacts(run: &EndedRun<'_>) -> Vec<Value> {
    let drills = run.facts.drills.iter();
    drills
        .map(|drill| {
            json!({
                "location": { "uri": uri(&run.file_of(drill)), "uriBaseId": ROOT },
                "hashes": { "sha-256": drill.sha256 },
                "mimeType": "application/yaml",
            })
        })
        .collect()
}

fn properties(run: &EndedRun<'_>) -> Value {
    let counts = run.results.counts();
    let not_run = run
        .facts
        .population
        .iter()
        .filter(|found| found.not_run.is_some());
    let mut properties = json!({
        "run": run.results.run,
        "trials": {
            "held": counts.held,
            "broken": counts.broken,
            "unproven": counts.unproven,
            "error": counts.error,
            "ignored": counts.ignored,
        },
        "notRun": not_run.count(),
    });
    if let Some(commit) = &run.facts.commit {
        properties["commit"] = json!(commit.id);
    }
    if let Some(cell) = &run.facts.cell {
        properties["cell"] = json!(cell);
    }
    properties
}

/// The same for the same answer in every run.
fn fingerprint(trial: &TrialResult, rule: &str) -> String {
    let named = [trial.drill.as_str(), trial.name.as_str(), rule].join("\u{0}");
    hex(&Sha256::digest(named))
}

fn rule_index(rule: &str) -> usize {
    let finding = FINDINGS.iter().position(|finding| finding.id == rule);
    finding.unwrap_or(FINDINGS.len() + usize::from(rule == TRIAL))
}

/// Plain text of a SARIF message, in which `[text](target)` would be a link and `{0}` a place to fill (sections 3.11.5 and
/// 3.11.6).
fn message(text: &str) -> String {
    one_line(text)
        .replace("](", "] (")
        .replace('{', "{{")
        .replace('}', "}}")
}

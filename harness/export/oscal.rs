//! `oscal.json`: OSCAL assessment results, for whoever keeps the controls.
//!
//! ```text
//!   answer   ──> observation   (method TEST, with its evidence)
//!   control  ──> finding       (satisfied only where all that names it was run, nothing was left out, and all held)
//!   server   ──> component     (the subject), the tool likewise (the actor)
//! ```
//!
//! Each identifier is a UUID of version 5, made of what the file says: the same results give the same file, so that it
//! can be made again and compared, and other results never share one, as OSCAL demands of a file that changed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::controls::{Control, Matrix, State};
use super::{EndedRun, ExportError, asks, inert, uri};
use crate::journal::{hex, printable};
use crate::judge::{Answer, Verdict};
use crate::report::{TrialResult, one_line};

/// The version of OSCAL that the file is written for.
const VERSION: &str = "1.2.1";
/// The space of our own properties.
const NAMESPACE: &str = "https://cargo-drill.dev/ns/oscal";
/// What a trial that could not be carried through is known by, in the place of a question.
const TRIAL: &str = "trial";

/// The text of `oscal.json`: one run, or several together as one result.
pub fn render_oscal(runs: &[EndedRun<'_>]) -> Result<String, ExportError> {
    let names = Names::of(runs)?;
    let matrix = Matrix::of(runs);
    let tokens = tokens(&matrix);
    let started = runs.iter().map(|run| run.results.started.as_str()).min();
    let ended = runs
        .iter()
        .filter_map(|run| run.results.finished.as_deref())
        .max();
    let title = match runs {
        [run] => format!("Crash drills, run {}", run.results.run),
        _ => format!("Crash drills, {} runs", runs.len()),
    };
    let start = started.unwrap_or("1970-01-01T00:00:00Z");
    let mut result = json!({
        "uuid": names.of_part("result"),
        "title": title,
        "description": "What servers did when their client died in the middle of an external write. Each answer is an \
                        observation; each control that a drill names has a finding.",
        "start": start,
        "props": run_props(runs),
        "local-definitions": local_definitions(runs, &names),
        "reviewed-controls": reviewed(&matrix, &tokens),
    });
    if let Some(ended) = ended {
        result["end"] = json!(ended);
    }
    // OSCAL has no empty lists.
    let observations: Vec<Value> = runs
        .iter()
        .flat_map(|run| observations(*run, &names))
        .collect();
    if !observations.is_empty() {
        result["observations"] = json!(observations);
    }
    let findings: Vec<Value> = matrix
        .controls
        .iter()
        .map(|control| finding(control, &tokens, &names))
        .collect();
    if !findings.is_empty() {
        result["findings"] = json!(findings);
    }
    let plan = names.of_part("plan");
    let document = json!({
        "assessment-results": {
            "uuid": names.of_part("document"),
            "metadata": {
                "title": title,
                "last-modified": ended.unwrap_or(start),
                "version": runs.iter().map(|run| run.results.run.as_str()).collect::<Vec<_>>().join(" "),
                "oscal-version": VERSION,
            },
            "import-ap": {
                "href": format!("#{plan}"),
                "remarks": "The drills are the plan; the manifest names each one's file with its digest.",
            },
            "results": [result],
            "back-matter": { "resources": [plan_resource(runs, &plan)] },
        }
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Makes the identifiers.
struct Names {
    space: Uuid,
}

impl Names {
    fn of(runs: &[EndedRun<'_>]) -> Result<Self, ExportError> {
        let mut digest = Sha256::new();
        for run in runs {
            digest.update(serde_json::to_vec(run.results)?);
            digest.update(serde_json::to_vec(run.facts)?);
            digest.update([u8::from(run.new_fails)]);
            digest.update(run.folder);
        }
        let ours = Uuid::new_v5(&Uuid::NAMESPACE_URL, NAMESPACE.as_bytes());
        let space = Uuid::new_v5(&ours, hex(&digest.finalize()).as_bytes());
        Ok(Self { space })
    }

    fn of_part(&self, part: &str) -> String {
        self.of_parts(&[part])
    }

    fn of_parts(&self, parts: &[&str]) -> String {
        Uuid::new_v5(&self.space, parts.join("\u{0}").as_bytes()).to_string()
    }

    fn observation(&self, run: &str, trial: &str, about: &str) -> String {
        self.of_parts(&["observation", run, &printable(trial), about])
    }

    fn server(&self, drill: &str) -> String {
        self.of_parts(&["server", drill])
    }
}

fn run_props(runs: &[EndedRun<'_>]) -> Vec<Value> {
    let mut props = Vec::new();
    for run in runs {
        props.extend(prop("run", run.results.run.as_str()));
        let commit = run.facts.commit.as_ref();
        props.extend(commit.and_then(|commit| prop("commit", &commit.id)));
        props.extend(
            run.facts
                .cell
                .as_deref()
                .and_then(|cell| prop("cell", cell)),
        );
    }
    props
}

/// A property of ours; none where there is nothing to say.
fn prop(name: &str, value: &str) -> Option<Value> {
    let value = one_line(value);
    (!value.is_empty()).then(|| json!({ "name": name, "ns": NAMESPACE, "value": value }))
}

fn local_definitions(runs: &[EndedRun<'_>], names: &Names) -> Value {
    let tool = names.of_part("tool");
    let mut definitions = json!({
        "assessment-assets": {
            "components": [{
                "uuid": tool,
                "type": "software",
                "title": "cargo-drill",
                "description": "Crash drills for MCP servers.",
                "props": [{ "name": "version", "value": env!("CARGO_PKG_VERSION") }],
                "status": { "state": "operational" },
            }],
            "assessment-platforms": [{
                "uuid": names.of_part("platform"),
                "title": "The machine on which the drills ran",
                "uses-components": [{ "component-uuid": tool }],
            }],
        }
    });
    let mut servers = BTreeMap::new();
    for run in runs {
        let observed = run.results.trials.iter().map(|trial| trial.drill.as_str());
        let known = run.facts.drills.iter().map(|drill| drill.drill.as_str());
        for drill in observed.chain(known) {
            servers.insert(drill, server(run, drill, names));
        }
    }
    if !servers.is_empty() {
        definitions["components"] = servers.into_values().collect();
    }
    definitions
}

fn server(run: &EndedRun<'_>, name: &str, names: &Names) -> Value {
    let facts = run.drill(name);
    let about = facts.and_then(|drill| drill.about.as_deref());
    let about = about.map_or_else(
        || format!("The server of the drill {name}."),
        ToOwned::to_owned,
    );
    let mut props: Vec<Value> = prop("drill", name).into_iter().collect();
    if let Some(drill) = facts {
        props.extend(prop("drill-file", &run.file_of(drill)));
        props.extend(prop("drill-sha256", &drill.sha256));
        props.extend(prop("command", &drill.server.command.join(" ")));
        for (file, sha256) in &drill.server.files {
            props.extend(prop("file-sha256", &format!("{file} {sha256}")));
        }
        for package in &drill.server.packages {
            props.extend(prop("package", &package.url()));
        }
    }
    let title = one_line(name);
    let title = if title.is_empty() { "server" } else { &title };
    json!({
        "uuid": names.server(name),
        "type": "software",
        "title": inert(title),
        "description": inert(&about),
        "props": props,
        "status": { "state": "other", "remarks": "A server under drill; where it is in use is not known here." },
    })
}

/// Every control that a drill names, each with what the drills call it.
fn reviewed(matrix: &Matrix, tokens: &BTreeMap<String, String>) -> Value {
    if matrix.controls.is_empty() {
        // A selection must select something: all of a plan that has no control is none.
        return json!({ "control-selections": [{
            "description": "No drill names a control, so none was assessed.",
            "include-all": {},
        }] });
    }
    let selections: Vec<Value> = tokens
        .iter()
        .map(|(name, token)| {
            json!({
                "description": inert(name),
                "props": prop("control", name).into_iter().collect::<Vec<_>>(),
                "include-controls": [{ "control-id": token }],
            })
        })
        .collect();
    let objectives: Vec<Value> = tokens
        .values()
        .map(|token| json!({ "objective-id": token }))
        .collect();
    json!({
        "control-selections": selections,
        "control-objective-selections": [{ "include-objectives": objectives }],
    })
}

fn observations(run: EndedRun<'_>, names: &Names) -> Vec<Value> {
    let mut all = Vec::new();
    for trial in run.results.in_order() {
        if let Some(error) = &trial.error {
            let said = Said {
                about: TRIAL.to_owned(),
                asks: "Could the trial be carried through?",
                verdict: Verdict::Error,
                sentence: error.clone(),
                answer: None,
            };
            all.push(said.observation(run, trial, names));
        } else if trial.answers.is_empty() && trial.reason.is_none() {
            let said = Said {
                about: TRIAL.to_owned(),
                asks: "Could the trial be carried through?",
                verdict: Verdict::Unproven,
                sentence: "No question was answered.".to_owned(),
                answer: None,
            };
            all.push(said.observation(run, trial, names));
        }
        for answer in &trial.answers {
            let said = Said {
                about: answer.question.to_string(),
                asks: asks(answer.question),
                verdict: answer.verdict,
                sentence: trial.sentence_of(answer),
                answer: Some(answer),
            };
            all.push(said.observation(run, trial, names));
        }
    }
    all
}

/// What one observation says.
struct Said<'a> {
    about: String,
    asks: &'static str,
    verdict: Verdict,
    sentence: String,
    answer: Option<&'a Answer>,
}

impl Said<'_> {
    fn observation(&self, run: EndedRun<'_>, trial: &TrialResult, names: &Names) -> Value {
        let verdict = self.verdict.to_string();
        let mut props: Vec<Value> = [
            ("run", run.results.run.as_str()),
            ("trial", &trial.name),
            ("question", &self.about),
            ("verdict", &verdict),
        ]
        .into_iter()
        .filter_map(|(name, value)| prop(name, value))
        .collect();
        let known = self.answer.filter(|answer| answer.known);
        if let Some(answer) = known {
            let because = run.known_because(&trial.drill, answer.question);
            props.extend(prop("known", because.unwrap_or("listed by the drill")));
        }
        let collected = run
            .results
            .finished
            .as_deref()
            .unwrap_or(&run.results.started);
        let mut observation = json!({
            "uuid": names.observation(run.results.run.as_str(), &trial.name, &self.about),
            "title": format!("{} at {}: {verdict}", self.about, inert(&trial.name)),
            "description": inert(&format!("{} {}", self.asks, self.sentence)),
            "props": props,
            "methods": ["TEST"],
            "types": ["control-objective"],
            "origins": [{ "actors": [{ "type": "tool", "actor-uuid": names.of_part("tool") }] }],
            "subjects": [{ "subject-uuid": names.server(&trial.drill), "type": "component" }],
            "collected": collected,
        });
        let bundle = match self.answer {
            Some(answer) => trial.bundle_of(answer),
            None => trial.bundle.clone(),
        };
        if let Some(bundle) = bundle {
            let path = |file: &str| uri(&format!("{}{bundle}/{file}", run.folder));
            let events = self.answer.map(|answer| &answer.evidence);
            let events: Vec<String> = events
                .into_iter()
                .flatten()
                .map(ToString::to_string)
                .collect();
            let journal = match events.as_slice() {
                [] => "The trial's journal.".to_owned(),
                events => format!("The trial's journal, events {}.", events.join(", ")),
            };
            observation["relevant-evidence"] = json!([
                { "href": path("journal.jsonl"), "description": journal },
                { "href": path("answers.json"), "description": "What the judge said of the trial." },
            ]);
        }
        observation
    }
}

fn finding(control: &Control, tokens: &BTreeMap<String, String>, names: &Names) -> Value {
    let (state, reason) = match control.state {
        State::Held => ("satisfied", "pass"),
        State::Known | State::Broken => ("not-satisfied", "fail"),
        State::NotEvidenced(_) | State::Unproven | State::Error => ("not-satisfied", "other"),
    };
    let mut said = format!("{}.", control.state.word());
    for reason in [control.state.reason()].into_iter().chain(control.notes()) {
        if !reason.is_empty() && !said.contains(&reason) {
            said = format!("{said} {reason}.");
        }
    }
    let mut finding = json!({
        "uuid": names.of_parts(&["finding", &control.name]),
        "title": inert(&control.name),
        "description": inert(&said),
        "props": prop("control", &control.name)
            .into_iter()
            .chain(prop("state", control.state.word()))
            .collect::<Vec<_>>(),
        "origins": [{ "actors": [{ "type": "tool", "actor-uuid": names.of_part("tool") }] }],
        "target": {
            "type": "objective-id",
            "target-id": tokens.get(&control.name),
            "status": { "state": state, "reason": reason, "remarks": inert(&said) },
        },
    });
    let related: BTreeSet<String> = control
        .proofs()
        .map(|(question, proof)| {
            // What no answer says is one observation for the whole trial.
            let about = if proof.is_of_trial {
                TRIAL.to_owned()
            } else {
                question.to_string()
            };
            names.observation(&proof.run, &proof.trial, &about)
        })
        .collect();
    if !related.is_empty() {
        let related = related
            .into_iter()
            .map(|uuid| json!({ "observation-uuid": uuid }));
        finding["related-observations"] = related.collect();
    }
    finding
}

fn plan_resource(runs: &[EndedRun<'_>], uuid: &str) -> Value {
    let manifests: Vec<Value> = runs
        .iter()
        .map(|run| {
            let href = uri(&format!("{}manifest.json", run.folder));
            json!({ "href": href, "media-type": "application/json" })
        })
        .collect();
    json!({
        "uuid": uuid,
        "title": "The drills",
        "description": "Each drill is a file that says which server is started, when its client is killed and what must \
                        hold. The manifest of the run has all of them, and the reason for each trial that was not run.",
        "rlinks": manifests,
    })
}

/// What OSCAL takes for a control's identifier, for each control by name: a token begins with a letter and has no spaces.
/// `AC-2(1)` is `ac-2.1`, as NIST writes it. Where two names come to the same, they get a tail made of their digest.
fn tokens(matrix: &Matrix) -> BTreeMap<String, String> {
    let names: Vec<&str> = matrix
        .controls
        .iter()
        .map(|control| control.name.as_str())
        .collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in &names {
        *counts.entry(token(name)).or_default() += 1;
    }
    let all = names.into_iter().map(|name| {
        let token = token(name);
        let token = match counts.get(&token) {
            Some(1) => token,
            _ => format!("{token}-{}", &hex(&Sha256::digest(name))[..8]),
        };
        (name.to_owned(), token)
    });
    all.collect()
}

fn token(name: &str) -> String {
    let mut token = String::new();
    for c in name.trim().chars() {
        match c {
            'a'..='z' | '0'..='9' | '.' | '_' => token.push(c),
            'A'..='Z' => token.push(c.to_ascii_lowercase()),
            '(' => token.push('.'),
            ')' => {}
            _ if token.ends_with('-') => {}
            _ => token.push('-'),
        }
    }
    let token = token.trim_end_matches(['-', '.']);
    if token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        token.to_owned()
    } else {
        format!("control-{token}").trim_end_matches('-').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_of_any_name_becomes_a_token() {
        for (name, expected) in [
            ("SOC 2 CC7.4", "soc-2-cc7.4"),
            ("AC-2(1)", "ac-2.1"),
            ("7.4", "control-7.4"),
            ("§ 8", "control--8"),
            ("<script>", "control--script"),
            ("日本", "control"),
        ] {
            assert_eq!(token(name), expected);
        }
    }
}

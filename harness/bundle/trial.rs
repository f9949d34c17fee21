//! Checks one trial: its journal, its answers, and what the results say of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::finding::Findings;
use crate::journal::{Event, Line, Secrets, hex, read, regular};
use crate::judge::{self, Answer, Judgement, Repeat, together};
use crate::report::{SEAL, Seal, TrialName, TrialResult, TrialVerdict};
use crate::spec::Drill;
use crate::trial::ANSWERS;

/// What is counted on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub events: u64,
    pub answers: u64,
    /// Trials that were cut short.
    pub cut_short: u64,
}

/// The command of each drill's server, as the manifest has it.
pub(super) type Commands = BTreeMap<String, Vec<String>>;

/// Checks a trial that was run, all of its repeats, and what `result` says of it.
pub(super) fn check(
    run: &Path,
    result: &TrialResult,
    commands: &Commands,
    findings: &Findings,
) -> Seen {
    let mut seen = Seen::default();
    let mut repeats = Vec::new();
    for bundle in result.bundles() {
        if !is_plain(&bundle) {
            findings.add(&result.name, "its folder's name leads out of the bundle");
            return seen;
        }
        match check_folder(run, &bundle, result, commands, &mut seen, findings) {
            Some(repeat) => repeats.push(repeat),
            None => return seen,
        }
    }
    compare(result, &repeats, findings);
    seen
}

/// A name of a folder right below the bundle.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// Checks what one carrying out has left, and judges it again.
fn check_folder(
    run: &Path,
    bundle: &str,
    result: &TrialResult,
    commands: &Commands,
    seen: &mut Seen,
    findings: &Findings,
) -> Option<Repeat> {
    let folder = run.join(bundle);
    let at = |name: &str| format!("{bundle}/{name}");
    if !folder.symlink_metadata().is_ok_and(|it| it.is_dir()) {
        findings.add(bundle, "it is no folder");
        return None;
    }
    let recorded = match read(&folder.join("journal.jsonl")) {
        Ok(recorded) => recorded,
        Err(error) => {
            findings.add(at("journal.jsonl"), error.to_string());
            return None;
        }
    };
    if recorded.torn_tail {
        findings.add(at("journal.jsonl"), "it ends in the middle of a line");
    }
    seen.events += recorded.lines.len() as u64;
    is_of(
        &result.name,
        &recorded.lines,
        &at("journal.jsonl"),
        findings,
    );
    let drill = match regular::read(&folder.join("drill.json")) {
        Ok(drill) => drill,
        Err(error) => {
            findings.add(at("drill.json"), format!("it cannot be read: {error}"));
            return None;
        }
    };
    let named = recorded.lines.iter().find_map(|line| match &line.event {
        Event::TrialStarted { drill_sha256, .. } => drill_sha256.clone(),
        _ => None,
    });
    if named.as_deref() != Some(&hex(&Sha256::digest(&drill))) {
        findings.add(
            at("drill.json"),
            "it is not the drill that the journal names: what was asked has been changed",
        );
    }
    let drill: Drill = match serde_json::from_slice(&drill) {
        Ok(drill) => drill,
        Err(error) => {
            findings.add(at("drill.json"), format!("it is no drill: {error}"));
            return None;
        }
    };
    // Of another drill of this name, in another run, say.
    let is_this = commands
        .get(&result.drill)
        .is_none_or(|command| !drill.redact.is_empty() || *command == drill.server.command);
    if drill.drill != result.drill || !is_this {
        findings.add(
            at("drill.json"),
            "its server is not the one that the manifest names",
        );
    }
    let repeat = Repeat::judged(&drill, &recorded.lines);
    seen.answers += repeat.judgement.answers.len() as u64;
    seen.cut_short += u64::from(repeat.cut_short);
    let written = regular::read(&folder.join(ANSWERS)).map_err(|error| error.to_string());
    let written = written.and_then(|text| {
        serde_json::from_slice::<Judgement>(&text).map_err(|error| error.to_string())
    });
    match written {
        Ok(written) => {
            for difference in differences(&written, &repeat.judgement) {
                findings.add(at(ANSWERS), difference);
            }
        }
        Err(error) => findings.add(at(ANSWERS), format!("it cannot be read: {error}")),
    }
    check_incidents(
        &folder,
        &drill,
        &recorded.lines,
        &at("incidents.json"),
        findings,
    );
    Some(repeat)
}

/// The incident records follow from the journal as the answers do.
fn check_incidents(folder: &Path, drill: &Drill, lines: &[Line], place: &str, findings: &Findings) {
    let expected = serde_json::to_value(judge::incidents(drill, lines)).unwrap_or_default();
    let is_none = expected.as_array().is_none_or(Vec::is_empty);
    let written = regular::read(&folder.join("incidents.json"));
    let is_equal = match written {
        Ok(text) => serde_json::from_slice::<Value>(&text).is_ok_and(|found| found == expected),
        Err(error) => is_none && error.kind() == std::io::ErrorKind::NotFound,
    };
    if !is_equal {
        findings.add(place, "it is not what the journal gives");
    }
}

/// A journal that ended, of this trial.
fn is_of(trial: &str, lines: &[Line], place: &str, findings: &Findings) {
    match lines.first().map(|line| &line.event) {
        Some(Event::TrialStarted { trial: of, .. }) if of == trial => {}
        Some(Event::TrialStarted { trial: of, .. }) => {
            findings.add(place, format!("it is the journal of {of}, not of {trial}"));
        }
        _ => findings.add(place, "it does not begin with the trial's start"),
    }
    let has_ended = lines
        .last()
        .is_some_and(|line| matches!(line.event, Event::TrialEnded));
    if !has_ended {
        findings.add(
            place,
            "its tail is missing: it does not end with the trial's end",
        );
    }
}

/// Compares the result with what the repeats say together.
fn compare(result: &TrialResult, repeats: &[Repeat], findings: &Findings) {
    let place = format!("results.json of {}", result.name);
    // A fault of ours that came up when the journal was closed already. It gates, so nobody gains by it.
    if result.verdict == TrialVerdict::Error && result.error.is_some() && result.answers.is_empty()
    {
        return;
    }
    let Some(first) = repeats.first() else {
        findings.add(place, "there is no folder with its evidence");
        return;
    };
    let name = TrialName {
        drill: result.drill.clone(),
        point: result.crash_point,
        variant: None,
    };
    let judged = |judgement: Judgement| {
        TrialResult::judged(&name, judgement, Duration::ZERO, &Secrets::default())
    };
    let expected = if result.repeats.is_none() {
        judged(first.judgement.clone())
    } else {
        let all = together(repeats);
        let planned = result.repeats_planned.unwrap_or(all.repeats.total());
        judged(all.judgement).repeated(all.repeats, planned)
    };
    let is_stopped = result.verdict == TrialVerdict::Error && result.error.is_some();
    if result.verdict != expected.verdict && !is_stopped {
        let (said, gives) = (result.verdict, expected.verdict);
        findings.add(
            &place,
            format!("its verdict is {said}, and its journal gives {gives}"),
        );
    }
    for difference in answers_differ(&result.answers, &expected.answers) {
        findings.add(&place, difference);
    }
    let others = [
        ("skipped", result.skipped == expected.skipped),
        ("stale_known", result.stale_known == expected.stale_known),
        ("moments", result.moments == expected.moments),
        ("sought", result.sought == expected.sought),
        ("repeats", result.repeats == expected.repeats),
    ];
    for (field, is_equal) in others {
        if !is_equal {
            findings.add(
                &place,
                format!("its `{field}` is not what its journal gives"),
            );
        }
    }
}

fn differences(written: &Judgement, judged: &Judgement) -> Vec<String> {
    let mut differences = answers_differ(&written.answers, &judged.answers);
    if written.verdict != judged.verdict {
        differences.push(format!(
            "the verdict is {}, and the journal gives {}",
            written.verdict, judged.verdict
        ));
    }
    let rest = |judgement: &Judgement| Judgement {
        answers: Vec::new(),
        verdict: judged.verdict,
        ..judgement.clone()
    };
    if rest(written) != rest(judged) {
        differences
            .push("what it says besides its answers is not what the journal gives".to_owned());
    }
    differences
}

/// What of the answers that are written is not what the journal gives.
fn answers_differ(written: &[Answer], judged: &[Answer]) -> Vec<String> {
    let by_question = |answers: &[Answer]| -> BTreeMap<_, Answer> {
        let answers = answers.iter().map(|answer| Answer {
            // It is not written.
            stable: String::new(),
            ..answer.clone()
        });
        answers.map(|answer| (answer.question, answer)).collect()
    };
    let (mut found, given) = (by_question(written), by_question(judged));
    let mut differences = Vec::new();
    if found.len() != written.len() {
        differences.push("a question is answered twice".to_owned());
    }
    for (question, given) in given {
        match found.remove(&question) {
            None => differences.push(format!("the answer to `{question}` is missing")),
            Some(found) if found.verdict != given.verdict => differences.push(format!(
                "the answer to `{question}` is {}, and the journal gives {}",
                found.verdict, given.verdict
            )),
            Some(found) if found != given => differences.push(format!(
                "the answer to `{question}` has another text or evidence than the journal gives"
            )),
            Some(_) => {}
        }
    }
    let extra = found.into_keys();
    differences.extend(extra.map(|q| format!("the journal gives no answer to `{q}`")));
    differences
}

/// Compares a trial's folder with its seal: what a run that was killed has of its files.
pub(super) fn check_seal(run: &Path, bundle: &str, findings: &Findings) {
    let folder = run.join(bundle);
    let at = |name: &str| format!("{bundle}/{name}");
    let read = regular::read(&folder.join(SEAL)).map_err(|error| error.to_string());
    let sealed =
        read.and_then(|text| serde_json::from_slice::<Seal>(&text).map_err(|e| e.to_string()));
    let sealed = match sealed {
        Ok(sealed) => sealed,
        Err(error) => return findings.add(at(SEAL), format!("it cannot be read: {error}")),
    };
    let found = match Seal::of(&folder, &sealed.trial) {
        Ok(found) => found,
        Err(error) => return findings.add(bundle, format!("it cannot be read: {error}")),
    };
    for (file, entry) in &sealed.files {
        match found.files.get(file) {
            None => findings.add(at(file), "it is missing"),
            Some(found) if found != entry => findings.add(at(file), "it was changed"),
            Some(_) => {}
        }
    }
    for file in found.files.keys().chain(found.others.keys()) {
        if !sealed.files.contains_key(file) && !sealed.others.contains_key(file) {
            findings.add(at(file), "it was added: the trial's seal does not know it");
        }
    }
    if sealed.others != found.others || sealed.journals != found.journals {
        findings.add(
            at(SEAL),
            "the folder's links or the journal's end are not what it says",
        );
    }
}

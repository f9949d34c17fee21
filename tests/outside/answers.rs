//! What a run answered, as `--format json` says it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

/// The trials of a run by their names.
pub fn trials_in(lines: &str) -> BTreeMap<String, Value> {
    let trials = lines.lines().map(|line| {
        let trial: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        (trial["name"].as_str().unwrap().to_owned(), trial)
    });
    trials.collect()
}

/// The questions that did not hold, one that stays open with a question mark behind it, and what the judge said of them. A
/// trial that is an error has `error` among them.
pub fn not_held(trial: &Value) -> (BTreeSet<String>, String) {
    let mut questions = BTreeSet::new();
    let mut told = String::new();
    for answer in trial["answers"].as_array().unwrap() {
        let question = answer["question"].as_str().unwrap();
        let (verdict, because) = (&answer["verdict"], &answer["because"]);
        match verdict.as_str().unwrap() {
            "held" => continue,
            "broken" => questions.insert(question.to_owned()),
            _ => questions.insert(format!("{question}?")),
        };
        write!(told, "\n  measured: {question} is {verdict}: {because}").unwrap();
    }
    if let Some(error) = trial.get("error").and_then(Value::as_str) {
        questions.insert("error".to_owned());
        write!(told, "\n  measured: error: {error}").unwrap();
    }
    (questions, told)
}

/// What is wrong with a trial whose questions these are to be that do not hold; nothing, if it is as it should be.
pub fn difference(
    trials: &BTreeMap<String, Value>,
    name: &str,
    right: &BTreeSet<String>,
) -> Option<String> {
    let Some(trial) = trials.get(name) else {
        return Some(format!("\n{name} was not run\n"));
    };
    let (measured, told) = not_held(trial);
    (measured != *right).then(|| format!("\n{name}\n  table:    {right:?}{told}\n"))
}

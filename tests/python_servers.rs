//! Servers in Python, good and bad, through the built command: each breaks exactly the questions that it should.
//!
//! They share nothing with the harness but the protocol, and fail in ways of their own: a thread that blocks, a task that
//! is cancelled, a process that was forked twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/python");

/// A server, and for each crash the questions that it breaks there.
type Case = (
    &'static [&'static str],
    &'static [(&'static str, &'static [&'static str])],
);

const CASES: &[Case] = &[
    (
        &["good.py"],
        &[
            ("idle", &[]),
            ("before-dispatch", &[]),
            ("sent", &[]),
            ("after-acceptance", &[]),
            ("reply-given", &[]),
            ("stdin-closed", &[]),
            ("after-result", &[]),
        ],
    ),
    (
        &["tasks.py"],
        &[("before-dispatch", &[]), ("stdin-closed", &[])],
    ),
    (
        &["relay.py", "good.py"],
        &[("idle", &[]), ("after-acceptance", &[])],
    ),
    // The server behind it still waits for its stdin to end.
    (
        &["relay.py", "good.py", "stay"],
        &[("idle", &["eof", "helpers"])],
    ),
    (
        &["blocking.py"],
        &[
            ("idle", &[]),
            ("before-dispatch", &["eof", "quiet", "effects"]),
            ("after-acceptance", &["eof"]),
            ("reply-given", &[]),
        ],
    ),
    (&["retries.py"], &[("after-acceptance", &["eof", "quiet"])]),
    (
        &["last_words.py"],
        &[("idle", &["quiet"]), ("after-result", &["quiet"])],
    ),
    // What the API refuses it after the revocation, it does not record.
    (&["polls.py"], &[("idle", &["eof", "quiet", "revocation"])]),
    (&["daemon.py"], &[("idle", &["helpers"])]),
    (&["heirs.py"], &[("idle", &["secrets"])]),
    (&["spins.py"], &[("idle", &["eof", "quiet"])]),
    // Where the client is gone nobody could have read an answer, and only the record is missed.
    (
        &["forgets.py"],
        &[
            ("after-acceptance", &["ownership"]),
            ("stdin-closed", &["ownership", "protocol"]),
        ],
    ),
    // Where nothing was applied, "failed" is true.
    (
        &["guesses.py"],
        &[
            ("before-dispatch", &[]),
            ("after-acceptance", &["ownership"]),
        ],
    ),
    (&["flatters.py"], &[("after-result", &["revocation"])]),
    (
        &["afterwards.py"],
        &[
            ("before-dispatch", &["ownership"]),
            ("after-result", &["ownership"]),
        ],
    ),
    (
        &["newborn_key.py"],
        &[
            ("before-dispatch", &[]),
            ("after-acceptance", &["reconcile"]),
        ],
    ),
    (&["tells.py"], &[("after-result", &["protocol", "secrets"])]),
];

fn crash(name: &str) -> Value {
    match name {
        "reply-given" => json!({ "at": "after-acceptance", "name": name, "reply": "given" }),
        "stdin-closed" => json!({ "at": "after-acceptance", "name": name, "close": ["stdin"] }),
        point => json!(point),
    }
}

/// The name of a drill: `relay-good-stay`.
fn drill_name(command: &[&str]) -> String {
    command.join("-").replace(".py", "").replace('_', "-")
}

/// JSON is YAML.
fn drill((words, points): &Case) -> Value {
    let command: Vec<String> = ["python3".to_owned()]
        .into_iter()
        .chain(words.iter().map(|word| match word.strip_suffix(".py") {
            Some(_) => format!("{SERVERS}/{word}"),
            None => (*word).to_owned(),
        }))
        .collect();
    json!({
        "drill": drill_name(words),
        "server": {
            "command": command,
            "env": {
                "API": "{{ remote.url }}",
                "API_TOKEN": "{{ authority.token }}",
                "ACTIVITY_LOG": "{{ workdir }}/activity.jsonl",
                "RUN_ID": "{{ run.id }}",
                "APPROVAL_ID": "{{ approval.id }}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        },
        "remote": { "routes": [
            { "on": "POST /jobs", "effect": "job", "key": { "header": "Idempotency-Key" },
              "reply": { "status": 201, "json": { "id": "{{ effect.id }}", "url": "{{ remote.url }}/jobs/{{ effect.id }}" } } },
            { "on": "GET /jobs", "find": "job", "reply": { "json": "{{ effects }}" } },
            { "on": "POST /notes", "reply": { "json": {} } },
            { "on": "POST /search", "reply": { "json": [] } },
            { "on": "GET /me", "identity": true, "reply": { "json": "{{ authority.user }}" } },
        ] },
        "authority": { "bearer": "Authorization" },
        "call": { "tool": "start_job", "arguments": { "app": "shop" } },
        "crash": points.iter().map(|(name, _)| crash(name)).collect::<Vec<_>>(),
        "recover": { "retry": true },
        "expect": {
            "eof": { "within": "1500ms" },
            "ownership": { "log": "{{ workdir }}/activity.jsonl", "record": {
                "run": "/run_id", "call": "/call_id", "process": "/pid", "approval": "/approval_id",
                "target": "/target", "key": "/key", "effect": "/remote_id", "outcome": "/outcome",
            } },
        },
    })
}

/// Trials, by drill and crash, with each answer that did not hold.
fn answers(stdout: &str) -> BTreeMap<String, Vec<Value>> {
    stdout
        .lines()
        .map(|line| {
            let trial: Value = serde_json::from_str(line).unwrap();
            let name = trial["name"].as_str().unwrap();
            // `good::after-acceptance::reply-given` is the crash that we call `reply-given`.
            let parts: Vec<&str> = name.split("::").collect();
            let name = format!("{}::{}", parts[0], parts[parts.len() - 1]);
            let error = trial.get("error").filter(|error| !error.is_null());
            let answers = trial["answers"].as_array().unwrap();
            let not_held = answers.iter().filter(|answer| answer["verdict"] != "held");
            (name, not_held.chain(error).cloned().collect())
        })
        .collect()
}

#[test]
fn each_server_breaks_exactly_the_questions_that_it_should() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    fs::create_dir(&drills).unwrap();
    for case in CASES {
        let path = drills.join(format!("{}.yaml", drill_name(case.0)));
        fs::write(path, drill(case).to_string()).unwrap();
    }

    let stdout = run(&drills, &folder.path().join("reports"));

    let answers = answers(&stdout);
    let mut wrong = String::new();
    for (command, points) in CASES {
        for (point, expected) in *points {
            let name = format!("{}::{point}", drill_name(command));
            let Some(answers) = answers.get(&name) else {
                let _ = writeln!(wrong, "{name} was not run");
                continue;
            };
            let broken: BTreeSet<&str> = answers
                .iter()
                .map(|answer| match answer["verdict"].as_str() {
                    Some("broken") => answer["question"].as_str().unwrap(),
                    _ => "neither held nor broken",
                })
                .collect();
            if broken != expected.iter().copied().collect() {
                let _ = writeln!(wrong, "{name} should break {expected:?}: {answers:#?}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn run(drills: &Path, reports: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .args(["--format", "json", "--drills"])
        .arg(drills)
        .arg("--reports")
        .arg(reports)
        .env_remove("CI")
        .output()
        .unwrap();
    let diagnostics = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{diagnostics}");
    String::from_utf8(output.stdout).unwrap()
}

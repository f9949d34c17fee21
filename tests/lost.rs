//! A server that leaves its client, which lives and reads, without an answer: the request is lost, and each sentence says how
//! the server ended and what it wrote last. What cannot come any more is not waited for.

#[expect(dead_code, reason = "the trials are looked into one by one")]
#[path = "outside/answers.rs"]
mod answers;
#[expect(dead_code, reason = "no folder of a run is looked into here")]
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/needs.rs"]
mod needs;
#[expect(dead_code, reason = "no file of a run is read whole here")]
#[path = "outside/said.rs"]
mod said;
#[expect(dead_code, reason = "the table of the small servers has more of them")]
#[path = "small_servers/row.rs"]
mod small;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use answers::trials_in;
use ground::Ground;
use needs::test;
use said::say;
use small::{Row, python};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                a_call_that_is_lost_before_the_crash_breaks_the_protocol,
                "python3"
            ),
            test!(
                a_call_that_is_lost_in_a_later_session_breaks_the_protocol,
                "python3"
            ),
            test!(
                a_call_that_is_lost_before_the_call_under_drill_breaks_the_protocol,
                "python3"
            ),
            test!(
                a_server_that_answers_with_an_error_and_then_leaves_has_lost_nothing,
                "python3"
            ),
            test!(
                a_drill_says_how_long_a_handshake_and_a_call_may_take,
                "python3"
            ),
        ],
    )
}

/// Less than the 30 s that a call has, and far more than such a trial takes.
const AT_ONCE: f64 = 20.0;

/// Runs these drills at once.
fn run(rows: Vec<Row>, crash: &Value) -> BTreeMap<String, Value> {
    let ground = Ground::new();
    for row in rows {
        let mut drill: Value = serde_json::from_str(&row.drill()).unwrap();
        drill["crash"] = crash.clone();
        ground.drill(&row.name, &drill.to_string());
    }
    let said = say(&mut ground.command(["--format", "json", "--test-threads", "4"]));
    assert!(matches!(said.code, Some(0 | 1)), "{said}");
    trials_in(&said.out)
}

fn quits(name: &str, arguments: &[&str]) -> Row {
    let row = python("quits").named(name);
    arguments.iter().fold(row, |row, word| row.argument(word))
}

fn answer(trial: &Value, question: &str) -> (String, String) {
    let answers = trial["answers"].as_array().unwrap();
    let answer = answers.iter().find(|answer| answer["question"] == question);
    let answer = answer.unwrap_or_else(|| panic!("{question} is not asked: {trial:#}"));
    let text = |key: &str| answer[key].as_str().unwrap().to_owned();
    (text("verdict"), text("because"))
}

#[track_caller]
fn says(trial: &Value, question: &str, verdict: &str, parts: &[&str]) {
    let (measured, because) = answer(trial, question);
    assert_eq!(measured, verdict, "{question}: {because}");
    for part in parts {
        assert!(because.contains(part), "{question}: {because}");
    }
}

const WAYS: [(&str, &str); 4] = [
    ("exit", "exited with status 0"),
    ("fail", "exited with status 3"),
    ("abort", "was ended by SIGABRT"),
    // A client that reads the end of stdout closes stdin, and the server ends at that.
    ("close", "exited with status 0"),
];
const STDERR: &str = "its stderr ended with “the pool is empty”";

fn a_call_that_is_lost_before_the_crash_breaks_the_protocol() {
    let rows = WAYS.map(|(way, _)| quits(way, &[way]));
    let trials = run(rows.into(), &json!(["sent"]));
    for (way, how) in WAYS {
        let trial = &trials[&format!("{way}::sent")];
        let lost = format!("the server of session A {how} while its call was not answered");
        says(trial, "protocol", "broken", &[&lost, STDERR]);
        let missed = "before the point was reached";
        says(trial, "eof", "unproven", &[missed, STDERR]);
        says(trial, "effects", "unproven", &[missed, STDERR]);
        assert!(trial["seconds"].as_f64().unwrap() < AT_ONCE, "{trial:#}");
    }
}

fn a_call_that_is_lost_in_a_later_session_breaks_the_protocol() {
    let rows = WAYS.map(|(way, _)| quits(way, &[way]));
    let trials = run(rows.into(), &json!(["idle"]));
    for (way, how) in WAYS {
        let trial = &trials[&format!("{way}::idle")];
        for session in ["the revoked session", "session B"] {
            let lost = format!("the server of {session} {how} while its call was not answered");
            says(trial, "protocol", "broken", &[&lost, STDERR]);
        }
        let nothing = ["session B did not answer (the server", STDERR];
        says(trial, "reconcile", "broken", &nothing);
        says(trial, "revocation", "broken", &["got no answer", STDERR]);
    }
}

fn a_call_that_is_lost_before_the_call_under_drill_breaks_the_protocol() {
    let rows = WAYS.map(|(way, _)| {
        let first = json!([{ "tool": "prepare", "arguments": {} }]);
        quits(way, &[way, "prepare"]).set("/call/before", first)
    });
    let trials = run(rows.into(), &json!(["sent"]));
    for (way, how) in WAYS {
        let trial = &trials[&format!("{way}::sent")];
        let lost = format!("the server of session A {how} while its call was not answered");
        says(trial, "protocol", "broken", &[&lost, STDERR]);
        says(
            trial,
            "eof",
            "unproven",
            &["before the call was issued", STDERR],
        );
    }
}

fn a_server_that_answers_with_an_error_and_then_leaves_has_lost_nothing() {
    let row = python("gives_up").named("gives-up").set(
        "/expect/revocation",
        json!({ "skip": "it refuses whatever it is asked for" }),
    );
    let trials = run(vec![row], &json!(["idle", "after-reply"]));
    says(&trials["gives-up::idle"], "protocol", "held", &[]);
    let trial = &trials["gives-up::after-reply"];
    let answered =
        "the call was answered before the point was reached, ToolError: the pool is empty";
    says(trial, "protocol", "unproven", &[answered]);
    assert!(trial["seconds"].as_f64().unwrap() < AT_ONCE, "{trial:#}");
}

fn a_drill_says_how_long_a_handshake_and_a_call_may_take() {
    let hangs = quits("hangs", &["hang"]).set("/call/within", json!("700ms"));
    let silent = python("good")
        .named("silent")
        .set("/server/command", json!(["sleep", "60"]))
        .set("/server/handshake", json!({ "within": "300ms" }));
    let trials = run(vec![hangs, silent], &json!(["sent"]));
    let missed = "the point was not reached within 700 ms; the server made no request";
    says(&trials["hangs::sent"], "eof", "unproven", &[missed]);
    let silent = &trials["silent::sent"];
    says(
        silent,
        "protocol",
        "broken",
        &["no answer came within 300 ms"],
    );
}

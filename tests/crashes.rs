//! Every kind of crash: who is killed and with what, what a client closes and in which order, how three SDKs' clients shut
//! down. A good server is right whatever befalls it, and each bad one breaks exactly what it should.
//!
//! ```text
//!   server × crash ──> one drill file a server ──> cargo-drill, once ──> compared, trial by trial
//! ```

#[path = "outside/answers.rs"]
mod answers;
#[path = "outside/drills.rs"]
mod drills;
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

use std::process::ExitCode;

use serde_json::{Value, json};

use answers::{difference, trials_in};
use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use needs::test;
use said::say;
use small::{Row, node, python};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(whatever_befalls_the_model_server_it_breaks_what_it_should, "namespaces"),
            test!(without_namespaces_the_answers_are_the_same),
            test!(small_servers_in_other_languages_break_what_they_should, "python3", "node", "namespaces"),
            test!(a_command_that_ends_at_once_holds_nothing_at_startup_and_a_server_that_can_start_does),
        ],
    )
}

/// A server and its crashes; each with the questions that do not hold, one that stays open with a question mark behind it.
struct Server {
    name: &'static str,
    drill: String,
    crashes: Vec<(Value, &'static str)>,
}

fn deploy(name: &'static str, words: &[&str], crashes: Vec<(Value, &'static str)>) -> Server {
    edited(name, words, &[], crashes)
}

/// The model server, with more of its drill's text changed.
fn edited(
    name: &'static str,
    words: &[&str],
    more: &[(&str, &str)],
    crashes: Vec<(Value, &'static str)>,
) -> Server {
    let command: Vec<&str> = ["{{ fixture }}", "deploy"]
        .iter()
        .chain(words)
        .copied()
        .collect();
    let command = format!("command: {}", json!(command));
    let mut changes = vec![(GOOD_SERVER, &*command)];
    changes.extend(more);
    let listed = listed(&crashes);
    Server {
        name,
        drill: deploy_at(name, &listed, &changes),
        crashes,
    }
}

fn small(name: &'static str, row: Row, crashes: Vec<(Value, &'static str)>) -> Server {
    let row = row.named(name);
    let mut drill: Value = serde_json::from_str(&row.drill()).unwrap();
    drill["crash"] = serde_json::from_str(&format!("[{}]", listed(&crashes))).unwrap();
    Server {
        name,
        drill: drill.to_string(),
        crashes,
    }
}

fn listed(crashes: &[(Value, &str)]) -> String {
    let texts: Vec<String> = crashes.iter().map(|(crash, _)| crash.to_string()).collect();
    texts.join(", ")
}

/// The reply is delivered and its result unread when the client, which lives, ends the session.
fn reply_unread() -> Vec<Value> {
    let close = json!({ "close": ["stdin"] });
    vec![
        crash("after-reply", &close),
        json!({ "boundary": { "event": "replied", "nth": 1 }, "close": ["stdin"], "name": "close-stdin" }),
    ]
}

/// `at` with what is done at it; its name is made of that.
fn crash(at: &str, what: &Value) -> Value {
    let mut crash = json!({ "at": at });
    let mut name = Vec::new();
    for (key, value) in what.as_object().unwrap() {
        let words = match value {
            Value::String(word) => word.clone(),
            Value::Array(words) => words
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join("-"),
            other => other["polite"].as_str().unwrap().to_owned(),
        };
        name.push(format!("{key}-{}", words.to_lowercase()));
        crash[key] = value.clone();
    }
    crash["name"] = json!(name.join("-"));
    crash
}

fn all_held(crashes: impl IntoIterator<Item = Value>) -> Vec<(Value, &'static str)> {
    crashes.into_iter().map(|crash| (crash, "")).collect()
}

fn polite(sdk: &str) -> Value {
    json!({ "kill": { "polite": sdk } })
}

const SDKS: [&str; 3] = ["typescript", "python", "rust"];

/// The streams in every order, all three, two and one of them.
fn orders() -> Vec<Vec<&'static str>> {
    const STREAMS: [&str; 3] = ["stdin", "stdout", "stderr"];
    let mut orders: Vec<Vec<&str>> = vec![Vec::new()];
    let mut all = Vec::new();
    for _ in STREAMS {
        orders = orders
            .iter()
            .flat_map(|order| {
                let rest = STREAMS.iter().filter(|stream| !order.contains(*stream));
                rest.map(|stream| [order.as_slice(), &[*stream]].concat())
            })
            .collect();
        all.extend(orders.clone());
    }
    all
}

// ---- the servers -------------------------------------------------------------------------------------------------

fn model_servers() -> Vec<Server> {
    let signals = ["KILL", "TERM", "INT", "HUP"];
    let points = ["idle", "call-unread", "before-dispatch", "after-acceptance"];
    let mut killed = Vec::new();
    for at in points {
        for signal in signals {
            for whom in ["client", "both", "group"] {
                killed.push(crash(at, &json!({ "kill": whom, "signal": signal })));
            }
        }
        killed.push(crash(at, &json!({ "kill": "server" })));
    }
    // A stopped server takes no other signal before it goes on.
    for at in ["idle", "before-dispatch", "after-acceptance"] {
        for signal in ["TERM", "INT", "HUP"] {
            killed.push(crash(at, &json!({ "kill": "server", "signal": signal })));
        }
    }
    let closed = ["idle", "after-acceptance"].into_iter().flat_map(|at| {
        orders()
            .into_iter()
            .map(move |order| crash(at, &json!({ "close": order })))
    });
    let politely = ["startup", "idle", "call-written", "after-acceptance"]
        .into_iter()
        .flat_map(|at| SDKS.map(|sdk| crash(at, &polite(sdk))));
    vec![
        deploy("killed", &[], all_held(killed)),
        deploy("closed", &[], all_held(closed)),
        deploy("politely", &[], all_held(politely)),
        deploy(
            "hung",
            &[],
            all_held([crash("after-acceptance", &json!({ "signal": "STOP" }))]),
        ),
        edited(
            "own-group",
            &[],
            &[("\ncall:\n", "\nclient: { group: own }\n\ncall:\n")],
            all_held([
                crash("idle", &json!({ "kill": "group", "signal": "INT" })),
                crash("call-unread", &json!({ "kill": "client" })),
                crash(
                    "after-acceptance",
                    &json!({ "kill": "group", "signal": "HUP" }),
                ),
            ]),
        ),
        edited(
            "socketpair",
            &[],
            &[("\nremote:\n", "\n  stdin: socketpair\n\nremote:\n")],
            all_held(
                [
                    "startup",
                    "torn-call",
                    "call-unread",
                    "call-written",
                    "after-reply",
                ]
                .map(|at| json!(at)),
            ),
        ),
        deploy(
            "helper-after-kill",
            &["--fault", "helper-after-kill"],
            vec![
                (crash("idle", &json!({ "kill": "server" })), "helpers"),
                (
                    crash("after-acceptance", &json!({ "kill": "both" })),
                    "helpers",
                ),
                (
                    crash("idle", &json!({ "kill": "server", "signal": "TERM" })),
                    "",
                ),
                (crash("idle", &polite("typescript")), ""),
            ],
        ),
        deploy(
            "ignores-eof",
            &["--fault", "ignores-eof"],
            SDKS.map(|sdk| (crash("idle", &polite(sdk)), "eof")).into(),
        ),
        deploy(
            "deaf-to-term",
            &["--fault", "deaf-to-term"],
            vec![(crash("idle", &polite("typescript")), "eof quiet")],
        ),
        // It ends at EOF, and nobody signals the group that it is in.
        deploy(
            "plain-helper",
            &["--fault", "plain-helper"],
            vec![(crash("idle", &polite("python")), "helpers")],
        ),
        edited(
            "deaf-to-close",
            &["--fault", "ignores-eof"],
            &[("eof: { within: 2s }", "eof: { within: 300ms }")],
            vec![
                (
                    crash("idle", &json!({ "close": ["stderr", "stdin"] })),
                    "eof",
                ),
                // No EOF was sent.
                (crash("idle", &json!({ "close": ["stdout"] })), ""),
            ],
        ),
    ]
}

/// The intent must be on the disk before anything is dispatched.
fn durable(row: Row) -> Row {
    row.set("/gate", json!(true))
        .set("/expect/ownership/durable", json!(true))
}

fn small_servers() -> Vec<Server> {
    let between = |name: &str| json!({ "syscall": { "name": name, "nth": 1 }, "kill": "server" });
    let second = |name: &str| json!({ "syscall": { "name": name, "nth": 2 }, "kill": "server" });
    let killed = || crash("idle", &json!({ "kill": "server" }));
    let every_way = || {
        all_held([
            json!("startup"),
            json!("torn-call"),
            json!("call-unread"),
            json!("call-written"),
            json!("sent"),
            json!("torn-reply"),
            json!("after-reply"),
            killed(),
            crash("after-acceptance", &json!({ "kill": "both" })),
            crash("after-acceptance", &polite("python")),
            crash("idle", &polite("typescript")),
        ])
    };
    vec![
        small("python-good", python("good"), every_way()),
        small("node-good", node("good"), every_way()),
        small(
            "lock-left",
            python("lock_left"),
            vec![(killed(), "reconcile revocation"), (json!("idle"), "")],
        ),
        small(
            "lock-held",
            python("lock_held"),
            all_held([killed(), json!("idle")]),
        ),
        small(
            "half-row",
            python("half_row"),
            vec![(between("fsync"), "ownership"), (second("fsync"), "")],
        ),
        small("whole-row", python("synced"), all_held([between("fsync")])),
        small(
            "half-line",
            python("half_line"),
            vec![(second("write"), "protocol")],
        ),
        small("whole-line", python("good"), all_held([between("write")])),
        // It asks first: the reply that counts is not the first one.
        small(
            "asks-first",
            python("asks")
                .set("/remote/routes/0/key", Value::Null)
                .set("/expect/ownership/record/key", Value::Null)
                .set(
                    "/expect/handle",
                    json!({ "skip": "a job is told by its body" }),
                ),
            all_held([json!("after-reply"), json!("torn-reply")]),
        ),
        small(
            "replaces",
            durable(python("replaces")),
            all_held([json!("before-dispatch"), json!("after-result")]),
        ),
        small(
            "replaces-unsynced",
            durable(python("replaces_unsynced")),
            vec![
                (json!("before-dispatch"), "ownership"),
                (json!("after-result"), "ownership"),
            ],
        ),
        // The client stops reading for the sake of the point, and reads on when it has closed stdin.
        small("one-thread", python("one_thread"), all_held(reply_unread())),
        small(
            "queues",
            node("queues"),
            all_held(
                reply_unread()
                    .into_iter()
                    .chain([crash("after-reply", &polite("typescript"))]),
            ),
        ),
        small(
            "cuts",
            node("queues").argument("cut"),
            reply_unread()
                .into_iter()
                .map(|crash| (crash, "protocol"))
                .collect(),
        ),
        small(
            "late-listener",
            node("late_listener").outlives_eof(),
            vec![(json!("startup"), "eof"), (json!("idle"), "")],
        ),
        // Session A's line comes in two parts, session B's in one: one key, and two payloads.
        small(
            "splits",
            node("splits").set("/call/arguments/app", json!("café")),
            vec![(json!("after-acceptance"), "reconcile")],
        ),
        small(
            "joins",
            node("good").set("/call/arguments/app", json!("café")),
            all_held([json!("after-acceptance"), json!("after-result")]),
        ),
    ]
}

// ---- how they are compared ---------------------------------------------------------------------------------------

fn trial_name(server: &Server, crash: &Value) -> String {
    let drill = server.name;
    if let Some(syscall) = crash.get("syscall") {
        return format!(
            "{drill}::syscall::{}-{}",
            syscall["name"].as_str().unwrap(),
            syscall["nth"]
        );
    }
    if let Some(boundary) = crash.get("boundary") {
        return format!(
            "{drill}::boundary::{}-{}::{}",
            boundary["event"].as_str().unwrap(),
            boundary["nth"],
            crash["name"].as_str().unwrap()
        );
    }
    match crash {
        Value::String(point) => format!("{drill}::{point}"),
        full => format!(
            "{drill}::{}::{}",
            full["at"].as_str().unwrap(),
            full["name"].as_str().unwrap()
        ),
    }
}

fn each_breaks_what_it_should(servers: &[Server], cell: &str) {
    let ground = Ground::new();
    for server in servers {
        ground.drill(server.name, &server.drill);
    }
    let mut command = ground.command(["--format", "json", "--test-threads", "8"]);
    let said = say(command.env("CARGO_DRILL_CELL", cell));
    assert!(matches!(said.code, Some(0 | 1)), "{said}");
    let trials = trials_in(&said.out);
    let wrong: String = servers
        .iter()
        .flat_map(|server| server.crashes.iter().map(move |crash| (server, crash)))
        .filter_map(|(server, (crash, right))| {
            let right = right.split_whitespace().map(str::to_owned).collect();
            difference(&trials, &trial_name(server, crash), &right)
        })
        .collect();
    assert!(wrong.is_empty(), "{cell}:{wrong}");
}

fn whatever_befalls_the_model_server_it_breaks_what_it_should() {
    each_breaks_what_it_should(&model_servers(), "namespaces");
}

fn without_namespaces_the_answers_are_the_same() {
    each_breaks_what_it_should(&model_servers(), "subreaper");
}

fn small_servers_in_other_languages_break_what_they_should() {
    each_breaks_what_it_should(&small_servers(), "namespaces");
}

fn a_command_that_ends_at_once_holds_nothing_at_startup_and_a_server_that_can_start_does() {
    let drill = |name: &str, command: &[&str]| {
        json!({
            "drill": name,
            "server": { "command": command, "env": {
                "BUILD_API": "{{ remote.url }}", "ACTIVITY_LOG": "{{ workdir }}/activity.jsonl",
            } },
            "remote": { "routes": [{ "on": "POST /builds", "effect": "build", "reply": { "json": { "id": "1" } } }] },
            "call": { "tool": "deploy_build", "arguments": { "app": "shop", "ref": "v1" } },
            "crash": "startup",
        })
        .to_string()
    };
    let ground = Ground::new();
    ground.drill("ends", &drill("ends", &["false"]));
    ground.drill("starts", &drill("starts", &["{{ fixture }}", "deploy"]));
    let said = say(&mut ground.command(["--format", "json"]));
    let trials = trials_in(&said.out);
    assert_eq!(trials["ends::startup"]["verdict"], "unproven", "{said}");
    assert_eq!(trials["starts::startup"]["verdict"], "held", "{said}");
}

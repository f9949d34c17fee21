//! What the remote does next decides what a server is told when its client is gone: nothing, half of it, an error. A good
//! server is right about all of it, and each bad one breaks exactly what it should.
//!
//! ```text
//!   server × crash point × then ──> one drill file a server ──> cargo-drill, once ──> compared, trial by trial
//! ```

#[path = "outside/answers.rs"]
mod answers;
#[path = "outside/drills.rs"]
mod drills;
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

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
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
            test!(
                model_servers_break_what_they_should_in_namespaces,
                "namespaces"
            ),
            test!(model_servers_break_what_they_should_below_a_subreaper),
            test!(
                small_servers_break_what_they_should_in_namespaces,
                "python3",
                "node",
                "namespaces"
            ),
            test!(
                what_the_remote_did_next_stands_in_the_journal_after_the_end_of_the_client_and_once,
                "namespaces"
            ),
            test!(
                a_client_that_hangs_or_reads_no_more_is_not_waited_for,
                "namespaces"
            ),
        ],
    )
}

const GIVEN: &str = "given";
const HELD: &str = "held";
const DROPPED: &str = "dropped";
const ERROR_500: &str = "error-500";
const ERROR_503: &str = "error-503";
const ERROR_429: &str = "error-429";
const SLOW: &str = "slow";
const REPLAYED: &str = "replayed";

const BEFORE_DISPATCH: &str = "before-dispatch";
const SENT: &str = "sent";
const AFTER_ACCEPTANCE: &str = "after-acceptance";
const TORN_REPLY: &str = "torn-reply";

/// A point, and what the remote does next.
type Point = (&'static str, &'static [&'static str]);

/// What can happen at each point: what was applied is not turned away, and half of a reply has told its status.
const ALL: [Point; 4] = [
    (
        BEFORE_DISPATCH,
        &[
            GIVEN, HELD, DROPPED, ERROR_500, ERROR_503, ERROR_429, SLOW, REPLAYED,
        ],
    ),
    (
        SENT,
        &[
            GIVEN, HELD, DROPPED, ERROR_500, ERROR_503, ERROR_429, SLOW, REPLAYED,
        ],
    ),
    (
        AFTER_ACCEPTANCE,
        &[GIVEN, HELD, DROPPED, ERROR_500, SLOW, REPLAYED],
    ),
    (TORN_REPLY, &[GIVEN, HELD, DROPPED, SLOW]),
];

/// These are dispatched when the client dies.
const DISPATCHED: &[&str] = &[SENT, AFTER_ACCEPTANCE, TORN_REPLY];

/// A server, and what it breaks at which point with what the remote does next. All else holds.
struct Server {
    name: &'static str,
    drill: String,
    points: Vec<Point>,
    breaks: BTreeMap<String, BTreeSet<String>>,
}

impl Server {
    fn new(name: &'static str, points: Vec<Point>, drill: impl FnOnce(&str) -> String) -> Self {
        let crashes: Vec<String> = points
            .iter()
            .flat_map(|(point, thens)| thens.iter().map(move |then| crash(point, then).to_string()))
            .collect();
        Self {
            name,
            drill: drill(&crashes.join(", ")),
            points,
            breaks: BTreeMap::new(),
        }
    }

    /// The model server with one fault, where it is dispatched when the client dies.
    fn faulty(fault: &'static str) -> Self {
        Self::deploy(fault, &["--fault", fault], "10s", at(DISPATCHED))
    }

    /// The model server, which waits long enough for its reply that a busy machine gives it in time.
    fn deploy(name: &'static str, words: &[&str], within: &str, points: Vec<Point>) -> Self {
        let command: Vec<&str> = ["{{ fixture }}", "deploy"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        Self::new(name, points, |crashes| {
            let changes = [
                (GOOD_SERVER, format!("command: {}", json!(command))),
                (
                    "  env: #",
                    "  env:\n    DRAIN_MS: \"2500\"\n    #".to_owned(),
                ),
                (
                    "eof: { within: 2s }",
                    format!("eof: {{ within: {within} }}"),
                ),
            ];
            let changes: Vec<(&str, &str)> =
                changes.iter().map(|(old, new)| (*old, &**new)).collect();
            deploy_at(name, crashes, &changes)
        })
    }

    fn small(name: &'static str, row: Row, points: Vec<Point>) -> Self {
        Self::new(name, points, |crashes| {
            let row = row.named(name);
            let mut drill: Value = serde_json::from_str(&row.drill()).unwrap();
            drill["crash"] = serde_json::from_str(&format!("[{crashes}]")).unwrap();
            drill.to_string()
        })
    }

    fn breaks(mut self, points: &[&str], thens: &[&str], questions: &'static str) -> Self {
        for (point, possible) in &self.points {
            for then in possible.iter().filter(|then| thens.contains(then)) {
                if points.contains(point) {
                    let questions = questions.split_whitespace().map(str::to_owned).collect();
                    let trial = format!("{}::{point}::{then}", self.name);
                    let before = self.breaks.insert(trial.clone(), questions);
                    assert!(before.is_none(), "{trial} is named twice");
                }
            }
        }
        self
    }

    fn trials(&self) -> impl Iterator<Item = String> {
        self.points.iter().flat_map(move |(point, thens)| {
            thens
                .iter()
                .map(move |then| format!("{}::{point}::{then}", self.name))
        })
    }
}

/// All that can happen at these points.
fn at(points: &[&str]) -> Vec<Point> {
    let is_one = |(point, _): &Point| points.contains(point);
    ALL.into_iter().filter(is_one).collect()
}

fn crash(point: &str, then: &str) -> Value {
    json!({ "at": point, "name": then, "then": then })
}

fn model_servers() -> Vec<Server> {
    let first = &[SENT, AFTER_ACCEPTANCE][..];
    vec![
        Server::deploy("good", &[], "10s", ALL.to_vec()),
        Server::faulty("self-retry")
            // The second request has no key; where its reply is held as well, nobody knows of its build.
            .breaks(DISPATCHED, &[HELD], "quiet effects reconcile handle")
            .breaks(DISPATCHED, &[DROPPED, SLOW], "quiet effects reconcile"),
        Server::faulty("no-key")
            .breaks(DISPATCHED, &[GIVEN], "reconcile")
            .breaks(
                DISPATCHED,
                &[HELD, DROPPED, SLOW, ERROR_500],
                "reconcile handle",
            )
            // The proxy's request makes a second build, and session B a third.
            .breaks(first, &[REPLAYED], "effects reconcile handle"),
        Server::faulty("fresh-key-per-attempt").breaks(
            DISPATCHED,
            &[GIVEN, HELD, DROPPED, SLOW, ERROR_500, REPLAYED],
            "reconcile",
        ),
        // After a 503 its word is the truth.
        Server::faulty("unknown-as-failed").breaks(
            DISPATCHED,
            &[HELD, DROPPED, SLOW, ERROR_500],
            "ownership",
        ),
        Server::faulty("retries-errors").breaks(
            DISPATCHED,
            &[ERROR_500, ERROR_503, ERROR_429],
            "quiet",
        ),
        // Its connection is pending until the release: what the remote does next, it does then.
        Server::deploy(
            "late-dispatch",
            &["--fault", "late-dispatch"],
            "500ms",
            at(&[BEFORE_DISPATCH]),
        )
        .breaks(
            &[BEFORE_DISPATCH],
            &[GIVEN, HELD, DROPPED, ERROR_500, SLOW, REPLAYED],
            "eof quiet effects",
        )
        .breaks(&[BEFORE_DISPATCH], &[ERROR_503, ERROR_429], "eof quiet"),
    ]
}

/// A remote that takes no key.
fn keyless(row: Row) -> Row {
    row.set("/remote/routes/0/key", Value::Null)
        .set("/expect/ownership/record/key", Value::Null)
        .set(
            "/expect/handle",
            json!({ "skip": "a job is told by the call that its body names" }),
        )
}

fn small_servers() -> Vec<Server> {
    let first = &[SENT, AFTER_ACCEPTANCE][..];
    let after = &[AFTER_ACCEPTANCE, TORN_REPLY][..];
    let patient = node("resends").set("/server/env/REPLY_WITHIN_MS", json!("60000"));
    vec![
        Server::small("python-good", python("good"), at(DISPATCHED)),
        // It asks before it writes, and a proxy does not.
        Server::small("python-asks", keyless(python("asks")), at(first)).breaks(
            first,
            &[REPLAYED],
            "effects reconcile",
        ),
        Server::small(
            "python-retries",
            python("retries").outlives_eof(),
            vec![(SENT, &[HELD]), (TORN_REPLY, &[HELD])],
        )
        .breaks(&[SENT, TORN_REPLY], &[HELD], "eof quiet"),
        Server::small("node-good", node("good"), at(DISPATCHED)),
        // A reply that is on its way for a second is none that is lost.
        Server::small("node-resends", patient, at(after)).breaks(after, &[DROPPED], "quiet"),
    ]
}

fn run(ground: &Ground, cell: &str) -> BTreeMap<String, Value> {
    let mut command = ground.command(["--format", "json", "--test-threads", "8"]);
    let said = say(command.env("CARGO_DRILL_CELL", cell));
    assert!(matches!(said.code, Some(0 | 1)), "{said}");
    trials_in(&said.out)
}

fn each_breaks_what_it_should(servers: &[Server], cell: &str) {
    let ground = Ground::new();
    for server in servers {
        ground.drill(server.name, &server.drill);
    }
    let trials = run(&ground, cell);
    let wrong: String = servers
        .iter()
        .flat_map(|server| server.trials().map(move |name| (server, name)))
        .filter_map(|(server, name)| {
            let right = server.breaks.get(&name).cloned().unwrap_or_default();
            difference(&trials, &name, &right)
        })
        .collect();
    assert!(wrong.is_empty(), "{cell}:{wrong}");
}

fn model_servers_break_what_they_should_in_namespaces() {
    each_breaks_what_it_should(&model_servers(), "namespaces");
}

fn model_servers_break_what_they_should_below_a_subreaper() {
    each_breaks_what_it_should(&model_servers(), "subreaper");
}

fn small_servers_break_what_they_should_in_namespaces() {
    each_breaks_what_it_should(&small_servers(), "namespaces");
}

/// The kinds of a trial's events, in order.
fn kinds(ground: &Ground, trial: &str) -> Vec<String> {
    let bundle = ground.run().join(trial.replace("::", "__"));
    let journal = fs::read_to_string(bundle.join("journal.jsonl")).unwrap();
    journal
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["kind"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn what_the_remote_did_next_stands_in_the_journal_after_the_end_of_the_client_and_once() {
    let did: [(&str, &str, &str); 7] = [
        (SENT, ERROR_503, "request-turned-away"),
        (SENT, ERROR_429, "request-turned-away"),
        (AFTER_ACCEPTANCE, ERROR_500, "reply-replaced"),
        (AFTER_ACCEPTANCE, DROPPED, "connection-reset"),
        (AFTER_ACCEPTANCE, SLOW, "reply-slowed"),
        (AFTER_ACCEPTANCE, REPLAYED, "request-replayed"),
        (TORN_REPLY, DROPPED, "connection-reset"),
    ];
    let crashes = did.map(|(point, then, _)| crash(point, then).to_string());
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", &crashes.join(", "), &[]));
    let trials = run(&ground, "namespaces");
    assert_eq!(trials.len(), did.len());
    for (point, then, kind) in did {
        let kinds = kinds(&ground, &format!("deploy::{point}::{then}"));
        let place = |wanted: &str| kinds.iter().position(|kind| kind == wanted);
        assert_eq!(
            kinds.iter().filter(|known| *known == kind).count(),
            1,
            "{point} {then}: {kinds:#?}"
        );
        assert!(place("eof-in-pipe") < place(kind), "{point} {then}");
        assert!(place(kind) < place("remote-released"), "{point} {then}");
        assert_eq!(
            place("half-reply-sent").is_some(),
            point == TORN_REPLY,
            "{point} {then}"
        );
    }
}

fn a_client_that_hangs_or_reads_no_more_is_not_waited_for() {
    let crashes = [
        (json!({ "signal": "STOP" }), "hangs"),
        (json!({ "close": ["stdout"] }), "deaf"),
    ];
    let ground = Ground::new();
    let crashes: Vec<String> = crashes
        .iter()
        .flat_map(|(how, name)| {
            [(DROPPED, "connection-reset"), (GIVEN, "reply-sent")].map(|(then, _)| {
                let mut crash = crash(AFTER_ACCEPTANCE, then);
                crash["name"] = json!(format!("{name}-{then}"));
                for (key, value) in how.as_object().unwrap() {
                    crash[key] = value.clone();
                }
                crash.to_string()
            })
        })
        .collect();
    let within = ("eof: { within: 2s }", "eof: { within: 500ms }");
    ground.drill(
        "deploy",
        &deploy_at("deploy", &crashes.join(", "), &[within]),
    );
    let trials = run(&ground, "namespaces");
    assert_eq!(trials.len(), 4);
    for (then, kind) in [(DROPPED, "connection-reset"), (GIVEN, "reply-sent")] {
        for name in ["hangs", "deaf"] {
            let name = format!("deploy::after-acceptance::{name}-{then}");
            let kinds = kinds(&ground, &name);
            let place = |wanted: &str| kinds.iter().position(|kind| kind == wanted);
            assert!(place("crash-fired") < place(kind), "{kinds:#?}");
            assert!(place(kind).is_some(), "{kinds:#?}");
            assert!(place(kind) < place("observation-ended"), "{kinds:#?}");
            for answer in trials[&name]["answers"].as_array().unwrap() {
                assert_ne!(answer["verdict"], "broken", "{name}: {answer:#}");
            }
        }
    }
}

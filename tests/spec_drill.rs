//! A drill file means what the design says, and survives the bundle.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cargo_drill::spec::{
    self, Asked, Authority, Bearer, Call, Client, Correlation, Count, CpuTime, Crash, CrashPoint,
    Decision, Drill, Eof, Exchange, Expect, Group, Handshake, Helpers, Kill, Known, Limits, Lookup,
    Network, Outcomes, Ownership, Plain, Protocol, Question, Quiet, Reconcile, ReconcileEffects,
    RecordPlace, RecordPointers, Recover, Recovery, Remote, Repeats, Reply, ReplyTiming,
    Requirement, Retry, Revocable, Revocation, Route, Server, Signal, Size, Span, Status,
    StdinKind, Stream,
};
use serde_json::{Value, json};

/// The drill file of the design, with every key in it.
fn deploy() -> spec::DrillFile {
    load(Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/spec/deploy.yaml"
    )))
}

fn load(path: &Path) -> spec::DrillFile {
    spec::load(path).unwrap_or_else(|mistakes| panic!("{:?}", miette::Report::new(mistakes)))
}

fn load_text(text: &str) -> Drill {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deploy.yaml");
    fs::write(&path, text).unwrap();
    load(&path).drill
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn object(value: &Value) -> serde_json::Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn crash(at: CrashPoint) -> Crash {
    Crash {
        at,
        name: None,
        kill: Kill::Client,
        signal: Signal::Kill,
        reply: ReplyTiming::Held,
        close: Vec::new(),
        connection: None,
        then: None,
        decision: Decision::Given,
        syscall: None,
        errno: None,
        boundary: None,
        gate: false,
        of_every: None,
    }
}

fn route(on: &str) -> Route {
    Route {
        on: text(on),
        effect: None,
        key: None,
        find: None,
        cancel: None,
        by: None,
        identity: false,
        approval: false,
        reply: Reply::default(),
    }
}

fn reply(json: Value) -> Reply {
    Reply {
        json: Some(json),
        ..Reply::default()
    }
}

#[test]
fn the_drill_of_the_design_means_what_it_says() {
    let arguments = object(&json!({ "app": "shop", "ref": "v1.2.3" }));
    let expected = Drill {
        drill: text("deploy"),
        about: Some(text("deploy_build starts one build at the build API.")),
        controls: vec![text("SOC 2 CC7.4")],
        requires: vec![Requirement {
            file: text("{{ root }}/fixtures/node/node_modules"),
            hint: text("npm ci --prefix fixtures/node"),
        }],
        server: Server {
            command: vec![text("{{ fixture }}"), text("deploy")],
            env: BTreeMap::from([
                (text("BUILD_API"), text("{{ remote.url }}")),
                (text("BUILD_TOKEN"), text("{{ authority.token }}")),
                (text("ACTIVITY_LOG"), text("{{ workdir }}/activity.jsonl")),
                (text("RUN_ID"), text("{{ run.id }}")),
            ]),
            cwd: Some(text(".")),
            files: BTreeMap::from([(text("kubeconfig.yaml"), text("server: {{ remote.url }}"))]),
            stdin: StdinKind::Pipe,
            protocol: Protocol::Auto,
            handshake: Handshake {
                within: Span(Duration::from_secs(30)),
            },
            network: Network::Closed,
            limits: Limits {
                processes: Some(64),
                memory: Some(Size(256 << 20)),
                cpu: Some(CpuTime(Duration::from_secs(10))),
            },
        },
        remote: Some(Remote {
            routes: vec![
                Route {
                    effect: Some(text("build")),
                    key: Some(Lookup::Header(text("Idempotency-Key"))),
                    reply: Reply {
                        status: Some(201),
                        headers: BTreeMap::from([(text("X-Build"), text("1"))]),
                        ..reply(json!({ "id": "{{ effect.id }}", "state": "queued" }))
                    },
                    ..route("POST /builds")
                },
                Route {
                    find: Some(text("build")),
                    by: Some(Lookup::Query(text("request_id"))),
                    reply: reply(json!({ "builds": "{{ effects }}" })),
                    ..route("GET /builds")
                },
                Route {
                    cancel: Some(text("build")),
                    by: Some(Lookup::Path(text("id"))),
                    reply: reply(json!({ "id": "{{ effect.id }}", "state": "cancelled" })),
                    ..route("POST /builds/{id}/cancel")
                },
                Route {
                    identity: true,
                    reply: reply(json!({ "user": "{{ authority.user }}" })),
                    ..route("GET /whoami")
                },
            ],
        }),
        authority: Some(Authority::Bearer(Bearer {
            bearer: text("Authorization"),
            exchange: Some(Exchange {
                on: text("POST /token"),
                outlives_run: false,
                reply: reply(json!({ "access_token": "{{ authority.derived }}" })),
            }),
        })),
        client: Client {
            beside: false,
            group: Group::Shared,
            leak_stdin_to: vec![text("sleep"), text("600")],
        },
        call: Call {
            tool: text("deploy_build"),
            arguments: arguments.clone(),
            correlation: Correlation::Meta,
            within: Span(Duration::from_secs(30)),
            before: Vec::new(),
        },
        crash: vec![
            crash(CrashPoint::BeforeDispatch),
            crash(CrashPoint::AfterAcceptance),
            Crash {
                close: vec![Stream::Stdin],
                ..crash(CrashPoint::Idle)
            },
        ],
        gate: false,
        snapshot: spec::SnapshotForm::Codes,
        redact: Vec::new(),
        repeat: None,
        recover: Some(Recover {
            how: Recovery::Retry(Retry::WithoutResult),
            before: None,
        }),
        expect: Expect {
            eof: Asked::Ask(Eof {
                within: Span(Duration::from_secs(2)),
                status: Status::Any,
            }),
            helpers: Asked::Ask(Helpers { allow: Vec::new() }),
            quiet: Asked::Ask(Quiet {
                window: Span(Duration::from_millis(500)),
            }),
            effects: Asked::Ask(BTreeMap::from([
                (CrashPoint::BeforeDispatch, Count::Exactly(0)),
                (CrashPoint::Sent, Count::AtMost(1)),
                (CrashPoint::AfterAcceptance, Count::Exactly(1)),
            ])),
            reconcile: Asked::Ask(Reconcile {
                effects: ReconcileEffects::Always(1),
            }),
            handle: Asked::Ask(Plain {}),
            ownership: Some(Asked::Ask(Ownership {
                place: RecordPlace::Log(text("{{ workdir }}/activity.jsonl")),
                record: RecordPointers {
                    run: Some(text("/run_id")),
                    call: text("/call_id"),
                    process: Some(text("/pid")),
                    approval: Some(text("/approval_id")),
                    target: Some(text("/target")),
                    key: Some(text("/key")),
                    effect: Some(text("/remote_id")),
                    outcome: text("/outcome"),
                },
                outcomes: Outcomes::default(),
                durable: false,
            })),
            revocation: Asked::Ask(Revocation {
                of: vec![Revocable::Run],
                within: Span(Duration::from_secs(1)),
                call: Some(Call {
                    tool: text("deploy_build"),
                    arguments,
                    correlation: Correlation::Meta,
                    within: Span(Duration::from_secs(30)),
                    before: Vec::new(),
                }),
            }),
            protocol: Asked::Ask(Plain {}),
            secrets: Asked::Ask(Plain {}),
            resources: Asked::Ask(Plain {}),
        },
        known: BTreeMap::from([(
            Question::Eof,
            Known {
                at: vec![text("after-acceptance")],
                because: text("waits for the remote; reported upstream"),
            },
        )]),
    };
    assert_eq!(deploy().drill, expected);
}

const MINIMAL: &str = "\
drill: deploy
server: { command: [x] }
call: { tool: x }
crash: [idle]
";

#[test]
fn what_a_drill_leaves_out_has_its_default() {
    let drill = load_text(MINIMAL);
    assert_eq!(drill.expect, Expect::default());
    assert_eq!(drill.expect.eof.ask().unwrap().within.0.as_secs(), 10);
    assert_eq!(drill.expect.quiet.ask().unwrap().window.0.as_millis(), 500);
    assert_eq!(drill.expect.revocation.ask().unwrap().within.0.as_secs(), 1);
    assert_eq!(drill.crash, [crash(CrashPoint::Idle)]);
    assert_eq!(drill.repeat.unwrap_or_default(), Repeats::ONCE);
    assert!(drill.remote.is_none() && drill.recover.is_none());
}

#[test]
fn every_question_can_be_left_out_with_a_reason() {
    for question in Question::ALL {
        let drill = load_text(&format!(
            "{MINIMAL}expect: {{ {question}: {{ skip: not here }} }}\n"
        ));
        assert_eq!(drill.expect.skipped(question), Some("not here"));
    }
}

#[test]
fn a_bare_value_in_an_environment_is_the_text_that_stands_in_the_file() {
    let drill = load_text(&MINIMAL.replace(
        "command: [x]",
        "command: [x], env: { PORT: 8080, VERSION: 1.10, MODE: 0o755, DEBUG: True, ON: on, QUOTED: '7' }",
    ));
    let env: Vec<_> = drill.server.env.values().map(String::as_str).collect();
    assert_eq!(env, ["True", "0o755", "on", "8080", "7", "1.10"]);
}

#[test]
fn arguments_keep_the_types_of_yaml() {
    let drill = load_text(&MINIMAL.replace(
        "tool: x",
        "tool: x, arguments: { ref: 1.0, n: 7, no: no, nothing: null, list: [{ a: true }], 5: five }, correlation: { argument: id }",
    ));
    assert_eq!(
        Value::Object(drill.call.arguments),
        json!({ "ref": 1.0, "n": 7, "no": "no", "nothing": null, "list": [{ "a": true }], "5": "five" })
    );
    assert_eq!(drill.call.correlation, Correlation::Argument(text("id")));
}

#[test]
fn a_reply_may_be_null() {
    let drill = load_text(&format!(
        "{MINIMAL}remote: {{ routes: [{{ on: GET /, reply: {{ json: null }} }}] }}\n"
    ));
    assert_eq!(
        drill.remote.unwrap().routes[0].reply.json,
        Some(Value::Null)
    );
}

#[test]
fn a_drill_survives_the_bundle_in_every_form() {
    let effect = "remote: { routes: [{ on: POST /a, effect: a, key: { json: /id } }] }\n";
    let forms = [
        "recover: { operator: true }",
        "recover: { retry: true, before: [{ tool: login }] }",
        "recover: { tool: resume, arguments: { a: [1] }, correlation: { argument: id }, before: [] }",
        "expect: { eof: { within: 1m, status: [0, 3] } }",
        "expect: { eof: { skip: because }, helpers: { allow: [{ command: ^a, because: b }] } }",
        "expect: { effects: { sent: 1, idle: { at_most: 2 } } }",
        "recover: { retry: true }\nexpect: { reconcile: { effects: { idle: 2 } } }",
        "client: { leak_stdin_to: [sleep] }",
        "repeat: 20",
    ];
    let crashes = "crash: [sent, { at: sent, name: again, kill: both, signal: HUP, reply: given, connection: 2 }, \
                   { at: idle, close: [stdout, stdin] }]";
    let mut drills = vec![deploy().drill];
    for form in forms {
        let minimal = MINIMAL.replace("crash: [idle]", crashes);
        drills.push(load_text(&format!("{minimal}{effect}{form}\n")));
    }
    for drill in drills {
        let bundled = serde_json::to_string(&drill).unwrap();
        let read: Drill = serde_json::from_str(&bundled).unwrap();
        assert_eq!(read, drill, "{bundled}");
    }
}

#[test]
fn what_the_schema_forbids_the_types_refuse_as_well() {
    for recover in [
        json!({ "retry": false }),
        json!({ "retry": true, "tool": "x" }),
        json!({ "retry": true, "operator": true }),
        json!({ "operator": true, "bofore": [] }),
        json!({}),
    ] {
        assert!(serde_json::from_value::<Recover>(recover).is_err());
    }
    for eof in [
        json!({ "skip": "a", "within": "1s" }),
        json!({ "wihtin": "1s" }),
    ] {
        assert!(serde_json::from_value::<Asked<Eof>>(eof).is_err());
    }
    for repeats in [json!(0), json!(10_001), json!(-1), json!("3")] {
        assert!(serde_json::from_value::<Repeats>(repeats).is_err());
    }
    for span in ["1", "s", "1h", "-1s", "1.5s", "99999999999999999999s"] {
        assert!(serde_json::from_value::<Span>(json!(span)).is_err());
    }
}

#[test]
fn sizes_and_cpu_time_are_written_in_the_usual_ways() {
    let mib = |n: u64| Size(n << 20);
    for (written, right) in [
        (json!(268_435_456), mib(256)),
        (json!("268435456"), mib(256)),
        (json!("256MiB"), mib(256)),
        (json!("256Mi"), mib(256)),
        (json!("256M"), mib(256)),
        (json!("256MB"), mib(256)),
        (json!("256 mb"), mib(256)),
        (json!("1GiB"), mib(1024)),
        (json!("1g"), mib(1024)),
        (json!("1.5GiB"), mib(1536)),
        (json!("2048K"), mib(2)),
        (json!("1T"), mib(1 << 20)),
    ] {
        let size: Size = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(size, right, "{written}");
        let again = serde_json::to_value(size).unwrap();
        assert_eq!(serde_json::from_value::<Size>(again).unwrap(), size);
    }
    assert_eq!(
        serde_json::to_value(mib(256)).unwrap(),
        "256MiB",
        "the form that the documentation shows"
    );
    for wrong in ["", "MiB", "256X", "1.2.3G", "-1G", "99999999999999999999"] {
        assert!(
            serde_json::from_value::<Size>(json!(wrong)).is_err(),
            "{wrong}"
        );
    }
    for (written, ms) in [
        (json!("10s"), 10_000),
        (json!(10), 10_000),
        (json!(0.5), 500),
    ] {
        let time: CpuTime = serde_json::from_value(written).unwrap();
        assert_eq!(time, CpuTime(Duration::from_millis(ms)));
    }
}

#[test]
fn each_crash_is_a_trial_named_after_its_point() {
    let drill = MINIMAL.replace(
        "[idle]",
        "[idle, { at: idle, name: term, signal: TERM }, startup]",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deploy.yaml");
    fs::write(&path, drill).unwrap();
    let trials = load(&path).trials();
    let names: Vec<_> = trials.iter().map(|trial| trial.name.as_str()).collect();
    assert_eq!(
        names,
        ["deploy::idle", "deploy::idle::term", "deploy::startup"]
    );
    assert_eq!(trials[1].crash.signal, Signal::Term);
}

#[test]
fn one_drill_is_loaded_without_reading_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    fs::create_dir_all(drills.join("below")).unwrap();
    fs::write(drills.join("broken.yaml"), "drill: [").unwrap();
    fs::write(drills.join("below/deploy.yml"), MINIMAL).unwrap();

    let drill = spec::find_named(&drills, "deploy").unwrap().unwrap();

    let root = folder.path().canonicalize().unwrap();
    assert_eq!(drill.root, root);
    assert_eq!(drill.path, root.join("drills/below/deploy.yml"));
    assert_eq!(drill.source, MINIMAL);
    assert_eq!(load(&drills.join("below/deploy.yml")).root, root);
    assert!(spec::find_named(&drills, "absent").unwrap().is_none());
    assert!(spec::find_named(&drills, "broken").is_err());
}

#[test]
fn files_are_found_in_order_below_a_folder_and_hidden_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["b.yaml", "a/z.yml", "a/.x.yaml", ".git/c.yaml", "note.txt"] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let found = spec::find(folder.path()).unwrap();
    assert_eq!(
        found,
        [folder.path().join("a/z.yml"), folder.path().join("b.yaml")]
    );
}

#[test]
fn the_committed_schema_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("drills/drill.schema.json");
    let committed = fs::read_to_string(path).unwrap_or_default();
    let generated = serde_json::to_string_pretty(&spec::schema()).unwrap() + "\n";
    assert!(
        committed == generated,
        "the drill file's types have changed. Regenerate the schema that editors use:\n\n    \
         cargo drill schema > drills/drill.schema.json\n"
    );
}

#[test]
fn every_key_of_the_schema_is_described_and_no_other_is_allowed() {
    fn walk(schema: &Value, root: &Value, at: &str, gaps: &mut Vec<String>) {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            if schema["additionalProperties"] != json!(false) {
                gaps.push(format!("{at} allows other keys"));
            }
            for (key, property) in properties {
                let target = property["$ref"]
                    .as_str()
                    .and_then(|target| root.pointer(&target[1..]));
                let described = |schema: &Value| schema.get("description").is_some();
                if !described(property) && !target.is_some_and(described) && !described(schema) {
                    gaps.push(format!("{at}.{key} is not described"));
                }
            }
        }
        match schema {
            Value::Object(fields) => fields
                .iter()
                .for_each(|(key, below)| walk(below, root, &format!("{at}/{key}"), gaps)),
            Value::Array(items) => items.iter().for_each(|below| walk(below, root, at, gaps)),
            _ => {}
        }
    }
    let schema = spec::schema();
    let mut gaps = Vec::new();
    walk(&schema, &schema, "", &mut gaps);
    assert!(gaps.is_empty(), "{gaps:#?}");
}

#[test]
fn the_lines_of_what_an_answer_may_speak_of_are_known() {
    let file = deploy();
    let places = file.places();
    let line_of = |beginning: &str| {
        let mut lines = file.source.lines();
        1 + lines.position(|line| line.starts_with(beginning)).unwrap()
    };
    for (value, beginning) in [
        ("server.command[0]", "  command: "),
        ("server.env.BUILD_TOKEN", "    BUILD_TOKEN: "),
        ("authority.bearer", "  bearer: "),
        ("call.tool", "  tool: "),
    ] {
        let place = format!("{}:{}", places.file, line_of(beginning));
        assert_eq!(places.of(value), place, "{value}");
    }
    assert_eq!(places.of("recover.tool"), places.file, "it has none");
}

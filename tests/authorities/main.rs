//! Authorities through the built command: a gateway that holds the credential, the commands of one, and decisions that come
//! when nobody waits for them any more. Each fault of a gateway breaks what it should, and the good one nothing.

#[path = "../outside/answers.rs"]
mod answers;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/needs.rs"]
mod needs;
#[path = "../outside/said.rs"]
mod said;
#[expect(dead_code, reason = "the table of the small servers has more of them")]
#[path = "../small_servers/row.rs"]
mod small;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;

use answers::{difference, trials_in};
use ground::Ground;
use needs::test;
use said::{json_in, say};
use serde_json::{Value, json};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(each_gateway_breaks_what_it_should_in_namespaces, "namespaces"),
            test!(each_gateway_breaks_what_it_should_below_the_subreaper),
            test!(the_gateway_that_ships_is_driven_as_any_other, "namespaces"),
            test!(an_approval_that_comes_late_starts_nothing_at_a_good_server_and_something_at_a_bad_one, "namespaces"),
            test!(an_authority_that_does_not_revoke_leaves_the_question_open_and_says_what_it_said, "namespaces"),
            test!(an_authority_that_is_not_there_is_an_error_of_the_run_that_says_why, "namespaces"),
            test!(what_is_left_open_is_told_in_an_incident_record_without_bodies_or_secrets, "namespaces"),
            test!(a_server_that_goes_by_the_signature_is_told_from_one_that_asks, "packages of python3", "namespaces"),
            test!(the_gateway_is_a_server_towards_an_agent_as_well, "namespaces"),
            test!(a_gateway_that_leaves_a_daemon_is_not_taken_for_the_servers, "namespaces"),
            test!(what_is_no_credential_is_refused_and_an_authority_that_ends_is_no_fault_of_the_server, "namespaces"),
        ],
    )
}

const GATEWAY: &str = include_str!("../../drills/gateway.yaml");
const APPROVAL: &str = include_str!("../../drills/approval.yaml");

/// The form of the drill that ships, and the same in commands, for a gateway with a fault.
const SHIPPED: &str =
    "  gateway:\n    approvals: /approvals # the gateway asks there before each write\n";

fn with_commands(fault: Option<&str>) -> String {
    let fault = fault.map_or(String::new(), |fault| format!(", --fault, {fault}"));
    format!(
        r#"  command:
    serve: ["{{{{ fixture }}}}", gateway, serve, --socket, "{{{{ workdir }}}}/gateway.sock", --upstream, "{{{{ remote.url }}}}",
            --log, "{{{{ workdir }}}}/gateway.jsonl", --approvals, "{{{{ remote.url }}}}/approvals"{fault}]
    issue: ["{{{{ fixture }}}}", gateway, session, open, "{{{{ run.id }}}}", --socket, "{{{{ workdir }}}}/gateway.sock",
            --approval, "{{{{ approval.id }}}}", --by, drill]
    revoke: ["{{{{ fixture }}}}", gateway, session, revoke, "{{{{ run.id }}}}", --socket, "{{{{ workdir }}}}/gateway.sock", --by, drill]
    refusals: ["{{{{ fixture }}}}", gateway, refusals, "{{{{ run.id }}}}", --log, "{{{{ workdir }}}}/gateway.jsonl"]
    verify: ["{{{{ fixture }}}}", gateway, verify, "{{{{ workdir }}}}/gateway.jsonl"]
    env: {{ GATEWAY_KEY: "{{{{ authority.key }}}}", GATEWAY_DEFAULT_KEY: "{{{{ authority.wider_key }}}}" }}
"#
    )
}

/// `drills/gateway.yaml` under another name, by commands.
fn commanded(name: &str, fault: Option<&str>) -> String {
    let text = GATEWAY.replace("\ndrill: gateway\n", &format!("\ndrill: {name}\n"));
    assert!(text.contains(SHIPPED), "the drill has another form");
    text.replace(SHIPPED, &with_commands(fault))
        .replace("{{ authority.socket }}", "{{ workdir }}/gateway.sock")
        .replace("{{ authority.log }}", "{{ workdir }}/gateway.jsonl")
}

/// Runs the drills that lie on this ground.
fn run(ground: &Ground, cell: &str) -> BTreeMap<String, Value> {
    let mut command = ground.command(["--format", "json", "--test-threads", "6"]);
    let said = say(command.env("CARGO_DRILL_CELL", cell));
    assert!(!said.out.is_empty(), "{said}");
    trials_in(&said.out)
}

/// The questions of a trial that do not hold, each with words of its sentence.
type Broken = &'static [(&'static str, &'static str)];

fn compare(trials: &BTreeMap<String, Value>, name: &str, right: Broken) -> String {
    let questions: BTreeSet<String> = right
        .iter()
        .map(|(question, _)| (*question).to_owned())
        .collect();
    let mut wrong = difference(trials, name, &questions).unwrap_or_default();
    for (question, words) in right {
        let because = trials.get(name).and_then(|trial| {
            let mut answers = trial["answers"].as_array()?.iter();
            let answer =
                answers.find(|answer| answer["question"] == question.trim_end_matches('?'))?;
            answer["because"].as_str().map(str::to_owned)
        });
        if !because.as_deref().unwrap_or_default().contains(words) {
            writeln!(
                wrong,
                "\n{name}: {question} does not say {words:?}: {because:?}"
            )
            .unwrap();
        }
    }
    wrong
}

/// The trials of `drills/gateway.yaml`.
const TRIALS: [&str; 9] = [
    "idle",
    "before-approval",
    "after-approval",
    "after-approval::revoked",
    "after-approval::hung",
    "before-dispatch",
    "sent",
    "after-acceptance",
    "after-result",
];

const STILL: Broken = &[(
    "revocation",
    "by way of the authority, which still made its calls",
)];
const WIDENED: Broken = &[("revocation", "with a wider key than that of the run")];
const FORGOTTEN: Broken = &[("revocation", "does not stand in the record")];
const TORN: Broken = &[("revocation", "does not verify")];
const LEAKED: Broken = &[("secrets", "key of the authority")];

/// What a gateway with this fault breaks at this trial.
fn broken_by(fault: Option<&str>, trial: &str) -> Broken {
    match (fault, trial) {
        (Some("ignores-revocation"), _) => STILL,
        (Some("widens-on-revoke"), _) => WIDENED,
        (Some("forgets-refusals"), _) => FORGOTTEN,
        // There is no call whose record could be asked for.
        (Some("torn-journal"), "idle") => TORN,
        (Some("key-to-caller"), _) => LEAKED,
        (Some("approval-not-rechecked"), "after-approval::hung") => &[(
            "revocation",
            "by way of the authority, which still made its calls",
        )],
        (
            Some("dispatches-for-the-dead"),
            "after-approval" | "before-approval" | "before-dispatch",
        ) => &[("quiet", ""), ("effects", "")],
        // It reaches for the remote when the approval comes, and sees only then that the run was revoked.
        (Some("dispatches-for-the-dead"), "after-approval::revoked") => {
            &[("quiet", "1 connection to the remote was begun")]
        }
        (Some("torn-journal"), _) => &[
            ("ownership", "does not verify"),
            ("revocation", "does not verify"),
        ],
        _ => &[],
    }
}

const FAULTS: [Option<&str>; 8] = [
    None,
    Some("ignores-revocation"),
    Some("widens-on-revoke"),
    Some("approval-not-rechecked"),
    Some("forgets-refusals"),
    Some("dispatches-for-the-dead"),
    Some("torn-journal"),
    Some("key-to-caller"),
];

fn each_gateway_breaks_what_it_should(cell: &str) {
    let ground = Ground::new();
    let name = |fault: Option<&str>| format!("gateway-{}", fault.unwrap_or("good"));
    for fault in FAULTS {
        ground.drill(&name(fault), &commanded(&name(fault), fault));
    }
    let trials = run(&ground, cell);
    let wrong: String = FAULTS
        .into_iter()
        .flat_map(|fault| TRIALS.map(|trial| (fault, trial)))
        .map(|(fault, trial)| {
            compare(
                &trials,
                &format!("{}::{trial}", name(fault)),
                broken_by(fault, trial),
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong}");
}

fn each_gateway_breaks_what_it_should_in_namespaces() {
    each_gateway_breaks_what_it_should("namespaces");
}

fn each_gateway_breaks_what_it_should_below_the_subreaper() {
    each_gateway_breaks_what_it_should("subreaper");
}

fn the_gateway_that_ships_is_driven_as_any_other() {
    let ground = Ground::new();
    ground.drill("gateway", GATEWAY);
    let trials = run(&ground, "namespaces");
    let wrong: String = TRIALS
        .map(|trial| compare(&trials, &format!("gateway::{trial}"), &[]))
        .concat();
    assert!(wrong.is_empty(), "{wrong}");
}

fn an_approval_that_comes_late_starts_nothing_at_a_good_server_and_something_at_a_bad_one() {
    let ground = Ground::new();
    ground.drill("approval", APPROVAL);
    let bad = APPROVAL
        .replace("\ndrill: approval\n", "\ndrill: late\n")
        .replace(
            "command: [\"{{ fixture }}\", deploy]",
            "command: [\"{{ fixture }}\", deploy, --fault, approval-outlives-session]",
        );
    ground.drill("late", &bad);
    let trials = run(&ground, "namespaces");
    let good = [
        "before-approval",
        "after-approval",
        "after-approval::refused",
        "after-approval::revoked",
        "after-acceptance",
    ];
    let mut wrong: String = good
        .map(|trial| compare(&trials, &format!("approval::{trial}"), &[]))
        .concat();
    let late: Broken = &[("eof", ""), ("quiet", ""), ("effects", "")];
    for (trial, right) in [
        ("before-approval", late),
        ("after-approval", late),
        (
            "after-approval::revoked",
            &[
                ("eof", ""),
                ("helpers", ""),
                ("quiet", ""),
                ("revocation", "dispatched the approved call"),
            ],
        ),
        ("after-result", &[]),
    ] {
        wrong += &compare(&trials, &format!("late::{trial}"), right);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn an_authority_that_does_not_revoke_leaves_the_question_open_and_says_what_it_said() {
    let ground = Ground::new();
    let text = commanded("stubborn", None);
    let (before, rest) = text.split_once("    revoke: [").unwrap();
    let (_, after) = rest.split_once("]\n").unwrap();
    let stubborn =
        format!("{before}    revoke: [sh, -c, 'echo the vault is sealed >&2; exit 3']\n{after}");
    ground.drill("stubborn", &stubborn);
    let trials = run(&ground, "namespaces");
    let right: Broken = &[(
        "revocation?",
        "it ended with status 3: “the vault is sealed”",
    )];
    let wrong = compare(&trials, "stubborn::idle", right);
    assert!(wrong.is_empty(), "{wrong}");
}

fn an_authority_that_is_not_there_is_an_error_of_the_run_that_says_why() {
    let ground = Ground::new();
    for (name, serve, words) in [
        (
            "ends",
            "[sh, -c, 'echo no key >&2; exit 1']",
            "before it had written a line: no key",
        ),
        (
            "absent",
            "[no-such-gateway]",
            "no-such-gateway could not be executed",
        ),
        ("mute", "[sleep, \"60\"]", "it wrote no line within 0.5 s"),
    ] {
        let text = commanded(name, None);
        let (before, rest) = text.split_once("    serve: [").unwrap();
        let (_, after) = rest.split_once("]\n").unwrap();
        ground.drill(
            name,
            &format!("{before}    within: 500ms\n    serve: {serve}\n{after}"),
        );
        let trials = run(&ground, "namespaces");
        let trial = &trials[&format!("{name}::idle")];
        assert_eq!(trial["verdict"], "error", "{trial}");
        assert!(trial["error"].as_str().unwrap().contains(words), "{trial}");
        std::fs::remove_file(ground.path().join(format!("drills/{name}.yaml"))).unwrap();
    }
}

fn what_is_left_open_is_told_in_an_incident_record_without_bodies_or_secrets() {
    let ground = Ground::new();
    ground.drill("approval", APPROVAL);
    run(&ground, "namespaces");
    let trial = ground.run().join("approval__after-acceptance");
    let incidents = json_in(&trial, "incidents.json");
    let [call] = incidents.as_array().unwrap().as_slice() else {
        panic!("{incidents}")
    };
    assert_eq!(call["kind"], "unresolved-call");
    assert_eq!(call["recorded"], "unknown");
    assert_eq!(call["target"], "POST /builds");
    assert_eq!(call["last_attempt"]["operation"], "POST /builds");
    assert_eq!(call["remote_jobs"].as_array().unwrap().len(), 1);
    assert_eq!(call["authorisation"], "revoked");
    assert!(
        call["revoked"]["operator"]
            .as_str()
            .unwrap()
            .contains("operator"),
        "{call}"
    );
    let page = std::fs::read_to_string(trial.join("incidents.md")).unwrap();
    assert!(page.contains("**Follow-up required:**"), "{page}");
    for text in [incidents.to_string(), page] {
        assert!(!text.contains("v1.2.3"), "an argument of the call: {text}");
        assert!(!text.contains("Bearer"), "{text}");
    }
    assert!(
        !ground
            .run()
            .join("approval__after-result/incidents.json")
            .exists()
    );
}

/// The server is one that another language's library for JWTs has a part in.
fn a_server_that_goes_by_the_signature_is_told_from_one_that_asks() {
    let python = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/python/.venv/bin/python"
    );
    let ground = Ground::new();
    for (name, how, resource) in [
        ("asks", "introspection", "introspects"),
        ("believes", "signature", "introspects"),
        // The remote is at fault, and the server refuses all the same.
        ("asks-alone", "beforehand", "checks-signature"),
    ] {
        let mut drill = small::drill(name, &[python, "@python/verifies.py", how]);
        drill["authority"] = json!({ "oauth": { "tokens": "jwt", "resource": resource } });
        drill["server"]["env"]["OAUTH_ISSUER"] = json!("{{ authority.issuer }}");
        drill["crash"] = json!(["idle", "after-acceptance"]);
        ground.drill(name, &drill.to_string());
    }
    let trials = run(&ground, "namespaces");
    let believes: Broken = &[(
        "revocation",
        "answered as a success: “accepted: the token is good",
    )];
    let wrong = compare(&trials, "asks::idle", &[])
        + &compare(&trials, "asks::after-acceptance", &[])
        + &compare(&trials, "asks-alone::idle", &[])
        + &compare(&trials, "asks-alone::after-acceptance", &[])
        + &compare(&trials, "believes::idle", believes)
        + &compare(&trials, "believes::after-acceptance", believes);
    assert!(wrong.is_empty(), "{wrong}");
}

/// The agent's own server is the gateway's face: it has neither key nor log.
fn the_gateway_is_a_server_towards_an_agent_as_well() {
    let ground = Ground::new();
    let agent = GATEWAY
        .replace("\ndrill: gateway\n", "\ndrill: agent\n")
        .replace(
            "command: [\"{{ fixture }}\", deploy]",
            "command: [\"{{ fixture }}\", gateway, mcp, --socket, \"{{ authority.socket }}\"]",
        )
        .replace("    BUILD_API: \"unix:{{ authority.socket }}\"\n", "");
    ground.drill("agent", &agent);
    let trials = run(&ground, "namespaces");
    let wrong: String = TRIALS
        .map(|trial| compare(&trials, &format!("agent::{trial}"), &[]))
        .concat();
    assert!(wrong.is_empty(), "{wrong}");
}

/// A gateway may leave a daemon: no parent tells whose it is, and it is none of the server's helpers.
fn a_gateway_that_leaves_a_daemon_is_not_taken_for_the_servers() {
    let ground = Ground::new();
    let serve = "serve: [\"{{ fixture }}\", gateway, serve,";
    let daemon = "serve: [sh, -c, '(setsid \"$@\" &); exec sleep 600', sh, \"{{ fixture }}\", gateway, serve,";
    let text = commanded("daemon", None);
    assert!(text.contains(serve));
    ground.drill("daemon", &text.replace(serve, daemon));
    let trials = run(&ground, "namespaces");
    let wrong: String = ["idle", "after-acceptance", "after-result"]
        .map(|trial| compare(&trials, &format!("daemon::{trial}"), &[]))
        .concat();
    assert!(wrong.is_empty(), "{wrong}");
}

fn what_is_no_credential_is_refused_and_an_authority_that_ends_is_no_fault_of_the_server() {
    let ground = Ground::new();
    let text = commanded("odd", None);
    let (before, rest) = text.split_once("    issue: [").unwrap();
    let (_, after) = rest.split_once("]\n").unwrap();
    for (issue, words) in [
        ("[echo, x]", "it has 1 bytes"),
        (
            "[printf, 'a-long-secret\\nof-two-lines']",
            "it is not one word",
        ),
        (
            "[sh, -c, 'head -c 100000 /dev/zero | tr \"\\0\" x']",
            "8192 are the most",
        ),
    ] {
        ground.drill("odd", &format!("{before}    issue: {issue}\n{after}"));
        let trials = run(&ground, "namespaces");
        let trial = &trials["odd::idle"];
        assert_eq!(trial["verdict"], "error", "{trial}");
        assert!(
            trial["error"].as_str().unwrap().contains(words),
            "{words}: {trial}"
        );
    }
    // It says that it is ready, and ends.
    let (before, rest) = text.split_once("    serve: [").unwrap();
    let (_, after) = rest.split_once("]\n").unwrap();
    let (serve, issue) = ("[sh, -c, 'echo ready; exit 3']", "    issue: [\"true\"]\n");
    let (between, rest) = after.split_once("    issue: [").unwrap();
    let (_, after) = rest.split_once("]\n").unwrap();
    ground.drill(
        "odd",
        &format!("{before}    serve: {serve}\n{between}{issue}{after}"),
    );
    let trial = &run(&ground, "namespaces")["odd::idle"];
    let error = trial["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("the authority ended with status 3"),
        "{trial}"
    );
}

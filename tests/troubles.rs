//! What is said when the server, its drill or its surroundings are not what the drill takes them for.

#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/said.rs"]
mod said;

use serde_json::Value;

use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use said::{Said, json_in, say};

/// Runs one trial of the drill that ships, with changes. What was said, and the trial as the results have it.
fn trial(crash: &str, changes: &[(&str, &str)]) -> (Ground, Said, Value) {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", crash, changes));
    let said = say(&mut ground.command([]));
    let results = json_in(&ground.run(), "results.json");
    let trial = results["trials"][0].clone();
    (ground, said, trial)
}

fn verdict_of<'a>(trial: &'a Value, question: &str) -> &'a str {
    let answers = trial["answers"].as_array().unwrap();
    let answer = answers
        .iter()
        .find(|answer| answer["question"] == question)
        .unwrap_or_else(|| panic!("`{question}` was not asked: {trial:#}"));
    answer["verdict"].as_str().unwrap()
}

fn assert_unproven(said: &Said, trial: &Value, instead: &[&str]) {
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(trial["verdict"], "unproven", "{trial:#}");
    assert!(said.out.contains("unproven deploy::"), "{said}");
    let because = trial["answers"][0]["because"].as_str().unwrap();
    for word in instead {
        assert!(because.contains(word), "`{word}` in {because}");
    }
}

#[test]
fn a_command_that_is_not_there_is_an_error_that_names_it() {
    let missing = [(GOOD_SERVER, "command: [no-such-server, --stdio]")];
    let (_ground, said, trial) = trial("idle", &missing);
    assert_eq!(said.code, Some(2), "{said}");
    assert_eq!(trial["verdict"], "error");
    assert!(said.out.contains("no-such-server"), "{said}");
    assert!(said.out.contains("No such file"), "{said}");
}

#[test]
fn a_command_that_may_not_be_executed_is_an_error_that_names_it() {
    let (_ground, said, trial) = trial("idle", &[(GOOD_SERVER, "command: [/etc/passwd]")]);
    assert_eq!(said.code, Some(2), "{said}");
    assert_eq!(trial["verdict"], "error");
    assert!(said.out.contains("/etc/passwd"), "{said}");
    assert!(said.out.contains("Permission denied"), "{said}");
}

#[test]
fn a_server_that_exits_before_the_handshake_is_quoted() {
    let dies = "command: [sh, -c, \"echo 'no DATABASE_URL' >&2; exit 3\"]";
    let (_ground, said, trial) = trial("idle", &[(GOOD_SERVER, dies)]);
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(verdict_of(&trial, "protocol"), "broken");
    assert_eq!(verdict_of(&trial, "eof"), "unproven");
    assert!(said.out.contains("no DATABASE_URL"), "{said}");
}

#[test]
fn a_tool_that_is_not_there_leaves_all_unproven_and_says_so() {
    let change = [("tool: deploy_build", "tool: deploy_biuld")];
    let line = line_of("  tool: deploy_build");
    let mistake = format!(
        "the drill's mistake: the server has no tool `deploy_biuld` (drills/deploy.yaml:{line}); nearest: `deploy_build`"
    );
    for crash in ["after-acceptance", "before-dispatch", "call-unread"] {
        let (_ground, said, trial) = trial(crash, &change);
        assert_unproven(&said, &trial, &[&mistake]);
    }
}

#[test]
fn a_tool_that_is_not_there_leaves_open_what_needs_it_where_the_crash_needs_no_call() {
    let change = [("tool: deploy_build", "tool: build")];
    let (_ground, said, trial) = trial("idle", &change);
    assert_eq!(said.code, Some(1), "{said}");
    for (question, verdict) in [
        ("eof", "held"),
        ("effects", "held"),
        ("reconcile", "unproven"),
        ("revocation", "unproven"),
    ] {
        assert_eq!(verdict_of(&trial, question), verdict, "{question}: {said}");
    }
    assert!(
        said.out.contains("the server has no tool `build`"),
        "{said}"
    );
    assert!(said.out.contains("it lists"), "{said}");
}

#[test]
fn a_credential_in_another_header_than_the_drill_names_is_the_drills_mistake() {
    let change = [("bearer: Authorization", "bearer: X-Api-Key")];
    let line = line_of("  bearer: Authorization");
    let (_ground, said, trial) = trial("after-acceptance", &change);
    let declared = format!("`authority.bearer: X-Api-Key` (drills/deploy.yaml:{line})");
    let words = [
        "the drill's mistake: the server sends its credential as `Bearer …` in the header `authorization`",
        &declared,
        "so the remote refused POST /builds; write `bearer: authorization`",
    ];
    assert_unproven(&said, &trial, &words);
}

/// The line of the shipped drill that begins with this.
fn line_of(beginning: &str) -> usize {
    let text = deploy_at("deploy", "idle", &[]);
    let found = text.lines().position(|line| line.starts_with(beginning));
    1 + found.unwrap()
}

#[test]
fn a_call_that_fails_before_dispatch_leaves_all_unproven_and_quotes_its_answer() {
    let change = [(
        "arguments: { app: shop, ref: v1.2.3 }",
        "arguments: { app: shop }",
    )];
    let (_ground, said, trial) = trial("after-acceptance", &change);
    assert_unproven(&said, &trial, &["before the point was reached", "ref"]);
}

#[test]
fn a_call_that_makes_no_effect_leaves_all_unproven_and_names_what_it_requested() {
    let change = [
        ("tool: deploy_build", "tool: whoami"),
        ("arguments: { app: shop, ref: v1.2.3 }", "arguments: {}"),
    ];
    let (_ground, said, trial) = trial("before-dispatch", &change);
    assert_unproven(&said, &trial, &["GET /whoami", "no effect"]);
}

#[test]
fn a_request_without_a_route_is_shown_as_a_route_to_paste() {
    let change = [("- on: POST /builds\n", "- on: POST /jobs\n")];
    let (_ground, said, trial) = trial("after-acceptance", &change);
    assert_unproven(&said, &trial, &[]);
    assert!(said.out.contains("`remote.routes`"), "{said}");
    assert!(said.out.contains("- on: POST /builds\n"), "{said}");
}

#[test]
fn a_missing_requirement_ignores_the_drill_with_its_hint_and_the_rest_decides() {
    let ground = Ground::new();
    let needs =
        "\nrequires:\n  - { file: \"{{ root }}/node_modules\", hint: \"npm ci\" }\n\nserver:";
    ground.drill(
        "needs",
        &deploy_at("needs", "idle", &[("\nserver:", needs)]),
    );
    let alone = say(&mut ground.command([]));
    assert_eq!(alone.code, Some(2), "{alone}");
    assert!(
        alone
            .err
            .contains("every trial that was asked for is ignored"),
        "{alone}"
    );
    assert!(alone.out.contains("npm ci"), "{alone}");

    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    let said = say(&mut ground.command([]));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
    assert!(said.out.contains("npm ci"), "{said}");
    assert!(said.out.contains("1 held, 1 ignored"), "{said}");
}

/// A server that writes what a terminal would obey wherever it may write.
const HOSTILE: &str = r#"
printf '\033[2J\033]0;owned\007noise\n' >&2
printf '\033[2Jnoise\n'
while IFS= read -r line; do
  id=${line#*'"id":'}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"evil\\u001b[2J\\u009b2J","version":"1"}}}\n' "$id";;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"content":[{"type":"text","text":"\\u001b[31mheld\\u009b2J \\u202edlrow"}]}}\n' "$id";;
    *'"method"'*'"id"'*|*'"id"'*'"method"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}\n' "$id";;
  esac
done
"#;

#[test]
fn nothing_that_a_server_says_reaches_the_terminal_raw() {
    let ground = Ground::new();
    std::fs::write(ground.path().join("hostile.sh"), HOSTILE).unwrap();
    let changes = [(
        GOOD_SERVER,
        "command: [sh, \"{{ root }}/hostile.sh\"]\n  protocol: \"2025-06-18\"",
    )];
    ground.drill(
        "deploy",
        &deploy_at("deploy", "after-acceptance, idle", &changes),
    );
    for arguments in [vec![], vec!["--format", "json"], vec!["--format", "terse"]] {
        let said = say(ground.command([]).args(arguments));
        assert_eq!(said.code, Some(1), "{said}");
        assert_harmless(&said);
    }
    let said = say(&mut ground.command([]));
    assert!(said.out.contains("noise"), "the line is quoted: {said}");
    for bundle in ["deploy__idle", "deploy__after-acceptance"] {
        let bundle = ground.runs()[0].join(bundle);
        for arguments in [vec![], vec!["--json"]] {
            let judged = say(ground.command(["judge"]).arg(&bundle).args(arguments));
            assert_harmless(&judged);
        }
        let journal = std::fs::read_to_string(bundle.join("journal.jsonl")).unwrap();
        assert!(!journal.contains('\u{1b}') && !journal.contains("\\u001b"));
    }
}

/// No control character besides the newline, and nothing that turns the direction of writing round.
fn assert_harmless(said: &Said) {
    for text in [&said.out, &said.err] {
        let bad = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(bad), "{text:?}");
    }
}

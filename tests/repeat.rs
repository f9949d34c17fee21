//! Trials that are carried out several times: what differs between repeats is unstable, and gates.

#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/left.rs"]
mod left;
#[path = "outside/said.rs"]
mod said;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use drills::{GOOD_SERVER, deploy_at};
use ground::{Ground, folders_in};
use left::{Family, LIMIT, journals, until, wait_until_clear};
use said::{json_in, say};

/// A server that is good in every odd repeat and has a fault in every even one. The work folder is one for all sessions of
/// a repeat, so the choice is made once in each; how many have been made stands outside.
const AT_TIMES: &str = r#"
if ! [ -e choice ]; then
  n=$(($(cat "$2" 2>/dev/null || echo 0) + 1))
  echo "$n" >"$2"
  [ $((n % 2)) = 0 ] && echo "--fault $3" >choice || : >choice
fi
exec "$1" deploy $(cat choice)
"#;

/// Exits by SIGABRT: `eof` is broken, at once.
const ABORTS: &str = "abort-at-exit";

/// The drill that ships at `idle`, of a server that has a fault at times.
fn at_times(ground: &Ground, name: &str, fault: &str, more: &str) {
    fs::write(ground.path().join("at-times.sh"), AT_TIMES).unwrap();
    let server = format!(
        r#"command: [sh, "{{{{ root }}}}/at-times.sh", "{{{{ fixture }}}}", "{{{{ root }}}}/count-{name}", {fault}]"#
    );
    let drill = deploy_at(name, "idle", &[(GOOD_SERVER, &server)]);
    ground.drill(name, &format!("{drill}\n{more}\n"));
}

/// The drill that ships at `idle`: it holds.
fn good(ground: &Ground, more: &str) {
    let drill = deploy_at("deploy", "idle", &[]);
    ground.drill("deploy", &format!("{drill}\n{more}\n"));
}

/// The newest run. The names of runs of the same second tell no order.
fn newest(ground: &Ground) -> PathBuf {
    let written = |run: &PathBuf| fs::metadata(run.join("results.json"))?.modified();
    let runs = ground.runs().into_iter();
    runs.max_by_key(|run| written(run).unwrap()).unwrap()
}

/// The only trial of the newest run.
fn trial(ground: &Ground) -> Value {
    let run = newest(ground);
    let results = json_in(&run, "results.json");
    assert_eq!(results["trials"].as_array().unwrap().len(), 1);
    results["trials"][0].clone()
}

fn answer<'a>(trial: &'a Value, question: &str) -> &'a Value {
    let answers = trial["answers"].as_array().unwrap();
    let answer = answers.iter().find(|a| a["question"] == question);
    answer.unwrap_or_else(|| panic!("`{question}` was not asked: {trial:#}"))
}

/// The names of the trials' folders of a run.
fn bundles(run: &Path) -> Vec<String> {
    folders_in(run)
        .iter()
        .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_verdict_that_differs_is_unstable_and_gates() {
    let ground = Ground::new();
    at_times(&ground, "shaky", ABORTS, "");
    let said = say(&mut ground.command(["--repeat", "4"]));
    assert_eq!(said.code, Some(1), "{said}");
    for line in [
        "broken   shaky::idle  ",
        "  held in 2 of 4, broken in 2  unstable: eof",
        "\n✓ held   ~ unstable",
        "unstable: held in 2 of 4, broken in 2: the server",
        "/shaky__idle~2\n",
        "1 trial: 1 broken, 1 of them unstable",
    ] {
        assert!(said.out.contains(line), "`{line}` in {said}");
    }
    let trial = trial(&ground);
    assert_eq!(trial["verdict"], "broken");
    assert_eq!(trial["repeats"], json!({ "held": 2, "broken": 2 }));
    let eof = answer(&trial, "eof");
    assert_eq!(eof["unstable"], json!({ "held": 2, "broken": 2 }));
    assert_eq!(
        (&eof["verdict"], &eof["repeat"]),
        (&json!("broken"), &json!(2))
    );
    let helpers = answer(&trial, "helpers");
    assert_eq!(helpers["verdict"], "held");
    assert_eq!(
        (helpers.get("unstable"), &helpers["repeat"]),
        (None, &json!(1))
    );

    // The sentence and the events are those of the repeat that is named.
    let judged = json_in(&ground.run().join("shaky__idle~2"), "answers.json");
    for key in ["verdict", "because", "evidence"] {
        assert_eq!(answer(&judged, "eof")[key], eof[key]);
    }
}

#[test]
fn every_repeat_leaves_a_bundle_and_every_report_accounts_for_it() {
    let ground = Ground::new();
    at_times(&ground, "shaky", ABORTS, "");
    say(&mut ground.command(["--repeat", "3"]));
    let run = ground.run();
    let all = ["shaky__idle", "shaky__idle~2", "shaky__idle~3"];
    assert_eq!(bundles(&run), all);

    let manifest = json_in(&run, "manifest.json");
    assert_eq!(manifest["population"][0]["repeats"], json!(all));
    let junit = fs::read_to_string(run.join("junit.xml")).unwrap();
    for bundle in all {
        for file in ["journal.jsonl", "answers.json", "drill.json"] {
            let path = format!("{bundle}/{file}");
            assert!(run.join(&path).exists(), "{path}");
            assert!(manifest["files"][&path].is_object(), "{path}");
        }
        let journal = &manifest["journals"][format!("{bundle}/journal.jsonl")];
        assert!(journal["head"].is_string(), "{journal}");
        let property = format!("[[PROPERTY|bundle={bundle}]]");
        assert!(junit.contains(&property), "{junit}");
    }
    assert!(
        junit.contains("unstable: held in 2 of 3, broken in 1"),
        "{junit}"
    );
    assert_eq!(junit.matches("<testcase ").count(), 1);

    let judged = say(ground.command(["judge"]).arg(&run));
    assert_eq!((judged.code, judged.err.as_str()), (Some(1), ""));
    for line in [
        "\nshaky__idle~3\n",
        "shaky__idle, 3 repeats\n",
        "unstable   eof         held in 2 of 3, broken in 1\n",
    ] {
        assert!(judged.out.contains(line), "`{line}` in {judged}");
    }
}

#[test]
fn repeats_that_agree_say_so_and_pass() {
    let ground = Ground::new();
    good(&ground, "");
    let said = say(&mut ground.command(["--repeat", "3"]));
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
    assert!(said.out.contains("  3 of 3"), "{said}");
    assert!(said.out.contains("✓ 3 of 3 held  deploy::idle\n"), "{said}");
    assert!(!said.out.contains("unstable"), "{said}");
    let repeated = trial(&ground);
    assert_eq!(repeated["repeats"], json!({ "held": 3 }));
    assert!(repeated.get("repeats_planned").is_none());

    // What is stable can be approved, and is what one time gives as well.
    let accepted = say(&mut ground.command(["accept"]));
    assert_eq!(accepted.out, "approved  new      deploy::idle\n");
    let json = say(&mut ground.command(["--repeat", "2", "--format", "json"]));
    assert_eq!(json.code, Some(0), "{json}");
    let line: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(line, trial(&ground));
    assert_eq!(line["snapshot"], "same");

    let once = say(&mut ground.command(["--repeat", "1"]));
    assert_eq!(once.code, Some(0), "{once}");
    let once = trial(&ground);
    assert_eq!(once["snapshot"], "same");
    for key in ["repeats", "repeats_planned"] {
        assert!(once.get(key).is_none(), "{once:#}");
    }
    for key in ["repeat", "unstable"] {
        assert!(answer(&once, "eof").get(key).is_none(), "{once:#}");
    }
    let run = newest(&ground);
    assert_eq!(bundles(&run), ["deploy__idle"]);
    let manifest = json_in(&run, "manifest.json");
    assert!(manifest["population"][0].get("repeats").is_none());
}

#[test]
fn what_is_known_to_be_broken_is_not_excused_where_it_is_unstable() {
    let known = "known:\n  eof: { because: reported }";
    let ground = Ground::new();
    at_times(&ground, "shaky", ABORTS, known);
    let said = say(&mut ground.command(["--repeat", "2"]));
    assert_eq!(said.code, Some(1), "{said}");
    let trial_of_it = trial(&ground);
    assert_eq!(trial_of_it["repeats"], json!({ "held": 1, "broken": 1 }));
    let eof = answer(&trial_of_it, "eof");
    assert_eq!(eof["unstable"], json!({ "held": 1, "broken": 1 }));
    assert!(eof.get("known").is_none());
    assert!(!said.out.contains("take it out of `known`"), "{said}");

    let ground = Ground::new();
    let always = format!("command: [\"{{{{ fixture }}}}\", deploy, --fault, {ABORTS}]");
    let drill = deploy_at("deploy", "idle", &[(GOOD_SERVER, &always)]);
    ground.drill("deploy", &format!("{drill}\n{known}\n"));
    let said = say(&mut ground.command(["--repeat", "2"]));
    assert_eq!(said.code, Some(0), "{said}");
    assert_eq!(answer(&trial(&ground), "eof")["known"], true);
}

#[test]
fn a_drill_says_how_often_and_the_command_line_wins() {
    let ground = Ground::new();
    good(&ground, "repeat: 3");
    assert_eq!(say(&mut ground.command(["check"])).code, Some(0));
    assert_eq!(
        say(&mut ground.command(["--list"])).out,
        "deploy::idle: test\n"
    );
    for (arguments, repeats) in [(vec![], 3), (vec!["--repeat", "2"], 2)] {
        say(ground.command([]).args(arguments));
        assert_eq!(trial(&ground)["repeats"], json!({ "held": repeats }));
    }
    say(&mut ground.command(["--repeat", "1"]));
    assert!(trial(&ground).get("repeats").is_none());
    for wrong in ["0", "10001", "often"] {
        let said = say(&mut ground.command(["--repeat", wrong]));
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
        let right = "expected a number from 1 to 10000";
        assert!(said.err.contains(right), "{said}");
    }
}

#[test]
fn an_unstable_trial_leaves_nothing_to_approve() {
    let ground = Ground::new();
    at_times(&ground, "shaky", ABORTS, "");
    let pending = ground.path().join("reports/shaky__idle.snap.new");
    let run = |times: &str| say(&mut ground.command(["--repeat", times]));

    // The first choice is good, and waits for approval; the second run takes that back.
    assert_eq!(run("1").code, Some(0));
    assert!(pending.exists());
    let said = run("2");
    assert_eq!(trial(&ground)["snapshot"], "new");
    assert!(!pending.exists());
    assert!(said.out.contains("there is nothing to approve"), "{said}");
    assert!(!said.out.contains("cargo drill accept"), "{said}");

    fs::remove_file(ground.path().join("count-shaky")).unwrap();
    run("1");
    say(&mut ground.command(["accept"]));
    let said = run("2");
    assert_eq!(trial(&ground)["snapshot"], "differs");
    assert!(
        said.out.contains("--- approved\n    +++ repeat 1"),
        "{said}"
    );
    assert!(!pending.exists());
}

/// A server that takes itself away at its third start, which is the last one of the first repeat.
const GOES_AWAY: &str = r#"#!/bin/sh
n=$(($(cat "$2" 2>/dev/null || echo 0) + 1))
echo "$n" >"$2"
[ "$n" = 3 ] && rm "$0"
exec "$1" deploy
"#;

#[test]
fn an_error_in_one_repeat_is_the_trial_s_and_the_others_are_carried_out() {
    let ground = Ground::new();
    let program = ground.path().join("server.sh");
    fs::write(&program, GOES_AWAY).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let server = r#"command: ["{{ root }}/server.sh", "{{ fixture }}", "{{ root }}/starts"]"#;
    let drill = deploy_at("deploy", "idle", &[(GOOD_SERVER, server)]);
    ground.drill("deploy", &drill);
    let said = say(&mut ground.command(["--repeat", "3"]));
    assert_eq!(said.code, Some(2), "{said}");
    let trial = trial(&ground);
    assert_eq!(trial["verdict"], "error", "{trial:#}");
    assert_eq!(trial["repeats"], json!({ "held": 1, "error": 2 }));
    assert!(trial.get("snapshot").is_none());
    let because = trial["error"].as_str().unwrap();
    assert!(because.starts_with("in repeat 2: "), "{because}");
    assert_eq!(answer(&trial, "eof")["verdict"], "held");
    assert_eq!(bundles(&ground.run()).len(), 3);
}

#[test]
fn an_interruption_ends_the_repeats_and_keeps_those_that_were_carried_out() {
    let ground = Ground::new();
    // The second repeat waits for a server that stays.
    at_times(&ground, "shaky", "ignores-eof", "repeat: 5");
    let drill = ground.path().join("drills/shaky.yaml");
    let text = fs::read_to_string(&drill).unwrap();
    fs::write(&drill, text.replace("within: 2s", "within: 2m")).unwrap();
    let mut run = ground
        .command([])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let has_crashed = |journal: &PathBuf| {
        journal.parent().unwrap().ends_with("shaky__idle~2")
            && fs::read_to_string(journal)
                .unwrap()
                .contains("\"crash-fired\"")
    };
    let crashed = || journals(&ground).iter().any(has_crashed).then_some(());
    until(LIMIT, crashed).expect("the second repeat comes to its crash");
    let family = Family::of(run.id());
    assert!(!family.with("ignores-eof").is_empty(), "the server stays");
    kill(
        Pid::from_raw(i32::try_from(run.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let status = until(LIMIT, || run.try_wait().unwrap()).expect("it ends when it is told to");
    assert_eq!(status.code(), Some(130));
    assert_eq!(wait_until_clear(&ground, &family, LIMIT), Ok(()));

    let trial = trial(&ground);
    assert_eq!(trial["verdict"], "unproven");
    assert_eq!(trial["repeats"], json!({ "held": 1, "unproven": 1 }));
    assert_eq!(trial["repeats_planned"], 5);
    assert!(!trial.to_string().contains("unstable"), "{trial:#}");
    let folder = ground.run();
    assert_eq!(bundles(&folder), ["shaky__idle", "shaky__idle~2"]);
    let manifest = json_in(&folder, "manifest.json");
    assert_eq!(
        manifest["population"][0]["repeats"],
        json!(["shaky__idle", "shaky__idle~2"])
    );
    assert!(manifest["files"]["shaky__idle~2/answers.json"].is_object());
    assert!(!ground.path().join("reports/shaky__idle.snap.new").exists());
}

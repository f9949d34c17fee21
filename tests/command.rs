//! The command as a user and a CI job meet it: exit statuses, messages, formats, approval, and judging again.

#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/said.rs"]
mod said;

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use drills::{GOOD_SERVER, deploy_as, deploy_at};
use ground::Ground;
use said::{Said, json_in, say};

const IDLE: &str = "deploy::idle";

/// With one trial, `deploy::idle`, that holds.
fn idle_ground() -> Ground {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    ground
}

/// With seventeen trials, of which none is meant to be run.
fn listed_ground() -> Ground {
    let ground = Ground::new();
    ground.drill("deploy", drills::DEPLOY);
    ground.drill(
        "notes",
        &deploy_at("notes", "idle, sent, after-acceptance, after-result", &[]),
    );
    ground
}

fn assert_could_not_run(said: &Said, expected: &str) {
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains(expected), "`{expected}` in {said}");
    assert_eq!(said.out, "");
}

#[test]
fn without_a_folder_of_drills_it_says_what_to_do() {
    let ground = Ground::new();
    fs::remove_dir(ground.path().join("drills")).unwrap();
    for arguments in [vec![], vec!["check"], vec!["accept"]] {
        let said = say(ground.command([]).args(arguments));
        assert_could_not_run(&said, "no folder `drills` here or above");
        assert!(said.err.contains("--drills DIR"), "{said}");
    }
}

#[test]
fn a_named_folder_that_is_not_there_is_named_in_the_message() {
    let ground = Ground::new();
    let said = say(&mut ground.command(["--drills", "nowhere"]));
    assert_could_not_run(&said, "failed to find nowhere");
}

#[test]
fn an_empty_folder_is_no_success() {
    let ground = Ground::new();
    assert_could_not_run(&say(&mut ground.command([])), "no drill in");
    assert_could_not_run(&say(&mut ground.command(["check"])), "no drill in");
}

#[test]
fn a_filter_that_matches_nothing_is_no_success() {
    let ground = listed_ground();
    let said = say(&mut ground.command(["depoly"]));
    assert_could_not_run(&said, "no trial matches; there are 17");
    assert!(said.err.contains("--list"), "{said}");
}

#[test]
fn a_mistake_in_a_drill_is_shown_at_its_place_before_anything_starts() {
    let ground = idle_ground();
    let text = deploy_as("broken", &[("  tool: deploy_build", "  tol: deploy_build")]);
    let line = 1 + text.lines().position(|l| l.starts_with("  tol:")).unwrap();
    ground.drill("broken", &text);
    for arguments in [vec![], vec!["check"], vec!["--list"]] {
        let said = say(ground.command([]).args(arguments));
        assert_could_not_run(&said, &format!("drills/broken.yaml:{line}:3"));
        assert!(said.err.contains("  tol: deploy_build"), "{said}");
        assert!(said.err.contains("did you mean `tool`?"), "{said}");
    }
    assert!(!ground.path().join("reports").exists());
}

#[test]
fn two_drills_of_one_name_are_a_mistake_that_names_both_files() {
    let ground = idle_ground();
    fs::create_dir(ground.path().join("drills/more")).unwrap();
    ground.drill("more/deploy", drills::DEPLOY);
    let said = say(&mut ground.command([]));
    assert_could_not_run(&said, "two drills are named `deploy`");
    for file in ["drills/deploy.yaml", "drills/more/deploy.yaml"] {
        assert!(said.err.contains(file), "{said}");
    }
}

#[test]
fn wrong_usage_is_told_on_stderr_with_what_would_be_right() {
    let ground = idle_ground();
    let said = say(&mut ground.command(["--exakt"]));
    assert_could_not_run(&said, "--exact");
    let said = say(&mut ground.command(["--format", "xml"]));
    assert_could_not_run(&said, "pretty, terse, json");
    assert_could_not_run(&say(&mut ground.command(["--test-threads", "0"])), "0");
    let said = say(ground.command([]).env("CARGO_DRILL_CELL", "jail"));
    assert_could_not_run(&said, "it can be `namespaces` or `subreaper`");
}

#[test]
fn cargo_may_say_drill_first() {
    let ground = listed_ground();
    let said = say(&mut ground.command(["drill", "--list", "notes::idle"]));
    assert_eq!(said.out, "notes::idle: test\n");
}

#[test]
fn it_lists_as_libtest_does_and_filters_as_libtest_does() {
    let ground = listed_ground();
    let list = |arguments: &[&str]| {
        let said = say(ground.command(["--list"]).args(arguments));
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        said.out
    };
    assert_eq!(list(&[]).lines().count(), 17);
    assert_eq!(list(&["idle"]), "deploy::idle: test\nnotes::idle: test\n");
    assert_eq!(list(&["deploy::idle", "--exact"]), "deploy::idle: test\n");
    assert_eq!(list(&["deploy", "--exact"]), "");
    assert_eq!(
        list(&["notes", "--skip", "after", "--skip", "sent"]),
        "notes::idle: test\n"
    );
    assert!(!ground.path().join("reports").exists());
}

#[test]
fn check_counts_and_runs_nothing() {
    let ground = listed_ground();
    let said = say(&mut ground.command(["check"]));
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "2 drills, 17 trials, no mistake\n")
    );
    let said = say(&mut idle_ground().command(["check"]));
    assert_eq!(said.out, "1 drill, 1 trial, no mistake\n");
    assert!(!ground.path().join("reports").exists());
}

#[test]
fn the_schema_that_ships_is_the_one_it_prints() {
    let said = say(&mut Ground::new().command(["schema"]));
    assert_eq!(said.code, Some(0));
    let ships = include_str!("../drills/drill.schema.json");
    assert_eq!(said.out, ships, "write it anew with `cargo drill schema`");
}

#[test]
fn the_list_of_findings_that_ships_is_the_one_it_prints() {
    let said = say(&mut Ground::new().command(["explain", "--format", "markdown"]));
    assert_eq!(said.code, Some(0));
    let ships = include_str!("../docs/findings.md");
    assert_eq!(
        said.out, ships,
        "write it anew with `cargo drill explain --format markdown > docs/findings.md`"
    );
}

#[test]
fn a_code_is_explained_and_an_unknown_one_is_answered_with_the_nearest() {
    let ground = Ground::new();
    let said = say(&mut ground.command(["explain", "eof/still-running"]));
    assert_eq!(said.code, Some(0), "{said}");
    assert!(
        said.out.starts_with("eof/still-running  broken\n"),
        "{said}"
    );
    assert!(
        said.out.contains("What to do: End when stdin ends"),
        "{said}"
    );
    let said = say(&mut ground.command(["explain", "eof/stil-running"]));
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
    assert!(
        said.err.contains("the nearest is `eof/still-running`"),
        "{said}"
    );
}

#[test]
fn a_snapshot_holds_verdicts_and_codes_and_sentences_where_the_drill_asks_for_them() {
    let ground = idle_ground();
    let pending = ground.path().join("reports/deploy__idle.snap.new");
    let text = || {
        say(&mut ground.command([]));
        fs::read_to_string(&pending).unwrap()
    };
    let codes = text();
    assert!(codes.contains("\neof: held\n"), "{codes}");
    assert!(!codes.contains("exited"), "{codes}");
    let change = [("crash:", "snapshot: full\ncrash:")];
    ground.drill("deploy", &deploy_at("deploy", "idle", &change));
    let full = text();
    assert!(
        full.contains("(pid <pid>) exited with status 0, <time> after EOF"),
        "{full}"
    );
}

#[test]
fn each_format_shows_the_trial_and_json_shows_what_the_results_hold() {
    let ground = idle_ground();
    let pretty = say(&mut ground.command([]));
    assert_eq!(
        (pretty.code, pretty.err.as_str()),
        (Some(0), ""),
        "{pretty}"
    );
    assert!(
        pretty.out.starts_with("held     deploy::idle  "),
        "{pretty}"
    );
    let last = pretty.out.lines().last().unwrap();
    assert!(
        last.starts_with("1 trial: 1 held, 1 new snapshot"),
        "{pretty}"
    );
    let terse = say(&mut ground.command(["--format", "terse"]));
    assert_eq!(terse.out.lines().next(), Some("."), "{terse}");

    let before = ground.runs();
    let json = say(&mut ground.command(["--format", "json"]));
    assert_eq!((json.code, json.err.as_str()), (Some(0), ""), "{json}");
    let runs = ground.runs();
    let run = runs.iter().find(|run| !before.contains(run)).unwrap();
    let lines: Vec<Value> = json
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(Value::Array(lines), json_in(run, "results.json")["trials"]);
}

#[test]
fn one_trial_at_a_time_runs_in_order() {
    let ground = Ground::new();
    for name in ["b", "a"] {
        ground.drill(name, &deploy_at(name, "idle", &[]));
    }
    let said = say(&mut ground.command(["--test-threads", "1"]));
    let names: Vec<&str> = said
        .out
        .lines()
        .take(2)
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    assert_eq!(names, ["a::idle", "b::idle"]);
}

#[test]
fn a_snapshot_goes_from_new_to_approved_to_differing_and_back() {
    let ground = idle_ground();
    let approved = ground.path().join("reports/deploy__idle.snap");
    let pending = ground.path().join("reports/deploy__idle.snap.new");
    let run = || say(&mut ground.command([]));

    let said = run();
    assert_eq!(said.code, Some(0));
    assert!(said.out.contains("cargo drill accept"), "{said}");
    assert!(pending.exists() && !approved.exists());
    let said = say(&mut ground.command(["accept", "another"]));
    assert_eq!(said.out, "nothing to approve\n");
    let said = say(&mut ground.command(["accept"]));
    assert_eq!(said.out, "approved  new      deploy::idle\n");
    assert!(!pending.exists() && approved.exists());

    let said = run();
    assert_eq!(said.code, Some(0), "{said}");
    assert!(!said.out.contains("snapshot"), "{said}");

    // The same server, and one question less.
    let change = [("  helpers: none", "  helpers: { skip: \"not today\" }")];
    ground.drill("deploy", &deploy_at("deploy", "idle", &change));
    let said = run();
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.out.contains("deploy::idle  snapshot differs"),
        "{said}"
    );
    assert!(said.out.contains("\n    -"), "{said}");
    assert!(said.out.contains("not today"), "{said}");
    let said = say(&mut ground.command(["accept", "idle"]));
    assert_eq!(said.out, "approved  changed  deploy::idle\n");
    let said = run();
    assert_eq!(said.code, Some(0), "{said}");
}

#[test]
fn ci_takes_no_new_snapshot_and_writes_none() {
    let ground = idle_ground();
    let said = say(ground.command([]).env("CI", "true"));
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.out.ends_with("elsewhere, and commit the snapshots.\n"),
        "{said}"
    );
    let entries = fs::read_dir(ground.path().join("reports")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["runs"]);
}

/// Without the quotes of a shell, which these have none of.
fn words_after<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    let (_, rest) = text
        .split_once(start)
        .unwrap_or_else(|| panic!("no `{start}` in {text}"));
    let command = rest.split(['`', '\n']).next().unwrap();
    command.split_whitespace().collect()
}

#[test]
fn what_it_suggests_works_from_where_one_stands() {
    let ground = Ground::new();
    let fault = "command: [\"{{ fixture }}\", deploy, --fault, abort-at-exit]";
    ground.drill(
        "deploy",
        &deploy_at("deploy", "idle", &[(GOOD_SERVER, fault)]),
    );
    let elsewhere = ground.path().join("tmp");
    for (stands, arguments) in [
        (ground.path().join("drills"), vec![]),
        (ground.path().join("drills"), vec!["--reports", "../kept"]),
        (elsewhere.clone(), vec!["--drills", "../drills"]),
        (
            elsewhere.clone(),
            vec!["--drills", "../drills", "--reports", "here"],
        ),
    ] {
        let from = |arguments: &[&str]| {
            let mut command = ground.command(["--color", "never"]);
            say(command.args(arguments).current_dir(&stands))
        };
        let said = from(&arguments);
        assert_eq!(said.code, Some(1), "{said}");
        let bundle = words_after(&said.out, "    bundle ");
        assert!(
            stands.join(bundle[0]).join("journal.jsonl").exists(),
            "{said}"
        );
        let pending = words_after(&said.out, "Read them in ")[0];
        let pending = pending.trim_end_matches("/*.snap.new,");
        assert!(
            stands.join(pending).join("deploy__idle.snap.new").exists(),
            "{said}"
        );
        let accept = words_after(&said.out, "approve with `cargo drill ");
        let accepted = from(&accept);
        assert_eq!(accepted.out, "approved  new      deploy::idle\n", "{said}");

        let run = words_after(&said.out, "Bundle: ")[0];
        let shown = from(&["show", run, "idle"]);
        assert_eq!(shown.code, Some(0), "{shown}");
        for suggested in ["\n  cargo drill --exact ", "\n  cargo drill judge "] {
            let verb = suggested.trim().trim_start_matches("cargo drill ");
            let again = [vec![verb], words_after(&shown.out, suggested)].concat();
            let again = from(&again);
            assert_eq!(again.code, Some(1), "{suggested}: {again}\n{shown}");
        }
        fs::remove_file(stands.join(pending).join("deploy__idle.snap")).unwrap();
    }
}

#[test]
fn judging_again_gives_the_same_answers_and_refuses_a_journal_that_was_changed() {
    let ground = idle_ground();
    say(&mut ground.command([]));
    let bundle = ground.run().join("deploy__idle");
    let judge = |arguments: &[&str]| say(ground.command(["judge"]).arg(&bundle).args(arguments));

    let judged = judge(&["--json"]);
    assert_eq!((judged.code, judged.err.as_str()), (Some(0), ""));
    let again: Value = serde_json::from_str(&judged.out).unwrap();
    assert_eq!(again, json_in(&bundle, "answers.json"));
    let results = json_in(&ground.run(), "results.json");
    assert_eq!(again["answers"], results["trials"][0]["answers"]);
    assert!(judge(&[]).out.contains("✓ held"));

    let journal = bundle.join("journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    let changed = lines[4].replace("\"at\":", "\"at\":1");
    lines[4] = &changed;
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    assert_could_not_run(&judge(&[]), "line 5 of the journal was changed");
    lines.remove(4);
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    assert_could_not_run(&judge(&[]), "line 5 of the journal does not follow");
    lines[4] = "{";
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    assert_could_not_run(&judge(&[]), "line 5 of the journal is not an event");
    fs::write(&journal, "").unwrap();
    let killed_at_once = judge(&[]);
    assert_eq!(killed_at_once.code, Some(1), "{killed_at_once}");
    let expected = "unproven   the run was cut short before its first event";
    assert!(killed_at_once.out.contains(expected), "{killed_at_once}");
    fs::remove_file(&journal).unwrap();
    assert_could_not_run(&judge(&[]), "failed to read the journal");
    fs::remove_file(bundle.join("drill.json")).unwrap();
    assert_could_not_run(&judge(&[]), "failed to read its drill.json");
}

#[test]
fn reports_that_cannot_be_written_are_named_before_anything_starts() {
    let ground = idle_ground();
    fs::write(ground.path().join("reports"), "in the way").unwrap();
    let said = say(&mut ground.command([]));
    assert_could_not_run(&said, "failed to write reports to ");
    assert!(said.err.contains("/reports: "), "{said}");
}

#[test]
fn colour_is_for_terminals_unless_it_is_asked_for() {
    let ground = idle_ground();
    let plain = say(&mut ground.command([]));
    assert!(
        !plain.out.contains('\u{1b}') && plain.err.is_empty(),
        "{plain}"
    );
    let forced = say(ground.command([]).env("CLICOLOR_FORCE", "1"));
    assert!(forced.out.contains("\u{1b}[32m"), "{forced}");
    let always = say(&mut ground.command(["--color", "always"]));
    assert!(always.out.contains("\u{1b}[32m"), "{always}");
    let never = say(ground.command([]).env("NO_COLOR", "1"));
    assert!(!never.out.contains('\u{1b}'), "{never}");

    ground.drill("broken", "drill: broken\n");
    let plain = say(&mut ground.command(["check"]));
    assert!(!plain.err.contains('\u{1b}'), "{plain}");
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_fail() {
    let ground = idle_ground();
    for arguments in [
        vec![],
        vec!["--format", "json"],
        vec!["--list"],
        vec!["schema"],
    ] {
        let (reads, writes) = std::io::pipe().unwrap();
        drop(reads);
        let mut child = ground
            .command([])
            .args(&arguments)
            .stdout(writes)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            (status.code(), err.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    let status = ground.command(["--exakt"]).stderr(writes).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// The drills of this repository as a test binary: what `cargo test` and `cargo nextest` see.
fn test_binary() -> Command {
    // Beside this very test, and of the same build: the newest of its name.
    let deps = std::env::current_exe()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let newest = fs::read_dir(deps)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("drills-") && path.extension().is_none()
        })
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .expect("cargo builds all tests of the package together");
    Command::new(newest)
}

#[test]
fn the_test_binary_lists_as_nextest_expects() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = |more: &[&str]| {
        let mut command = test_binary();
        command.args(["--list", "--format", "terse"]).args(more);
        say(command.current_dir(root))
    };
    let said = list(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(
        said.out.lines().any(|line| line == "deploy::idle: test"),
        "{said}"
    );
    assert!(
        said.out.lines().all(|line| line.ends_with(": test")),
        "{said}"
    );
    let ignored = list(&["--ignored"]);
    assert!(!ignored.out.contains("deploy::idle"), "{ignored}");
}

#[test]
fn the_test_binary_reads_the_drills_around_it_and_prints_nothing_of_its_own() {
    let ground = idle_ground();
    let mut command = test_binary();
    // As nextest starts a test.
    command.args([IDLE, "--exact", "--nocapture"]);
    command.current_dir(ground.path()).env_remove("CI");
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("NEXTEST_RUN_ID");
    command.env("TMPDIR", ground.path().join("tmp"));
    let said = say(&mut command);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
    let lines: Vec<&str> = said.out.lines().filter(|l| !l.is_empty()).collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!(lines[0], "running 1 test");
    assert_eq!(lines[1], "test deploy::idle ... ok");
    assert!(lines[2].starts_with("test result: ok. 1 passed"), "{said}");
    assert!(ground.run().join("deploy__idle/journal.jsonl").exists());
}

#[test]
fn the_test_binary_repeats_a_trial_within_its_one_test() {
    let ground = idle_ground();
    let mut command = test_binary();
    command.args([IDLE, "--exact", "--nocapture", "--repeat", "2"]);
    command.current_dir(ground.path()).env_remove("CI");
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("NEXTEST_RUN_ID");
    command.env("TMPDIR", ground.path().join("tmp"));
    let said = say(&mut command);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said}");
    assert_eq!(said.out.matches("test deploy::idle ... ok").count(), 1);
    for bundle in ["deploy__idle", "deploy__idle~2"] {
        assert!(ground.run().join(bundle).join("journal.jsonl").exists());
    }
    let said = say(test_binary().args(["--repeat", "0"]));
    assert_could_not_run(&said, "expected a number from 1 to 10000");
}

#[test]
fn the_test_binary_ignores_what_requires_more_and_says_how_to_get_it() {
    let ground = Ground::new();
    let requires = "\nrequires: [{ file: nowhere, hint: make it }]\nserver:";
    let drill = deploy_at("deploy", "idle", &[("\nserver:", requires)]);
    ground.drill("deploy", &drill);
    for arguments in [vec![], vec!["--ignored"]] {
        let mut command = test_binary();
        command.args(arguments).current_dir(ground.path());
        command
            .env_remove("CARGO_MANIFEST_DIR")
            .env_remove("NEXTEST_RUN_ID");
        let said = say(&mut command);
        assert_eq!(said.code, Some(0), "{said}");
        let ignored = "test deploy::idle ... ignored (nowhere is missing: make it)\n";
        assert!(said.out.contains(ignored), "{said}");
    }
    let mut command = test_binary();
    command.args(["--list", "--ignored"]);
    let said = say(command
        .current_dir(ground.path())
        .env_remove("CARGO_MANIFEST_DIR"));
    assert_eq!(said.out, "deploy::idle: test\n", "{said}");
}

#[test]
fn a_trial_that_did_not_hold_fails_as_a_test_with_its_sentence() {
    let ground = Ground::new();
    let fault = [(
        GOOD_SERVER,
        "command: [\"{{ fixture }}\", deploy, --fault, abort-at-exit]",
    )];
    ground.drill("deploy", &deploy_at("deploy", "idle", &fault));
    let mut command = test_binary();
    command.current_dir(ground.path()).env_remove("CI");
    command
        .env_remove("CARGO_MANIFEST_DIR")
        .env_remove("NEXTEST_RUN_ID");
    let said = say(&mut command);
    assert_eq!(said.code, Some(101), "{said}");
    assert!(said.out.contains("test deploy::idle ... FAILED"), "{said}");
    assert!(said.out.contains("SIGABRT"), "{said}");
    assert!(said.out.contains("reports/runs/"), "{said}");
}

#[test]
fn the_first_argument_of_a_process_may_be_anything() {
    let ground = listed_ground();
    let said = say(ground.command(["--list", "notes::idle"]).arg0("elsewhere"));
    assert_eq!(said.out, "notes::idle: test\n");
}

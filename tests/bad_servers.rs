//! Servers that are no servers, or enemies: each is bounded in time and in size, has the verdict that it deserves, and does
//! nothing to the trials beside it.

#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/needs.rs"]
mod needs;
#[path = "outside/said.rs"]
mod said;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use needs::test;
use said::{Said, say};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(who_does_not_answer_the_handshake_is_broken_by_a_limit_and_harms_nobody),
            test!(a_command_that_cannot_be_executed_is_named_with_its_place_in_the_drill),
            test!(without_descriptors_it_is_an_error_of_the_machine_and_the_files_stay_readable),
            test!(
                a_log_that_leads_outside_or_never_ends_is_not_read,
                "python3"
            ),
            test!(
                a_helper_that_renames_itself_is_found_and_reaches_no_terminal,
                "perl"
            ),
        ],
    )
}

/// The deadline of a handshake is 30 s; on a machine that is busy, somewhat more passes.
const BOUND: Duration = Duration::from_secs(90);

/// What none of these bundles may grow to.
const LARGEST_BUNDLE: u64 = 64 * 1024 * 1024;

fn command(argv: &[&str]) -> String {
    format!("command: {}", json!(argv))
}

/// Trials by name, and what was said.
fn run(ground: &Ground) -> (Said, Vec<Value>) {
    let said = say(&mut ground.command(["--format", "json", "--test-threads", "12"]));
    let trials = said
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    (said, trials)
}

fn named<'t>(trials: &'t [Value], name: &str) -> &'t Value {
    let is_it = |trial: &&Value| trial["name"] == name;
    trials
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{name} was not run"))
}

fn answer<'t>(trial: &'t Value, question: &str) -> &'t Value {
    let answers = trial["answers"].as_array().unwrap();
    answers
        .iter()
        .find(|answer| answer["question"] == question)
        .unwrap_or_else(|| panic!("`{question}` was not asked: {trial:#}"))
}

fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

fn who_does_not_answer_the_handshake_is_broken_by_a_limit_and_harms_nobody() {
    let mutes: [(&str, &[&str], &str); 8] = [
        ("mute", &["sleep", "600"], "30 s"),
        (
            "shuts-its-ears",
            &["sh", "-c", "exec sleep 600 <&- >&-"],
            "closed",
        ),
        (
            "garbage",
            &["sh", "-c", "while read line; do echo oops; done"],
            "oops",
        ),
        ("flood-of-lines", &["yes", "oops"], "oops"),
        (
            "endless-line",
            &["sh", "-c", "head -c 100M /dev/zero | tr '\\0' x; sleep 600"],
            "xxx",
        ),
        (
            "not-utf-8",
            &["sh", "-c", "printf '\\377\\376\\n'; sleep 600"],
            "\u{fffd}",
        ),
        (
            "loud-and-dead",
            &[
                "sh",
                "-c",
                "head -c 4M /dev/zero | tr '\\0' x >&2; echo no DATABASE_URL >&2; exit 3",
            ],
            "no DATABASE_URL",
        ),
        ("by-a-signal", &["sh", "-c", "kill -SEGV $$"], "SIGSEGV"),
    ];
    let ground = Ground::new();
    for (name, argv, _) in mutes {
        ground.drill(
            name,
            &deploy_at(name, "idle", &[(GOOD_SERVER, &command(argv))]),
        );
    }
    ground.drill("good", &deploy_at("good", "idle, after-acceptance", &[]));
    let begun = Instant::now();
    let (said, trials) = run(&ground);
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(said.code, Some(1), "{said}");
    for (name, _, quoted) in mutes {
        let trial = named(&trials, &format!("{name}::idle"));
        let protocol = answer(trial, "protocol");
        assert_eq!(protocol["verdict"], "broken", "{trial:#}");
        let because = protocol["because"].as_str().unwrap();
        assert!(because.contains(quoted), "`{quoted}` in {because}");
        for question in [
            "eof",
            "helpers",
            "quiet",
            "effects",
            "reconcile",
            "revocation",
            "secrets",
            "resources",
        ] {
            assert_eq!(answer(trial, question)["verdict"], "unproven", "{trial:#}");
        }
        let bundle = ground.run().join(trial["bundle"].as_str().unwrap());
        assert!(size_of(&bundle) < LARGEST_BUNDLE, "{name}");
    }
    for trial in trials.iter().filter(|trial| trial["drill"] == "good") {
        assert_eq!(trial["verdict"], "held", "{trial:#}");
    }
}

fn a_command_that_cannot_be_executed_is_named_with_its_place_in_the_drill() {
    let ground = Ground::new();
    let script = ground.path().join("no-interpreter");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).unwrap();
    for (name, program) in [
        ("missing", "no-such-server"),
        ("a-file", "/etc/passwd"),
        ("a-folder", "/"),
        ("no-interpreter", script.to_str().unwrap()),
    ] {
        ground.drill(
            name,
            &deploy_at(name, "idle", &[(GOOD_SERVER, &command(&[program]))]),
        );
    }
    ground.drill("good", &deploy_at("good", "idle", &[]));
    let (said, trials) = run(&ground);
    assert_eq!(said.code, Some(2), "{said}");
    assert_eq!(named(&trials, "good::idle")["verdict"], "held");
    for trial in trials.iter().filter(|trial| trial["drill"] != "good") {
        assert_eq!(trial["verdict"], "error", "{trial:#}");
        let error = trial["error"].as_str().unwrap();
        let place = format!("(drills/{}.yaml:10)", trial["drill"].as_str().unwrap());
        assert!(error.contains(&place), "`{place}` in {error}");
    }
}

fn without_descriptors_it_is_an_error_of_the_machine_and_the_files_stay_readable() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    for limit in [12, 16, 24] {
        let script = format!(
            "ulimit -n {limit}; exec {} --format json",
            env!("CARGO_BIN_EXE_cargo-drill")
        );
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script])
            .current_dir(ground.path())
            .env("TMPDIR", ground.path().join("tmp"))
            .env_remove("CI");
        let said = say(&mut shell);
        assert_eq!(said.code, Some(2), "{limit}: {said}");
        let trial: Value = serde_json::from_str(said.out.trim()).unwrap();
        assert_eq!(trial["verdict"], "error", "{trial:#}");
        assert!(
            trial["error"]
                .as_str()
                .unwrap()
                .contains("Too many open files"),
            "{trial:#}"
        );
    }
    for run in ground.runs() {
        let results: Value = said::json_in(&run, "results.json");
        assert_eq!(results["trials"][0]["verdict"], "error");
    }
    assert_eq!(fs::read_dir(ground.path().join("tmp")).unwrap().count(), 0);
}

/// A log that is no file of the work folder's own. The server writes into it as into any other.
fn a_log_that_leads_outside_or_never_ends_is_not_read() {
    let ground = Ground::new();
    let outside = ground.path().join("outside.jsonl");
    fs::write(&outside, "{\"call_id\":\"the contents of another file\"}\n").unwrap();
    let python = concat!(
        "exec python3 ",
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/python/good.py"
    );
    let logs = [
        (
            "link",
            format!("ln -sf '{}' \"$ACTIVITY_LOG\"; {python}", outside.display()),
            "symbolic link",
        ),
        (
            "fifo",
            format!("mkfifo \"$ACTIVITY_LOG\"; exec 9<>\"$ACTIVITY_LOG\"; {python}"),
            "not a regular file",
        ),
        (
            "folder",
            format!("mkdir \"$ACTIVITY_LOG\"; ACTIVITY_LOG=/dev/null; {python}"),
            "not a regular file",
        ),
    ];
    for (name, script, _) in &logs {
        let changes: [(&str, &str); 7] = [
            (GOOD_SERVER, &command(&["sh", "-c", script])),
            ("BUILD_API:", "API:"),
            ("BUILD_TOKEN:", "API_TOKEN:"),
            ("tool: deploy_build", "tool: start_job"),
            ("on: POST /builds\n", "on: POST /jobs\n"),
            ("on: GET /builds #", "on: GET /jobs #"),
            ("eof: { within: 2s }", "eof: { within: 5s }"),
        ];
        ground.drill(name, &deploy_at(name, "after-acceptance", &changes));
    }
    let (said, trials) = run(&ground);
    assert_eq!(said.code, Some(1), "{said}");
    for (name, _, why) in &logs {
        let ownership = answer(
            named(&trials, &format!("{name}::after-acceptance")),
            "ownership",
        );
        assert_eq!(ownership["verdict"], "unproven", "{name}: {ownership:#}");
        let because = ownership["because"].as_str().unwrap();
        assert!(because.contains(why), "`{why}` in {because}");
    }
    for bundle in ground::folders_in(&ground.run()) {
        for file in fs::read_dir(bundle).unwrap() {
            let content = fs::read(file.unwrap().path()).unwrap();
            let content = String::from_utf8_lossy(&content);
            assert!(!content.contains("the contents of another file"));
        }
    }
}

/// A helper whose name and arguments would command the terminal.
fn a_helper_that_renames_itself_is_found_and_reaches_no_terminal() {
    let ground = Ground::new();
    let script = r#"perl -e '$0 = "\e[2J\e]0;owned\a\x{9b}31m\n"; sleep 600' </dev/null >/dev/null 2>&1 & exec "$@""#;
    let argv = ["sh", "-c", script, "sh", "{{ fixture }}", "deploy"];
    ground.drill(
        "deploy",
        &deploy_at("deploy", "idle", &[(GOOD_SERVER, &command(&argv))]),
    );
    let said = say(&mut ground.command([]));
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("owned"), "{said}");
    for text in [&said.out, &said.err] {
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
    }
    for file in fs::read_dir(ground.run().join("deploy__idle")).unwrap() {
        let content = fs::read(file.unwrap().path()).unwrap();
        assert!(
            !content.contains(&0x1b),
            "a bundle is safe to look at with cat"
        );
    }
}

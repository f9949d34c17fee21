//! The page in a real browser: what a hostile server says does not act in it, and does not break it.
//!
//! ```text
//!   hostile.py ──> cargo-drill ──> report.html ──> Chromium: as it is, and once more without its policy
//! ```
//!
//! Without its policy, so that the escaping alone has to hold: a policy hides a hole until somebody opens the page where
//! none is obeyed.

mod browser;
#[path = "../outside/needs.rs"]
mod needs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::Value;

use browser::{Catcher, Seen, look};
use needs::test;

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                what_a_hostile_server_says_neither_acts_nor_breaks_the_page,
                "python3",
                "chromium"
            ),
            test!(
                nothing_of_a_hostile_server_runs_over_an_edge_or_through_the_words_of_a_picture,
                "python3",
                "chromium"
            ),
            test!(
                a_control_character_or_a_bidirectional_override_is_seen_and_does_not_act,
                "python3"
            ),
            test!(
                every_event_that_an_answer_rests_on_is_reached_by_a_link,
                "python3",
                "chromium"
            ),
            test!(a_page_that_asks_would_be_caught, "chromium"),
            test!(
                show_gives_the_same_on_a_terminal_and_nothing_acts_there_either,
                "python3"
            ),
            test!(
                open_prints_the_path_with_a_browser_and_without_one,
                "python3"
            ),
            test!(
                a_run_that_was_killed_gets_its_page_when_somebody_opens_it,
                "python3",
                "chromium"
            ),
        ],
    )
}

/// `@` is the folder of fixtures, `$` the address that nothing may ask.
const DRILL: &str = r#"
drill: hostile
about: "<script>document.title='pwned'</script></p></section>"
controls: ["</ul><img src=$/control onerror=document.title='pwned'>"]
server:
  command: [python3, -S, "@python/hostile.py", "<img src=$/command>"]
  env:
    CATCHER: "$"
    API: "{{ remote.url }}"
    API_TOKEN: "{{ authority.token }}"
    ACTIVITY_LOG: "{{ workdir }}/activity.jsonl"
    RUN_ID: "{{ run.id }}"
    APPROVAL_ID: "{{ approval.id }}"
remote:
  routes:
    - on: POST /jobs
      effect: job
      key: { header: Idempotency-Key }
      reply: { status: 201, json: { id: "{{ effect.id }}" } }
authority: { bearer: Authorization }
call: { tool: "<script>document.title='pwned'</script>", arguments: { text: "</script>" } }
crash: [idle, after-acceptance, after-result]
recover: { retry: true }
expect:
  eof: { within: 1s }
  ownership:
    log: "{{ workdir }}/activity.jsonl"
    record: { run: /run_id, call: /call_id, process: /pid, approval: /approval_id, target: /target, key: /key, outcome: /outcome }
"#;

const TRIALS: usize = 3;

/// A run of a drill, in a folder that goes with it.
struct Run {
    _folder: tempfile::TempDir,
    page: PathBuf,
}

fn run(drill: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let (drills, reports) = (folder.path().join("drills"), folder.path().join("reports"));
    fs::create_dir(&drills).unwrap();
    let name = drill.lines().find_map(|line| line.strip_prefix("drill: "));
    fs::write(drills.join(format!("{}.yaml", name.unwrap())), drill).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .args(["--format", "json", "--drills"])
        .arg(&drills)
        .arg("--reports")
        .arg(&reports)
        .env_remove("CI")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let runs = fs::read_dir(reports.join("runs")).unwrap_or_else(|error| panic!("{error}: {said}"));
    let mut runs = runs.map(|entry| entry.unwrap().path());
    let made = runs.find(|path| path.join("manifest.json").exists());
    Run {
        page: made.expect(&said).join("report.html"),
        _folder: folder,
    }
}

fn hostile(catcher: &Catcher) -> Run {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let fixtures = format!("{}/", fixtures.display());
    run(&DRILL
        .replace('@', &fixtures)
        .replace('$', &catcher.address()))
}

fn what_a_hostile_server_says_neither_acts_nor_breaks_the_page() {
    let catcher = Catcher::new();
    let hostile = hostile(&catcher);
    let text = fs::read_to_string(&hostile.page).unwrap();
    let policy = "default-src 'none'; style-src 'sha256-";
    assert!(text.contains(policy), "the page has a policy");
    // It is there to be escaped: a page without it would prove nothing.
    for place in ["argv", "name", "stdout", "target", "answer", "key"] {
        assert!(
            text.contains(&format!("/{place}")),
            "{place} is not in the page"
        );
    }

    let as_it_is = look(&hostile.page, 1280);
    let bare = hostile.page.with_file_name("bare.html");
    let start = text
        .find("<meta http-equiv=\"Content-Security-Policy\"")
        .unwrap();
    let end = start + text[start..].find('>').unwrap() + 1;
    fs::write(&bare, format!("{}{}", &text[..start], &text[end..])).unwrap();
    let without_policy = look(&bare, 1280);

    for seen in [as_it_is, without_policy] {
        assert_eq!(seen.title, title(&text));
        assert_eq!(seen.trials, TRIALS, "{seen:?}");
        assert_eq!(seen.of_server, Vec::<String>::new(), "{seen:?}");
        assert_eq!(seen.handlers, 0, "{seen:?}");
        assert_eq!(seen.far_links, Vec::<String>::new());
    }
    assert_eq!(catcher.caught(), Vec::<String>::new());
}

fn nothing_of_a_hostile_server_runs_over_an_edge_or_through_the_words_of_a_picture() {
    let catcher = Catcher::new();
    let hostile = hostile(&catcher);
    for width in [390, 1280] {
        let Seen {
            wider_than_the_window,
            cut_labels,
            crossed_labels,
            ..
        } = look(&hostile.page, width);
        assert_eq!(wider_than_the_window, Vec::<String>::new());
        assert_eq!(cut_labels, Vec::<String>::new());
        assert_eq!(crossed_labels, Vec::<String>::new());
    }
}

fn a_control_character_or_a_bidirectional_override_is_seen_and_does_not_act() {
    let catcher = Catcher::new();
    let text = fs::read_to_string(hostile(&catcher).page).unwrap();
    let acts = |c: &char| {
        (c.is_control() && !"\n\t".contains(*c)) || "\u{202e}\u{2066}\u{200f}".contains(*c)
    };
    assert_eq!(text.chars().find(acts), None);
    assert!(text.contains("\\u{202e}"), "it is made visible");
}

/// The title that the page itself has.
fn title(text: &str) -> String {
    let (_, rest) = text.split_once("<title>").unwrap();
    rest.split_once("</title>").unwrap().0.to_owned()
}

fn every_event_that_an_answer_rests_on_is_reached_by_a_link() {
    let catcher = Catcher::new();
    let hostile = hostile(&catcher);
    let seen = look(&hostile.page, 1280);
    assert_eq!(seen.dead_links, Vec::<String>::new());
    let results = fs::read_to_string(hostile.page.with_file_name("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let answers = results["trials"][0]["answers"].as_array().unwrap();
    assert!(!answers.is_empty());
    assert!(seen.links > answers.len(), "{seen:?}");
}

fn a_page_that_asks_would_be_caught() {
    let catcher = Catcher::new();
    let folder = tempfile::tempdir().unwrap();
    let asks = folder.path().join("asks.html");
    let image = format!(
        "<title>asks</title><img src=\"{}/image\">",
        catcher.address()
    );
    fs::write(&asks, image).unwrap();
    assert_eq!(look(&asks, 1280).of_server, ["img"]);
    assert!(catcher.caught()[0].starts_with("GET /image"));
}

/// `cargo drill` with these words, and what it said on stdout and stderr.
fn drill(words: &[&str], browser: &str) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .args(words)
        .env("BROWSER", browser)
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn show_gives_the_same_on_a_terminal_and_nothing_acts_there_either() {
    let catcher = Catcher::new();
    let hostile = hostile(&catcher);
    let run = hostile.page.parent().unwrap().to_str().unwrap();
    let (code, shown, said) = drill(&["show", run, "after-acceptance"], "");
    assert_eq!(code, Some(0), "{said}");
    for heading in [
        "Answers",
        "What happened",
        "Incident: A process outlived its session",
        "Processes",
        "Ledger of the remote",
        "The server's record",
        "To see it again",
    ] {
        assert!(
            shown.lines().any(|line| line == heading),
            "{heading} is missing: {shown}"
        );
    }
    assert!(
        shown.contains("cargo drill --exact hostile::after-acceptance"),
        "{shown}"
    );
    for other in ["idle", "after-result", "· not asked"] {
        assert!(
            !shown.contains(other),
            "`{other}` was not asked for: {shown}"
        );
    }
    let acts = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert_eq!(shown.chars().find(|c| acts(*c)), None);

    let trial = format!("{run}/hostile__idle");
    let (code, one, _) = drill(&["show", &trial], "");
    assert_eq!(code, Some(0));
    assert!(one.contains("hostile::idle  broken"), "{one}");
    assert!(
        !one.contains("after-acceptance"),
        "it was not asked for: {one}"
    );
    let (code, _, said) = drill(&["show", run, "no-such-trial"], "");
    assert_eq!(code, Some(2));
    assert!(said.contains("matches `no-such-trial`"), "{said}");
    let (code, shown, said) = drill(&["show", run, "after-aceptance"], "");
    assert_eq!((code, shown.as_str()), (Some(2), ""));
    assert!(
        said.contains("did you mean `hostile::after-acceptance`?"),
        "{said}"
    );
}

fn open_prints_the_path_with_a_browser_and_without_one() {
    let catcher = Catcher::new();
    let hostile = hostile(&catcher);
    let run = hostile.page.parent().unwrap();
    let page = hostile.page.to_str().unwrap();

    let opened = run.with_file_name("opened");
    let browser = format!("false:cp %s {}", opened.display());
    let (code, shown, _) = drill(&["open", run.to_str().unwrap()], &browser);
    assert_eq!((code, shown.trim_end()), (Some(0), page));
    assert_eq!(fs::read(opened).unwrap(), fs::read(page).unwrap());

    let (code, shown, said) = drill(&["open", run.to_str().unwrap()], "false");
    assert_eq!((code, shown.trim_end()), (Some(2), page));
    assert!(said.contains("none of those in $BROWSER could"), "{said}");

    // As on a server: no program that knows of one.
    let output = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .arg("open")
        .arg(run)
        .env_remove("BROWSER")
        .env("PATH", run.join("nothing"))
        .output()
        .unwrap();
    let (shown, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!((output.status.code(), shown.trim_end()), (Some(0), page));
    assert!(said.contains("no browser was found"), "{said}");
}

fn a_run_that_was_killed_gets_its_page_when_somebody_opens_it() {
    let catcher = Catcher::new();
    let hostile = hostile(&catcher);
    let run = hostile.page.parent().unwrap();
    // As a SIGKILL in the middle of the second trial leaves it.
    let edit = |file: &str, change: &dyn Fn(&mut Value)| {
        let path = run.join(file);
        let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, value.to_string()).unwrap();
    };
    edit("manifest.json", &|manifest| {
        manifest.as_object_mut().unwrap().remove("finished");
    });
    edit("results.json", &|results| {
        results.as_object_mut().unwrap().remove("finished");
        results["trials"].as_array_mut().unwrap().truncate(1);
    });
    let cut = run.join("hostile__after-acceptance");
    fs::remove_file(cut.join("answers.json")).unwrap();
    let journal = fs::read(cut.join("journal.jsonl")).unwrap();
    fs::write(cut.join("journal.jsonl"), &journal[..journal.len() / 2]).unwrap();
    fs::remove_dir_all(run.join("hostile__after-result")).unwrap();
    fs::remove_file(&hostile.page).unwrap();

    let (code, ..) = drill(&["open", run.to_str().unwrap()], "true");
    assert_eq!(code, Some(0));
    let text = fs::read_to_string(&hostile.page).unwrap();
    for told in [
        "The run did not end",
        "This trial was cut short",
        "The journal ends in the middle of a line",
        "the run ended before it",
    ] {
        assert!(text.contains(told), "{told}");
    }
    assert_eq!(look(&hostile.page, 1280).trials, 2);
}

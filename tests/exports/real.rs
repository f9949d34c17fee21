//! What `cargo drill` leaves of real servers, good and bad.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::assert_accepted;
use super::drills::{GOOD_SERVER, deploy_as, deploy_at};
use super::ground::Ground;
use super::said::{Said, json_in, say};

const ABOUT: &str = "\nabout: deploy_build starts one build";

/// A drill of the good server at these points, evidence for these controls.
fn good(name: &str, crash: &str, controls: &str) -> String {
    let with_controls = format!("\ncontrols: [{controls}]{ABOUT}");
    deploy_at(name, crash, &[(ABOUT, &with_controls)])
}

fn bad(name: &str, crash: &str, server: &str) -> String {
    let with_controls = format!("\ncontrols: [\"CC8.1\"]{ABOUT}");
    let server = format!("command: {server}");
    deploy_at(
        name,
        crash,
        &[(ABOUT, &with_controls), (GOOD_SERVER, &server)],
    )
}

/// With drills that hold, break, break as known, cannot be carried through, and are ignored.
fn mixed_ground() -> Ground {
    let ground = Ground::new();
    ground.drill(
        "good",
        &good("good", "idle, after-acceptance", "\"SOC 2 CC7.4\""),
    );
    let no_key = "[\"{{ fixture }}\", deploy, --fault, no-key]";
    ground.drill("bad", &bad("bad", "idle, after-acceptance", no_key));
    let mut known = bad(
        "known",
        "idle",
        "[\"{{ fixture }}\", deploy, --fault, ignores-eof]",
    );
    known += "\nknown: { eof: { because: \"see <b>upstream</b>\" } }\n";
    ground.drill("known", &known);
    ground.drill("absent", &bad("absent", "idle", "[\"/nowhere/server\"]"));
    let requires =
        format!("\nrequires: [{{ file: nowhere, hint: make it }}]\ncontrols: [\"CC9\"]{ABOUT}");
    ground.drill("ignored", &deploy_as("ignored", &[(ABOUT, &requires)]));
    ground
}

fn commands(said: &Said) -> Vec<&str> {
    said.out
        .lines()
        .filter(|line| line.starts_with("::"))
        .collect()
}

/// Every folder that these exports send a reviewer to.
fn evidence(run: &Path) -> BTreeSet<PathBuf> {
    let results = &json_in(run, "oscal.json")["assessment-results"]["results"];
    let mut hrefs = BTreeSet::new();
    for observation in results[0]["observations"].as_array().unwrap() {
        for evidence in observation["relevant-evidence"]
            .as_array()
            .into_iter()
            .flatten()
        {
            hrefs.insert(run.join(evidence["href"].as_str().unwrap()));
        }
    }
    hrefs
}

pub fn the_exports_of_a_mixed_run_are_accepted_and_lead_to_the_evidence() {
    let ground = mixed_ground();
    let page = ground.path().join("page.md");
    fs::write(&page, "# Before\n").unwrap();
    let said = say(ground
        .command(["--format", "github"])
        .env("GITHUB_STEP_SUMMARY", &page));
    assert_eq!(said.code, Some(2), "{said}");
    let run = ground.run();

    let html = say(&mut ground.command(["controls", "--format", "html"]));
    fs::write(run.join("controls.html"), html.out).unwrap();
    assert_accepted(&[&run]);

    for path in evidence(&run) {
        assert!(
            path.is_file() || !path.parent().unwrap().exists(),
            "{}",
            path.display()
        );
    }
    let manifest = json_in(&run, "manifest.json");
    for file in [
        "results.sarif",
        "oscal.json",
        "summary.md",
        "controls.csv",
        "junit.xml",
    ] {
        assert!(manifest["files"][file].is_object(), "{file}");
    }

    let summary = fs::read_to_string(run.join("summary.md")).unwrap();
    assert_eq!(
        fs::read_to_string(&page).unwrap(),
        format!("# Before\n{summary}")
    );
    for expected in [
        "- **bad::after-acceptance** (`drills/bad.yaml`, line ",
        "`cargo drill bad::after-acceptance --exact`",
        "(known: see \\<b\\>upstream\\</b\\>",
        "- **ignored**, 13 trials: ",
        "- **SOC 2 CC7.4**: held",
        "- **CC9**: not evidenced; no trial of ignored was run: ",
        "- **CC8.1**: error",
    ] {
        assert!(summary.contains(expected), "`{expected}` in\n{summary}");
    }
}

pub fn annotations_point_at_the_crash_and_nothing_else_is_a_command() {
    let ground = mixed_ground();
    let said = say(&mut ground.command(["--format", "github", "bad", "known"]));
    let commands = commands(&said);
    let token = commands[0].strip_prefix("::stop-commands::").unwrap();
    let end = commands
        .iter()
        .position(|line| *line == format!("::{token}::"));
    assert_eq!(end, Some(1), "{said}");
    assert!(
        commands
            .last()
            .unwrap()
            .starts_with("::notice title=cargo drill::")
    );
    let text = fs::read_to_string(ground.path().join("drills/bad.yaml")).unwrap();
    let line = 1 + text
        .lines()
        .position(|line| line.starts_with("crash:"))
        .unwrap();
    let reconcile = format!(
        "::error file=drills/bad.yaml,line={line},title=bad%3A%3Aafter-acceptance reconcile broken::"
    );
    assert!(
        commands
            .iter()
            .any(|command| command.starts_with(&reconcile)),
        "{said}"
    );
    let known = "::warning file=drills/known.yaml,line=";
    assert!(
        commands.iter().any(|command| command.starts_with(known)),
        "{said}"
    );
    // What a person reads is there as well.
    assert!(said.out.contains("Bundle: reports/runs/"), "{said}");
}

pub fn without_being_asked_for_it_prints_no_command() {
    let ground = mixed_ground();
    let said = say(&mut ground.command(["bad::idle", "--exact"]));
    assert_eq!(commands(&said), [""; 0], "{said}");
}

pub fn the_controls_of_a_run_are_shown_in_every_format() {
    let ground = Ground::new();
    ground.drill(
        "good",
        &good("good", "idle", "\"SOC 2 CC7.4\", \"AC-2(1)\""),
    );
    assert_eq!(say(&mut ground.command([])).code, Some(0));
    let run = ground.run();

    let table = say(&mut ground.command(["controls"]));
    assert_eq!(table.code, Some(0), "{table}");
    assert!(table.out.contains("SOC 2 CC7.4  held"), "{table}");
    let csv = say(&mut ground.command(["controls", "--format", "csv"]));
    let name = run.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(
        csv.out
            .contains(&format!("reports/runs/{name}/good__idle/journal.jsonl")),
        "{csv}"
    );
    let html = say(&mut ground.command(["controls", "--format", "html"]));
    assert!(
        html.out.replace("&#x2f;", "/").contains(&format!(
            "href=\"reports/runs/{name}/good__idle/journal.jsonl\""
        )),
        "{html}"
    );
    let oscal = say(&mut ground.command(["controls", &name, "--format", "oscal"]));
    let document: Value = serde_json::from_str(&oscal.out).unwrap();
    let finding = &document["assessment-results"]["results"][0]["findings"][0];
    assert_eq!(finding["target"]["target-id"], "ac-2.1");
    assert_eq!(finding["target"]["status"]["state"], "satisfied");

    // By its folder, from elsewhere, and without drills.
    let said = say(ground.command(["controls"]).arg(&run).current_dir("/"));
    assert_eq!(said.code, Some(0), "{said}");
}

pub fn a_control_without_evidence_fails_a_gate() {
    let ground = Ground::new();
    ground.drill("good", &good("good", "idle, startup", "C1"));
    ground.drill("other", &good("other", "idle", "C2"));
    say(&mut ground.command(["good::idle", "--exact"]));
    let said = say(&mut ground.command(["controls"]));
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.out
            .contains("1 of 2 trials of good were not run: filtered out"),
        "{said}"
    );
    assert!(
        said.out.contains("no trial of other was run: filtered out"),
        "{said}"
    );

    // Together with the rest it is whole.
    say(&mut ground.command(["good::startup", "other"]));
    let runs = ground.runs();
    let said = say(ground.command(["controls"]).args(&runs));
    assert_eq!(said.code, Some(0), "{said}");
}

/// The controls of these runs, or of the latest, are refused with these words.
fn is_refused(ground: &Ground, runs: &[&Path], because: &str) {
    let said = say(ground.command(["controls"]).args(runs));
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said}");
    assert!(said.err.contains(because), "`{because}` in {said}");
}

pub fn a_run_that_was_changed_or_did_not_end_is_no_evidence() {
    let ground = Ground::new();
    ground.drill("good", &good("good", "idle", "C1"));
    say(&mut ground.command([]));
    let first = ground.run();
    say(&mut ground.command([]));
    let runs = ground.runs();
    let killed = runs.iter().find(|run| **run != first).unwrap();
    let mut manifest = json_in(killed, "manifest.json");
    manifest.as_object_mut().unwrap().remove("finished");
    fs::write(killed.join("manifest.json"), manifest.to_string()).unwrap();
    // The one before it does not stand in for it.
    is_refused(&ground, &[], "is incomplete: ");
    is_refused(&ground, &[&first, killed], "is incomplete: ");

    let results = first.join("results.json");
    let text = fs::read_to_string(&results).unwrap();
    fs::write(&results, text.replace("build", "bui1d")).unwrap();
    let because = "is not as it was written: results.json: it was changed";
    is_refused(&ground, &[&first], because);
}

pub fn without_a_run_or_a_control_it_says_what_to_do() {
    let ground = Ground::new();
    ground.drill("good", &deploy_at("good", "idle", &[]));
    let said = say(&mut ground.command(["controls"]));
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("no run in"), "{said}");
    say(&mut ground.command([]));
    let said = say(&mut ground.command(["controls"]));
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said}");
    assert!(said.err.contains("controls: [NAME]"), "{said}");
    let said = say(&mut ground.command(["controls", "nowhere"]));
    assert!(
        said.err.contains("nowhere is neither a folder nor a run"),
        "{said}"
    );
}

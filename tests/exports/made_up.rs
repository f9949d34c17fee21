//! Runs that are made up: empty, ignored, in error, full of hostile text, long.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_drill::export::{self, EndedRun, Matrix, render_html};
use cargo_drill::report::{Results, RunFacts, render_junit};
use serde_json::{Value, json};

use super::{assert_accepted, refused};

const HOSTILE: &str = "\"q\" 'q' a|b <script>alert(1)</script> ]]> <!-- =cmd|' /C calc'!A0 \\u{1b}[2J ::error::x \
                       ##[error]y [z](http://evil.example) ![i](http://evil.example/x.png) @someone a@b.example \
                       www.evil.example https://evil.example `code` ``` {0} {{ x }} $x^2$ ~~s~~ \\ &amp; 日本 \u{202e}\n# h";

fn results(trials: &[Value]) -> Results {
    serde_json::from_value(json!({
        "schema": 1,
        "run": "20261129T234510Z-3f9a",
        "started": "2026-11-29T23:45:10.000Z",
        "finished": "2026-11-29T23:45:10.812Z",
        "trials": trials,
    }))
    .unwrap()
}

fn trial(drill: &str, point: &str, verdict: &str, more: &Value) -> Value {
    let mut trial = json!({
        "name": format!("{drill}::{point}"),
        "drill": drill,
        "crash_point": point,
        "verdict": verdict,
        "seconds": 0.041,
        "answers": [],
    });
    for (key, value) in more.as_object().unwrap() {
        trial[key] = value.clone();
    }
    trial
}

fn answers(verdict: &str, because: &str) -> Value {
    let questions = ["eof", "helpers", "quiet", "effects", "reconcile", "handle"];
    let answer = |question: &&str| {
        json!({
            "question": question, "verdict": verdict, "because": because, "evidence": [3, 14],
        })
    };
    questions.iter().map(answer).collect()
}

fn facts(drills: &[Value]) -> RunFacts {
    serde_json::from_value(json!({ "drills": drills, "population": [] })).unwrap()
}

fn drill(name: &str, controls: &[&str]) -> Value {
    json!({
        "drill": name,
        "file": format!("drills/{name}.yaml"),
        "sha256": "ab".repeat(32),
        "controls": controls,
        "known": { "eof": HOSTILE },
        "server": { "command": ["{{ fixture }}", name] },
    })
}

/// Writes all exports of a run below `folder`.
fn write(folder: &Path, name: &str, results: &Results, facts: &RunFacts) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir(&folder).unwrap();
    let run = EndedRun::new(results, facts, true);
    for (file, text) in export::files(&run).unwrap() {
        fs::write(folder.join(file), text).unwrap();
    }
    fs::write(folder.join("junit.xml"), render_junit(&run).unwrap()).unwrap();
    let page = render_html(&Matrix::of(&[run])).unwrap();
    fs::write(folder.join("controls.html"), page).unwrap();
    folder
}

pub fn runs_of_every_kind_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let empty = results(&[]);
    let ignored = results(&[trial(
        "deploy",
        "sent",
        "ignored",
        &json!({ "reason": "no npm" }),
    )]);
    let error = results(&[
        trial("deploy", "sent", "error", &json!({ "error": "no cell" })),
        trial("deploy", "idle", "unproven", &json!({})),
    ]);
    let mut killed = results(&[trial(
        "deploy",
        "sent",
        "held",
        &json!({ "snapshot": "new" }),
    )]);
    killed.finished = None;
    let hostile = results(&[
        trial(
            "deploy",
            "sent",
            "broken",
            &json!({ "answers": answers("broken", HOSTILE), "bundle": "deploy__sent" }),
        ),
        trial(
            "deploy",
            "idle",
            "error",
            &json!({ "error": HOSTILE, "snapshot": "differs" }),
        ),
        trial("notes", "sent", "ignored", &json!({ "reason": HOSTILE })),
        trial(
            HOSTILE,
            "startup",
            "unproven",
            &json!({ "answers": answers("unproven", HOSTILE) }),
        ),
        trial(
            "known",
            "sent",
            "held",
            &json!({
                "answers": [{ "question": "eof", "verdict": "broken", "because": HOSTILE, "evidence": [1], "known": true }]
            }),
        ),
    ]);
    let mut named = drill(
        "deploy",
        &[HOSTILE, "=1+1", "SOC 2 CC7.4", "soc-2-cc7.4", "日本", "  "],
    );
    named["about"] = json!(HOSTILE);
    named["server"]["command"] = json!([HOSTILE]);
    let hostile_facts = facts(&[named, drill(HOSTILE, &["C"]), drill("known", &["-K"])]);

    let named = facts(&[drill("deploy", &["SOC 2 CC7.4"])]);
    let written = [
        write(folder.path(), "empty", &empty, &RunFacts::default()),
        write(folder.path(), "empty-with-controls", &empty, &named),
        write(folder.path(), "ignored", &ignored, &named),
        write(folder.path(), "error", &error, &named),
        write(folder.path(), "killed", &killed, &RunFacts::default()),
        write(folder.path(), "hostile", &hostile, &hostile_facts),
    ];
    let written: Vec<&Path> = written.iter().map(PathBuf::as_path).collect();
    assert_accepted(&written);
}

pub fn a_run_of_a_thousand_trials_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let trials: Vec<Value> = (0..1000)
        .map(|at| {
            let verdict = ["held", "broken", "unproven"][at % 3];
            let sentence = format!("trial {at}: {}", "a long sentence, ".repeat(30));
            let more = json!({ "answers": answers(verdict, &sentence), "bundle": format!("drill-{at}__sent") });
            trial(&format!("drill-{at}"), "sent", verdict, &more)
        })
        .collect();
    let drills: Vec<Value> = (0..1000)
        .map(|at| drill(&format!("drill-{at}"), &[["A", "B", "C"][at % 3]]))
        .collect();
    let written = write(folder.path(), "long", &results(&trials), &facts(&drills));
    assert_accepted(&[&written]);
    let junit = fs::read_to_string(written.join("junit.xml")).unwrap();
    assert_eq!(junit.matches("<testcase ").count(), 1000);
}

/// Otherwise the tests above might prove nothing.
pub fn the_validators_refuse_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let run = results(&[trial(
        "deploy",
        "sent",
        "held",
        &json!({ "answers": answers("held", "x") }),
    )]);
    let written = write(
        folder.path(),
        "wrong",
        &run,
        &facts(&[drill("deploy", &["C"])]),
    );
    let spoilt = [
        ("results.sarif", "\"2.1.0\"", "\"2.2.0\""),
        ("oscal.json", "\"not-satisfied\"", "\"fine\""),
        ("oscal.json", "\"satisfied\"", "\"fine\""),
        ("junit.xml", "<testcase ", "<case "),
        ("junit.xml", "</testcase>", "</case>"),
        (
            "summary.md",
            "## cargo drill",
            "## <script>x</script> http://evil.example",
        ),
        ("controls.csv", "control,", "=control,"),
        (
            "controls.html",
            "<h1>",
            "<h1><a href=\"javascript:x\">x</a>",
        ),
    ];
    for (file, right, wrong) in spoilt {
        let path = written.join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(right, wrong)).unwrap();
    }
    let refused = refused(&[&written]);
    for (file, ..) in spoilt {
        assert!(refused.contains(file), "{file} was accepted:\n{refused}");
    }
}

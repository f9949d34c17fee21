//! `cargo drill diff`: what changed from one run to another.

#[expect(clippy::wildcard_imports, reason = "what these tests share")]
use super::*;

fn diff(ground: &Ground, arguments: &[&str]) -> Said {
    say(ground.command(["diff"]).args(arguments))
}

pub fn two_runs_of_one_server_do_not_differ() {
    let ground = drilled();
    let first = ground.run();
    let second = run(&ground, &[]);
    let said = diff(&ground, &[first.to_str().unwrap(), &second]);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(said.out.contains("no answer changed"), "{said}");
}

pub fn a_broken_twin_differs_in_what_it_breaks_and_its_events_are_shown() {
    let ground = drilled();
    let good = ground
        .run()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    with_fault(&ground, "ignores-eof");
    let broken = run(&ground, &[]);
    let said = diff(&ground, &[&good, &broken]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("deploy::idle  held → broken"), "{said}");
    assert!(said.out.contains("  eof  held → broken"), "{said}");
    assert!(
        said.out.contains("deploy: drill file drills/deploy.yaml"),
        "{said}"
    );

    let said = diff(&ground, &[&good, &broken, "--format", "json"]);
    assert_eq!(said.code, Some(1));
    let value: Value = serde_json::from_str(&said.out).unwrap();
    let trials = value["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{said}");
    for trial in trials {
        let eof = &trial["answers"][0];
        assert_eq!(
            (&eof["question"], &eof["what"]),
            (&"eof".into(), &"verdict".into())
        );
        assert_eq!(eof["a"]["verdict"], "held");
        assert_eq!(eof["b"]["verdict"], "broken");
        let events = eof["events"].as_array().unwrap();
        assert!(!events.is_empty(), "{eof}");
        let lives_on = events.iter().any(|pair| {
            let event = pair["b"]["event"].as_str().unwrap_or_default();
            event.starts_with("looked moment=deadline") && event.contains("drill-fixture")
        });
        assert!(lives_on, "the bad server is there at the deadline: {eof}");
    }
}

pub fn a_trial_that_only_one_run_knows_is_named() {
    let ground = drilled();
    let first = ground
        .run()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    let second = run(&ground, &[]);
    let said = diff(&ground, &[&first, &second]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(
        said.out
            .contains("only in A\n    deploy::after-acceptance  held"),
        "{said}"
    );
}

pub fn what_cannot_be_read_is_no_difference() {
    let ground = drilled();
    let run = ground.run();
    let said = diff(&ground, &[run.to_str().unwrap(), "drills"]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(
        said.err.contains("failed to read the bundle drills"),
        "{said}"
    );
}

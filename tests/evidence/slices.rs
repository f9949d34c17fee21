//! A run over many machines: slices, and bundles that are joined.

use std::fs;
use std::path::PathBuf;

use cargo_drill::attest::PublicKey;
use cargo_drill::bundle::verify;
use serde_json::Value;

use crate::bundle::make_key;
use crate::drills::deploy_at;
use crate::ground::Ground;
use crate::said::{Said, json_in, say};

/// Two drills of five trials together.
fn ground() -> Ground {
    let ground = Ground::new();
    ground.drill(
        "deploy",
        &deploy_at("deploy", "idle, before-dispatch, after-result", &[]),
    );
    ground.drill("other", &deploy_at("other", "idle, after-result", &[]));
    make_key(&ground.path().join("key.pem"));
    ground
}

/// Runs one slice, as a machine of its own, and returns its run's folder.
fn slice(ground: &Ground, name: &str, slice: &str, more: &[&str]) -> PathBuf {
    let reports = format!("machine-{name}");
    let mut command = ground.command(["--partition", slice, "--reports", &reports]);
    let said = say(command.args(more));
    assert_eq!(said.code, Some(0), "{said}");
    let runs = crate::ground::folders_in(&ground.path().join(reports).join("runs"));
    runs.last().unwrap().clone()
}

fn merge(ground: &Ground, runs: &[&PathBuf], more: &[&str]) -> Said {
    say(ground.command(["merge"]).args(runs).args(more))
}

fn names(run: &std::path::Path) -> Vec<String> {
    let results = json_in(run, "results.json");
    let trials = results["trials"].as_array().unwrap().iter();
    trials
        .map(|trial| trial["name"].as_str().unwrap().to_owned())
        .collect()
}

pub fn slices_are_joined_into_one_bundle_that_covers_every_trial_once() {
    let ground = ground();
    let runs: Vec<PathBuf> = (1..=3)
        .map(|k| {
            slice(
                &ground,
                &k.to_string(),
                &format!("slice:{k}/3"),
                &["--sign", "key.pem"],
            )
        })
        .collect();
    let mut all: Vec<String> = runs.iter().flat_map(|run| names(run)).collect();
    all.sort();
    assert_eq!(
        all,
        [
            "deploy::after-result",
            "deploy::before-dispatch",
            "deploy::idle",
            "other::after-result",
            "other::idle"
        ]
    );
    let runs: Vec<&PathBuf> = runs.iter().collect();
    let said = merge(
        &ground,
        &runs,
        &["--sign", "key.pem", "--key", "key.pem.pub"],
    );
    assert_eq!(said.code, Some(0), "{said}");
    assert!(
        said.out.contains(
            "3 bundles account for all 5 trials: 5 were run, each in exactly one of them."
        ),
        "{said}"
    );
    let joined = ground.run();
    let key = PublicKey::read(&ground.path().join("key.pem.pub")).unwrap();
    let verification = verify(&joined, std::slice::from_ref(&key)).unwrap();
    assert!(verification.is_good(), "{:?}", verification.findings);
    assert_eq!(verification.trials, 5);
    let manifest = json_in(&joined, "manifest.json");
    assert_eq!(manifest["shards"].as_array().unwrap().len(), 3);
    assert!(manifest["partition"].is_null());
    assert!(!manifest.to_string().contains("in slice"));

    // A trial of one of them is not what that one had sealed.
    let kept = crate::bundle::Copy::of(&joined);
    fs::write(kept.at("deploy__idle/stderr-a.txt"), "x").unwrap();
    kept.forge();
    let findings = kept.findings();
    assert!(
        findings
            .iter()
            .any(|f| f.contains("deploy__idle/seal.json: it is not the seal")),
        "{findings:#?}"
    );
}

pub fn what_does_not_cover_every_trial_exactly_once_is_not_joined() {
    let ground = ground();
    let one = slice(&ground, "1", "slice:1/2", &[]);
    let two = slice(&ground, "2", "slice:2/2", &[]);
    let again = slice(&ground, "again", "slice:1/2", &[]);
    let cases: [(&[&PathBuf], &str); 3] = [
        (
            &[&one],
            "they are in slice:2/2, and no bundle of that slice was given",
        ),
        (&[&one, &two, &again], "was run twice"),
        (&[&one, &one, &two], "was run twice"),
    ];
    for (runs, words) in cases {
        let said = merge(&ground, runs, &[]);
        assert_eq!(said.code, Some(2), "{said}");
        assert!(said.err.contains(words), "`{words}` in {said}");
    }
    // Whoever is to vouch for a shard has to have signed it.
    let said = merge(&ground, &[&one, &two], &["--key", "key.pem.pub"]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("is not signed"), "{said}");
    // A shard with a changed answer.
    let mut results: Value = json_in(&two, "results.json");
    results["trials"][0]["answers"][0]["because"] = "x".into();
    fs::write(two.join("results.json"), results.to_string()).unwrap();
    let said = merge(&ground, &[&one, &two], &[]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("cannot be relied on"), "{said}");
    assert!(ground.runs().is_empty(), "nothing was written");
}

pub fn bundles_of_different_drills_or_servers_are_not_joined() {
    let ground = ground();
    let one = slice(&ground, "1", "slice:1/2", &[]);
    ground.drill(
        "other",
        &deploy_at(
            "other",
            "idle, after-result",
            &[("ref: v1.2.3", "ref: v1.2.4")],
        ),
    );
    let two = slice(&ground, "2", "slice:2/2", &[]);
    let said = merge(&ground, &[&one, &two], &[]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("the drill other is another"), "{said}");
    ground.drill("third", &deploy_at("third", "idle", &[]));
    let two = slice(&ground, "3", "slice:2/2", &[]);
    let said = merge(&ground, &[&one, &two], &[]);
    assert!(said.err.contains("they found different trials"), "{said}");
}

pub fn more_slices_than_trials_leave_some_without_any() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    let full = slice(&ground, "1", "slice:1/2", &[]);
    let empty = slice(&ground, "2", "slice:2/2", &[]);
    assert!(names(&empty).is_empty());
    let said = merge(&ground, &[&full, &empty], &[]);
    assert_eq!(said.code, Some(0), "{said}");
    for wrong in ["slice:0/2", "slice:3/2", "hash:1/2"] {
        let said = say(&mut ground.command(["--partition", wrong]));
        assert_eq!(said.code, Some(2), "{said}");
        assert!(said.err.contains("slice:1/3"), "{said}");
    }
}

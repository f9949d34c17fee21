//! The checks that the bundle's own page names, made with public tools.

use std::fs;
use std::process::Command;

use cargo_drill::report::CHECKS;

use crate::bundle::{Copy, SIGNED};

/// The last line that a check prints.
fn last_word(copy: &Copy, script: &str) -> String {
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(copy.path())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    out.lines().last().unwrap_or_default().to_owned()
}

const WORDS: [&str; 5] = [
    "files whole",
    "journals whole",
    "population whole",
    "answers equal",
    "signed whole",
];

#[test]
fn each_check_of_the_page_passes_and_prints_its_word() {
    let copy = Copy::of(&SIGNED.run);
    let page = fs::read_to_string(copy.at("README.md")).unwrap();
    assert!(page.contains("It is signed by the key `"), "{page}");
    for (check, word) in CHECKS.iter().zip(WORDS) {
        assert!(page.contains(check.script), "{page}");
        assert_eq!(last_word(&copy, check.script), word, "{}", check.title);
    }
}

#[test]
fn each_check_of_the_page_fails_where_it_should() {
    let spoilt: [fn(&Copy); 5] = [
        |copy| fs::write(copy.at("deploy__idle/stderr-a.txt"), "x").unwrap(),
        |copy| {
            let path = copy.at("deploy__idle/journal.jsonl");
            let text = fs::read_to_string(&path).unwrap();
            let kept: Vec<&str> = text.lines().collect();
            fs::write(path, kept[..kept.len() - 1].join("\n") + "\n").unwrap();
        },
        |copy| {
            copy.edit("results.json", |r| {
                drop(r["trials"].as_array_mut().unwrap().remove(0));
            });
        },
        |copy| {
            copy.edit("results.json", |r| {
                r["trials"][2]["answers"][0]["verdict"] = "broken".into();
            });
        },
        |copy| copy.edit("manifest.json", |m| m["run"] = "x".into()),
    ];
    for ((check, word), spoil) in CHECKS.iter().zip(WORDS).zip(spoilt) {
        let copy = Copy::of(&SIGNED.run);
        spoil(&copy);
        assert_ne!(last_word(&copy, check.script), word, "{}", check.title);
    }
}

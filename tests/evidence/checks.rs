//! The checks that the bundle's own page names, made with public tools.

use std::fs;
use std::process::Command;

use cargo_drill::report::CHECKS;

use crate::bundle::{Copy, SIGNED};
use crate::drills::deploy_at;
use crate::ground::Ground;
use crate::said::{json_in, say};

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

pub fn each_check_of_the_page_passes_and_prints_its_word() {
    let copy = Copy::of(&SIGNED.run);
    let page = fs::read_to_string(copy.at("README.md")).unwrap();
    assert!(page.contains("It is signed by the key `"), "{page}");
    for (check, word) in CHECKS.iter().zip(WORDS) {
        assert!(page.contains(check.script), "{page}");
        assert_eq!(last_word(&copy, check.script), word, "{}", check.title);
    }
}

pub fn each_check_of_the_page_fails_where_it_should() {
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

/// What a reviewer does who trusts neither us nor our tool.
pub fn jq_and_sha256sum_are_enough_to_check_a_bundle() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "after-acceptance", &[]));
    say(&mut ground.command([]));
    let in_shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-euc", script]).current_dir(ground.run());
        let said = say(&mut shell);
        assert_eq!(said.code, Some(0), "{said}");
        said.out
    };
    let chain = in_shell(
        r#"
        prev=$(printf '%064d' 0)
        while IFS= read -r line; do
            test "$(printf '%s' "$line" | jq -r .prev)" = "$prev"
            prev=$(printf '%s' "$line" | jq -cSj 'del(.hash)' | sha256sum | cut -d' ' -f1)
            test "$(printf '%s' "$line" | jq -r .hash)" = "$prev"
        done < deploy__after-acceptance/journal.jsonl
        echo "$prev"
        "#,
    );
    let manifest = json_in(&ground.run(), "manifest.json");
    let end = &manifest["journals"]["deploy__after-acceptance/journal.jsonl"];
    assert_eq!(end["head"], chain.trim());
    let files = in_shell(
        r#"jq -r '.files | to_entries[] | "\(.value.sha256)  \(.key)"' manifest.json | sha256sum --check --quiet"#,
    );
    assert_eq!(files, "");
    let listed = manifest["files"].as_object().unwrap().len();
    let found = in_shell("find . -type f ! -name manifest.json | wc -l");
    assert_eq!(listed.to_string(), found.trim());
}

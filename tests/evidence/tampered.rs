//! A bundle that was tampered with: whatever was done is found, and named.

use std::fs;
use std::path::Path;

use cargo_drill::attest::PublicKey;
use cargo_drill::bundle::{Signature, State};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use crate::bundle::{Copy, SIGNED, files_in};
use crate::said::say;

/// Whether one of the findings says this.
fn is_found(findings: &[String], words: &str) -> bool {
    findings.iter().any(|finding| finding.contains(words))
}

fn journal_of(copy: &Copy, trial: &str) -> Vec<String> {
    let text = fs::read_to_string(copy.at(&format!("{trial}/journal.jsonl"))).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub fn a_bundle_as_it_was_written_is_whole() {
    let copy = Copy::of(&SIGNED.run);
    let verification = copy.verify(&[]);
    assert_eq!(verification.findings, []);
    assert_eq!(verification.state, State::Complete);
    assert!(verification.is_good());
    // Three trials and one of two repeats; one was filtered out.
    assert_eq!((verification.trials, verification.not_run.len()), (4, 1));
    assert_eq!(verification.not_run["filtered out"], 1);
    assert!(verification.answers > 40 && verification.events > 500);
    assert!(matches!(
        verification.signature,
        Signature::Signed {
            is_trusted: false,
            ..
        }
    ));
}

pub fn a_flipped_bit_is_found_in_every_file_wherever_it_is() {
    let original = Copy::of(&SIGNED.run);
    for file in files_in(original.path()) {
        let name = file
            .strip_prefix(original.path())
            .unwrap()
            .to_str()
            .unwrap();
        let content = fs::read(&file).unwrap();
        if content.is_empty() {
            continue;
        }
        let length = content.len();
        for position in [0, length / 3, length / 2, length - 1] {
            let mut changed = content.clone();
            changed[position] ^= 1;
            fs::write(&file, changed).unwrap();
            let verification = original.verify(&[]);
            // The last byte of a PEM file or of a line is white space, and says nothing.
            let is_blank = name == "signer.pem" || name == "attestation.intoto.jsonl";
            let is_at_end = position == length - 1;
            assert!(
                !verification.findings.is_empty() || is_blank && is_at_end,
                "byte {position} of {name} was changed, and nobody saw it"
            );
            if !is_blank && name != "manifest.json" {
                let named = verification
                    .findings
                    .iter()
                    .any(|f| f.place.starts_with(name));
                assert!(named, "{name} is not named: {:?}", verification.findings);
            }
        }
        fs::write(&file, content).unwrap();
    }
    assert_eq!(original.verify(&[]).findings, []);
}

pub fn a_cut_tail_is_found_in_every_file() {
    let original = Copy::of(&SIGNED.run);
    for file in files_in(original.path()) {
        let name = file
            .strip_prefix(original.path())
            .unwrap()
            .to_str()
            .unwrap();
        let content = fs::read(&file).unwrap();
        let whole_lines = content.split_inclusive(|byte| *byte == b'\n').count();
        let last_line = content
            .split_inclusive(|byte| *byte == b'\n')
            .next_back()
            .map_or(0, <[u8]>::len);
        let is_signer = name == "signer.pem";
        for kept in [content.len() / 2, content.len() - last_line, 0] {
            if kept == content.len() || is_signer && whole_lines == 1 {
                continue;
            }
            fs::write(&file, &content[..kept]).unwrap();
            let verification = original.verify(&[]);
            assert!(
                !verification.is_good(),
                "{name} was cut to {kept} bytes, and nobody saw it"
            );
        }
        fs::write(&file, content).unwrap();
    }
}

pub fn what_was_removed_or_added_is_found() {
    let at = |copy: &Copy, name: &str| copy.at(name);
    let copy = Copy::of(&SIGNED.run);
    fs::remove_dir_all(at(&copy, "deploy__idle")).unwrap();
    let findings = copy.findings();
    assert!(
        is_found(&findings, "deploy__idle/journal.jsonl: it is missing"),
        "{findings:#?}"
    );

    let copy = Copy::of(&SIGNED.run);
    fs::remove_file(at(&copy, "deploy__idle/answers.json")).unwrap();
    fs::write(at(&copy, "deploy__idle/more.txt"), "").unwrap();
    fs::create_dir(at(&copy, "more")).unwrap();
    fs::write(at(&copy, "more/and-more.txt"), "").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at(&copy, "deploy__idle/link")).unwrap();
    let findings = copy.findings();
    for words in [
        "deploy__idle/answers.json: it is missing",
        "deploy__idle/more.txt: it was added",
        "more/and-more.txt: it was added",
        "the links and special files",
    ] {
        assert!(is_found(&findings, words), "`{words}` in {findings:#?}");
    }

    let copy = Copy::of(&SIGNED.run);
    for folders in [
        ("a", "deploy__idle"),
        ("deploy__idle", "deploy__before-dispatch"),
        ("deploy__before-dispatch", "a"),
    ] {
        fs::rename(at(&copy, folders.1), at(&copy, folders.0)).unwrap();
    }
    assert!(is_found(&copy.findings(), "it was changed"));

    for name in ["manifest.json", "results.json"] {
        let copy = Copy::of(&SIGNED.run);
        fs::remove_file(at(&copy, name)).unwrap();
        assert!(
            is_found(&copy.findings(), name),
            "{name} was removed, and nobody saw it"
        );
    }
}

/// Somebody who knows the formats makes every digest fit. What cannot be made to fit is found all the same.
pub fn a_forger_who_makes_the_digests_fit_is_found_by_what_does_not_follow() {
    type Change = fn(&Copy);
    let trial = |name: &'static str| {
        move |results: &Value| {
            let trials = results["trials"].as_array().unwrap();
            trials
                .iter()
                .position(|trial| trial["name"] == name)
                .unwrap()
        }
    };
    let idle = trial("deploy::idle");
    let position = idle(&Copy::of(&SIGNED.run).json("results.json"));
    assert_eq!(position, 0, "the changes below name it by its place");

    let forgeries: [(&str, Change, &str); 15] = [
        (
            "an edited answer in the results",
            |copy| {
                copy.edit("results.json", |r| {
                    r["trials"][0]["answers"][0]["because"] = json!("It was fine.");
                });
            },
            "results.json of deploy::idle: the answer to `eof` has another text",
        ),
        (
            "an edited verdict in the results",
            |copy| {
                copy.edit("results.json", |r| {
                    r["trials"][0]["verdict"] = json!("broken");
                });
            },
            "its verdict is broken, and its journal gives held",
        ),
        (
            "an answer taken out of the results",
            |copy| {
                copy.edit("results.json", |r| {
                    drop(r["trials"][0]["answers"].as_array_mut().unwrap().remove(1));
                });
            },
            "the answer to `helpers` is missing",
        ),
        (
            "an edited answer in a trial's folder",
            |copy| {
                copy.edit("deploy__idle/answers.json", |a| {
                    a["answers"][0]["verdict"] = json!("broken");
                });
            },
            "deploy__idle/answers.json: the answer to `eof` is broken, and the journal gives held",
        ),
        (
            "another question's evidence",
            |copy| {
                copy.edit("deploy__idle/answers.json", |a| {
                    a["answers"][0]["evidence"] = json!([1]);
                });
            },
            "has another text or evidence",
        ),
        (
            "a drill that asks for less",
            |copy| {
                copy.edit("deploy__idle/drill.json", |d| {
                    d["expect"]["eof"] = json!({ "skip": "no need" });
                });
            },
            "deploy__idle/drill.json: it is not the drill that the journal names",
        ),
        (
            "a trial's result taken out",
            |copy| {
                copy.edit("results.json", |r| {
                    drop(r["trials"].as_array_mut().unwrap().remove(0));
                });
            },
            "deploy::idle: it was found and was to be run, and nothing says what became of it",
        ),
        (
            "a trial taken out whole, but for the population",
            |copy| {
                copy.edit("results.json", |r| {
                    drop(r["trials"].as_array_mut().unwrap().remove(0));
                });
                fs::remove_dir_all(copy.at("deploy__idle")).unwrap();
            },
            "deploy::idle: it was found and was to be run, and nothing says what became of it",
        ),
        (
            "a trial passed off as one that was not run",
            |copy| {
                copy.edit("manifest.json", |m| {
                    for entry in m["population"].as_array_mut().unwrap() {
                        if entry["trial"] == "deploy::idle" {
                            entry["not_run"] = json!("filtered out");
                        }
                    }
                });
            },
            "it has a result, and the manifest says that it was not run",
        ),
        (
            "a drill taken out of the population",
            |copy| {
                copy.edit("manifest.json", |m| {
                    let population = m["population"].as_array_mut().unwrap();
                    population.retain(|entry| entry["drill"] != "twice");
                });
            },
            "the drill twice was found, and none of its trials is named",
        ),
        (
            "two trials' folders swapped",
            |copy| {
                for (to, from) in [
                    ("a", "deploy__idle"),
                    ("deploy__idle", "deploy__before-dispatch"),
                    ("deploy__before-dispatch", "a"),
                ] {
                    fs::rename(copy.at(from), copy.at(to)).unwrap();
                }
            },
            "it is the journal of deploy::before-dispatch, not of deploy::idle",
        ),
        (
            "a journal whose tail was cut",
            |copy| {
                let lines = journal_of(copy, "deploy__idle");
                let kept = lines[..lines.len() - 1].join("\n") + "\n";
                fs::write(copy.at("deploy__idle/journal.jsonl"), kept).unwrap();
            },
            "deploy__idle/journal.jsonl: its tail is missing",
        ),
        (
            "an event changed in a journal",
            |copy| {
                let text = journal_of(copy, "deploy__idle").join("\n") + "\n";
                let changed = text.replacen("\"at\":", "\"at\":1", 1);
                fs::write(copy.at("deploy__idle/journal.jsonl"), changed).unwrap();
            },
            "line 1 of the journal was changed",
        ),
        (
            "an event taken out of a journal",
            |copy| {
                let mut lines = journal_of(copy, "deploy__idle");
                lines.remove(10);
                fs::write(
                    copy.at("deploy__idle/journal.jsonl"),
                    lines.join("\n") + "\n",
                )
                .unwrap();
            },
            "line 11 of the journal does not follow the one before it",
        ),
        (
            "one repeat put in the place of another",
            |copy| {
                copy.edit("results.json", |r| {
                    let twice = r["trials"].as_array_mut().unwrap().last_mut().unwrap();
                    twice["repeats"] = json!({ "held": 1 });
                });
            },
            "its repeats are not those that the manifest names",
        ),
    ];
    for (what, change, words) in forgeries {
        let copy = Copy::of(&SIGNED.run);
        change(&copy);
        copy.forge();
        let findings = copy.findings();
        assert!(
            is_found(&findings, words),
            "{what}: `{words}` in {findings:#?}"
        );
    }
    let copy = Copy::of(&SIGNED.run);
    copy.forge();
    assert_eq!(
        copy.findings(),
        Vec::<String>::new(),
        "the forger's tools do no harm"
    );
}

/// Against somebody who writes a whole new history, only a signature helps.
pub fn a_signed_bundle_cannot_be_written_anew() {
    let key = PublicKey::read(&SIGNED.ground.path().join("key.pem.pub")).unwrap();
    let keys = std::slice::from_ref(&key);
    let copy = Copy::of(&SIGNED.run);
    let verification = copy.verify(keys);
    assert_eq!(verification.findings, []);
    assert!(matches!(
        verification.signature,
        Signature::Signed {
            is_trusted: true,
            ..
        }
    ));

    // A trial that never was, for all that can be seen.
    let (attestation, signer) = (copy.at("attestation.intoto.jsonl"), copy.at("signer.pem"));
    let kept = (fs::read(&attestation).unwrap(), fs::read(&signer).unwrap());
    copy.edit("results.json", |r| {
        drop(r["trials"].as_array_mut().unwrap().remove(0));
    });
    fs::remove_dir_all(copy.at("deploy__idle")).unwrap();
    copy.edit("manifest.json", |manifest| {
        let population = manifest["population"].as_array_mut().unwrap();
        population.retain(|entry| entry["trial"] != "deploy::idle");
    });
    copy.forge();
    assert_eq!(copy.findings(), Vec::<String>::new(), "unsigned, it passes");
    let unsigned = copy.verify(keys);
    assert_eq!(unsigned.signature, Signature::Unsigned);
    assert!(unsigned.findings[0].what.contains("not signed"));
    fs::write(attestation, kept.0).unwrap();
    fs::write(signer, kept.1).unwrap();
    let findings = copy.findings();
    assert!(
        is_found(&findings, "what was signed is another manifest.json"),
        "{findings:#?}"
    );
}

pub fn the_command_says_what_is_wrong_and_exits_so() {
    let ground = &SIGNED.ground;
    let run = SIGNED.run.to_str().unwrap();
    let said = say(&mut ground.command(["verify", run]));
    assert_eq!(said.code, Some(0), "{said}");
    assert!(said.out.contains("is whole"), "{said}");
    let said = say(&mut ground.command(["verify", run, "--key", "key.pem.pub"]));
    assert_eq!(said.code, Some(0), "{said}");
    // Sentences are broken to fit the terminal.
    let text = said.out.replace('\n', " ");
    assert!(text.contains("a key that you named"), "{said}");

    let copy = Copy::of(&SIGNED.run);
    copy.unsign();
    fs::write(copy.at("deploy__idle/\u{1b}[2J"), "").unwrap();
    let said = say(&mut ground.command(["verify", copy.path().to_str().unwrap()]));
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("not signed:"), "{said}");
    assert!(said.out.contains("is not as it was written"), "{said}");
    assert!(!said.out.contains('\u{1b}'), "{said}");
    let said = say(&mut ground.command(["verify", "drills"]));
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("it holds no bundle"), "{said}");
}

/// Paths in a bundle are somebody else's words.
pub fn no_path_of_a_bundle_leads_out_of_it() {
    let copy = Copy::of(&SIGNED.run);
    copy.edit("results.json", |r| {
        r["trials"][0]["bundle"] = json!("../../deploy__idle");
    });
    copy.edit("manifest.json", |m| {
        m["files"]["../../../etc/passwd"] = json!({ "size": 1, "sha256": "00" });
    });
    let findings = copy.findings();
    assert!(
        is_found(&findings, "leads out of the bundle"),
        "{findings:#?}"
    );
    assert!(
        is_found(
            &findings,
            "its files are not in order at ../../../etc/passwd"
        ),
        "{findings:#?}"
    );
}

/// A name may lead to what never ends, or to what nobody answers.
pub fn what_is_no_file_is_named_and_not_waited_for() {
    let names = [
        "manifest.json",
        "results.json",
        "attestation.intoto.jsonl",
        "signer.pem",
        "deploy__idle/journal.jsonl",
        "deploy__idle/drill.json",
        "deploy__idle/answers.json",
        "deploy__idle/seal.json",
        "junit.xml",
    ];
    let make: [fn(&Path); 4] = [
        |path| mkfifo(path, Mode::S_IRWXU).unwrap(),
        |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| fs::File::create(path).unwrap().set_len(8 << 30).unwrap(),
    ];
    for name in names {
        for make in make {
            let copy = Copy::of(&SIGNED.run);
            fs::remove_file(copy.at(name)).unwrap();
            make(&copy.at(name));
            let verification = copy.verify(&[]);
            assert!(!verification.is_good(), "{name}");
        }
    }
    let copy = Copy::of(&SIGNED.run);
    let elsewhere = Copy::of(&SIGNED.run);
    fs::remove_dir_all(copy.at("deploy__idle")).unwrap();
    std::os::unix::fs::symlink(elsewhere.at("deploy__idle"), copy.at("deploy__idle")).unwrap();
    let findings = copy.findings();
    assert!(
        is_found(&findings, "deploy__idle: it is no folder"),
        "{findings:#?}"
    );
}

pub fn a_signature_that_was_taken_away_is_missed() {
    let copy = Copy::of(&SIGNED.run);
    copy.unsign();
    let findings = copy.findings();
    assert!(
        is_found(&findings, "attestation.intoto.jsonl: it is missing"),
        "{findings:#?}"
    );
}

pub fn a_manifest_of_another_schema_is_not_guessed_at() {
    let copy = Copy::of(&SIGNED.run);
    copy.edit("manifest.json", |manifest| manifest["schema"] = json!(2));
    copy.forge();
    assert!(is_found(
        &copy.findings(),
        "its schema is 2, and this tool knows 1"
    ));
}

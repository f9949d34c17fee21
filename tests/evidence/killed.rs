//! A run that was killed, interrupted, or whose disk was full: what it leaves is checked as far as it goes, and never looks
//! whole.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cargo_drill::bundle::{Signature, State, verify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bundle::make_key;
use crate::drills::deploy_at;
use crate::ground::Ground;
use crate::left::{Family, LIMIT, journals, until, wait_until_clear};
use crate::said::{json_in, say};

/// How many moments of a run it is killed at.
const MOMENTS: usize = 12;

fn ground() -> Ground {
    let ground = Ground::new();
    ground.drill(
        "deploy",
        &deploy_at("deploy", "idle, before-dispatch, after-result", &[]),
    );
    make_key(&ground.path().join("key.pem"));
    ground
}

/// Ends a run once so many events are in its journals, and returns how many trials it had ended.
fn ended_at(ground: &Ground, signal: Signal, events: usize) -> usize {
    let mut child = ground
        .command(["--test-threads", "1", "--sign", "key.pem"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let written = || -> usize {
        journals(ground)
            .iter()
            .map(|journal| fs::read(journal).unwrap_or_default())
            .map(|text| String::from_utf8_lossy(&text).lines().count())
            .sum()
    };
    until(LIMIT, || (written() >= events).then_some(())).expect("the run is under way");
    let family = Family::of(child.id());
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
    child.wait().unwrap();
    assert_eq!(wait_until_clear(ground, &family, LIMIT), Ok(()));
    json_in(&ground.run(), "results.json")["trials"]
        .as_array()
        .unwrap()
        .len()
}

pub fn a_killed_run_verifies_up_to_the_kill_and_is_incomplete() {
    for moment in 0..MOMENTS {
        let ground = ground();
        let events = 1 + moment * 25;
        let ended = ended_at(&ground, Signal::SIGKILL, events);
        let run = ground.run();
        let verification = verify(&run, &[]).unwrap();
        assert_eq!(verification.findings, [], "killed after {events} events");
        assert_eq!(verification.signature, Signature::Unsigned);
        assert_eq!(verification.trials, ended as u64);
        let State::Incomplete(because) = &verification.state else {
            panic!("killed after {events} events, it looks whole");
        };
        let missing = format!("{} of 3 trials have no result", 3 - ended);
        assert!(because.contains(&missing), "{because}");
        let said = say(&mut ground.command(["verify", run.to_str().unwrap()]));
        assert_eq!(said.code, Some(1), "{said}");
        assert!(said.out.contains("is incomplete"), "{said}");
    }
}

pub fn what_a_killed_run_had_sealed_cannot_be_changed_unseen() {
    let ground = ground();
    // The first trial has ended once the second has a journal.
    let mut child = ground
        .command(["--test-threads", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(LIMIT, || (journals(&ground).len() >= 2).then_some(())).expect("a second trial");
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    child.wait().unwrap();
    let run = ground.run();
    let results = json_in(&run, "results.json");
    let bundle = results["trials"][0]["bundle"].as_str().unwrap();
    assert_eq!(verify(&run, &[]).unwrap().findings, []);
    fs::write(run.join(bundle).join("stderr-a.txt"), "nothing happened\n").unwrap();
    let findings = verify(&run, &[]).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].place, format!("{bundle}/stderr-a.txt"));
}

pub fn an_interrupted_run_says_so_and_is_signed_as_one_that_failed() {
    let ground = ground();
    let ended = ended_at(&ground, Signal::SIGINT, 5);
    assert!(ended < 3, "it was interrupted too late");
    let verification = verify(&ground.run(), &[]).unwrap();
    assert_eq!(verification.findings, []);
    assert!(
        matches!(&verification.state, State::Incomplete(because) if because.contains("interrupted"))
    );
    assert!(matches!(verification.signature, Signature::Signed { .. }));
    let text = fs::read_to_string(ground.run().join("attestation.intoto.jsonl")).unwrap();
    let envelope: cargo_drill::attest::Envelope =
        serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(envelope.statement().unwrap().predicate["result"], "FAILED");
}

/// Every trial is under way, so none is left that was not run.
pub fn a_run_that_was_interrupted_in_its_last_trial_is_incomplete() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    make_key(&ground.path().join("key.pem"));
    ended_at(&ground, Signal::SIGINT, 5);
    let verification = verify(&ground.run(), &[]).unwrap();
    assert_eq!(verification.findings, []);
    assert!(
        matches!(&verification.state, State::Incomplete(because) if because.contains("in the middle of 1 of 1")),
        "{:?}",
        verification.state
    );
    let manifest = json_in(&ground.run(), "manifest.json");
    assert_eq!(manifest["interrupted"], true);
}

/// A disk that is full at one size or another: whatever could still be written, the bundle is not taken for a whole one.
pub fn a_full_disk_never_yields_a_bundle_that_looks_whole() {
    let whole = ground();
    assert_eq!(say(&mut whole.command([])).code, Some(0));
    let bytes: u64 = crate::bundle::files_in(&whole.run())
        .iter()
        .map(|file| fs::metadata(file).unwrap().len().div_ceil(4096) * 4096)
        .sum();
    let mut short = 0;
    for tenth in [3, 6, 9] {
        let ground = ground();
        fs::create_dir(ground.path().join("reports")).unwrap();
        let size = bytes / 1024 * tenth / 10;
        let program = env!("CARGO_BIN_EXE_cargo-drill");
        let script = format!(
            "mount -t tmpfs -o size={size}k none reports || exit 77; \
             {program} --test-threads 1 --sign key.pem; code=$?; mkdir kept; cp -r reports/. kept; exit $code"
        );
        let said = say(Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .current_dir(ground.path())
            .env_remove("CI"));
        let kept = ground.path().join("kept/runs");
        let run = crate::ground::folders_in(&kept).pop();
        if said.code == Some(0) {
            continue;
        }
        short += 1;
        let said_so = said.err.contains("No space left on device")
            || said.out.contains("No space left on device");
        assert!(said_so, "{said}");
        if let Some(verification) = run.and_then(|run| verify(&run, &[]).ok()) {
            assert!(
                !verification.is_good(),
                "with {tenth} tenths of the room: {verification:?}"
            );
            assert_eq!(verification.signature, Signature::Unsigned);
        }
    }
    assert!(short == 3, "the disk was full {short} times only");
}

/// A disk of 300 KiB in a mount namespace of its own, which goes with the shell.
pub fn a_full_disk_is_an_error_and_what_was_written_stays_readable() {
    let ground = Ground::new();
    ground.drill("deploy", crate::drills::DEPLOY);
    fs::create_dir(ground.path().join("reports")).unwrap();
    let program = env!("CARGO_BIN_EXE_cargo-drill");
    let script = format!(
        "mount -t tmpfs -o size=300k none reports || exit 77; \
         {program} --test-threads 1 --format json; code=$?; mkdir kept; cp -r reports/. kept; exit $code"
    );
    let mut shell = ground.command([]);
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", &script]);
    unshare.current_dir(ground.path());
    for (name, value) in shell.env("LANG", "C.UTF-8").get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    let said = say(&mut unshare);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("No space left on device"), "{said}");
    assert!(!said.err.contains("panicked"), "{said}");
    assert!(said.out.contains("\"verdict\":\"error\""), "{said}");
    let runs = fs::read_dir(ground.path().join("kept/runs")).unwrap();
    let run = runs.map(|entry| entry.unwrap().path()).next().unwrap();
    let results = json_in(&run, "results.json");
    assert!(results["trials"].is_array());
    let journals: Vec<PathBuf> = fs::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("journal.jsonl").exists())
        .collect();
    assert!(!journals.is_empty());
    for bundle in journals {
        let judged = say(ground.command(["judge"]).arg(&bundle));
        assert_eq!(judged.err, "");
        let name = bundle.file_name().unwrap().to_str().unwrap();
        let trial = said
            .out
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|trial| trial["bundle"] == name)
            .unwrap();
        // The journal is whole where only what is written after it, such as the seal, found no room any more.
        let journal = fs::read_to_string(bundle.join("journal.jsonl")).unwrap();
        let last = journal
            .lines()
            .last()
            .and_then(|line| serde_json::from_str::<Value>(line).ok());
        let is_whole = last.is_some_and(|last| last["kind"] == "trial-ended");
        assert_eq!(judged.code == Some(0), is_whole, "{trial:#}\n{judged}");
    }
}

//! The release gate and the difference of two runs, as a release job meets them: real runs, real keys, the built command.
//! (Not to be confused with `tests/gate/`, which is about system calls.)

#[path = "../outside/drills.rs"]
mod drills;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/said.rs"]
mod said;

mod decisions;
mod differences;
mod policies;
mod signatures;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use said::{Said, json_in, say};

/// Two points of one drill, `deploy`.
const POINTS: &str = "idle, after-acceptance";

/// A ground with a run of the good server.
fn drilled() -> Ground {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", POINTS, &[]));
    run(&ground, &[]);
    ground
}

/// Runs all drills and returns the name of the run.
fn run(ground: &Ground, arguments: &[&str]) -> String {
    let before = ground.runs();
    let said = say(ground.command([]).args(arguments));
    assert!(matches!(said.code, Some(0 | 1)), "{said}");
    let runs = ground.runs();
    let new: Vec<&PathBuf> = runs.iter().filter(|run| !before.contains(run)).collect();
    let [new] = new.as_slice() else {
        panic!("{new:?}");
    };
    new.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Drills the server with a fault from here on.
fn with_fault(ground: &Ground, fault: &str) {
    let faulty = format!("command: [\"{{{{ fixture }}}}\", deploy, --fault, {fault}]");
    let drill = deploy_at("deploy", POINTS, &[(GOOD_SERVER, &faulty)]);
    ground.drill("deploy", &drill);
}

/// Writes `release.yaml`: the rule, unless there is another, and what is added.
fn policy(ground: &Ground, rest: &str) {
    let rules = if rest.contains("rules:") {
        ""
    } else {
        "rules:\n  - { servers: [deploy], at: [idle, after-acceptance], questions: [eof, effects, reconcile] }\n"
    };
    let text = format!("policy: release\n{rules}{rest}");
    fs::write(ground.path().join("release.yaml"), text).unwrap();
}

fn gate(ground: &Ground, arguments: &[&str]) -> Said {
    let mut command = ground.command(["drill", "gate", "--policy", "release.yaml"]);
    say(command.args(arguments))
}

fn decision(ground: &Ground, arguments: &[&str]) -> Value {
    let said = gate(ground, &[arguments, &["--format", "json"]].concat());
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A key pair of openssl's: `NAME.pem` and `NAME.pub`.
fn key(ground: &Ground, name: &str) {
    let (private, public) = (format!("{name}.pem"), format!("{name}.pub"));
    for arguments in [
        vec!["genpkey", "-algorithm", "ed25519", "-out", &private],
        vec!["pkey", "-in", &private, "-pubout", "-out", &public],
    ] {
        let mut openssl = Command::new("openssl");
        openssl.args(arguments).current_dir(ground.path());
        assert!(openssl.output().unwrap().status.success());
    }
}

//! The order of a journal's times against the order in which strace(1) saw the same things: the call's line written by the
//! client, read by the server, and the client killed.

#[expect(dead_code, reason = "the server is not changed here")]
#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/needs.rs"]
mod needs;
#[expect(dead_code, reason = "no file of a run is read whole here")]
#[path = "outside/said.rs"]
mod said;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

use drills::deploy_at;
use ground::Ground;
use needs::test;
use said::say;

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![test!(
            the_times_of_a_journal_are_in_the_order_that_strace_sees,
            "strace"
        )],
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Write,
    Read,
    Kill,
}

use Step::{Kill, Read, Write};

/// The point, the order that it is made of, and what shows the server's read in the journal. Nothing tells the harness of a
/// read as such: it is the last that the server was waited for, or the first that comes of it.
const POINTS: [(&str, [Step; 3], &str); 3] = [
    ("call-unread", [Write, Kill, Read], "server-continued"),
    ("call-written", [Write, Read, Kill], "call-taken"),
    ("after-acceptance", [Write, Read, Kill], "connection-sought"),
];

fn the_times_of_a_journal_are_in_the_order_that_strace_sees() {
    for (point, right, witness) in POINTS {
        let ground = Ground::new();
        ground.drill("order", &deploy_at("order", point, &[]));
        let trace = ground.path().join("trace");
        let said = say(&mut traced(&ground, &trace));
        let journal = ground.run().join(format!("order__{point}/journal.jsonl"));
        assert!(journal.exists(), "{said}");
        let of_strace = in_order(steps_of_strace(&fs::read_to_string(&trace).unwrap()));
        let of_journal = in_order(steps_of_journal(&journal, witness));
        assert_eq!(of_strace, right, "{point}: {said}");
        assert_eq!(of_journal, of_strace, "{point}");
    }
}

/// `cargo-drill`, and all that it starts, with every read, write and kill.
fn traced(ground: &Ground, trace: &Path) -> Command {
    let drill = ground.command([]);
    let mut command = Command::new("strace");
    command
        .args([
            "-f",
            "-ttt",
            "-s",
            "4096",
            "-e",
            "trace=read,write,kill",
            "-o",
        ])
        .arg(trace)
        .arg(drill.get_program())
        .current_dir(ground.path());
    for (name, value) in drill.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn in_order(mut steps: Vec<(u64, Step)>) -> Vec<Step> {
    steps.sort_by_key(|(at, _)| *at);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Of the first call alone: session A's.
fn steps_of_strace(trace: &str) -> Vec<(u64, Step)> {
    let lines = trace.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (pid, at) = (words.next()?, words.next()?);
        // Seconds with six digits behind the point.
        let at: u64 = at.replace('.', "").parse().ok()?;
        Some((pid, at, line))
    });
    let is_call = |line: &str| line.contains("tools/call");
    let mut steps = Vec::new();
    let mut client = None;
    for (pid, at, line) in lines {
        // Behind the pid and the time; what a thread waited for comes in two parts.
        let is = |name: &str| {
            line.contains(&format!(" {name}(")) || line.contains(&format!("<... {name} resumed>"))
        };
        if client.is_none() && is("write") && is_call(line) {
            client = Some(pid);
            steps.push((at, Write));
        } else if client.is_some_and(|client| client != pid)
            && is("read")
            && is_call(line)
            && !line.contains(r#"\"Line\""#)
            && steps.iter().all(|(_, step)| *step != Read)
        {
            steps.push((at, Read));
        } else if client == Some(pid) && line.contains("+++ killed by SIGKILL") {
            steps.push((at, Kill));
            client = Some("");
        }
    }
    steps
}

fn steps_of_journal(journal: &Path, witness: &str) -> Vec<(u64, Step)> {
    let text = fs::read_to_string(journal).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let first = |kind: &str, from: u64| {
        let at = |line: &Value| line["at"].as_u64().unwrap();
        let of_kind = lines.iter().filter(|line| line["kind"] == kind).map(at);
        let first = of_kind.filter(|at| *at >= from).min();
        first.unwrap_or_else(|| panic!("no {kind} in {text}"))
    };
    let written = first("call-issued", 0);
    vec![
        (written, Write),
        // What the server had read before is not the call.
        (first(witness, 0), Read),
        (first("client-gone", 0), Kill),
    ]
}

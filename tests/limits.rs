//! A server that takes more of the machine than its drill allows: the cell ends it, at whatever moment it does, and the
//! servers beside it do not feel it.

#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[expect(
    dead_code,
    reason = "what is told of runs that were killed is not needed here"
)]
#[path = "outside/left.rs"]
mod left;
#[path = "outside/needs.rs"]
mod needs;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use drills::{GOOD_SERVER, deploy_at};
use ground::{Ground, folders_in};
use left::{Family, wait_until_clear};
use needs::{NOBODY, test};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(whoever_exceeds_a_limit_is_ended_in_namespaces, "namespaces"),
            test!(whoever_exceeds_a_limit_is_ended_below_a_subreaper),
            test!(
                whoever_exceeds_a_limit_is_ended_where_an_ordinary_user_runs_the_drill,
                "nobody"
            ),
        ],
    )
}

/// Processes that were killed are gone when the run ends; a loaded machine takes its time to say so.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// A trial that is ended by a limit has no deadline to wait for. The nearest one that it could run into is of 30 s.
const ENDED_WITHIN: f64 = 20.0;

/// What is asked of session A alone.
const OF_SESSION_A: [&str; 4] = ["eof", "helpers", "quiet", "effects"];

const REVOKED: &str = "the revoked session had ";

/// A server with an appetite.
struct Eater {
    name: &'static str,
    /// What it eats, and when.
    eats: [&'static str; 2],
    limits: &'static str,
    crash: &'static str,
    /// How the sentence begins; that of the revoked session breaks the question for which that session is made.
    when: &'static str,
    /// What had been decided by then.
    decided: &'static [&'static str],
}

const EATERS: [Eater; 11] = [
    Eater {
        name: "processes-at-start",
        eats: ["processes", "start"],
        limits: "processes: 64",
        crash: "idle",
        when: "before the handshake was answered its session had ",
        decided: &[],
    },
    Eater {
        name: "processes-in-rehearsal",
        eats: ["processes", "call"],
        limits: "processes: 64",
        crash: "before-dispatch",
        when: "in the rehearsal of the call its session had ",
        decided: &[],
    },
    Eater {
        name: "processes-at-call",
        eats: ["processes", "call"],
        limits: "processes: 64",
        crash: "after-acceptance",
        when: "on the way to the crash point its session had ",
        decided: &[],
    },
    Eater {
        name: "processes-at-end",
        eats: ["processes", "end"],
        limits: "processes: 64",
        crash: "idle",
        when: "after the crash its session had ",
        decided: &[],
    },
    Eater {
        name: "processes-at-end-of-call",
        eats: ["processes", "end"],
        limits: "processes: 64",
        crash: "after-acceptance",
        when: "after the crash its session had ",
        decided: &[],
    },
    Eater {
        name: "processes-when-revoked",
        eats: ["processes", "again"],
        limits: "processes: 64",
        crash: "idle",
        when: REVOKED,
        decided: &OF_SESSION_A,
    },
    Eater {
        name: "memory-at-call",
        eats: ["memory", "call"],
        limits: "memory: 128MiB",
        crash: "after-acceptance",
        when: "on the way to the crash point its session had ",
        decided: &[],
    },
    Eater {
        name: "memory-at-end",
        eats: ["memory", "end"],
        limits: "memory: 128MiB",
        crash: "before-dispatch",
        when: "after the crash its session had ",
        decided: &[],
    },
    Eater {
        name: "memory-when-revoked",
        eats: ["memory", "again"],
        limits: "memory: 128MiB",
        crash: "idle",
        when: REVOKED,
        decided: &OF_SESSION_A,
    },
    Eater {
        name: "cpu-at-call",
        eats: ["cpu", "call"],
        limits: "cpu: 400ms",
        crash: "after-acceptance",
        when: "on the way to the crash point its session had used ",
        decided: &[],
    },
    Eater {
        name: "cpu-at-end",
        eats: ["cpu", "end"],
        limits: "cpu: 400ms",
        crash: "after-result",
        when: "after the crash its session had used ",
        decided: &[],
    },
];

impl Eater {
    fn drill(&self) -> String {
        let [food, meal] = self.eats;
        let server = format!(
            "command: [\"{{{{ fixture }}}}\", deploy, --eats, {food}, --at, {meal}]\n  limits: {{ {} }}",
            self.limits
        );
        let mut changes = vec![
            (GOOD_SERVER, server.as_str()),
            // On a loaded machine it takes its time to eat.
            ("eof: { within: 2s }", "eof: { within: 25s }"),
        ];
        if self.when == REVOKED {
            // Without session B it is the one that comes after session A.
            changes.push(("recover: { retry: true }\n", ""));
            changes.push(("  reconcile: { effects: 1 }\n", ""));
        }
        deploy_at(self.name, self.crash, &changes)
    }
}

/// The limits that a good server keeps.
fn good() -> String {
    let server = format!("{GOOD_SERVER}\n  limits: {{ processes: 4, memory: 128MiB, cpu: 20s }}");
    deploy_at(
        "good",
        "idle, before-dispatch, after-acceptance, after-result",
        &[(GOOD_SERVER, &server)],
    )
}

/// A server whose memory is seen twice for a moment, with each process that it starts: it has 100 MiB all the same.
fn fertile() -> String {
    let server = "command: [\"{{ fixture }}\", deploy, --eats, births, --at, start]\n  limits: { memory: 160MiB }";
    deploy_at("fertile", "idle", &[(GOOD_SERVER, server)])
}

/// A server that eats in session B alone.
fn late() -> String {
    let server = "command: [\"{{ fixture }}\", deploy, --eats, processes, --at, again]\n  limits: { processes: 64 }";
    deploy_at("late", "after-acceptance", &[(GOOD_SERVER, server)])
}

type Trials = BTreeMap<String, Value>;

/// Runs the drills, some at a time, and sees to it that nothing is left of them.
fn run(ground: &Ground, cell: &str, user: Option<u32>) -> Trials {
    let mut command = ground.command(["--format", "json", "--test-threads", "4"]);
    command.env("CARGO_DRILL_CELL", cell);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{cell}: {said}");
    wait_until_clear(ground, &Family::default(), GONE_WITHIN)
        .unwrap_or_else(|left| panic!("{cell}: left behind:\n{left}"));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let trial: Value = serde_json::from_str(line).unwrap();
            (trial["name"].as_str().unwrap().to_owned(), trial)
        })
        .collect()
}

#[track_caller]
fn assert_ended_by_its_limit(trial: &Value, when: &str, decided: &[&str]) {
    let name = trial["name"].as_str().unwrap();
    assert_eq!(trial["verdict"], "broken", "{trial:#}");
    assert!(
        trial["seconds"].as_f64().unwrap() < ENDED_WITHIN,
        "{trial:#}"
    );
    let answers = trial["answers"].as_array().unwrap();
    let (broken, besides) = if when == REVOKED {
        ("revocation", "resources")
    } else {
        ("resources", "")
    };
    let answer = answers
        .iter()
        .find(|answer| answer["question"] == broken)
        .unwrap();
    let told = answer["because"].as_str().unwrap();
    assert!(told.starts_with(when), "{name}: {told}");
    assert!(told.contains("; the limit is "), "{name}: {told}");
    assert!(told.ends_with(" ended them all"), "{name}: {told}");
    for answer in answers {
        let question = answer["question"].as_str().unwrap();
        let right = match question {
            _ if question == broken => "broken",
            _ if question == besides || decided.contains(&question) => "held",
            _ => "unproven",
        };
        assert_eq!(answer["verdict"], right, "{name}: {answer:#}");
        if right == "unproven" {
            let because = answer["because"].as_str().unwrap();
            assert_eq!(
                because,
                format!("{told}, before this was decided"),
                "{name}"
            );
        }
    }
}

#[track_caller]
fn assert_all_held(trials: &Trials, drill: &str) {
    let of_drill: Vec<&Value> = trials
        .values()
        .filter(|trial| trial["drill"] == drill)
        .collect();
    assert!(!of_drill.is_empty());
    for trial in of_drill {
        assert_eq!(trial["verdict"], "held", "{trial:#}");
    }
}

/// The journal of each trial is whole, it tells of its end, and the bundle alone gives the same answers.
fn assert_bundles_are_whole(ground: &Ground, trials: &Trials) {
    let bundles = folders_in(&ground.run());
    assert_eq!(bundles.len(), trials.len());
    for bundle in bundles {
        let journal = fs::read_to_string(bundle.join("journal.jsonl")).unwrap();
        let last: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
        assert_eq!(last["kind"], "trial-ended", "{}", bundle.display());
        let judged = ground
            .command(["judge", "--json", bundle.to_str().unwrap()])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&judged.stderr), "");
        let judgement: Value = serde_json::from_slice(&judged.stdout).unwrap();
        let name = bundle
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace("__", "::");
        assert_eq!(judgement["verdict"], trials[&name]["verdict"], "{name}");
        assert_eq!(judgement["answers"], trials[&name]["answers"], "{name}");
    }
}

fn all_eaters_beside_a_good_server(cell: &str) {
    let ground = Ground::new();
    ground.drill("good", &good());
    ground.drill("fertile", &fertile());
    ground.drill("late", &late());
    for eater in &EATERS {
        ground.drill(eater.name, &eater.drill());
    }
    let trials = run(&ground, cell, None);
    assert_all_held(&trials, "good");
    assert_all_held(&trials, "fertile");
    for eater in &EATERS {
        let trial = &trials[&format!("{}::{}", eater.name, eater.crash)];
        assert_ended_by_its_limit(trial, eater.when, eater.decided);
    }
    let of_session_a = [&OF_SESSION_A[..], &["handle", "ownership"]].concat();
    assert_ended_by_its_limit(
        &trials["late::after-acceptance"],
        "session B had ",
        &of_session_a,
    );
    assert_bundles_are_whole(&ground, &trials);
}

fn whoever_exceeds_a_limit_is_ended_in_namespaces() {
    all_eaters_beside_a_good_server("namespaces");
}

fn whoever_exceeds_a_limit_is_ended_below_a_subreaper() {
    all_eaters_beside_a_good_server("subreaper");
}

fn whoever_exceeds_a_limit_is_ended_where_an_ordinary_user_runs_the_drill() {
    for cell in ["namespaces", "subreaper"] {
        let ground = Ground::new();
        for folder in [ground.path().to_owned(), ground.path().join("tmp")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
        ground.drill("good", &good());
        let eaters = || {
            EATERS
                .iter()
                .filter(|eater| eater.name.ends_with("-at-end"))
        };
        for eater in eaters() {
            ground.drill(eater.name, &eater.drill());
        }
        let trials = run(&ground, cell, Some(NOBODY));
        assert_all_held(&trials, "good");
        for eater in eaters() {
            let trial = &trials[&format!("{}::{}", eater.name, eater.crash)];
            assert_ended_by_its_limit(trial, eater.when, eater.decided);
        }
    }
}

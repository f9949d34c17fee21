//! What a server meets in the sandbox that seeks another host than the drill's remote: no name exists, no address has a
//! listener, and each attempt is told with the process that made it. The host's own files are never touched.

#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/needs.rs"]
mod needs;
#[path = "outside/said.rs"]
mod said;
#[expect(dead_code, reason = "the table of the small servers has more of them")]
#[path = "small_servers/row.rs"]
mod small;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use ground::Ground;
use needs::{NOBODY, test};
use said::say;
use serde_json::{Value, json};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                whatever_is_sought_outside_is_refused_at_once_and_told,
                "python3",
                "namespaces"
            ),
            test!(
                it_is_the_same_for_an_ordinary_user,
                "python3",
                "namespaces",
                "nobody"
            ),
            test!(
                a_flood_is_counted_and_fills_no_journal,
                "python3",
                "namespaces"
            ),
            test!(
                a_drill_that_opens_the_network_has_the_hosts_resolver,
                "python3",
                "namespaces"
            ),
            test!(
                a_server_of_one_host_leaves_open_what_needs_the_remote,
                "python3",
                "namespaces"
            ),
            test!(
                without_namespaces_its_end_and_its_stderr_are_told_alone,
                "python3"
            ),
            test!(
                a_link_into_a_covered_folder_is_followed,
                "python3",
                "namespaces",
                "mount"
            ),
            test!(
                files_that_do_not_exist_are_there_in_the_sandbox,
                "python3",
                "namespaces",
                "mount"
            ),
            test!(
                a_link_to_nowhere_is_no_obstacle,
                "python3",
                "namespaces",
                "mount"
            ),
        ],
    )
}

/// That of the system, which others than root may run.
const PYTHON: &str = "/usr/bin/python3";

/// A ground with a drill of the server that seeks, at the only crash at which it has said what it found.
fn ground(arguments: &[&str], change: impl Fn(&mut Value)) -> Ground {
    let is_there = Path::new(PYTHON).exists();
    let python = if is_there { PYTHON } else { "python3" };
    let mut command = vec![python, "-S", "@python/seeks.py"];
    command.extend(arguments);
    let mut drill = small::drill("seeks", &command);
    drill["crash"] = json!(["after-result"]);
    change(&mut drill);
    let ground = Ground::new();
    ground.drill("seeks", &drill.to_string());
    ground
}

/// What the only trial of the ground has left.
struct Left {
    /// The server's answer to the call of session A.
    found: Value,
    /// What was sought, each with its outcome and the name of the process.
    sought: Vec<Value>,
    journal: String,
}

fn run(ground: &Ground, command: &mut Command) -> Left {
    let said = say(command);
    assert_eq!(said.code, Some(0), "{said}");
    let journal = ground.run().join("seeks__after-result/journal.jsonl");
    let journal = fs::read_to_string(journal).unwrap();
    let events: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &'static str| events.iter().filter(move |event| event["kind"] == kind);
    let answer = of("call-answered").next().unwrap()["text"]
        .as_str()
        .unwrap();
    Left {
        found: serde_json::from_str(answer).unwrap(),
        sought: of("host-sought").cloned().collect(),
        journal,
    }
}

impl Left {
    /// How often each was told, with its outcome and the process, over all sessions.
    fn told(&self) -> BTreeMap<String, usize> {
        let mut told = BTreeMap::new();
        for sought in &self.sought {
            let host = &sought["host"];
            let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
            let name = ["name", "address"].map(|field| &host[field]);
            let name = name.into_iter().find(|value| value.is_string()).unwrap();
            let key = [name, &sought["outcome"], &sought["by"]["comm"]].map(text);
            *told.entry(key.join(" ")).or_default() += 1;
        }
        told
    }
}

/// Each is refused at once, in a way that its caller understands, and told.
fn is_met_as_it_should_be(left: &Left) {
    let came = |what: &str| &left.found[what]["came"];
    assert_eq!(came("name"), "Name or service not known");
    assert_eq!(came("localhost"), &json!(["127.0.0.1"]));
    assert_eq!(came("udp"), &json!([3, "8.8.8.8"]));
    assert_eq!(came("tcp"), &json!([3, "9.9.9.9"]));
    assert_eq!(came("outside"), "ECONNREFUSED");
    assert_eq!(came("inside"), "ECONNREFUSED");
    assert_eq!(came("outside6"), "ENETUNREACH");
    let told = left.told();
    for right in [
        "api.tracker.example no-such-name python3",
        "by-udp.example no-such-name python3",
        "by-tcp.example no-such-name python3",
        "93.184.216.34:443 refused python3",
        "127.0.0.1:5432 refused -",
    ] {
        assert!(told.contains_key(right), "{right}: {told:#?}");
    }
    let foreign = |key: &&String| key.starts_with("9.9.9.9") || key.starts_with("127.0.0.1:7411");
    assert_eq!(told.keys().find(foreign), None);
    assert!(
        !left.journal.contains("\"weakens\":[\"names"),
        "{}",
        left.journal
    );
}

fn whatever_is_sought_outside_is_refused_at_once_and_told() {
    let ground = ground(&[], |_| {});
    let mut command = ground.command([]);
    let left = run(&ground, command.env("CARGO_DRILL_CELL", "namespaces"));
    is_met_as_it_should_be(&left);
    assert_ne!(
        left.found["hosts"]["came"],
        Value::Null,
        "the host's file could be written"
    );
    // A resolver that waits for an answer waits for a second at least, and most of them for five.
    for (what, tried) in left.found.as_object().unwrap() {
        assert!(
            tried["ms"].as_u64().is_none_or(|ms| ms < 1000),
            "{what}: {tried}"
        );
    }
}

fn it_is_the_same_for_an_ordinary_user() {
    let ground = ground(&[], |_| {});
    for folder in ["", "drills", "tmp"] {
        chown(ground.path().join(folder), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = ground.command([]);
    command.uid(NOBODY).gid(NOBODY).env("HOME", ground.path());
    let left = run(&ground, command.env("CARGO_DRILL_CELL", "namespaces"));
    is_met_as_it_should_be(&left);
}

fn a_flood_is_counted_and_fills_no_journal() {
    let ground = ground(&["flood"], |drill| {
        drill["recover"] = json!({ "retry": "always" });
    });
    let mut command = ground.command([]);
    let left = run(&ground, command.env("CARGO_DRILL_CELL", "namespaces"));
    assert_eq!(left.found["came"], "ECONNREFUSED");
    let times = left
        .sought
        .iter()
        .map(|sought| sought["times"].as_u64().unwrap_or(1));
    // Of session A, of the one that is revoked and calls twice, and of the one that recovers.
    assert_eq!(times.sum::<u64>(), 4000);
    assert_eq!(left.sought.len(), 11);
}

fn a_drill_that_opens_the_network_has_the_hosts_resolver() {
    let ground = ground(&["reads"], |drill| {
        drill["server"]["network"] = json!("open");
    });
    let left = run(&ground, &mut ground.command([]));
    let hosts = fs::read_to_string("/etc/resolv.conf").unwrap();
    assert_eq!(left.found["resolv.conf"], hosts);
    assert!(left.sought.is_empty());
}

/// The answers about a server that calls its own host and answers with a result whose text is an error.
fn answers_of_one_host(cell: &str) -> BTreeMap<String, Value> {
    let mut drill = small::drill("one-host", &["python3", "-S", "@python/fixed_host.py"]);
    drill["crash"] = json!(["after-result"]);
    let ground = Ground::new();
    ground.drill("one-host", &drill.to_string());
    let said = say(ground.command([]).env("CARGO_DRILL_CELL", cell));
    assert_eq!(said.code, Some(1), "{said}");
    let results = said::json_in(&ground.run(), "results.json");
    let answers = results["trials"][0]["answers"].as_array().unwrap();
    let by_question = |answer: &Value| {
        let question = answer["question"].as_str().unwrap();
        (question.to_owned(), answer.clone())
    };
    answers.iter().map(by_question).collect()
}

fn are_open(answers: &BTreeMap<String, Value>, words: &[&str]) {
    for (question, answer) in answers {
        let needs_remote = ["effects", "reconcile", "ownership", "revocation"];
        if !needs_remote.contains(&question.as_str()) {
            assert_eq!(answer["verdict"], "held", "{answer}");
            continue;
        }
        assert_eq!(answer["codes"], json!(["trial/remote-not-reached"]));
        let because = answer["because"].as_str().unwrap();
        for words in words {
            assert!(because.contains(words), "{because}");
        }
    }
    assert_eq!(answers.len(), 10);
}

const ITS_END: [&str; 2] = [
    "session A's server ended with status 0",
    "stderr is “POST https://api.tracker.example/jobs: ",
];

fn a_server_of_one_host_leaves_open_what_needs_the_remote() {
    let sought = "the server looked up `api.tracker.example` (python3, pid ";
    are_open(
        &answers_of_one_host("namespaces"),
        &[ITS_END[0], ITS_END[1], sought],
    );
}

fn without_namespaces_its_end_and_its_stderr_are_told_alone() {
    let answers = answers_of_one_host("subreaper");
    are_open(&answers, &ITS_END);
    let because = answers["effects"]["because"].as_str().unwrap();
    assert!(!because.contains("looked up"), "{because}");
}

/// Another `/etc`, in a mount namespace of its own.
fn is_met_in(change: impl Fn(&Path)) {
    let ground = ground(&[], |_| {});
    let etc = ground.path().join("etc");
    let copied = Command::new("cp").args(["-a", "/etc"]).arg(&etc).status();
    assert!(copied.unwrap().success());
    change(&etc);
    let before = listed(&etc);
    let mut shell = ground.command([]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "mount --bind etc /etc && exec \"$0\""]);
    command.arg(shell.get_program()).current_dir(ground.path());
    for (name, value) in shell.env("CARGO_DRILL_CELL", "namespaces").get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    is_met_as_it_should_be(&run(&ground, &mut command));
    assert_eq!(listed(&etc), before);
}

/// What is in a folder, and what its files that matter say.
fn listed(etc: &Path) -> Vec<(String, Option<String>)> {
    let entries = fs::read_dir(etc).unwrap();
    let mut listed: Vec<_> = entries
        .map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_ours = ["hosts", "resolv.conf", "nsswitch.conf"].contains(&name.as_str());
            let text = fs::read_to_string(etc.join(&name)).ok().filter(|_| is_ours);
            (name, text)
        })
        .collect();
    listed.sort();
    listed
}

fn a_link_into_a_covered_folder_is_followed() {
    is_met_in(|etc| {
        let resolv = etc.join("resolv.conf");
        fs::remove_file(&resolv).unwrap();
        symlink("../run/systemd/resolve/stub-resolv.conf", resolv).unwrap();
    });
}

fn files_that_do_not_exist_are_there_in_the_sandbox() {
    is_met_in(|etc| {
        for name in ["hosts", "resolv.conf", "nsswitch.conf"] {
            fs::remove_file(etc.join(name)).unwrap();
        }
    });
}

fn a_link_to_nowhere_is_no_obstacle() {
    is_met_in(|etc| {
        let resolv = etc.join("resolv.conf");
        fs::remove_file(&resolv).unwrap();
        symlink("/nowhere/resolv.conf", resolv).unwrap();
    });
}

//! A server that is held in a system call, in any language: through the built command.

#[path = "../outside/drills.rs"]
#[expect(dead_code, reason = "these drills have their crashes from elsewhere")]
mod drills;
#[path = "../outside/ground.rs"]
mod ground;
#[path = "../outside/needs.rs"]
mod needs;
mod servers;
#[expect(dead_code, reason = "these drills have their crashes from elsewhere")]
#[path = "../small_servers/row.rs"]
mod small;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use ground::{Ground, folders_in};
use needs::{NOBODY, test};
use servers::{Crash, SYNCS_IN_NODE, SYNCS_IN_PYTHON, deploy, node, python};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                the_model_server_is_held_everywhere_in_namespaces,
                "namespaces"
            ),
            test!(the_model_server_is_held_everywhere_below_a_subreaper),
            test!(
                the_model_server_is_held_everywhere_where_an_ordinary_user_runs_the_drill,
                "nobody"
            ),
            test!(
                a_server_in_python_is_held_in_each_call,
                "python3",
                "namespaces"
            ),
            test!(a_server_in_node_is_held_in_each_call, "node", "namespaces"),
            test!(
                a_call_that_signals_interrupt_is_counted_once,
                "python3",
                "namespaces"
            ),
            test!(a_call_that_never_comes_proves_nothing, "namespaces"),
            test!(without_a_gate_nothing_is_installed, "python3", "namespaces"),
            test!(
                an_intent_that_is_only_written_is_told_from_one_that_is_synced,
                "python3",
                "namespaces"
            ),
            test!(
                a_log_that_is_opened_synchronously_needs_no_sync,
                "python3",
                "namespaces"
            ),
            test!(
                where_a_filter_is_forbidden_a_crash_in_a_system_call_is_unproven_and_says_so,
                "python3"
            ),
        ],
    )
}

/// Where the model server is held, and how the call goes on.
const OF_THE_MODEL: [Crash<'_>; 8] = [
    ("connects", "syscall: { name: connect }"),
    (
        "is-refused",
        "syscall: { name: connect }, errno: ECONNREFUSED",
    ),
    ("syncs-intent", "syscall: { name: fdatasync }"),
    (
        "disk-is-full",
        "syscall: { name: fdatasync }, errno: ENOSPC",
    ),
    ("disk-is-bad", "syscall: { name: fdatasync }, errno: EIO"),
    ("syncs-outcome", "syscall: { name: fdatasync, nth: 2 }"),
    ("answers", "syscall: { name: write }"),
    ("answer-fails", "syscall: { name: write }, errno: EPIPE"),
];

/// Where the small servers are held.
const OF_THE_SMALL: [Crash<'_>; 4] = [
    ("connects", "syscall: { name: connect }"),
    ("opens", "syscall: { name: openat }"),
    ("syncs", "syscall: { name: fsync }"),
    ("answers", "syscall: { name: write }"),
];

/// The trials of a run, by the name of their crash.
struct Trials {
    ground: Ground,
    by_name: BTreeMap<String, Value>,
}

impl Trials {
    fn of(ground: Ground, cell: &str, user: Option<u32>) -> Self {
        let mut command = ground.command(["--format", "json", "--test-threads", "4"]);
        command.env("CARGO_DRILL_CELL", cell);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_ne!(output.status.code(), Some(2), "{cell}: {said}");
        let by_name = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| {
                let trial: Value = serde_json::from_str(line).unwrap();
                let name = trial["name"].as_str().unwrap();
                let crash = name.rsplit("::").next().unwrap().to_owned();
                (crash, trial)
            })
            .collect();
        Self { ground, by_name }
    }

    #[track_caller]
    fn all_held(&self, crashes: &[Crash<'_>]) {
        for (crash, _) in crashes {
            let trial = &self.by_name[*crash];
            assert_eq!(trial["verdict"], "held", "{trial:#}");
        }
    }

    #[track_caller]
    fn answer(&self, crash: &str, question: &str) -> &Value {
        let trial = &self.by_name[crash];
        let answers = trial["answers"].as_array().unwrap();
        answers
            .iter()
            .find(|answer| answer["question"] == question)
            .unwrap_or_else(|| panic!("{question} is not asked: {trial:#}"))
    }

    #[track_caller]
    fn says(&self, crash: &str, question: &str, verdict: &str, words: &str) {
        let answer = self.answer(crash, question);
        assert_eq!(answer["verdict"], verdict, "{answer:#}");
        let because = answer["because"].as_str().unwrap();
        assert!(because.contains(words), "{because}");
    }

    fn bundle(&self, crash: &str) -> PathBuf {
        let ending = format!("__{crash}");
        folders_in(&self.ground.run())
            .into_iter()
            .find(|folder| folder.to_str().unwrap().ends_with(&ending))
            .unwrap()
    }

    /// The events of one kind.
    fn events(&self, crash: &str, kind: &str) -> Vec<Value> {
        journal(&self.bundle(crash))
            .into_iter()
            .filter(|event| event["kind"] == kind)
            .collect()
    }

    /// How often a system call was counted before the held one was let go.
    fn entered_before_release(&self, crash: &str, name: &str) -> usize {
        journal(&self.bundle(crash))
            .iter()
            .take_while(|event| event["kind"] != "syscall-released")
            .filter(|event| event["kind"] == "syscall-entered" && event["name"] == name)
            .count()
    }
}

fn journal(bundle: &Path) -> Vec<Value> {
    fs::read_to_string(bundle.join("journal.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A drill in JSON, which is YAML, at these crashes.
fn at(mut drill: Value, crashes: &[Crash<'_>]) -> String {
    let crashes: Vec<String> = crashes
        .iter()
        .map(|(name, crash)| format!("{{ name: {name}, {crash} }}"))
        .collect();
    drill["crash"] = json!("CRASHES");
    drill
        .to_string()
        .replace("\"CRASHES\"", &format!("[{}]", crashes.join(", ")))
}

fn model_is_held_everywhere(cell: &str, user: Option<u32>) {
    let ground = Ground::new();
    if user.is_some() {
        for folder in [ground.path().to_owned(), ground.path().join("tmp")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }
    ground.drill("model", &deploy("model", &OF_THE_MODEL, &[]));
    let trials = Trials::of(ground, cell, user);
    trials.all_held(&OF_THE_MODEL);
    for (crash, _) in OF_THE_MODEL {
        let held = trials.events(crash, "syscall-held");
        let released = trials.events(crash, "syscall-released");
        assert_eq!((held.len(), released.len()), (1, 1), "{crash}");
        // As it is called inside the cell, like the server itself.
        let server = &trials.events(crash, "server-started")[0]["pid"];
        assert_eq!(&held[0]["pid"], server, "{crash}");
    }
    let connect = &trials.events("connects", "syscall-entered")[1];
    assert_eq!(connect["name"], "connect");
    assert!(
        connect["detail"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:")
    );
    let sync = &trials.events("syncs-intent", "syscall-entered")[0];
    assert!(sync["detail"].as_str().unwrap().ends_with("activity.jsonl"));
    for crash in ["disk-is-full", "disk-is-bad", "is-refused"] {
        trials.says(crash, "effects", "held", "applied 0 effects");
    }
}

fn the_model_server_is_held_everywhere_in_namespaces() {
    model_is_held_everywhere("namespaces", None);
}

fn the_model_server_is_held_everywhere_below_a_subreaper() {
    model_is_held_everywhere("subreaper", None);
}

fn the_model_server_is_held_everywhere_where_an_ordinary_user_runs_the_drill() {
    for cell in ["namespaces", "subreaper"] {
        model_is_held_everywhere(cell, Some(NOBODY));
    }
}

fn is_held_in_each_call(ground: Ground, name: &str, server: Value) {
    ground.drill(name, &at(server, &OF_THE_SMALL));
    let trials = Trials::of(ground, "namespaces", None);
    trials.all_held(&OF_THE_SMALL);
    let synced = "synced to the disk before dispatch";
    trials.says("connects", "ownership", "held", synced);
}

fn a_server_in_python_is_held_in_each_call() {
    let ground = Ground::new();
    let server = python(&ground, "python", "", SYNCS_IN_PYTHON);
    is_held_in_each_call(ground, "python", server);
}

fn a_server_in_node_is_held_in_each_call() {
    let ground = Ground::new();
    let server = node(&ground, "node", SYNCS_IN_NODE);
    is_held_in_each_call(ground, "node", server);
}

fn a_call_that_signals_interrupt_is_counted_once() {
    let ground = Ground::new();
    let connects: [Crash<'_>; 1] = [("interrupted", "syscall: { name: connect }")];
    let timer = "signal.signal(signal.SIGALRM, lambda *_: None)\n\
                 signal.siginterrupt(signal.SIGALRM, False)\n\
                 signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)";
    let server = python(&ground, "timer", timer, "");
    ground.drill("timer", &at(server, &connects));
    // A child stops its parent and lets it run, while it is on its way into the connect and while it is held there.
    let connects: [Crash<'_>; 1] = [("stopped", "syscall: { name: connect }")];
    let stopped = "
    def dispatch(self, call, arguments):
        parent, child = os.getpid(), os.fork()
        if child == 0:
            for _ in range(20):
                os.kill(parent, signal.SIGSTOP)
                os.kill(parent, signal.SIGCONT)
            os._exit(0)
        return super().dispatch(call, arguments)
";
    let server = python(
        &ground,
        "stopper",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        stopped,
    );
    ground.drill("stopper", &at(server, &connects));
    let trials = Trials::of(ground, "namespaces", None);
    for crash in ["interrupted", "stopped"] {
        trials.says(crash, "effects", "held", "");
        assert_eq!(
            trials.entered_before_release(crash, "connect"),
            1,
            "{crash}"
        );
        assert_eq!(trials.events(crash, "syscall-held").len(), 1, "{crash}");
    }
}

fn a_call_that_never_comes_proves_nothing() {
    let ground = Ground::new();
    let never: [Crash<'_>; 1] = [("never", "syscall: { name: unlink }")];
    ground.drill("never", &deploy("never", &never, &[]));
    let trials = Trials::of(ground, "namespaces", None);
    assert_eq!(trials.by_name["never"]["verdict"], "unproven");
    trials.says("never", "eof", "unproven", "was not reached");
}

fn without_a_gate_nothing_is_installed() {
    let tells = "sys.stderr.write(open('/proc/self/status').read())\nsys.stderr.flush()";
    let ground = Ground::new();
    let crashes: [Crash<'_>; 2] = [("plain", "at: idle"), ("gated", "at: idle, gate: true")];
    let server = python(&ground, "tells", tells, "");
    ground.drill("tells", &at(server, &crashes));
    let trials = Trials::of(ground, "namespaces", None);
    let status = |crash: &str| {
        let folder = trials.bundle(crash);
        let stderr = folders_and_files(&folder)
            .into_iter()
            .find(|path| path.to_str().unwrap().contains("stderr-a"))
            .unwrap();
        fs::read_to_string(stderr).unwrap()
    };
    assert!(status("plain").contains("NoNewPrivs:\t0\n"));
    assert!(status("plain").contains("Seccomp:\t0\n"));
    assert!(status("gated").contains("NoNewPrivs:\t1\n"));
    assert!(status("gated").contains("Seccomp:\t2\n"));
}

fn folders_and_files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn an_intent_that_is_only_written_is_told_from_one_that_is_synced() {
    let crashes: [Crash<'_>; 1] = [("writes", "at: after-acceptance, gate: true")];
    let written = |ground: &Ground, name: &str, durable: bool| {
        let mut drill = python(ground, name, "", "");
        drill["expect"]["ownership"]["durable"] = json!(durable);
        at(drill, &crashes)
    };
    let ground = Ground::new();
    ground.drill("written", &written(&ground, "written", false));
    let trials = Trials::of(ground, "namespaces", None);
    trials.all_held(&crashes);
    trials.says("writes", "ownership", "held", "not synced before dispatch");

    let ground = Ground::new();
    ground.drill("lost", &written(&ground, "lost", true));
    let trials = Trials::of(ground, "namespaces", None);
    trials.says("writes", "ownership", "broken", "a power cut could lose it");

    let synced: [Crash<'_>; 3] = [
        ("gated", "at: after-acceptance, gate: true"),
        ("held", "syscall: { name: connect }"),
        ("blind", "at: after-acceptance"),
    ];
    let ground = Ground::new();
    let changes = [("  ownership:\n", "  ownership:\n    durable: true\n")];
    ground.drill("synced", &deploy("synced", &synced, &changes));
    let trials = Trials::of(ground, "namespaces", None);
    for crash in ["gated", "held"] {
        trials.says(
            crash,
            "ownership",
            "held",
            "synced to the disk before dispatch",
        );
    }
    trials.says(
        "blind",
        "ownership",
        "unproven",
        "the drill has no `gate` here",
    );
}

fn a_log_that_is_opened_synchronously_needs_no_sync() {
    let ground = Ground::new();
    let crashes: [Crash<'_>; 1] = [("synchronous", "at: after-acceptance, gate: true")];
    let opens = "plain = os.open\nos.open = lambda path, flags, mode: plain(path, flags | os.O_DSYNC, mode)";
    let mut drill = python(&ground, "opener", opens, "");
    drill["expect"]["ownership"]["durable"] = json!(true);
    ground.drill("opener", &at(drill, &crashes));
    let trials = Trials::of(ground, "namespaces", None);
    trials.says(
        "synchronous",
        "ownership",
        "held",
        "synced to the disk before dispatch",
    );
}

fn where_a_filter_is_forbidden_a_crash_in_a_system_call_is_unproven_and_says_so() {
    let ground = Ground::new();
    let crashes = [
        ("connects", "syscall: { name: connect }"),
        ("elsewhere", "at: idle, gate: true"),
    ];
    ground.drill("deploy", &deploy("deploy", &crashes, &[]));
    let output = std::process::Command::new("python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/outside/forbidding.py"
        ))
        .arg("seccomp")
        .arg(env!("CARGO_BIN_EXE_cargo-drill"))
        .args(["--format", "json"])
        .current_dir(ground.path())
        .env_remove("CI")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    for line in out.lines() {
        let trial: Value = serde_json::from_str(line).unwrap();
        let is_held = trial["name"].as_str().unwrap().ends_with("elsewhere");
        assert_eq!(
            trial["verdict"],
            if is_held { "held" } else { "unproven" },
            "{trial:#}"
        );
        assert_eq!(
            !is_held,
            line.contains("system calls cannot be held here"),
            "{trial:#}"
        );
    }
}

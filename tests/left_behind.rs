//! What a run leaves behind when it is killed or interrupted: reports, and nothing else.
//!
//! SIGKILL cannot be answered, so whatever ends the server then must be outside of the killed process. These tests run
//! the real command with a good server and with one that refuses to go, and end it at many moments.

#[path = "outside/drills.rs"]
mod drills;
#[path = "outside/ground.rs"]
mod ground;
#[path = "outside/left.rs"]
mod left;
#[path = "outside/needs.rs"]
mod needs;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use drills::{GOOD_SERVER, deploy_at};
use ground::Ground;
use left::{Family, LIMIT, journals, until, wait_until_clear};
use needs::{NOBODY, test};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(a_killed_run_leaves_nothing_in_namespaces, "namespaces"),
            test!(a_killed_run_leaves_nothing_below_a_subreaper),
            test!(a_killed_run_of_an_ordinary_user_leaves_nothing, "nobody"),
            test!(
                an_interrupted_run_ends_its_cells_and_keeps_what_it_has,
                "namespaces"
            ),
            test!(
                a_second_signal_stops_at_once_and_the_cells_still_end_themselves,
                "namespaces"
            ),
        ],
    )
}

/// The kinds of cell, as `CARGO_DRILL_CELL` names them.
const CELLS: [&str; 2] = ["namespaces", "subreaper"];

/// How many moments of a run are tried for each kind of cell.
const MOMENTS: u32 = 30;

/// All must be gone by then. The kernel takes milliseconds; a loaded machine takes its time.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// A server that means to stay: it ignores what can be ignored, and so does its helper, which has a session of its own.
fn stubborn(ground: &Ground) -> String {
    let mark = ground.path().display();
    let helper = "trap '' TERM HUP INT; while :; do sleep 600; done";
    let server = format!(
        "trap '' TERM HUP INT; setsid sh -c \\\"{helper}\\\" {mark} & exec \\\"$0\\\" deploy --fault deaf-to-term"
    );
    deploy_at(
        "stubborn",
        "before-dispatch, after-acceptance",
        &[
            (
                GOOD_SERVER,
                &format!("command: [sh, -c, \"{server}\", \"{{{{ fixture }}}}\"]"),
            ),
            ("eof: { within: 2s }", "eof: { within: 200ms }"),
            ("quiet: { for: 500ms }", "quiet: { for: 200ms }"),
            ("within: 1s", "within: 200ms"),
        ],
    )
}

fn ground_with_both() -> Ground {
    let ground = Ground::new();
    // A server that is stopped, and one that is held in a system call, must go as well.
    let crashes = "idle, call-unread, after-acceptance, { syscall: { name: fdatasync } }";
    ground.drill("deploy", &deploy_at("deploy", crashes, &[]));
    ground.drill("stubborn", &stubborn(&ground));
    ground
}

/// Starts a run with both servers at a time, in a process group of its own.
fn start(ground: &Ground, cell: &str, user: Option<u32>) -> Child {
    let mut command = ground.command(["--test-threads", "4"]);
    command
        .env("CARGO_DRILL_CELL", cell)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.spawn().unwrap()
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

fn a_killed_run_leaves_nothing_in_namespaces() {
    kill_at_many_moments("namespaces", MOMENTS, None);
}

fn a_killed_run_leaves_nothing_below_a_subreaper() {
    kill_at_many_moments("subreaper", MOMENTS, None);
}

fn a_killed_run_of_an_ordinary_user_leaves_nothing() {
    for cell in CELLS {
        kill_at_many_moments(cell, MOMENTS / 3, Some(NOBODY));
    }
}

fn kill_at_many_moments(cell: &str, moments: u32, user: Option<u32>) {
    let whole = time_of_a_whole_run(cell, user);
    let mut seen = 0;
    let mut listeners = 0;
    for moment in 0..moments {
        let ground = ground_with_both();
        open_to(&ground, user);
        // The moments lie closer together at the start, where things are being made. Where in its slice of the run each
        // lies is left to chance.
        let within = f64::from(moment) + chance();
        let share = (within / f64::from(moments)).powi(2);
        let begun = Instant::now();
        let mut run = start(&ground, cell, user);
        std::thread::sleep(whole.mul_f64(share).saturating_sub(begun.elapsed()));
        let family = Family::of(run.id());
        seen += family.with("deploy").len();
        let listening = listening_sockets_of(&run);
        listeners += listening.len();
        // Every other time as a CI runner does it: the whole process group at once.
        let killed = if moment % 2 == 0 {
            kill(pid_of(&run), Signal::SIGKILL)
        } else {
            killpg(pid_of(&run), Signal::SIGKILL)
        };
        killed.unwrap();
        run.wait().unwrap();
        if let Err(left) = wait_until_clear(&ground, &family, GONE_WITHIN) {
            panic!("killed {cell} at {share:.4} of {whole:?}, and this is left:\n{left}");
        }
        let released = until(GONE_WITHIN, || {
            let all = all_listening_sockets();
            (!listening.iter().any(|inode| all.contains(inode))).then_some(())
        });
        assert!(released.is_some(), "a remote still listens");
        assert_reports_are_readable(&ground);
    }
    assert!(seen > 0, "no kill hit a server");
    assert!(listeners > 0, "no kill hit a remote");
}

fn time_of_a_whole_run(cell: &str, user: Option<u32>) -> Duration {
    let ground = ground_with_both();
    open_to(&ground, user);
    let begun = Instant::now();
    let status = start(&ground, cell, user).wait().unwrap();
    let took = begun.elapsed();
    assert_eq!(status.code(), Some(1), "the stubborn server is broken");
    let left = wait_until_clear(&ground, &Family::default(), GONE_WITHIN);
    assert_eq!(left, Ok(()), "a run that was not killed left something");
    took
}

/// Lets another user write here.
fn open_to(ground: &Ground, user: Option<u32>) {
    if user.is_some() {
        for folder in ["", "tmp"] {
            let folder = ground.path().join(folder);
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
    }
}

/// Somewhere in [0, 1).
fn chance() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    f64::from(now.unwrap().subsec_nanos() % 1000) / 1000.0
}

/// The sockets on which the harness listens on the host now, by inode: a port can be another's a moment later.
fn listening_sockets_of(run: &Child) -> Vec<String> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", run.id())) else {
        return Vec::new();
    };
    let all = all_listening_sockets();
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| {
            let target = target.to_str()?.strip_prefix("socket:[")?;
            target.strip_suffix(']').map(ToOwned::to_owned)
        })
        .filter(|inode| all.contains(inode))
        .collect()
}

/// See `proc_net_tcp(5)`: the state 0A is LISTEN, the tenth field is the inode.
fn all_listening_sockets() -> Vec<String> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<&str>>())
        .filter(|fields| fields[3] == "0A")
        .map(|fields| fields[9].to_owned())
        .collect()
}

/// The whole lines of a journal.
fn lines_of(journal: &Path) -> Vec<Value> {
    BufReader::new(fs::File::open(journal).unwrap())
        .split(b'\n')
        .filter_map(|line| serde_json::from_slice(&line.unwrap()).ok())
        .collect()
}

/// A run that was cut short can be read as far as it came: the results are JSON, and a journal that does not end gets an
/// answer that is not `held`.
fn assert_reports_are_readable(ground: &Ground) {
    for run in ground.runs() {
        let results = run.join("results.json");
        if results.exists() {
            let results: Value = serde_json::from_slice(&fs::read(results).unwrap()).unwrap();
            assert!(results["trials"].is_array());
        }
    }
    for journal in journals(ground) {
        if lines_of(&journal)
            .iter()
            .any(|line| line["kind"] == "trial-ended")
        {
            continue;
        }
        let bundle = journal.parent().unwrap().to_str().unwrap();
        let judged = ground
            .command(["judge", "--json", bundle])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&judged.stderr);
        assert_eq!(said, "", "{bundle}");
        let judgement: Value = serde_json::from_slice(&judged.stdout).unwrap();
        assert_eq!(judged.status.code(), Some(1), "{judgement:#}");
        let mut answers = judgement["answers"].as_array().unwrap().iter();
        let cut_short = judgement["verdict"] == "unproven"
            || answers.any(|answer| answer["verdict"] == "unproven");
        assert!(cut_short, "{judgement:#}");
    }
}

/// Three drills, one after the other: the first has ended, the second is in its observation, the third waits.
fn run_to_be_interrupted(ground: &Ground, cell: &str) -> Command {
    ground.drill("a-first", &deploy_at("a-first", "idle", &[]));
    let stays = [
        (
            GOOD_SERVER,
            "command: [\"{{ fixture }}\", deploy, --fault, ignores-eof]",
        ),
        ("eof: { within: 2s }", "eof: { within: 2m }"),
    ];
    ground.drill("b-stays", &deploy_at("b-stays", "after-acceptance", &stays));
    ground.drill("c-waits", &deploy_at("c-waits", "idle", &[]));
    let mut command = ground.command(["--test-threads", "1"]);
    command.env("CARGO_DRILL_CELL", cell);
    command
}

/// Waits until the trial that stays is at its crash point: `armed` stands in its journal.
fn wait_until_armed(ground: &Ground, run: &mut Child) {
    let armed = until(LIMIT, || {
        let armed = journals(ground).iter().any(|journal| {
            journal
                .parent()
                .unwrap()
                .ends_with("b-stays__after-acceptance")
                && lines_of(journal).iter().any(|line| line["kind"] == "armed")
        });
        let ended = run.try_wait().unwrap();
        assert_eq!(ended, None, "the run has ended without it");
        armed.then_some(())
    });
    armed.expect("the trial is armed in time");
}

/// Waits for the exit status, and fails instead of waiting for the two minutes that the server has.
fn exit_code(run: &mut Child) -> Option<i32> {
    let status = until(LIMIT, || run.try_wait().unwrap());
    status.expect("the run ends when it is told to").code()
}

fn an_interrupted_run_ends_its_cells_and_keeps_what_it_has() {
    for cell in CELLS {
        for how in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let ground = Ground::new();
            let mut run = run_to_be_interrupted(&ground, cell)
                .stdout(Stdio::piped())
                // A terminal that has gone cannot be told anything.
                .stderr(closed_pipe())
                .spawn()
                .unwrap();
            wait_until_armed(&ground, &mut run);
            let family = Family::of(run.id());
            kill(pid_of(&run), how).unwrap();
            assert_eq!(exit_code(&mut run), Some(130), "{cell} {how}");
            let left = wait_until_clear(&ground, &family, GONE_WITHIN);
            assert_eq!(left, Ok(()), "{cell} {how}");
            assert_it_kept_what_it_had(&ground, run);
        }
    }
}

/// The writing end of a pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (_, writes) = std::io::pipe().unwrap();
    writes.into()
}

fn assert_it_kept_what_it_had(ground: &Ground, run: Child) {
    let said = String::from_utf8(run.wait_with_output().unwrap().stdout).unwrap();
    assert!(said.contains("held     a-first::idle"), "{said}");
    let folder = ground.run();
    let lines = lines_of(&folder.join("b-stays__after-acceptance/journal.jsonl"));
    assert!(lines.iter().any(|line| line["kind"] == "interrupted"));
    assert_eq!(lines.last().unwrap()["kind"], "trial-ended");
    let json = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.join(name)).unwrap()).unwrap()
    };
    let results = json("results.json");
    assert!(results["finished"].is_string());
    let verdicts: Vec<(&str, &str)> = results["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| {
            (
                trial["name"].as_str().unwrap(),
                trial["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            ("a-first::idle", "held"),
            ("b-stays::after-acceptance", "unproven")
        ]
    );
    let not_run: Vec<Value> = json("manifest.json")["population"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["trial"] == "c-waits::idle")
        .map(|entry| entry["not_run"].clone())
        .collect();
    assert_eq!(not_run, ["interrupted"]);
    // What was not seen to its end is nothing to approve.
    assert!(
        ground
            .path()
            .join("reports/a-first__idle.snap.new")
            .exists()
    );
    assert!(
        !ground
            .path()
            .join("reports/b-stays__after-acceptance.snap.new")
            .exists()
    );
}

fn a_second_signal_stops_at_once_and_the_cells_still_end_themselves() {
    for cell in CELLS {
        let ground = Ground::new();
        let mut run = run_to_be_interrupted(&ground, cell)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until_armed(&ground, &mut run);
        let family = Family::of(run.id());
        let cells = family.with("__cell");
        // A cell that does not answer: the run cannot end in order.
        for pid in &cells {
            kill(Pid::from_raw(*pid), Signal::SIGSTOP).unwrap();
        }
        kill(pid_of(&run), Signal::SIGINT).unwrap();
        let mut said = BufReader::new(run.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("once more to stop at once"), "{line}");
        kill(pid_of(&run), Signal::SIGINT).unwrap();
        assert_eq!(exit_code(&mut run), Some(130));
        for pid in &cells {
            // It may have gone already: a process that is stopped can still be killed.
            let continued = kill(Pid::from_raw(*pid), Signal::SIGCONT);
            assert!(matches!(continued, Ok(()) | Err(Errno::ESRCH)));
        }
        assert_eq!(wait_until_clear(&ground, &family, GONE_WITHIN), Ok(()));
        assert_reports_are_readable(&ground);
    }
}

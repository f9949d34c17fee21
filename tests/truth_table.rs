//! The truth table: what each server of the fixture breaks, at each crash point, and that it breaks nothing else.
//!
//! ```text
//!   TABLE ──> one drill file a row ──> cargo-drill, once a cell ──> JSON lines ──> compared, cell by cell
//! ```
//!
//! A row says for each crash point which question breaks first of all, and what follows from that, with the reason. All
//! other questions must be held, and none may be unproven. Where a fault cannot be told from good behaviour the row says
//! why: a drill that cannot see it must not pretend to.
//!
//! Both directions count. A bad server that passes makes the drill useless; a good one that fails drives people to fix
//! what is right.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use assert_cmd::Command;
use cargo_drill::spec::Question::{self, *};
use serde::Deserialize;

use Point::*;

/// The crash points of `drills/deploy.yaml`, each a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Idle,
    BeforeDispatch,
    /// After acceptance, the reply withheld to the end of the observation.
    Held,
    /// After acceptance, the reply given once the client is gone.
    Given,
    AfterResult,
}

const POINTS: [Point; 5] = [Idle, BeforeDispatch, Held, Given, AfterResult];

impl Point {
    fn name(self) -> &'static str {
        match self {
            Idle => "idle",
            BeforeDispatch => "before-dispatch",
            Held => "after-acceptance",
            Given => "after-acceptance::reply-given",
            AfterResult => "after-result",
        }
    }
}

/// From these on a call has been dispatched, or is about to be.
const FROM_DISPATCH_ON: &[Point] = &[BeforeDispatch, Held, Given, AfterResult];

/// From these on there is an effect.
const WITH_EFFECT: &[Point] = &[Held, Given, AfterResult];

/// What a trial must come to.
#[derive(Debug, Clone)]
enum Expected {
    /// Nothing breaks, for a good server.
    Good,
    /// Nothing breaks, although the server is bad, and why.
    Unseen(&'static str),
    /// Nothing breaks, and this is left open, and why.
    LeavesOpen(&'static [Question], &'static str),
    /// The crash point is not reached, and why: all is left open, but for what breaks nevertheless.
    NoCrash(Option<Question>, &'static str),
    /// This breaks, and with it what follows from it.
    Breaks(Question, Vec<(Question, &'static str)>),
}

impl Expected {
    /// What follows, and why it must.
    fn so(mut self, question: Question, because: &'static str) -> Self {
        let Self::Breaks(_, follows) = &mut self else {
            panic!("nothing breaks, so nothing follows");
        };
        assert!(!because.is_empty());
        follows.push((question, because));
        self
    }

    fn broken(&self) -> BTreeSet<Question> {
        match self {
            Self::Good | Self::Unseen(_) | Self::LeavesOpen(..) => BTreeSet::new(),
            Self::NoCrash(broken, _) => broken.iter().copied().collect(),
            Self::Breaks(first, follows) => std::iter::once(*first)
                .chain(follows.iter().map(|(question, _)| *question))
                .collect(),
        }
    }

    fn right(&self, question: Question) -> &'static str {
        if self.broken().contains(&question) {
            return "broken";
        }
        match self {
            Self::LeavesOpen(open, _) if open.contains(&question) => "unproven",
            Self::NoCrash(..) => "unproven",
            _ => "held",
        }
    }

    /// Of the trial as a whole.
    fn verdict(&self) -> &'static str {
        match self {
            _ if !self.broken().is_empty() => "broken",
            Self::LeavesOpen(..) | Self::NoCrash(..) => "unproven",
            _ => "held",
        }
    }
}

fn breaks(first: Question) -> Expected {
    Expected::Breaks(first, Vec::new())
}

/// A server, how it is drilled, and what each of its trials must come to.
struct Row {
    name: String,
    /// Lines of `drills/deploy.yaml` that read otherwise in this drill.
    edits: Vec<(&'static str, String)>,
    at: BTreeMap<Point, Expected>,
}

const COMMAND: &str = r#"command: ["{{ fixture }}", deploy]"#;
const BESIDE: &str = "beside: true";
const WITHIN: &str = "eof: { within: 2s }";

impl Row {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            edits: Vec::new(),
            at: BTreeMap::new(),
        }
    }

    /// The server that does everything right, in some other surrounding.
    fn good(name: impl Into<String>) -> Self {
        let mut row = Self::new(name);
        row.at = POINTS.map(|point| (point, Expected::Good)).into();
        row
    }

    fn fault(name: &str) -> Self {
        Self::new(name).started_with("--fault", name)
    }

    fn manner(name: &str) -> Self {
        Self::good(name).started_with("--manner", name)
    }

    fn started_with(self, flag: &str, value: &str) -> Self {
        let command = format!(r#"command: ["{{{{ fixture }}}}", deploy, {flag}, {value}]"#);
        self.drilled(COMMAND, command)
    }

    fn drilled(mut self, line: &'static str, instead: impl Into<String>) -> Self {
        self.edits.push((line, instead.into()));
        self
    }

    fn server(self, line: impl AsRef<str>) -> Self {
        let line = line.as_ref();
        self.drilled("\nremote:\n", format!("\n  {line}\n\nremote:\n"))
    }

    fn client(self, line: &str) -> Self {
        self.drilled("\ncall:\n", format!("\nclient: {{ {line} }}\n\ncall:\n"))
    }

    /// Started by a shell, as its words `"$@"`.
    fn through(self, script: &str) -> Self {
        let command = format!(r#"command: [sh, -c, '{script}', sh, "{{{{ fixture }}}}", deploy]"#);
        self.drilled(COMMAND, command)
    }

    fn env(self, line: &str) -> Self {
        self.drilled("  env: #", format!("  env:\n    {line}\n    #"))
    }

    /// The deadline has to be waited out, so it is short. For a server that is not expected to meet it.
    fn outlives_eof(self) -> Self {
        self.drilled(WITHIN, "eof: { within: 500ms }")
    }

    /// The server waits long enough for its reply that a busy machine gives it in time.
    fn waits_for_its_reply(self) -> Self {
        self.env(r#"DRAIN_MS: "1500""#)
            .drilled(WITHIN, "eof: { within: 4s }")
    }

    fn everywhere(self, expected: &Expected) -> Self {
        self.at(&POINTS, expected)
    }

    fn at(mut self, points: &[Point], expected: &Expected) -> Self {
        for point in points {
            let before = self.at.insert(*point, expected.clone());
            assert!(before.is_none(), "{} has {point:?} twice", self.name);
        }
        self
    }

    /// Everywhere else it cannot be told from the good server.
    fn elsewhere_unseen(mut self, because: &'static str) -> Self {
        for point in POINTS {
            self.at.entry(point).or_insert(Expected::Unseen(because));
        }
        self
    }

    /// The drill file, which is `drills/deploy.yaml` but for the edits.
    fn drill(&self) -> String {
        let renamed = ("drill: deploy\n", format!("drill: {}\n", self.name));
        let mut text = include_str!("../drills/deploy.yaml").to_owned();
        for (line, instead) in std::iter::once(&renamed).chain(&self.edits) {
            assert_eq!(
                text.matches(line).count(),
                1,
                "{}: {line:?} stands once in the drill",
                self.name
            );
            text = text.replace(line, instead);
        }
        text
    }
}

/// A room for trials, and who is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// The operating system's own, as whoever runs this test.
    Namespaces,
    /// The same for an ordinary user, through a user namespace.
    OrdinaryUser,
    /// What is left where namespaces are not allowed.
    Subreaper,
}

impl Room {
    fn cell(self) -> &'static str {
        match self {
            Self::Namespaces | Self::OrdinaryUser => "namespaces",
            Self::Subreaper => "subreaper",
        }
    }
}

fn table(room: Room) -> Vec<Row> {
    main_rows()
        .into_iter()
        .chain(good_rows(room))
        .chain(rows_of_the_end(room))
        .chain(rows_of_the_call())
        .chain(rows_of_the_record(room))
        .chain(rows_of_the_credential())
        .chain(rows_of_the_wire())
        .chain(rows_beside())
        .collect()
}

/// The good server and its main bad twins.
fn main_rows() -> Vec<Row> {
    vec![
        Row::good("good"),
        Row::fault("ignores-eof")
            .outlives_eof()
            .everywhere(&breaks(Eof)),
        Row::fault("setsid-helper").everywhere(&breaks(Helpers)),
        Row::fault("no-key")
            .waits_for_its_reply()
            .at(
                &[Held],
                &breaks(Reconcile).so(Handle, "the key in the record was never sent"),
            )
            .at(&[Given, AfterResult], &breaks(Reconcile))
            .elsewhere_unseen("without an effect of session A, session B makes the first"),
    ]
}

/// Unusual, and right: all of these must hold everywhere.
fn good_rows(room: Room) -> Vec<Row> {
    const REVISIONS: [&str; 5] = [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    ];
    let durable = r#"{ allow: [{ command: "helper setsid$", because: "it is meant to stay" }] }"#;
    let mut rows = vec![
        Row::manner("refuses-replay").drilled("retry: true", "operator: true"),
        Row::manner("durable-helper").drilled("helpers: none", format!("helpers: {durable}")),
        Row::manner("loud-stderr"),
        Row::manner("large-frames"),
        Row::manner("broken-pipe"),
        Row::good("slow-but-in-time")
            .env(r#"DRAIN_MS: "1500""#)
            .drilled(WITHIN, "eof: { within: 4s }"),
        Row::good("socketpair").server("stdin: socketpair"),
        // What others read of a process, a user that is not root cannot read of this one.
        match room {
            Room::OrdinaryUser => Row::new("not-dumpable")
                .started_with("--manner", "not-dumpable")
                .everywhere(&Expected::LeavesOpen(
                    &[Secrets],
                    "its environment cannot be read, so nobody can say what is in it",
                )),
            Room::Namespaces | Room::Subreaper => Row::manner("not-dumpable"),
        },
        Row::good("stderr-closed-from-the-start").through("exec \"$@\" 2>&-"),
        Row::good("behind-sh").through("\"$@\"; exit $?"),
        Row::good("adopted-by-process-1-from-the-start").through("exec 3<&0; \"$@\" <&3 3<&- &"),
    ];
    rows.extend(REVISIONS.map(|revision| {
        Row::good(format!("protocol-{revision}")).server(format!("protocol: {revision}"))
    }));
    rows
}

/// EOF, signals, the CPU, and what is left behind.
fn rows_of_the_end(room: Room) -> Vec<Row> {
    let watchdog = Row::fault("ppid-watchdog").outlives_eof();
    vec![
        match room {
            Room::Namespaces | Room::OrdinaryUser => watchdog.everywhere(&Expected::Unseen(
                "process 1 adopts it when the client dies: the one layout in which its watchdog works",
            )),
            Room::Subreaper => watchdog.everywhere(&breaks(Eof)),
        },
        Row::new("ppid-watchdog-behind-sh")
            .through("\"$@\" --fault ppid-watchdog; exit $?")
            .outlives_eof()
            .everywhere(&breaks(Eof).so(Helpers, "the server behind the wrapper stays as well")),
        Row::fault("socketpair-misread")
            .everywhere(&Expected::Unseen("its stdin is a pipe")),
        Row::new("socketpair-misread-on-a-socketpair")
            .started_with("--fault", "socketpair-misread")
            .server("stdin: socketpair")
            .everywhere(&Expected::NoCrash(Some(Protocol), "it never opens a session")),
        Row::new("pipe-held-by-a-careless-client")
            .client("leak_stdin_to: [sleep, \"600\"]")
            .at(
                &[BeforeDispatch],
                &Expected::LeavesOpen(&[Eof, Helpers, Quiet], "no EOF came: what it sent late was in time"),
            )
            .at(
                &[Idle, Held, Given, AfterResult],
                &Expected::LeavesOpen(&[Eof, Helpers], "no EOF came, so its helper is in use"),
            ),
        Row::fault("helper-after-kill")
            .everywhere(&Expected::Unseen("nobody kills the server before it ends in order")),
        Row::fault("unbounded-drain")
            .outlives_eof()
            .at(&[Held], &breaks(Eof))
            .elsewhere_unseen("no call waits for a reply that does not come"),
        Row::fault("abort-at-exit").everywhere(&breaks(Eof)),
        Row::fault("deaf-to-term")
            .outlives_eof()
            .everywhere(&breaks(Quiet).so(Eof, "only who has outlived EOF is sent SIGTERM")),
        Row::fault("eof-spin")
            .drilled(WITHIN, "eof: { within: 300ms }")
            // It takes a processor from all the others for as long as it is watched.
            .drilled("quiet: { for: 500ms }", "quiet: { for: 200ms }")
            .drilled("    within: 1s", "    within: 500ms")
            .everywhere(&breaks(Quiet).so(Eof, "who spins on EOF has not exited")),
        Row::fault("keeps-polling")
            .outlives_eof()
            .everywhere(&breaks(Quiet).so(Eof, "who polls on has not exited")),
        Row::fault("late-dispatch")
            .outlives_eof()
            .at(
                &[BeforeDispatch],
                &breaks(Quiet)
                    .so(Eof, "it waits for the connection, which is pending")
                    .so(Effects, "what is dispatched late is applied"),
            )
            .elsewhere_unseen("no dispatch is pending when the client dies"),
        Row::fault("plain-helper").everywhere(&breaks(Helpers)),
        Row::fault("daemon-helper").everywhere(&breaks(Helpers)),
        Row::fault("pipe-holding-helper").everywhere(&breaks(Helpers)),
        Row::fault("zombie-helper").everywhere(&breaks(Resources)),
        Row::fault("stale-lock").everywhere(&breaks(Reconcile).so(
            Revocation,
            "the revoked session is turned away by the lock, and notes no refusal",
        )),
    ]
}

/// How often a call takes effect.
fn rows_of_the_call() -> Vec<Row> {
    let first_is_right = "without an effect of session A, session B makes the first";
    let mut rows = vec![
        Row::fault("self-retry")
            .waits_for_its_reply()
            .at(
                &[Held],
                &breaks(Effects)
                    .so(Quiet, "the second request comes after the client's death")
                    .so(Reconcile, "there are two before session B begins")
                    .so(Handle, "the second has no key"),
            )
            .elsewhere_unseen("no reply is lost"),
    ];
    rows.push(Row::fault("key-not-bound").everywhere(&Expected::Unseen(
        "a drill makes one call, with the same arguments whenever it makes it",
    )));
    for fault in ["fresh-key-per-attempt", "key-from-rpc-id", "key-in-memory"] {
        let row = Row::fault(fault)
            .at(WITH_EFFECT, &breaks(Reconcile))
            .elsewhere_unseen(first_is_right);
        rows.push(row);
    }
    rows
}

/// What is written down.
fn rows_of_the_record(room: Room) -> Vec<Row> {
    let refusal = "a refusal is an outcome too";
    let logs_after_send = Row::fault("logs-after-send");
    vec![
        match room {
            Room::Namespaces | Room::OrdinaryUser => logs_after_send
                .at(FROM_DISPATCH_ON, &breaks(Ownership))
                .elsewhere_unseen("nothing is dispatched"),
            Room::Subreaper => logs_after_send
                .at(&[BeforeDispatch, Held, Given], &breaks(Ownership))
                .elsewhere_unseen(
                    "a dispatch cannot be held in this cell, and after the result the row is there",
                ),
        },
        Row::fault("shared-log-torn").everywhere(&Expected::Unseen(
            "no other session writes in the moment between two halves of a row",
        )),
        Row::fault("shared-owner").everywhere(&Expected::Unseen("no other session is open")),
        Row::fault("unknown-as-failed")
            .waits_for_its_reply()
            .at(&[Held], &breaks(Ownership))
            .elsewhere_unseen("no outcome is unknown"),
        Row::fault("logs-success-only")
            .waits_for_its_reply()
            .at(
                &[BeforeDispatch, Held],
                &breaks(Ownership).so(Revocation, refusal),
            )
            .at(&[Idle, Given, AfterResult], &breaks(Revocation)),
        Row::fault("buffered-log")
            .at(FROM_DISPATCH_ON, &breaks(Ownership))
            .elsewhere_unseen("nothing is dispatched"),
        Row::fault("wrong-owner")
            .at(FROM_DISPATCH_ON, &breaks(Ownership))
            .elsewhere_unseen("nothing is dispatched"),
    ]
}

fn rows_of_the_credential() -> Vec<Row> {
    vec![
        Row::fault("denied-as-success").everywhere(&breaks(Revocation)),
        Row::fault("cached-credential").everywhere(&breaks(Revocation)),
        Row::fault("token-in-argv").everywhere(&breaks(Secrets)),
        Row::fault("token-in-log").everywhere(&breaks(Secrets)),
        Row::fault("env-to-helper").everywhere(&breaks(Secrets)),
    ]
}

fn rows_of_the_wire() -> Vec<Row> {
    vec![Row::fault("stdout-noise").everywhere(&breaks(Protocol))]
}

/// Two sessions of one command side by side: what befalls the one that is not crashed.
fn rows_beside() -> Vec<Row> {
    vec![
        Row::good("beside").client(BESIDE),
        Row::fault("kills-sibling").everywhere(&Expected::Unseen("no other session is open")),
        Row::new("kills-sibling-beside")
            .started_with("--fault", "kills-sibling")
            .client(BESIDE)
            .everywhere(&breaks(Resources)),
        Row::new("shared-owner-beside")
            .started_with("--fault", "shared-owner")
            .client(BESIDE)
            .at(FROM_DISPATCH_ON, &breaks(Ownership))
            .elsewhere_unseen("who owns a call is not asked where session A made none"),
        Row::new("stale-lock-beside")
            .started_with("--fault", "stale-lock")
            .client(BESIDE)
            .at(
                FROM_DISPATCH_ON,
                &Expected::NoCrash(
                    None,
                    "the other session has the lock, and the call is turned away",
                ),
            )
            .at(
                &[Idle],
                &breaks(Reconcile).so(
                    Revocation,
                    "the lock turns away the revoked session as well",
                ),
            ),
    ]
}

// ---- what is measured --------------------------------------------------------------------------------------------

/// A line of `--format json`, as far as the table asks.
#[derive(Debug, Deserialize)]
struct Trial {
    name: String,
    verdict: String,
    error: Option<String>,
    answers: Vec<Answer>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    question: Question,
    verdict: String,
    because: String,
}

/// Runs all rows at once, in this room. Trials mostly wait, so many of them share a processor.
fn measure(room: Room, rows: &[Row]) -> BTreeMap<String, Trial> {
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    fs::create_dir(&drills).unwrap();
    for row in rows {
        fs::write(drills.join(format!("{}.yaml", row.name)), row.drill()).unwrap();
    }
    let mut command = match room {
        Room::Namespaces | Room::Subreaper => Command::new(env!("CARGO_BIN_EXE_cargo-drill")),
        Room::OrdinaryUser => as_ordinary_user(folder.path()),
    };
    let run = command
        .args(["--format", "json", "--test-threads", "16"])
        .current_dir(folder.path())
        .env("CARGO_DRILL_CELL", room.cell())
        .env_remove("CI")
        .output()
        .unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    let lines = String::from_utf8(run.stdout).unwrap();
    let trials: BTreeMap<String, Trial> = lines
        .lines()
        .map(|line| {
            let trial: Trial = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            (trial.name.clone(), trial)
        })
        .collect();
    assert_eq!(trials.len(), rows.len() * POINTS.len(), "{said}");
    trials
}

/// `nobody`, by the convention of every Linux distribution.
const NOBODY: u32 = 65534;

/// The command as root's opposite. What it needs is copied into `folder`, since it may not enter where we were built.
fn as_ordinary_user(folder: &Path) -> Command {
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    for built in [
        env!("CARGO_BIN_EXE_cargo-drill"),
        env!("CARGO_BIN_EXE_drill-fixture"),
    ] {
        fs::copy(built, bin.join(Path::new(built).file_name().unwrap())).unwrap();
    }
    let open = Permissions::from_mode(0o755);
    fs::set_permissions(folder, open).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = std::process::Command::new(bin.join("cargo-drill"));
    command.uid(NOBODY).gid(NOBODY).env("HOME", folder);
    Command::from_std(command)
}

// ---- how they are compared ---------------------------------------------------------------------------------------

/// The questions that a trial at this point is asked. `handle` is left out: it depends on what the server recorded.
fn asked(point: Point) -> BTreeSet<Question> {
    let mut asked = BTreeSet::from([
        Eof, Helpers, Quiet, Effects, Reconcile, Revocation, Protocol, Secrets, Resources,
    ]);
    if point != Idle {
        asked.insert(Ownership);
    }
    asked
}

/// What is wrong with a trial, a line each; nothing, if it is as the table has it.
fn differences(point: Point, expected: &Expected, trial: &Trial) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(error) = &trial.error {
        wrong.push(format!("error: {error}"));
    }
    let broken = expected.broken();
    for answer in &trial.answers {
        let right = expected.right(answer.question);
        if answer.verdict != right {
            wrong.push(format!(
                "{} is {}, not {right}: {}",
                answer.question, answer.verdict, answer.because
            ));
        }
    }
    let answered: BTreeSet<Question> = trial.answers.iter().map(|answer| answer.question).collect();
    let due = asked(point)
        .union(&broken)
        .copied()
        .collect::<BTreeSet<_>>();
    let is_handle_due = matches!((point, expected), (Held, Expected::Good));
    for absent in due.difference(&answered) {
        wrong.push(format!("{absent} was not asked"));
    }
    if is_handle_due && !answered.contains(&Handle) {
        wrong.push("handle was not asked".to_owned());
    }
    let verdict = expected.verdict();
    if trial.verdict != verdict {
        wrong.push(format!("the trial is {}, not {verdict}", trial.verdict));
    }
    wrong
}

fn told(expected: &Expected) -> String {
    match expected {
        Expected::Good => "all held".to_owned(),
        Expected::Unseen(because) => format!("all held ({because})"),
        Expected::LeavesOpen(open, because) => format!("{open:?} unproven ({because})"),
        Expected::NoCrash(None, because) => format!("all unproven ({because})"),
        Expected::NoCrash(Some(question), because) => {
            format!("{question}, and all else unproven ({because})")
        }
        Expected::Breaks(first, follows) => follows
            .iter()
            .fold(first.to_string(), |told, (question, because)| {
                format!("{told}, so {question} ({because})")
            }),
    }
}

/// Drills the table in one room, and shows every trial that is not as the table has it.
fn prove(room: Room) {
    let rows = table(room);
    let trials = measure(room, &rows);
    let mut wrong = String::new();
    for row in &rows {
        assert_eq!(row.at.len(), POINTS.len(), "{} misses a point", row.name);
        for (point, expected) in &row.at {
            let name = format!("{}::{}", row.name, point.name());
            let trial = &trials[&name];
            let differences = differences(*point, expected, trial);
            if differences.is_empty() {
                continue;
            }
            writeln!(wrong, "\n{name}\n  table:    {}", told(expected)).unwrap();
            for difference in differences {
                writeln!(wrong, "  measured: {difference}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{room:?}:\n{wrong}");
}

// ---- the tests ---------------------------------------------------------------------------------------------------

#[test]
fn every_server_breaks_what_the_table_says_and_nothing_else() {
    prove(Room::Namespaces);
}

#[test]
fn an_ordinary_user_gets_the_same_answers() {
    if !nix::unistd::geteuid().is_root() {
        println!(
            "skipped: whoever runs this is an ordinary user, so the table has been proven for one"
        );
        return;
    }
    prove(Room::OrdinaryUser);
}

#[test]
fn without_namespaces_the_answers_are_the_same() {
    prove(Room::Subreaper);
}

#[test]
fn every_fault_and_every_manner_of_the_fixture_stands_in_the_table() {
    let commands: BTreeSet<String> = table(Room::Namespaces)
        .iter()
        .flat_map(|row| row.edits.iter().map(|(_, instead)| instead.clone()))
        .collect();
    for flag in ["--fault", "--manner"] {
        for value in possible_values(flag) {
            assert!(
                commands
                    .iter()
                    .any(|command| command.contains(&format!("{flag}, {value}]"))),
                "{flag} {value} has no row"
            );
        }
    }
}

/// What the fixture takes as the value of this flag, as its own usage message tells.
fn possible_values(flag: &str) -> Vec<String> {
    let fixture = Command::new(env!("CARGO_BIN_EXE_drill-fixture"))
        .args(["deploy", flag, "none-such"])
        .output()
        .unwrap();
    let message = String::from_utf8(fixture.stderr).unwrap();
    let (_, values) = message.split_once("[possible values: ").unwrap();
    let (values, _) = values.split_once(']').unwrap();
    values
        .split(',')
        .map(|value| value.trim().to_owned())
        .collect()
}

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

#[path = "../outside/needs.rs"]
mod needs;
mod row;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use assert_cmd::Command;
#[expect(clippy::enum_glob_use, reason = "a table is full of them")]
use cargo_drill::spec::Question::{self, *};
use serde::Deserialize;

use row::{Expected, FROM_DISPATCH_ON, POINTS, Point, Row};
use table::table;

use Point::Held;
use needs::{NOBODY, test};

fn main() -> ExitCode {
    needs::main(
        file!(),
        vec![
            test!(
                every_server_breaks_what_the_table_says_and_nothing_else,
                "namespaces"
            ),
            test!(an_ordinary_user_gets_the_same_answers, "root"),
            test!(without_namespaces_the_answers_are_the_same),
            test!(every_fault_and_every_manner_of_the_fixture_stands_in_the_table),
        ],
    )
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
    /// Each point is proven in the first room. What the others change, the kind of cell and what a user may see, shows at
    /// those where somebody is still there to be looked at.
    fn points(self) -> &'static [Point] {
        match self {
            Self::Namespaces => &POINTS,
            Self::OrdinaryUser | Self::Subreaper => &[
                Point::Idle,
                Point::CallUnread,
                Point::BeforeDispatch,
                Point::Held,
            ],
        }
    }

    fn cell(self) -> &'static str {
        match self {
            Self::Namespaces | Self::OrdinaryUser => "namespaces",
            Self::Subreaper => "subreaper",
        }
    }
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
        let drill = row.drill(room.points());
        fs::write(drills.join(format!("{}.yaml", row.name)), drill).unwrap();
    }
    let mut command = match room {
        Room::Namespaces | Room::Subreaper => Command::new(env!("CARGO_BIN_EXE_cargo-drill")),
        Room::OrdinaryUser => as_ordinary_user(folder.path()),
    };
    let run = command
        .args(["--format", "json", "--test-threads", "16"])
        .current_dir(folder.path())
        .env("CARGO_DRILL_CELL", room.cell())
        .env("TMPDIR", scratch())
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
    assert_eq!(trials.len(), rows.len() * room.points().len(), "{said}");
    trials
}

/// Where the folders of a thousand trials come and go: in memory, where there is such a place.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let is_usable = tempfile::tempdir_in(memory).is_ok();
    if is_usable {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

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
        Helpers, Quiet, Effects, Reconcile, Revocation, Protocol, Secrets, Resources,
    ]);
    if point.sends_eof() {
        asked.insert(Eof);
    }
    if FROM_DISPATCH_ON.contains(&point) {
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
        for point in room.points() {
            let expected = &row.at[point];
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

fn every_server_breaks_what_the_table_says_and_nothing_else() {
    prove(Room::Namespaces);
}

fn an_ordinary_user_gets_the_same_answers() {
    prove(Room::OrdinaryUser);
}

fn without_namespaces_the_answers_are_the_same() {
    prove(Room::Subreaper);
}

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

//! What it takes to verify a bundle, by how many trials it has, beside its floor: the digests of all of its files.
//!
//! The bundles are made of one real trial: its events are written anew, under as many names, into journals of their own.
//! Each size is verified by a process of its own, whose time and largest memory are printed; in turn with it sha256sum
//! reads the same files. `cargo bench` prints it; nothing is asserted.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cargo_drill::cell::Wanted;
use cargo_drill::journal::{self, Event, Journal, Secrets};
use cargo_drill::report::{self, Population, RunFacts, RunWriter, TrialName, TrialResult};
use cargo_drill::spec::{self, CrashPoint};
use cargo_drill::trial::{self, Spoken, Surroundings, Trial};
use nix::sys::resource::{UsageWho, getrusage};

const COMMAND: &str = env!("CARGO_BIN_EXE_cargo-drill");
const FIXTURE: &str = env!("CARGO_BIN_EXE_drill-fixture");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How many trials the bundles have.
const SIZES: [usize; 3] = [10, 100, 1000];
/// The roles of this program: to make a bundle, and to verify one and say how much memory that took.
const MAKE: &str = "make-a-bundle";
const MEASURE: &str = "measure";
/// How often each is verified.
const ROUNDS: usize = 3;

fn main() -> ExitCode {
    // The cell and the clients of a trial are this program in another role.
    if let Some(played) = cargo_drill::roles::play() {
        return played;
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, real, size, reports] = arguments.as_slice()
        && word == MAKE
    {
        let size = size.parse().expect("a number");
        let run = bundle_of(Path::new(real), size, Path::new(reports));
        println!("{}", run.display());
        return ExitCode::SUCCESS;
    }
    if let [_, word, run] = arguments.as_slice()
        && word == MEASURE
    {
        verify(Path::new(run));
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("what its child used");
        println!("{}", usage.max_rss());
        return ExitCode::SUCCESS;
    }
    let work = tempfile::tempdir().expect("a folder for bundles");
    let real = work.path().join("real");
    fs::create_dir(&real).expect("a folder for the trial");
    play(&real);
    println!(
        "{:>7} {:>9} {:>12} {:>12} {:>12}",
        "trials", "MiB", "sha256sum", "verify", "largest"
    );
    for size in SIZES {
        let reports = work.path().join(format!("of-{size}"));
        let count = size.to_string();
        let run = ask(&[
            MAKE.as_ref(),
            real.as_os_str(),
            count.as_ref(),
            reports.as_os_str(),
        ]);
        let run = PathBuf::from(run);
        let (mut floors, mut times) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let sums = "find . -type f -print0 | xargs -0 sha256sum";
            floors.push(time(
                Command::new("sh").args(["-c", sums]).current_dir(&run),
            ));
            times.push(verify(&run));
        }
        let kibibytes: f64 = ask(&[MEASURE.as_ref(), run.as_os_str()])
            .parse()
            .expect("a number");
        println!(
            "{size:>7} {:>9.1} {:>9.0} ms {:>9.0} ms {:>8.1} MiB",
            mebibytes(bytes_in(&run)),
            millis(median(floors)),
            millis(median(times)),
            kibibytes / 1024.0,
        );
    }
    ExitCode::SUCCESS
}

/// This program in another role. What a process is said to have needed is never less than what its parent had when it
/// started it, and is the largest of all its children: so bundles are made in one process and measured in another.
fn ask(arguments: &[&OsStr]) -> String {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .expect("it starts");
    let answer = String::from_utf8(output.stdout).expect("text");
    answer.trim_end().to_owned()
}

fn verify(run: &Path) -> Duration {
    time(Command::new(COMMAND).args(["drill", "verify"]).arg(run))
}

/// One trial of the shipped drill.
fn play(folder: &Path) {
    let file = spec::load(&Path::new(ROOT).join("drills/deploy.yaml")).expect("the shipped drill");
    let planned = file.trials();
    let planned = planned
        .iter()
        .find(|t| t.crash.at == CrashPoint::AfterResult);
    let planned = planned.expect("a trial at after-result");
    let (_keep, interrupted) = tokio::sync::watch::channel(false);
    let surroundings = Surroundings {
        cell: Wanted::Best,
        root: file.root.clone(),
        drill_folder: file.root.join("drills"),
        places: file.places(),
        fixture: Some(PathBuf::from(FIXTURE)),
        interrupted,
        spoken: Spoken::default(),
    };
    let trial = Trial {
        name: planned.name.clone(),
        drill: std::sync::Arc::new(file.drill.clone()),
        crash: planned.crash.clone(),
    };
    trial::run(&trial, &surroundings, folder, &Secrets::default()).expect("the trial runs");
}

/// A bundle of so many trials with the events of the real one.
fn bundle_of(real: &Path, trials: usize, reports: &Path) -> PathBuf {
    let recorded = journal::read(&real.join("journal.jsonl")).expect("the journal is whole");
    let writer = RunWriter::begin(reports, None).expect("a run's folder");
    let names: Vec<TrialName> = (0..trials)
        .map(|number| TrialName {
            drill: "deploy".to_owned(),
            point: CrashPoint::AfterResult,
            variant: Some(format!("v{number:04}")),
        })
        .collect();
    let facts = RunFacts {
        population: names
            .iter()
            .map(|name| Population {
                drill: name.drill.clone(),
                trial: Some(name.to_string()),
                line: None,
                not_run: None,
                repeats: Vec::new(),
            })
            .collect(),
        ..RunFacts::default()
    };
    for name in &names {
        let bundle = writer.trial_folder(name).expect("a trial's folder");
        let folder = writer.folder().join(&bundle);
        for entry in fs::read_dir(real).expect("the real trial's folder") {
            let entry = entry.expect("an entry");
            if entry.file_name() != "journal.jsonl" {
                fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
            }
        }
        let journal = Journal::create(&folder.join("journal.jsonl"), Secrets::default());
        let journal = journal.expect("a journal");
        // Each happens when it is appended here.
        for line in journal::in_time(&recorded.lines) {
            journal.append(match line.event.clone() {
                Event::TrialStarted {
                    drill,
                    crash,
                    tool,
                    drill_sha256,
                    ..
                } => Event::TrialStarted {
                    trial: name.to_string(),
                    drill,
                    crash,
                    tool,
                    drill_sha256,
                },
                event => event,
            });
        }
        let judged = trial::rejudge(&folder)
            .expect("a journal that can be judged")
            .judgement;
        let answers = serde_json::to_vec_pretty(&judged).expect("answers");
        fs::write(folder.join("answers.json"), answers).expect("a file");
        report::seal(&folder, &name.to_string()).expect("a seal");
        let result = TrialResult::judged(name, judged, Duration::ZERO, &Secrets::default());
        let recorded = writer.record(result.with(None, Some(bundle)));
        recorded.expect("the results are written");
    }
    let closed = writer.close(facts, false, None, &Secrets::default());
    closed.expect("the manifest is written");
    writer.folder().to_owned()
}

fn time(command: &mut Command) -> Duration {
    let begun = Instant::now();
    let status = command.stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{command:?}: {status}");
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn mebibytes(bytes: u64) -> f64 {
    let kibibytes = u32::try_from(bytes / 1024).expect("less than 4 TiB");
    f64::from(kibibytes) / 1024.0
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|e| e.expect("an entry").path());
    entries
        .map(|path| {
            if path.is_dir() {
                bytes_in(&path)
            } else {
                fs::metadata(path).expect("a file").len()
            }
        })
        .sum()
}

//! `cargo drill`: runs the trials side by side and shows what they answered.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::args::{Format, RunArgs};
use super::exit::Ended;
use super::population::{Candidate, Places, Population, find_fixture, is_wanted};
use super::subject::Subjects;
use super::suite::{Suite, wanted_cell};
use super::{complain, interrupt, say, show_mistakes};
use crate::report::{
    self, Closing, Commit, Progress, Results, RunFacts, RunWriter, Style, TrialResult,
    TrialVerdict, in_ci, json_line, pretty_line, render_closing, render_table, terse_mark,
};
use crate::spec::DrillFile;

/// Runs what is asked for.
pub fn run(args: &RunArgs, places: &Places) -> Ended {
    let population = Population::all(places, find_fixture().as_deref());
    if !population.mistakes.is_empty() {
        show_mistakes(&population.mistakes);
        return Ended::Failed;
    }
    if population.candidates.is_empty() {
        complain(&format!(
            "no drill in {}; a drill is a YAML file there (see `cargo drill --help`)",
            places.drills.display()
        ));
        return Ended::Failed;
    }
    let (wanted, left): (Vec<Candidate>, Vec<Candidate>) = population
        .candidates
        .into_iter()
        .partition(|candidate| is_wanted(&candidate.trial.name, args));
    if args.list {
        return list(&wanted);
    }
    if wanted.is_empty() {
        complain(&format!(
            "no trial matches; there are {}, see `cargo drill --list`",
            left.len()
        ));
        return Ended::Failed;
    }
    let plan = Plan {
        wanted,
        left,
        files: population.files,
        courses: population.courses,
    };
    match play(args, places, plan) {
        Ok(ended) => ended,
        Err(error) => {
            complain(&format!(
                "failed to write reports to {}: {error}",
                places.reports.display()
            ));
            Ended::Failed
        }
    }
}

/// As libtest lists tests.
fn list(wanted: &[Candidate]) -> Ended {
    let mut text = String::new();
    for candidate in wanted {
        let _ = writeln!(text, "{}: test", candidate.trial.name);
    }
    say(&text)
}

/// What is to be run, and what there is besides.
struct Plan {
    wanted: Vec<Candidate>,
    left: Vec<Candidate>,
    files: Vec<DrillFile>,
    courses: Vec<String>,
}

fn play(args: &RunArgs, places: &Places, plan: Plan) -> io::Result<Ended> {
    let cell = match wanted_cell() {
        Ok(cell) => cell,
        Err(because) => {
            complain(&because);
            return Ok(Ended::Failed);
        }
    };
    let begun = Instant::now();
    let interrupted = interrupt::listen()?;
    let writer = RunWriter::begin(&places.reports, None)?;
    let suite = Suite::new(
        writer,
        places.reports.clone(),
        cell,
        interrupted.clone(),
        args.repeat,
    );
    let format = if args.quiet {
        Format::Terse
    } else {
        args.format
    };
    let show = Show {
        format,
        style: Style::detect(),
        ci: in_ci(),
    };
    let facts = facts(&plan, places, suite.fixture.as_deref());
    let wanted = plan.wanted;
    let progress = Progress::new(wanted.len(), format != Format::Json && !show.ci);

    let threads = args
        .test_threads
        .map_or_else(default_threads, usize::from)
        .min(wanted.len());
    let queue = Mutex::new(VecDeque::from(wanted));
    let failure = Mutex::new(None);
    // What could not be written to stdout is lost to whoever reads it, so the run has failed for them.
    let shown_to_the_end = Mutex::new(Ended::Held);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !*interrupted.borrow()
                    && let Some(candidate) = take(&queue)
                {
                    let name = &candidate.trial.name;
                    progress.begin(name);
                    let (result, recorded) =
                        suite.run(&candidate, |repeat, of| progress.repeat(name, repeat, of));
                    let said = progress.around(|| show.trial(&result));
                    let mut shown = lock(&shown_to_the_end);
                    *shown = said.max(*shown);
                    drop(shown);
                    if let Err(error) = recorded {
                        lock(&failure).get_or_insert(error);
                    }
                    progress.end(name);
                }
            });
        }
    });
    progress.finish();

    let notes = suite.notes();
    let facts = RunFacts {
        cell: notes.cell.map(|cell| format!("{cell:?}").to_lowercase()),
        population: as_run(facts.population, &queue, &suite.writer.so_far()),
        ..facts
    };
    let results = match suite.writer.close(facts, show.ci) {
        Ok(results) => results,
        Err(error) => {
            lock(&failure).get_or_insert(error);
            suite.writer.so_far()
        }
    };
    if format != Format::Json {
        let folder = shown(suite.writer.folder());
        let closing = Closing {
            results: &results,
            folder: &folder,
            elapsed: begun.elapsed(),
            unmatched: &notes.unmatched,
            weakens: &notes.weakens,
            courses: &plan.courses,
            diffs: &notes.diffs,
            ci: show.ci,
        };
        let table = render_table(&results, &show.style);
        let below = render_closing(&closing, &show.style);
        let said = say(&format!("\n{table}\n{below}"));
        let mut shown = lock(&shown_to_the_end);
        *shown = said.max(*shown);
    }
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    if *interrupted.borrow() {
        return Ok(Ended::Interrupted);
    }
    let ended = Ended::of(&results, show.ci).max(*lock(&shown_to_the_end));
    if ended == Ended::Failed && !results.trials.iter().any(was_run) {
        complain("nothing was run: every trial that was asked for is ignored");
    }
    Ok(ended)
}

struct Show {
    format: Format,
    style: Style,
    ci: bool,
}

impl Show {
    /// One trial, as it ends. A reader that has gone is no reason to stop: the results are in the files.
    fn trial(&self, result: &TrialResult) -> Ended {
        let text = match self.format {
            // What did not run, and why something did not hold, stands below the table.
            Format::Pretty if result.verdict == TrialVerdict::Ignored => return Ended::Held,
            Format::Pretty => {
                let line = pretty_line(result, &self.style);
                format!("{}\n", line.lines().next().unwrap_or_default())
            }
            Format::Terse => terse_mark(result, &self.style),
            Format::Json => match json_line(result) {
                Ok(line) => line + "\n",
                Err(_) => return Ended::Failed,
            },
        };
        say(&text)
    }
}

fn was_run(trial: &TrialResult) -> bool {
    trial.verdict != TrialVerdict::Ignored
}

/// A trial mostly waits, for a process or for a deadline.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |processors| processors.get() * 2)
}

fn take(queue: &Mutex<VecDeque<Candidate>>) -> Option<Candidate> {
    lock(queue).pop_front()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a run before it begins.
fn facts(plan: &Plan, places: &Places, fixture: Option<&Path>) -> RunFacts {
    let subjects = Subjects::default();
    let drills = plan.files.iter().map(|file| {
        let is_run = |candidate: &Candidate| {
            candidate.name.drill == file.drill.drill && candidate.ignored.is_none()
        };
        subjects.of(file, fixture, plan.wanted.iter().any(is_run))
    });
    RunFacts {
        commit: Commit::at(places.drills.parent().unwrap_or(&places.drills)),
        cell: None,
        drills: drills.collect(),
        population: census(&plan.wanted, &plan.left),
    }
}

/// The whole population for the manifest, with the reason for each trial that is not to run.
fn census(wanted: &[Candidate], left: &[Candidate]) -> Vec<report::Population> {
    let entry = |candidate: &Candidate, not_run: Option<String>| report::Population {
        drill: candidate.name.drill.clone(),
        trial: Some(candidate.trial.name.clone()),
        line: Some(candidate.line),
        not_run,
        repeats: Vec::new(),
    };
    wanted
        .iter()
        .map(|candidate| entry(candidate, candidate.ignored.clone()))
        .chain(
            left.iter()
                .map(|candidate| entry(candidate, Some("filtered out".to_owned()))),
        )
        .collect()
}

/// Those that an interruption left in the queue were not run either. Of the others, the repeats.
fn as_run(
    mut population: Vec<report::Population>,
    queue: &Mutex<VecDeque<Candidate>>,
    results: &Results,
) -> Vec<report::Population> {
    let queue = lock(queue);
    for entry in &mut population {
        let result = results
            .trials
            .iter()
            .find(|result| Some(&result.name) == entry.trial.as_ref());
        entry.repeats = result
            .filter(|result| result.repeats.is_some())
            .map_or_else(Vec::new, TrialResult::bundles);
        if queue
            .iter()
            .any(|candidate| Some(&candidate.trial.name) == entry.trial.as_ref())
        {
            entry.not_run = Some("interrupted".to_owned());
        }
    }
    population
}

/// A path as the user would type it from here.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here)
        .unwrap_or(path)
        .display()
        .to_string()
}

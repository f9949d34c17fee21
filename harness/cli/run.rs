//! `cargo drill`: runs the trials side by side and shows what they answered.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::args::{Format, RunArgs};
use super::census::{self, Plan, as_run, facts};
use super::exit::Ended;
use super::github::{self, Silence};
use super::population::{Candidate, Places, Population, find_fixture};
use super::suite::{Suite, wanted_cell};
use super::{complain, here, interrupt, note, say, show_mistakes, shown};
use crate::attest::PrivateKey;
use crate::export::EndedRun;
use crate::report::{
    Closing, INTERRUPTED, Progress, RunFacts, RunWriter, Style, TrialResult, TrialVerdict, in_ci,
    json_line, pretty_line, render_closing, render_table, terse_mark,
};

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
    let plan = Plan::of(population, args);
    if args.list {
        return list(&plan.wanted);
    }
    let is_matched = plan
        .left
        .iter()
        .any(|(_, reason)| reason != census::FILTERED_OUT);
    if plan.wanted.is_empty() && !is_matched {
        complain(&format!(
            "no trial matches; there are {}, see `cargo drill --list`",
            plan.left.len()
        ));
        return Ended::Failed;
    }
    let key = match args.sign.as_deref().map(PrivateKey::read).transpose() {
        Ok(key) => key,
        Err(error) => {
            complain(&error.to_string());
            return Ended::Failed;
        }
    };
    match play(args, places, plan, key.as_ref()) {
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

fn play(
    args: &RunArgs,
    places: &Places,
    plan: Plan,
    key: Option<&PrivateKey>,
) -> io::Result<Ended> {
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
    let facts = facts(&plan, places, suite.fixture.as_deref(), true);
    suite.writer.open(&facts)?;
    let silence = (format == Format::Github).then(Silence::begin);
    let wanted = plan.wanted;
    let progress = Progress::new(wanted.len(), format != Format::Json && !show.ci);

    let threads = args
        .test_threads
        .map_or_else(default_threads, usize::from)
        .min(wanted.len().max(1));
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

    let facts = RunFacts {
        cell: suite.cell_used(),
        interrupted: *interrupted.borrow(),
        population: as_run(facts.population, &suite.writer.so_far(), INTERRUPTED),
        ..facts
    };
    let notes = suite.notes();
    let results = match suite.close(facts.clone(), show.ci, key) {
        Ok(results) => results,
        Err(error) => {
            lock(&failure).get_or_insert(error);
            suite.writer.so_far()
        }
    };
    if format != Format::Json {
        let folder = shown(suite.writer.folder());
        let reports = shown(&places.reports);
        let flags = here::flags(places);
        let closing = Closing {
            results: &results,
            folder: &folder,
            reports: &reports,
            flags: &flags,
            elapsed: begun.elapsed(),
            unmatched: &notes.unmatched,
            weakens: &notes.weakens,
            courses: &plan.courses,
            diffs: &notes.diffs,
            interrupted: facts.interrupted.then(|| {
                let population = facts.population.iter();
                let left = population.filter(|entry| entry.not_run.as_deref() == Some(INTERRUPTED));
                left.count()
            }),
            ci: show.ci,
        };
        let table = render_table(&results, &show.style);
        let below = render_closing(&closing, &show.style);
        let said = say(&format!("\n{table}\n{below}"));
        let mut shown = lock(&shown_to_the_end);
        *shown = said.max(*shown);
    }
    let run = EndedRun::new(&results, &facts, show.ci);
    let told = github::tell(&run, &shown(suite.writer.folder()), silence);
    let mut seen = lock(&shown_to_the_end);
    *seen = told.max(*seen);
    drop(seen);
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    if *interrupted.borrow() {
        return Ok(Ended::Interrupted);
    }
    let ended = Ended::of(&results, show.ci).max(*lock(&shown_to_the_end));
    if results.trials.is_empty() {
        note(&format!(
            "{} has no trial: there are fewer than slices",
            plan.slice
                .map_or_else(String::new, |slice| slice.to_string())
        ));
        return Ok(*lock(&shown_to_the_end));
    }
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
            Format::Pretty | Format::Github if result.verdict == TrialVerdict::Ignored => {
                return Ended::Held;
            }
            Format::Pretty | Format::Github => {
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

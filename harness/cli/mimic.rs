//! The trials as tests: libtest-mimic, so that `cargo test` and `cargo nextest` show each of them.
//!
//! Under nextest each test is a process of its own, started as `NAME --nocapture --exact`; then only the file that holds
//! the name is read. Nothing but libtest's own lines may go to stdout.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use super::args::{Folders, RunArgs};
use super::census::{self, Plan, as_run, facts};
use super::population::{Candidate, Places, Population, find_fixture};
use super::suite::{Suite, wanted_cell};
use super::{complain, interrupt, show_mistakes};
use crate::journal::printable;
use crate::report::{
    RunFacts, RunWriter, SnapshotState, Style, TrialResult, TrialVerdict, in_ci, pretty_line,
};
use crate::roles;
use crate::spec::{DrillFile, Repeats};

/// Runs the drills of the package as tests: the one line in the `main` of a `tests/drills.rs` with `harness = false`.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     cargo_drill::test_main()
/// }
/// ```
///
/// It reads `drills/` of the package and writes `reports/` beside it.
pub fn test_main() -> ExitCode {
    if let Some(played) = roles::play() {
        return played;
    }
    match tests() {
        Ok(conclusion) => conclusion.exit_code(),
        Err(because) => {
            complain(&because);
            ExitCode::from(2)
        }
    }
}

/// libtest's arguments, and the one that libtest does not have.
#[derive(Parser)]
#[command(disable_version_flag = true)]
struct TestArguments {
    #[command(flatten)]
    libtest: Arguments,
    /// Carry out each trial N times, whatever `repeat` in its drill says; a verdict that differs is unstable, and fails
    #[arg(long, value_name = "N")]
    repeat: Option<Repeats>,
}

fn tests() -> Result<Conclusion, String> {
    let TestArguments {
        libtest: arguments,
        repeat,
    } = TestArguments::parse();
    let places = Places::find(&Folders {
        drills: None,
        reports: None,
    })
    .map_err(|e| e.to_string())?;
    let fixture = find_fixture();
    let population = match &arguments.filter {
        Some(name) if arguments.exact => Population::of_trial(&places, name, fixture.as_deref()),
        _ => Population::all(&places, fixture.as_deref()),
    };
    if !population.mistakes.is_empty() {
        show_mistakes(&population.mistakes);
        return Err("the drill files have mistakes".to_owned());
    }
    for differs in &population.courses {
        super::note(differs);
    }
    if arguments.list {
        let trials = population.candidates.into_iter().map(|candidate| {
            Trial::test(candidate.trial.name, || Ok(()))
                .with_ignored_flag(candidate.ignored.is_some())
        });
        return Ok(libtest_mimic::run(&arguments, trials.collect()));
    }
    let cell = wanted_cell()?;
    let interrupted = interrupt::listen().map_err(|error| error.to_string())?;
    let nextest = std::env::var("NEXTEST_RUN_ID").ok();
    let writer = RunWriter::begin(&places.reports, nextest.as_deref())
        .map_err(|error| format!("failed to write to {}: {error}", places.reports.display()))?;
    let reports = places.reports.clone();
    let suite = Arc::new(Suite::new(writer, reports, cell, interrupted, repeat));
    // Which of them are run is libtest's to decide: at the end those without a result were filtered out.
    let plan = Plan::of(population, &RunArgs::default());
    let is_told = |file: &DrillFile| suite.writer.knows(&file.drill.drill);
    let facts = if plan.files.iter().all(is_told) {
        RunFacts::default()
    } else {
        facts(&plan, &places, fixture.as_deref(), true)
    };
    let written = suite.writer.open(&facts);
    written.map_err(|error| error.to_string())?;
    let trials = plan
        .wanted
        .into_iter()
        .map(|candidate| test(&suite, candidate, arguments.ignored));
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let results = suite.writer.so_far();
    let facts = RunFacts {
        cell: suite.cell_used(),
        interrupted: *suite.interrupted.borrow(),
        population: as_run(facts.population, &results, census::FILTERED_OUT),
        ..facts
    };
    let closed = suite.close(facts, in_ci(), None);
    closed.map_err(|error| error.to_string())?;
    Ok(conclusion)
}

/// Where its drill requires something that is missing, the trial is ignored as it is run, so that the reason is shown. With
/// `--ignored` those are run that would be ignored on a machine which has nothing of what is required.
fn test(suite: &Arc<Suite>, candidate: Candidate, ignored: bool) -> Trial {
    let suite = Arc::clone(suite);
    let name = candidate.trial.name.clone();
    let requires = !candidate.trial.drill.requires.is_empty();
    Trial::ignorable_test(name, move || {
        let (result, recorded) = suite.run(&candidate, |_, _| {});
        recorded?;
        if let Some(reason) = &candidate.ignored {
            return Ok(Completion::ignored_with(printable(reason)));
        }
        verdict(&result, suite.diff_of(&result.name), suite.writer.folder())?;
        Ok(Completion::Completed)
    })
    .with_ignored_flag(ignored && requires)
}

fn verdict(result: &TrialResult, diff: Option<String>, folder: &Path) -> Result<(), Failed> {
    let snapshot = match result.snapshot {
        // There is nothing to approve, and the line says why.
        Some(_) if result.is_unstable() => None,
        Some(SnapshotState::Differs) if result.repeats.is_some() => Some(
            "the snapshot differs; where all repeats agree, approve it with `cargo drill accept`",
        ),
        Some(SnapshotState::Differs) => {
            Some("the snapshot differs; approve it with `cargo drill accept`")
        }
        Some(SnapshotState::New) if in_ci() => {
            Some("the snapshot is new, and nothing is written in CI")
        }
        _ => None,
    };
    let good = matches!(result.verdict, TrialVerdict::Held | TrialVerdict::Ignored);
    if good && snapshot.is_none() {
        return Ok(());
    }
    let line = pretty_line(result, &Style::plain(100));
    let objections = result.objections();
    let mut bundles: Vec<String> = objections.filter_map(|a| result.bundle_of(a)).collect();
    bundles.sort();
    bundles.dedup();
    if bundles.is_empty() {
        bundles.extend(result.bundle.clone());
    }
    let bundles = bundles
        .iter()
        .map(|bundle| folder.join(bundle).display().to_string())
        .map(Some);
    let lines = [Some(line), snapshot.map(ToOwned::to_owned)];
    Err(lines
        .into_iter()
        .chain([diff.map(|diff| printable(diff.trim_end()))])
        .chain(bundles)
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
        .into())
}

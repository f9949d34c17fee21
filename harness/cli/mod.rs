//! The command `cargo drill`, and the same trials as tests.

mod args;
mod bundles;
mod census;
mod controls;
mod diff;
mod every;
mod exit;
mod explain;
mod gate;
mod github;
mod here;
mod interrupt;
mod merge;
mod mimic;
mod population;
mod run;
mod show;
mod slice;
mod subject;
mod suite;
mod verify;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use crate::journal::printable;
use crate::judge::{Repeat, Verdict, together};
use crate::report::{self, Style};
use crate::spec::{self, CrashPoint, Mistakes};
use crate::{policy, roles, trial};
use args::{Cli, Colour, ControlsFormat, Folders, Format, Verb};
use exit::Ended;
use github::Silence;
use here::shown;
use merge::MergeArgs;
use population::Places;

pub use mimic::test_main;

/// The `main` of `cargo-drill`.
pub fn main() -> ExitCode {
    if let Some(played) = roles::play() {
        return played;
    }
    // cargo starts `cargo-drill drill …`.
    let arguments = std::env::args_os().enumerate();
    let arguments = arguments
        .filter(|(index, word)| *index != 1 || word != "drill")
        .map(|(_, word)| word);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                Ended::Failed
            } else {
                Ended::Held
            }
            .into();
        }
    };
    match cli.run.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }
    let silence = silence(&cli);
    let ended = obey(&cli);
    if let Some(silence) = silence {
        silence.end();
    }
    ended.into()
}

/// What keeps GitHub from taking a server's words for commands, in a step of a job.
fn silence(cli: &Cli) -> Option<Silence> {
    let for_people = match &cli.verb {
        Some(Verb::Schema { .. } | Verb::Explain(_)) => false,
        Some(Verb::Judge { json, .. }) => !json,
        Some(Verb::Controls { format, .. }) => *format == ControlsFormat::Table,
        Some(Verb::Gate(args)) => args.format == gate::Show::Pretty,
        Some(Verb::Diff(args)) => args.format == diff::Show::Pretty,
        Some(_) => true,
        None => match cli.run.format {
            // It has one of its own, which ends before its annotations.
            Format::Github if !cli.run.quiet => return None,
            Format::Json => cli.run.quiet,
            _ => true,
        },
    };
    Silence::of_command(for_people)
}

fn obey(cli: &Cli) -> Ended {
    match &cli.verb {
        Some(Verb::Schema { policy }) => return schema(*policy),
        Some(Verb::Gate(args)) => return gate::gate(args, &cli.folders),
        Some(Verb::Diff(args)) => return diff::diff(args, &cli.folders),
        Some(Verb::Explain(args)) => return explain::explain(args),
        Some(Verb::Judge { bundle, json }) => return judge(bundle, *json),
        Some(Verb::Show { named }) => return show::show(named, &cli.folders),
        Some(Verb::Open { run }) => return show::open(run.as_deref(), &cli.folders),
        Some(Verb::Controls { runs, format }) => {
            return controls::show(runs, *format, &cli.folders);
        }
        Some(Verb::Verify { bundle, keys }) => return verify::verify(bundle, keys),
        _ => {}
    }
    if let Some(Verb::Merge { runs, sign, keys }) = &cli.verb {
        let args = MergeArgs {
            runs,
            sign: sign.as_ref(),
            keys,
        };
        return merge::merge(&args, &cli.folders);
    }
    let places = match places(&cli.folders) {
        Ok(places) => places,
        Err(ended) => return ended,
    };
    match &cli.verb {
        Some(Verb::Check) => check(&places),
        Some(Verb::Accept { filters }) => accept(&places, filters),
        _ => run::run(&cli.run, &places),
    }
}

fn places(folders: &Folders) -> Result<Places, Ended> {
    Places::find(folders).map_err(|error| {
        complain(&error.to_string());
        Ended::Failed
    })
}

fn check(places: &Places) -> Ended {
    let checked = spec::check(&places.drills);
    if !checked.mistakes.is_empty() {
        show_mistakes(&checked.mistakes);
        return Ended::Failed;
    }
    let trials: usize = checked
        .drills
        .iter()
        .map(|drill| drill.trials().len())
        .sum();
    if trials == 0 {
        complain(&format!("no drill in {}", places.drills.display()));
        return Ended::Failed;
    }
    for drill in &checked.drills {
        for trial in drill.trials() {
            if trial.crash.at == CrashPoint::Every {
                let trial = &trial.name;
                note(&format!(
                    "{trial} is one trial for each boundary, which a rehearsal finds when it is run"
                ));
            }
        }
    }
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    say(&format!(
        "{}, {}, no mistake\n",
        count(checked.drills.len(), "drill"),
        count(trials, "trial")
    ))
}

fn schema(of_policy: bool) -> Ended {
    let schema = if of_policy {
        policy::schema()
    } else {
        spec::schema()
    };
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => say(&(text + "\n")),
        Err(error) => {
            complain(&error.to_string());
            Ended::Failed
        }
    }
}

/// A trial's bundle, or a run's folder with all of its trials and their repeats.
fn judge(bundle: &Path, json: bool) -> Ended {
    let folders = trials_below(bundle);
    if folders.is_empty() {
        return judge_trial(bundle, json).1;
    }
    let mut worst = Ended::Held;
    for repeats in folders.chunk_by(|a, b| trial_of(a) == trial_of(b)) {
        let mut judged = Vec::new();
        for repeat in repeats {
            if !json {
                say(&format!("{}\n", printable(&name_of(repeat))));
            }
            let (repeat, ended) = judge_trial(repeat, json);
            judged.extend(repeat);
            worst = worst.max(ended);
        }
        // What each of them excuses as known is not excused where they differ.
        let together = together(&judged);
        if together.judgement.verdict != Verdict::Held && worst == Ended::Held {
            worst = Ended::Objected;
        }
        if !json {
            let trial = repeats.first().map(|first| trial_of(first));
            let trial = trial.unwrap_or_default();
            say(&report::render_unstable(
                &trial,
                &together,
                &Style::detect(),
            ));
        }
    }
    worst
}

fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What the folders of a trial's repeats have in common.
fn trial_of(folder: &Path) -> String {
    report::trial_and_numbers(&name_of(folder)).0.to_owned()
}

/// The trials' folders of a run, the repeats of each in order; none where `bundle` is one itself.
fn trials_below(bundle: &Path) -> Vec<PathBuf> {
    let is_trial = |folder: &Path| folder.join("journal.jsonl").exists();
    if is_trial(bundle) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(bundle).into_iter().flatten().flatten();
    let mut trials: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|folder| is_trial(folder))
        .collect();
    trials.sort_by_cached_key(|folder| {
        let name = name_of(folder);
        let (trial, numbers) = report::trial_and_numbers(&name);
        (trial.to_owned(), numbers)
    });
    trials
}

fn judge_trial(bundle: &Path, json: bool) -> (Option<Repeat>, Ended) {
    let repeat = match trial::rejudge(bundle) {
        Ok(repeat) => repeat,
        Err(error) => {
            complain(&format!("failed to judge {}: {error}", bundle.display()));
            return (None, Ended::Failed);
        }
    };
    let judgement = &repeat.judgement;
    let said = if json {
        say(&(serde_json::to_string_pretty(judgement).unwrap_or_default() + "\n"))
    } else {
        say(&report::render_judgement(judgement, &Style::detect()))
    };
    let ended = said.max(match judgement.verdict {
        Verdict::Held => Ended::Held,
        Verdict::Unproven | Verdict::Broken => Ended::Objected,
        Verdict::Error => Ended::Failed,
    });
    (Some(repeat), ended)
}

fn accept(places: &Places, filters: &[String]) -> Ended {
    let wanted =
        |trial: &str| filters.is_empty() || filters.iter().any(|filter| trial.contains(filter));
    let accepted = match report::accept(&places.reports, wanted) {
        Ok(accepted) => accepted,
        Err(error) => {
            complain(&error.to_string());
            return Ended::Failed;
        }
    };
    let mut text = String::new();
    for accepted in &accepted {
        let word = if accepted.replaced { "changed" } else { "new" };
        let _ = writeln!(text, "approved  {word:<7}  {}", printable(&accepted.trial));
    }
    if accepted.is_empty() {
        text += "nothing to approve\n";
    }
    say(&text)
}

/// Writes to stdout. A reader that has gone has seen enough.
fn say(text: &str) -> Ended {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("failed to write to stdout: {error}"));
            Ended::Failed
        }
        _ => Ended::Held,
    }
}

fn note(what: &str) {
    let _ = writeln!(anstream::stderr(), "note: {}", printable(what));
}

fn complain(because: &str) {
    let _ = writeln!(anstream::stderr(), "error: {}", printable(because));
}

fn show_mistakes(all: &[Mistakes]) {
    let graphical = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    let theme = if graphical {
        miette::GraphicalTheme::unicode()
    } else {
        miette::GraphicalTheme::unicode_nocolor()
    };
    let handler = miette::GraphicalReportHandler::new_themed(theme);
    for mistakes in all {
        let mut text = String::new();
        if handler.render_report(&mut text, mistakes).is_ok() {
            let _ = writeln!(anstream::stderr(), "{text}");
        }
    }
}

//! `cargo drill show` and `cargo drill open`: a run that was made, on the terminal and in a browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::args::Folders;
use super::exit::Ended;
use super::population::Places;
use super::{bundles, complain, here, note, say, shown};
use crate::journal::printable;
use crate::page::found::{self, Run};
use crate::page::{self, quoted, terminal};
use crate::report::{Results, Style, TrialResult, TrialVerdict};
use crate::spec::nearest;

/// What is to be shown.
struct Wanted {
    /// The run's folder.
    folder: PathBuf,
    filters: Vec<String>,
    /// The folder of the one trial that was named.
    bundle: Option<String>,
}

/// The trials that match a filter, alone; without one the table, and the trials that did not hold.
pub fn show(named: &[String], folders: &Folders) -> Ended {
    let found = find(named, folders).and_then(|wanted| {
        let run = Run::read(&wanted.folder)
            .map_err(|error| format!("failed to read {}: {error}", shown(&wanted.folder)))?;
        Ok((wanted, run))
    });
    let (wanted, run) = match found {
        Ok(found) => found,
        Err(because) => {
            complain(&because);
            return Ended::Failed;
        }
    };
    let style = Style::detect();
    let shown_folder = shown(&wanted.folder);
    let unmatched = wanted.unmatched(&run.results);
    for because in &unmatched {
        complain(because);
    }
    let trials: Vec<&TrialResult> = run
        .results
        .trials
        .iter()
        .filter(|trial| wanted.has(trial))
        .collect();
    let failed = if unmatched.is_empty() {
        Ended::Held
    } else {
        Ended::Failed
    };
    if wanted.is_narrowed() && trials.is_empty() {
        return failed;
    }
    let mut ended = failed.max(say(&if wanted.is_narrowed() {
        terminal::render_heading(&run, style)
    } else {
        terminal::render_glance(&run, style)
    }));
    let flags = places_of_run(&wanted.folder, &run, folders).map(|places| here::flags(&places));
    for (n, trial) in trials.iter().enumerate() {
        let text = terminal::render_trial(
            &run,
            trial,
            &wanted.folder,
            &shown_folder,
            flags.as_deref(),
            style,
        );
        let between = if n == 0 && wanted.is_narrowed() {
            ""
        } else {
            "\n"
        };
        ended = ended.max(say(&format!("{between}{text}")));
    }
    let held = run.results.counts().held;
    if !wanted.is_narrowed() && held > 0 {
        let held = format!(
            "\n{held} held: `cargo drill show {} NAME` shows what a trial's evidence is\n",
            quoted(&shown_folder)
        );
        ended = ended.max(say(&held));
    }
    ended
}

/// Where the drills of a run are: where a command looks for them, if it is one of the runs there, or beside the run.
fn places_of_run(folder: &Path, run: &Run, folders: &Folders) -> Option<Places> {
    let runs = |places: &Places| places.reports.join("runs").canonicalize().ok();
    let of_run = folder.canonicalize().ok();
    let of_run = of_run.as_deref().and_then(Path::parent);
    let found = Places::find(folders).ok();
    found
        .filter(|places| runs(places).as_deref() == of_run)
        .or_else(|| here::places_of(folder, &run.facts))
}

/// The page of a run in a browser. Its path is printed, whether there is a browser or not.
pub fn open(named: Option<&str>, folders: &Folders) -> Ended {
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    let page = find(&named, folders).and_then(|wanted| {
        if let Some(filter) = wanted.filters.first() {
            return Err(format!("there is no run `{filter}`"));
        }
        page::at(&wanted.folder)
    });
    let page = match page {
        Ok(page) => page,
        Err(because) => {
            complain(&because);
            return Ended::Failed;
        }
    };
    let said = say(&format!("{}\n", shown(&page)));
    match browse(&page) {
        Ok(Browsed::Opened) => said,
        Ok(Browsed::NoBrowser) => {
            note("no browser was found; $BROWSER can name one");
            said
        }
        Err(because) => {
            complain(&format!("failed to open a browser: {because}"));
            Ended::Failed
        }
    }
}

/// What came of it, where no browser was named that failed.
enum Browsed {
    Opened,
    /// As on a server, where the page is read elsewhere.
    NoBrowser,
}

/// `$BROWSER` as others take it, commands between colons in which `%s` is what to open, and else what the desktop has.
fn browse(page: &Path) -> Result<Browsed, String> {
    let page = std::path::absolute(page).map_err(|error| error.to_string())?;
    let Some(browsers) = std::env::var("BROWSER")
        .ok()
        .filter(|named| !named.is_empty())
    else {
        // What its programs say is of no use here: that none of them could is.
        return Ok(match open::that(&page) {
            Ok(()) => Browsed::Opened,
            Err(_) => Browsed::NoBrowser,
        });
    };
    let opened = browsers
        .split(':')
        .any(|browser| start(browser, &page).is_ok_and(|status| status));
    if opened {
        return Ok(Browsed::Opened);
    }
    Err("none of those in $BROWSER could".to_owned())
}

fn start(browser: &str, page: &Path) -> std::io::Result<bool> {
    let shown = page.to_string_lossy();
    let mut words = browser.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    if browser.contains("%s") {
        command.args(words.map(|word| word.replace("%s", &shown)));
    } else {
        command.args(words).arg(page);
    }
    let status = command.stdout(Stdio::null()).status()?;
    Ok(status.success())
}

impl Wanted {
    fn is_narrowed(&self) -> bool {
        self.bundle.is_some() || !self.filters.is_empty()
    }

    fn has(&self, trial: &TrialResult) -> bool {
        if let Some(bundle) = &self.bundle {
            return trial.bundles().contains(bundle);
        }
        if self.filters.is_empty() {
            return !matches!(trial.verdict, TrialVerdict::Held | TrialVerdict::Ignored);
        }
        self.filters
            .iter()
            .any(|filter| trial.name.contains(filter))
    }

    /// What was asked for and is not there, a sentence each.
    fn unmatched(&self, results: &Results) -> Vec<String> {
        let trials = || results.trials.iter();
        let run = printable(results.run.as_str());
        if let Some(bundle) = &self.bundle {
            let is_there = trials().any(|trial| trial.bundles().contains(bundle));
            let because = format!("run {run} has no result of the trial in {bundle}");
            return (!is_there).then_some(because).into_iter().collect();
        }
        let is_absent = |filter: &&String| !trials().any(|trial| trial.name.contains(*filter));
        let absent = self.filters.iter().filter(is_absent);
        absent
            .map(|filter| {
                let which = match nearest_trial(filter, results) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("`cargo drill show {run}` lists its trials"),
                };
                format!("no trial of run {run} matches `{filter}`: {which}")
            })
            .collect()
    }
}

/// The trial whose name, or whose place within its drill, is nearest to what was asked for.
fn nearest_trial<'r>(filter: &str, results: &'r Results) -> Option<&'r str> {
    let trials = || results.trials.iter();
    let within = |trial: &'r TrialResult| {
        let name = trial.name.strip_prefix(&trial.drill)?;
        name.strip_prefix("::")
    };
    let words = trials().flat_map(|trial| {
        let name = Some(trial.name.as_str());
        [name, Some(trial.drill.as_str()), within(trial)]
    });
    let near = nearest(filter, words.flatten())?;
    let mut named = trials().filter(|trial| trial.name.contains(near));
    named.next().map(|trial| trial.name.as_str())
}

/// The first word names a run, by its folder or its name, or one trial's folder. Where it does neither it is a filter, and
/// the run is the latest.
fn find(named: &[String], folders: &Folders) -> Result<Wanted, String> {
    let (first, rest) = match named.split_first() {
        Some((first, rest)) => (Some(first), rest),
        None => (None, named),
    };
    let wanted = |folder: PathBuf, filters: &[String], bundle| Wanted {
        folder,
        filters: filters.to_vec(),
        bundle,
    };
    let path = first.map(|first| PathBuf::from(first.trim_end_matches('/')));
    if let Some(path) = path.filter(|path| path.is_dir()) {
        if found::is_trial(&path)
            && let (Some(run), Some(name)) = (path.parent(), path.file_name())
        {
            // A path of one word has an empty parent, which is here.
            let run = if run.as_os_str().is_empty() {
                Path::new(".")
            } else {
                run
            };
            let name = name.to_string_lossy().into_owned();
            return Ok(wanted(run.to_owned(), rest, Some(name)));
        }
        if found::is_run(&path) {
            return Ok(wanted(path, rest, None));
        }
    }
    let runs = bundles::runs(folders)?;
    if let Some(run) = first
        .map(|first| runs.join(first))
        .filter(|run| found::is_run(run))
    {
        return Ok(wanted(run, rest, None));
    }
    let latest =
        found::latest(&runs).ok_or_else(|| format!("there is no run in {}", shown(&runs)))?;
    Ok(wanted(latest, named, None))
}

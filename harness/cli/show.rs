//! `cargo drill show` and `cargo drill open`: a run that was made, on the terminal and in a browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::args::Folders;
use super::exit::Ended;
use super::population::Places;
use super::{complain, say};
use crate::page::found::{self, Run};
use crate::page::{self, terminal};
use crate::report::{Style, TrialResult, TrialVerdict};

/// What is to be shown.
struct Wanted {
    /// The run's folder.
    folder: PathBuf,
    filters: Vec<String>,
    /// The folder of the one trial that was named.
    bundle: Option<String>,
}

/// The table, and the trials that are asked for: those that match a filter, or without one those that did not hold.
pub fn show(named: &[String], folders: &Folders) -> Ended {
    let found = find(named, folders).and_then(|wanted| {
        let run = Run::read(&wanted.folder)
            .map_err(|error| format!("failed to read {}: {error}", wanted.folder.display()))?;
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
    let shown_folder = super::shown(&wanted.folder);
    let mut ended = say(&terminal::render_glance(&run, style));
    let mut shown = 0;
    for trial in run.results.trials.iter().filter(|trial| wanted.has(trial)) {
        shown += 1;
        let text = terminal::render_trial(&run, trial, &wanted.folder, &shown_folder, style);
        ended = ended.max(say(&format!("\n{text}")));
    }
    if shown == 0 && wanted.is_narrowed() {
        complain("no trial of this run matches");
        return Ended::Failed;
    }
    let held = run.results.counts().held;
    if !wanted.is_narrowed() && held > 0 {
        let held = format!(
            "\n{held} held: `cargo drill show {shown_folder} NAME` shows what a trial's evidence is\n"
        );
        ended = ended.max(say(&held));
    }
    ended
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
    let said = say(&format!("{}\n", super::shown(&page)));
    match browse(&page) {
        Ok(()) => said,
        Err(because) => {
            complain(&format!("failed to open a browser: {because}"));
            Ended::Failed
        }
    }
}

/// `$BROWSER` as others take it, commands between colons in which `%s` is what to open, and else what the desktop has.
fn browse(page: &Path) -> Result<(), String> {
    let page = std::path::absolute(page).map_err(|error| error.to_string())?;
    let Some(browsers) = std::env::var("BROWSER")
        .ok()
        .filter(|named| !named.is_empty())
    else {
        // What its programs say is of no use here: that none of them could is.
        return open::that(&page).map_err(|_| {
            "there is none that this machine knows of; $BROWSER can name one".to_owned()
        });
    };
    let opened = browsers
        .split(':')
        .any(|browser| start(browser, &page).is_ok_and(|status| status));
    if opened {
        return Ok(());
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
    let places = Places::find(folders).map_err(|error| error.to_string())?;
    let runs = places.reports.join("runs");
    if let Some(run) = first
        .map(|first| runs.join(first))
        .filter(|run| found::is_run(run))
    {
        return Ok(wanted(run, rest, None));
    }
    let latest = found::latest(&runs)
        .ok_or_else(|| format!("there is no run in {}", super::shown(&runs)))?;
    Ok(wanted(latest, named, None))
}

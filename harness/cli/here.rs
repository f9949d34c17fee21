//! Paths and flags as a user would type them where they stand.

use std::path::{Path, PathBuf};

use super::args::Folders;
use super::population::Places;
use crate::page::quoted;
use crate::report::RunFacts;

/// A path that works from here: relative where it is below this folder, and else as it is.
pub fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here)
        .unwrap_or(path)
        .display()
        .to_string()
}

/// The flags by which a command finds these places from here, each with a space before it. None where it finds them by itself.
pub fn flags(places: &Places) -> String {
    let found = Places::find(&Folders::default()).ok();
    let mut flags = Vec::new();
    let mut name = |flag: &str, folder: &Path| {
        flags.push(format!(" {flag} {}", quoted(&shown(folder))));
    };
    if !found.is_some_and(|found| is_same(&found.drills, &places.drills)) {
        name("--drills", &places.drills);
    }
    if !is_same(&Places::reports_beside(&places.drills), &places.reports) {
        name("--reports", &places.reports);
    }
    flags.concat()
}

/// The places of a run that was made where its drills are: from its folder, `ROOT/reports/runs/RUN`.
pub fn places_of(run: &Path, facts: &RunFacts) -> Option<Places> {
    let run = run.canonicalize().ok()?;
    let reports = run.parent()?.parent()?;
    let root = reports.parent()?;
    let file = facts
        .drills
        .iter()
        .find(|drill| root.join(&drill.file).is_file())?;
    let (folder, _) = file.file.split_once('/')?;
    Some(Places {
        drills: root.join(folder),
        reports: reports.to_owned(),
    })
}

/// A folder that was not made yet has no other name.
fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| -> PathBuf { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
    real(a) == real(b)
}

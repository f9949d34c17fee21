//! From a folder of drill files to drills, and from one file to one drill.
//!
//! Under nextest every trial is a process of its own, so one drill must be loadable without reading all the others.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::document::Kind;
use super::mistake::Mistakes;
use super::model::{Crash, Drill};
use super::places::DrillPlaces;
use super::{schema, valid, yaml};

const DRILL: Kind = Kind {
    whole: "the drill",
    noun: "drill",
    begins: "drill: NAME",
};

/// A drill and the file it came from.
#[derive(Debug, Clone)]
pub struct DrillFile {
    pub drill: Drill,
    /// The file, absolute.
    pub path: PathBuf,
    /// The folder that holds `drills/`, absolute.
    pub root: PathBuf,
    /// The text of the file.
    pub source: String,
}

/// One trial of a drill.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTrial {
    /// `drill::crash-point[::variant]`.
    pub name: String,
    pub crash: Crash,
    /// The line of the file on which the crash stands.
    pub line: usize,
}

/// What a folder of drill files holds.
#[derive(Debug, Default)]
pub struct Checked {
    /// The drills without a mistake, by name.
    pub drills: Vec<DrillFile>,
    /// One for each file with mistakes, in the order of the paths.
    pub mistakes: Vec<Mistakes>,
}

impl DrillFile {
    /// Where in the file stands what an answer may speak of.
    pub fn places(&self) -> DrillPlaces {
        let file = self.path.strip_prefix(&self.root).unwrap_or(&self.path);
        let mut places = DrillPlaces::of_file(&file.display().to_string());
        if let Ok(Some(tree)) = yaml::parse(&self.source) {
            places.note(&self.drill, &tree, |start| self.line_at(start));
        }
        places
    }

    /// One trial for each crash, in the order of the file. The names differ: `load` has seen to it.
    pub fn trials(&self) -> Vec<PlannedTrial> {
        let tree = yaml::parse(&self.source).ok().flatten();
        let crashes = super::path::Path::of(["crash"]);
        let planned = self.drill.crash.iter().enumerate().map(|(index, crash)| {
            let line = tree
                .as_ref()
                .map_or(1, |tree| self.line_of(&crashes.index(index), tree));
            self.planned(crash.clone(), line)
        });
        planned.collect()
    }

    /// The trial of this drill at this crash, which stands on this line.
    pub fn planned(&self, crash: Crash, line: usize) -> PlannedTrial {
        PlannedTrial {
            name: trial_name(&self.drill.drill, &crash),
            crash,
            line,
        }
    }

    fn line_of(&self, path: &super::path::Path, tree: &yaml::Node) -> usize {
        self.line_at(path.place(tree).start)
    }

    /// The line of this byte, from 1.
    fn line_at(&self, start: usize) -> usize {
        let above = self.source.get(..start);
        above.unwrap_or_default().matches('\n').count() + 1
    }
}

/// `drill::crash-point[::variant]`.
pub(super) fn trial_name(drill: &str, crash: &Crash) -> String {
    let point = crash.listed_at();
    match crash.variant() {
        Some(variant) => format!("{drill}::{point}::{variant}"),
        None => format!("{drill}::{point}"),
    }
}

/// Loads one drill file. Its root is the folder that holds the nearest `drills` folder above it, or, where there is
/// none, the folder above the file's own.
pub fn load(path: &Path) -> Result<DrillFile, Mistakes> {
    let absolute = absolute(path)?;
    let folder = absolute.parent().unwrap_or(&absolute);
    let drills = folder
        .ancestors()
        .find(|folder| folder.file_name().is_some_and(|name| name == "drills"))
        .unwrap_or(folder);
    let root = drills.parent().unwrap_or(drills).to_owned();
    read(path, absolute, root)
}

/// The drill files of a folder and the folders below it, sorted. Hidden ones are passed over.
pub fn find(drills: &Path) -> Result<Vec<PathBuf>, Mistakes> {
    let mut files = Vec::new();
    search(drills, &mut files).map_err(|(folder, error)| {
        Mistakes::unread(&folder, format!("this folder cannot be read: {error}"))
    })?;
    files.sort();
    Ok(files)
}

/// Loads the drill of this name. `None`: no file of the folder has it as its stem.
pub fn find_named(drills: &Path, name: &str) -> Result<Option<DrillFile>, Mistakes> {
    let mut named = find(drills)?
        .into_iter()
        .filter(|path| stem(path) == name)
        .collect::<Vec<_>>();
    match named.as_slice() {
        [] => Ok(None),
        [first, second, ..] => Err(two_of_a_name(first, second)),
        [_] => named
            .pop()
            .map(|path| load_below(drills, &path))
            .transpose(),
    }
}

/// Loads everything. A mistake in one file does not hide those in another.
pub fn check(drills: &Path) -> Checked {
    let mut checked = Checked::default();
    let files = match find(drills) {
        Ok(files) => files,
        Err(mistakes) => {
            checked.mistakes.push(mistakes);
            return checked;
        }
    };
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in files {
        if let Some(first) = names.get(&stem(&path)) {
            checked.mistakes.push(two_of_a_name(first, &path));
            continue;
        }
        names.insert(stem(&path), path.clone());
        match load_below(drills, &path) {
            Ok(drill) => checked.drills.push(drill),
            Err(mistakes) => checked.mistakes.push(mistakes),
        }
    }
    checked
        .drills
        .sort_by(|a, b| a.drill.drill.cmp(&b.drill.drill));
    checked
}

fn load_below(drills: &Path, path: &Path) -> Result<DrillFile, Mistakes> {
    let folder = absolute(drills)?;
    let root = folder.parent().unwrap_or(&folder).to_owned();
    read(path, absolute(path)?, root)
}

/// Two drills of one name would have trials of one name.
fn two_of_a_name(first: &Path, second: &Path) -> Mistakes {
    Mistakes::unread(
        second,
        format!(
            "two drills are named `{}`: {} and {}",
            stem(second),
            first.display(),
            second.display()
        ),
    )
}

fn read(path: &Path, absolute: PathBuf, root: PathBuf) -> Result<DrillFile, Mistakes> {
    let source = DRILL.text(path)?;
    let drill = DRILL.parse(path, &source, &schema::SCHEMA, |drill, tree, found| {
        valid::check(drill, tree, &stem(path), found);
    })?;
    Ok(DrillFile {
        drill,
        path: absolute,
        root,
        source,
    })
}

fn search(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        // Not through symbolic links to folders: they can lead in a circle.
        if entry.file_type().map_err(failed)?.is_dir() {
            search(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            files.push(path);
        }
    }
    Ok(())
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn absolute(path: &Path) -> Result<PathBuf, Mistakes> {
    fs::canonicalize(path)
        .map_err(|error| Mistakes::unread(path, format!("this path cannot be found: {error}")))
}

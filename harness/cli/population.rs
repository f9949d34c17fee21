//! Which trials there are, which are wanted, and which cannot run here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::args::{Folders, RunArgs};
use super::every::Finder;
use crate::report::TrialName;
use crate::spec::{self, DrillFile, DrillPlaces, Mistakes, Templates};
use crate::trial::Trial;

/// Where drills are read from and reports are written to.
#[derive(Debug, Clone)]
pub struct Places {
    pub drills: PathBuf,
    pub reports: PathBuf,
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("no folder `drills` here or above; make one, or name it with --drills DIR")]
    NoDrills,
    #[error("failed to find {}: {source}", path.display())]
    Missing {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Places {
    pub fn find(folders: &Folders) -> Result<Self, PlaceError> {
        let absolute = |path: &Path| {
            path.canonicalize().map_err(|source| PlaceError::Missing {
                path: path.to_owned(),
                source,
            })
        };
        let drills = if let Some(named) = &folders.drills {
            absolute(named)?
        } else {
            let here = absolute(Path::new("."))?;
            here.ancestors()
                .map(|folder| folder.join("drills"))
                .find(|drills| drills.is_dir())
                .ok_or(PlaceError::NoDrills)?
        };
        let reports = match &folders.reports {
            Some(named) => std::path::absolute(named).map_err(|source| PlaceError::Missing {
                path: named.clone(),
                source,
            })?,
            None => Self::reports_beside(&drills),
        };
        Ok(Self { drills, reports })
    }

    /// Where reports are written to, where no folder is named.
    pub fn reports_beside(drills: &Path) -> PathBuf {
        drills.parent().unwrap_or(drills).join("reports")
    }
}

/// One trial of the population.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub name: TrialName,
    pub trial: Trial,
    /// The folder that holds `drills/`.
    pub root: PathBuf,
    /// The folder of the drill file.
    pub folder: PathBuf,
    /// The line of the drill file on which the crash stands.
    pub line: usize,
    /// Where in the drill file stands what an answer may speak of.
    pub places: DrillPlaces,
    /// Why it cannot run here.
    pub ignored: Option<String>,
}

/// Every trial of every drill, and the files that could not be read as drills.
#[derive(Debug)]
pub struct Population {
    /// The drills whose files have no mistake, by name.
    pub files: Vec<DrillFile>,
    pub candidates: Vec<Candidate>,
    pub mistakes: Vec<Mistakes>,
    /// Where two clean runs of one call had other boundaries, a sentence each.
    pub courses: Vec<String>,
}

impl Population {
    /// All drills of the folder.
    pub fn all(places: &Places, fixture: Option<&Path>) -> Self {
        let checked = spec::check(&places.drills);
        // A rehearsal needs what the server needs: none is made where a file is in error.
        if !checked.mistakes.is_empty() {
            return Self {
                files: checked.drills,
                candidates: Vec::new(),
                mistakes: checked.mistakes,
                courses: Vec::new(),
            };
        }
        let mut courses = Vec::new();
        let candidates = checked
            .drills
            .iter()
            .flat_map(|file| candidates(file, places, fixture, &mut courses))
            .collect();
        Self {
            files: checked.drills,
            candidates,
            mistakes: checked.mistakes,
            courses,
        }
    }

    /// The one drill that holds the trial of this name; a mistake in another file does not matter to it.
    pub fn of_trial(places: &Places, trial: &str, fixture: Option<&Path>) -> Self {
        let drill = trial.split("::").next().unwrap_or_default();
        let mut courses = Vec::new();
        let (files, mistakes): (Vec<DrillFile>, _) = match spec::find_named(&places.drills, drill) {
            Ok(file) => (file.into_iter().collect(), vec![]),
            Err(mistakes) => (vec![], vec![mistakes]),
        };
        let candidates = files
            .iter()
            .flat_map(|file| candidates(file, places, fixture, &mut courses))
            .collect();
        Self {
            files,
            candidates,
            mistakes,
            courses,
        }
    }
}

fn candidates(
    file: &DrillFile,
    places: &Places,
    fixture: Option<&Path>,
    courses: &mut Vec<String>,
) -> Vec<Candidate> {
    let drill = Arc::new(file.drill.clone());
    let folder = file.path.parent().unwrap_or(&file.root).to_owned();
    let ignored = missing_requirement(file, &folder, fixture);
    let lines = file.places();
    let trials = if ignored.is_some() {
        file.trials()
    } else {
        let reports = &places.reports;
        Finder { reports, fixture }.trials(file, courses)
    };
    trials
        .into_iter()
        .map(|planned| Candidate {
            name: TrialName {
                drill: file.drill.drill.clone(),
                point: planned.crash.listed_at(),
                variant: planned.crash.variant(),
            },
            trial: Trial {
                name: planned.name,
                drill: Arc::clone(&drill),
                crash: planned.crash,
            },
            root: file.root.clone(),
            folder: folder.clone(),
            line: planned.line,
            places: lines.clone(),
            ignored: ignored.clone(),
        })
        .collect()
}

/// The first file of `requires` that is not there, with its hint.
fn missing_requirement(file: &DrillFile, folder: &Path, fixture: Option<&Path>) -> Option<String> {
    let templates = Templates::default();
    let variables = json!({
        "root": file.root.display().to_string(),
        "fixture": fixture.map(|path| path.display().to_string()).unwrap_or_default(),
    });
    file.drill.requires.iter().find_map(|requirement| {
        let path = match templates.text(&requirement.file, &variables) {
            Ok(path) => path,
            Err(error) => return Some(error.to_string()),
        };
        let shown = Path::new(&path)
            .strip_prefix(&file.root)
            .unwrap_or(Path::new(&path));
        (!folder.join(&path).exists())
            .then(|| format!("{} is missing: {}", shown.display(), requirement.hint))
    })
}

/// Whether a trial is asked for, as libtest decides it.
pub fn is_wanted(name: &str, args: &RunArgs) -> bool {
    let matches = |filter: &String| {
        if args.exact {
            name == filter
        } else {
            name.contains(filter)
        }
    };
    (args.filters.is_empty() || args.filters.iter().any(matches)) && !args.skip.iter().any(matches)
}

/// Where `drill-fixture` is: beside this program, above a test's folder `deps`, or on the PATH.
pub fn find_fixture() -> Option<PathBuf> {
    const NAME: &str = "drill-fixture";
    let beside = std::env::current_exe().ok().and_then(|exe| {
        let folder = exe.parent()?.to_owned();
        let above = folder.parent().map(Path::to_owned);
        [Some(folder), above]
            .into_iter()
            .flatten()
            .map(|f| f.join(NAME))
            .find(|f| f.is_file())
    });
    beside.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join(NAME))
            .find(|file| file.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(filters: &[&str], skip: &[&str], exact: bool) -> RunArgs {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        RunArgs {
            filters: owned(filters),
            skip: owned(skip),
            exact,
            ..RunArgs::default()
        }
    }

    #[test]
    fn filters_choose_as_they_do_in_libtest() {
        assert!(is_wanted("deploy::idle", &args(&[], &[], false)));
        assert!(is_wanted("deploy::idle", &args(&["plo"], &[], false)));
        assert!(!is_wanted("deploy::idle", &args(&["deploy"], &[], true)));
        assert!(is_wanted(
            "deploy::idle",
            &args(&["x", "deploy::idle"], &[], true)
        ));
        assert!(!is_wanted("deploy::idle", &args(&[], &["idle"], false)));
    }
}

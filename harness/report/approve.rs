//! Approving pending snapshots, and finding approved ones that no trial stands behind any more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::outcome::file_stem;
use super::snapshot::{SnapshotError, load, pending_path};

/// A snapshot that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    pub trial: String,
    /// `….snap.new`.
    pub path: PathBuf,
    /// Another one is approved, and would be replaced.
    pub replaces: bool,
}

/// A snapshot that was approved just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub trial: String,
    /// `….snap`.
    pub path: PathBuf,
    pub replaced: bool,
}

/// The snapshots in the folder `reports` that wait for approval, by trial.
///
/// # Errors
/// When the folder cannot be read, or a pending file is not a snapshot: approving the others around it would hide that.
pub fn pending(reports: &Path) -> Result<Vec<Pending>, SnapshotError> {
    let mut found = Vec::new();
    for path in snapshots(reports, ".snap.new")? {
        let (_, trial) = load(&path)?;
        let approved = path.with_extension("");
        found.push(Pending {
            trial: trial.unwrap_or_else(|| trial_of(&approved)),
            replaces: approved.exists(),
            path,
        });
    }
    found.sort();
    Ok(found)
}

/// Approves those pending snapshots whose trial's name `wanted` picks.
pub fn accept(
    reports: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Accepted>, SnapshotError> {
    let mut accepted = Vec::new();
    for pending in pending(reports)? {
        if !wanted(&pending.trial) {
            continue;
        }
        let path = pending.path.with_extension("");
        // What is pending was written without anything of the moment in its header, so it is approved as it stands.
        fs::rename(&pending.path, &path).map_err(|source| SnapshotError::Write {
            path: path.clone(),
            source,
        })?;
        accepted.push(Accepted {
            trial: pending.trial,
            path,
            replaced: pending.replaces,
        });
    }
    Ok(accepted)
}

/// The snapshots, approved or pending, of trials that are not among `trials`, which are all that the drills make.
pub fn stale<'a>(
    reports: &Path,
    trials: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<PathBuf>, SnapshotError> {
    let mut current = BTreeSet::new();
    for trial in trials {
        let approved = reports.join(format!("{}.snap", file_stem(trial)));
        current.insert(pending_path(&approved));
        current.insert(approved);
    }
    let mut found = snapshots(reports, ".snap")?;
    found.extend(snapshots(reports, ".snap.new")?);
    found.retain(|path| !current.contains(path));
    found.sort();
    Ok(found)
}

/// The files directly in the folder whose names end so. A folder that does not exist has none.
fn snapshots(reports: &Path, ending: &str) -> Result<Vec<PathBuf>, SnapshotError> {
    let unreadable = |source| SnapshotError::Read {
        path: reports.to_path_buf(),
        source,
    };
    let entries = match fs::read_dir(reports) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(ending) && path.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The trial's name as far as the file's name tells it.
fn trial_of(approved: &Path) -> String {
    let stem = approved.file_stem().unwrap_or_default();
    stem.to_string_lossy().replace("__", "::")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Writing, compare};

    fn reports_with(trials: &[&str]) -> tempfile::TempDir {
        let reports = tempfile::tempdir().unwrap();
        for trial in trials {
            compare(reports.path(), trial, "verdict: held", Writing::Pending).unwrap();
        }
        reports
    }

    #[test]
    fn only_what_is_wanted_is_approved() {
        let reports = reports_with(&["deploy::idle", "deploy::sent", "notes::idle"]);
        let accepted = accept(reports.path(), |trial| trial.contains("deploy")).unwrap();
        let names: Vec<&str> = accepted.iter().map(|a| a.trial.as_str()).collect();
        assert_eq!(names, ["deploy::idle", "deploy::sent"]);
        assert!(accepted.iter().all(|a| !a.replaced));
        assert_eq!(pending(reports.path()).unwrap()[0].trial, "notes::idle");
    }

    #[test]
    fn a_replaced_snapshot_is_said_to_be_replaced() {
        let reports = reports_with(&["deploy::idle"]);
        accept(reports.path(), |_| true).unwrap();
        compare(
            reports.path(),
            "deploy::idle",
            "verdict: broken",
            Writing::Pending,
        )
        .unwrap();
        assert!(pending(reports.path()).unwrap()[0].replaces);
        assert!(accept(reports.path(), |_| true).unwrap()[0].replaced);
        assert!(pending(reports.path()).unwrap().is_empty());
    }

    #[test]
    fn a_trial_keeps_its_name_where_the_file_cannot_carry_it() {
        let reports = reports_with(&["deploy::sent::a: \"b\" / c"]);
        let found = pending(reports.path()).unwrap();
        assert_eq!(found[0].trial, "deploy::sent::a: \"b\" / c");
    }

    #[test]
    fn a_pending_file_that_is_no_snapshot_stops_the_approval() {
        let reports = reports_with(&["deploy::idle"]);
        fs::write(reports.path().join("x.snap.new"), "---\na: [\n---\n").unwrap();
        assert!(matches!(
            accept(reports.path(), |_| true),
            Err(SnapshotError::NotASnapshot { .. })
        ));
        assert!(!reports.path().join("deploy__idle.snap").exists());
    }

    #[test]
    fn snapshots_of_trials_that_are_gone_are_found() {
        let reports = reports_with(&["deploy::idle", "deploy::sent"]);
        accept(reports.path(), |_| true).unwrap();
        let found = stale(reports.path(), ["deploy::sent"]).unwrap();
        assert_eq!(found, [reports.path().join("deploy__idle.snap")]);
    }

    #[test]
    fn without_a_folder_nothing_is_pending() {
        let nowhere = Path::new("/nonexistent/reports");
        assert!(pending(nowhere).unwrap().is_empty());
        assert!(stale(nowhere, []).unwrap().is_empty());
    }
}

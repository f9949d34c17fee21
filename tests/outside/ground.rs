//! The ground on which the command is run: drills, reports and a folder for temporary files, all of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub struct Ground {
    folder: TempDir,
}

impl Ground {
    /// Empty, but for an empty folder `drills`.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["drills", "tmp"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes `drills/NAME.yaml`.
    pub fn drill(&self, name: &str, text: &str) {
        fs::write(self.path().join(format!("drills/{name}.yaml")), text).unwrap();
    }

    /// `cargo-drill` in this folder, with the variables that change its behaviour taken away.
    pub fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-drill"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env("TMPDIR", self.path().join("tmp"))
            .env("LANG", "C.UTF-8");
        for name in [
            "CI",
            "CARGO_DRILL_CELL",
            "GITHUB_ACTIONS",
            "GITHUB_STEP_SUMMARY",
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
            "COLUMNS",
            "LC_ALL",
            "LC_CTYPE",
            "NEXTEST_RUN_ID",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// The folders of all runs so far.
    pub fn runs(&self) -> Vec<PathBuf> {
        folders_in(&self.path().join("reports/runs"))
    }

    /// The folder of the only run.
    pub fn run(&self) -> PathBuf {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }
}

/// The folders in a folder, in order.
pub fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

//! `cargo drill controls`: what runs are evidence for, from the files of their folders.

use std::fs;
use std::path::{Path, PathBuf};

use super::args::{ControlsFormat, Folders};
use super::bundles;
use super::exit::Ended;
use super::{complain, say, shown};
use crate::bundle::{State, verify};
use crate::export::{
    EndedRun, ExportError, Matrix, render_csv, render_html, render_oscal, render_table,
};
use crate::report::{MANIFEST, Manifest, Results, Style};

/// A run as its folder has it.
struct Kept {
    results: Results,
    manifest: Manifest,
    /// As the user would type it, with a `/` at its end.
    folder: String,
}

/// Prints the matrix of these runs, or of the latest. Like a run, it fails where a control is neither held nor broken
/// exactly as known, so that a gate can stand on it.
pub fn show(named: &[PathBuf], format: ControlsFormat, folders: &Folders) -> Ended {
    let kept = match read_all(named, folders) {
        Ok(kept) => kept,
        Err(because) => {
            complain(&because);
            return Ended::Failed;
        }
    };
    let runs: Vec<EndedRun<'_>> = kept
        .iter()
        .map(|kept| EndedRun {
            results: &kept.results,
            facts: &kept.manifest.facts,
            new_fails: false,
            folder: &kept.folder,
        })
        .collect();
    let matrix = Matrix::of(&runs);
    let text = match render(&runs, &matrix, format) {
        Ok(text) => text,
        Err(error) => {
            complain(&error.to_string());
            return Ended::Failed;
        }
    };
    let said = say(&text);
    if matrix.controls.is_empty() {
        complain("no drill of the run names a control: say `controls: [NAME]` in a drill");
        return Ended::Failed;
    }
    said.max(if matrix.objects() {
        Ended::Objected
    } else {
        Ended::Held
    })
}

fn render(
    runs: &[EndedRun<'_>],
    matrix: &Matrix,
    format: ControlsFormat,
) -> Result<String, ExportError> {
    match format {
        // Nothing to draw: what is said of it goes to stderr.
        ControlsFormat::Table if matrix.controls.is_empty() => Ok(String::new()),
        ControlsFormat::Table => Ok(render_table(matrix, &Style::detect())),
        ControlsFormat::Csv => render_csv(matrix),
        ControlsFormat::Oscal => render_oscal(runs),
        ControlsFormat::Html => render_html(matrix),
    }
}

fn read_all(named: &[PathBuf], folders: &Folders) -> Result<Vec<Kept>, String> {
    let found = bundles::find(named, folders)?;
    let mut kept: Vec<Kept> = Vec::new();
    for folder in found {
        let run = read(&folder)?;
        // A run that is named twice is one run.
        if !kept
            .iter()
            .any(|other| other.results.run == run.results.run)
        {
            kept.push(run);
        }
    }
    Ok(kept)
}

/// Nothing is evidence that is not as it was written, or of a run that did not come to its end.
fn read(folder: &Path) -> Result<Kept, String> {
    let verification = verify(folder, &[])
        .map_err(|error| format!("failed to verify {}: {error}", shown(folder)))?;
    if let Some(finding) = verification.findings.first() {
        let folder = shown(folder);
        return Err(format!("{folder} is not as it was written: {finding}"));
    }
    if let State::Incomplete(because) = &verification.state {
        return Err(format!("{} is incomplete: {because}", shown(folder)));
    }
    Ok(Kept {
        results: json(&folder.join("results.json"))?,
        manifest: json(&folder.join(MANIFEST))?,
        folder: format!("{}/", shown(folder).trim_end_matches('/')),
    })
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("failed to read {}: {error}", path.display());
    let text = fs::read(path).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}

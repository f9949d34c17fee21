//! The results of a run in the formats that other tools read, all of them from the same results.
//!
//! ```text
//!   Results ──┐              ┌─> sarif        results.sarif, for code scanning
//!             ├─> EndedRun ──┼─> oscal        oscal.json, for whoever keeps the controls
//!   RunFacts ─┘              ├─> summary      summary.md, for the page of a CI job
//!                            ├─> github       annotations beside the lines of the drill's file
//!                            └─> controls     control × drill × question: as CSV, as a page, on a terminal
//! ```
//!
//! Each is a pure function of what the judge said and what is known of the run, and decides nothing. What a server or a
//! drill wrote reaches no format unescaped: see [`inert`] for Markdown, and each file for its own.
#![forbid(unsafe_code)]

mod controls;
mod github;
mod link;
mod markdown;
mod objection;
mod oscal;
mod questions;
mod sarif;
mod summary;
#[cfg(test)]
mod tests;

use crate::report::{DrillFacts, Population, Results, RunFacts, TrialVerdict};

pub use controls::{
    Cell, Control, Gap, Matrix, NotRun, Proof, Row, State, render_csv, render_html, render_table,
};
pub use github::render_annotations;
pub use link::{escape_html, uri};
pub use markdown::inert;
pub use objection::{Kind, Objection, objections};
pub use oscal::render_oscal;
pub use questions::{asks, broken_looks_like};
pub use sarif::render_sarif;
pub use summary::render_summary;

/// A run that has ended, as its exports see it.
#[derive(Debug, Clone, Copy)]
pub struct EndedRun<'a> {
    pub results: &'a Results,
    pub facts: &'a RunFacts,
    /// Whether a snapshot that nobody has approved fails the run, as it does in CI.
    pub new_fails: bool,
    /// The run's folder, from where the export is read, with a `/` at its end. Empty for a file in the folder itself.
    pub folder: &'a str,
}

/// An export could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("failed to write JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("failed to write CSV: {0}")]
    Csv(#[from] csv::Error),
    #[error("failed to write HTML: {0}")]
    Html(#[from] minijinja::Error),
}

impl<'a> EndedRun<'a> {
    /// For files in the run's own folder.
    pub fn new(results: &'a Results, facts: &'a RunFacts, new_fails: bool) -> Self {
        Self {
            results,
            facts,
            new_fails,
            folder: "",
        }
    }

    pub(crate) fn drill(&self, name: &str) -> Option<&'a DrillFacts> {
        self.facts.drills.iter().find(|drill| drill.drill == name)
    }

    /// The drill's file, relative to the top of the repository.
    pub(crate) fn file_of(&self, drill: &DrillFacts) -> String {
        let above = self.facts.commit.as_ref();
        let above = above.and_then(|commit| commit.folder.as_deref());
        format!("{}{}", above.unwrap_or_default(), drill.file)
    }

    /// Where a trial stands: the file and, where it is known, the line of its crash.
    fn place_of(&self, drill: &str, trial: &str) -> Option<(String, usize)> {
        let file = self.file_of(self.drill(drill)?);
        let line = self.population(drill).find(|found| {
            let name = found.trial.as_deref().map(crate::journal::printable);
            name.as_deref() == Some(trial)
        });
        Some((file, line.and_then(|found| found.line).unwrap_or(1)))
    }

    fn population(&self, drill: &str) -> impl Iterator<Item = &'a Population> {
        let all = self.facts.population.iter();
        all.filter(move |found| found.drill == drill)
    }

    /// Whether any trial was run. Where all were ignored nothing was, and nothing is fine.
    fn has_run(&self) -> bool {
        let mut trials = self.results.trials.iter();
        trials.any(|trial| trial.verdict != TrialVerdict::Ignored)
    }

    /// Why a question is known to be broken, as the drill has it.
    fn known_because(&self, drill: &str, question: crate::spec::Question) -> Option<&'a str> {
        let known = &self.drill(drill)?.known;
        known.get(&question).map(String::as_str)
    }
}

/// The exports that every run leaves in its folder, by the names of their files.
pub fn files(run: &EndedRun<'_>) -> Result<Vec<(&'static str, String)>, ExportError> {
    let matrix = Matrix::of(&[*run]);
    Ok(vec![
        ("results.sarif", render_sarif(run)?),
        ("oscal.json", render_oscal(&[*run])?),
        ("summary.md", render_summary(run)),
        ("controls.csv", render_csv(&matrix)?),
    ])
}

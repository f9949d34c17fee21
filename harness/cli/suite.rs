//! One candidate, run to its result: bundle, judgement, snapshot, a line in `results.json`.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::population::{Candidate, find_fixture, not_built};
use crate::cell::Wanted;
use crate::journal::{CellKind, Secrets};
use crate::report::{
    Comparison, RunWriter, SnapshotState, TrialResult, UnmatchedRoute, Writing, compare, in_ci,
    stable_text,
};
use crate::trial::{self, Spoken, Surroundings};

/// Chooses the kind of cell: `namespaces`, `subreaper`, or unset for the best that is allowed.
pub const CELL_VARIABLE: &str = "CARGO_DRILL_CELL";

/// What all trials of a run share.
pub struct Suite {
    pub writer: RunWriter,
    pub reports: PathBuf,
    pub cell: Wanted,
    pub fixture: Option<PathBuf>,
    pub interrupted: watch::Receiver<bool>,
    spoken: Spoken,
    notes: Mutex<Notes>,
}

/// What the end of a run shows besides the results.
#[derive(Default)]
pub struct Notes {
    pub unmatched: Vec<UnmatchedRoute>,
    /// For each trial whose snapshot differs, the diff.
    pub diffs: Vec<(String, String)>,
    pub cell: Option<CellKind>,
}

impl Suite {
    pub fn new(
        writer: RunWriter,
        reports: PathBuf,
        cell: Wanted,
        interrupted: watch::Receiver<bool>,
    ) -> Self {
        let fixture = find_fixture();
        Self {
            writer,
            reports,
            cell,
            fixture,
            interrupted,
            spoken: Spoken::default(),
            notes: Mutex::default(),
        }
    }

    /// Runs a trial; whatever goes wrong is in its result, and whether that could be written comes beside it: on a full
    /// disk it can still be shown.
    pub fn run(&self, candidate: &Candidate) -> (TrialResult, io::Result<()>) {
        let result = match &candidate.ignored {
            Some(reason) => TrialResult::ignored(&candidate.name, reason),
            None => self.play(candidate),
        };
        let recorded = self.writer.record(result.clone());
        (result, recorded)
    }

    fn play(&self, candidate: &Candidate) -> TrialResult {
        let begun = Instant::now();
        let secrets = Secrets::default();
        let failed = |because: &str| {
            TrialResult::failed(&candidate.name, because, begun.elapsed(), &secrets)
        };
        if let Some(because) = not_built(&candidate.trial.crash) {
            return failed(&because);
        }
        let bundle = match self.writer.trial_folder(&candidate.name) {
            Ok(bundle) => bundle,
            Err(error) => return failed(&format!("failed to make the bundle's folder: {error}")),
        };
        let folder = self.writer.folder().join(&bundle);
        let surroundings = Surroundings {
            cell: self.cell,
            root: candidate.root.clone(),
            drill_folder: candidate.folder.clone(),
            fixture: self.fixture.clone(),
            interrupted: self.interrupted.clone(),
            spoken: self.spoken.clone(),
        };
        // A panic of ours must not take the other trials with it; unwinding has ended the cell.
        let played = catch_unwind(AssertUnwindSafe(|| {
            trial::run(&candidate.trial, &surroundings, &folder, &secrets)
        }));
        let played = match played {
            Ok(Ok(played)) => played,
            Ok(Err(error)) => return failed(&error.to_string()).with(None, Some(bundle)),
            Err(_) => {
                let because = "the harness panicked; what it said is on stderr";
                return failed(because).with(None, Some(bundle));
            }
        };
        {
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            let trial = &candidate.trial.name;
            notes
                .unmatched
                .extend(played.unmatched.iter().map(|route| UnmatchedRoute {
                    trial: trial.clone(),
                    route: route.clone(),
                }));
            notes.cell = notes.cell.or(played.cell);
        }
        let result =
            TrialResult::judged(&candidate.name, played.judgement, begun.elapsed(), &secrets);
        let snapshot = match self.compare(candidate, &result) {
            Ok(snapshot) => snapshot,
            Err(error) => return failed(&error).with(None, Some(bundle)),
        };
        result.with(snapshot, Some(bundle))
    }

    /// Compares the trial's stable text with the approved one. An interrupted run compares nothing.
    fn compare(
        &self,
        candidate: &Candidate,
        result: &TrialResult,
    ) -> Result<Option<SnapshotState>, String> {
        let Some(text) = stable_text(result).filter(|_| !*self.interrupted.borrow()) else {
            return Ok(None);
        };
        let writing = if in_ci() {
            Writing::Nothing
        } else {
            Writing::Pending
        };
        let name = &candidate.trial.name;
        let comparison: Comparison =
            compare(&self.reports, name, &text, writing).map_err(|error| error.to_string())?;
        if let Some(diff) = comparison.diff() {
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            notes.diffs.push((name.clone(), diff));
        }
        Ok(Some(comparison.state))
    }

    /// What was noted, taken out.
    pub fn notes(&self) -> Notes {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The kind of cell that the environment asks for.
pub fn wanted_cell() -> Result<Wanted, String> {
    match std::env::var(CELL_VARIABLE).as_deref() {
        Err(_) | Ok("") => Ok(Wanted::Best),
        Ok("namespaces") => Ok(Wanted::Namespaces),
        Ok("subreaper") => Ok(Wanted::Subreaper),
        Ok(other) => Err(format!(
            "{CELL_VARIABLE} is `{}`; it can be `namespaces` or `subreaper`",
            crate::journal::printable(other)
        )),
    }
}

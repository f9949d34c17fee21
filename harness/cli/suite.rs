//! One candidate, run to its result: bundle, judgement, snapshot, a line in `results.json`.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::population::{Candidate, find_fixture};
use crate::attest::PrivateKey;
use crate::bundle;
use crate::cell::Wanted;
use crate::journal::{CellKind, Secrets};
use crate::judge::{Judgement, Repeat, Together, together};
use crate::report::{
    Results, RunFacts, RunWriter, SnapshotDiff, SnapshotState, Texts, TrialResult, TrialVerdict,
    UnmatchedRoute, Writing, compare_repeats, concealed, in_ci, seal, search, stable_text,
};
use crate::spec::Repeats;
use crate::trial::{self, Played, Spoken, Surroundings};

/// Chooses the kind of cell: `namespaces`, `subreaper`, or unset for the best that is allowed.
pub const CELL_VARIABLE: &str = "CARGO_DRILL_CELL";

/// What all trials of a run share.
pub struct Suite {
    pub writer: RunWriter,
    pub reports: PathBuf,
    pub cell: Wanted,
    pub fixture: Option<PathBuf>,
    pub interrupted: watch::Receiver<bool>,
    /// How often each trial is carried out; by default as its drill says.
    pub repeat: Option<Repeats>,
    spoken: Spoken,
    /// Everything that the trials so far have minted, for the last search before the run is sealed.
    minted: Secrets,
    notes: Mutex<Notes>,
}

/// What the end of a run shows besides the results.
#[derive(Default)]
pub struct Notes {
    pub unmatched: Vec<UnmatchedRoute>,
    /// What the cells weaken, each sentence once.
    pub weakens: Vec<String>,
    pub diffs: Vec<SnapshotDiff>,
    pub cell: Option<CellKind>,
}

impl Suite {
    pub fn new(
        writer: RunWriter,
        reports: PathBuf,
        cell: Wanted,
        interrupted: watch::Receiver<bool>,
        repeat: Option<Repeats>,
    ) -> Self {
        let fixture = find_fixture();
        Self {
            writer,
            reports,
            cell,
            fixture,
            interrupted,
            repeat,
            spoken: Spoken::default(),
            minted: Secrets::default(),
            notes: Mutex::default(),
        }
    }

    /// Runs a trial; whatever goes wrong is in its result, and whether that could be written comes beside it: on a full
    /// disk it can still be shown. `begins` is told of each repeat, and of how many there are to be.
    pub fn run(
        &self,
        candidate: &Candidate,
        begins: impl Fn(u32, u32),
    ) -> (TrialResult, io::Result<()>) {
        let result = match &candidate.ignored {
            Some(reason) => TrialResult::ignored(&candidate.name, reason),
            None => self.play(candidate, begins),
        };
        let recorded = self.writer.record(result.clone());
        (result, recorded)
    }

    fn play(&self, candidate: &Candidate, begins: impl Fn(u32, u32)) -> TrialResult {
        let begun = Instant::now();
        // No secret is in a judgement any more: see `play_once`.
        let judged = |judgement| {
            let none = Secrets::default();
            TrialResult::judged(&candidate.name, judgement, begun.elapsed(), &none)
        };
        let failed = |because| judged(Judgement::failed(because));
        let bundle = match self.writer.trial_folder(&candidate.name) {
            Ok(bundle) => bundle,
            Err(error) => return failed(no_folder(&error)),
        };
        let planned = self.repeat.or(candidate.trial.drill.repeat);
        let planned = planned.unwrap_or_default().get();
        let (repeats, stopped) = self.play_repeats(candidate, &bundle, planned, begins);
        let mut texts = Texts::default();
        for (number, repeat) in (1..).zip(&repeats) {
            let form = candidate.trial.drill.snapshot;
            texts.add(number, stable_text(&judged(repeat.judgement.clone()), form));
        }
        let mut result = match repeats.as_slice() {
            [alone] if planned == 1 => judged(alone.judgement.clone()),
            repeats => {
                let Together { judgement, repeats } = together(repeats);
                judged(judgement).repeated(repeats, planned)
            }
        };
        if let Some(because) = stopped {
            result.verdict = TrialVerdict::Error;
            result.error = Some(because);
        }
        match self.compare(candidate, &result, &texts) {
            Ok(snapshot) => result.with(snapshot, Some(bundle)),
            Err(because) => failed(because).with(None, Some(bundle)),
        }
    }

    /// Carries a trial out so many times, one after the other, each into a folder of its own. An interruption ends it, and
    /// so does a folder that cannot be made, for that reason: without a place for its evidence a repeat is worth nothing.
    fn play_repeats(
        &self,
        candidate: &Candidate,
        bundle: &str,
        planned: u32,
        begins: impl Fn(u32, u32),
    ) -> (Vec<Repeat>, Option<String>) {
        let mut repeats = Vec::new();
        for number in 1..=planned {
            let folder = match number {
                1 => Ok(bundle.to_owned()),
                _ if *self.interrupted.borrow() => break,
                _ => self.writer.repeat_folder(bundle, number),
            };
            match folder {
                Ok(folder) => {
                    begins(number, planned);
                    let folder = self.writer.folder().join(folder);
                    repeats.push(self.play_once(candidate, &folder));
                }
                Err(error) => {
                    let because = format!("in repeat {number}: {}", no_folder(&error));
                    return (repeats, Some(because));
                }
            }
        }
        (repeats, None)
    }

    /// Carries a trial out once. Whatever goes wrong is in the judgement, which no secret is in any more.
    fn play_once(&self, candidate: &Candidate, folder: &Path) -> Repeat {
        let secrets = Secrets::default();
        let surroundings = Surroundings {
            cell: self.cell,
            root: candidate.root.clone(),
            drill_folder: candidate.folder.clone(),
            places: candidate.places.clone(),
            fixture: self.fixture.clone(),
            interrupted: self.interrupted.clone(),
            spoken: self.spoken.clone(),
        };
        // A panic of ours must not take the other trials with it; unwinding has ended the cell.
        let played = catch_unwind(AssertUnwindSafe(|| {
            trial::run(&candidate.trial, &surroundings, folder, &secrets)
        }));
        let failed = |because: String| Repeat {
            judgement: concealed(Judgement::failed(because), &secrets),
            cut_short: false,
        };
        let repeat = match played {
            Ok(Ok(played)) => {
                self.note(&candidate.trial.name, &played);
                Repeat {
                    judgement: concealed(played.judgement, &secrets),
                    cut_short: played.cut_short,
                }
            }
            Ok(Err(error)) => failed(error.to_string()),
            Err(_) => failed("the harness panicked; what it said is on stderr".to_owned()),
        };
        self.minted.join(&secrets);
        match sealed(folder, &candidate.trial.name, &secrets) {
            Ok(()) => repeat,
            Err(because) => failed(because),
        }
    }

    /// Ends the run, and signs it with the key; see [`RunWriter::close`].
    pub fn close(
        &self,
        facts: RunFacts,
        ci: bool,
        key: Option<&PrivateKey>,
    ) -> io::Result<Results> {
        let signer = key.map(|key| key.public().id());
        let signer = signer.as_deref();
        let (results, manifest) = self.writer.close(facts, ci, signer, &self.minted)?;
        if let (Some(key), Some(manifest)) = (key, &manifest) {
            bundle::sign(self.writer.folder(), manifest, &results, key)?;
        }
        Ok(results)
    }

    fn note(&self, trial: &str, played: &Played) {
        let mut notes = self.lock_notes();
        for route in &played.unmatched {
            let unmatched = UnmatchedRoute {
                trial: trial.to_owned(),
                route: route.clone(),
            };
            // Each repeat makes the same requests.
            if !notes.unmatched.contains(&unmatched) {
                notes.unmatched.push(unmatched);
            }
        }
        notes.cell = notes.cell.or(played.cell);
        for sentence in &played.weakens {
            if !notes.weakens.contains(sentence) {
                notes.weakens.push(sentence.clone());
            }
        }
    }

    /// Compares the stable text of each repeat with the approved one. What was not seen to its end, or not carried through,
    /// is nothing to compare.
    fn compare(
        &self,
        candidate: &Candidate,
        result: &TrialResult,
        texts: &Texts,
    ) -> Result<Option<SnapshotState>, String> {
        if result.verdict == TrialVerdict::Error || *self.interrupted.borrow() {
            return Ok(None);
        }
        let writing = if in_ci() {
            Writing::Nothing
        } else {
            Writing::Pending
        };
        let name = &candidate.trial.name;
        let compared = compare_repeats(&self.reports, name, texts, writing);
        let Some(comparison) = compared.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        if let Some(diff) = comparison.diff() {
            self.lock_notes().diffs.push(SnapshotDiff {
                trial: name.clone(),
                diff,
                between_repeats: comparison.between_repeats,
            });
        }
        Ok(Some(comparison.state))
    }

    /// How a trial's text differs from the approved one.
    pub fn diff_of(&self, trial: &str) -> Option<String> {
        let notes = self.lock_notes();
        let mut diffs = notes.diffs.iter();
        let found = diffs.find(|diff| diff.trial == trial);
        found.map(|diff| diff.diff.clone())
    }

    /// The kind of cell that the trials were in, in a word.
    pub fn cell_used(&self) -> Option<String> {
        let cell = self.lock_notes().cell?;
        Some(format!("{cell:?}").to_lowercase())
    }

    /// What was noted, taken out.
    pub fn notes(&self) -> Notes {
        std::mem::take(&mut *self.lock_notes())
    }

    fn lock_notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches a trial's folder for what it minted, and seals it. Servers put secrets where they should not, and those are
/// found and replaced as they are collected: what is found here we have put there ourselves.
fn sealed(folder: &Path, trial: &str, secrets: &Secrets) -> Result<(), String> {
    let leaks = search(folder, secrets).map_err(|e| format!("failed to search the bundle: {e}"))?;
    seal(folder, trial).map_err(|e| format!("failed to seal the bundle: {e}"))?;
    match leaks.first() {
        None => Ok(()),
        Some(leak) => Err(format!(
            "the {} stood in {} of the bundle{}",
            leak.secret,
            leak.file,
            if leak.mended {
                " and was taken out"
            } else {
                ""
            }
        )),
    }
}

fn no_folder(error: &io::Error) -> String {
    format!("failed to make the bundle's folder: {error}")
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

//! A trial: one drill at one crash point, phase by phase.
//!
//! ```text
//!   prepare → session A → arm → evidence → CRASH → observe → release → quiet → evidence again
//!           → revoke → stop → session B → (the session beside) → (the revoked session) → (the job) → close
//! ```
//!
//! What is done for one question has no part in what another sees: all that session A's questions and the recovery are
//! about is over before the session beside makes its call, and the revoked session comes after both.
//!
//! Where a session uses more than it may, the trial goes to its close from wherever it stands.
//!
//! It does things and waits for events; it knows no verdict. Whatever goes wrong on our side ends in `trial-failed`, and
//! whatever happens to the harness, dropping the [`Stage`](stage::Stage) ends the cell and all in it.

mod after;
mod authority;
mod before;
mod beside;
mod course;
mod crash;
mod ending;
mod fire;
mod gate;
mod job;
mod limit;
mod looks;
mod needs;
mod operator;
mod place;
mod quiet;
mod record;
mod redact;
mod rehearsal;
mod serving;
mod settled;
mod signs;
mod spoken;
mod stage;
mod still;
mod variables;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::cell::{CellError, Wanted};
use crate::journal::{CellKind, ChainError, Event, Journal, Phase, Secrets, hex};
use crate::judge::{self, Judgement, Repeat};
use crate::remote::RemoteError;
use crate::session::SessionError;
use crate::spec::{Crash, Drill, DrillPlaces, TemplateError};
pub use course::{Course, NoCourse, Step, course};
pub use spoken::Spoken;
use stage::Stage;

/// The judge's answers, in a trial's folder.
pub(crate) const ANSWERS: &str = "answers.json";
/// This tool and its version.
pub(crate) const TOOL: &str = concat!("cargo-drill ", env!("CARGO_PKG_VERSION"));

/// What a trial is: a drill at one of its crash points.
#[derive(Debug, Clone)]
pub struct Trial {
    /// `drill::crash-point[::variant]`.
    pub name: String,
    pub drill: Arc<Drill>,
    pub crash: Crash,
}

/// What surrounds a trial.
#[derive(Debug, Clone)]
pub struct Surroundings {
    pub cell: Wanted,
    /// The folder that holds `drills/`.
    pub root: PathBuf,
    /// The folder of the drill file.
    pub drill_folder: PathBuf,
    /// Where in the drill's file stands what an answer may speak of.
    pub places: DrillPlaces,
    /// The path of `drill-fixture`, where there is one.
    pub fixture: Option<PathBuf>,
    /// Becomes true when the user interrupts.
    pub interrupted: watch::Receiver<bool>,
    pub spoken: Spoken,
}

/// Why a trial is an `error`: ours or the machine's.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("failed to prepare the trial: {0}")]
    Prepare(String),
    #[error("failed to read or write the trial's files: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Cell(#[from] CellError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("failed to start the remote: {0}")]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("{0}")]
    Journal(String),
    /// A run that was killed early leaves a bundle without it.
    #[error("failed to read its {name}: {source}")]
    Bundle {
        name: &'static str,
        source: io::Error,
    },
}

/// What came of a trial.
#[derive(Debug)]
pub struct Played {
    pub judgement: Judgement,
    /// The user interrupted it.
    pub cut_short: bool,
    /// Absent where no cell could be built.
    pub cell: Option<CellKind>,
    /// What this cell weakens, a sentence each.
    pub weakens: Vec<String>,
    /// Requests that no route matched, as routes ready to paste.
    pub unmatched: Vec<String>,
}

/// Runs a trial, writes its bundle into the empty folder `bundle`, and judges what the bundle holds. The secrets that the
/// trial mints are added to `secrets`.
pub fn run(
    trial: &Trial,
    surroundings: &Surroundings,
    bundle: &Path,
    secrets: &Secrets,
) -> Result<Played, TrialError> {
    redact::keep_all_out(&trial.drill, secrets)?;
    let drill = redact::without_values(&trial.drill, secrets).map_err(io::Error::from)?;
    let drill = serde_json::to_string_pretty(&drill).map_err(io::Error::from)?;
    let drill = drill + "\n";
    std::fs::write(bundle.join("drill.json"), &drill)?;
    let drill = hex(&Sha256::digest(drill));
    let journal = Journal::create(&bundle.join("journal.jsonl"), secrets.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(play(trial, drill, surroundings, bundle, &journal));
    drop(runtime);
    journal.append(Event::TrialEnded);
    journal.seal()?;
    if let Some(because) = journal.failure() {
        return Err(TrialError::Journal(because));
    }
    let Repeat {
        judgement,
        cut_short,
    } = rejudge(bundle)?;
    let answers = serde_json::to_string_pretty(&judgement).map_err(io::Error::from)?;
    std::fs::write(bundle.join(ANSWERS), answers + "\n")?;
    write_incidents(trial, bundle, secrets)?;
    let mut unmatched = journal.collect(|entry| match &*entry.event {
        Event::RequestUnmatched { paste, .. } => Some(paste.clone()),
        _ => None,
    });
    unmatched.sort();
    unmatched.dedup();
    let cell = journal.latest(|entry| match &*entry.event {
        Event::CellReady { cell, .. } => Some(*cell),
        _ => None,
    });
    let weakens = journal.latest(|entry| match &*entry.event {
        Event::CellReady { weakens, .. } => Some(weakens.clone()),
        _ => None,
    });
    Ok(Played {
        weakens: weakens.unwrap_or_default(),
        judgement,
        cut_short,
        cell,
        unmatched,
    })
}

/// What somebody has to know who finds what this trial left: a file for machines and a page for people, where there is
/// anything to tell.
fn write_incidents(trial: &Trial, bundle: &Path, secrets: &Secrets) -> Result<(), TrialError> {
    let recorded = crate::journal::read(&bundle.join("journal.jsonl"))?;
    let incidents = judge::incidents(&trial.drill, &recorded.lines);
    if incidents.is_empty() {
        return Ok(());
    }
    let json = serde_json::to_string_pretty(&incidents).map_err(io::Error::from)?;
    std::fs::write(bundle.join("incidents.json"), secrets.conceal(&json) + "\n")?;
    let page = crate::report::render_incidents(&trial.name, &incidents);
    std::fs::write(bundle.join("incidents.md"), secrets.conceal(&page))?;
    Ok(())
}

/// Judges a bundle from its files alone.
pub fn rejudge(bundle: &Path) -> Result<Repeat, TrialError> {
    let unreadable = |source| TrialError::Bundle {
        name: "drill.json",
        source,
    };
    let drill = std::fs::read(bundle.join("drill.json")).map_err(unreadable)?;
    let drill: Drill = serde_json::from_slice(&drill)
        .map_err(io::Error::from)
        .map_err(unreadable)?;
    let recorded = crate::journal::read(&bundle.join("journal.jsonl"))?;
    Ok(Repeat::judged(&drill, &recorded.lines))
}

async fn play(
    trial: &Trial,
    drill_sha256: String,
    surroundings: &Surroundings,
    bundle: &Path,
    journal: &Journal,
) {
    journal.append(Event::TrialStarted {
        trial: trial.name.clone(),
        drill: trial.drill.drill.clone(),
        crash: trial.crash.clone(),
        tool: TOOL.to_owned(),
        drill_sha256: Some(drill_sha256),
    });
    let DrillPlaces { file, lines } = surroundings.places.clone();
    journal.append(Event::DrillRead { file, lines });
    let mut interrupted = surroundings.interrupted.clone();
    tokio::select! {
        biased;
        // A sender that has gone will never interrupt.
        Ok(_) = interrupted.wait_for(|interrupted| *interrupted) => {
            journal.append(Event::Interrupted);
        }
        ended = phases(trial, surroundings, bundle, journal) => {
            if let Err(error) = ended {
                journal.append(Event::TrialFailed { because: error.to_string() });
            }
        }
    }
}

async fn phases(
    trial: &Trial,
    surroundings: &Surroundings,
    bundle: &Path,
    journal: &Journal,
) -> Result<(), TrialError> {
    enter(journal, Phase::Prepare);
    let drill = Arc::clone(&trial.drill);
    let mut stage = Stage::prepare(drill, surroundings.clone(), bundle, journal.clone()).await?;
    let cell = stage.cell.line().clone();
    let acts = sessions(&mut stage, &trial.crash, surroundings);
    let acted = limit::within_limits(journal, &cell, acts).await?;
    enter(journal, Phase::Close);
    if acted.is_none() {
        limit::clear(&stage).await?;
    }
    stage.gather()?;
    if let Some(remote) = stage.remote.take() {
        remote.stop().await;
    }
    drop(stage.network.take());
    stage.cell.end();
    Ok(())
}

/// Everything for which there are processes.
async fn sessions(
    stage: &mut Stage,
    crash: &Crash,
    surroundings: &Surroundings,
) -> Result<(), TrialError> {
    let beside = beside::open(stage).await?;
    let point = before::reach(stage, crash, surroundings).await?;
    if let Some(mut live) = point {
        let aftermath = crash::crash_and_observe(stage, crash, &mut live).await?;
        after::revoke_and_stop(stage, &live, &aftermath).await?;
        let beside = beside::still_open(stage, beside).await?;
        after::recover(stage, crash, &aftermath).await?;
        beside::call(stage, beside, &aftermath).await?;
        stage.verify_authority().await?;
        let tried = after::try_revoked_session(stage, &aftermath).await?;
        job::revoke(stage).await?;
        if tried {
            stage.verify_authority().await?;
        }
        rehearsal::prove_reach(stage, surroundings).await?;
    }
    Ok(())
}

fn enter(journal: &Journal, phase: Phase) {
    journal.append(Event::PhaseStarted { phase });
}

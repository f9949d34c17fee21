//! Exit statuses, in one place.

use std::process::ExitCode;

use crate::report::{Results, SnapshotState, TrialVerdict};

/// How a run ended, as its exit status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// All held, or broken exactly as `known`; the gate is open; two runs do not differ.
    Held = 0,
    /// An answer is broken or unproven, or a snapshot differs; the gate is closed; two runs differ.
    Objected = 1,
    /// Could not run: usage, a drill file, the machine, any `error`, nothing to run.
    Failed = 2,
    /// Ctrl-C (128 + SIGINT).
    Interrupted = 130,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        Self::from(ended as u8)
    }
}

impl Ended {
    /// The worst of all trials. A snapshot that nobody has approved fails only where `new_fails`, as it does in CI. A run
    /// in which every trial was ignored has run nothing: a gate must not open because its requirements are missing.
    pub fn of(results: &Results, new_fails: bool) -> Self {
        results
            .trials
            .iter()
            .filter(|trial| trial.verdict != TrialVerdict::Ignored)
            .map(|trial| {
                let snapshot = match trial.snapshot {
                    Some(SnapshotState::Differs) => Self::Objected,
                    Some(SnapshotState::New) if new_fails => Self::Objected,
                    _ => Self::Held,
                };
                let verdict = match trial.verdict {
                    TrialVerdict::Held | TrialVerdict::Ignored => Self::Held,
                    TrialVerdict::Broken | TrialVerdict::Unproven => Self::Objected,
                    TrialVerdict::Error => Self::Failed,
                };
                snapshot.max(verdict)
            })
            .max()
            .unwrap_or(Self::Failed)
    }
}

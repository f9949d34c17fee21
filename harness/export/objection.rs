//! What fails a trial, one thing at a time: the same list for every format that names failures.

use crate::judge::{Answer, Verdict};
use crate::report::{SnapshotState, TrialResult, TrialVerdict};

/// One reason for which a trial does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection<'a> {
    pub kind: Kind,
    /// The answers that say it; several where a server has one reason for many questions. Empty for what is no answer.
    pub answers: Vec<&'a Answer>,
    pub sentence: String,
}

/// The kinds of objection, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Our fault or the machine's.
    Error,
    Broken,
    /// It held, although the drill lists it as known to be broken.
    Stale,
    Unproven,
    /// The snapshot differs from the approved one, or nobody has approved it where that fails.
    Snapshot,
}

impl Kind {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Broken => "broken",
            Self::Stale => "held although known",
            Self::Unproven => "unproven",
            Self::Snapshot => "snapshot",
        }
    }
}

impl Objection<'_> {
    /// The questions, or what stands in their place: `eof, helpers`.
    #[must_use]
    pub fn about(&self) -> String {
        let questions: Vec<String> = self
            .answers
            .iter()
            .map(|answer| answer.question.to_string())
            .collect();
        match self.kind {
            _ if !questions.is_empty() => questions.join(", "),
            Kind::Snapshot => "snapshot".to_owned(),
            _ => "trial".to_owned(),
        }
    }
}

/// All that is said against a trial, the worst first. `new_fails`: a snapshot that nobody has approved is one of it.
#[must_use]
pub fn objections(trial: &TrialResult, new_fails: bool) -> Vec<Objection<'_>> {
    let bare = |kind, sentence: &str| Objection {
        kind,
        answers: Vec::new(),
        sentence: sentence.to_owned(),
    };
    let mut all: Vec<Objection<'_>> = trial
        .grouped_objections()
        .into_iter()
        .map(|(answers, sentence)| Objection {
            kind: kind_of(&answers),
            answers,
            sentence,
        })
        .collect();
    match (&trial.error, trial.verdict) {
        (Some(error), _) => all.push(bare(Kind::Error, error)),
        // It would be nobody's fault, and still the trial proves nothing.
        (None, TrialVerdict::Error) if all.is_empty() => {
            all.push(bare(Kind::Error, "The trial could not be carried through."));
        }
        (None, TrialVerdict::Unproven | TrialVerdict::Broken) if all.is_empty() => {
            all.push(bare(Kind::Unproven, "No question was answered."));
        }
        _ => {}
    }
    match trial.snapshot {
        Some(SnapshotState::Differs) => all.push(bare(
            Kind::Snapshot,
            "The snapshot differs from the approved one.",
        )),
        Some(SnapshotState::New) if new_fails => all.push(bare(
            Kind::Snapshot,
            "Nobody has approved a snapshot of this trial.",
        )),
        _ => {}
    }
    all.sort_by_key(|objection| objection.kind);
    all
}

/// The answers of a trial that the drill excuses.
pub(super) fn excused(trial: &TrialResult) -> impl Iterator<Item = &Answer> {
    let answers = trial.answers.iter();
    answers.filter(|answer| answer.known && answer.verdict != Verdict::Held)
}

/// A group has one verdict.
fn kind_of(answers: &[&Answer]) -> Kind {
    match answers.first().map(|answer| answer.verdict) {
        Some(Verdict::Error) => Kind::Error,
        Some(Verdict::Broken) => Kind::Broken,
        Some(Verdict::Held) => Kind::Stale,
        Some(Verdict::Unproven) | None => Kind::Unproven,
    }
}

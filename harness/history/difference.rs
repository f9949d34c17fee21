//! The difference between two runs. The names are a contract with whoever reads the JSON.
//!
//! Every text in it is safe to show: what comes from a bundle was made printable, on one line.

use serde::Serialize;

use crate::judge::{Code, Verdict};
use crate::report::TrialVerdict;
use crate::spec::Question;

/// What changed from run A to run B.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub a: String,
    pub b: String,
    /// Trials of both runs that ended another way, or with another answer.
    pub trials: Vec<TrialChange>,
    /// Trials that only A has.
    pub only_a: Vec<Lone>,
    /// Trials that only B has.
    pub only_b: Vec<Lone>,
    /// What else changed, which may be why: the server's build, the drill, the commit.
    pub subjects: Vec<SubjectChange>,
    /// Answers that are the same.
    pub same: usize,
}

impl Difference {
    /// An answer changed, or there is a trial that only one of them has.
    pub fn is_change(&self) -> bool {
        !(self.trials.is_empty() && self.only_a.is_empty() && self.only_b.is_empty())
    }
}

/// A trial that is in one run alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lone {
    pub trial: String,
    /// How it ended, where it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<TrialVerdict>,
}

/// A trial that ended another way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialChange {
    pub trial: String,
    pub a: Ended,
    pub b: Ended,
    pub answers: Vec<AnswerChange>,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ended {
    pub verdict: TrialVerdict,
    /// Of an error, or of a trial that was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// An answer that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerChange {
    pub question: Question,
    pub what: What,
    pub a: Told,
    pub b: Told,
    /// The events of the two that differ, those that belong together side by side.
    pub events: Vec<Pair>,
    /// How many events of the two are the same.
    pub same_events: usize,
    /// Why the events cannot be shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// What is another thing now; the first of these that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// It was asked in one of them alone.
    Asked,
    Verdict,
    /// Whether the drill lists it as known.
    Known,
    /// Whether its verdict differed between repeats.
    Stability,
    /// The codes of what was found.
    Finding,
}

/// What a run said to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "told")]
pub enum Told {
    Answered {
        verdict: Verdict,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        known: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        unstable: bool,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        codes: Vec<Code>,
        because: String,
        /// The trial's folder in the bundle.
        #[serde(skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
    },
    /// The drill leaves it out.
    LeftOut {
        reason: String,
    },
    NotAsked,
}

/// Events at one place of the two journals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Shown>,
}

/// An event without what varies from run to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub seq: u64,
    /// Its kind and its fields.
    pub event: String,
}

/// What was drilled is another thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubjectChange {
    /// The drill; absent where it is about all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drill: Option<String>,
    /// What it is: `server file …`, `package …`, `drill file …`, `commit`, `tool`.
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
}

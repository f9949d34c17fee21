//! What the judge says.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Code, Moments, Tally};
use crate::journal::{Seq, Sought};
use crate::spec::Question;

/// The verdict of an answer or of a trial; the order is from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Held,
    /// The evidence does not decide it. Gates like `Broken`.
    Unproven,
    Broken,
    /// Our fault or the machine's, never the server's.
    Error,
}

/// One question, answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub question: Question,
    pub verdict: Verdict,
    /// What was found, by the catalogue; empty where it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<Code>,
    /// One sentence for a reviewer, with pids, times and counts.
    pub because: String,
    /// The same sentence with `<pid>`, `<time>` and the like in place of what changes from run to run.
    #[serde(skip)]
    pub stable: String,
    /// The question is asked in some runs of this trial and not in others, as the server happens to be: a snapshot leaves it
    /// out, and its coming or going is no difference.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_chance: bool,
    /// Numbers of the events that prove it.
    pub evidence: Vec<Seq>,
    /// Listed by the drill as known to be broken: does not count for the trial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// Of a trial that is repeated: which repeat gave this answer, from 1. The evidence is in its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The verdict differed between repeats: how often each was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstable: Option<Tally>,
    /// Of `ownership`: what the record names of the call. Absent at every other question, and where no record was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<Named>,
}

/// Whether the record says something of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub question: Whose,
    pub answered: bool,
    /// The JSON pointer that leads to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What whoever finds a call without its session must know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// Which run started it.
    Run,
    /// Which local process sent it.
    Process,
    /// Which decision allowed it.
    Decision,
    /// Which external operation came of it.
    Operation,
}

/// A question that the drill leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub question: Question,
    pub reason: String,
}

/// All that the judge says of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst answer that counts.
    pub verdict: Verdict,
    pub answers: Vec<Answer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Answers that held although the drill lists them as known to be broken: the list is out of date, and the trial fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_known: Vec<Question>,
    /// Client gone, last operation started, authority revoked.
    #[serde(default, skip_serializing_if = "Moments::is_empty")]
    pub moments: Moments,
    /// What was looked up or reached for besides the remote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sought: Vec<Sought>,
    /// Why the trial is an `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Judgement {
    /// Of a trial that could not be carried through.
    #[must_use]
    pub fn failed(because: String) -> Self {
        Self {
            verdict: Verdict::Error,
            answers: Vec::new(),
            skipped: Vec::new(),
            stale_known: Vec::new(),
            moments: Moments::default(),
            sought: Vec::new(),
            error: Some(because),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Unproven => "unproven",
            Self::Broken => "broken",
            Self::Error => "error",
        })
    }
}

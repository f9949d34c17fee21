//! What was decided, and why. As JSON it is the predicate of the signed statement; the names are a contract.
//!
//! Every text in it is safe to show: what comes from a bundle was made printable, on one line.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::spans::Date;
use crate::report::Tool;
use crate::spec::Question;

/// The gate's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    pub decision: Outcome,
    /// UTC, RFC 3339.
    pub decided: String,
    pub tool: Tool,
    /// The policy's name.
    pub policy: String,
    /// Why not, the gravest first. Empty: the release may go out.
    pub reasons: Vec<Reason>,
    /// Waivers that last, and are needed.
    pub waived: Vec<Waived>,
    /// What whoever lets the release out should know, and what does not stop it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What each rule asked for, in the order of the policy.
    pub rules: Vec<Asked>,
    /// The bundles, the newest first.
    pub evidence: Vec<Considered>,
    /// The bundle of the last release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Considered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Go,
    NoGo,
}

/// One reason against the release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    pub kind: ReasonKind,
    /// The rule that is not met, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<usize>,
    /// The drill of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Question>,
    /// One sentence.
    pub because: String,
    /// The trials that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<Case>,
}

/// What kind of reason it is; the order is that in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReasonKind {
    /// The bundle is not as it was written.
    Altered,
    /// None of the policy's keys signed the bundle.
    Unsigned,
    /// The run did not come to its end.
    Incomplete,
    /// The answer is broken.
    Broken,
    /// The answer is broken or unproven, and the drill lists it as known.
    Known,
    /// The answer holds, and the drill lists it as known to be broken.
    Stale,
    /// The evidence does not decide it.
    Unproven,
    /// The trial could not be carried through.
    Error,
    /// The question was not asked.
    NotAsked,
    /// The drill leaves the question out.
    LeftOut,
    /// The trial was found and not run.
    NotRun,
    /// There is no such drill or trial.
    Missing,
    /// The evidence is too old, or has no date.
    Old,
    /// Trials of one drill ran on several builds of its server.
    SeveralBuilds,
    /// A waiver has ended.
    WaiverEnded,
    /// A waiver excuses nothing.
    WaiverUnneeded,
}

/// One trial that shows a reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub trial: String,
    /// The run that counts for it.
    pub run: String,
    /// What the bundle says of it.
    pub because: String,
    /// The trial's folder in the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The numbers of the events that prove it, in that folder's journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<u64>,
    /// How the question stood in the last release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// How a question stood in the last release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Before {
    Held,
    Unproven,
    Broken,
    Error,
    /// The trial was not run, or the question not asked.
    NotAsked,
}

/// A waiver that lasts, and what it excuses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waived {
    pub question: Question,
    /// As the waiver names it.
    pub server: String,
    pub reason: String,
    pub owner: String,
    pub until: Date,
    /// How many days it still lasts after this one.
    pub days_left: i64,
    pub cases: Vec<Case>,
}

/// What a rule asked for, and how much of it there was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub servers: Vec<String>,
    pub trials: usize,
    /// Answers that held.
    pub held: usize,
    /// Answers that are known to be broken, and that the rule accepts.
    #[serde(default, skip_serializing_if = "is_none")]
    pub known: usize,
    /// Answers that a waiver excuses.
    #[serde(default, skip_serializing_if = "is_none")]
    pub waived: usize,
    /// Answers, or whole trials, that are a reason against the release.
    pub unmet: usize,
    /// Questions that do not arise at the moment of a trial, and were asked at another one.
    #[serde(default, skip_serializing_if = "is_none")]
    pub does_not_arise: usize,
}

/// A bundle that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Considered {
    pub run: String,
    pub folder: String,
    pub manifest_sha256: String,
    /// UTC, RFC 3339: from here on its age is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// UTC, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// Those of the policy's keys that signed it.
    pub signers: Vec<String>,
    /// Trials that a rule asked for and for which this bundle counts.
    pub trials: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
}

impl Decision {
    pub fn is_go(&self) -> bool {
        self.decision == Outcome::Go
    }

    /// The decision in a line, such as `NO-GO: 3 reasons`.
    pub fn headline(&self) -> String {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        match self.decision {
            Outcome::NoGo => format!("NO-GO: {}", count(self.reasons.len(), "reason")),
            Outcome::Go => {
                let held = self.rules.iter().map(|rule| rule.held).sum();
                let met = format!("GO: {} held", count(held, "answer"));
                let known: usize = self.rules.iter().map(|rule| rule.known).sum();
                let known = (known > 0).then(|| format!("{known} known to be broken"));
                // Two waivers may excuse the same answer.
                let waived: HashSet<(Question, &str)> = self
                    .waived
                    .iter()
                    .flat_map(|waived| waived.cases.iter().map(|c| (waived.question, &*c.trial)))
                    .collect();
                let waived = waived.len();
                let waived = (waived > 0).then(|| format!("{waived} waived"));
                let all = [Some(met), known, waived];
                all.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Go => "GO",
            Self::NoGo => "NO-GO",
        })
    }
}

impl ReasonKind {
    /// What a server's question, or its trial, is.
    pub fn word(self) -> &'static str {
        match self {
            Self::Altered => "altered",
            Self::Unsigned => "unsigned",
            Self::Incomplete => "incomplete",
            Self::Broken => "broken",
            Self::Known => "known to be broken",
            Self::Stale => "held although known",
            Self::Unproven => "unproven",
            Self::Error => "error",
            Self::NotAsked => "not asked",
            Self::LeftOut => "left out",
            Self::NotRun => "not run",
            Self::Missing => "missing",
            Self::Old => "too old",
            Self::SeveralBuilds => "several builds",
            Self::WaiverEnded => "waiver ended",
            Self::WaiverUnneeded => "waiver not needed",
        }
    }
}

impl Case {
    /// How it stood in the last release, and how it stands now.
    pub fn change(&self, now: ReasonKind) -> Option<String> {
        let now = match now {
            ReasonKind::Known => "broken",
            ReasonKind::Stale => "held",
            kind => kind.word(),
        };
        Some(match self.before? {
            Before::Held if now == "held" => "held in the last release as well".to_owned(),
            Before::Held => format!("held in the last release, {now} now"),
            // Of a trial that is not run now, that says nothing.
            Before::NotAsked => return None,
            Before::Broken if now == "broken" => "broken in the last release as well".to_owned(),
            Before::Unproven if now == "unproven" => {
                "unproven in the last release as well".to_owned()
            }
            Before::Broken => format!("broken in the last release, {now} now"),
            Before::Unproven => format!("unproven in the last release, {now} now"),
            Before::Error => format!("an error in the last release, {now} now"),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_none(n: &usize) -> bool {
    *n == 0
}

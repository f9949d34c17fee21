//! How one trial ended: an object of `results.json`.
//!
//! These names are a contract with whoever reads the file. A result is made through its constructors alone, which
//! conceal the secrets of the trial and escape control characters, so that the file is safe to hand on and to `cat`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::journal::{Asker, Secrets, Sought, printable};
use crate::judge::{Answer, Judgement, Moments, Skipped, Tally, Verdict};
use crate::spec::{CrashPoint, Question};

/// The longest name of a file that is made of a trial's name, in bytes; the usual limit of a file system is 255.
const LONGEST_FILE_NAME: usize = 160;

/// The name of a trial: `drill::crash-point[::variant]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrialName {
    pub drill: String,
    pub point: CrashPoint,
    /// What tells apart two trials of the drill at this point.
    pub variant: Option<String>,
}

impl TrialName {
    /// The name as part of a path, `drill__crash-point[__variant]`.
    ///
    /// Colons are refused by artifact stores and by some file systems. Names that would fall together once cleaned get
    /// a tail made of their hash.
    pub fn file_stem(&self) -> String {
        file_stem(&self.to_string())
    }

    /// The name without its drill, for a row below the drill's heading.
    pub fn within_drill(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{}::{variant}", self.point),
            None => self.point.to_string(),
        }
    }
}

impl fmt::Display for TrialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.drill, self.within_drill())
    }
}

/// A trial's name as part of a path; see [`TrialName::file_stem`].
pub(super) fn file_stem(name: &str) -> String {
    let joined = name.replace("::", "__");
    let mut stem: String = joined
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
            _ => '_',
        })
        .collect();
    if stem != joined || stem.starts_with('.') || stem.len() > LONGEST_FILE_NAME {
        let hash = crate::journal::hex(&<sha2::Sha256 as sha2::Digest>::digest(name));
        stem.truncate(LONGEST_FILE_NAME);
        stem = format!("{}-{}", stem.trim_start_matches('.'), &hash[..8]);
    }
    stem
}

/// The verdict of a trial: its worst answer that counts, or that it was not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialVerdict {
    Held,
    Unproven,
    Broken,
    /// Our fault or the machine's, never the server's.
    Error,
    /// Not run, for a reason that is given.
    Ignored,
}

impl From<Verdict> for TrialVerdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Held => Self::Held,
            Verdict::Unproven => Self::Unproven,
            Verdict::Broken => Self::Broken,
            Verdict::Error => Self::Error,
        }
    }
}

impl fmt::Display for TrialVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Unproven => "unproven",
            Self::Broken => "broken",
            Self::Error => "error",
            Self::Ignored => "ignored",
        })
    }
}

/// How the trial's stable text compares with the approved one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotState {
    Same,
    /// Nothing is approved yet.
    New,
    Differs,
}

/// One trial, as `results.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// `drill::crash-point[::variant]`.
    pub name: String,
    pub drill: String,
    pub crash_point: CrashPoint,
    pub verdict: TrialVerdict,
    /// Rounded to milliseconds.
    pub seconds: f64,
    /// Absent for a trial that has no stable text: an error, or one that was ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotState>,
    pub answers: Vec<Answer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Questions that the drill lists as known to be broken here, and that are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_known: Vec<Question>,
    /// Client gone, last operation started, authority revoked: in ns since the trial's start.
    #[serde(default, skip_serializing_if = "Moments::is_empty")]
    pub moments: Moments,
    /// What was looked up or reached for besides the remote, and what came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sought: Vec<Sought>,
    /// Why the trial is an `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the trial was `ignored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The trial's folder, relative to the run's. Of a trial that is repeated, the first repeat's; the others have this name
    /// and `~2`, `~3` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// Of a trial that is repeated: how often each verdict was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Tally>,
    /// How many repeats there were to be, where the run ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats_planned: Option<u32>,
}

impl TrialResult {
    /// A trial on which the judge has spoken. Nothing that `secrets` knows remains in it.
    pub fn judged(
        name: &TrialName,
        judgement: Judgement,
        elapsed: Duration,
        secrets: &Secrets,
    ) -> Self {
        let judgement = concealed(judgement, secrets);
        Self {
            seconds: rounded(elapsed),
            answers: judgement.answers,
            skipped: judgement.skipped,
            stale_known: judgement.stale_known,
            moments: judgement.moments,
            sought: judgement.sought,
            error: judgement.error,
            ..Self::bare(name, judgement.verdict.into())
        }
    }

    /// A trial that could not be carried through.
    pub fn failed(name: &TrialName, error: &str, elapsed: Duration, secrets: &Secrets) -> Self {
        Self {
            seconds: rounded(elapsed),
            error: Some(printable(&secrets.conceal(error))),
            ..Self::bare(name, TrialVerdict::Error)
        }
    }

    /// A trial that was not run: no secret was minted for it.
    pub fn ignored(name: &TrialName, reason: &str) -> Self {
        Self {
            reason: Some(printable(reason)),
            ..Self::bare(name, TrialVerdict::Ignored)
        }
    }

    /// With the comparison's state and the trial's folder, as [`super::RunWriter::trial_folder`] named it.
    #[must_use]
    pub fn with(self, snapshot: Option<SnapshotState>, bundle: Option<String>) -> Self {
        Self {
            snapshot,
            bundle,
            ..self
        }
    }

    /// The answers that explain the verdict: not held and not excused, or held although the drill excuses them.
    pub fn objections(&self) -> impl Iterator<Item = &Answer> {
        self.answers.iter().filter(|answer| match answer.verdict {
            Verdict::Held => self.stale_known.contains(&answer.question),
            _ => !answer.known,
        })
    }

    /// The objections, the worst first, with those together that say the same: a server that does not start has one
    /// reason for every question.
    pub(crate) fn grouped_objections(&self) -> Vec<(Vec<&Answer>, String)> {
        let mut groups: Vec<(Vec<&Answer>, String)> = Vec::new();
        for answer in self.objections() {
            let sentence = match answer.verdict {
                Verdict::Held => format!(
                    "held, although the drill lists it as known to be broken: take it out of `known`. {}",
                    answer.because
                ),
                _ => self.sentence_of(answer),
            };
            let same = groups.iter_mut().find(|(answers, said)| {
                *said == sentence && answers.iter().all(|other| other.verdict == answer.verdict)
            });
            match same {
                Some((answers, _)) => answers.push(answer),
                None => groups.push((vec![answer], sentence)),
            }
        }
        groups
            .sort_by_key(|(answers, _)| std::cmp::Reverse(answers.iter().map(|a| a.verdict).max()));
        groups
    }

    fn bare(name: &TrialName, verdict: TrialVerdict) -> Self {
        Self {
            name: printable(&name.to_string()),
            drill: printable(&name.drill),
            crash_point: name.point,
            verdict,
            seconds: 0.0,
            snapshot: None,
            answers: Vec::new(),
            skipped: Vec::new(),
            stale_known: Vec::new(),
            moments: Moments::default(),
            sought: Vec::new(),
            error: None,
            reason: None,
            bundle: None,
            repeats: None,
            repeats_planned: None,
        }
    }
}

/// A judgement that is safe to show and to write down: without the secrets, and without control characters.
pub fn concealed(judgement: Judgement, secrets: &Secrets) -> Judgement {
    let safe = |text: String| printable(&secrets.conceal(&text));
    let answers = judgement.answers.into_iter().map(|answer| Answer {
        because: safe(answer.because),
        stable: safe(answer.stable),
        ..answer
    });
    let skipped = judgement.skipped.into_iter().map(|skipped| Skipped {
        reason: safe(skipped.reason),
        ..skipped
    });
    let sought = judgement.sought.into_iter().map(|sought| Sought {
        host: safe(sought.host),
        by: sought.by.map(|asker| Asker {
            comm: safe(asker.comm),
            ..asker
        }),
        ..sought
    });
    Judgement {
        answers: answers.collect(),
        skipped: skipped.collect(),
        sought: sought.collect(),
        error: judgement.error.map(safe),
        ..judgement
    }
}

fn rounded(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples::{answer, name};
    use crate::spec::Question;

    #[test]
    fn a_name_becomes_a_path_without_colons() {
        assert_eq!(name("deploy", CrashPoint::Sent).file_stem(), "deploy__sent");
    }

    #[test]
    fn names_that_fall_together_once_cleaned_stay_apart() {
        let with = |variant: &str| TrialName {
            variant: Some(variant.to_owned()),
            ..name("deploy", CrashPoint::Sent)
        };
        let (slash, space) = (with("a/b").file_stem(), with("a b").file_stem());
        assert_ne!(slash, space);
        assert!(slash.starts_with("deploy__sent__a_b-"), "{slash}");
        assert!(with(&"x".repeat(400)).file_stem().len() < 200);
    }

    #[test]
    fn neither_secrets_nor_control_characters_get_into_a_result() {
        let secrets = Secrets::default();
        secrets.mint("token of run A", "drill-0011223344");
        let judgement = Judgement {
            verdict: Verdict::Broken,
            answers: vec![answer(
                Question::Secrets,
                Verdict::Broken,
                "drill-0011223344 \u{1b}[2J",
            )],
            skipped: Vec::new(),
            stale_known: Vec::new(),
            moments: Moments::default(),
            sought: Vec::new(),
            error: None,
        };
        let result = TrialResult::judged(
            &name("deploy", CrashPoint::Sent),
            judgement,
            Duration::from_micros(41_499),
            &secrets,
        );
        assert_eq!(result.answers[0].because, "<token of run A> \\u{1b}[2J");
        assert_eq!(result.answers[0].stable, result.answers[0].because);
        assert!((result.seconds - 0.041).abs() < f64::EPSILON);
    }

    #[test]
    fn an_excused_answer_objects_only_once_it_holds() {
        let mut result = TrialResult::failed(
            &name("deploy", CrashPoint::Sent),
            "",
            Duration::ZERO,
            &Secrets::default(),
        );
        result.answers = vec![Answer {
            known: true,
            ..answer(Question::Eof, Verdict::Broken, "…")
        }];
        assert_eq!(result.objections().count(), 0);
        result.answers = vec![answer(Question::Eof, Verdict::Held, "…")];
        result.stale_known = vec![Question::Eof];
        assert_eq!(result.objections().count(), 1);
    }
}

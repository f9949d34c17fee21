//! `results.json`: the run and its trials.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use super::outcome::{SnapshotState, TrialResult, TrialVerdict};

/// The version of the shape below.
const SCHEMA: u32 = 1;

/// The name of a run: `20261129T234510Z-3f9a`. It sorts by time and is safe in a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// A name for a run that starts now. Only the run's folder, once made, proves that nobody else has it.
    pub(super) fn propose() -> Self {
        let time = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        let random = uuid::Uuid::new_v4().simple().to_string();
        Self(format!("{time}-{}", &random[..4]))
    }

    /// A name that was read somewhere, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, random) = text.split_once('-')?;
        let time = time.strip_suffix('Z')?.as_bytes();
        let well_formed = time.len() == 15
            && time.iter().enumerate().all(|(i, byte)| match i {
                8 => *byte == b'T',
                _ => byte.is_ascii_digit(),
            })
            && random.len() == 4
            && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        well_formed.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not the name of a run"))
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.0
    }
}

/// A run and how its trials ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub schema: u32,
    pub run: RunId,
    /// UTC, RFC 3339, milliseconds.
    pub started: String,
    /// Absent while the run goes on, and for ever if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    pub trials: Vec<TrialResult>,
}

/// How many trials ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub held: usize,
    pub unproven: usize,
    pub broken: usize,
    pub error: usize,
    pub ignored: usize,
    /// Of these, the trials with an answer that differs between repeats.
    pub unstable: usize,
    /// Snapshots that nobody has approved yet.
    pub new: usize,
    /// Snapshots that differ from the approved one.
    pub differs: usize,
}

impl Results {
    /// A run that starts now.
    pub(super) fn begun(run: RunId) -> Self {
        Self {
            schema: SCHEMA,
            run,
            started: now(),
            finished: None,
            trials: Vec::new(),
        }
    }

    /// No run at all.
    pub(crate) fn none() -> Self {
        Self::begun(RunId(String::new()))
    }

    /// A run of which nothing is known yet but when it started.
    pub(crate) fn of(run: RunId, started: String) -> Self {
        Self {
            started,
            ..Self::begun(run)
        }
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for trial in &self.trials {
            *match trial.verdict {
                TrialVerdict::Held => &mut counts.held,
                TrialVerdict::Unproven => &mut counts.unproven,
                TrialVerdict::Broken => &mut counts.broken,
                TrialVerdict::Error => &mut counts.error,
                TrialVerdict::Ignored => &mut counts.ignored,
            } += 1;
            counts.unstable += usize::from(trial.is_unstable());
            match trial.snapshot {
                Some(SnapshotState::New) => counts.new += 1,
                Some(SnapshotState::Differs) => counts.differs += 1,
                Some(SnapshotState::Same) | None => {}
            }
        }
        counts
    }

    /// Brings the trials, which end in any order, into the one that a reader expects: by drill, then along the call.
    pub fn sort(&mut self) {
        self.trials.sort_by(|a, b| order(a).cmp(&order(b)));
    }

    /// The trials in that order.
    pub(crate) fn in_order(&self) -> Vec<&TrialResult> {
        let mut trials: Vec<&TrialResult> = self.trials.iter().collect();
        trials.sort_by(|a, b| order(a).cmp(&order(b)));
        trials
    }

    /// The text of the file: valid JSON with one trial a line, so that `grep` and `diff` serve as well.
    pub(super) fn to_text(&self) -> io::Result<String> {
        let empty = serde_json::to_string(&Self {
            schema: self.schema,
            run: self.run.clone(),
            started: self.started.clone(),
            finished: self.finished.clone(),
            trials: Vec::new(),
        })?;
        // `trials` is the last field, so that its closing bracket can be put after the lines.
        let head = empty.strip_suffix("]}").unwrap_or(&empty);
        let trials: Vec<String> = self
            .trials
            .iter()
            .map(|trial| serde_json::to_string(trial).map(|line| format!("\n  {line}")))
            .collect::<Result<_, _>>()?;
        Ok(format!("{head}{}\n]}}\n", trials.join(",")))
    }
}

/// Now, in UTC, as RFC 3339 with milliseconds.
pub(super) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string()
}

fn order(trial: &TrialResult) -> (&str, crate::spec::CrashPoint, &str) {
    (&trial.drill, trial.crash_point, &trial.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::Verdict;
    use crate::report::samples::{answer, eventful, name, results, trial, unstable};
    use crate::spec::{CrashPoint, Question};

    #[test]
    fn the_file_has_the_shape_that_is_documented() {
        let text = results(vec![trial(
            &name("deploy", CrashPoint::AfterAcceptance),
            vec![answer(Question::Eof, Verdict::Held, "It exited.")],
        )])
        .to_text()
        .unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value,
            json!({
                "schema": 1,
                "run": "20261129T234510Z-3f9a",
                "started": "2026-11-29T23:45:10.000Z",
                "finished": "2026-11-29T23:45:10.812Z",
                "trials": [{
                    "name": "deploy::after-acceptance",
                    "drill": "deploy",
                    "crash_point": "after-acceptance",
                    "verdict": "held",
                    "seconds": 0.041,
                    "snapshot": "same",
                    "answers": [{
                        "question": "eof", "verdict": "held", "because": "It exited.", "evidence": [12, 15]
                    }],
                    "bundle": "deploy__after-acceptance",
                }]
            })
        );
    }

    #[test]
    fn what_a_trial_can_carry_besides_is_written_only_where_it_applies() {
        let text = eventful().to_text().unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let trials = value["trials"].as_array().unwrap();
        let of = |name: &str| trials.iter().find(|trial| trial["name"] == name).unwrap();
        assert_eq!(of("deploy::after-result")["answers"][0]["known"], true);
        assert_eq!(
            of("notes::idle")["skipped"],
            json!([{ "question": "secrets", "reason": "the server has no credential" }])
        );
        assert_eq!(of("notes::sent")["verdict"], "ignored");
        assert!(of("notes::sent")["reason"].is_string());
        assert!(of("notes::sent").get("snapshot").is_none());
        assert!(of("notes::startup")["error"].is_string());
        assert!(of("deploy::after-acceptance").get("skipped").is_none());
    }

    #[test]
    fn repeats_are_counted_by_verdict_and_an_unstable_answer_names_its_repeat() {
        let text = results(vec![unstable()]).to_text().unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let trial = &value["trials"][0];
        assert_eq!(trial["verdict"], "broken");
        assert_eq!(trial["repeats"], json!({ "held": 19, "broken": 1 }));
        assert!(trial.get("repeats_planned").is_none());
        assert_eq!(
            trial["answers"],
            json!([
                {
                    "question": "eof", "verdict": "held", "because": "It exited.", "evidence": [12, 15], "repeat": 1
                },
                {
                    "question": "helpers", "verdict": "broken", "codes": ["helpers/alive"], "because": "pid 12 is alive.",
                    "evidence": [12, 15],
                    "repeat": 3, "unstable": { "held": 19, "broken": 1 }
                },
            ])
        );
        assert_eq!(results(vec![unstable()]).counts().unstable, 1);
    }

    #[test]
    fn what_was_written_is_read_back() {
        for run in [eventful(), results(vec![unstable()]), results(Vec::new())] {
            let mut written = run;
            let read: Results = serde_json::from_str(&written.to_text().unwrap()).unwrap();
            for trial in &mut written.trials {
                trial.answers.iter_mut().for_each(|a| a.stable.clear());
            }
            assert_eq!(read, written);
        }
    }

    #[test]
    fn a_run_that_goes_on_has_no_finish() {
        let run = Results::begun(RunId::propose());
        assert!(!run.to_text().unwrap().contains("finished"));
    }

    #[test]
    fn a_run_id_sorts_by_time_and_is_recognised() {
        let run = RunId::propose();
        assert_eq!(RunId::parse(run.as_str()), Some(run));
        assert_eq!(RunId::parse("../../etc"), None);
        assert_eq!(RunId::parse("20261129T234510Z-3f9"), None);
    }

    #[test]
    fn trials_are_counted_by_verdict_and_by_snapshot() {
        assert_eq!(
            eventful().counts(),
            Counts {
                held: 3,
                unproven: 0,
                broken: 1,
                error: 1,
                ignored: 1,
                unstable: 0,
                new: 1,
                differs: 1
            }
        );
    }
}

//! The stable text of a trial, and how it compares with the approved one.
//!
//! `reports/<trial>.snap` is what a reviewer has approved, in insta's file format, so that `cargo insta review` works on
//! it as well as `cargo drill accept`. insta reads it and normalises it; we compare and we write the pending
//! `.snap.new`. We do not call `assert_snapshot!`: it would obey the environment (`INSTA_UPDATE=always` approves what
//! nobody has read, `INSTA_FORCE_PASS` passes what differs), and print and panic where we report. Approval is an act
//! of a person, so no variable of the environment takes part in it, other than `CI`, which forbids to write.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::atomic;
use super::outcome::{SnapshotState, TrialResult, TrialVerdict, file_stem};
use crate::spec::SnapshotForm;

/// The lines of context in a diff, as in `diff -u`.
const CONTEXT: usize = 3;

/// Why a snapshot cannot be compared or approved.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("failed to read the snapshot {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("failed to write the snapshot {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is not a snapshot: {because}", path.display())]
    NotASnapshot { path: PathBuf, because: String },
}

/// Whether a comparison may leave a pending snapshot behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    Pending,
    /// In CI.
    Nothing,
}

/// How a trial's text compares with the approved one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub state: SnapshotState,
    /// The pending snapshot that was written.
    pub pending: Option<PathBuf>,
    /// The repeats of the trial differ from each other.
    pub between_repeats: bool,
    /// What differs, as a unified diff without colour.
    diff: Option<String>,
}

impl Comparison {
    /// What differs from the approved text, or else between repeats, as a unified diff without colour.
    pub fn diff(&self) -> Option<String> {
        self.diff.clone()
    }
}

/// The texts of a trial's repeats, as far as they tell whether all are the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    first: Option<String>,
    /// The first that is not the same, and its repeat.
    other: Option<(u32, String)>,
}

impl Texts {
    /// Takes in the text of a repeat, if it has one.
    pub fn add(&mut self, repeat: u32, text: Option<String>) {
        match (&self.first, text) {
            (None, text) => self.first = text,
            (Some(first), Some(text)) if self.other.is_none() && *first != text => {
                self.other = Some((repeat, text));
            }
            _ => {}
        }
    }
}

/// Whether `CI` is set, as to anything but `false`, `0` or nothing.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// The text of a trial that is the same from run to run: verdicts and codes, and in the full form the stable sentences.
///
/// `None` for one that was not carried through, since an error
/// of ours must never be approved as what the server does.
///
/// The full form needs the stable sentences, which a result that was read back from a file has not.
pub fn stable_text(trial: &TrialResult, form: SnapshotForm) -> Option<String> {
    if matches!(trial.verdict, TrialVerdict::Error | TrialVerdict::Ignored) {
        return None;
    }
    let mut text = format!("trial: {}\nverdict: {}\n", trial.name, trial.verdict);
    let mut answers: Vec<_> = trial.answers.iter().collect();
    answers.sort_by_key(|answer| answer.question);
    for answer in answers {
        // By chance it is there or not.
        if answer.by_chance {
            continue;
        }
        let known = if answer.known { " (known)" } else { "" };
        let _ = writeln!(
            text,
            "\n{}: {}{known}",
            answer.question,
            TrialVerdict::from(answer.verdict)
        );
        for code in &answer.codes {
            let _ = writeln!(text, "  {code}");
        }
        if form == SnapshotForm::Full {
            for line in answer.stable.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
    }
    let mut skipped: Vec<_> = trial.skipped.iter().collect();
    skipped.sort_by_key(|skipped| skipped.question);
    for skipped in skipped {
        let _ = writeln!(text, "\n{}: left out", skipped.question);
        for line in skipped.reason.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    Some(text)
}

/// Compares a trial's text with the approved one in the folder `reports`.
///
/// A text that is new or differs is written as pending where that is allowed; one that is the same takes an old pending
/// one away, which would otherwise be approved by mistake.
pub fn compare(
    reports: &Path,
    trial: &str,
    text: &str,
    writing: Writing,
) -> Result<Comparison, SnapshotError> {
    let approved_at = approved_path(reports, trial);
    let pending_at = pending_path(&approved_at);
    let approved = approved_text(&approved_at)?;
    let text = normal(text);
    let state = match &approved {
        None => SnapshotState::New,
        Some(approved) if *approved == text => SnapshotState::Same,
        Some(_) => SnapshotState::Differs,
    };
    let pending = match (writing, state) {
        (Writing::Nothing, _) => None,
        (Writing::Pending, SnapshotState::Same) => {
            take_away(&pending_at)?;
            None
        }
        (Writing::Pending, SnapshotState::New | SnapshotState::Differs) => {
            write_pending(&pending_at, trial, &text).map_err(|source| SnapshotError::Write {
                path: pending_at.clone(),
                source,
            })?;
            Some(pending_at)
        }
    };
    let diff = (state == SnapshotState::Differs).then(|| {
        diff_of(
            ("approved", &approved.unwrap_or_default()),
            ("this run", &text),
        )
    });
    Ok(Comparison {
        state,
        pending,
        between_repeats: false,
        diff,
    })
}

/// Compares the texts of a trial's repeats with the approved one; `None` where there is no text.
///
/// It differs if any of them does. Where they differ from each other, none is what the server does: nothing is pending,
/// and what was pending before is taken away, so that none of them is approved by mistake.
pub fn compare_repeats(
    reports: &Path,
    trial: &str,
    texts: &Texts,
    writing: Writing,
) -> Result<Option<Comparison>, SnapshotError> {
    let Some(first) = &texts.first else {
        return Ok(None);
    };
    let Some((repeat, other)) = &texts.other else {
        return compare(reports, trial, first, writing).map(Some);
    };
    let approved_at = approved_path(reports, trial);
    let approved = approved_text(&approved_at)?;
    if writing == Writing::Pending {
        take_away(&pending_path(&approved_at))?;
    }
    let (first, other) = (normal(first), normal(other));
    let this = format!("repeat {repeat}");
    let (state, diff) = match approved {
        None => {
            let diff = diff_of(("repeat 1", &first), (&this, &other));
            (SnapshotState::New, diff)
        }
        Some(approved) => {
            let differing = if first == approved {
                (this.as_str(), other.as_str())
            } else {
                ("repeat 1", first.as_str())
            };
            let diff = diff_of(("approved", &approved), differing);
            (SnapshotState::Differs, diff)
        }
    };
    Ok(Some(Comparison {
        state,
        pending: None,
        between_repeats: true,
        diff: Some(diff),
    }))
}

/// A unified diff between two texts, each with its name.
fn diff_of((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    similar::TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(old_name, new_name)
        .to_string()
}

fn normal(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

fn approved_path(reports: &Path, trial: &str) -> PathBuf {
    reports.join(format!("{}.snap", file_stem(trial)))
}

/// The approved text, where there is one. A file that is no snapshot (a merge left its marks in it) counts as a text that
/// differs, as it stands.
fn approved_text(path: &Path) -> Result<Option<String>, SnapshotError> {
    match fs::read_to_string(path) {
        Ok(file) => Ok(Some(load(path).map_or(file, |(text, _)| text))),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SnapshotError::Read {
            path: path.to_path_buf(),
            source,
        }),
    }
}

fn take_away(pending: &Path) -> Result<(), SnapshotError> {
    match fs::remove_file(pending) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(SnapshotError::Write {
            path: pending.to_path_buf(),
            source,
        }),
        _ => Ok(()),
    }
}

/// `….snap` to `….snap.new`, as insta names it.
pub(super) fn pending_path(approved: &Path) -> PathBuf {
    approved.with_extension("snap.new")
}

/// The text of a snapshot file as insta reads it, with one newline at its end, and the trial that it belongs to.
pub(super) fn load(path: &Path) -> Result<(String, Option<String>), SnapshotError> {
    let not_a_snapshot = |because: String| SnapshotError::NotASnapshot {
        path: path.to_path_buf(),
        because,
    };
    // insta takes a file without a header for its oldest format, and says so on stderr.
    let begins = fs::read(path).map(|file| file.starts_with(b"---"));
    if !begins.map_err(|source| SnapshotError::Read {
        path: path.to_path_buf(),
        source,
    })? {
        return Err(not_a_snapshot("it does not begin with `---`".to_owned()));
    }
    let snapshot =
        insta::Snapshot::from_file(path).map_err(|error| not_a_snapshot(error.to_string()))?;
    let contents = snapshot
        .as_text()
        .ok_or_else(|| not_a_snapshot("it is binary".to_owned()))?;
    let trial = snapshot.metadata().description().map(ToOwned::to_owned);
    Ok((format!("{contents}\n"), trial))
}

/// The part of insta's metadata that we use.
#[derive(Serialize)]
struct Header<'a> {
    /// The trial's name: a file's name does not always tell it.
    description: &'a str,
}

fn write_pending(path: &Path, trial: &str, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let header = serde_yaml::to_string(&Header { description: trial }).map_err(io::Error::other)?;
    atomic::write(path, format!("---\n{header}---\n{text}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::report::accept;
    use crate::report::samples::{answer, eventful, name, trial};
    use crate::spec::{CrashPoint, Question};

    const TRIAL: &str = "deploy::sent";

    fn everything(_: &str) -> bool {
        true
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn without_an_approved_snapshot_the_text_is_new_and_pending() {
        let reports = tempfile::tempdir().unwrap();
        let new = compare(reports.path(), TRIAL, "verdict: held", Writing::Pending).unwrap();
        assert_eq!(new.state, SnapshotState::New);
        assert_eq!(new.diff(), None);
        assert_eq!(files(reports.path()), ["deploy__sent.snap.new"]);
    }

    #[test]
    fn in_ci_nothing_is_written() {
        let reports = tempfile::tempdir().unwrap();
        let new = compare(reports.path(), TRIAL, "verdict: held", Writing::Nothing).unwrap();
        assert_eq!((new.state, new.pending), (SnapshotState::New, None));
        assert!(files(reports.path()).is_empty());
    }

    #[test]
    fn an_approved_text_is_the_same_and_leaves_nothing_pending() {
        let reports = tempfile::tempdir().unwrap();
        compare(reports.path(), TRIAL, "verdict: held", Writing::Pending).unwrap();
        accept(reports.path(), everything).unwrap();
        compare(reports.path(), TRIAL, "verdict: broken", Writing::Pending).unwrap();
        assert_eq!(files(reports.path()).len(), 2);
        let same = compare(reports.path(), TRIAL, "verdict: held\n", Writing::Pending).unwrap();
        assert_eq!(same.state, SnapshotState::Same);
        assert_eq!(files(reports.path()), ["deploy__sent.snap"]);
    }

    #[test]
    fn a_text_that_differs_shows_how() {
        let reports = tempfile::tempdir().unwrap();
        compare(
            reports.path(),
            TRIAL,
            "trial: x\nverdict: held",
            Writing::Pending,
        )
        .unwrap();
        accept(reports.path(), everything).unwrap();
        let differs = compare(
            reports.path(),
            TRIAL,
            "trial: x\nverdict: broken",
            Writing::Nothing,
        )
        .unwrap();
        assert_eq!(differs.state, SnapshotState::Differs);
        assert_eq!(
            differs.diff().unwrap(),
            "--- approved\n+++ this run\n@@ -1,2 +1,2 @@\n trial: x\n-verdict: held\n+verdict: broken\n"
        );
    }

    fn texts(all: &[&str]) -> Texts {
        let mut texts = Texts::default();
        for (repeat, text) in (1..).zip(all) {
            texts.add(repeat, Some((*text).to_owned()));
        }
        texts
    }

    #[test]
    fn repeats_that_agree_are_compared_as_one() {
        let reports = tempfile::tempdir().unwrap();
        let run = |all: &[&str]| {
            compare_repeats(reports.path(), TRIAL, &texts(all), Writing::Pending).unwrap()
        };
        assert_eq!(run(&[]), None);
        let new = run(&["verdict: held", "verdict: held"]).unwrap();
        assert_eq!(
            (new.state, new.between_repeats),
            (SnapshotState::New, false)
        );
        accept(reports.path(), everything).unwrap();
        let same = run(&["verdict: held", "verdict: held"]).unwrap();
        assert_eq!(same.state, SnapshotState::Same);
    }

    #[test]
    fn where_repeats_differ_nothing_can_be_approved() {
        let reports = tempfile::tempdir().unwrap();
        let run = |all: &[&str]| {
            let compared = compare_repeats(reports.path(), TRIAL, &texts(all), Writing::Pending);
            compared.unwrap().unwrap()
        };
        run(&["verdict: held"]);
        assert_eq!(files(reports.path()), ["deploy__sent.snap.new"]);
        let new = run(&["verdict: held", "verdict: held", "verdict: broken"]);
        assert_eq!((new.state, new.between_repeats), (SnapshotState::New, true));
        assert!(files(reports.path()).is_empty());
        let diff = new.diff().unwrap();
        assert!(diff.starts_with("--- repeat 1\n+++ repeat 3\n"), "{diff}");

        run(&["verdict: held"]);
        accept(reports.path(), everything).unwrap();
        for (all, differing) in [
            (["verdict: held", "verdict: broken"], "repeat 2"),
            (["verdict: broken", "verdict: held"], "repeat 1"),
        ] {
            let differs = run(&all);
            assert_eq!(differs.state, SnapshotState::Differs);
            let diff = differs.diff().unwrap();
            let expected = format!("--- approved\n+++ {differing}\n");
            assert!(diff.starts_with(&expected), "{diff}");
            assert_eq!(files(reports.path()), ["deploy__sent.snap"]);
        }
    }

    #[test]
    fn a_snapshot_that_cannot_be_read_differs() {
        let reports = tempfile::tempdir().unwrap();
        let file = reports.path().join("deploy__sent.snap");
        for broken in [
            "<<<<<<< ours\n---\n",
            "---\n<<<<<<< ours\na: [\n---\nverdict: held\n",
            "",
        ] {
            fs::write(&file, broken).unwrap();
            let found = compare(reports.path(), TRIAL, "verdict: held", Writing::Nothing).unwrap();
            assert_eq!(found.state, SnapshotState::Differs, "{broken}");
        }
    }

    #[test]
    fn line_ends_of_another_system_do_not_differ() {
        let reports = tempfile::tempdir().unwrap();
        fs::write(
            reports.path().join("deploy__sent.snap"),
            "---\r\ndescription: deploy::sent\r\n---\r\na\r\nb\r\n",
        )
        .unwrap();
        let found = compare(reports.path(), TRIAL, "a\nb", Writing::Nothing).unwrap();
        assert_eq!(found.state, SnapshotState::Same);
    }

    #[test]
    fn a_text_that_looks_like_a_header_survives() {
        let reports = tempfile::tempdir().unwrap();
        let text = "---\nverdict: held\n---\n";
        compare(reports.path(), TRIAL, text, Writing::Pending).unwrap();
        accept(reports.path(), everything).unwrap();
        let found = compare(reports.path(), TRIAL, text, Writing::Nothing).unwrap();
        assert_eq!(found.state, SnapshotState::Same);
    }

    #[test]
    fn the_text_says_what_a_reviewer_approves() {
        let run = eventful();
        assert_eq!(
            stable_text(&run.trials[4], SnapshotForm::Codes).unwrap(),
            "\
trial: notes::idle
verdict: held

eof: held

helpers: held

quiet: held

secrets: left out
  the server has no credential
"
        );
        let broken = stable_text(&run.trials[3], SnapshotForm::Codes).unwrap();
        assert!(
            broken.contains("eof: broken (known)\n  eof/still-running\n"),
            "{broken}"
        );
    }

    #[test]
    fn the_full_text_has_the_stable_sentence_and_a_fixed_order() {
        let mut stable = answer(Question::Eof, Verdict::Held, "pid 12 exited");
        stable.stable = "<pid> exited".to_owned();
        let other = answer(Question::Quiet, Verdict::Held, "quiet");
        let point = name("deploy", CrashPoint::Sent);
        let text = |answers| stable_text(&trial(&point, answers), SnapshotForm::Full).unwrap();
        let one = text(vec![stable.clone(), other.clone()]);
        let two = text(vec![other, stable]);
        assert_eq!(one, two);
        assert!(one.contains("<pid> exited") && !one.contains("12"), "{one}");
    }

    #[test]
    fn an_error_of_ours_has_no_text_to_approve() {
        let run = eventful();
        assert_eq!(stable_text(&run.trials[5], SnapshotForm::Codes), None);
        assert_eq!(stable_text(&run.trials[0], SnapshotForm::Codes), None);
    }
}

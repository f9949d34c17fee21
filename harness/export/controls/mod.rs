//! The matrix of controls: what each drill that names a control is evidence for.
//!
//! ```text
//!   control ──> each drill that names it (one server) ──> each question ──> the state, and the trials that prove it
//! ```
//!
//! What has no evidence is not evidenced, never fine: a control whose drill was filtered out, ignored or killed says so,
//! with the reason. So does one of which a drill leaves a question out. Several runs are taken together: what one of them ran counts as run, and the worst answer decides.

mod csv;
mod html;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::EndedRun;
use crate::journal::{Seq, printable};
use crate::judge::Verdict;
use crate::report::{DrillFacts, TrialResult, TrialVerdict, one_line};
use crate::spec::Question;

pub use csv::render_csv;
pub use html::render_html;
pub use table::render_table;

/// All controls that any drill names, by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The runs that it was made of.
    pub runs: Vec<String>,
    pub controls: Vec<Control>,
}

/// A control and the drills that name it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Control {
    /// As the drills have it, on one line.
    pub name: String,
    pub state: State,
    pub rows: Vec<Row>,
}

/// What one drill, and so one server, says for a control.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub drill: String,
    pub about: Option<String>,
    /// The server's command, as the drill has it.
    pub server: String,
    pub state: State,
    /// How many trials were run.
    pub ran: usize,
    pub not_run: Vec<NotRun>,
    /// One for each question, in the order of [`Question::ALL`].
    pub cells: Vec<Cell>,
}

/// A trial that exists and was not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotRun {
    pub trial: String,
    pub reason: String,
}

/// What the trials of a drill answered to a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    pub question: Question,
    pub state: State,
    /// Empty where nothing is evidenced.
    pub proofs: Vec<Proof>,
}

/// One answer, and where its evidence is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Proof {
    pub run: String,
    pub trial: String,
    pub verdict: Verdict,
    pub known: bool,
    /// No answer says it, but the trial as a whole: it could not be carried through.
    pub is_of_trial: bool,
    pub because: String,
    /// The bundle's folder, as a relative reference; absent where there is none.
    pub href: Option<String>,
    /// Numbers of the events in its journal.
    pub events: Vec<Seq>,
}

/// What can be said; the order is from best to worst.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    Held,
    /// Broken, and listed by the drill as known.
    Known,
    NotEvidenced(Gap),
    Unproven,
    Broken,
    Error,
}

/// Why there is no evidence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "gap", content = "reason", rename_all = "kebab-case")]
pub enum Gap {
    /// No trial of the drill was asked this: it has no such part. The control may hold all the same.
    NotAsked,
    /// The drill leaves the question out, for this reason.
    LeftOut(String),
    /// Trials were not run, for this reason.
    NotRun(String),
}

impl State {
    /// One or two words.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Known => "broken, known",
            Self::NotEvidenced(_) => "not evidenced",
            Self::Unproven => "unproven",
            Self::Broken => "broken",
            Self::Error => "error",
        }
    }

    /// Why it is not evidenced; empty for every other state.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::NotEvidenced(Gap::NotAsked) => "no trial was asked this".to_owned(),
            Self::NotEvidenced(Gap::LeftOut(reason)) => format!("left out by the drill: {reason}"),
            Self::NotEvidenced(Gap::NotRun(reason)) => reason.clone(),
            _ => String::new(),
        }
    }

    fn of(verdict: Verdict, known: bool) -> Self {
        match verdict {
            Verdict::Held => Self::Held,
            _ if known => Self::Known,
            Verdict::Unproven => Self::Unproven,
            Verdict::Broken => Self::Broken,
            Verdict::Error => Self::Error,
        }
    }

    /// Whether a control can hold although this cell is in this state.
    fn says_nothing(&self) -> bool {
        matches!(self, Self::NotEvidenced(Gap::NotAsked))
    }
}

impl Matrix {
    /// The matrix of one run, or of several together.
    #[must_use]
    pub fn of(runs: &[EndedRun<'_>]) -> Self {
        let mut naming: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let mut drills: BTreeMap<&str, &DrillFacts> = BTreeMap::new();
        for drill in runs.iter().flat_map(|run| &run.facts.drills) {
            drills.insert(&drill.drill, drill);
            for control in &drill.controls {
                let name = one_line(control);
                if !name.is_empty() {
                    naming.entry(name).or_default().insert(&drill.drill);
                }
            }
        }
        let controls = naming.into_iter().map(|(name, named_by)| {
            let rows: Vec<Row> = named_by
                .iter()
                .filter_map(|drill| drills.get(drill))
                .map(|drill| Row::of(drill, runs))
                .collect();
            let state = rows.iter().map(|row| row.state.clone()).max();
            Control {
                name,
                state: state.unwrap_or(State::NotEvidenced(Gap::NotAsked)),
                rows,
            }
        });
        Self {
            controls: controls.collect(),
            runs: runs.iter().map(|run| run.results.run.to_string()).collect(),
        }
    }

    /// Whether a control is neither held nor broken exactly as known.
    #[must_use]
    pub fn objects(&self) -> bool {
        let mut controls = self.controls.iter();
        controls.any(|control| control.state > State::Known)
    }
}

impl Control {
    /// All answers for this control.
    pub fn proofs(&self) -> impl Iterator<Item = (Question, &Proof)> {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        cells.flat_map(|cell| cell.proofs.iter().map(|proof| (cell.question, proof)))
    }

    /// What a reader must know besides the state: what was not run or left out, a sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for row in &self.rows {
            if let Some(reason) = row.shortfall() {
                notes.push(reason);
            }
            for cell in &row.cells {
                if let State::NotEvidenced(Gap::LeftOut(reason)) = &cell.state {
                    notes.push(format!(
                        "{} leaves out {}: {reason}",
                        row.drill, cell.question
                    ));
                }
            }
        }
        notes
    }
}

impl Row {
    fn of(drill: &DrillFacts, runs: &[EndedRun<'_>]) -> Self {
        let trials = Trials::of(&drill.drill, runs);
        let mut row = Self {
            drill: printable(&drill.drill),
            about: drill.about.as_deref().map(one_line),
            server: one_line(&drill.server.command.join(" ")),
            state: State::NotEvidenced(Gap::NotAsked),
            ran: trials.ran.len(),
            not_run: trials.not_run(),
            cells: Vec::new(),
        };
        let missing = row.shortfall().map(Gap::NotRun).map(State::NotEvidenced);
        let questions = Question::ALL.into_iter();
        row.cells = questions
            .map(|question| trials.cell(question, missing.as_ref()))
            .collect();
        let answered = row.cells.iter().map(|cell| &cell.state);
        let answered = answered.filter(|state| !state.says_nothing()).cloned();
        if let Some(worst) = answered.chain(missing).max() {
            row.state = worst;
        }
        row
    }

    /// What keeps the drill from being evidence as a whole.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let all = self.ran + self.not_run.len();
        let reasons: BTreeSet<&str> = self.not_run.iter().map(|not| not.reason.as_str()).collect();
        let reasons: Vec<&str> = reasons.into_iter().collect();
        let reasons = reasons.join("; ");
        match (self.ran, self.not_run.len()) {
            (0, 0) => Some(format!("no trial of {} was run", self.drill)),
            (_, 0) => None,
            (0, _) => Some(format!("no trial of {} was run: {reasons}", self.drill)),
            (_, left) => Some(format!(
                "{left} of {all} trials of {} were not run: {reasons}",
                self.drill
            )),
        }
    }
}

/// The trials of a drill in all runs.
struct Trials<'a> {
    /// Of those that were run, the results with their runs.
    ran: BTreeMap<&'a str, Vec<(EndedRun<'a>, &'a TrialResult)>>,
    /// All that exist, with the first reason for which each was not run.
    reasons: BTreeMap<String, String>,
}

impl<'a> Trials<'a> {
    fn of(drill: &str, runs: &[EndedRun<'a>]) -> Self {
        let mut trials = Self {
            ran: BTreeMap::new(),
            reasons: BTreeMap::new(),
        };
        for run in runs {
            for trial in run.results.in_order() {
                if trial.drill != drill {
                    continue;
                }
                if trial.verdict == TrialVerdict::Ignored {
                    let reason = trial.reason.as_deref().unwrap_or("it was ignored");
                    trials.was_not_run(&trial.name, reason);
                } else {
                    trials
                        .ran
                        .entry(&trial.name)
                        .or_default()
                        .push((*run, trial));
                }
            }
            for found in run.population(drill) {
                // Without a name the file could not be read, and its trials are not known.
                let name = printable(found.trial.as_deref().unwrap_or(drill));
                let reason = found.not_run.as_deref();
                trials.was_not_run(&name, reason.unwrap_or("the run ended before"));
            }
        }
        trials
    }

    fn was_not_run(&mut self, trial: &str, reason: &str) {
        let reasons = self.reasons.entry(trial.to_owned());
        reasons.or_insert_with(|| one_line(reason));
    }

    fn not_run(&self) -> Vec<NotRun> {
        let left = self.reasons.iter();
        left.filter(|(trial, _)| !self.ran.contains_key(trial.as_str()))
            .map(|(trial, reason)| NotRun {
                trial: trial.clone(),
                reason: reason.clone(),
            })
            .collect()
    }

    fn results(&self) -> impl Iterator<Item = (EndedRun<'a>, &'a TrialResult)> {
        self.ran.values().flatten().copied()
    }

    /// `missing` is what is said where no trial was run at all.
    fn cell(&self, question: Question, missing: Option<&State>) -> Cell {
        let proofs: Vec<Proof> = self
            .results()
            .filter_map(|(run, trial)| self.proof(question, run, trial))
            .collect();
        let worst = proofs
            .iter()
            .map(|proof| State::of(proof.verdict, proof.known));
        let state = worst.max().unwrap_or_else(|| {
            let mut skipped = self.results().flat_map(|(_, trial)| &trial.skipped);
            let skipped = skipped.find(|left| left.question == question);
            match (skipped, missing) {
                (Some(left), _) => State::NotEvidenced(Gap::LeftOut(one_line(&left.reason))),
                (None, Some(missing)) if self.ran.is_empty() => missing.clone(),
                (None, _) => State::NotEvidenced(Gap::NotAsked),
            }
        });
        Cell {
            question,
            state,
            proofs,
        }
    }

    /// What a trial says to the question. One that could not be carried through proves nothing, whatever it had answered,
    /// and which questions it would have been asked only the others tell.
    fn proof(
        &self,
        question: Question,
        run: EndedRun<'a>,
        trial: &'a TrialResult,
    ) -> Option<Proof> {
        let answer = trial.answers.iter().find(|a| a.question == question);
        let href = |bundle: Option<String>| {
            bundle.map(|bundle| super::uri(&format!("{}{bundle}", run.folder)))
        };
        let bare = |verdict, because: &str| {
            self.would_be_asked(question).then(|| Proof {
                run: run.results.run.to_string(),
                trial: printable(&trial.name),
                verdict,
                known: false,
                is_of_trial: true,
                because: one_line(because),
                href: href(trial.bundle.clone()),
                events: Vec::new(),
            })
        };
        match (&trial.error, answer) {
            (Some(error), _) => bare(Verdict::Error, error),
            (None, Some(answer)) => Some(Proof {
                verdict: answer.verdict,
                known: answer.known,
                is_of_trial: false,
                because: one_line(&trial.sentence_of(answer)),
                href: href(trial.bundle_of(answer)),
                events: answer.evidence.clone(),
                run: run.results.run.to_string(),
                trial: printable(&trial.name),
            }),
            (None, None) if trial.answers.is_empty() => {
                bare(Verdict::Unproven, "No question was answered.")
            }
            (None, None) => None,
        }
    }

    fn would_be_asked(&self, question: Question) -> bool {
        let mut answered = self
            .results()
            .flat_map(|(_, trial)| &trial.answers)
            .peekable();
        let mut skipped = self.results().flat_map(|(_, trial)| &trial.skipped);
        if answered.peek().is_none() {
            return !skipped.any(|left| left.question == question);
        }
        answered.any(|answer| answer.question == question)
    }
}

//! `summary.md`: a run on one page, for the job of a CI system.
//!
//! GitHub drops a summary above 1 MiB as a whole, so this one is bounded, and says what it leaves out.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::markdown::code;
use super::objection::{excused, objections};
use super::{EndedRun, Kind, Matrix, inert};
use crate::journal::excerpt;
use crate::judge::Answer;
use crate::report::{INTERRUPTED, Shape, Style, TrialResult, TrialVerdict, one_line, tally};
use crate::spec::Question;

/// In bytes. Other commands of the same step write into the same file.
const LONGEST: usize = 512 * 1024;
/// How far the table may fill the page, then what did not hold, then the rest, which leaves room for headings.
const TABLE: usize = LONGEST / 4;
const BROKEN: usize = LONGEST * 3 / 4;
const REST: usize = LONGEST - 8 * 1024;
/// The longest sentence, in bytes, before what is not Markdown in it is escaped.
const SENTENCE: usize = 1000;

/// The text of `summary.md`.
#[must_use]
pub fn render_summary(run: &EndedRun<'_>) -> String {
    let trials = run.results.in_order();
    let mut page = Page::default();
    page.always(&header(run));
    table(&mut page, &trials);
    broken(&mut page, run, &trials);
    known(&mut page, run, &trials);
    ignored(&mut page, run, &trials);
    controls(&mut page, run);
    page.text
}

/// Text with a bound. What is left out is counted.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn always(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The items until the page has so many bytes, and how many there are besides.
    fn list(&mut self, items: impl Iterator<Item = String>, what: &str, up_to: usize) {
        let mut left = 0;
        for item in items {
            if left == 0 && self.text.len() + item.len() <= up_to {
                self.text.push_str(&item);
            } else {
                left += 1;
            }
        }
        if left > 0 {
            let _ = writeln!(self.text, "\n{left} more {what}: see `results.json`.");
        }
        self.text.push('\n');
    }
}

fn header(run: &EndedRun<'_>) -> String {
    let total = run.results.trials.len();
    let plural = if total == 1 { "" } else { "s" };
    let counts = run.results.counts();
    let mut header = format!(
        "## cargo drill\n\n**{total} trial{plural}: {}**. Run {}",
        tally(&counts, Style::plain(usize::MAX)),
        code(run.results.run.as_str())
    );
    if let Some(commit) = &run.facts.commit {
        let dirty = if commit.dirty == Some(true) {
            ", with changes"
        } else {
            ""
        };
        let _ = write!(header, ", commit {}{dirty}", code(&commit.id));
    }
    if run.results.finished.is_none() {
        header.push_str(", which did not end");
    }
    if !run.has_run() {
        header.push_str(". Nothing was run, so nothing is proven");
    }
    let left = not_told(run)
        .filter(|(_, reason)| *reason != INTERRUPTED)
        .count();
    if left > 0 {
        let why = match run.facts.partition {
            Some(_) => "were filtered out or belong to another slice",
            None => "were filtered out",
        };
        let _ = write!(header, ". {left} more {why}");
    }
    header + ".\n\n"
}

/// A row for each drill, a column for each question that was asked of any.
fn table(page: &mut Page, trials: &[&TrialResult]) {
    let asked: Vec<Question> = Question::ALL
        .into_iter()
        .filter(|question| {
            trials
                .iter()
                .any(|trial| shape_of(trial, *question).is_some())
        })
        .collect();
    if trials.is_empty() {
        return;
    }
    let heads: Vec<String> = asked
        .iter()
        .map(|question| format!(" {question} |"))
        .collect();
    let rules = " --- |".repeat(asked.len());
    page.always(&format!(
        "| drill | trials |{}\n| --- | --- |{rules}\n",
        heads.concat()
    ));
    let drills = trials.chunk_by(|a, b| a.drill == b.drill);
    page.list(
        drills.map(|of_drill| table_row(of_drill, &asked)),
        "drills",
        TABLE,
    );
}

fn table_row(trials: &[&TrialResult], asked: &[Question]) -> String {
    let drill = trials.first().map_or("", |trial| trial.drill.as_str());
    let mut row = format!("| {} |", inert(drill));
    let verdicts = [
        TrialVerdict::Error,
        TrialVerdict::Broken,
        TrialVerdict::Unproven,
        TrialVerdict::Held,
        TrialVerdict::Ignored,
    ];
    let counts: Vec<String> = verdicts
        .iter()
        .filter_map(|verdict| {
            let of_verdict = trials.iter().filter(|trial| trial.verdict == *verdict);
            let count = of_verdict.count();
            (count > 0).then(|| format!("{count} {verdict}"))
        })
        .collect();
    let _ = write!(row, " {} |", counts.join(", "));
    // One that could not be carried through counts where the others were asked, or everywhere where none was.
    let failed = trials.iter().filter(|trial| trial.error.is_some()).count();
    let has_run = trials
        .iter()
        .any(|trial| trial.verdict != TrialVerdict::Ignored);
    let nobody_answered = trials.iter().all(|trial| trial.answers.is_empty());
    for question in asked {
        let mut shapes: Vec<Shape> = trials
            .iter()
            .filter(|trial| trial.error.is_none())
            .filter_map(|trial| shape_of(trial, *question))
            .collect();
        if !shapes.is_empty() || nobody_answered {
            shapes.extend(std::iter::repeat_n(Shape::Error, failed));
        }
        let worst = shapes.iter().copied().max_by_key(|shape| badness(*shape));
        let cell = match worst {
            None if has_run => Style::plain(0).shape(Shape::NotAsked).to_owned(),
            None => Style::plain(0).shape(Shape::Skipped).to_owned(),
            Some(shape) => {
                let drawn = format!("{} {}", Style::plain(0).shape(shape), shape.word());
                let same = shapes.iter().filter(|other| **other == shape).count();
                match shape {
                    Shape::Held if same == shapes.len() => drawn,
                    _ => format!("{drawn} {same}/{}", shapes.len()),
                }
            }
        };
        let _ = write!(row, " {cell} |");
    }
    row + "\n"
}

/// What a trial says to a question; nothing where it was not asked.
fn shape_of(trial: &TrialResult, question: Question) -> Option<Shape> {
    let answer = trial
        .answers
        .iter()
        .find(|answer| answer.question == question);
    let skipped = trial.skipped.iter().any(|left| left.question == question);
    answer.map(Shape::of).or(skipped.then_some(Shape::Skipped))
}

fn badness(shape: Shape) -> u8 {
    match shape {
        Shape::NotAsked => 0,
        Shape::Held => 1,
        Shape::Skipped => 2,
        Shape::Known => 3,
        Shape::Unproven => 4,
        Shape::Unstable => 5,
        Shape::Broken => 6,
        Shape::Error => 7,
    }
}

fn broken(page: &mut Page, run: &EndedRun<'_>, trials: &[&TrialResult]) {
    let items: Vec<String> = trials
        .iter()
        .filter_map(|trial| objections_of(run, trial))
        .collect();
    if items.is_empty() {
        return;
    }
    page.always("### What did not hold\n\n");
    page.list(items.into_iter(), "trials", BROKEN);
}

fn objections_of(run: &EndedRun<'_>, trial: &TrialResult) -> Option<String> {
    let all = objections(trial, run.new_fails);
    if all.is_empty() {
        return None;
    }
    let mut item = format!("- **{}**", inert(&trial.name));
    if let Some((file, line)) = run.place_of(&trial.drill, &trial.name) {
        let _ = write!(item, " ({}, line {line})", code(&file));
    }
    item.push('\n');
    for objection in all {
        let said = match objection.kind {
            Kind::Snapshot => String::new(),
            _ => format!("{} {}: ", objection.about(), objection.kind.word()),
        };
        let _ = writeln!(item, "  - {said}{}", sentence(&objection.sentence));
    }
    if let Some(bundle) = &trial.bundle {
        let _ = writeln!(item, "  - bundle {}", code(bundle));
    }
    let command = format!("cargo drill {} --exact", quoted(&trial.name));
    let _ = writeln!(item, "  - again: {}", code(&command));
    Some(item)
}

fn known(page: &mut Page, run: &EndedRun<'_>, trials: &[&TrialResult]) {
    let items: Vec<String> = trials
        .iter()
        .flat_map(|trial| excused(trial).map(move |answer| (*trial, answer)))
        .map(|(trial, answer)| known_item(run, trial, answer))
        .collect();
    if items.is_empty() {
        return;
    }
    page.always("### Known to be broken\n\n");
    page.list(items.into_iter(), "answers", REST);
}

fn known_item(run: &EndedRun<'_>, trial: &TrialResult, answer: &Answer) -> String {
    let because = run.known_because(&trial.drill, answer.question);
    let because = because.map_or(String::new(), |because| {
        format!(" (known: {})", sentence(because))
    });
    format!(
        "- **{}** {}: {}{because}\n",
        inert(&trial.name),
        answer.question,
        sentence(&trial.sentence_of(answer))
    )
}

/// The drills and the reasons of the trials that exist and have no result.
fn not_told<'a>(run: &EndedRun<'a>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let trials = run.results.trials.iter();
    let told: BTreeSet<&str> = trials.map(|trial| trial.name.as_str()).collect();
    let population = run.facts.population.iter();
    population.filter_map(move |found| {
        let name = found.trial.as_deref().unwrap_or_default();
        let reason = found.not_run.as_deref()?;
        (!told.contains(name)).then_some((found.drill.as_str(), reason))
    })
}

/// The trials that were asked for and not run, together where the reason is the same.
fn ignored(page: &mut Page, run: &EndedRun<'_>, trials: &[&TrialResult]) {
    let mut groups: Vec<(&str, &str, usize)> = Vec::new();
    let ignored = trials
        .iter()
        .filter_map(|trial| Some((trial.drill.as_str(), trial.reason.as_deref()?)));
    let interrupted = not_told(run).filter(|(_, reason)| *reason == INTERRUPTED);
    for (drill, reason) in ignored.chain(interrupted) {
        let same = groups
            .iter_mut()
            .find(|(d, r, _)| *d == drill && *r == reason);
        match same {
            Some((_, _, count)) => *count += 1,
            None => groups.push((drill, reason, 1)),
        }
    }
    if groups.is_empty() {
        return;
    }
    page.always("### Not run\n\n");
    let items = groups.into_iter().map(|(drill, reason, count)| {
        let plural = if count == 1 { "" } else { "s" };
        format!(
            "- **{}**, {count} trial{plural}: {}\n",
            inert(drill),
            sentence(reason)
        )
    });
    page.list(items, "drills", REST);
}

fn controls(page: &mut Page, run: &EndedRun<'_>) {
    let matrix = Matrix::of(&[*run]);
    if matrix.controls.is_empty() {
        return;
    }
    page.always("### Controls\n\n");
    let items = matrix.controls.iter().map(|control| {
        let mut item = format!("- **{}**: {}", inert(&control.name), control.state.word());
        for note in control.notes() {
            let _ = write!(item, "; {}", sentence(&note));
        }
        item + "\n"
    });
    page.list(items, "controls", REST);
}

fn sentence(text: &str) -> String {
    inert(&excerpt(&one_line(text), SENTENCE))
}

/// A word of a shell's command.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_:./".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

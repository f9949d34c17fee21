//! The table at the end of a run: a row for each trial, below its drill, and a column for each question that was asked.
//!
//! A cell is one shape, so that all eleven questions fit on a terminal of 80 columns. The headers are the questions'
//! names in the longest of three spellings for which there is room; where not even the shortest fits, each trial lists
//! what did not hold instead. A legend explains the shapes that occur, and nothing else.

use super::outcome::{TrialResult, TrialVerdict};
use super::results::Results;
use super::style::{Shape, Style, columns_of, filled, one_line, spell_seconds};
use crate::spec::Question;

/// How much of a question's name stands above its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    Whole,
    Short,
    Letters,
}

const INDENT: usize = 2;
const GAP: usize = 2;
/// Between the columns of the narrowest header, and around its time.
const NARROW_GAP: usize = 1;
const VERDICT: usize = "unproven".len();

/// The table, with a newline at its end; empty where no trial was run.
pub fn render_table(results: &Results, style: &Style) -> String {
    let all = results.in_order();
    // A drill of which nothing ran stands below the table, with its reason.
    let has_run = |drill: &str| {
        all.iter()
            .any(|trial| trial.drill == drill && trial.verdict != TrialVerdict::Ignored)
    };
    let trials: Vec<&TrialResult> = all
        .iter()
        .copied()
        .filter(|trial| has_run(&trial.drill))
        .collect();
    if trials.is_empty() {
        return String::new();
    }
    let asked: Vec<Question> = Question::ALL
        .into_iter()
        .filter(|question| {
            trials
                .iter()
                .any(|trial| !matches!(cell(trial, *question), None | Some(Shape::NotAsked)))
        })
        .collect();
    let fitting = [Header::Whole, Header::Short, Header::Letters]
        .into_iter()
        .map(|header| Grid::new(&trials, &asked, header))
        .find(|grid| grid.width() <= style.width);
    let mut out = match &fitting {
        Some(grid) => grid.render(&trials, *style),
        None => listing(&trials, &asked, *style),
    };
    // Where nothing was asked, no shape has to be explained.
    if fitting.is_some() && !asked.is_empty() {
        out.push('\n');
        out.push_str(&legend(&trials, &asked, *style));
    }
    out
}

/// The widths of a table.
struct Grid {
    asked: Vec<Question>,
    header: Header,
    name: usize,
    time: usize,
}

impl Grid {
    fn new(trials: &[&TrialResult], asked: &[Question], header: Header) -> Self {
        let widest = |of: &dyn Fn(&TrialResult) -> String| {
            trials
                .iter()
                .map(|trial| columns_of(&of(trial)))
                .max()
                .unwrap_or(0)
        };
        Self {
            asked: asked.to_vec(),
            header,
            name: INDENT + widest(&|trial| row_name(trial)),
            time: widest(&|trial| time(trial)),
        }
    }

    fn gap(&self) -> usize {
        if self.header == Header::Letters {
            NARROW_GAP
        } else {
            GAP
        }
    }

    fn column(&self, question: Question) -> usize {
        columns_of(&self.heading(question)).max("(✗)".chars().count())
    }

    fn heading(&self, question: Question) -> String {
        match self.header {
            Header::Whole => question.to_string(),
            Header::Short => short(question).to_owned(),
            Header::Letters => letters(question).to_owned(),
        }
    }

    fn width(&self) -> usize {
        let columns: usize = self
            .asked
            .iter()
            .map(|q| self.gap() + self.column(*q))
            .sum();
        self.name + columns + GAP + VERDICT + self.gap() + self.time
    }

    fn render(&self, trials: &[&TrialResult], style: Style) -> String {
        let mut out = String::new();
        let gap = " ".repeat(self.gap());
        let mut drill = None;
        for trial in trials {
            if drill != Some(&trial.drill) {
                let heading = filled(&one_line(&trial.drill), self.name);
                if drill.is_none() {
                    let columns: Vec<String> = self
                        .asked
                        .iter()
                        .map(|q| format!("{gap}{}", filled(&self.heading(*q), self.column(*q))))
                        .collect();
                    push_line(
                        &mut out,
                        &format!(
                            "{}{}",
                            style.bold(&heading),
                            style.dim(columns.concat().trim_end())
                        ),
                    );
                } else {
                    push_line(&mut out, "");
                    push_line(&mut out, &style.bold(heading.trim_end()));
                }
                drill = Some(&trial.drill);
            }
            let mut row = filled(
                &format!("{}{}", " ".repeat(INDENT), row_name(trial)),
                self.name,
            );
            for question in &self.asked {
                let shape = cell(trial, *question);
                let drawn = shape.map_or("", |shape| style.shape(shape));
                row.push_str(&gap);
                row.push_str(&style.paint(shape.unwrap_or(Shape::NotAsked), drawn));
                let fill = self.column(*question).saturating_sub(columns_of(drawn));
                row.push_str(&" ".repeat(fill));
            }
            row.push_str(&" ".repeat(GAP));
            let time = time(trial);
            let verdict = if time.is_empty() {
                trial.verdict.to_string()
            } else {
                format!("{:VERDICT$}", trial.verdict)
            };
            row.push_str(&style.paint(trial.verdict.into(), &verdict));
            if !time.is_empty() {
                row.push_str(&gap);
                row.push_str(&style.dim(&format!("{time:>width$}", width = self.time)));
            }
            push_line(&mut out, &row);
        }
        out
    }
}

/// Without columns: what did not hold stands below its trial.
fn listing(trials: &[&TrialResult], asked: &[Question], style: Style) -> String {
    let mut out = String::new();
    let mut drill = None;
    for trial in trials {
        if drill != Some(&trial.drill) {
            if drill.is_some() {
                push_line(&mut out, "");
            }
            push_line(&mut out, &style.bold(&one_line(&trial.drill)));
            drill = Some(&trial.drill);
        }
        let shape_of_trial = trial.verdict.into();
        let drawn = filled(style.shape(shape_of_trial), 2);
        let mut row = format!(
            "  {} {}  {}",
            style.paint(shape_of_trial, &drawn),
            row_name(trial),
            style.paint(shape_of_trial, &trial.verdict.to_string()),
        );
        let time = time(trial);
        if !time.is_empty() {
            row.push_str("  ");
            row.push_str(&style.dim(&time));
        }
        push_line(&mut out, &row);
        for question in asked {
            let Some(shape) = cell(trial, *question) else {
                continue;
            };
            if !matches!(shape, Shape::Held | Shape::NotAsked | Shape::Skipped) {
                let drawn = style.paint(shape, style.shape(shape));
                push_line(&mut out, &format!("       {drawn} {question}"));
            }
        }
    }
    out
}

/// What the shapes mean, of those that occur.
fn legend(trials: &[&TrialResult], asked: &[Question], style: Style) -> String {
    let items: Vec<String> = Shape::ALL
        .into_iter()
        .filter(|shape| {
            trials
                .iter()
                .any(|trial| asked.iter().any(|q| cell(trial, *q) == Some(*shape)))
        })
        .map(|shape| format!("{} {}", style.shape(shape), shape.word()))
        .collect();
    let mut out = style.dim(&items.join("   "));
    out.push('\n');
    out
}

/// What a trial says to a question; nothing where the trial was not judged.
fn cell(trial: &TrialResult, question: Question) -> Option<Shape> {
    if let Some(answer) = trial.answers.iter().find(|a| a.question == question) {
        return Some(Shape::of(answer));
    }
    if trial.skipped.iter().any(|s| s.question == question) {
        return Some(Shape::Skipped);
    }
    (!trial.answers.is_empty()).then_some(Shape::NotAsked)
}

/// The trial's name without its drill.
fn row_name(trial: &TrialResult) -> String {
    let name = trial
        .name
        .strip_prefix(&trial.drill)
        .and_then(|rest| rest.strip_prefix("::"));
    one_line(name.unwrap_or(&trial.name))
}

fn time(trial: &TrialResult) -> String {
    match trial.verdict {
        super::TrialVerdict::Ignored => String::new(),
        _ => spell_seconds(trial.seconds),
    }
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn short(question: Question) -> &'static str {
    match question {
        Question::Eof => "eof",
        Question::Helpers => "help",
        Question::Quiet => "quiet",
        Question::Effects => "effect",
        Question::Reconcile => "recon",
        Question::Handle => "handle",
        Question::Ownership => "owner",
        Question::Revocation => "revoke",
        Question::Protocol => "proto",
        Question::Secrets => "secret",
        Question::Resources => "resrc",
    }
}

fn letters(question: Question) -> &'static str {
    match question {
        Question::Eof => "eof",
        Question::Helpers => "hel",
        Question::Quiet => "qui",
        Question::Effects => "eff",
        Question::Reconcile => "rec",
        Question::Handle => "han",
        Question::Ownership => "own",
        Question::Revocation => "rev",
        Question::Protocol => "pro",
        Question::Secrets => "sec",
        Question::Resources => "res",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::report::samples::{answer, eventful, name, results, trial, unstable};
    use crate::report::{TrialName, render_table};
    use crate::spec::CrashPoint;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 40..=120 {
            for unicode in [true, false] {
                let style = Style {
                    unicode,
                    ..Style::plain(width)
                };
                let table = render_table(&eventful(), &style);
                for line in table.lines() {
                    assert!(columns_of(line) <= width, "{width}: {line}");
                }
            }
        }
    }

    /// A run in which all questions are asked at the point with the longest name.
    fn all_asked() -> Results {
        let answers = Question::ALL
            .into_iter()
            .map(|question| answer(question, Verdict::Held, "It held."))
            .collect();
        results(vec![trial(
            &name("deploy", CrashPoint::AfterAcceptance),
            answers,
        )])
    }

    #[test]
    fn all_questions_fit_on_80_columns() {
        insta::assert_snapshot!(render_table(&all_asked(), &Style::plain(80)), @r"
        deploy             eof hel qui eff rec han own rev pro sec res
          after-acceptance ✓   ✓   ✓   ✓   ✓   ✓   ✓   ✓   ✓   ✓   ✓    held     41 ms

        ✓ held
        ");
    }

    #[test]
    fn on_120_columns_there_is_room_for_words() {
        insta::assert_snapshot!(render_table(&eventful(), &Style::plain(120)), @r"
        deploy              eof  help  quiet  effect  recon  owner  revoke  proto  secret  resrc
          before-dispatch   ✓    ✓     ✓      ✓       ✓      ✓      ✓       ✓      ✓       ✓      held      41 ms
          after-acceptance  ✓    ✓     ?      ✓       ✗      ✓      ✓       ✓      ✓       ✓      broken    41 ms
          after-result      (✗)  ✓     ✓      ✓       ✓      ✓      ✓       ✓      ✓       ✓      held      41 ms

        notes
          startup                                                                                 error      3 ms
          idle              ✓    ✓     ✓      ·       ·      ·      ·       ·      –       ·      held      41 ms
          sent                                                                                    ignored

        ✓ held   ✗ broken   ? unproven   (✗) known   – left out   · not asked
        ");
    }

    #[test]
    fn on_a_narrow_terminal_only_what_did_not_hold_is_listed() {
        insta::assert_snapshot!(render_table(&eventful(), &Style::plain(60)), @r"
        deploy
          ✓  before-dispatch  held  41 ms
          ✗  after-acceptance  broken  41 ms
               ? quiet
               ✗ reconcile
          ✓  after-result  held  41 ms
               (✗) eof

        notes
          !  startup  error  3 ms
          ✓  idle  held  41 ms
          –  sent  ignored
        ");
    }

    #[test]
    fn an_answer_that_differs_between_repeats_has_a_shape_of_its_own() {
        let run = results(vec![unstable()]);
        insta::assert_snapshot!(render_table(&run, &Style::plain(80)), @r"
        deploy  eof  helpers
          sent  ✓    ~        broken    2.0 s

        ✓ held   ~ unstable
        ");
    }

    #[test]
    fn without_unicode_the_table_is_ascii() {
        let style = Style {
            unicode: false,
            ..Style::plain(80)
        };
        assert!(render_table(&eventful(), &style).is_ascii());
    }

    #[test]
    fn a_name_with_control_sequences_is_escaped() {
        let hostile = TrialName {
            variant: Some("x\u{1b}[2J\u{9b}1m\nheld".to_owned()),
            ..name("deploy", CrashPoint::Sent)
        };
        let mut run = results(vec![trial(
            &hostile,
            vec![answer(Question::Eof, Verdict::Held, "…")],
        )]);
        // As read from a file that somebody else wrote.
        run.trials[0].name = hostile.to_string();
        for width in [40, 80, 120] {
            let table = render_table(&run, &Style::plain(width));
            assert!(!table.contains(['\u{1b}', '\u{9b}']), "{table}");
            assert!(
                table.lines().all(|line| !line.starts_with("held")),
                "{table}"
            );
        }
    }
}

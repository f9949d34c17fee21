//! The matrix on a terminal: a row for each drill below its control, a shape for each question.

use std::fmt::Write as _;

use super::{Control, Gap, Matrix, Row, State};
use crate::report::{Shape, Style, columns_of, filled};
use crate::spec::Question;

const INDENT: usize = 2;
const GAP: usize = 2;

/// The table, what was not run, and where the evidence of what did not hold is.
#[must_use]
pub fn render_table(matrix: &Matrix, style: &Style) -> String {
    let rows = matrix.controls.iter().flat_map(|control| &control.rows);
    let drill = rows.map(|row| columns_of(&row.drill)).max().unwrap_or(0);
    let first = matrix
        .controls
        .iter()
        .map(|control| columns_of(&control.name))
        .max()
        .unwrap_or(0)
        .max(INDENT + drill)
        .min(style.width / 2);
    let mut out = String::new();
    let heads: Vec<String> = Question::ALL
        .iter()
        .map(|question| head(*question))
        .collect();
    let head = format!("{}{}", " ".repeat(first), heads.concat());
    let _ = writeln!(out, "{}", style.dim(&head));
    for control in &matrix.controls {
        write_control(&mut out, control, first, *style);
    }
    legend(&mut out, matrix, *style);
    out
}

/// Three letters are enough to tell them apart.
fn head(question: Question) -> String {
    let name = question.to_string();
    let short: String = name.chars().take(3).collect();
    format!("{}{short}", " ".repeat(GAP))
}

fn write_control(out: &mut String, control: &Control, first: usize, style: Style) {
    let state = style.paint(shape(&control.state), control.state.word());
    let _ = writeln!(
        out,
        "{}  {state}",
        style.bold(&filled(&control.name, first))
    );
    for row in &control.rows {
        let name = format!("{}{}", " ".repeat(INDENT), row.drill);
        let mut line = filled(&name, first);
        for cell in &row.cells {
            let shape = shape(&cell.state);
            let drawn = style.shape(shape);
            line.push_str(&" ".repeat(GAP));
            line.push_str(&style.paint(shape, drawn));
            line.push_str(&" ".repeat(3usize.saturating_sub(columns_of(drawn))));
        }
        let all = row.ran + row.not_run.len();
        let _ = write!(line, "  {} of {all}", row.ran);
        let _ = writeln!(out, "{line}");
        evidence(out, row, style);
    }
    for note in control.notes() {
        let indent = " ".repeat(2 * INDENT);
        let _ = writeln!(out, "{indent}{}", style.sentence(&note, 2 * INDENT));
    }
    out.push('\n');
}

/// Where to look at what did not hold.
fn evidence(out: &mut String, row: &Row, style: Style) {
    for cell in &row.cells {
        let worse = |state: &State| *state > State::Held;
        let bad = cell
            .proofs
            .iter()
            .filter(|proof| worse(&State::of(proof.verdict, proof.known)));
        for proof in bad {
            let state = State::of(proof.verdict, proof.known);
            let label = format!("{} {}  ", cell.question, state.word());
            let indent = 2 * INDENT + columns_of(&label);
            let said = format!("{}: {}", proof.trial, proof.because);
            let _ = writeln!(
                out,
                "{}{}{}",
                " ".repeat(2 * INDENT),
                style.paint(shape(&state), &label),
                style.sentence(&said, indent)
            );
            if let Some(href) = &proof.href {
                let _ = writeln!(out, "{}{}", " ".repeat(indent), style.dim(href));
            }
        }
    }
}

/// Only the shapes that occur.
fn legend(out: &mut String, matrix: &Matrix, style: Style) {
    let rows = matrix.controls.iter().flat_map(|control| &control.rows);
    let states: Vec<&State> = rows
        .flat_map(|row| &row.cells)
        .map(|cell| &cell.state)
        .collect();
    let all = [
        (Shape::Held, "held"),
        (Shape::Known, "broken, known"),
        (Shape::Unproven, "unproven"),
        (Shape::Broken, "broken"),
        (Shape::Error, "error"),
        (Shape::Skipped, "not evidenced"),
        (Shape::NotAsked, "not asked"),
    ];
    let drawn: Vec<String> = all
        .into_iter()
        .filter(|(drawn, _)| states.iter().any(|state| shape(state) == *drawn))
        .map(|(drawn, word)| format!("{} {word}", style.paint(drawn, style.shape(drawn))))
        .collect();
    let _ = writeln!(out, "{}", drawn.join("   "));
}

fn shape(state: &State) -> Shape {
    match state {
        State::Held => Shape::Held,
        State::Known => Shape::Known,
        State::NotEvidenced(Gap::NotAsked) => Shape::NotAsked,
        State::NotEvidenced(_) => Shape::Skipped,
        State::Unproven => Shape::Unproven,
        State::Broken => Shape::Broken,
        State::Error => Shape::Error,
    }
}

//! The controls that the drills are evidence for, as the matrix of `crate::export` has them.

use maud::{Markup, html};

use super::glance;
use super::verdict::verdict;
use crate::export::{Control, EndedRun, Gap, Matrix, Row, State};
use crate::report::{Results, RunFacts, Shape};
use crate::spec::Question;

pub(super) fn section(results: &Results, facts: &RunFacts) -> Markup {
    // Whether new snapshots fail changes nothing of what a control is evidenced by.
    let matrix = Matrix::of(&[EndedRun::new(results, facts, false)]);
    html! {
        section aria-labelledby="controls" {
            h2 id="controls" { "Controls" }
            @if matrix.controls.is_empty() {
                p { "No drill of this run names a control, so this run is evidence for none." }
            } @else {
                p {
                    "A control is evidenced by the drills that name it, as far as they were run. What an answer is worth "
                    "for a control, the reader decides."
                }
                (table(&matrix))
                @for control in &matrix.controls { (notes(control)) }
            }
        }
    }
}

fn table(matrix: &Matrix) -> Markup {
    html! {
        table.matrix.controls.q11 role="table" {
            caption { "Controls, and the drills that name them, by questions: the worst answer of all trials" }
            (glance::head("Control", &Question::ALL))
            @for control in &matrix.controls {
                tbody role="rowgroup" {
                    tr role="row" {
                        th.control colspan="12" scope="rowgroup" role="rowheader" { (control.name) " " (word(&control.state)) }
                    }
                    @for row in &control.rows { (one(row)) }
                }
            }
        }
    }
}

fn one(row: &Row) -> Markup {
    html! {
        tr role="row" {
            th scope="row" role="rowheader" {
                (row.drill) " " (word(&row.state))
                span.share { (row.ran) @if row.ran == 1 { " trial" } @else { " trials" } " ran" }
            }
            @for cell in &row.cells { (answer(&cell.state)) }
        }
    }
}

/// What was not run or is left out.
fn notes(control: &Control) -> Markup {
    html! {
        @for note in control.notes() { p.note { strong { (control.name) } ": " (note) } }
    }
}

fn shape(state: &State) -> Option<Shape> {
    Some(match state {
        State::Held => Shape::Held,
        State::Known => Shape::Known,
        State::Unproven => Shape::Unproven,
        State::Broken => Shape::Broken,
        State::Error => Shape::Error,
        State::NotEvidenced(Gap::NotAsked) => Shape::NotAsked,
        State::NotEvidenced(Gap::LeftOut(_)) => Shape::Skipped,
        State::NotEvidenced(Gap::NotRun(_)) => return None,
    })
}

/// A question that is not asked says nothing of a control; one that nobody ran leaves it without evidence.
fn answer(state: &State) -> Markup {
    if let Some(shape) = shape(state) {
        return glance::cell(shape, None);
    }
    html! {
        td.unproven.gap role="cell" { span.glyph aria-hidden="true" { "?" } " " span.word { (state.word()) } }
    }
}

fn word(state: &State) -> Markup {
    match state {
        State::NotEvidenced(_) => html! {
            span.verdict.unproven { span aria-hidden="true" { "?" } " " (state.word()) }
        },
        known => verdict(shape(known).unwrap_or(Shape::Unproven)),
    }
}

//! The controls that the drills are evidence for, as the matrix of `crate::export` has them.

use maud::{Markup, html};

use super::verdict::verdict;
use crate::export::{Cell, Control, EndedRun, Gap, Matrix, Row, State, asks};
use crate::report::{Results, RunFacts, Shape};

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
                @for control in &matrix.controls { (one(control)) }
            }
        }
    }
}

fn one(control: &Control) -> Markup {
    html! {
        h3 { (control.name) " " (state(&control.state)) }
        @for row in &control.rows {
            p.control {
                strong { (row.drill) } " " (state(&row.state)) " "
                (row.ran) @if row.ran == 1 { " trial" } @else { " trials" } " ran."
            }
            (cells(row))
        }
        @for note in control.notes() { p.note { (note) } }
    }
}

/// A question that no trial was asked says nothing of the control, and is left out.
fn cells(row: &Row) -> Markup {
    let says_something = |cell: &&Cell| cell.state != State::NotEvidenced(Gap::NotAsked);
    html! {
        ul.evidence {
            @for cell in row.cells.iter().filter(says_something) {
                li { (state(&cell.state)) " " span title=(asks(cell.question)) { (cell.question) } }
            }
        }
    }
}

fn state(state: &State) -> Markup {
    let shape = match state {
        State::Held => Shape::Held,
        State::Known => Shape::Known,
        State::Unproven => Shape::Unproven,
        State::Broken => Shape::Broken,
        State::Error => Shape::Error,
        State::NotEvidenced(_) => {
            return html! {
                span.verdict.unproven { span aria-hidden="true" { "?" } " " (state.word()) }
            };
        }
    };
    verdict(shape)
}

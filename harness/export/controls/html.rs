//! The matrix as a page that needs nothing besides itself. minijinja escapes whatever it puts in.

use minijinja::Environment;
use serde_json::{Value, json};

use super::super::ExportError;
use super::{Gap, Matrix, State};
use crate::spec::Question;

/// The name's ending is what turns escaping on.
const NAME: &str = "controls.html";

/// The page.
pub fn render_html(matrix: &Matrix) -> Result<String, ExportError> {
    let mut environment = Environment::new();
    environment.add_template(NAME, include_str!("controls.html"))?;
    let controls: Vec<Value> = matrix
        .controls
        .iter()
        .map(|control| {
            let rows: Vec<Value> = control.rows.iter().map(row).collect();
            json!({
                "name": control.name,
                "word": control.state.word(),
                "class": class(&control.state),
                "notes": control.notes(),
                "rows": rows,
            })
        })
        .collect();
    let questions: Vec<String> = Question::ALL.iter().map(ToString::to_string).collect();
    let page = environment.get_template(NAME)?;
    let shown = json!({ "runs": matrix.runs, "questions": questions, "controls": controls });
    Ok(page.render(minijinja::value::Serde(shown))?)
}

fn row(row: &super::Row) -> Value {
    let cells: Vec<Value> = row
        .cells
        .iter()
        .map(|cell| {
            json!({
                "question": cell.question.to_string(),
                "word": match cell.state {
                    State::NotEvidenced(Gap::NotAsked) => "not asked",
                    _ => cell.state.word(),
                },
                "class": class(&cell.state),
                "reason": cell.state.reason(),
                "proofs": cell.proofs,
            })
        })
        .collect();
    json!({
        "drill": row.drill,
        "about": row.about,
        "server": row.server,
        "word": row.state.word(),
        "class": class(&row.state),
        "ran": row.ran,
        "all": row.ran + row.not_run.len(),
        "shortfall": row.shortfall(),
        "cells": cells,
    })
}

/// The first word of the state, by which the page draws it.
fn class(state: &State) -> &'static str {
    match state {
        State::Held => "held",
        State::Known => "known",
        State::NotEvidenced(_) => "none",
        State::Unproven => "unproven",
        State::Broken => "broken",
        State::Error => "error",
    }
}

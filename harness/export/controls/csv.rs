//! The matrix as CSV (RFC 4180): a line for each control, drill and question.

use super::super::ExportError;
use super::{Matrix, Proof};

/// The matrix with a header; the header alone where no drill names a control.
pub fn render_csv(matrix: &Matrix) -> Result<String, ExportError> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    writer.write_record([
        "control",
        "control_state",
        "drill",
        "server",
        "question",
        "state",
        "reason",
        "trials",
        "trials_not_run",
        "evidence",
    ])?;
    for control in &matrix.controls {
        for row in &control.rows {
            for cell in &row.cells {
                let evidence: Vec<String> = cell.proofs.iter().map(link).collect();
                let record = [
                    &control.name,
                    control.state.word(),
                    &row.drill,
                    &row.server,
                    &cell.question.to_string(),
                    cell.state.word(),
                    &cell.state.reason(),
                    &cell.proofs.len().to_string(),
                    &row.not_run.len().to_string(),
                    &evidence.join(" "),
                ];
                writer.write_record(record.map(plain))?;
            }
        }
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where the answer's evidence is, or the trial's name where it has no folder.
fn link(proof: &Proof) -> String {
    let journal = |href: &String| format!("{href}/journal.jsonl");
    proof
        .href
        .as_ref()
        .map_or_else(|| proof.trial.replace(' ', "_"), journal)
}

/// A spreadsheet takes what begins like this for a formula; an apostrophe says that it is text.
fn plain(field: &str) -> String {
    let is_formula = field.starts_with([
        '=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ]);
    if is_formula {
        format!("'{field}")
    } else {
        field.to_owned()
    }
}

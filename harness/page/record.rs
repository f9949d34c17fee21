//! The server's record beside the four questions that somebody asks who finds a call without its session.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::journal::{Event, Line, Moment, Row};
use crate::judge::{Answer, Named, Whose};

/// So many rows of a record stand in its table.
const MOST: usize = 40;
/// The order of the columns; what else a drill could name does not exist.
const COLUMNS: [&str; 8] = [
    "outcome", "run", "process", "approval", "target", "key", "effect", "call",
];

/// The record of a trial as it was last read.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) rows: Vec<Row>,
    /// The lines that could be read before anything was dispatched, or at the crash point.
    pub(crate) early: BTreeSet<u64>,
    /// Which of the two the early look was.
    pub(crate) early_at: Option<Moment>,
    /// Why there is nothing to show.
    pub(crate) absent: Option<String>,
}

/// `None` where no record was asked for.
pub(crate) fn record(lines: &[Line]) -> Option<Record> {
    let reads = || {
        lines.iter().filter_map(|line| match &line.event {
            Event::RecordRead {
                moment,
                present,
                rows,
                unreadable,
                ..
            } => Some((*moment, *present, rows, unreadable)),
            _ => None,
        })
    };
    let (_, present, rows, unreadable) = reads().next_back()?;
    let early = reads().find(|(moment, ..)| *moment == Moment::Dispatch);
    let early = early.or_else(|| reads().find(|(moment, ..)| *moment == Moment::Point));
    let absent = match (unreadable, present) {
        (Some(why), _) => Some(format!("It could not be read: {why}.")),
        (None, false) => Some("There is none.".to_owned()),
        (None, true) if rows.is_empty() => Some("It has no row of this trial's calls.".to_owned()),
        (None, true) => None,
    };
    Some(Record {
        rows: rows.clone(),
        early: early
            .iter()
            .flat_map(|(_, _, rows, _)| rows.iter().map(|row| row.line))
            .collect(),
        early_at: early.map(|(moment, ..)| moment),
        absent,
    })
}

pub(crate) fn asks(whose: Whose) -> &'static str {
    match whose {
        Whose::Run => "Which run started it?",
        Whose::Process => "Which local process sent it?",
        Whose::Decision => "Which decision allowed it?",
        Whose::Operation => "Which external operation came of it?",
    }
}

/// What the answer to `ownership` says of each of the four.
pub(crate) fn named(answers: &[Answer]) -> &[Named] {
    answers
        .iter()
        .find(|answer| !answer.named.is_empty())
        .map_or(&[], |answer| answer.named.as_slice())
}

impl Record {
    /// The columns in which something stands.
    pub(crate) fn columns(&self) -> Vec<&'static str> {
        let is_used = |column: &&str| self.rows.iter().any(|row| row.text(column).is_some());
        COLUMNS.into_iter().filter(is_used).collect()
    }

    pub(crate) fn early_word(&self) -> &'static str {
        match self.early_at {
            Some(Moment::Dispatch) => "before dispatch",
            _ => "before the crash",
        }
    }
}

pub(super) fn section(record: &Record, named: &[Named]) -> Markup {
    let columns = record.columns();
    html! {
        @if !named.is_empty() {
            dl.four {
                @for one in named {
                    div {
                        dt { (asks(one.question)) }
                        dd {
                            @if one.answered {
                                span.verdict.held { "✓ answered" }
                                @if let Some(by) = &one.by { " by " code { (by) } }
                            } @else {
                                span.verdict.unproven { "? not answered" }
                                " by the record"
                            }
                        }
                    }
                }
            }
        }
        @if let Some(absent) = &record.absent {
            p.none { (absent) }
        } @else {
            table.facts {
                caption { "The rows of this trial's calls, as the record was last read" }
                thead {
                    tr {
                        th scope="col" { "Row" }
                        @for column in &columns { th scope="col" { (column) } }
                        th scope="col" { "Readable" }
                    }
                }
                tbody {
                    @for row in record.rows.iter().take(MOST) {
                        tr {
                            td.number data-label="Row" { (row.line) }
                            @for column in &columns {
                                td data-label=(column) {
                                    @match row.text(column) {
                                        Some(text) => code { (text) },
                                        None => "–",
                                    }
                                }
                            }
                            td data-label="Readable" {
                                @if record.early.contains(&row.line) { (record.early_word()) } @else { "later" }
                            }
                        }
                    }
                }
            }
            @if record.rows.len() > MOST {
                p { (record.rows.len() - MOST) " more rows stand in the journal." }
            }
        }
    }
}

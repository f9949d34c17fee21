//! What happened in a trial, row by row: what the picture draws and what the terminal lists.
//!
//! ```text
//!   journal lines ──> tell, one by one ──> rows ──> repeats put together ──> a tale
//! ```
//!
//! A server that polls makes the same requests again and again: they are told once, with a count. Every event that an
//! answer rests on has its row, however small it is.

use std::collections::BTreeSet;

use super::cast::{Cast, Life, When};
use super::tell::{Drawn, Told, tell};
use crate::journal::{Event, Line, Seq};
use crate::judge::Moments;

/// The longest run of rows that is looked for as a repeat.
const LONGEST_REFRAIN: usize = 6;
/// So many times the same in a row are told as one.
const REFRAIN_FROM: usize = 3;
/// A tale longer than this is cut in its middle, but for what answers rest on.
const MOST_ROWS: usize = 150;

/// One of the three moments that must not be taken for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instant {
    ClientGone,
    LastOperation,
    Revoked,
}

impl Instant {
    pub(crate) const ALL: [Self; 3] = [Self::ClientGone, Self::LastOperation, Self::Revoked];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::ClientGone => "client gone",
            Self::LastOperation => "last operation started",
            Self::Revoked => "authority revoked",
        }
    }

    /// What stands beside its row.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::ClientGone => "①",
            Self::LastOperation => "②",
            Self::Revoked => "③",
        }
    }

    /// When it came, in ns since the trial's start.
    pub(crate) fn of(self, moments: &Moments) -> Option<u64> {
        match self {
            Self::ClientGone => moments.client_gone,
            Self::LastOperation => moments.last_operation.as_ref().map(|last| last.at),
            Self::Revoked => moments.revoked,
        }
    }

    fn is(self, event: &Event) -> bool {
        match self {
            Self::ClientGone => matches!(event, Event::ClientGone { .. }),
            Self::LastOperation => matches!(event, Event::RequestReceived { .. }),
            Self::Revoked => matches!(event, Event::Revoked { .. }),
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The events that it stands for, the first of them first.
    pub(crate) seqs: Vec<Seq>,
    /// In ns since the trial's start.
    pub(crate) at: u64,
    /// The last of the events.
    pub(crate) last: When,
    /// UTC.
    pub(crate) time: String,
    pub(crate) told: Told,
    pub(crate) instant: Option<Instant>,
}

/// A whole trial.
#[derive(Debug, Default)]
pub(crate) struct Tale {
    pub(crate) rows: Vec<Row>,
    pub(crate) lives: Vec<Life>,
    /// In ns: the last event.
    pub(crate) end: u64,
}

impl Tale {
    /// `lines` are in the order of time; `cited` are the events on which answers rest.
    pub(crate) fn of(lines: &[Line], moments: &Moments, cited: &BTreeSet<Seq>) -> Self {
        let cast = Cast::of(lines);
        let plain = plain_connections(lines);
        let rows = lines.iter().filter_map(|line| {
            let mut told = tell(line, &cast)?;
            if let Event::ConnectionSought { connection, .. } = &line.event {
                told.minor = plain.contains(connection);
            }
            let instant = Instant::ALL
                .into_iter()
                .find(|instant| instant.is(&line.event) && instant.of(moments) == Some(line.at));
            let wanted = !told.minor || instant.is_some() || cited.contains(&line.seq);
            wanted.then(|| Row {
                seqs: vec![line.seq],
                at: line.at,
                last: line.place(),
                time: line.time.clone(),
                told,
                instant,
            })
        });
        let rows = without_empty_headings(rows.collect());
        Self {
            rows: cut(refrains(&rows), cited),
            lives: cast.lives().cloned().collect(),
            end: lines.last().map_or(0, |line| line.at),
        }
    }

    /// The row that stands for an event.
    pub(crate) fn row_of(&self, seq: Seq) -> Option<&Row> {
        self.rows.iter().find(|row| row.seqs.contains(&seq))
    }
}

impl Row {
    /// Where its first event stands in the order of time.
    pub(crate) fn place(&self) -> When {
        (self.at, self.seqs.first().copied().unwrap_or(0))
    }

    fn is_heading(&self) -> bool {
        self.told.drawn == Drawn::Heading
    }

    /// Says the same, and is nothing that stands for itself.
    fn repeats(&self, other: &Self) -> bool {
        !self.is_heading()
            && self.instant.is_none()
            && other.instant.is_none()
            && self.told.drawn == other.told.drawn
            && self.told.text == other.told.text
    }
}

/// Connections of which nothing is to be told but the request that they carried.
fn plain_connections(lines: &[Line]) -> BTreeSet<u32> {
    let mut carried = BTreeSet::new();
    let mut held = BTreeSet::new();
    for line in lines {
        match &line.event {
            Event::RequestReceived { connection, .. } => carried.insert(*connection),
            Event::ConnectionHeld { connection } => held.insert(*connection),
            _ => false,
        };
    }
    carried.difference(&held).copied().collect()
}

/// A step in which nothing was told needs no heading.
fn without_empty_headings(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        if row.is_heading() && kept.last().is_some_and(Row::is_heading) {
            kept.pop();
        }
        kept.push(row);
    }
    if kept.last().is_some_and(Row::is_heading) {
        kept.pop();
    }
    kept
}

/// Puts together what comes again and again: the first time stays, and one row stands for all the others.
fn refrains(rows: &[Row]) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::with_capacity(rows.len());
    let mut at = 0;
    while at < rows.len() {
        let Some((length, times)) = refrain(&rows[at..]) else {
            out.push(rows[at].clone());
            at += 1;
            continue;
        };
        let (first, again) = rows[at..at + length * times].split_at(length);
        match first {
            [alone] => out.push(many_times(alone, again)),
            first => {
                out.extend_from_slice(first);
                out.push(again_and_again(again, length));
            }
        }
        at += length * times;
    }
    out
}

/// How long the beginning is that comes again, and how often it comes; the shortest one.
fn refrain(rows: &[Row]) -> Option<(usize, usize)> {
    (1..=LONGEST_REFRAIN).find_map(|length| {
        let first = rows.get(..length)?;
        let again = rows
            .chunks_exact(length)
            .take_while(|chunk| chunk.iter().zip(first).all(|(a, b)| a.repeats(b)));
        let times = again.count();
        (times >= REFRAIN_FROM).then_some((length, times))
    })
}

fn many_times(first: &Row, again: &[Row]) -> Row {
    let times = again.len() + 1;
    let last = again.last().map_or(first.at, |row| row.at);
    Row {
        seqs: first
            .seqs
            .iter()
            .chain(again.iter().flat_map(|row| &row.seqs))
            .copied()
            .collect(),
        told: Told {
            text: format!("{}, {times} times, until {}", first.told.text, ms(last)),
            ..first.told.clone()
        },
        last: again.last().map_or(first.last, |row| row.last),
        ..first.clone()
    }
}

fn again_and_again(rows: &[Row], length: usize) -> Row {
    let times = rows.len() / length;
    let last = rows.last().map_or(0, |row| row.at);
    let first = &rows[0];
    Row {
        seqs: rows.iter().flat_map(|row| row.seqs.clone()).collect(),
        told: Told {
            text: format!("these {length} rows {times} times more, until {}", ms(last)),
            more: String::new(),
            ..first.told.clone()
        },
        last: rows.last().map_or(first.last, |row| row.last),
        ..first.clone()
    }
}

/// A long tale without its middle.
fn cut(rows: Vec<Row>, cited: &BTreeSet<Seq>) -> Vec<Row> {
    if rows.len() <= MOST_ROWS {
        return rows;
    }
    let (from, to) = (MOST_ROWS / 2, rows.len() - MOST_ROWS / 2);
    let mut out = Vec::new();
    let mut left_out: Vec<Row> = Vec::new();
    for (place, row) in rows.into_iter().enumerate() {
        let stays = !(from..to).contains(&place)
            || row.instant.is_some()
            || row.seqs.iter().any(|seq| cited.contains(seq));
        if !stays {
            left_out.push(row);
            continue;
        }
        out.extend(gap(std::mem::take(&mut left_out)));
        out.push(row);
    }
    out
}

fn gap(rows: Vec<Row>) -> Option<Row> {
    let count = rows.len();
    let first = rows.into_iter().next()?;
    let told = Told {
        drawn: Drawn::Across(super::tell::Mark::Note),
        text: format!("{count} rows left out: they stand in journal.jsonl"),
        more: String::new(),
        minor: false,
    };
    Some(Row { told, ..first })
}

/// Nanoseconds as `+12.3 ms`, `+123 ms` or `+1.234 s`: never much wider than the others.
pub(crate) fn ms(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a trial does not take years")]
    let ms = ns as f64 / 1e6;
    match ns {
        0..100_000_000 => format!("+{ms:.1} ms"),
        100_000_000..1_000_000_000 => format!("+{ms:.0} ms"),
        1_000_000_000..10_000_000_000 => format!("+{:.3} s", ms / 1e3),
        _ => format!("+{:.1} s", ms / 1e3),
    }
}

//! The picture of a trial, drawn.
//!
//! Each row is a link to itself, so that the keyboard reaches it, an answer can point at it, and what has no room in it comes up
//! where it is hovered or focused. No script: the style does it.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::cast::Lane;
use super::layout::{BASELINE, Bar, GUTTER, LEVEL, LINE, Layout, Place, WIDTH};
use super::tale::{Instant, Row, Tale, ms};
use super::tell::{Arrival, Drawn, Mark};
use crate::judge::Moments;

/// The text that comes up where a row is hovered.
const TIP_COLUMNS: usize = 50;
const TIP_LINES: usize = 7;
const TIP_LINE: u32 = 14;

/// The figure, with the moments above it and its legend below. `prefix` tells apart the rows of two trials.
pub(super) fn figure(name: &str, prefix: &str, tale: &Tale, moments: &Moments) -> Markup {
    let layout = Layout::of(tale);
    html! {
        figure.timeline role="group" aria-label={ "Timeline of " (name) } {
            (scale(moments, tale.end))
            @for (from, to) in &layout.pieces {
                (piece(prefix, tale, &layout, (*from, *to)))
            }
            (legend(tale, layout.unowned.is_some()))
        }
    }
}

/// The three moments, to scale.
fn scale(moments: &Moments, end: u64) -> Markup {
    const STEP: u32 = 20;
    const FROM: u32 = 150;
    const TO: u32 = WIDTH - 62;
    let x = |at: u64| {
        let length = u128::from(TO - FROM) * u128::from(at.min(end)) / u128::from(end.max(1));
        FROM + u32::try_from(length).unwrap_or(0)
    };
    let (width, height) = (WIDTH, STEP * 3 + 4);
    html! {
        svg.scale width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img"
            aria-label=(spoken(moments, end)) {
            @for (n, instant) in (0..).zip(Instant::ALL) {
                @let y = STEP * n + 14;
                text.label x="0" y=(y) { (instant.sign()) " " (instant.word()) }
                line.track x1=(FROM) x2=(TO) y1=(y - 4) y2=(y - 4) {}
                @if let Some(at) = instant.of(moments) {
                    line.value x1=(FROM) x2=(x(at)) y1=(y - 4) y2=(y - 4) {}
                    circle cx=(x(at)) cy=(y - 4) r="4" {}
                    text.time x=(WIDTH) y=(y) text-anchor="end" { (ms(at)) }
                } @else {
                    text.time x=(WIDTH) y=(y) text-anchor="end" { "never" }
                }
            }
        }
    }
}

/// The scale for whoever does not see it.
fn spoken(moments: &Moments, end: u64) -> String {
    let told: Vec<String> = Instant::ALL
        .into_iter()
        .map(|instant| {
            let at = instant.of(moments).map_or_else(|| "never".to_owned(), ms);
            format!("{}: {at}", instant.word())
        })
        .collect();
    format!("{}; the trial ended at {}", told.join(", "), ms(end))
}

/// One step of the trial.
fn piece(prefix: &str, tale: &Tale, layout: &Layout, (from, to): (u32, u32)) -> Markup {
    let (width, height) = (WIDTH, to - from);
    let rows = tale.rows.iter().zip(&layout.places);
    let rows = rows.filter(|(_, place)| (from..to).contains(&place.top));
    html! {
        svg width=(width) height=(height) viewBox={ "0 " (from) " " (width) " " (height) } role="group" {
            (ground(layout, from, to))
            @for (row, place) in rows {
                (drawn_row(prefix, row, place, layout))
            }
        }
    }
}

/// What lies below the rows of a piece: the lanes, who lives when, and the time in which nobody owns what happens.
fn ground(layout: &Layout, from: u32, to: u32) -> Markup {
    let within = |top: u32, bottom: u32| {
        let (top, bottom) = (top.max(from), bottom.min(to));
        (top < bottom).then(|| (top, bottom - top))
    };
    let names = layout
        .names
        .iter()
        .copied()
        .find(|y| (from..to).contains(y));
    // Nothing is drawn through the names, which stand at the top of their piece.
    let below = names.map_or(from, |y| y + 2 * LEVEL + 4);
    html! {
        @if let Some((y, height)) = layout.unowned.and_then(|(top, bottom)| within(top, bottom)) {
            rect.unowned x=(GUTTER) y=(y) width=(WIDTH - GUTTER) height=(height) {}
        }
        @for (n, (lane, x)) in layout.lanes.iter().enumerate() {
            @let is_low = n % 2 == 1;
            @if let Some(y) = names {
                text.name x=(x) y=(y + 10 + if is_low { LEVEL } else { 0 }) text-anchor="middle" { (lane.word()) }
            }
            @let top = names.filter(|_| !is_low).map_or(below, |y| y + LEVEL + 2);
            line.lane x1=(x) x2=(x) y1=(top) y2=(to) {}
        }
        @for bar in &layout.bars {
            @if let Some((y, height)) = within(bar.from.max(below), bar.to) { (life(bar, y, height)) }
        }
    }
}

fn life(bar: &Bar, y: u32, height: u32) -> Markup {
    let lane = bar.lane.word();
    let open = if bar.open { " open" } else { "" };
    html! {
        rect class={ "life " (lane) (open) } x=(bar.x - 2) y=(y) width="5" height=(height) {}
    }
}

fn drawn_row(prefix: &str, row: &Row, place: &Place, layout: &Layout) -> Markup {
    if row.told.drawn == Drawn::Heading {
        return words("phase", place, layout);
    }
    let first = row.seqs.first().copied().unwrap_or(0);
    let id = format!("{prefix}e{first}");
    let to = layout.words - 4;
    html! {
        a.row.(tone(row)) id=(id) href={ "#" (id) } {
            rect.hit x="0" y=(place.top) width=(WIDTH) height=(place.height) {}
            @if row.instant.is_some() {
                line.instant x1=(GUTTER) x2=(to) y1=(place.axis) y2=(place.axis) {}
            }
            (shape(row, place.axis, layout))
            text.time x=(GUTTER - 6) y=(place.top + BASELINE) text-anchor="end" { (ms(row.at)) }
            (words("text", place, layout))
            (tip(row, place))
        }
    }
}

fn words(class: &str, place: &Place, layout: &Layout) -> Markup {
    html! {
        @for (n, line) in (0..).zip(&place.words) {
            text.(class) x=(layout.words) y=(place.top + BASELINE + LINE * n) { (line) }
        }
    }
}

fn tone(row: &Row) -> &'static str {
    let mark = match row.told.drawn {
        Drawn::At(_, mark) | Drawn::Across(mark) => mark,
        Drawn::Heading | Drawn::Arrow { .. } => Mark::Note,
    };
    match mark {
        Mark::Crash => "crash",
        Mark::Trouble => "trouble",
        Mark::Effect => "effect",
        Mark::Refused => "refused",
        Mark::Revoked => "revoked",
        Mark::Eof => "eof",
        Mark::Start | Mark::Exit | Mark::Note => "plain",
    }
}

fn shape(row: &Row, y: u32, layout: &Layout) -> Markup {
    match row.told.drawn {
        Drawn::Heading => html! {},
        Drawn::Arrow { from, to, arrival } => arrow(layout.x(from), layout.x(to), y, arrival),
        Drawn::At(lane, mark) => marked(layout.x(lane), y, mark),
        Drawn::Across(mark) => html! {
            line.across x1=(GUTTER) x2=(layout.words - 4) y1=(y) y2=(y) {}
            @if mark != Mark::Note {
                (marked(layout.lanes.first().map_or(GUTTER, |(_, x)| *x), y, mark))
            }
        },
    }
}

/// An arrow that does not arrive is broken off before its end.
fn arrow(from: u32, to: u32, y: u32, arrival: Arrival) -> Markup {
    let (from, to) = (f64::from(from), f64::from(to));
    let towards = if to >= from { 1.0 } else { -1.0 };
    let start = from + 4.0 * towards;
    let short_of = if arrival == Arrival::Lost { 16.0 } else { 4.0 };
    let end = to - short_of * towards;
    let back = end - 7.0 * towards;
    let class = match arrival {
        Arrival::Whole => "",
        Arrival::Reaching => " reaching",
        Arrival::Lost => " lost",
    };
    html! {
        path class={ "arrow" (class) } d={ "M" (start) " " (y) "H" (end) } {}
        @if arrival == Arrival::Lost {
            path.cross d={ "M" (end - 4.0) " " (y - 4) "l8 8m0-8l-8 8" } {}
        } @else {
            path class={ "head" (class) } d={ "M" (end) " " (y) "L" (back) " " (y - 4) "V" (y + 4) "z" } {}
        }
    }
}

fn marked(x: u32, y: u32, mark: Mark) -> Markup {
    html! {
        path class={ "mark " (mark_name(mark)) } d={ "M" (x) " " (y) (outline(mark)) } {}
    }
}

/// A shape of its own for each kind, so that none is told by its colour.
fn outline(mark: Mark) -> &'static str {
    match mark {
        Mark::Note => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
        Mark::Start => "m-5-4h10l-5 8z",
        Mark::Exit => "m-5-5h10v10h-10z",
        Mark::Crash => "m-7-7l14 14m0-14l-14 14",
        Mark::Eof => "m-8-2h16m-16 5h16",
        Mark::Effect => "m0-7l7 7-7 7-7-7z",
        Mark::Refused => "m-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0zm2-4l8 8",
        Mark::Revoked => "m-4-7h8l4 7-4 7h-8l-4-7z",
        Mark::Trouble => "m0-7l7 12h-14z",
    }
}

fn mark_name(mark: Mark) -> &'static str {
    match mark {
        Mark::Note => "note",
        Mark::Start => "start",
        Mark::Exit => "exit",
        Mark::Crash => "crash",
        Mark::Eof => "eof",
        Mark::Effect => "effect",
        Mark::Refused => "refused",
        Mark::Revoked => "revoked",
        Mark::Trouble => "trouble",
    }
}

fn mark_word(mark: Mark) -> &'static str {
    match mark {
        Mark::Note => "something was seen",
        Mark::Start => "a process starts",
        Mark::Exit => "a process ends",
        Mark::Crash => "the crash",
        Mark::Eof => "EOF reached the server",
        Mark::Effect => "the remote applied an effect",
        Mark::Refused => "refused",
        Mark::Revoked => "revoked",
        Mark::Trouble => "a signal, or something went wrong",
    }
}

/// What has no room in a row, above it: what was drawn before lies below, so nothing covers it.
fn tip(row: &Row, place: &Place) -> Markup {
    let mut lines = wrapped(&row.told.more);
    if lines.len() > TIP_LINES {
        lines.truncate(TIP_LINES - 1);
        lines.push("…".to_owned());
    }
    let events = match row.seqs.as_slice() {
        [first, .., last] => format!("events {first} to {last}"),
        [first] => format!("event {first}"),
        [] => String::new(),
    };
    lines.push(format!("{events}, {}", row.time));
    let height = TIP_LINE * u32::try_from(lines.len()).unwrap_or(1) + 8;
    let top = f64::from(place.top) - f64::from(height) + 2.0;
    html! {
        g.tip {
            rect x=(GUTTER - 8) y=(top) width=(WIDTH - GUTTER + 8) height=(height) rx="3" {}
            @for (n, line) in (1..).zip(&lines) {
                text x=(GUTTER) y=(top + f64::from(TIP_LINE * n)) { (line) }
            }
        }
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return Vec::new();
    }
    let lines = textwrap::wrap(&text, TIP_COLUMNS);
    lines
        .into_iter()
        .map(std::borrow::Cow::into_owned)
        .collect()
}

/// What the shapes mean, of those that occur.
fn legend(tale: &Tale, unowned: bool) -> Markup {
    let marks: BTreeSet<&str> = tale
        .rows
        .iter()
        .filter_map(|row| match row.told.drawn {
            Drawn::At(_, mark) | Drawn::Across(mark) => Some(mark_name(mark)),
            Drawn::Heading | Drawn::Arrow { .. } => None,
        })
        .collect();
    let all = [
        Mark::Start,
        Mark::Exit,
        Mark::Crash,
        Mark::Eof,
        Mark::Effect,
        Mark::Refused,
        Mark::Revoked,
        Mark::Trouble,
        Mark::Note,
    ];
    let is_drawn = |wanted| {
        let mut rows = tale.rows.iter();
        rows.any(|row| matches!(row.told.drawn, Drawn::Arrow { arrival, .. } if arrival == wanted))
    };
    let arrows = [
        (Arrival::Reaching, "reaches for it: nothing is sent yet"),
        (Arrival::Lost, "not whole, or it did not arrive"),
    ];
    let has_helpers = tale.lives.iter().any(|life| life.lane == Lane::Helpers);
    html! {
        figcaption {
            ul.legend {
                @for mark in all {
                    @if marks.contains(mark_name(mark)) {
                        li {
                            svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true" {
                                (marked(9, 9, mark))
                            }
                            (mark_word(mark))
                        }
                    }
                }
                @for (arrival, meaning) in arrows {
                    @if is_drawn(arrival) {
                        li {
                            svg width="38" height="18" viewBox="0 0 38 18" aria-hidden="true" { (arrow(0, 40, 9, arrival)) }
                            (meaning)
                        }
                    }
                }
                @if unowned {
                    li {
                        svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true" {
                            rect.unowned x="0" y="2" width="18" height="14" {}
                        }
                        "the client is gone, and its authority still counts"
                    }
                }
            }
            p {
                "Time goes down and is not to scale; a bar is the life of a process."
                @if has_helpers {
                    " A helper's bar begins where it was first seen."
                }
            }
        }
    }
}

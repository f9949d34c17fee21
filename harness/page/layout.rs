//! Where everything stands in the picture of a trial: a lane for each party, time going down, a row for each event.
//!
//! Rows are one below the other and not to scale, so that none covers another and each has room for its words: a trial has
//! twenty events in a millisecond and then none for half a second. The times stand left of the lanes and the words right of
//! them, in as many lines as they need: nothing that is drawn goes through a word.

use super::cast::{Lane, Life, When};
use super::letters::wrapped;
use super::tale::{Instant, Tale};
use super::tell::{Drawn, Mark};
use crate::journal::Seq;

/// All lengths are in CSS pixels. The picture is as wide as a phone, and so is never scaled.
pub(super) const WIDTH: u32 = 356;
/// What stands left of it are the times.
pub(super) const GUTTER: u32 = 60;
/// From one lane to the next.
const STEP: u32 = 26;
/// Between the last lane and the words, where a lane may have several processes beside each other.
const MARGIN: u32 = 12;
/// The size of letters, and from one line of words to the next.
const SIZE: u32 = 11;
pub(super) const LINE: u32 = 13;
/// From the top of a row to the foot of its first line.
pub(super) const BASELINE: u32 = 14;
/// From the top of a row to what is drawn in it.
const AXIS: u32 = 10;
/// What a row has below the foot of its last line.
const BELOW: u32 = 7;
/// The names of the lanes stand on two levels, so that neighbours have room.
pub(super) const LEVEL: u32 = 12;
const NAMES: u32 = 2 * LEVEL + 6;
/// They come again at a heading where they are further away than this.
const NAMES_EVERY: u32 = 420;
/// Between two processes of one lane that live at the same time.
const SLOT: u32 = 7;
const SLOTS: usize = 4;

/// A row and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) top: u32,
    pub(super) height: u32,
    /// Where it is drawn.
    pub(super) axis: u32,
    /// Its words, a line each.
    pub(super) words: Vec<String>,
}

/// The time of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) lane: Lane,
    pub(super) x: u32,
    pub(super) from: u32,
    pub(super) to: u32,
    /// Nobody saw its end.
    pub(super) open: bool,
}

#[derive(Debug)]
pub(super) struct Layout {
    pub(super) lanes: Vec<(Lane, u32)>,
    /// Where the words begin.
    pub(super) words: u32,
    /// One for each row of the tale.
    pub(super) places: Vec<Place>,
    /// Where the names of the lanes stand.
    pub(super) names: Vec<u32>,
    /// A picture for each step of the trial, from top to bottom: paper may be cut between two of them.
    pub(super) pieces: Vec<(u32, u32)>,
    pub(super) bars: Vec<Bar>,
    /// The client is gone, and its authority still counts.
    pub(super) unowned: Option<(u32, u32)>,
    pub(super) height: u32,
}

impl Layout {
    pub(super) fn of(tale: &Tale) -> Self {
        let lanes = lanes(tale);
        let words = words_at(&lanes);
        let space = (WIDTH - words) * 100 / SIZE;
        let (mut top, mut names, mut cuts) = (NAMES, vec![0], vec![0]);
        let mut places = Vec::with_capacity(tale.rows.len());
        for row in &tale.rows {
            let is_heading = row.told.drawn == Drawn::Heading;
            let last_names = names.last().copied().unwrap_or(0);
            if is_heading && top > NAMES {
                cuts.push(top);
            }
            if is_heading && top - last_names > NAMES_EVERY {
                names.push(top);
                top += NAMES;
            }
            let wrapped_words = match row.instant {
                Some(instant) => wrapped(&format!("{} {}", instant.sign(), row.told.text), space),
                // Bold letters are wider.
                None if is_heading || is_bold(row.told.drawn) => {
                    wrapped(&row.told.text, space * 9 / 10)
                }
                None => wrapped(&row.told.text, space),
            };
            let more = LINE * u32::try_from(wrapped_words.len().saturating_sub(1)).unwrap_or(0);
            let height = BASELINE + more + BELOW;
            places.push(Place {
                top,
                height,
                axis: top + AXIS,
                words: wrapped_words,
            });
            top += height;
        }
        let height = top + 6;
        let ends = cuts.iter().copied().skip(1).chain([height]);
        let pieces = cuts.iter().copied().zip(ends).collect();
        let mut layout = Self {
            lanes,
            words,
            places,
            names,
            pieces,
            bars: Vec::new(),
            unowned: None,
            height,
        };
        layout.unowned = layout.unowned(tale);
        layout.bars = layout.bars(tale);
        layout
    }

    pub(super) fn x(&self, lane: Lane) -> u32 {
        let found = self.lanes.iter().find(|(known, _)| *known == lane);
        found.map_or(GUTTER, |(_, x)| *x)
    }

    fn unowned(&self, tale: &Tale) -> Option<(u32, u32)> {
        let axis = |instant| {
            let place = tale
                .rows
                .iter()
                .position(|row| row.instant == Some(instant))?;
            Some(self.places[place].axis)
        };
        let from = axis(Instant::ClientGone)?;
        let to = axis(Instant::Revoked)?;
        (from < to).then_some((from, to))
    }

    fn bars(&self, tale: &Tale) -> Vec<Bar> {
        let mut lives: Vec<&Life> = tale.lives.iter().collect();
        lives.sort_by_key(|life| life.from);
        let mut taken: Vec<(Lane, usize, When)> = Vec::new();
        let mut bars = Vec::new();
        for life in lives {
            let until = life.to.unwrap_or((u64::MAX, Seq::MAX));
            let is_free = |slot: usize| {
                taken.iter().all(|(lane, other, end)| {
                    *lane != life.lane || *other != slot || *end <= life.from
                })
            };
            let Some(slot) = (0..SLOTS).find(|slot| is_free(*slot)) else {
                continue;
            };
            taken.push((life.lane, slot, until));
            let from = self.y(tale, life.from);
            let to = life.to.map_or(self.height, |ended| self.y(tale, ended));
            bars.push(Bar {
                lane: life.lane,
                x: self.x(life.lane) + SLOT * u32::try_from(slot).unwrap_or(0),
                from,
                to: to.max(from + 3),
                open: life.to.is_none(),
            });
        }
        bars
    }

    /// Where an event would be drawn, whether it has a row or not.
    fn y(&self, tale: &Tale, when: When) -> u32 {
        let row = tale.rows.iter().position(|row| row.last >= when);
        row.map_or(self.height, |row| self.places[row].axis)
    }
}

/// The lanes in which something stands.
fn lanes(tale: &Tale) -> Vec<(Lane, u32)> {
    let is_used = |lane: &Lane| {
        tale.lives.iter().any(|life| life.lane == *lane)
            || tale.rows.iter().any(|row| match row.told.drawn {
                Drawn::Arrow { from, to, .. } => from == *lane || to == *lane,
                Drawn::At(at, _) => at == *lane,
                Drawn::Heading | Drawn::Across(_) => false,
            })
    };
    let used: Vec<Lane> = Lane::ALL.into_iter().filter(is_used).collect();
    let places = (0..).map(|place| GUTTER + STEP * place + STEP / 2);
    used.into_iter().zip(places).collect()
}

/// Right of the last lane.
fn words_at(lanes: &[(Lane, u32)]) -> u32 {
    let last = lanes.last().map_or(GUTTER, |(_, x)| x + STEP / 2);
    last + MARGIN
}

fn is_bold(drawn: Drawn) -> bool {
    match drawn {
        Drawn::At(_, mark) | Drawn::Across(mark) => matches!(mark, Mark::Crash | Mark::Trouble),
        Drawn::Heading | Drawn::Arrow { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::journal::{Event, Exit, Line, Session};
    use crate::judge::Moments;

    fn lines(events: Vec<Event>) -> Vec<Line> {
        let numbered = (0..).zip(events);
        let line = |(seq, event)| Line {
            seq,
            at: seq * 1_000_000,
            time: String::new(),
            event,
            prev: String::new(),
            hash: String::new(),
        };
        numbered.map(line).collect()
    }

    fn crash() -> Vec<Line> {
        lines(vec![
            Event::ClientStarted {
                session: Session::A,
                pid: 2,
            },
            Event::ServerStarted {
                session: Session::A,
                pid: 3,
                argv: Vec::new(),
            },
            Event::ClientGone {
                pid: 2,
                exit: Exit::Signal {
                    number: 9,
                    core: false,
                },
            },
            Event::Revoked {
                run: Session::A,
                of: crate::spec::Revocable::Run,
                by: String::new(),
            },
        ])
    }

    fn tale() -> Tale {
        let moments = Moments {
            crash: None,
            client_gone: Some(2_000_000),
            last_operation: None,
            revoked: Some(3_000_000),
        };
        Tale::of(&crash(), &moments, &BTreeSet::new())
    }

    #[test]
    fn no_row_covers_another() {
        let layout = Layout::of(&tale());
        for pair in layout.places.windows(2) {
            assert!(pair[0].top + pair[0].height <= pair[1].top);
        }
    }

    #[test]
    fn words_are_right_of_all_that_is_drawn_and_each_has_a_line() {
        let layout = Layout::of(&tale());
        for (_, x) in &layout.lanes {
            let widest = SLOT * u32::try_from(SLOTS).unwrap();
            assert!(x + widest <= layout.words + 4, "{layout:?}");
        }
        let mut tale = tale();
        let long = "request 1 was applied, and its reply is withheld. ".repeat(5);
        tale.rows[0].told.text = long.trim_end().to_owned();
        let place = &Layout::of(&tale).places[0];
        assert_eq!(place.words.join(" "), long.trim_end());
        let lines = u32::try_from(place.words.len()).unwrap();
        assert_eq!(place.height, BASELINE + LINE * (lines - 1) + BELOW);
    }

    #[test]
    fn the_pieces_are_the_whole_picture() {
        let layout = Layout::of(&tale());
        let heights: u32 = layout.pieces.iter().map(|(from, to)| to - from).sum();
        assert_eq!(heights, layout.height);
    }

    #[test]
    fn a_client_ends_where_it_is_gone_and_a_server_that_nobody_saw_end_goes_on() {
        let layout = Layout::of(&tale());
        let bar = |lane| layout.bars.iter().find(|bar| bar.lane == lane).unwrap();
        assert_eq!(bar(Lane::Client).to, layout.places[2].axis);
        assert!(bar(Lane::Server).open);
        assert_eq!(bar(Lane::Server).to, layout.height);
    }

    #[test]
    fn the_time_between_the_end_of_the_client_and_the_revocation_is_marked() {
        let layout = Layout::of(&tale());
        let places = &layout.places;
        assert_eq!(layout.unowned, Some((places[2].axis, places[3].axis)));
    }

    #[test]
    fn lanes_in_which_nothing_stands_are_left_out() {
        let layout = Layout::of(&tale());
        let lanes: Vec<Lane> = layout.lanes.iter().map(|(lane, _)| *lane).collect();
        assert_eq!(lanes, [Lane::Client, Lane::Server, Lane::Authority]);
        assert!(layout.lanes.iter().all(|(_, x)| *x < WIDTH));
    }
}

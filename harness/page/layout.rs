//! Where everything stands in the picture of a trial: a lane for each party, time going down, a row for each event.
//!
//! Rows are one below the other and not to scale, so that none covers another and each has room for its words: a trial has
//! twenty events in a millisecond and then none for half a second. The times stand beside the rows.

use super::cast::{Lane, Life};
use super::tale::{Instant, Tale};
use super::tell::Drawn;
use crate::journal::Seq;

/// All lengths are in CSS pixels. The picture is as wide as a phone, and so is never scaled.
pub(super) const WIDTH: u32 = 356;
/// What stands left of it are the times.
pub(super) const GUTTER: u32 = 60;
const ROW: u32 = 31;
/// From the top of a row to what is drawn in it; its words stand above.
const AXIS: u32 = 21;
const HEADING: u32 = 27;
const NAMES: u32 = 20;
/// The names of the lanes come again at a heading where they are further away than this.
const NAMES_EVERY: u32 = 420;
/// Between two processes of one lane that live at the same time.
const SLOT: u32 = 7;
const SLOTS: usize = 4;

/// A row and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) top: u32,
    pub(super) height: u32,
    /// Where it is drawn.
    pub(super) axis: u32,
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
        let (mut top, mut names, mut cuts) = (NAMES, vec![0], vec![0]);
        let mut places = Vec::with_capacity(tale.rows.len());
        for row in &tale.rows {
            let is_heading = row.told.drawn == Drawn::Heading;
            let last_names = names.last().copied().unwrap_or(0);
            if is_heading && top > NAMES {
                cuts.push(top);
            }
            if is_heading && top - last_names > NAMES_EVERY {
                names.push(top + 4);
                top += NAMES + 4;
            }
            let height = if is_heading { HEADING } else { ROW };
            let axis = top + if is_heading { HEADING - 5 } else { AXIS };
            places.push(Place { top, height, axis });
            top += height;
        }
        let height = top + 6;
        let ends = cuts.iter().copied().skip(1).chain([height]);
        let pieces = cuts.iter().copied().zip(ends).collect();
        let mut layout = Self {
            lanes,
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
        let mut taken: Vec<(Lane, usize, Seq)> = Vec::new();
        let mut bars = Vec::new();
        for life in lives {
            let until = life.to.unwrap_or(Seq::MAX);
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
    fn y(&self, tale: &Tale, seq: Seq) -> u32 {
        let row = tale
            .rows
            .iter()
            .position(|row| row.seqs.iter().any(|own| *own >= seq));
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
    let count = u32::try_from(used.len()).unwrap_or(1).max(1);
    let step = (WIDTH - GUTTER) / count;
    let places = (0..count).map(|place| GUTTER + step * place + step / 2);
    used.into_iter().zip(places).collect()
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

//! Whether a row of the record was on the disk before its effect was sought: what a power cut could not have taken.
//!
//! Only the gate sees this, since a reader sees what was written, synced or not. A sync covers what stood in the log when it
//! began, and stands in the journal once it has returned; a log that is opened with `O_SYNC` or `O_DSYNC` needs none. What
//! a machine does with a sync is beyond anybody's sight here.
#![forbid(unsafe_code)]

use crate::journal::{Event, Row, Seq};
use crate::spec::SyscallName;

use super::history::{History, Seen};

/// What is known of a row and the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Durability {
    /// On the disk before dispatch.
    Synced {
        evidence: Vec<Seq>,
    },
    NotSynced {
        evidence: Vec<Seq>,
    },
    /// The gate could not see it.
    Unseen {
        because: String,
        evidence: Vec<Seq>,
    },
}

/// How this row stood with the disk when this connection was sought, or at the crash where none was. None where the drill
/// has no gate.
pub(super) fn of(history: &History<'_>, row: &Row, connection: Option<u32>) -> Option<Durability> {
    if !history.drill.is_gated(history.crash) {
        return None;
    }
    let dispatch = dispatch(history, connection);
    let before = |seen: &Seen<'_>| dispatch.is_none_or(|dispatch| seen.place < dispatch.place);
    let evidence = |seen: &[Seq]| -> Vec<Seq> {
        seen.iter()
            .copied()
            .chain(dispatch.map(|d| d.seq))
            .collect()
    };
    let Some(end) = row.end else {
        return Some(Durability::Unseen {
            because: "the journal does not say where the row ends".to_owned(),
            evidence: evidence(&[]),
        });
    };
    let mut opened = Vec::new();
    let mut synced = None;
    let mut blind = None;
    for seen in history.all().filter(before) {
        match seen.event {
            Event::RecordOpened { synchronous, .. } => opened.push((seen.seq, *synchronous)),
            Event::RecordSynced { bytes, .. } if *bytes >= end => {
                synced.get_or_insert(seen.seq);
            }
            Event::GateUnavailable { because } => blind = Some((seen.seq, because)),
            _ => {}
        }
    }
    if let Some(synced) = synced {
        return Some(Durability::Synced {
            evidence: evidence(&[synced]),
        });
    }
    if !opened.is_empty() && opened.iter().all(|(_, synchronous)| *synchronous) {
        let opened: Vec<Seq> = opened.iter().map(|(seq, _)| *seq).collect();
        return Some(Durability::Synced {
            evidence: evidence(&opened),
        });
    }
    Some(match blind {
        Some((seq, because)) => Durability::Unseen {
            because: because.clone(),
            evidence: evidence(&[seq]),
        },
        None => Durability::NotSynced {
            evidence: evidence(&[]),
        },
    })
}

/// The moment before which the row must be on the disk. A connection is seen on its way or, below a subreaper, by polling;
/// the call that makes it is seen earlier, and the nth connection to the remote is made by the nth such call.
fn dispatch<'a>(history: &History<'a>, connection: Option<u32>) -> Option<Seen<'a>> {
    let window = history.window_a();
    let Some(connection) = connection else {
        // Nothing was sought, or nothing that is known to carry the effect: what counts is the call that was held.
        return held_connect(history).or_else(|| history.crash_fired());
    };
    let sought = history
        .ledger
        .connections
        .get(&connection)
        .and_then(|connection| connection.sought);
    let nth = history
        .ledger
        .connections
        .iter()
        .filter(|(number, other)| {
            **number < connection && other.sought.is_some_and(|s| window.contains(s.place))
        })
        .count();
    let mut calls = connects(history);
    let called = calls.nth(nth);
    match (called, sought) {
        (Some(called), Some(sought)) if called.place < sought.place => Some(called),
        (called, sought) => sought.or(called),
    }
}

/// The calls of session A that connect to the remote.
fn connects<'a>(history: &History<'a>) -> impl Iterator<Item = Seen<'a>> {
    let remote = history.remote_port().map(|port| format!(":{port}"));
    history
        .within(history.window_a())
        .filter(move |seen| match (seen.event, &remote) {
            (
                Event::SyscallEntered {
                    name: SyscallName::Connect,
                    detail,
                    ..
                },
                Some(remote),
            ) => detail.ends_with(remote.as_str()),
            _ => false,
        })
}

/// The connect to the remote in which the server was held.
pub(super) fn held_connect<'a>(history: &History<'a>) -> Option<Seen<'a>> {
    let held = history.all().find_map(|seen| match seen.event {
        Event::SyscallHeld {
            name: SyscallName::Connect,
            nth,
            ..
        } => Some(*nth),
        _ => None,
    })?;
    connects(history)
        .find(|seen| matches!(seen.event, Event::SyscallEntered { nth, .. } if *nth == held))
}

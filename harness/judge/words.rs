//! The words of an ownership log, and what they claim.
#![forbid(unsafe_code)]

use crate::journal::Row;
use crate::spec::{Asked, Drill, Outcomes, Ownership};

/// What a row of the log claims of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    Intended,
    Success,
    Failed,
    Refused,
    Unknown,
}

/// What this row claims, if its word is one of the drill's.
pub(super) fn claim(row: &Row, words: &Outcomes) -> Option<Claim> {
    let word = row.text("outcome")?;
    let is = |list: &[String]| list.iter().any(|known| known.eq_ignore_ascii_case(&word));
    [
        (&words.intended, Claim::Intended),
        (&words.success, Claim::Success),
        (&words.failed, Claim::Failed),
        (&words.refused, Claim::Refused),
        (&words.unknown, Claim::Unknown),
    ]
    .into_iter()
    .find(|(list, _)| is(list))
    .map(|(_, claim)| claim)
}

/// The last row that claims an outcome, and what it claims.
pub(super) fn outcome<'r>(rows: &[&'r Row], words: &Outcomes) -> Option<(&'r Row, Claim)> {
    rows.iter().rev().find_map(|row| {
        let claim = claim(row, words)?;
        (claim != Claim::Intended).then_some((*row, claim))
    })
}

/// The ownership log of a drill, unless it names none or leaves the question out.
pub(super) fn log(drill: &Drill) -> Option<&Ownership> {
    drill.expect.ownership.as_ref().and_then(Asked::ask)
}

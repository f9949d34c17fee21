//! The events that prove two answers, side by side.

use std::collections::BTreeSet;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::difference::{Pair, Shown};
use super::names::Names;
use crate::journal::{Line, Seq, excerpt};
use crate::report::one_line;

/// So many events of an answer are compared.
const MOST: usize = 200;
/// How much of an event is compared and kept, in bytes.
const LONGEST: usize = 16 * 1024;

/// The events of these numbers, without what varies, in the order of the lines.
pub(super) fn of(lines: &[Line], evidence: &[Seq]) -> Vec<Shown> {
    let names = Names::of(lines);
    let evidence: BTreeSet<&Seq> = evidence.iter().take(MOST).collect();
    lines
        .iter()
        .filter(|line| evidence.contains(&line.seq))
        .map(|line| Shown {
            seq: line.seq,
            event: excerpt(&one_line(&names.spell(&line.event)), LONGEST),
        })
        .collect()
}

/// Those that differ, and how many are the same.
pub(super) fn differing(a: &[Shown], b: &[Shown]) -> (Vec<Pair>, usize) {
    fn texts(events: &[Shown]) -> Vec<&str> {
        events.iter().map(|shown| shown.event.as_str()).collect()
    }
    let mut pairs = Vec::new();
    let mut same = 0;
    for op in capture_diff_slices(Algorithm::Patience, &texts(a), &texts(b)) {
        if let DiffOp::Equal { len, .. } = op {
            same += len;
            continue;
        }
        let (of_a, of_b) = (&a[op.old_range()], &b[op.new_range()]);
        for n in 0..of_a.len().max(of_b.len()) {
            pairs.push(Pair {
                a: of_a.get(n).cloned(),
                b: of_b.get(n).cloned(),
            });
        }
    }
    (pairs, same)
}

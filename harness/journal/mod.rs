//! The journal: the ordered, typed, hash-chained events of a trial.

mod event;

pub use event::*;

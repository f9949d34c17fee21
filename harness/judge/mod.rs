//! The judge: answers are a pure function of the drill and the journal. No I/O, no clock.

mod answer;

pub use answer::*;

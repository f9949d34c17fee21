//! What changed from one run to another: which answers, and the events that differ.
//!
//! ```text
//!   results of A ─┐                            ┌─> pretty     for people
//!   results of B ─┼─> compare ─> Difference ───┤
//!   their journals┘   (what is asked for)      └─> JSON
//! ```
//!
//! Pids, times and ids are others in every run, and their change is no change. So answers are compared by verdict and by the
//! codes of what was found, and events without what varies; each id has a name by which it is the same one in both.

#![forbid(unsafe_code)]

mod compare;
mod difference;
mod events;
mod names;
mod pretty;
#[cfg(test)]
mod tests;

pub use compare::{Archive, Side, Sides, compare};
pub use difference::*;
pub use pretty::render_difference;

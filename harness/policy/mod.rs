//! The release gate: does the evidence meet the policy?
//!
//! ```text
//!   policy file ─> Policy ──┐
//!   bundles ─> Evidence ────┼─> decide ─> Decision ─┬─> pretty, markdown    for people
//!   now ────────────────────┘   (no I/O)            └─> statement           signed, for whoever lets the release out
//! ```
//!
//! The gate closes unless the evidence opens it: what was never drilled, not asked, ignored or not decided is a reason
//! against the release, in words. Nothing here runs a trial or judges one; an answer counts as its bundle has it.
//!
//! (`gate: true` in a drill is another thing: there the server's system calls are seen.)

#![forbid(unsafe_code)]

mod bundles;
mod census;
mod decide;
mod decision;
mod evidence;
mod file;
mod markdown;
mod model;
mod pretty;
mod spans;
mod statement;
#[cfg(test)]
mod tests;
mod waive;
mod words;

pub use decide::decide;
pub use decision::*;
pub use evidence::Evidence;
pub use file::{PolicyFile, Signer, load, schema};
pub use markdown::render_markdown;
pub use model::*;
pub use pretty::render_decision;
pub use spans::{Age, Date};
pub use statement::{PREDICATE_TYPE, statement};

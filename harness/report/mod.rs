//! The report: what the judge said, written down for machines and shown to people.
//!
//! ```text
//!   Judgement ─> TrialResult ─┬─> RunWriter     results.json, or a part of it under nextest
//!                             ├─> lines         one line as the trial ends
//!                             ├─> snapshot      the stable text, against the approved one
//!                             └─> Results ──────┬─> table, closing   the end of the run, on a terminal
//!                                               ├─> junit            junit.xml
//!                                               ├─> page             report.html, for people: see `crate::page`
//!                                               ├─> crate::export    SARIF, OSCAL, Markdown, the controls
//!                                               └─> manifest         what is in the bundle, and what was not run
//! ```
//!
//! It renders answers and decides nothing: a verdict that stands here was given by the judge. What it shows may quote a
//! server that wants to deceive, so no text reaches a terminal except through `journal::printable`.

#![forbid(unsafe_code)]

mod answers;
mod approve;
mod atomic;
pub(crate) mod boundaries;
mod check_page;
mod closing;
mod contents;
pub(crate) mod failure;
mod incident;
mod junit;
mod lines;
mod manifest;
mod outcome;
mod progress;
mod provenance;
mod repeats;
mod results;
mod run;
mod seal;
mod snapshot;
mod style;
mod subject;
mod table;
mod whole;

#[cfg(test)]
pub(crate) mod samples;

pub use answers::{render_judgement, render_unstable};
pub use approve::{Accepted, Pending, accept, pending, stale};
pub(crate) use atomic::{write as write_whole, write_with};
pub use check_page::{CHECKS, Check};
pub(crate) use closing::tally;
pub use closing::{Closing, SnapshotDiff, UnmatchedRoute, render_closing};
pub(crate) use contents::digest;
pub use contents::{FileEntry, JournalEnd, NotAFile};
pub(crate) use contents::{Kind, Walk, read as read_file, walk};
pub use incident::render_incidents;
pub use junit::render_junit;
pub(crate) use lines::spell_sought;
pub use lines::{json_line, pretty_line, terse_mark};
pub(crate) use manifest::{ATTESTATION, BESIDES, INTERRUPTED, MANIFEST, SIGNER, open_manifest};
pub use manifest::{Manifest, Population, RunFacts, Shard, write_manifest};
pub use outcome::{SnapshotState, TrialName, TrialResult, TrialVerdict, concealed};
pub use progress::Progress;
pub use provenance::{Actor, CiActor, Commit, Machine, Tool};
pub use repeats::trial_and_numbers;
pub use results::{Counts, Results, RunId};
pub use run::RunWriter;
pub(crate) use run::{FACTS, new_run, runs_in};
pub(crate) use seal::SEAL;
pub use seal::{Leak, Seal, seal, search};
pub use snapshot::{
    Comparison, SnapshotError, Texts, Writing, compare, compare_repeats, in_ci, stable_text,
};
pub use style::Style;
pub(crate) use style::{Shape, columns_of, filled, one_line, path_line, spell_seconds};
pub use subject::{DrillFacts, Ecosystem, Package, ServerFacts};
pub use table::render_table;
pub use whole::Whole;

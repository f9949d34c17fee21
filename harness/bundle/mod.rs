//! A bundle in the hands of somebody who was not there: is it whole, is it what its signer signed, and do its answers
//! follow from its journals?
//!
//! ```text
//!   manifest.json ──> digests, population ─┐
//!   results.json  ──> each trial ──────────┼─> Verification: findings, or none
//!     └─> journal.jsonl + drill.json ──> the judge, again
//!   attestation.intoto.jsonl ──────────────┘
//! ```
//!
//! Nothing here needs the machine, the network or the server that was drilled. A bundle may have been written by somebody
//! who wants to deceive: no path that stands in it is followed, and no more of it is in memory than one trial at a time.

#![forbid(unsafe_code)]

mod finding;
mod listed;
mod merge;
mod nextest;
mod results;
mod shards;
mod sign;
mod signature;
mod stream;
mod trial;
mod verify;

pub use finding::{Finding, Findings};
pub use merge::{MergeError, Merged, Order, merge};
pub use results::State;
pub use sign::sign;
pub use signature::Signature;
pub use verify::{Verification, verify};

//! Crash drills for MCP servers: what does a server do when its client dies in the middle of an external write?
//!
//! ```text
//!   drills/*.yaml -> spec -> trial -> journal -> judge -> report
//!                             |  uses cell, session, remote
//! ```
//!
//! One way. [`spec`] knows no process. [`cell`], [`session`] and [`remote`] know no verdict: they do things and append
//! events to the [`journal`], as `network` does for whatever is sought besides the remote; [`otlp`] takes what a server
//! exports of itself. The [`judge`] does no I/O: its answers are a
//! pure function of the drill and the journal. [`report`] renders answers and events and decides nothing; its [`page`] is
//! for people, and [`export`] says the same in the formats of other tools. What becomes of a bundle: [`bundle`] verifies it,
//! [`policy`] decides by it whether a release may go out, [`history`] compares it with another.
//!
//! A server author writes `tests/drills.rs` with `harness = false` and one line in `main`: [`test_main`].

pub mod attest;
pub mod bundle;
pub mod cell;
mod cli;
pub mod export;
pub mod history;
pub mod journal;
pub mod judge;
mod network;
mod operator;
pub mod otlp;
pub mod page;
pub mod policy;
pub mod remote;
pub mod report;
pub mod roles;
pub mod session;
pub mod spec;
pub mod trial;

pub use cli::{main, test_main};

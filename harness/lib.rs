//! Crash drills for MCP servers.

pub mod cell;
pub mod journal;
pub mod judge;
pub mod remote;
pub mod report;
pub mod roles;
pub mod session;
pub mod spec;
pub mod trial;

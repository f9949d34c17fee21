//! Crash drills for MCP servers.

pub mod journal;
pub mod judge;
pub mod remote;
pub mod spec;

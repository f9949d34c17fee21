//! Crash drills for MCP servers.

pub mod journal;
pub mod judge;
pub mod report;
pub mod spec;

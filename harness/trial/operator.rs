//! What a trial knows of its authority, where that is a process of its own.

use std::collections::HashSet;

use crate::journal::{Pid, Session};

/// What is known of the authority of this trial.
#[derive(Debug, Default)]
pub(super) struct Operator {
    /// `serve`, where it runs.
    pub pid: Option<Pid>,
    /// Whoever else was there when it was ready: it may have left a daemon.
    pub others: Vec<Pid>,
    /// What it issues is a credential that the server is given.
    pub hands_tokens: bool,
    /// Runs that the authority knows.
    pub issued: HashSet<Session>,
    /// Numbers the commands.
    pub commands: u32,
}

//! One program, several processes: the cell, the client, the shim and the operator are this very executable, started with a role.
//!
//! So a test binary that uses the library needs nothing else installed. [`play`] must be the first thing in `main`.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// What this process is, besides the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The ancestor of client and server.
    Cell,
    /// Starts the server and speaks MCP with it, until it is killed.
    Client,
    /// Becomes the server.
    Shim,
    /// Becomes a command of the authority.
    Operator,
}

impl Role {
    const ALL: [Self; 4] = [Self::Cell, Self::Client, Self::Shim, Self::Operator];

    /// The first argument that gives the role away.
    pub const fn argument(self) -> &'static str {
        match self {
            Self::Cell => "__cell",
            Self::Client => "__client",
            Self::Shim => "__shim",
            Self::Operator => "__operator",
        }
    }
}

/// A command that starts this executable in a role, even after the file was replaced by a new build.
pub fn command(role: Role) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("cargo-drill").arg(role.argument());
    command
}

/// Plays the role that this process was started in, if it was started in one.
pub fn play() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next()?;
    let role = Role::ALL
        .into_iter()
        .find(|role| first == role.argument())?;
    Some(match role {
        Role::Cell => crate::cell::inside::main(),
        Role::Client => crate::session::client::main(),
        Role::Shim => crate::session::shim::main(arguments),
        Role::Operator => crate::operator::main(arguments),
    })
}

//! The shim: started by the client as the server, tells the harness its pid, and becomes the server.
//!
//! Same pid, no process in between, any client. The socket closes by itself when the server's program takes over
//! (`O_CLOEXEC`): an empty end tells the harness that execve(2) succeeded, anything else is the reason why not.
//!
//! Where the server's system calls are to be seen, this is where the filter is installed: the server is this process.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::message::Leading;
use crate::cell::gate;

/// The harness's light: become the server.
pub(super) const PLAIN: u8 = b'!';

/// The same, with the server's system calls seen.
pub(super) const GATED: u8 = b'g';

impl Leading {
    const ALL: [Self; 3] = [Self::Nothing, Self::Group, Self::Session];

    /// How the client tells the shim.
    pub(super) const fn argument(self) -> &'static str {
        match self {
            Self::Nothing => "shared",
            Self::Group => "group",
            Self::Session => "session",
        }
    }

    fn lead(self) -> nix::Result<()> {
        let own = nix::unistd::Pid::from_raw(0);
        match self {
            Self::Nothing => Ok(()),
            Self::Group => nix::unistd::setpgid(own, own),
            Self::Session => nix::unistd::setsid().map(drop),
        }
    }
}

/// The process `cargo-drill __shim SOCKET GROUP COMMAND …`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments;
    let (Some(socket), Some(group), Some(program)) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return ExitCode::from(2);
    };
    let leading = Leading::ALL
        .into_iter()
        .find(|leading| group == leading.argument());
    if leading.is_none_or(|leading| leading.lead().is_err()) {
        return ExitCode::from(126);
    }
    let Ok(mut harness) = UnixStream::connect(&socket) else {
        return ExitCode::from(126);
    };
    if writeln!(harness, "{}", std::process::id()).is_err() {
        return ExitCode::from(126);
    }
    // The green light: the harness has noted the pid before the server can do anything.
    let mut light = [0_u8; 1];
    if harness.read_exact(&mut light).is_err() {
        return ExitCode::from(126);
    }
    if light == [GATED] {
        // From here on the harness sees this process's system calls, the execve below among them. The descriptor is kept
        // until then; the server's program does not get it (`O_CLOEXEC`).
        let listener = gate::install();
        if gate::hand_over(&harness, &listener).is_err() {
            return ExitCode::from(126);
        }
        return become_server(&mut harness, &program, arguments);
    }
    become_server(&mut harness, &program, arguments)
}

fn become_server(
    harness: &mut UnixStream,
    program: &OsString,
    arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    // `exec` gives signals back their default actions, as a client that spawns directly would.
    let error = Command::new(program).args(arguments).exec();
    let _ = write!(harness, "{error}");
    ExitCode::from(127)
}

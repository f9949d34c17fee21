//! The shim: started by the client as the server, tells the harness its pid, and becomes the server.
//!
//! Same pid, no process in between, any client. The socket closes by itself when the server's program takes over
//! (`O_CLOEXEC`): an empty end tells the harness that execve(2) succeeded, anything else is the reason why not.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The process `cargo-drill __shim SOCKET COMMAND …`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments;
    let (Some(socket), Some(program)) = (arguments.next(), arguments.next()) else {
        return ExitCode::from(2);
    };
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
    // `exec` gives signals back their default actions, as a client that spawns directly would.
    let error = Command::new(&program).args(arguments).exec();
    let _ = write!(harness, "{error}");
    ExitCode::from(127)
}

//! The shim: started by the client as the server, tells the harness its pid, and becomes the server.
//!
//! Same pid, no process in between, any client. The last that it tells is the time, and then the socket closes by itself
//! when the server's program takes over (`O_CLOEXEC`): nothing more tells the harness that execve(2) succeeded, anything
//! else is the reason why not.
//!
//! Where the server's system calls are to be seen, this is where the filter is installed: the server is this process.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};

use super::message::Leading;
use crate::cell::{Fence, gate};
use crate::journal::Stamp;

/// The harness's light, a line: become the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Light {
    /// Its system calls are seen.
    pub is_gated: bool,
    /// What it must enter before.
    pub fence: Option<Fence>,
}

impl Light {
    pub fn line(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    fn read(harness: &UnixStream) -> io::Result<Self> {
        let mut line = String::new();
        BufReader::new(harness).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

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
    let Ok(light) = Light::read(&harness) else {
        return ExitCode::from(126);
    };
    if light.is_gated {
        // From here on the harness sees this process's system calls, the execve below among them. The descriptor is kept
        // until then; the server's program does not get it (`O_CLOEXEC`).
        let listener = gate::install();
        if gate::hand_over(&harness, &listener).is_err() {
            return ExitCode::from(126);
        }
    }
    if let Some(fence) = light.fence
        && let Err(error) = fence.enter()
    {
        let _ = tell_time(&mut harness);
        let _ = write!(harness, "{error}");
        return ExitCode::from(126);
    }
    become_server(&mut harness, &program, arguments)
}

fn tell_time(harness: &mut UnixStream) -> io::Result<()> {
    writeln!(harness, "{}", serde_json::to_string(&Stamp::now())?)
}

fn become_server(
    harness: &mut UnixStream,
    program: &OsString,
    arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    // What the server does comes after this.
    if tell_time(harness).is_err() {
        return ExitCode::from(126);
    }
    // `exec` gives signals back their default actions, as a client that spawns directly would.
    let error = Command::new(program).args(arguments).exec();
    let _ = write!(harness, "{error}");
    ExitCode::from(127)
}

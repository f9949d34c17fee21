//! The operator: becomes a command of the authority. It stands in a session of its own, so that no signal that is meant for
//! the session under drill reaches it.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::cell::Fence;

/// The process `cargo-drill __operator FENCE COMMAND …`.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(fence), Some(program)) = (arguments.next(), arguments.next()) else {
        return ExitCode::from(2);
    };
    let Ok(fence) = serde_json::from_slice::<Option<Fence>>(fence.as_bytes()) else {
        return ExitCode::from(2);
    };
    // It fails where this process leads a group already, which a process that was just started does not.
    let _ = nix::unistd::setsid();
    if let Some(fence) = fence
        && let Err(error) = fence.enter()
    {
        let _ = writeln!(std::io::stderr(), "{}: {error}", program.display());
        return ExitCode::from(126);
    }
    let error = Command::new(&program).args(arguments).exec();
    let _ = writeln!(
        std::io::stderr(),
        "{} could not be executed: {error}",
        program.display()
    );
    ExitCode::from(127)
}

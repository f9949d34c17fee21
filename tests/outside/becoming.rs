//! Whether a test can run the command as an ordinary user.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::unistd::geteuid;

use super::nobody::NOBODY;

/// Says why, where it cannot.
pub fn can_become_nobody() -> bool {
    if !geteuid().is_root() {
        println!("skipped: the tests run as an ordinary user already");
        return false;
    }
    let probe = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .arg("--version")
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    let can = probe.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: nobody may not execute cargo-drill where it was built");
    }
    can
}

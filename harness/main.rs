//! `cargo drill`: see [`cargo_drill`].

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_drill::main()
}

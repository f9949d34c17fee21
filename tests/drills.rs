//! Every drill of this repository as a test.

use std::process::ExitCode;

fn main() -> ExitCode {
    cargo_drill::test_main()
}

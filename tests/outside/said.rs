//! What a command said, and how it ended.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::assert::OutputAssertExt as _;
use serde_json::Value;

pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs a command to its end.
pub fn say(command: &mut Command) -> Said {
    let assert = command.assert();
    let output = assert.get_output();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    Said {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exit {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.code, self.out, self.err
        )
    }
}

pub fn json_in(folder: &Path, name: &str) -> Value {
    let text = fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_slice(&text).unwrap()
}

//! The hash chain: each line carries the hash of the one before it, so that none can be changed, dropped or moved.
//!
//! `hash` is the SHA-256, in hex, of the RFC 8785 canonical form of the line without its `hash`. The first line's `prev`
//! is 64 zeros. A chain alone does not show that its tail was cut; the manifest holds the final count and hash.

use std::io::{self, BufRead as _, Read as _};
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Line, regular};

/// The `prev` of the first line.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The longest line that is read, in bytes.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Why a journal cannot be read, or cannot be believed.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("failed to read the journal: {0}")]
    Io(#[from] io::Error),
    #[error("line {line} of the journal is not an event: {because}")]
    NotAnEvent { line: u64, because: String },
    #[error(
        "line {line} of the journal was changed: its hash is {found}, its content gives {computed}"
    )]
    Changed {
        line: u64,
        found: String,
        computed: String,
    },
    #[error("line {line} of the journal does not follow the one before it")]
    Unchained { line: u64 },
}

/// A journal as read from its file.
#[derive(Debug)]
pub struct Recorded {
    pub lines: Vec<Line>,
    /// The file ends in the middle of a line: the harness was killed while it wrote.
    pub torn_tail: bool,
}

/// The hash of a line, given as a JSON object with or without its `hash`.
pub fn hash(line: &Value) -> Result<String, serde_json::Error> {
    let mut content = line.clone();
    if let Value::Object(fields) = &mut content {
        fields.remove("hash");
    }
    let canonical = serde_json_canonicalizer::to_vec(&content)?;
    Ok(hex(&Sha256::digest(canonical)))
}

/// Reads a journal and checks its chain.
pub fn read(path: &Path) -> Result<Recorded, ChainError> {
    let mut file = io::BufReader::new(regular::open(path)?);
    let mut lines = Vec::new();
    let mut prev = GENESIS.to_owned();
    let mut text = Vec::new();
    loop {
        text.clear();
        if file
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut text)?
            == 0
        {
            return Ok(Recorded {
                lines,
                torn_tail: false,
            });
        }
        if text.len() as u64 == LONGEST_LINE {
            return Err(ChainError::NotAnEvent {
                line: lines.len() as u64 + 1,
                because: "it is longer than any event".to_owned(),
            });
        }
        if !text.ends_with(b"\n") {
            return Ok(Recorded {
                lines,
                torn_tail: true,
            });
        }
        let number = lines.len() as u64 + 1;
        let not_an_event = |error: serde_json::Error| ChainError::NotAnEvent {
            line: number,
            because: error.to_string(),
        };
        let value: Value = serde_json::from_slice(&text).map_err(not_an_event)?;
        let computed = hash(&value).map_err(not_an_event)?;
        let line: Line = serde_json::from_value(value).map_err(not_an_event)?;
        if line.hash != computed {
            return Err(ChainError::Changed {
                line: number,
                found: line.hash,
                computed,
            });
        }
        if line.prev != prev || line.seq + 1 != number {
            return Err(ChainError::Unchained { line: number });
        }
        prev.clone_from(&line.hash);
        lines.push(line);
    }
}

/// Lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

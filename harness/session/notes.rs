//! What the client received as `notifications/message`, kept in a file for the harness, where the drill asks for it.
//!
//! The file holds one row a line: `params.data`, where that is an object, or text that is one. It is written by the client
//! alone, before anything else is done with the line, so what stands in it is what the client had received.
//!
//! Whether the client has received all that the server had written can be asked: the harness sends a byte over the tap, and
//! it comes back when the pipe is empty and every line that was in it has been taken.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Where the notifications of a session are kept, and where the harness asks for them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Noting {
    pub file: std::path::PathBuf,
    pub tap: std::path::PathBuf,
}

/// The client's side of it.
#[derive(Default)]
pub(super) struct Notes {
    file: Option<File>,
    tap: Option<UnixStream>,
    /// Asked and not answered.
    owed: Option<u8>,
}

impl Notes {
    pub async fn open(noting: &Noting) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&noting.file)?;
        Ok(Self {
            file: Some(file),
            tap: Some(UnixStream::connect(&noting.tap).await?),
            owed: None,
        })
    }

    /// Keeps the row of a message from the server, if it is a notification with one.
    pub fn keep(&mut self, message: &Value) {
        let Some(file) = &mut self.file else { return };
        if let Some(row) = row_of(message) {
            // What cannot be kept cannot be read: the harness finds no row, and says so.
            let _ = file.write_all(format!("{row}\n").as_bytes());
        }
    }

    /// Returns when the harness asks. Pending for ever where it cannot, or where it has asked and waits. Nothing is lost
    /// when the future is dropped.
    pub async fn asked(&mut self) {
        let mut token = [0];
        match &mut self.tap {
            Some(tap) if self.owed.is_none() => match tap.read(&mut token).await {
                Ok(1) => self.owed = Some(token[0]),
                _ => self.tap = None,
            },
            _ => std::future::pending().await,
        }
    }

    pub fn owes(&self) -> bool {
        self.owed.is_some()
    }

    /// All that was there when the harness asked has been taken.
    pub async fn answer(&mut self) {
        if let (Some(token), Some(tap)) = (self.owed.take(), &mut self.tap) {
            let _ = tap.write_all(&[token]).await;
        }
    }
}

fn row_of(message: &Value) -> Option<Value> {
    if message.get("method")?.as_str()? != "notifications/message" {
        return None;
    }
    match message.pointer("/params/data")? {
        row @ Value::Object(_) => Some(row.clone()),
        Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_is_an_object_or_text_that_is_one() {
        let of = |data: Value| {
            row_of(&json!({
                "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": data },
            }))
        };
        assert_eq!(of(json!({ "call": 1 })), Some(json!({ "call": 1 })));
        assert_eq!(of(json!("{\"call\": 1}")), Some(json!({ "call": 1 })));
        assert_eq!(of(json!("started")), None);
        assert_eq!(of(json!([1])), None);
        assert_eq!(row_of(&json!({ "method": "notifications/progress" })), None);
    }
}

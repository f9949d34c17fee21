//! A file that people write, read strictly: every mistake is found, with its place.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::mistake::{Found, Mistakes};
use super::yaml::Node;
use super::{shape, yaml};

/// What such a file is, as its mistakes speak of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    /// `the drill`
    pub whole: &'static str,
    /// `drill`
    pub noun: &'static str,
    /// What it must begin with.
    pub begins: &'static str,
}

impl Kind {
    /// The text of the file.
    pub fn text(self, path: &Path) -> Result<String, Mistakes> {
        text_of(path, self.bytes(path)?)
    }

    /// What the file holds.
    pub fn bytes(self, path: &Path) -> Result<Vec<u8>, Mistakes> {
        let noun = self.noun;
        if path.is_dir() {
            let because = format!("this is a folder, not a {noun} file");
            return Err(Mistakes::unread(path, because));
        }
        // Opening a FIFO would wait for a writer.
        if path.exists() && !path.is_file() {
            return Err(Mistakes::unread(path, "this is not a file"));
        }
        fs::read(path)
            .map_err(|error| Mistakes::unread(path, format!("this file cannot be read: {error}")))
    }

    /// Reads the text into a `T`, whose schema this is. `check` adds what does not make sense although it is well written.
    pub fn parse<T: DeserializeOwned>(
        self,
        path: &Path,
        source: &str,
        schema: &Value,
        check: impl FnOnce(&T, &Node, &mut Found<'_>),
    ) -> Result<T, Mistakes> {
        let noun = self.noun;
        let mut found = Found::new(path, source);
        let tree = match yaml::parse(source) {
            Ok(Some(tree)) => tree,
            Ok(None) => {
                let begins = self.begins;
                let because = format!("this file is empty: a {noun} file starts with `{begins}`");
                return Err(Mistakes::unread(path, because));
            }
            Err(error) => {
                let added = found.add(&error.place, error.because);
                if let Some((place, what)) = error.also {
                    added.also(&place, what);
                }
                return Err(found.into_mistakes());
            }
        };
        let value = shape::check(&tree, schema, self.whole, &mut found);
        found.finish()?;

        let mut found = Found::new(path, source);
        match serde_json::from_value::<T>(value) {
            Ok(read) => {
                check(&read, &tree, &mut found);
                found.finish()?;
                Ok(read)
            }
            // The schema is made from the types, so this is a gap between the two, and still no reason to crash.
            Err(error) => {
                let because = format!("this is not a {noun}: {error}");
                Err(Mistakes::unread(path, because))
            }
        }
    }
}

/// What was read from the file, as text.
pub(crate) fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, Mistakes> {
    match String::from_utf8(bytes) {
        // Some editors start a file with a byte order mark. It says nothing here.
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()),
        Err(error) => Err(not_utf8(path, &error)),
    }
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> Mistakes {
    let text = String::from_utf8_lossy(error.as_bytes());
    let at = error.utf8_error().valid_up_to();
    let mut found = Found::new(path, &text);
    found
        .add(&(at..at + 3), "this is not UTF-8 text")
        .help("save the file as UTF-8");
    found.into_mistakes()
}

//! How often each trial is carried out.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number of repeats, from 1 to [`Repeats::MOST`]; the first time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Repeats(u32);

impl Repeats {
    pub const ONCE: Self = Self(1);
    /// A limit that a slip of the finger runs into: of a trial that takes a second, this many take three hours.
    pub const MOST: u32 = 10_000;

    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Repeats {
    fn default() -> Self {
        Self::ONCE
    }
}

impl TryFrom<u32> for Repeats {
    type Error = String;

    fn try_from(n: u32) -> Result<Self, String> {
        if (1..=Self::MOST).contains(&n) {
            Ok(Self(n))
        } else {
            Err(format!("expected a number from 1 to {}", Self::MOST))
        }
    }
}

impl From<Repeats> for u32 {
    fn from(repeats: Repeats) -> Self {
        repeats.0
    }
}

impl FromStr for Repeats {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What is no number is out of range as well, and the same sentence helps.
        Self::try_from(text.parse().unwrap_or(0))
    }
}

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Repeats {
    fn schema_name() -> Cow<'static, str> {
        "Repeats".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": Self::MOST })
    }
}

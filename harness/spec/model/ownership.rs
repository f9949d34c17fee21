//! Where the record of ownership is, and what its rows say.
//!
//! A record is whatever another process can read while the server still works: a log file, lines of stderr, what the
//! server sends as telemetry. Wherever it comes from, its rows are JSON objects, and the same questions are asked of them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::forms;

/// Where the durable record is and what its rows say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::OwnershipForm", into = "forms::OwnershipForm")]
pub struct Ownership {
    pub place: RecordPlace,
    /// JSON pointers into a row. The keys named here are required.
    pub record: RecordPointers,
    /// The words that the record uses for an outcome.
    pub outcomes: Outcomes,
    /// The intent must be on the disk before dispatch.
    pub durable: bool,
}

/// Where the rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordPlace {
    /// A file of JSON lines; a template.
    Log(String),
    From(Source),
}

/// What a server tells of itself besides its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "source of records")]
pub enum Source {
    /// The lines of its stderr that are JSON objects. Its stderr is then a file that outlives the client.
    Stderr,
    /// What the client received as `notifications/message`. It dies with the client.
    Logging,
    /// What it exported by OTLP: log records, spans and the events of spans.
    Otlp,
}

impl Ownership {
    /// Where the rows are, where that is not a log file.
    pub fn source(&self) -> Option<Source> {
        match self.place {
            RecordPlace::Log(_) => None,
            RecordPlace::From(source) => Some(source),
        }
    }
}

impl RecordPointers {
    /// Where a row of OTLP says it, unless the drill says otherwise. Where there is a semantic convention of OpenTelemetry
    /// for something (`process.pid`) it is that one; the rest is `drill.*`.
    pub fn of_otlp() -> Self {
        let attribute = |name: &str| format!("/attributes/{name}");
        Self {
            run: Some(attribute("drill.run.id")),
            call: attribute("drill.call.id"),
            process: Some(attribute("process.pid")),
            approval: Some(attribute("drill.approval.id")),
            target: Some(attribute("drill.target")),
            key: None,
            effect: Some(attribute("drill.effect.id")),
            outcome: attribute("drill.outcome"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stderr => "stderr",
            Self::Logging => "logging",
            Self::Otlp => "otlp",
        })
    }
}

/// JSON pointers into a row of the record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordPointers {
    /// The run id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::Pointer>")]
    pub run: Option<String>,
    /// Joins the rows of one call.
    #[schemars(with = "forms::Pointer")]
    pub call: String,
    /// A pid of the session's process tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::Pointer>")]
    pub process: Option<String>,
    /// The approval id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::Pointer>")]
    pub approval: Option<String>,
    /// What the operation changes; not empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::Pointer>")]
    pub target: Option<String>,
    /// The idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::Pointer>")]
    pub key: Option<String>,
    /// The remote's id; required in a row that says success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<forms::Pointer>")]
    pub effect: Option<String>,
    /// One of the words of `outcomes`.
    #[schemars(with = "forms::Pointer")]
    pub outcome: String,
}

/// The words that the log uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Outcomes {
    /// Written before anything is sent.
    pub intended: Vec<String>,
    /// The effect is applied.
    pub success: Vec<String>,
    /// It is known that nothing was applied.
    pub failed: Vec<String>,
    /// The credential was not accepted.
    pub refused: Vec<String>,
    /// It cannot be told whether it was applied.
    pub unknown: Vec<String>,
}

impl Default for Outcomes {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Self {
            intended: words(&["intended", "started"]),
            success: words(&["success", "succeeded", "ok"]),
            failed: words(&["failed", "error", "cancelled"]),
            refused: words(&["refused", "denied", "forbidden"]),
            unknown: words(&["unknown", "unresolved"]),
        }
    }
}

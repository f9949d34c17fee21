//! The call in whose middle the client dies, and what session B does about it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::forms;
use super::Span;

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Strings are templates.
    #[serde(default)]
    pub arguments: serde_json::Map<String, Value>,
    /// Where the call id goes, besides `_meta`.
    #[serde(default)]
    pub correlation: Correlation,
    /// The time for its answer, and in session A for the crash point to be reached. Session B, the revoked session and the
    /// session beside wait as long.
    #[serde(default = "Call::default_within")]
    pub within: Span,
    /// Calls made first in the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Call>,
}

impl Call {
    fn default_within() -> Span {
        Span(Duration::from_secs(30))
    }
}

/// Where the call id goes, besides `_meta`, which always carries it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Correlation {
    /// `_meta` alone: `dev.cargo-drill/correlationId` and `traceparent`.
    #[default]
    Meta,
    /// This argument of the call as well.
    Argument(String),
}

/// What session B does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::RecoverForm", into = "forms::RecoverForm")]
pub struct Recover {
    pub how: Recovery,
    /// Replaces `call.before` in session B.
    pub before: Option<Vec<Call>>,
}

/// When session B makes the call again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retry {
    /// Where session A's client had no result: a client with a result does not retry.
    WithoutResult,
    /// At `after-result` too.
    Always,
}

/// How session B reconciles.
#[derive(Debug, Clone, PartialEq)]
pub enum Recovery {
    /// The same call with the same correlation: `retry: true`, `retry: always`.
    Retry(Retry),
    /// The same call, which the server must refuse where an intent has no known outcome: `operator: true`.
    Operator(bool),
    /// A tool made for it.
    Tool {
        tool: String,
        arguments: serde_json::Map<String, Value>,
        correlation: Correlation,
    },
}

//! The server under drill, and the client that starts it.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::forms;
use super::{Limits, Span};

/// How the server under drill is started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The command and its arguments; templates.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// All of its environment, besides PATH, LANG, and HOME and TMPDIR inside the work folder. A bare number or
    /// `true` is taken as the text that stands in the file.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, forms::AsWritten>")]
    pub env: BTreeMap<String, String>,
    /// Relative to the drill file. Default: the work folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Files written into the work folder before each session, mode 0600.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// What the server's stdin is.
    #[serde(default)]
    pub stdin: StdinKind,
    /// The protocol revision that the client speaks.
    #[serde(default)]
    pub protocol: Protocol,
    /// How the session is opened.
    #[serde(default)]
    pub handshake: Handshake,
    /// What the server can reach besides the remote.
    #[serde(default)]
    pub network: Network,
    /// What the server may use of the machine.
    #[serde(default, skip_serializing_if = "Limits::is_silent")]
    pub limits: Limits,
}

/// How the session is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Handshake {
    /// The time for the server's answer.
    #[serde(default = "Handshake::default_within")]
    pub within: Span,
}

impl Handshake {
    fn default_within() -> Span {
        Span(Duration::from_secs(30))
    }
}

impl Default for Handshake {
    fn default() -> Self {
        Self {
            within: Self::default_within(),
        }
    }
}

/// What the server's stdin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "kind of stdin")]
pub enum StdinKind {
    #[default]
    Pipe,
    Socketpair,
}

/// The protocol revision that the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "protocol revision")]
pub enum Protocol {
    /// Asks with `server/discover` and falls back to `initialize`.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// What the server can reach besides the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "kind of network")]
pub enum Network {
    /// The cell's own loopback.
    #[default]
    Closed,
    /// The host's network.
    Open,
}

/// The client that is crashed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// A careless client: this sibling of the server inherits the write end of its stdin and outlives the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leak_stdin_to: Vec<String>,
    /// A second session of the same command, with a run and a credential of its own, is open while session A lives and is
    /// crashed. It must not notice: afterwards it makes the same call under a call id of its own. Both share the work folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
    /// In which process group the server starts.
    #[serde(default)]
    pub group: Group,
}

/// In which process group the server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "kind of process group")]
pub enum Group {
    /// In the client's: what a terminal sends to the one reaches the other.
    #[default]
    Shared,
    /// In one of its own.
    Own,
}

//! The drill file as types: what a drill may say, and what it means when it says nothing.
//!
//! These keys are a contract. Drills that live in other repositories are written against them, so a key may be added
//! and never renamed. The doc comments here become the descriptions in the JSON Schema that editors show.

mod authority;
mod call;
mod crash;
mod expect;
mod limits;
mod ownership;
mod remote;
mod repeats;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forms;

pub use authority::*;
pub use call::*;
pub use crash::*;
pub use expect::*;
pub use limits::*;
pub use ownership::*;
pub use remote::*;
pub use repeats::*;
pub use server::*;

/// One server, one remote, one call, crash points, expectations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drill {
    /// The drill's name: the stem of its file, `[a-z0-9-]+`.
    #[schemars(regex(pattern = r"^[a-z0-9-]+$"))]
    pub drill: String,
    /// One sentence for the people who read the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Identifiers of the controls that this drill gives evidence for; free text, carried along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<String>,
    /// Files without which the trials are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    /// How the server under drill is started.
    pub server: Server,
    /// The mocked external API. Absent: the server has no remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
    /// Who issues and revokes credentials. Absent: there is no credential and nothing to revoke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Authority>,
    /// The client that is crashed.
    #[serde(default)]
    pub client: Client,
    /// The call in whose middle the client dies.
    pub call: Call,
    /// One trial each; `every` is one for each boundary of the call.
    #[serde(deserialize_with = "forms::crashes")]
    #[schemars(with = "forms::CrashesForm")]
    pub crash: Vec<Crash>,
    /// At every crash the system calls of the server's processes are seen, as far as `syscall` names them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// Variables whose values never reach the bundle: of `server.env`, or of the environment of this command, which
    /// templates then know as `env.NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// How often each trial is carried out. A verdict that differs between repeats is unstable, which gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeats>,
    /// What an approved snapshot holds: verdicts and codes, or the sentences as well.
    #[serde(default, skip_serializing_if = "SnapshotForm::is_codes")]
    pub snapshot: SnapshotForm,
    /// What session B does. Absent: there is no session B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recover: Option<Recover>,
    /// What must be so. A question is asked when it can be.
    #[serde(default)]
    pub expect: Expect,
    /// Answers known to be broken. The trial passes while exactly these stay broken.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<Question, Known>,
}

impl Drill {
    /// Whether the system calls of session A's processes are seen at this crash.
    pub fn is_gated(&self, crash: &Crash) -> bool {
        self.gate || crash.gate || crash.at == CrashPoint::Syscall
    }

    /// Whether session B makes no call after this crash: its client has the result, and only looks.
    pub fn only_looks_back(&self, crash: &Crash) -> bool {
        let how = self.recover.as_ref().map(|recover| &recover.how);
        crash.at == CrashPoint::AfterResult && how == Some(&Recovery::Retry(Retry::WithoutResult))
    }

    /// Whether a route of the remote makes an effect.
    pub fn makes_effects(&self) -> bool {
        let routes = self
            .remote
            .as_ref()
            .map_or(&[][..], |remote| &remote.routes);
        routes.iter().any(|route| route.effect.is_some())
    }

    /// Where the record of ownership is asked for from something that is not a log file: that.
    pub fn record_source(&self) -> Option<Source> {
        self.expect.ownership.as_ref()?.ask()?.source()
    }

    /// Whether the harness receives what the server exports by OTLP.
    pub fn receives_otlp(&self) -> bool {
        self.record_source() == Some(Source::Otlp)
    }
}

/// What is compared with the approved snapshot of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotForm {
    /// The verdict of each answer, and the codes of what was found.
    #[default]
    Codes,
    /// The sentences too, without what changes from run to run. A sentence may differ by chance where a code does not.
    Full,
}

impl SnapshotForm {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands a reference to what decides whether a field is written"
    )]
    fn is_codes(&self) -> bool {
        *self == Self::Codes
    }
}

/// A file that must be there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// A template; relative paths start at the drill file.
    pub file: String,
    /// What to do when it is missing.
    pub hint: String,
}

/// A duration, written `250ms`, `2s` or `1m`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "forms::SpanForm", into = "forms::SpanForm")]
pub struct Span(pub Duration);

/// In the units of a sentence: `30 s`, `250 ms`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.subsec_millis() == 0 {
            write!(f, "{} s", self.0.as_secs())
        } else {
            write!(f, "{} ms", self.0.as_millis())
        }
    }
}

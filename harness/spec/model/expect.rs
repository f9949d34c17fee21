//! The questions, what is expected of each, and which answers are known to be broken.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::forms;
use super::{Call, CrashPoint, Ownership, Revocable, Span};

/// The questions of a drill.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "question")]
pub enum Question {
    Eof,
    Helpers,
    Quiet,
    Effects,
    Reconcile,
    Handle,
    Ownership,
    Revocation,
    Protocol,
    Secrets,
    Resources,
}

/// What must be so. A question is asked when it can be.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Did closing stdin reach the server, and did it exit in time, with a truthful status?
    #[serde(default)]
    pub eof: Asked<Eof>,
    /// Is any process that it started still alive?
    #[serde(default)]
    pub helpers: Asked<Helpers>,
    /// After the session was gone, did it start any new external operation, spin the CPU, or ignore SIGTERM?
    #[serde(default)]
    pub quiet: Asked<Quiet>,
    /// By crash point. Default: 0 up to `before-dispatch`, at most 1 where the call may or may not have been applied,
    /// 1 from `after-acceptance` on.
    #[serde(default)]
    #[schemars(with = "Asked<forms::ByPoint<Count>>")]
    pub effects: Asked<BTreeMap<CrashPoint, Count>>,
    /// After recovery, is there exactly one effect, and does the server report what the remote holds?
    #[serde(default)]
    pub reconcile: Asked<Reconcile>,
    /// Can an effect whose outcome is unknown be found, and cancelled, with nothing but what the record holds?
    #[serde(default)]
    pub handle: Asked<Plain>,
    /// Asked only where its log, or another source, is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Asked<Ownership>>,
    /// After revoking, is every protected call refused, at once, and is each refusal recorded?
    #[serde(default)]
    pub revocation: Asked<Revocation>,
    /// Is every byte on stdout JSON-RPC, and is every request answered or accounted for?
    #[serde(default)]
    pub protocol: Asked<Plain>,
    /// Did a credential appear in argv, in a log, or in a process that should not hold it?
    #[serde(default)]
    pub secrets: Asked<Plain>,
    /// Zombies, descriptors, sockets, locks: is the next session as good as the first?
    #[serde(default)]
    pub resources: Asked<Plain>,
}

/// A question with its expectation, or the reason why it is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
#[schemars(rename = "{T}_or_skip")]
pub enum Asked<T> {
    /// Leaves the question out, visibly.
    Skip {
        skip: String,
    },
    Ask(T),
}

impl<T: Default> Default for Asked<T> {
    fn default() -> Self {
        Self::Ask(T::default())
    }
}

impl<T> Asked<T> {
    /// The expectation, unless the question is left out.
    pub fn ask(&self) -> Option<&T> {
        match self {
            Self::Ask(expectation) => Some(expectation),
            Self::Skip { .. } => None,
        }
    }

    /// The reason why it is left out.
    pub fn skipped(&self) -> Option<&str> {
        match self {
            Self::Ask(_) => None,
            Self::Skip { skip } => Some(skip),
        }
    }
}

/// A question that takes no expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plain {}

/// EOF and exit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eof {
    /// From the moment EOF is in the pipe.
    #[serde(default = "Eof::default_within")]
    pub within: Span,
    /// Which exit is truthful: `any` (every code, no signal), or a list of exit codes.
    #[serde(default)]
    pub status: Status,
}

impl Eof {
    fn default_within() -> Span {
        Span(Duration::from_secs(10))
    }
}

impl Default for Eof {
    fn default() -> Self {
        Self {
            within: Self::default_within(),
            status: Status::default(),
        }
    }
}

/// Which exit is truthful.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::StatusForm", into = "forms::StatusForm")]
pub enum Status {
    /// Every code and no signal.
    #[default]
    Any,
    Codes(Vec<i32>),
}

/// Which processes may stay: `none`, or a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::HelpersForm", into = "forms::HelpersForm")]
pub struct Helpers {
    pub allow: Vec<AllowedHelper>,
}

/// A helper that is declared durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowedHelper {
    /// A regular expression, matched against the arguments joined by spaces.
    pub command: String,
    /// Why it may stay.
    pub because: String,
}

/// The window after the release in which nothing new may start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quiet {
    /// How long nothing new may start.
    #[serde(rename = "for", default = "Quiet::default_window")]
    pub window: Span,
}

impl Quiet {
    fn default_window() -> Span {
        Span(Duration::from_millis(500))
    }
}

impl Default for Quiet {
    fn default() -> Self {
        Self {
            window: Self::default_window(),
        }
    }
}

/// How many effects: `1`, or `{ at_most: 1 }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::CountForm", into = "forms::CountForm")]
pub enum Count {
    Exactly(u32),
    AtMost(u32),
}

impl Count {
    /// Whether this many will do.
    #[must_use]
    pub fn allows(self, n: u32) -> bool {
        match self {
            Self::Exactly(expected) => n == expected,
            Self::AtMost(most) => n <= most,
        }
    }
}

/// Effects after recovery: one number, or one by crash point. Default: exactly 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reconcile {
    /// One number, or one by crash point.
    #[serde(default)]
    pub effects: ReconcileEffects,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReconcileEffects {
    Always(u32),
    ByPoint(#[schemars(with = "forms::ByPoint<u32>")] BTreeMap<CrashPoint, u32>),
}

impl Default for ReconcileEffects {
    fn default() -> Self {
        Self::Always(1)
    }
}

/// What must happen after revoking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// From revoking to the first refusal; a survivor is watched this long before SIGTERM.
    #[serde(default = "Revocation::default_within")]
    pub within: Span,
    /// What is revoked. A `credential` is revoked first, then the `run`, and a `job` is cancelled at the end.
    #[serde(default = "Revocation::default_of")]
    #[schemars(length(min = 1))]
    pub of: Vec<Revocable>,
    /// The call of the revoked session. Default: the drill's own call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
}

impl Revocation {
    fn default_of() -> Vec<Revocable> {
        vec![Revocable::Run]
    }

    fn default_within() -> Span {
        Span(Duration::from_secs(1))
    }
}

impl Default for Revocation {
    fn default() -> Self {
        Self {
            within: Self::default_within(),
            of: Self::default_of(),
            call: None,
        }
    }
}

/// An answer known to be broken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Crash points, or crash names. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<String>,
    /// Why it is broken, and where that is being dealt with.
    pub because: String,
}

impl Question {
    /// All questions, in the order in which they are answered and shown.
    pub const ALL: [Self; 11] = [
        Self::Eof,
        Self::Helpers,
        Self::Quiet,
        Self::Effects,
        Self::Reconcile,
        Self::Handle,
        Self::Ownership,
        Self::Revocation,
        Self::Protocol,
        Self::Secrets,
        Self::Resources,
    ];
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eof => "eof",
            Self::Helpers => "helpers",
            Self::Quiet => "quiet",
            Self::Effects => "effects",
            Self::Reconcile => "reconcile",
            Self::Handle => "handle",
            Self::Ownership => "ownership",
            Self::Revocation => "revocation",
            Self::Protocol => "protocol",
            Self::Secrets => "secrets",
            Self::Resources => "resources",
        })
    }
}

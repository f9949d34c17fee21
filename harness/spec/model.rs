//! The drill file as types: what a drill may say, and what it means when it says nothing.
//!
//! These keys are a contract. Drills that live in other repositories are written against them, so a key may be added
//! and never renamed. The doc comments here become the descriptions in the JSON Schema that editors show.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::forms;

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
    /// One trial each.
    #[schemars(length(min = 1))]
    pub crash: Vec<Crash>,
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

/// A file that must be there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// A template; relative paths start at the drill file.
    pub file: String,
    /// What to do when it is missing.
    pub hint: String,
}

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
    /// What the server can reach besides the remote.
    #[serde(default)]
    pub network: Network,
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

/// The mocked external API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// The first route that matches answers; anything else gets 404.
    pub routes: Vec<Route>,
}

/// What the remote does with one kind of request. At most one of `effect`, `find`, `cancel` and `identity`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// `METHOD /path`; `{name}` captures a segment.
    pub on: String,
    /// Applying this route makes one effect of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Where the idempotency key of an effect is. Absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Lookup>,
    /// Replies with the effects of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<String>,
    /// Cancels an effect of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// Which effect: `find` compares keys, `cancel` ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Lookup>,
    /// Read only, safe to probe with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub identity: bool,
    /// What the route answers.
    #[serde(default)]
    pub reply: Reply,
}

/// Where in a request a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lookup {
    /// A header.
    Header(String),
    /// A JSON pointer into the body.
    Json(#[schemars(with = "forms::Pointer")] String),
    /// A query parameter.
    Query(String),
    /// A capture of the path.
    Path(String),
}

/// What a route answers. Strings are templates; a string that is one expression keeps the type of its value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub status: Option<u16>,
    /// Templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, forms::AsWritten>")]
    pub headers: BTreeMap<String, String>,
    /// The body as JSON, `null` included.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "forms::present"
    )]
    pub json: Option<Value>,
    /// The body as text; a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Who issues and revokes the credential of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    /// The header that carries `Bearer <token>`. A refused request gets 401.
    pub bearer: String,
    /// A route that gives the bearer a second credential of the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
}

/// `POST /token` and the like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// `METHOD /path`.
    pub on: String,
    /// True: the remote would still take the second credential after the run was revoked.
    #[serde(default)]
    pub outlives_run: bool,
    /// `authority.derived` is the second credential.
    #[serde(default)]
    pub reply: Reply,
}

/// The client that is crashed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// A careless client: this sibling of the server inherits the write end of its stdin and outlives the client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leak_stdin_to: Vec<String>,
}

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
    /// Calls made first in the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Call>,
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

/// A crash point and what is done at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::CrashForm")]
pub struct Crash {
    pub at: CrashPoint,
    /// Tells apart two crashes at one point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default)]
    pub kill: Kill,
    #[serde(default)]
    pub signal: Signal,
    /// What becomes of the reply of an effect, from the crash on.
    #[serde(default)]
    pub reply: ReplyTiming,
    /// Instead of a kill: the client lives, closes these in order and reads on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub close: Vec<Stream>,
    /// Which connection of the call carries the effect, from 1. Default: a rehearsal finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
}

/// A moment in protocol terms.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "crash point")]
pub enum CrashPoint {
    /// Server started, handshake not answered.
    Startup,
    /// Session open, no call.
    Idle,
    /// Half of the call's line written.
    TornCall,
    /// The whole line is in the pipe and the client is dead before the server reads it.
    CallUnread,
    /// The server has been given the whole line.
    CallWritten,
    /// The server is reaching for the remote with the request that makes the effect; no byte of it has arrived.
    BeforeDispatch,
    /// The remote has the whole request and has not applied it.
    Sent,
    /// The remote has applied it; the reply is withheld.
    AfterAcceptance,
    /// Half of the reply is delivered.
    TornReply,
    /// The reply is delivered; the client has not read the result.
    AfterReply,
    /// The client has the result (control: nothing may break here).
    AfterResult,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "choice of who is killed")]
pub enum Kill {
    #[default]
    Client,
    Server,
    Both,
}

/// A signal, by its name without SIG.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(title = "signal")]
pub enum Signal {
    #[default]
    Kill,
    Term,
    Int,
    Hup,
    /// A hung client: no EOF ever comes.
    Stop,
    Cont,
}

/// When the reply of an effect is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "moment for the reply")]
pub enum ReplyTiming {
    /// Withheld until the end of the observation.
    #[default]
    Held,
    /// Once the client is gone and nobody holds the write end of stdin.
    Given,
}

/// One of the session's three streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "stream")]
pub enum Stream {
    Stdin,
    Stdout,
    Stderr,
}

/// What session B does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "forms::RecoverForm", into = "forms::RecoverForm")]
pub struct Recover {
    pub how: Recovery,
    /// Replaces `call.before` in session B.
    pub before: Option<Vec<Call>>,
}

/// How session B reconciles.
#[derive(Debug, Clone, PartialEq)]
pub enum Recovery {
    /// The same call with the same correlation: `retry: true`. Always true, since `retry: false` is a mistake.
    Retry(bool),
    /// The same call, which the server must refuse where an intent has no known outcome: `operator: true`.
    Operator(bool),
    /// A tool made for it.
    Tool {
        tool: String,
        arguments: serde_json::Map<String, Value>,
        correlation: Correlation,
    },
}

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
    /// Asked only where its log is named.
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

/// Where the durable record is and what its rows say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ownership {
    /// JSON lines; a template.
    pub log: String,
    /// JSON pointers into a row. The keys named here are required.
    pub record: RecordPointers,
    /// The words that the log uses for an outcome.
    #[serde(default)]
    pub outcomes: Outcomes,
}

/// JSON pointers into a row of the ownership log.
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

/// What must happen after revoking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// From revoking to the first refusal; a survivor is watched this long before SIGTERM.
    #[serde(default = "Revocation::default_within")]
    pub within: Span,
    /// The call of the revoked session. Default: the drill's own call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Call>,
}

impl Revocation {
    fn default_within() -> Span {
        Span(Duration::from_secs(1))
    }
}

impl Default for Revocation {
    fn default() -> Self {
        Self {
            within: Self::default_within(),
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

/// A duration, written `250ms`, `2s` or `1m`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "forms::SpanForm", into = "forms::SpanForm")]
pub struct Span(pub Duration);

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::Idle => "idle",
            Self::TornCall => "torn-call",
            Self::CallUnread => "call-unread",
            Self::CallWritten => "call-written",
            Self::BeforeDispatch => "before-dispatch",
            Self::Sent => "sent",
            Self::AfterAcceptance => "after-acceptance",
            Self::TornReply => "torn-reply",
            Self::AfterReply => "after-reply",
            Self::AfterResult => "after-result",
        })
    }
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

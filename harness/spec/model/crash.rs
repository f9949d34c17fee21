//! Crash points, and what is done at them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::forms;

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
    /// What the remote does next with the call's effect request, in place of `reply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// What becomes of a decision that is held.
    #[serde(default)]
    pub decision: Decision,
    /// Instead of a kill: the client lives, closes these in order and reads on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub close: Vec<Stream>,
    /// Which connection of the call carries the effect, from 1. Default: a rehearsal finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u32>,
    /// The system call of a [`CrashPoint::Syscall`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall: Option<Syscall>,
    /// How that system call ends. Absent: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<Errno>,
    /// The boundary of a [`CrashPoint::Boundary`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<Boundary>,
    /// The system calls of the server's processes are seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// Its place in the line of boundaries, where `every` found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_every: Option<u32>,
}

impl Crash {
    /// What becomes of the effect request's reply: `then`, or else `reply`.
    pub fn next(&self) -> Then {
        self.then.unwrap_or(match self.reply {
            ReplyTiming::Held => Then::Held,
            ReplyTiming::Given => Then::Given,
        })
    }

    /// The crash point under which its trial is listed: for one that `every` found, that.
    pub fn listed_at(&self) -> CrashPoint {
        match self.of_every {
            Some(_) => CrashPoint::Every,
            None => self.at,
        }
    }

    /// The moment in a word: `after-acceptance`, `connect-1`, `request-2`.
    pub fn point(&self) -> String {
        self.counted().unwrap_or_else(|| self.at.to_string())
    }

    fn counted(&self) -> Option<String> {
        match (&self.syscall, &self.boundary) {
            (Some(Syscall { name, nth }), _) => Some(format!("{name}-{nth}")),
            (None, Some(Boundary { event, nth })) => Some(format!("{event}-{nth}")),
            (None, None) => None,
        }
    }

    /// What tells its trial apart from others at the same point.
    pub fn variant(&self) -> Option<String> {
        let moment = match self.of_every {
            Some(place) => Some(format!("{place:02}-{}", self.point())),
            None => self.counted(),
        };
        match (moment, self.name.clone()) {
            (Some(moment), Some(name)) => Some(format!("{moment}::{name}")),
            (moment, name) => moment.or(name),
        }
    }
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
    /// The authority has been asked to approve the call, and has not decided.
    BeforeApproval,
    /// The authority has approved the call; whoever asked does not know it yet.
    AfterApproval,
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
    /// The server is held in the system call that `syscall` names.
    Syscall,
    /// The event that `boundary` names.
    Boundary,
    /// Each boundary of the call, one trial each: a rehearsal finds them.
    Every,
}

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "choice of who is killed")]
pub enum Kill {
    /// The client alone, never its group.
    #[default]
    Client,
    /// The server alone; the client lives.
    Server,
    /// The server, and then the client.
    Both,
    /// The client's process group, as a terminal does it: Ctrl-C, hang-up.
    Group,
    /// Nobody: the client shuts the server down as this SDK does, and exits.
    Polite(Sdk),
}

/// Whose polite shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "SDK")]
pub enum Sdk {
    /// Ends stdin, 2 s later SIGTERM to the child, 2 s later SIGKILL.
    Typescript,
    /// The server leads a session of its own: ends stdin, 2 s later SIGTERM to its group, 2 s later SIGKILL to its group.
    Python,
    /// Ends stdin, 3 s later SIGTERM to the child, 3 s later SIGKILL.
    Rust,
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

/// What becomes of a decision that is held at the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "choice of what becomes of a decision")]
pub enum Decision {
    /// The approval is given at the end of the observation.
    #[default]
    Given,
    /// A refusal is given in its place.
    Refused,
    /// The approval is given only when the run has been revoked.
    AfterRevocation,
}

/// What the remote does next with the call's effect request. Whatever it is happens once; other requests are answered as
/// ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "choice of what the remote does next")]
pub enum Then {
    /// Applied, and the reply given once the client is gone and nobody holds the write end of stdin.
    Given,
    /// Applied, and the reply withheld until the end of the observation.
    Held,
    /// Applied, and the connection reset (RST) in place of a reply, as soon as the client is gone.
    Dropped,
    /// Applied, and answered with status 500 as soon as the client is gone.
    #[serde(rename = "error-500")]
    Error500,
    /// Not applied, and answered with status 503 as soon as the client is gone.
    #[serde(rename = "error-503")]
    Error503,
    /// Not applied, and answered with status 429 and `Retry-After: 0` as soon as the client is gone.
    #[serde(rename = "error-429")]
    Error429,
    /// Applied, and the reply's body given byte by byte until the end of the observation, and the rest then.
    Slow,
    /// Applied, and sent to the remote once more, as it was, by a proxy that lost the first reply; the second one is given.
    Replayed,
}

impl Then {
    /// Whether the request is turned away before anything is applied.
    pub fn is_before_commit(self) -> bool {
        matches!(self, Self::Error503 | Self::Error429)
    }
}

/// A system call of the server's processes, counted from the moment at which the call is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Syscall {
    pub name: SyscallName,
    /// From 1. A call that a signal interrupts and the kernel starts anew is one call.
    #[schemars(range(min = 1))]
    #[serde(default = "first")]
    pub nth: u32,
}

fn first() -> u32 {
    1
}

/// The system calls at which a server can be held.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "system call")]
pub enum SyscallName {
    /// To an address of the internet families.
    Connect,
    /// A program is started: also execveat.
    Execve,
    /// A file is opened for writing: also open, openat2 and creat.
    Openat,
    /// Also renameat and renameat2.
    Rename,
    /// Also unlinkat.
    Unlink,
    Fsync,
    Fdatasync,
    /// Something is written to the session's stdout: also writev, sendto and sendmsg.
    Write,
}

impl SyscallName {
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::Execve,
        Self::Openat,
        Self::Rename,
        Self::Unlink,
        Self::Fsync,
        Self::Fdatasync,
        Self::Write,
    ];
}

impl fmt::Display for SyscallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Execve => "execve",
            Self::Openat => "openat",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::Write => "write",
        })
    }
}

/// How a system call fails (errno(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(title = "error of a system call")]
pub enum Errno {
    Eacces,
    Econnrefused,
    Econnreset,
    Edquot,
    Eexist,
    Eio,
    Emfile,
    Enetunreach,
    Enoent,
    Enospc,
    Epipe,
    Erofs,
    Etimedout,
}

/// One event of the call, counted from the moment at which the call is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Boundary {
    pub event: BoundaryEvent,
    /// From 1.
    #[schemars(range(min = 1))]
    #[serde(default = "first")]
    pub nth: u32,
}

/// What divides the course of a call.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "boundary event")]
pub enum BoundaryEvent {
    /// The server reaches for the remote; the connection is pending.
    Connection,
    /// A whole request has arrived, whatever it is for; nothing has come of it.
    Request,
    /// Its reply is made, and withheld.
    Reply,
    /// Half of its reply is delivered.
    HalfReply,
    /// All of its reply is delivered.
    Replied,
    /// The server has written a line to its stdout and the client has read it; what the client would do next it does not.
    Line,
}

impl fmt::Display for BoundaryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "connection",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::HalfReply => "half-reply",
            Self::Replied => "replied",
            Self::Line => "line",
        })
    }
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

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Startup => "startup",
            Self::Idle => "idle",
            Self::TornCall => "torn-call",
            Self::CallUnread => "call-unread",
            Self::CallWritten => "call-written",
            Self::BeforeApproval => "before-approval",
            Self::AfterApproval => "after-approval",
            Self::BeforeDispatch => "before-dispatch",
            Self::Sent => "sent",
            Self::AfterAcceptance => "after-acceptance",
            Self::TornReply => "torn-reply",
            Self::AfterReply => "after-reply",
            Self::AfterResult => "after-result",
            Self::Syscall => "syscall",
            Self::Boundary => "boundary",
            Self::Every => "every",
        })
    }
}

impl From<Signal> for nix::sys::signal::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Kill => Self::SIGKILL,
            Signal::Term => Self::SIGTERM,
            Signal::Int => Self::SIGINT,
            Signal::Hup => Self::SIGHUP,
            Signal::Stop => Self::SIGSTOP,
        }
    }
}

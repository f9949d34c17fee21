//! The things that events speak of: sessions, processes, sockets, credentials, rows.
//!
//! Pids are those inside the cell. Durations are nanoseconds.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A process id as seen inside the cell.
pub type Pid = i32;

/// The number of an event in its journal, from 0.
pub type Seq = u64;

/// One of the sessions of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Session {
    /// Open beside session A, and not crashed.
    #[serde(rename = "beside")]
    Beside,
    /// Issues the call and is crashed.
    A,
    /// Recovers, with a run and a credential of its own.
    B,
    /// Starts with run A's credential and run id after they were revoked.
    #[serde(rename = "revoked")]
    Revoked,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beside => "the session beside",
            Self::A => "session A",
            Self::B => "session B",
            Self::Revoked => "the revoked session",
        })
    }
}

/// A step of a trial; the order of the variants is the order in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Prepare,
    SessionA,
    /// From here on, what arrives belongs to the call.
    Arm,
    /// The point is reached and the world is held still.
    Evidence,
    Crash,
    Observe,
    /// The remote goes on: connections, replies, everything held is let go.
    Release,
    /// A window without anybody's doing, in which nothing new may be started.
    Quiet,
    /// The second look, before any signal to a survivor.
    EvidenceAgain,
    Revoke,
    Stop,
    SessionB,
    /// The session beside makes its call.
    Beside,
    RevokedSession,
    /// The operator cancels the remote job.
    RevokeJob,
    Close,
}

/// When a look at the world was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// When the session beside was open, and session A was not: whoever lives is of the former.
    Beside,
    /// While a connection of the server to the remote was held pending: the moment of dispatch.
    Dispatch,
    /// At the crash point, before the crash.
    Point,
    /// 100 ms after the look at the point; only where that one showed a zombie or a half-closed socket.
    PointAgain,
    /// When the client was gone.
    ClientGone,
    /// When the time to end at EOF was over, and before the remote lets anything go; only where something was left.
    Deadline,
    /// After the observation, before any signal.
    End,
    /// 100 ms after the look at the end; only where that one showed a zombie or a half-closed socket.
    EndAgain,
    /// After SIGTERM to the survivors.
    AfterTerm,
    /// After SIGKILL, or when nothing was left to kill.
    AfterStop,
    /// In session B, when the recovery call had been answered.
    Recovered,
    /// When session B had ended.
    AfterSessionB,
    /// When the session beside had ended.
    AfterBeside,
    /// Before the revoked session: what is there by then is not of its doing.
    BeforeRevokedSession,
    /// When the revoked session had ended.
    AfterRevokedSession,
    /// Before the operator cancels the remote job.
    BeforeCancel,
}

/// What the cell is made of, and so what an orphan sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// PID, mount and network namespaces; the cell's init is PID 1.
    Namespaces,
    /// `PR_SET_CHILD_SUBREAPER` on the host's network.
    Subreaper,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    Code(i32),
    /// The signal's number, and whether a core was dumped.
    Signal {
        number: i32,
        core: bool,
    },
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "status {code}"),
            Self::Signal { number, .. } => match nix::sys::signal::Signal::try_from(*number) {
                Ok(signal) => f.write_str(signal.as_str()),
                Err(_) => write!(f, "signal {number}"),
            },
        }
    }
}

/// One end of one of the session's three pipes, as a process in the cell may hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PipeEnd {
    /// The server's side of stdin.
    StdinRead,
    /// The client's side of stdin: while anybody holds it, EOF does not arrive.
    StdinWrite,
    StdoutRead,
    StdoutWrite,
    StderrRead,
    StderrWrite,
}

/// A process in the cell, as one look saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub pid: Pid,
    pub ppid: Pid,
    pub pgid: Pid,
    pub sid: Pid,
    /// The letter of `/proc/PID/stat`: R, S, D, T, Z, …
    pub state: char,
    pub comm: String,
    /// Empty for a zombie.
    pub argv: Vec<String>,
    /// In clock ticks since boot: tells a pid that was used again.
    pub started: u64,
    pub threads: u64,
    /// Open descriptors; absent where they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
    /// Bytes it has asked to write so far (`wchar` of `/proc/PID/io`); absent where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// Time on the CPU and time waiting for it, summed over all threads, in ns.
    pub wanted: u64,
    /// The ends of this session's pipes that it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<PipeEnd>,
    /// Processes that write into a pipe which it reads, other than the session's: how a wrapper passes a session on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads_from: Vec<Pid>,
    /// Names of the drill's secrets found in its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets_in_argv: Vec<String>,
    /// Names of the drill's secrets found in its environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets_in_environ: Vec<String>,
    /// False where its descriptors or environment could not be read (it made itself non-dumpable).
    pub readable: bool,
}

impl Process {
    /// A zombie has ended; only its parent has not asked yet.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// A TCP socket of the cell that is connected, or connecting, to the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    pub local_port: u16,
    pub remote_port: u16,
    /// The kernel's name: `SYN_SENT`, `ESTABLISHED`, `CLOSE_WAIT`, …
    pub state: String,
}

/// Who presented a credential, as the authority knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// The drill names no authority, or the request carried none.
    Absent,
    /// A credential that this drill did not mint.
    Foreign,
    /// A key of an authority that performs the calls itself.
    Authority {
        /// Not the one for calls of runs: it may do more.
        wider: bool,
    },
    /// The credential of a run. The revoked session presents run A's.
    Run {
        /// `A` or `B`.
        run: Session,
        /// The second credential, from the exchange.
        derived: bool,
        /// Revoked when it was presented.
        revoked: bool,
    },
}

/// Where in a request something stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// The header of this name.
    Header(String),
    /// The parameter of this name.
    Query(String),
    Path,
    /// The field of a form, or the JSON pointer of the value, where it is one of these.
    Body(Option<String>),
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header `{name}`"),
            Self::Query(name) => write!(f, "the query parameter `{name}`"),
            Self::Path => f.write_str("the path"),
            Self::Body(Some(field)) => write!(f, "the body, at `{field}`"),
            Self::Body(None) => f.write_str("the body"),
        }
    }
}

/// A refusal, as the authority tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The call that was refused, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What the call was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// A row of the ownership log, seen through the pointers that the drill names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// From 1.
    pub line: u64,
    /// Bytes of the log up to the end of the row, its newline included where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// What each named pointer found: the keys of `ownership.record`. A key whose pointer found nothing is absent.
    pub fields: BTreeMap<String, serde_json::Value>,
}

impl Row {
    /// The field as text: a JSON string without its quotes, anything else as JSON; `null` and absent are `None`.
    #[must_use]
    pub fn text(&self, field: &str) -> Option<String> {
        match self.fields.get(field)? {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// What the processes of a session have a limit of, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    Processes,
    Threads,
    /// Bytes at one moment.
    Memory,
    /// CPU time in one session, ns.
    Cpu,
}

/// Processes of one name, and what they use together of something that has a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eater {
    pub comm: String,
    pub processes: u64,
    pub uses: u64,
}

/// What kind of line went through the session's pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineShape {
    Request,
    /// A result or an error.
    Response,
    Notification,
    /// Not a JSON-RPC message.
    Noise,
}

/// Which way a line went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    ToServer,
    FromServer,
}

/// What came back for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerShape {
    /// `isError` absent or false.
    Result,
    /// A tool result with `isError: true`.
    ToolError,
    /// A JSON-RPC error.
    Error,
    /// The pipe closed, or the deadline passed, before anything came back.
    Nothing,
}

/// What a call of a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallRole {
    /// One of `call.before`.
    Before,
    /// The call under drill (session A), the recovery (session B), or the call of the revoked session.
    Main,
    /// The call of the revoked session, a second time.
    Again,
}

/// Why a session did not get to its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionFault {
    /// The command could not be executed: ours or the machine's, never the server's.
    NotExecuted,
    /// The server ended before the handshake was answered.
    Exited,
    /// The handshake was not answered in time.
    TimedOut,
    /// What came back was not MCP, or was refused by the client library.
    Refused,
    /// The server died, or closed stdout, between the handshake and the call.
    Lost,
    /// Our own client process failed.
    Client,
}

/// Where a secret of the drill was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    Stderr,
    Stdout,
    /// The ownership log, or a file of the work folder that looks like a log.
    Log,
}

/// A part of the quiet period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietWindow {
    /// ns.
    pub length: u64,
    /// What each process did that was there at both ends.
    pub work: Vec<Work>,
}

/// What a process did in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub pid: Pid,
    /// Time that it wanted to run, on the CPU or waiting for it, ns.
    pub wanted: u64,
    /// Bytes that it read and wrote, where that may be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
}

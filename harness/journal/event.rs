//! What can happen in a trial.
//!
//! Events are the spine: `cell`, `session` and `remote` append them, `trial` waits for them, `judge` reads nothing
//! else, `report` shows them. An event says what was seen, never what it means.
//!
//! Pids are those inside the cell. Durations are nanoseconds. Text that comes from a server under drill is bounded
//! where it enters and made printable where it is appended.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::spec::{Crash, CrashPoint, Signal};

/// A process id as seen inside the cell.
pub type Pid = i32;

/// The number of an event in its journal, from 0.
pub type Seq = u64;

/// One of the sessions of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Session {
    /// Issues the call and is crashed.
    A,
    /// Starts with run A's credential and run id after they were revoked.
    #[serde(rename = "revoked")]
    Revoked,
    /// Recovers, with a run and a credential of its own.
    B,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "session A",
            Self::Revoked => "the revoked session",
            Self::B => "session B",
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
    RevokedSession,
    SessionB,
    Close,
}

/// When a look at the world was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// While a connection of the server to the remote was held pending: the moment of dispatch.
    Dispatch,
    /// At the crash point, before the crash.
    Point,
    /// 100 ms after the look at the point; only where that one showed a zombie or a half-closed socket.
    PointAgain,
    /// When the client was gone.
    ClientGone,
    /// After the observation, before any signal.
    End,
    /// 100 ms after the look at the end; only where that one showed a zombie or a half-closed socket.
    EndAgain,
    /// After SIGTERM to the survivors.
    AfterTerm,
    /// After SIGKILL, or when nothing was left to kill.
    AfterStop,
    /// When the revoked session had ended.
    AfterRevokedSession,
    /// In session B, when the recovery call had been answered.
    Recovered,
    /// When session B had ended.
    AfterSessionB,
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

/// A row of the ownership log, seen through the pointers that the drill names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// From 1.
    pub line: u64,
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

/// Everything that can stand in a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Event {
    // ---- the trial -------------------------------------------------------------------------------------------
    TrialStarted {
        trial: String,
        drill: String,
        crash: Crash,
        /// `cargo-drill` and its version.
        tool: String,
    },
    PhaseStarted {
        phase: Phase,
    },
    CellReady {
        cell: CellKind,
        /// Namespaces were made as an ordinary user.
        user_namespace: bool,
        /// A packet socket sees connection attempts; without one `/proc/net/tcp` is read.
        packet_socket: bool,
        /// The port of the remote inside the cell.
        remote_port: u16,
        /// What this cell weakens, one sentence each.
        weakens: Vec<String>,
    },
    /// The identity of a session: made by the harness, never by the server.
    Minted {
        session: Session,
        run: String,
        call: String,
        approval: String,
    },
    /// A clean run of the call, to learn which of its connections carries the effect.
    Rehearsed {
        /// From 1; absent where no connection carried an effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection: Option<u32>,
        /// All requests of the call in order, as `POST /builds`.
        requests: Vec<String>,
        answer: AnswerShape,
        /// The text of the answer, or what went wrong.
        detail: String,
    },
    Armed {
        point: CrashPoint,
    },
    PointReached {
        point: CrashPoint,
        /// What was seen that proves it.
        proof: String,
    },
    PointMissed {
        point: CrashPoint,
        /// What happened instead.
        instead: String,
    },
    /// The trial could not be run: our fault or the machine's.
    TrialFailed {
        because: String,
    },
    /// Somebody pressed Ctrl-C.
    Interrupted,
    TrialEnded,

    // ---- processes -------------------------------------------------------------------------------------------
    ClientStarted {
        session: Session,
        pid: Pid,
    },
    /// A process that the careless client of the drill started beside the server.
    SiblingStarted {
        session: Session,
        pid: Pid,
        argv: Vec<String>,
    },
    /// The shim became the server.
    ServerStarted {
        session: Session,
        pid: Pid,
        argv: Vec<String>,
    },
    /// Reaped by the client while it lives, by the cell afterwards.
    ProcessExited {
        pid: Pid,
        exit: Exit,
        /// Absent where nobody looked before it ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comm: Option<String>,
    },
    /// A look at every process of the cell besides its init, and at the sockets to the remote.
    Looked {
        moment: Moment,
        /// The session whose pipes `holds` speaks of.
        session: Session,
        processes: Vec<Process>,
        sockets: Vec<Socket>,
    },
    SignalSent {
        pid: Pid,
        signal: Signal,
        comm: String,
    },

    // ---- the session -----------------------------------------------------------------------------------------
    Handshaken {
        session: Session,
        protocol: String,
        server_name: String,
        server_version: String,
    },
    SessionFailed {
        session: Session,
        fault: SessionFault,
        detail: String,
        /// The last lines of stderr.
        stderr_tail: String,
    },
    /// A whole line went through. The transcript holds its text.
    LinePassed {
        session: Session,
        way: Way,
        shape: LineShape,
        bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// The beginning of the line, where it is noise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        excerpt: Option<String>,
    },
    /// The client was asked to make a call. All that comes of the call comes after this; `call-issued`, which travels
    /// through the client, may stand behind the first of it.
    CallAsked {
        session: Session,
        role: CallRole,
        tool: String,
        /// The correlation that it carries.
        call: String,
    },
    /// A tool call was written to the server, whole.
    CallIssued {
        session: Session,
        role: CallRole,
        tool: String,
        /// The correlation that it carries.
        call: String,
        rpc_id: String,
    },
    CallAnswered {
        session: Session,
        role: CallRole,
        rpc_id: String,
        shape: AnswerShape,
        /// Text and structured content of the answer, bounded.
        text: String,
    },
    /// stdout ended while the client lived.
    StdoutEnded {
        session: Session,
        /// Bytes of a last line without its newline.
        torn: u64,
    },
    StderrEnded {
        session: Session,
        bytes: u64,
    },
    /// The client, alive, closed an end of its pipes (`stdin`, `stdout`, `stderr`).
    ClientClosed {
        session: Session,
        stream: String,
    },
    SessionEnded {
        session: Session,
    },

    // ---- the remote ------------------------------------------------------------------------------------------
    /// The server reaches for the remote: a SYN was seen, or `SYN_SENT`, or (with neither) an accepted connection.
    ConnectionSought {
        connection: u32,
        port: u16,
    },
    ConnectionHeld {
        connection: u32,
    },
    /// A held connection was let go.
    ConnectionReleased {
        connection: u32,
    },
    ConnectionAccepted {
        connection: u32,
    },
    /// The whole request has arrived.
    RequestReceived {
        request: u32,
        connection: u32,
        method: String,
        /// Path and query.
        target: String,
        credential: Credential,
        /// The route as the drill writes it (`POST /builds`); absent where none matched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        route: Option<String>,
        /// The kind of effect that this route makes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        body_bytes: u64,
    },
    /// The connection ended in the middle of a request: recorded, never applied.
    RequestTorn {
        connection: u32,
        /// Bytes that had arrived.
        bytes: u64,
        because: String,
    },
    RequestHeld {
        request: u32,
    },
    /// 401: the credential was absent, foreign or revoked.
    RequestRefused {
        request: u32,
        credential: Credential,
    },
    RequestUnmatched {
        request: u32,
        /// A route for it, ready to paste under `remote.routes`.
        paste: String,
    },
    /// The drill's own reply could not be made (a template that does not resolve): 500, nothing applied.
    RouteFailed {
        request: u32,
        /// The route as the drill writes it.
        route: String,
        because: String,
    },
    EffectApplied {
        request: u32,
        /// The remote's id of it.
        effect: String,
        /// The kind that the drill names.
        of: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Same key, same payload: the first result again, nothing applied.
    EffectRepeated {
        request: u32,
        effect: String,
        key: String,
    },
    /// Same key, another payload: 409, nothing applied.
    KeyConflict {
        request: u32,
        effect: String,
        key: String,
    },
    EffectCancelled {
        request: u32,
        effect: String,
    },
    ReplyHeld {
        request: u32,
        status: u16,
    },
    /// All of the reply was handed to the kernel.
    ReplySent {
        request: u32,
        status: u16,
    },
    /// The connection had gone.
    ReplyLost {
        request: u32,
        status: u16,
    },
    /// Everything held was let go; nothing is held from here on.
    RemoteReleased,

    // ---- crash and observation -------------------------------------------------------------------------------
    CrashFired {
        /// What was done, as `SIGKILL to the client`.
        action: String,
        pid: Pid,
    },
    ClientGone {
        pid: Pid,
        exit: Exit,
    },
    /// Nobody holds the write end of the server's stdin any more.
    EofInPipe {
        session: Session,
    },
    /// The client has closed its end, and these processes still hold the write end.
    StdinHeld {
        session: Session,
        /// Started by the server.
        by_server: Vec<Pid>,
        /// Started by the client.
        by_client: Vec<Pid>,
    },
    ObservationEnded {
        /// Nothing is left in the cell.
        empty: bool,
        /// `eof.within` had passed.
        deadline_passed: bool,
    },
    /// The quiet window begins: no connection to the remote is in `SYN_SENT` any more.
    QuietStarted,
    QuietEnded {
        /// Nothing was left to watch.
        empty: bool,
        /// Length of the window, ns.
        window: u64,
        /// Time that each process present at both ends wanted to run in it (on the CPU or waiting), ns.
        #[serde(deserialize_with = "by_pid")]
        wanted: BTreeMap<Pid, u64>,
    },

    // ---- records, secrets, revocation ------------------------------------------------------------------------
    RecordRead {
        moment: Moment,
        /// The connection that was pending, at `dispatch`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection: Option<u32>,
        /// False where the file did not exist.
        present: bool,
        bytes: u64,
        /// Rows that name one of the calls of this trial, in file order.
        rows: Vec<Row>,
        /// All lines, with those of other calls.
        lines: u64,
        /// Lines that are not JSON objects (half a line, two interleaved).
        torn: u64,
        /// Why it could not be read: not a regular file, outside the work folder, too large, no permission.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unreadable: Option<String>,
    },
    /// Text was searched for the drill's secrets. What was found stands in `secret-seen`.
    SecretsSought {
        session: Session,
        places: Vec<String>,
        bytes: u64,
    },
    SecretSeen {
        session: Session,
        /// Its name, as `token of run A`.
        secret: String,
        place: Place,
        /// The file, or the line, without the secret.
        detail: String,
    },
    Revoked {
        run: Session,
    },
    /// The harness asked with run A's credential: an identity route, never a write.
    Probed {
        route: String,
        status: u16,
    },
}

/// Reads a map whose keys are pids. The keys of a JSON object are text, and below `tag` and `flatten` serde hands them on
/// as text even where a number is expected.
fn by_pid<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Pid, u64>, D::Error> {
    BTreeMap::<String, u64>::deserialize(from)?
        .into_iter()
        .map(|(pid, value)| Ok((pid.parse().map_err(D::Error::custom)?, value)))
        .collect()
}

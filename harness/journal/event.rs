//! What can happen in a trial.
//!
//! Events are the spine: `cell`, `session` and `remote` append them, `trial` waits for them, `judge` reads nothing
//! else, `report` shows them. An event says what was seen, never what it means.
//!
//! Text that comes from a server under drill is bounded where it enters and made printable where it is appended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::host::{Asker, Host, HostOutcome, Sought, is_once, once};
use super::seen::{
    AnswerShape, CallRole, Carrier, CellKind, Credential, Eater, Exit, Limit, LineShape, Moment,
    Phase, Pid, Place, Process, QuietWindow, Refusal, Row, Session, SessionFault, Socket, Way,
};
use crate::spec::{Crash, CrashPoint, Errno, Revocable, Signal, SyscallName};

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
        /// The SHA-256 of the bundle's `drill.json`: what this journal is judged by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drill_sha256: Option<String>,
    },
    /// Where in the drill's file stands what an answer may speak of.
    DrillRead {
        /// Relative to the folder that holds `drills/`.
        file: String,
        /// The line of each value by its path, as `call.tool`; from 1.
        lines: BTreeMap<String, usize>,
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
        /// The run that the client says it is, in `clientInfo`. It is none of any session's.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        declared: String,
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
        /// What it looked up or reached for besides the remote. Its pids are those of a cell of its own.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sought: Vec<Sought>,
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
    /// The processes of the session used more than they may: the cell kills them all, and the client with them. No exit
    /// of theirs is told one by one.
    LimitExceeded {
        limit: Limit,
        /// A number, bytes or ns, as the limit is.
        most: u64,
        used: u64,
        /// Those with the most of it.
        by: Vec<Eater>,
        /// It was in the rehearsal of the call, which has a cell of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rehearsal: bool,
    },
    /// All of them have ended.
    CellCleared {
        /// How many were waited for, the client among them.
        ended: u64,
    },

    // ---- system calls, where the gate is open ------------------------------------------------------------------
    /// A process of session A makes a system call.
    SyscallEntered {
        pid: Pid,
        name: SyscallName,
        /// From 1, among all of this name since the call was issued.
        nth: u32,
        /// A path or an address.
        detail: String,
    },
    /// It waits in the kernel.
    SyscallHeld {
        pid: Pid,
        name: SyscallName,
        nth: u32,
    },
    /// It goes on, or fails.
    SyscallReleased {
        pid: Pid,
        name: SyscallName,
        nth: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errno: Option<Errno>,
    },
    /// System calls cannot be seen here, or not all of them.
    GateUnavailable {
        because: String,
    },
    /// The ownership log is opened for writing.
    RecordOpened {
        pid: Pid,
        /// Each write is on the disk when it returns.
        synchronous: bool,
    },
    /// The ownership log was brought to the disk, as far as it went when that began.
    RecordSynced {
        pid: Pid,
        bytes: u64,
    },

    // ---- the session -----------------------------------------------------------------------------------------
    Handshaken {
        session: Session,
        protocol: String,
        server_name: String,
        server_version: String,
    },
    /// The tools that the server lists, by their names, bounded.
    ToolsListed {
        session: Session,
        tools: Vec<String>,
        /// False where it has more.
        whole: bool,
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
    /// The client was asked to make a call.
    CallAsked {
        session: Session,
        role: CallRole,
        tool: String,
        /// The correlation that it carries.
        call: String,
    },
    /// A tool call was written to the server, whole: all that comes of it comes after this.
    CallIssued {
        session: Session,
        role: CallRole,
        tool: String,
        /// The correlation that it carries.
        call: String,
        rpc_id: String,
    },
    /// Half of the line of a tool call was written to the server; the other half never is.
    CallTorn {
        session: Session,
        bytes: u64,
        of: u64,
    },
    /// The line of a tool call was written whole, and this much of the server's stdin nobody had read then.
    CallUnread {
        session: Session,
        bytes: u64,
    },
    /// The line of a tool call was written whole, and all that was in the server's stdin has been read.
    CallTaken {
        session: Session,
    },
    /// The client reads nothing more from the server's stdout, which it holds open.
    ReadingStopped {
        session: Session,
    },
    /// The client, which lives on after the crash, reads again.
    ReadingResumed {
        session: Session,
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
    /// What a session has written to stderr, when it ended or was given up.
    StderrKept {
        session: Session,
        /// Its last lines.
        tail: String,
    },
    /// The client, alive, closed an end of its pipes (`stdin`, `stdout`, `stderr`).
    ClientClosed {
        session: Session,
        stream: String,
    },
    /// The server ended, or closed its stdout, while its client lived and waited for an answer.
    ServerLost {
        session: Session,
        /// Absent where it still runs, or where its end was not seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<Exit>,
        /// Bytes of what the client had written that nobody had read; absent where the kernel does not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unread: Option<u64>,
        /// The last lines of stderr.
        stderr_tail: String,
    },
    SessionEnded {
        session: Session,
    },

    // ---- what is not the remote ------------------------------------------------------------------------------
    /// A process looked up a name, or reached for an address at which nobody listens.
    HostSought {
        host: Host,
        outcome: HostOutcome,
        /// Absent where its socket had gone when it was looked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Asker>,
        /// More than once, at the end of the trial: how often besides those that were told one by one.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        times: u64,
    },
    /// So often other hosts were sought than those of which is told: there were too many.
    HostsLeftOut {
        times: u64,
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
    /// A request that was refused carries a credential that the drill minted, in another form than the drill declares.
    CredentialMisplaced {
        request: u32,
        /// Its name, as `token of run A`.
        secret: String,
        carrier: Carrier,
        /// The word before it in its header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scheme: Option<String>,
        /// It does not stand there as it is, but in base64 or the like.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        encoded: bool,
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
    /// A decision waits: to be made, or, made, to be given.
    DecisionHeld {
        request: u32,
        made: bool,
    },
    /// What was decided about the call that this request asks about. Told twice where another decision was given than was
    /// made.
    Decided {
        request: u32,
        approved: bool,
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
    /// The reply is made, and goes out as soon as the client has stopped reading.
    ReplyReady {
        request: u32,
        status: u16,
    },
    /// Half of the reply was handed to the kernel.
    HalfReplySent {
        request: u32,
        status: u16,
        /// Head and body so far.
        bytes: u64,
        /// Head and body.
        whole: u64,
    },
    /// The drill has the remote turn it away with this status: nothing was applied.
    RequestTurnedAway {
        request: u32,
        status: u16,
    },
    /// The drill has the remote answer with this error in place of the reply, though it was applied.
    ReplyReplaced {
        request: u32,
        status: u16,
    },
    /// The drill has the remote reset the connection in place of the reply, or of the rest of it.
    ConnectionReset {
        request: u32,
    },
    /// The drill has the remote give the reply byte by byte; its last byte comes at the release.
    ReplySlowed {
        request: u32,
        status: u16,
    },
    /// A proxy that lost the first reply has sent the request once more, as it was. What becomes of that is told of
    /// `as_request`; its reply goes to the server as that of `request`.
    RequestReplayed {
        request: u32,
        as_request: u32,
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
    /// The client, which shuts the server down politely, has waited for it and sends it a signal.
    ClientSignalled {
        session: Session,
        signal: Signal,
        /// To the server's process group.
        group: bool,
    },
    /// Every thread of these processes, which read the server's stdin, is stopped.
    ServerStopped {
        pids: Vec<Pid>,
    },
    /// They run again.
    ServerContinued {
        pids: Vec<Pid>,
    },
    /// What was to hold up to the crash did not: the crash fell on another moment.
    PointLost {
        point: CrashPoint,
        instead: String,
    },
    /// Nobody holds the write end of the server's stdin any more: the time is that of the look that found nobody.
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
        /// One after another, as long as what is left is seen to move and has not had `eof.within` to end.
        windows: Vec<QuietWindow>,
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
    /// From here on it must not count any more.
    Revoked {
        run: Session,
        #[serde(default)]
        of: Revocable,
        /// The operator.
        #[serde(default)]
        by: String,
    },
    /// The harness asked with run A's credential: an identity route, never a write.
    Probed {
        route: String,
        status: u16,
    },
    /// The operator cancels the effect that the record names, with a credential of its own.
    CancelAsked {
        /// The remote's id of it, as the record has it.
        effect: String,
        route: String,
        status: u16,
    },
    /// The authority of the drill, a process of its own, is ready. Told again before a session where more of it has come.
    AuthorityServes {
        pid: Pid,
        argv: Vec<String>,
        /// Whoever else was there before a session began.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Pid>,
    },
    /// A command of the authority has ended, or has not within its time: then it has no exit.
    AuthorityCommand {
        /// `issue`, `revoke`, `refusals`, `verify`.
        what: String,
        run: Session,
        argv: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit: Option<Exit>,
        /// What it wrote, bounded.
        stdout: String,
        stderr: String,
    },
    /// What the authority says that it refused to run A.
    RefusalsRead {
        moment: Moment,
        refusals: Vec<Refusal>,
    },
}

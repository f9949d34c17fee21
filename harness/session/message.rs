//! What the harness and a client process say to each other: one JSON message a line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::notes::Noting;
use crate::cell::Pipe;
use crate::journal::{AnswerShape, Exit, LineShape, Pid, Stamp, Way};
use crate::spec::{Protocol, Sdk, Signal, StdinKind, Stream};

/// From the harness to the client.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Start the server through the shim.
    Start(Start),
    /// Open the session.
    Handshake {
        protocol: Protocol,
    },
    /// Ask for the tools this many times: each after the first shifts the JSON-RPC ids, and that is all.
    ListTools {
        times: u32,
    },
    Call(Call),
    /// Close one end of the pipes, alive.
    Close {
        stream: Stream,
    },
    /// Read nothing more from the server's stdout, and keep it open.
    StopReading,
    /// Read on.
    ReadOn,
    /// End the session as this SDK's client does, and exit.
    ShutDown {
        sdk: Sdk,
    },
}

/// How a call is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Write {
    /// And told of when its last byte is written.
    #[default]
    Whole,
    /// The same, where the line has a character of more than one byte in two parts: the second begins in the middle of it,
    /// and comes when the first has been read. A pipe may cut a longer line anywhere.
    Cut,
    /// Half of the line, and the other half never.
    Half,
    /// Whole, and how much of it nobody has read is told.
    Unread,
    /// Whole, and told when all of it has been read.
    Taken,
}

/// In which process group and session the server is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leading {
    /// In the client's.
    Nothing,
    /// A process group of its own.
    Group,
    /// A session of its own, as the Python SDK has it.
    Session,
}

/// What came of asking for the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listing {
    /// All that there are.
    Whole,
    /// There are more than are asked for.
    Part,
    /// An error, or what is no list.
    Refused,
    /// No answer came in time.
    Unanswered,
}

/// How to start the server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// The shim tells the server's pid here.
    pub shim: PathBuf,
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub stdin: StdinKind,
    pub group: Leading,
    /// A sibling that inherits the write end of the server's stdin.
    pub leak_stdin_to: Vec<String>,
    /// A file that the server's stderr goes to, in place of a pipe to the client.
    pub stderr: Option<PathBuf>,
    /// The server's notifications of log messages are kept.
    pub noting: Option<Noting>,
    /// What the client says that it is.
    pub declared: String,
}

/// A tool call with its correlation.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// The call id.
    pub id: String,
    pub traceparent: String,
    pub write: Write,
}

/// What the client tells, with the time at which it happened. What waits on its way happened no later for that.
#[derive(Debug, Serialize, Deserialize)]
pub struct Timed {
    pub at: Stamp,
    pub told: Told,
}

/// From the client to the harness.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told {
    /// The shim was started; it speaks for itself from here.
    Started {
        pid: Pid,
        pipes: Vec<Pipe>,
    },
    NotStarted {
        because: String,
    },
    SiblingStarted {
        pid: Pid,
        argv: Vec<String>,
    },
    /// A line went through, whole.
    Line {
        way: Way,
        shape: LineShape,
        bytes: u64,
        id: Option<String>,
        method: Option<String>,
        /// The raw line; where it is not UTF-8, with replacement characters.
        text: String,
    },
    /// The answer to a tool call was read.
    Answer {
        id: String,
        shape: AnswerShape,
        text: String,
    },
    Handshaken {
        protocol: String,
        name: String,
        version: String,
    },
    NotHandshaken {
        because: String,
    },
    /// What the first list of them has.
    ToolsListed {
        tools: Vec<String>,
        listing: Listing,
    },
    Stderr {
        text: String,
    },
    StderrEnded {
        bytes: u64,
    },
    StdoutEnded {
        torn: u64,
        /// Bytes in the server's stdin that nobody has read; absent where the kernel does not tell.
        unread: Option<u64>,
    },
    Closed {
        stream: Stream,
    },
    /// Half of the call's line was written.
    CallTorn {
        bytes: u64,
        of: u64,
    },
    /// The call's line was written, and this much in the server's stdin is unread.
    CallUnread {
        bytes: u64,
    },
    /// The call's line was written, and nothing in the server's stdin is unread any more.
    CallTaken,
    ReadingStopped,
    ReadingResumed,
    /// The client, which shuts the server down, has sent it a signal.
    Signalled {
        signal: Signal,
        group: bool,
    },
    /// The server has ended, and the client exits.
    ShutDown,
    ServerExited {
        exit: Exit,
        /// As with `StdoutEnded`.
        unread: Option<u64>,
    },
}

impl Told {
    /// Everything but lines and text: what the trial waits for.
    pub fn is_bulk(&self) -> bool {
        matches!(self, Self::Line { .. } | Self::Stderr { .. })
    }
}

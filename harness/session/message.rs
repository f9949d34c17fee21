//! What the harness and a client process say to each other: one JSON message a line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cell::Pipe;
use crate::journal::{AnswerShape, Exit, LineShape, Pid, Way};
use crate::spec::{Protocol, StdinKind, Stream};

/// From the harness to the client.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Start the server through the shim.
    Start(Start),
    /// Open the session.
    Handshake {
        protocol: Protocol,
    },
    /// Ask for the tools this many times: shifts the JSON-RPC ids.
    ListTools {
        times: u32,
    },
    Call(Call),
    /// Close one end of the pipes, alive.
    Close {
        stream: Stream,
    },
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
    /// A sibling that inherits the write end of the server's stdin.
    pub leak_stdin_to: Vec<String>,
}

/// A tool call with its correlation.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// The call id.
    pub id: String,
    pub traceparent: String,
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
    ToolsListed,
    Stderr {
        text: String,
    },
    StderrEnded {
        bytes: u64,
    },
    StdoutEnded {
        torn: u64,
    },
    Closed {
        stream: Stream,
    },
    ServerExited {
        exit: Exit,
    },
}

impl Told {
    /// Everything but lines and text: what the trial waits for.
    pub fn is_bulk(&self) -> bool {
        matches!(self, Self::Line { .. } | Self::Stderr { .. })
    }
}

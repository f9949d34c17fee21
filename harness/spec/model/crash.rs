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

impl From<Signal> for nix::sys::signal::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Kill => Self::SIGKILL,
            Signal::Term => Self::SIGTERM,
            Signal::Int => Self::SIGINT,
            Signal::Hup => Self::SIGHUP,
            Signal::Stop => Self::SIGSTOP,
            Signal::Cont => Self::SIGCONT,
        }
    }
}

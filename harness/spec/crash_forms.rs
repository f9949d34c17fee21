//! How a crash is written in a drill file: a plain word, a mapping, or a list of both.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::model::{
    Boundary, Crash, CrashPoint, Decision, Errno, Kill, ReplyTiming, Signal, Stream, Syscall, Then,
};

/// A crash point, or a crash point with what is done at it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CrashForm {
    Point(CrashPoint),
    Full(CrashMap),
}

/// A crash point and what is done at it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashMap {
    /// The moment. One of `at`, `syscall` and `boundary` says it.
    at: Option<CrashPoint>,
    /// Tells apart two crashes at one point: the last part of the trial's name, `[a-z0-9-]+`.
    #[schemars(regex(pattern = r"^[a-z0-9-]+$"))]
    name: Option<String>,
    /// Who is killed.
    #[serde(default)]
    kill: Kill,
    /// With which signal.
    #[serde(default)]
    signal: Signal,
    /// What becomes of the reply of an effect, from the crash on.
    #[serde(default)]
    reply: ReplyTiming,
    /// What the remote does next with the call's effect request, in place of `reply`.
    then: Option<Then>,
    /// What becomes of a decision that is held.
    #[serde(default)]
    decision: Decision,
    /// Instead of a kill: the client lives, closes these in order and reads on.
    #[serde(default)]
    close: Vec<Stream>,
    /// Which connection of the call carries the effect, from 1. Default: a rehearsal finds it.
    #[schemars(range(min = 1))]
    connection: Option<u32>,
    /// In place of `at`: the server is held in this system call of the call.
    syscall: Option<Syscall>,
    /// How that system call ends once the crash has happened. Default: it goes on.
    errno: Option<Errno>,
    /// In place of `at`: this event of the call, as `crash: every` finds them.
    boundary: Option<Boundary>,
    /// The system calls of the server's processes are seen, and how they come to the disk. Default: the drill's `gate`.
    #[serde(default)]
    gate: bool,
    /// Journals say it, drills do not.
    #[schemars(skip)]
    of_every: Option<u32>,
}

impl From<CrashForm> for Crash {
    fn from(form: CrashForm) -> Self {
        match form {
            CrashForm::Point(at) => Self {
                at,
                name: None,
                kill: Kill::default(),
                signal: Signal::default(),
                reply: ReplyTiming::default(),
                then: None,
                decision: Decision::default(),
                close: Vec::new(),
                connection: None,
                syscall: None,
                errno: None,
                boundary: None,
                gate: false,
                of_every: None,
            },
            CrashForm::Full(map) => Self {
                // Where neither is written, or two are, the drill is refused before anybody looks at this.
                at: map.at.unwrap_or(if map.syscall.is_some() {
                    CrashPoint::Syscall
                } else {
                    CrashPoint::Boundary
                }),
                name: map.name,
                kill: map.kill,
                signal: map.signal,
                reply: map.reply,
                then: map.then,
                decision: map.decision,
                close: map.close,
                connection: map.connection,
                syscall: map.syscall,
                errno: map.errno,
                boundary: map.boundary,
                gate: map.gate,
                of_every: map.of_every,
            },
        }
    }
}

/// Crashes: a list, or one for itself, as in `crash: every`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CrashesForm {
    List(#[schemars(length(min = 1))] Vec<Crash>),
    One(Box<Crash>),
}

/// Reads crashes, one or a list of them.
pub fn crashes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Crash>, D::Error> {
    Ok(match CrashesForm::deserialize(deserializer)? {
        CrashesForm::List(crashes) => crashes,
        CrashesForm::One(crash) => vec![*crash],
    })
}

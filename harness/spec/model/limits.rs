//! What a server may use of the machine.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::forms;

/// What the processes of a session may use together. Beyond it the cell ends them all and the trial with them:
/// `resources` is broken, and what had not been decided by then is unproven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// How many processes at one moment: the server, those that it started, and theirs, zombies included. Threads do
    /// not count: 512 are always allowed, and 32 for each process up to 4096. Default: 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub processes: Option<u32>,
    /// How much memory at one moment: what each process has for itself, and its share of what several have. Files that
    /// are mapped, such as programs, do not count. Default: 4 GiB, or half of the machine's where that is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// How much CPU time in one session, over all processes and processors. Default: as much as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuTime>,
}

impl Limits {
    /// Nothing is said about limits.
    pub fn is_silent(&self) -> bool {
        *self == Self::default()
    }
}

/// A size, written `256MiB` or `1GiB`; a plain number is bytes. A unit may be shortened (`256M`, `256MB`, `256Mi`): it is
/// a power of 1024 all the same.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "forms::SizeForm", into = "forms::SizeForm")]
pub struct Size(pub u64);

/// CPU time, written `10s`; a plain number is seconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "forms::CpuTimeForm", into = "forms::CpuTimeForm")]
pub struct CpuTime(pub Duration);

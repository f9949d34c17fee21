//! The three moments that must not be taken for one another: when the client was gone, when the last operation of the
//! session was started, and when its authority was revoked. Between the first and the last of them somebody may act in the
//! name of nobody.
#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::history::History;
use super::landed;

/// When, in ns since the trial's start. A moment that did not come is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moments {
    /// The crash, where it landed at the point that the trial names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_gone: Option<u64>,
    /// The last request of session A, or of what was left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<Operation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

/// A request, when it had arrived whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub at: u64,
    /// `POST /builds`.
    pub name: String,
}

pub(super) fn moments(history: &History<'_>) -> Moments {
    let last = history.ledger.requests_in(history.window_a()).last();
    let crash = history.crash_fired();
    Moments {
        crash: crash
            .filter(|_| landed::why_not(history).is_none())
            .map(|seen| seen.at),
        client_gone: history.client_gone().map(|seen| seen.at),
        last_operation: last.map(|request| Operation {
            at: request.seen.at,
            name: request.name(),
        }),
        revoked: history.revoked().map(|seen| seen.at),
    }
}

impl Moments {
    /// None of them has come.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

//! The polite shutdowns of three SDKs' clients: what a client does that ends in order.
//!
//! | SDK | after stdin was closed |
//! |---|---|
//! | TypeScript | 2 s, SIGTERM to the child, 2 s, SIGKILL to the child |
//! | Python | 2 s, SIGTERM to the child's group, 2 s, SIGKILL to the group; the server leads a session of its own |
//! | Rust (rmcp) | 3 s, SIGTERM to the child, 3 s, SIGKILL to the child |
//!
//! None of them looks for helpers, and none signals a group that it did not make.

use std::time::Duration;

use nix::sys::signal::{Signal as NixSignal, kill, killpg};
use nix::unistd::Pid as NixPid;
use tokio::sync::watch;

use super::message::Told;
use super::teller::Teller;
use crate::journal::Pid;
use crate::spec::{Sdk, Signal};

impl Sdk {
    /// Between closing stdin and SIGTERM, and between SIGTERM and SIGKILL.
    pub(crate) fn patience(self) -> Duration {
        match self {
            Self::Typescript | Self::Python => Duration::from_secs(2),
            Self::Rust => Duration::from_secs(3),
        }
    }
}

/// Waits for the server as this SDK's client does, its stdin being closed, and signals it where it does not end.
pub(super) async fn shut_down(
    sdk: Sdk,
    server: Pid,
    mut exited: watch::Receiver<bool>,
    tell: &Teller,
) {
    let group = sdk == Sdk::Python;
    for signal in [Signal::Term, Signal::Kill] {
        let ended = exited.wait_for(|exited| *exited);
        if tokio::time::timeout(sdk.patience(), ended).await.is_ok() {
            return;
        }
        let to = NixPid::from_raw(server);
        let send = if group { killpg } else { kill };
        // Told before it is sent, since it may end the session in this very moment.
        tell.tell(Told::Signalled { signal, group });
        // It may end by itself in this very moment.
        let _ = send(to, NixSignal::from(signal));
    }
    let _ = exited.wait_for(|exited| *exited).await;
}

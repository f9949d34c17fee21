//! The session: one client process and the server that it started.
//!
//! ```text
//!   harness                    │ cell
//!   live.rs ── asks, told ─────┼── client.rs ── transport.rs ══ stdin, stdout, stderr ══ server
//!      └──── shim's socket ────┼──────────────── shim.rs ── execve ──────────────────────┘
//! ```
//!
//! The client is a process of its own, because it must be possible to kill it alone. It knows nothing of drills: it is
//! asked for a handshake, a call, a close, and tells what passes. The harness turns that into events.

pub(crate) mod client;
mod keep;
mod live;
mod message;
mod notes;
mod pump;
pub(crate) mod shim;
mod shutdown;
mod stdin;
mod teller;
mod tools;
mod transport;

pub use keep::{file_stem, gather_stderr};
pub use live::{Gated, Issue, LiveSession, Opening, SessionError, fits_a_socket};
pub use message::{Leading, Listing, Write};
pub use notes::Noting;

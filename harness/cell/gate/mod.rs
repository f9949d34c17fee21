//! The gate: system calls of the server's processes are seen as they are made, held, and failed (`seccomp_unotify(2)`).
//!
//! ```text
//!   shim ── installs the filter, hands the listener over, execve ──► server ──► its children
//!             │                                                        │ connect, fsync, …: waits in the kernel
//!             └─ listener ─► a thread of the harness ◄─────────────────┘
//!                              counts, appends events, and lets go, holds, or answers with an error
//! ```
//!
//! The filter is installed by the process that becomes the server, so nothing stands in between and any server in any
//! language can be held. It is inherited by all that the server starts. Where a drill asks for none of this, nothing is
//! installed and nothing is different.
//!
//! What the filter cannot see: operations through `io_uring` (told as a blind spot), memory that is written through a
//! mapping, and system calls of another architecture than the harness's own (32-bit), which are let through.
//!
//! If the harness dies the listener closes, and the kernel answers ENOSYS to whoever waits; the cell ends them anyway.

mod calls;
mod count;
mod disk;
mod filter;
mod hand;
mod look;
mod notify;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use filter::install;
pub(crate) use hand::{Handed, hand_over, take_over};
pub use thread::{Gate, Scene};

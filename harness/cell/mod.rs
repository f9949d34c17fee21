//! The cell: the operating-system room in which a trial runs. Nothing leaves it, all in it is seen, dropping it ends
//! all.
//!
//! It is a small process of its own, the ancestor of client and server. [`outside`] runs in the harness, [`inside`] in
//! the cell; between them goes one typed message at a time ([`message`]). It knows no drill and no verdict.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "cargo-drill needs Linux: it looks at processes through /proc and builds namespaces. Elsewhere run it in a \
     container: docker run --rm -v \"$PWD\":/src -w /src rust:1 sh -c 'cargo install cargo-drill && cargo drill'"
);

mod bounds;
mod counters;
mod doorway;
mod ended;
mod fence;
pub(crate) mod gate;
mod guard;
pub(crate) mod inside;
mod kill;
mod listening;
mod message;
mod mounts;
mod network;
mod outside;
mod owner;
mod proc;
mod resolver;
mod room;
mod seccomp;
mod sys;
mod usage;

pub use bounds::Bounds;
pub use doorway::{Doorway, NetworkDoor, OtlpDoor};
pub(crate) use ended::{Children, ended};
pub use fence::Fence;
pub use gate::{Gate, Scene};
pub use message::{Pipe, Plan, Present, Wanted};
pub use mounts::Needs;
pub use outside::{Cell, CellError, Line, Look, Spawn};
pub(crate) use sys::{unread_in_pipe, unread_in_socket};

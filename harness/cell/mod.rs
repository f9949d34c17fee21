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
pub(crate) mod gate;
mod guard;
pub(crate) mod inside;
mod kill;
mod message;
mod outside;
mod proc;
mod room;
mod sys;
mod usage;

pub use bounds::Bounds;
pub use gate::{Gate, Scene};
pub use message::{Pipe, Plan, Present, Wanted};
pub use outside::{Cell, CellError, Doorway, Line, Look, OtlpDoor, Spawn};
pub(crate) use sys::{unread_in_pipe, unread_in_socket};

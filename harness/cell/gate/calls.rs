//! Which system calls the filter asks about, and where each says what it is about.

use nix::libc::{self, c_long};

use crate::spec::SyscallName;

/// One system call that the filter asks about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub number: c_long,
    pub about: About,
}

/// What a call is, and in which of its arguments that stands, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// A socket is connected: the descriptor is the first argument, the address and its length follow.
    Address,
    /// Something is done to a path.
    Path { name: SyscallName, at: At },
    /// A file is opened; only for writing it counts.
    Open { at: At, flags: Flags },
    /// A path gets another name.
    Rename { from: At, to: At },
    /// A file is brought to the disk.
    Sync { name: SyscallName },
    /// Something is written to a descriptor. The session's stdout is a pipe, so sendto(2) and sendmsg(2) cannot reach it,
    /// and a server's HTTP is not slowed down by asking about them.
    Write,
    /// Everything, or a whole file system, is brought to the disk. Nobody can be held here.
    SyncAll,
    /// A way past the gate is opened.
    Ring,
}

/// A path: where its folder stands, unless it is the current one, and where the path itself stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub folder: Option<usize>,
    pub path: usize,
}

/// Where the flags of an open stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    Argument(usize),
    /// The first eight bytes of a structure (`open_how` of openat2(2)).
    InMemory(usize),
    /// creat(2) has none: it always writes.
    Creates,
}

/// The flags with which something is opened to be written, or made: `O_WRONLY`, `O_RDWR`, `O_CREAT`.
pub(super) const WRITES: u32 = (libc::O_ACCMODE | libc::O_CREAT).cast_unsigned();

const fn at(folder: usize, path: usize) -> At {
    At {
        folder: Some(folder),
        path,
    }
}

/// Only the oldest calls take no folder; newer architectures do not have them.
#[cfg(target_arch = "x86_64")]
const fn here(path: usize) -> At {
    At { folder: None, path }
}

const fn asked(number: c_long, about: About) -> Asked {
    Asked { number, about }
}

const EXECVE: About = About::Path {
    name: SyscallName::Execve,
    at: At {
        folder: None,
        path: 0,
    },
};

/// What every architecture has.
const COMMON: [Asked; 15] = [
    asked(libc::SYS_connect, About::Address),
    asked(libc::SYS_execve, EXECVE),
    asked(
        libc::SYS_execveat,
        About::Path {
            name: SyscallName::Execve,
            at: at(0, 1),
        },
    ),
    asked(
        libc::SYS_openat,
        About::Open {
            at: at(0, 1),
            flags: Flags::Argument(2),
        },
    ),
    asked(
        libc::SYS_openat2,
        About::Open {
            at: at(0, 1),
            flags: Flags::InMemory(2),
        },
    ),
    asked(
        libc::SYS_renameat2,
        About::Rename {
            from: at(0, 1),
            to: at(2, 3),
        },
    ),
    asked(
        libc::SYS_unlinkat,
        About::Path {
            name: SyscallName::Unlink,
            at: at(0, 1),
        },
    ),
    asked(
        libc::SYS_fsync,
        About::Sync {
            name: SyscallName::Fsync,
        },
    ),
    asked(
        libc::SYS_fdatasync,
        About::Sync {
            name: SyscallName::Fdatasync,
        },
    ),
    asked(libc::SYS_write, About::Write),
    asked(libc::SYS_writev, About::Write),
    asked(libc::SYS_pwritev2, About::Write),
    asked(libc::SYS_sync, About::SyncAll),
    asked(libc::SYS_syncfs, About::SyncAll),
    asked(libc::SYS_io_uring_setup, About::Ring),
];

#[cfg(target_arch = "x86_64")]
const OWN: [Asked; 5] = [
    asked(
        libc::SYS_open,
        About::Open {
            at: here(0),
            flags: Flags::Argument(1),
        },
    ),
    asked(
        libc::SYS_creat,
        About::Open {
            at: here(0),
            flags: Flags::Creates,
        },
    ),
    asked(
        libc::SYS_rename,
        About::Rename {
            from: here(0),
            to: here(1),
        },
    ),
    asked(
        libc::SYS_renameat,
        About::Rename {
            from: at(0, 1),
            to: at(2, 3),
        },
    ),
    asked(
        libc::SYS_unlink,
        About::Path {
            name: SyscallName::Unlink,
            at: here(0),
        },
    ),
];

#[cfg(target_arch = "aarch64")]
const OWN: [Asked; 1] = [asked(
    libc::SYS_renameat,
    About::Rename {
        from: at(0, 1),
        to: at(2, 3),
    },
)];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OWN: [Asked; 0] = [];

/// All of them.
pub(super) fn all() -> impl Iterator<Item = Asked> {
    COMMON.into_iter().chain(OWN)
}

/// What a system call of this number is about.
pub(super) fn about(number: i32) -> Option<About> {
    all()
        .find(|asked| asked.number == c_long::from(number))
        .map(|asked| asked.about)
}

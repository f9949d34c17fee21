//! What goes over the listener: a system call that waits, and how it goes on.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno as SystemError;
use nix::libc;

use crate::spec::Errno;

/// A system call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notification {
    /// Names this waiting, not the call: a call that a signal interrupts is told again under another one.
    pub id: u64,
    pub call: Call,
}

/// A call as the kernel sees it: who makes it and with what. Two that are equal are the same call made again, or another
/// one at the same place of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// The thread, as the harness sees it.
    pub thread: i32,
    pub number: i32,
    pub instruction: u64,
    pub arguments: [u64; 6],
}

/// How a call goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    GoOn,
    Fail(Errno),
}

/// Room for what a newer kernel may tell beyond what is known here (`SECCOMP_GET_NOTIF_SIZES`).
#[repr(C)]
struct Room {
    told: libc::seccomp_notif,
    more: [u64; 32],
}

/// The next call that waits; none where it was interrupted before it could be told.
pub(super) fn receive(listener: &OwnedFd) -> io::Result<Option<Notification>> {
    // SAFETY: all-zero is valid for integers, and the kernel wants it so.
    let mut room: Room = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif` into `room`, which has room for one that is larger, and outlives the
    // call.
    let received = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV as _,
            &raw mut room,
        )
    };
    match SystemError::result(received) {
        Ok(_) => Ok(Some(Notification {
            id: room.told.id,
            call: Call {
                thread: room.told.pid.cast_signed(),
                number: room.told.data.nr,
                instruction: room.told.data.instruction_pointer,
                arguments: room.told.data.args,
            },
        })),
        Err(SystemError::ENOENT | SystemError::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Lets a call go on. False where it does not wait any more: it was interrupted, or its thread has ended.
pub(super) fn answer(listener: &OwnedFd, id: u64, answer: Answer) -> bool {
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: 0,
    };
    match answer {
        Answer::GoOn => response.flags = CONTINUE,
        Answer::Fail(errno) => response.error = -(SystemError::from(errno) as i32),
    }
    // SAFETY: the kernel reads one `seccomp_notif_resp`, which outlives the call.
    let sent = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND as _,
            &raw mut response,
        )
    };
    sent == 0
}

/// Whether a call still waits: what was read of its thread meanwhile was of this call, and not of what came after it.
pub(super) fn is_waiting(listener: &OwnedFd, id: u64) -> bool {
    // SAFETY: the kernel reads one u64, which outlives the call.
    let valid = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _,
            &raw const id,
        )
    };
    valid == 0
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the flag is 1; libc declares it wider than the field that it goes into"
)]
const CONTINUE: u32 = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;

impl From<Errno> for SystemError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::Eacces => Self::EACCES,
            Errno::Econnrefused => Self::ECONNREFUSED,
            Errno::Econnreset => Self::ECONNRESET,
            Errno::Edquot => Self::EDQUOT,
            Errno::Eexist => Self::EEXIST,
            Errno::Eio => Self::EIO,
            Errno::Emfile => Self::EMFILE,
            Errno::Enetunreach => Self::ENETUNREACH,
            Errno::Enoent => Self::ENOENT,
            Errno::Enospc => Self::ENOSPC,
            Errno::Epipe => Self::EPIPE,
            Errno::Erofs => Self::EROFS,
            Errno::Etimedout => Self::ETIMEDOUT,
        }
    }
}

//! The client's end of the server's stdin: a pipe, or one half of a socket pair.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

use crate::cell::{self, Pipe};
use crate::journal::{PipeEnd, Stamp};
use crate::spec::StdinKind;

/// A new pipe takes so much (pipe(7)); a longer line needs a reader, or a larger pipe.
const USUAL_PIPE: usize = 64 * 1024;

/// The write end of the server's stdin; empty once the client has closed it.
pub(super) type Stdin = Arc<Mutex<Option<Writer>>>;

/// How much of what the client wrote was left unread; `None` where it has closed its end, still writes, or cannot know.
pub(super) fn left_unread(stdin: &Stdin) -> Option<u64> {
    stdin.try_lock().ok()?.as_ref()?.left_unread()
}

/// Writes to the server's stdin.
pub(super) enum Writer {
    Pipe(pipe::Sender),
    Socket(UnixStream),
}

impl Writer {
    /// Writes all of it, and returns when the last of it was written: right before the write that took it.
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<Stamp> {
        let mut rest = bytes;
        loop {
            match self {
                Self::Pipe(pipe) => pipe.writable().await?,
                Self::Socket(socket) => socket.writable().await?,
            }
            let now = Stamp::now();
            let written = match self {
                Self::Pipe(pipe) => pipe.try_write(rest),
                Self::Socket(socket) => socket.try_write(rest),
            };
            match written {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if rest.is_empty() {
                return Ok(now);
            }
        }
    }

    /// Makes room for so many bytes, as far as the kernel lets us.
    pub fn make_room(&self, bytes: usize) {
        if let Self::Pipe(pipe) = self
            && bytes > USUAL_PIPE
            && let Ok(size) = i32::try_from(bytes.saturating_add(USUAL_PIPE))
        {
            let _ = nix::fcntl::fcntl(pipe.as_fd(), nix::fcntl::FcntlArg::F_SETPIPE_SZ(size));
        }
    }

    /// How much of what was written was left unread by a reader who may have gone: what is in a pipe stays in it. What was
    /// in a socket goes with its reader, and then nobody can tell.
    pub fn left_unread(&self) -> Option<u64> {
        match self {
            Self::Pipe(_) => self.unread().ok(),
            Self::Socket(_) => None,
        }
    }

    /// How much of what was written nobody has read; of a socket pair the kernel counts its own overhead as well.
    pub fn unread(&self) -> io::Result<u64> {
        match self {
            Self::Pipe(pipe) => cell::unread_in_pipe(pipe.as_fd()),
            Self::Socket(socket) => cell::unread_in_socket(socket.as_fd()),
        }
    }
}

/// The client's side of the server's stdin, before anybody writes.
pub(super) enum OurStdin {
    Pipe(io::PipeWriter),
    Socket(StdUnixStream),
}

impl OurStdin {
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe(pipe) => pipe.as_fd(),
            Self::Socket(socket) => socket.as_fd(),
        }
    }

    pub fn into_writer(self) -> io::Result<Writer> {
        Ok(match self {
            Self::Pipe(pipe) => Writer::Pipe(pipe::Sender::from_owned_fd(pipe.into())?),
            Self::Socket(socket) => {
                socket.set_nonblocking(true)?;
                Writer::Socket(UnixStream::from_std(socket)?)
            }
        })
    }
}

/// The server's end, ours, and what identifies them.
pub(super) fn stdin_of(kind: StdinKind) -> io::Result<(OwnedFd, OurStdin, Vec<Pipe>)> {
    let (theirs, ours) = match kind {
        StdinKind::Pipe => {
            let (reader, writer) = io::pipe()?;
            (OwnedFd::from(reader), OurStdin::Pipe(writer))
        }
        StdinKind::Socketpair => {
            let (theirs, ours) = StdUnixStream::pair()?;
            (OwnedFd::from(theirs), OurStdin::Socket(ours))
        }
    };
    let pipes = vec![
        Pipe {
            end: PipeEnd::StdinRead,
            inode: inode(theirs.as_fd())?,
        },
        Pipe {
            end: PipeEnd::StdinWrite,
            inode: inode(ours.as_fd())?,
        },
    ];
    Ok((theirs, ours, pipes))
}

pub(super) fn inode(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(nix::sys::stat::fstat(fd)?.st_ino)
}

//! A packet socket, read and written as a task may wait for it.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};
use tokio::io::unix::AsyncFd;

/// What is looked for is some 74 bytes; longer frames are of no interest and may be cut.
const FRAME: usize = 4096;

/// A packet socket on the loopback device of the cell, nonblocking.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: AsyncFd<OwnedFd>,
}

impl PacketSocket {
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe for the sake of types whose descriptor may change; an OwnedFd keeps its own"
    )]
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            socket: AsyncFd::new(socket)?,
        })
    }

    /// Forgets what has gathered while nobody looked.
    pub fn drain(&self) -> io::Result<()> {
        let mut frame = [0; FRAME];
        while self.receive(&mut frame)?.is_some() {}
        Ok(())
    }

    /// The next frame. Nothing is lost when the future is dropped.
    pub async fn next(&self) -> io::Result<Vec<u8>> {
        let mut frame = [0; FRAME];
        loop {
            let mut ready = self.socket.readable().await?;
            match self.receive(&mut frame)? {
                Some(length) => return Ok(frame[..length].to_vec()),
                None => ready.clear_ready(),
            }
        }
    }

    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(
            self.socket.as_raw_fd(),
            frame,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        )?;
        Ok(())
    }

    fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(self.socket.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => return Ok(Some(length)),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

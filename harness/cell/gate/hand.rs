//! How the listener comes from the shim to the harness: over the shim's socket, with one byte that says whether it does.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use super::super::sys::own;

const HERE: u8 = b'g';
/// The reason follows, up to the end of the line.
const REFUSED: u8 = b'x';

/// What the shim handed over.
#[derive(Debug)]
pub(crate) enum Handed {
    Listener(OwnedFd),
    /// The kernel did not give one; why not follows on the socket, as a line.
    Nothing,
}

/// In the shim: hands the listener over, or says why there is none. Only sendmsg(2) is used, about which the filter does
/// not ask: nobody serves it yet.
pub(crate) fn hand_over(socket: impl AsFd, listener: &io::Result<OwnedFd>) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    match listener {
        Ok(listener) => {
            let descriptors = [listener.as_raw_fd()];
            let rights = [ControlMessage::ScmRights(&descriptors)];
            let byte = [HERE];
            let text = [IoSlice::new(&byte)];
            sendmsg::<()>(socket, &text, &rights, MsgFlags::MSG_NOSIGNAL, None)?;
        }
        Err(error) => {
            let because = error.to_string().replace('\n', " ");
            let line = [&[REFUSED][..], because.as_bytes(), b"\n"].concat();
            let text = [IoSlice::new(&line)];
            sendmsg::<()>(socket, &text, &[], MsgFlags::MSG_NOSIGNAL, None)?;
        }
    }
    Ok(())
}

/// In the harness: takes what the shim hands over. The socket does not block.
pub(crate) fn take_over(socket: impl AsFd) -> io::Result<Handed> {
    let mut byte = [0_u8; 1];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let message = recvmsg::<()>(
        socket.as_fd().as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::MSG_CMSG_CLOEXEC,
    )?;
    if message.bytes == 0 {
        return Err(io::Error::other(
            "the shim ended before it became the server",
        ));
    }
    let listener = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmRights(raw) => raw.into_iter().next().map(own),
        _ => None,
    });
    Ok(listener.map_or(Handed::Nothing, Handed::Listener))
}

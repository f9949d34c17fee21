//! Seeing and repeating connection attempts on the loopback device.
//!
//! A listener is told nothing of a SYN that the kernel drops because its queue is full. A packet socket sees it, and can
//! send it once more when there is room: the kernel would do that only after a second, then two, then four.
//!
//! A frame shows up more than once: on its way out and on its way in, again when the kernel repeats it, and again when
//! we do. The source port and the sequence number tell that it is the same attempt.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

use crate::network::{Packet, PacketSocket, set_tcp_checksum};

/// What was seen on the wire towards the remote.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Somebody reaches for the remote, for the first time from this port with this sequence number.
    Attempt { port: u16, frame: Vec<u8> },
    /// The port is not in use any more.
    Reset { port: u16 },
}

/// A packet socket on the loopback device of the cell.
#[derive(Debug)]
pub(super) struct Packets {
    socket: PacketSocket,
    /// The port of the remote.
    port: u16,
    known: HashSet<(u16, u32)>,
}

impl Packets {
    pub fn new(socket: OwnedFd, port: u16) -> io::Result<Self> {
        Ok(Self {
            socket: PacketSocket::new(socket)?,
            port,
            known: HashSet::new(),
        })
    }

    /// Forgets what has gathered while nobody looked.
    pub fn drain(&self) -> io::Result<()> {
        self.socket.drain()
    }

    /// The next thing of interest. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> io::Result<Seen> {
        loop {
            let frame = self.socket.next().await?;
            let Some(packet) = Packet::parse(&frame).filter(|packet| self.is_for_remote(packet))
            else {
                continue;
            };
            let port = packet.from.port();
            let Some(segment) = packet.segment() else {
                continue;
            };
            if segment.is_reset() {
                return Ok(Seen::Reset { port });
            }
            if segment.is_syn() && self.known.insert((port, segment.sequence)) {
                return Ok(Seen::Attempt { port, frame });
            }
        }
    }

    /// Others may be reached at the same port of another address.
    fn is_for_remote(&self, packet: &Packet) -> bool {
        packet.to.port() == self.port && packet.to.ip().is_loopback()
    }

    /// Sends a saved SYN once more.
    ///
    /// A sender on loopback leaves the checksum to the device, which has none: what was saved is not valid as it stands.
    pub fn send_again(&self, frame: &[u8]) -> io::Result<()> {
        let mut frame = frame.to_vec();
        set_tcp_checksum(&mut frame);
        self.socket.send(&frame)
    }
}

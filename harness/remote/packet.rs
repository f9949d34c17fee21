//! Seeing and repeating connection attempts on the loopback device.
//!
//! A listener is told nothing of a SYN that the kernel drops because its queue is full. A packet socket sees it, and can
//! send it once more when there is room: the kernel would do that only after a second, then two, then four.
//!
//! A frame shows up more than once: on its way out and on its way in, again when the kernel repeats it, and again when
//! we do. The source port and the sequence number tell that it is the same attempt.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{MsgFlags, recv, send};
use tokio::io::unix::AsyncFd;

const ETHERNET: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_TCP: u8 = 6;
const FLAG_SYN: u8 = 0x02;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
/// Where the checksum stands in a TCP header (RFC 9293, section 3.1).
const CHECKSUM: usize = 16;

/// A SYN is some 74 bytes; longer frames are of no interest and may be cut.
const FRAME: usize = 4096;

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
    socket: AsyncFd<OwnedFd>,
    /// The port of the remote.
    port: u16,
    known: HashSet<(u16, u32)>,
}

impl Packets {
    #[expect(
        deprecated,
        reason = "what replaces it is unsafe for the sake of types whose descriptor may change; an OwnedFd keeps its own"
    )]
    pub fn new(socket: OwnedFd, port: u16) -> io::Result<Self> {
        Ok(Self {
            socket: AsyncFd::new(socket)?,
            port,
            known: HashSet::new(),
        })
    }

    /// Forgets what has gathered while nobody looked.
    pub fn drain(&self) -> io::Result<()> {
        let mut frame = [0; FRAME];
        while self.receive(&mut frame)?.is_some() {}
        Ok(())
    }

    /// The next thing of interest. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> io::Result<Seen> {
        let mut frame = [0; FRAME];
        loop {
            let mut ready = self.socket.readable().await?;
            let Some(length) = self.receive(&mut frame)? else {
                ready.clear_ready();
                continue;
            };
            drop(ready);
            let Some(segment) = Segment::parse(&frame[..length]) else {
                continue;
            };
            if segment.to != self.port {
                continue;
            }
            if segment.flags & FLAG_RST != 0 {
                return Ok(Seen::Reset { port: segment.from });
            }
            let syn = segment.flags & (FLAG_SYN | FLAG_ACK) == FLAG_SYN;
            if syn && self.known.insert((segment.from, segment.sequence)) {
                return Ok(Seen::Attempt {
                    port: segment.from,
                    frame: frame[..length].to_vec(),
                });
            }
        }
    }

    /// Sends a saved SYN once more.
    ///
    /// A sender on loopback leaves the checksum to the device, which has none: what was saved is not valid as it stands.
    pub fn send_again(&self, frame: &[u8]) -> io::Result<()> {
        let mut frame = frame.to_vec();
        set_checksum(&mut frame);
        send(
            self.socket.as_raw_fd(),
            &frame,
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        )?;
        Ok(())
    }

    fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(self.socket.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => return Ok(Some(length)),
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The parts of a TCP segment that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    from: u16,
    to: u16,
    sequence: u32,
    flags: u8,
}

impl Segment {
    /// `None` for anything but TCP over IPv4.
    fn parse(frame: &[u8]) -> Option<Self> {
        let tcp = frame.get(tcp_of(frame)?.0..)?;
        let u16_at = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
        Some(Self {
            from: u16_at(0)?,
            to: u16_at(2)?,
            sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
            flags: *tcp.get(13)?,
        })
    }
}

/// Where the TCP segment of a frame begins and ends.
fn tcp_of(frame: &[u8]) -> Option<(usize, usize)> {
    let ip = frame.get(ETHERNET..)?;
    if frame.get(12..ETHERNET)? != ETHERTYPE_IPV4
        || ip.first()? >> 4 != 4
        || *ip.get(9)? != PROTOCOL_TCP
    {
        return None;
    }
    let header = usize::from(ip.first()? & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    (header >= 20 && total >= header).then_some((ETHERNET + header, ETHERNET + total))
}

/// Writes the right checksum into the TCP header (RFC 9293, section 3.1). A frame that was cut is left as it is.
fn set_checksum(frame: &mut [u8]) {
    let Some((start, end)) = tcp_of(frame) else {
        return;
    };
    if end > frame.len() || end - start < CHECKSUM + 2 {
        return;
    }
    frame[start + CHECKSUM..start + CHECKSUM + 2].fill(0);
    // The pseudo header: both addresses, the protocol, the length.
    let mut sum = u32::from(PROTOCOL_TCP) + u32::try_from(end - start).unwrap_or_default();
    let addresses = &frame[ETHERNET + 12..ETHERNET + 20];
    for pair in addresses.chunks(2).chain(frame[start..end].chunks(2)) {
        sum += u32::from(u16::from_be_bytes([
            pair[0],
            pair.get(1).copied().unwrap_or_default(),
        ]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // The sum was folded to 16 bits.
    let checksum = !u16::try_from(sum).unwrap_or_default();
    frame[start + CHECKSUM..start + CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN from 127.0.0.1:40000 to :8080, with the checksum that the sum over its bytes gives by hand.
    fn syn() -> Vec<u8> {
        let mut frame = vec![0; ETHERNET];
        frame[12..14].copy_from_slice(&ETHERTYPE_IPV4);
        frame.extend([
            0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1,
        ]);
        frame.extend([0x9c, 0x40, 0x1f, 0x90, 0, 0, 0, 7, 0, 0, 0, 0]);
        frame.extend([0x50, FLAG_SYN, 0xff, 0xff, 0xfe, 0x28, 0, 0]);
        frame
    }

    #[test]
    fn a_syn_is_read_from_its_frame() {
        let expected = Segment {
            from: 40000,
            to: 8080,
            sequence: 7,
            flags: FLAG_SYN,
        };
        assert_eq!(Segment::parse(&syn()), Some(expected));
    }

    #[test]
    fn no_frame_however_short_or_strange_is_a_panic() {
        for length in 0..syn().len() {
            let mut cut = syn()[..length].to_vec();
            let _ = Segment::parse(&cut);
            set_checksum(&mut cut);
        }
        let mut strange = syn();
        strange[ETHERNET] = 0x4f;
        set_checksum(&mut strange);
        strange[ETHERNET] = 0x60;
        assert_eq!(Segment::parse(&strange), None);
    }

    #[test]
    fn the_checksum_makes_the_whole_sum_all_ones() {
        let mut frame = syn();
        set_checksum(&mut frame);
        let (start, end) = tcp_of(&frame).unwrap();
        let mut sum = 6 + 20;
        for pair in frame[ETHERNET + 12..ETHERNET + 20]
            .chunks(2)
            .chain(frame[start..end].chunks(2))
        {
            sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        assert_eq!(sum, 0xffff);
    }
}

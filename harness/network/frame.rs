//! Frames of the loopback device: IPv4 with TCP or UDP in it, read and written by hand.

use std::net::{Ipv4Addr, SocketAddrV4};

const ETHERNET: usize = 14;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const FLAG_SYN: u8 = 0x02;
const FLAG_RST: u8 = 0x04;
const FLAG_ACK: u8 = 0x10;
/// Where the checksum stands in an IPv4 header (RFC 791, section 3.1) and in a TCP header (RFC 9293, section 3.1).
const IP_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
/// The shortest IPv4 header and the shortest TCP header.
const HEADER: usize = 20;

/// The parts of a packet that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Segment(Segment),
    Datagram,
}

/// A TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub sequence: u32,
    pub acknowledged: u32,
    flags: u8,
}

impl Segment {
    /// It asks for a connection.
    pub fn is_syn(&self) -> bool {
        self.flags & (FLAG_SYN | FLAG_ACK) == FLAG_SYN
    }

    pub fn is_reset(&self) -> bool {
        self.flags & FLAG_RST != 0
    }

    /// Whether this is how a kernel refuses the connection that was asked for with this sequence number (RFC 9293,
    /// section 3.5.2).
    pub fn refuses(&self, syn: u32) -> bool {
        self.is_reset() && self.sequence == 0 && self.acknowledged == syn.wrapping_add(1)
    }
}

impl Packet {
    /// `None` for anything but TCP and UDP over IPv4.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (protocol, start, _) = inside(frame)?;
        let ip = frame.get(ETHERNET..)?;
        let inner = frame.get(start..)?;
        let u16_at = |at: usize| Some(u16::from_be_bytes([*inner.get(at)?, *inner.get(at + 1)?]));
        let u32_at = |at: usize| Some(u32::from_be_bytes(inner.get(at..at + 4)?.try_into().ok()?));
        let address = |at: usize| {
            let octets: [u8; 4] = ip.get(at..at + 4)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets))
        };
        let what = match protocol {
            PROTOCOL_TCP => What::Segment(Segment {
                sequence: u32_at(4)?,
                acknowledged: u32_at(8)?,
                flags: *inner.get(13)?,
            }),
            PROTOCOL_UDP => What::Datagram,
            _ => return None,
        };
        Some(Self {
            from: SocketAddrV4::new(address(12)?, u16_at(0)?),
            to: SocketAddrV4::new(address(16)?, u16_at(2)?),
            what,
        })
    }

    #[cfg(test)]
    pub fn syn(from: SocketAddrV4, to: SocketAddrV4, sequence: u32) -> Self {
        let what = What::Segment(Segment {
            sequence,
            acknowledged: 0,
            flags: FLAG_SYN,
        });
        Self { from, to, what }
    }

    pub fn segment(&self) -> Option<Segment> {
        match self.what {
            What::Segment(segment) => Some(segment),
            What::Datagram => None,
        }
    }

    /// The frame that refuses this segment, as a kernel does where nobody listens.
    pub fn refusal(&self, segment: Segment) -> Vec<u8> {
        const TIME_TO_LIVE: u8 = 64;
        /// Both headers, and nothing else.
        const TOTAL: u8 = 40;
        // No address of a device is needed on the loopback.
        let mut frame = vec![0; ETHERNET - ETHERTYPE_IPV4.len()];
        frame.extend(ETHERTYPE_IPV4);
        // Version and words of the header; length; identification and fragments: none.
        frame.extend([
            0x45,
            0,
            0,
            TOTAL,
            0,
            0,
            0,
            0,
            TIME_TO_LIVE,
            PROTOCOL_TCP,
            0,
            0,
        ]);
        frame.extend(self.to.ip().octets());
        frame.extend(self.from.ip().octets());
        frame.extend(self.to.port().to_be_bytes());
        frame.extend(self.from.port().to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(segment.sequence.wrapping_add(1).to_be_bytes());
        // Words of the header; no window, no urgent data.
        frame.extend([0x50, FLAG_RST | FLAG_ACK, 0, 0, 0, 0, 0, 0]);
        let checksum = !folded(words(&frame[ETHERNET..ETHERNET + HEADER]));
        frame[ETHERNET + IP_CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
        set_tcp_checksum(&mut frame);
        frame
    }
}

/// The protocol inside an IPv4 frame, and where its header begins and its data end.
fn inside(frame: &[u8]) -> Option<(u8, usize, usize)> {
    let ip = frame.get(ETHERNET..)?;
    if frame.get(12..ETHERNET)? != ETHERTYPE_IPV4 || ip.first()? >> 4 != 4 {
        return None;
    }
    let header = usize::from(ip.first()? & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([*ip.get(2)?, *ip.get(3)?]));
    (header >= HEADER && total >= header).then_some((
        *ip.get(9)?,
        ETHERNET + header,
        ETHERNET + total,
    ))
}

/// Writes the right checksum into the TCP header (RFC 9293, section 3.1). A frame that was cut is left as it is.
pub(crate) fn set_tcp_checksum(frame: &mut [u8]) {
    let Some((PROTOCOL_TCP, start, end)) = inside(frame) else {
        return;
    };
    if end > frame.len() || end - start < TCP_CHECKSUM + 2 {
        return;
    }
    frame[start + TCP_CHECKSUM..][..2].fill(0);
    // The pseudo header: both addresses, the protocol, the length.
    let length = u32::try_from(end - start).unwrap_or_default();
    let addresses = words(&frame[ETHERNET + 12..ETHERNET + HEADER]);
    let sum = u32::from(PROTOCOL_TCP) + length + addresses + words(&frame[start..end]);
    let checksum = !folded(sum);
    frame[start + TCP_CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
}

/// The sum of the 16-bit words, the last one filled up with zero.
fn words(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    bytes.chunks(2).map(|pair| u32::from(word(pair))).sum()
}

/// Carries added in again until there are none (RFC 1071).
fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or_default()
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

    fn local(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
    }

    /// Of a header and what belongs to it, with its checksum: all ones.
    fn whole_sum(frame: &[u8]) -> (u16, u16) {
        let ip = folded(words(&frame[ETHERNET..ETHERNET + HEADER]));
        let pseudo = u32::from(PROTOCOL_TCP) + 20;
        let tcp = pseudo + words(&frame[ETHERNET + 12..]);
        (ip, folded(tcp))
    }

    #[test]
    fn a_syn_is_read_from_its_frame() {
        let packet = Packet::parse(&syn()).unwrap();
        assert_eq!((packet.from, packet.to), (local(40000), local(8080)));
        let segment = packet.segment().unwrap();
        assert!(segment.is_syn() && !segment.is_reset());
        assert_eq!(segment.sequence, 7);
    }

    #[test]
    fn a_datagram_is_none_of_the_segments() {
        let mut frame = syn();
        frame[ETHERNET + 9] = PROTOCOL_UDP;
        let packet = Packet::parse(&frame).unwrap();
        assert_eq!((packet.to, packet.segment()), (local(8080), None));
    }

    #[test]
    fn no_frame_however_short_or_strange_is_a_panic() {
        for length in 0..syn().len() {
            let mut cut = syn()[..length].to_vec();
            let _ = Packet::parse(&cut);
            set_tcp_checksum(&mut cut);
        }
        let mut strange = syn();
        strange[ETHERNET] = 0x4f;
        set_tcp_checksum(&mut strange);
        strange[ETHERNET] = 0x60;
        assert_eq!(Packet::parse(&strange), None);
    }

    #[test]
    fn the_checksum_makes_the_whole_sum_all_ones() {
        let mut frame = syn();
        set_tcp_checksum(&mut frame);
        assert_eq!(whole_sum(&frame).1, 0xffff);
    }

    #[test]
    fn a_refusal_goes_back_the_way_that_the_syn_came_and_acknowledges_it() {
        let packet = Packet::parse(&syn()).unwrap();
        let frame = packet.refusal(packet.segment().unwrap());
        let refusal = Packet::parse(&frame).unwrap();
        assert_eq!((refusal.from, refusal.to), (packet.to, packet.from));
        assert!(refusal.segment().unwrap().refuses(7));
        assert!(!refusal.segment().unwrap().refuses(6));
        assert_eq!(whole_sum(&frame), (0xffff, 0xffff));
    }
}

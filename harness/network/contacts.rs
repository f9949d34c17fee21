//! Who reaches for an address at which nobody listens: seen by a packet socket, told, and refused.
//!
//! At an address of the loopback the kernel refuses by itself, at once; that it did is seen. Everywhere else nobody answers
//! but we: so whoever reached out still waits while it is looked for.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::frame::{Packet, Segment, What};
use super::notes::Notes;
use super::packets::PacketSocket;
use crate::journal::{Host, HostOutcome, Transport};

/// The kernel answers a SYN to the loopback before its sender runs on: more do not wait at once.
const MOST_PENDING: usize = 256;

/// A SYN that was not answered in time is sent again; more are not remembered.
const MOST_KNOWN: usize = 1024;

/// Watches for ever.
pub(super) async fn watch(socket: OwnedFd, notes: Arc<Notes>) -> io::Result<()> {
    let socket = PacketSocket::new(socket)?;
    let mut contacts = Contacts::default();
    loop {
        let frame = socket.next().await?;
        let Some(contact) = Packet::parse(&frame).and_then(|packet| contacts.see(packet)) else {
            continue;
        };
        if contact.is_new {
            notes.note(
                contact.host(),
                contact.outcome(),
                contact.transport,
                contact.from,
            );
        }
        if let Some(refusal) = contact.refusal {
            // One that finds no room is sent when the sender tries again.
            let _ = socket.send(&refusal);
        }
    }
}

/// Somebody reached for an address at which nobody listens.
#[derive(Debug, PartialEq, Eq)]
struct Contact {
    /// The port that it came from.
    from: u16,
    to: SocketAddrV4,
    transport: Transport,
    /// The frame with which it is refused, where the kernel does not.
    refusal: Option<Vec<u8>>,
    /// Not the same SYN once more.
    is_new: bool,
}

impl Contact {
    fn host(&self) -> Host {
        Host::Address {
            address: self.to.to_string(),
            transport: self.transport,
        }
    }

    fn outcome(&self) -> HostOutcome {
        match self.transport {
            Transport::Tcp => HostOutcome::Refused,
            Transport::Udp => HostOutcome::Stayed,
        }
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Contacts {
    /// SYNs to the loopback, which somebody may listen at.
    pending: VecDeque<(SocketAddrV4, SocketAddrV4, u32)>,
    /// SYNs to elsewhere.
    known: HashSet<(SocketAddrV4, SocketAddrV4, u32)>,
}

impl Contacts {
    fn see(&mut self, packet: Packet) -> Option<Contact> {
        match packet.what {
            What::Datagram => Some(Contact {
                from: packet.from.port(),
                to: packet.to,
                transport: Transport::Udp,
                refusal: None,
                is_new: true,
            }),
            What::Segment(segment) if segment.is_syn() => self.see_syn(packet, segment),
            What::Segment(segment) => self.see_reset(packet, segment),
        }
    }

    fn see_syn(&mut self, packet: Packet, segment: Segment) -> Option<Contact> {
        let Packet { from, to, .. } = packet;
        let syn = (from, to, segment.sequence);
        if to.ip().is_loopback() {
            if self.pending.len() >= MOST_PENDING {
                self.pending.pop_front();
            }
            self.pending.push_back(syn);
            return None;
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        Some(Contact {
            from: from.port(),
            to,
            transport: Transport::Tcp,
            refusal: Some(packet.refusal(segment)),
            is_new: self.known.insert(syn),
        })
    }

    /// The kernel refuses what it was asked for a moment ago; any other reset ends what was a connection.
    fn see_reset(&mut self, packet: Packet, segment: Segment) -> Option<Contact> {
        let refused = self.pending.iter().rposition(|(from, to, sequence)| {
            (*from, *to) == (packet.to, packet.from) && segment.refuses(*sequence)
        })?;
        let (from, to, _) = self.pending.remove(refused)?;
        Some(Contact {
            from: from.port(),
            to,
            transport: Transport::Tcp,
            refusal: None,
            is_new: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn syn(to: [u8; 4], sequence: u32) -> Packet {
        let from = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 40000);
        Packet::syn(from, SocketAddrV4::new(to.into(), 443), sequence)
    }

    fn kernels_refusal(of: Packet) -> Packet {
        Packet::parse(&of.refusal(of.segment().unwrap())).unwrap()
    }

    #[test]
    fn an_attempt_outside_is_refused_each_time_and_told_once() {
        let mut contacts = Contacts::default();
        let first = contacts.see(syn([93, 184, 216, 34], 7)).unwrap();
        assert!(first.is_new && first.refusal.is_some());
        assert_eq!(
            first.host(),
            contacts.see(syn([93, 184, 216, 34], 7)).unwrap().host()
        );
        assert!(!contacts.see(syn([93, 184, 216, 34], 7)).unwrap().is_new);
        assert!(contacts.see(syn([93, 184, 216, 34], 8)).unwrap().is_new);
    }

    #[test]
    fn an_attempt_at_the_loopback_is_told_when_the_kernel_has_refused_it() {
        let mut contacts = Contacts::default();
        let syn = syn([127, 0, 0, 1], 7);
        assert_eq!(contacts.see(syn), None);
        let refused = contacts.see(kernels_refusal(syn)).unwrap();
        assert_eq!((refused.to, refused.refusal), (syn.to, None));
        // Once only: what is reset later is a connection.
        assert_eq!(contacts.see(kernels_refusal(syn)), None);
    }

    #[test]
    fn an_attempt_at_the_loopback_that_nobody_refuses_is_none_of_ours() {
        let mut contacts = Contacts::default();
        assert_eq!(contacts.see(syn([127, 0, 0, 1], 7)), None);
        assert_eq!(contacts.see(kernels_refusal(syn([127, 0, 0, 1], 9))), None);
        for sequence in 0..10_000 {
            contacts.see(syn([127, 0, 0, 1], sequence));
        }
        assert_eq!(contacts.pending.len(), MOST_PENDING);
    }
}

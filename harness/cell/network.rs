//! The network of a cell: every address leads to its own loopback device, and none out of it.
//!
//! ```text
//!   127.0.0.0/8               as on every machine
//!   UDP, TCP to port 53       local, whatever the address: the resolver of the cell answers for every nameserver
//!   TCP to anywhere else      goes out through the loopback device and is taken in by nobody: the packet socket sees the
//!                             SYN while its sender still waits, so it can be named, and only then refused
//! ```
//!
//! A plain local route for all (`ip route add local 0.0.0.0/0 dev lo`) would do without the rules, but then the kernel
//! refuses a connection before anybody can see whose it was. It is what there is where rules, or a packet socket, are not
//! to be had. IPv6 stays unreachable.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, SockaddrIn,
    bind, listen, recv, sendto, setsockopt, socket, sockopt,
};

use super::sys;

/// RFC 1035, section 4.2.
const DNS_PORT: u16 = 53;

/// A routing table of our own: the kernel's have the numbers from 253 on.
const TABLE_OF_NAMES: u8 = 53;

/// What of the network besides the remote is served by the harness.
#[derive(Default)]
pub(super) struct Network {
    /// For questions about names, at every address.
    pub resolver: Option<(UdpSocket, TcpListener)>,
    /// Sees who reaches for what nobody listens at, and refuses it.
    pub contacts: Option<OwnedFd>,
}

/// Lays the routes. `may_inject`: what is sent through a packet socket is taken in here. `remote`: the remote's port.
pub(super) fn lay(interface: i32, may_inject: bool, remote: u16) -> io::Result<Network> {
    let routes = Routes::new(interface)?;
    let contacts = may_inject
        .then(|| sys::contact_socket(interface, remote))
        .and_then(Result::ok);
    let contacts = contacts.filter(|_| routes.names_apart().is_ok());
    if contacts.is_some() {
        routes.add(RouteKind::IntoNothing)?;
    } else {
        routes.add(RouteKind::Local(libc::RT_TABLE_LOCAL))?;
    }
    Ok(Network {
        resolver: resolver().ok(),
        contacts,
    })
}

/// `IP_TRANSPARENT`: replies come from the address that was asked, which is none of this machine's.
fn resolver() -> io::Result<(UdpSocket, TcpListener)> {
    let everywhere = SockaddrIn::from(std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, DNS_PORT));
    let open = |kind| {
        let opened = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&opened, sockopt::ReuseAddr, &true)?;
        setsockopt(&opened, sockopt::IpTransparent, &true)?;
        bind(opened.as_raw_fd(), &everywhere)?;
        io::Result::Ok(opened)
    };
    let datagrams = open(SockType::Datagram)?;
    setsockopt(&datagrams, sockopt::Ipv4PacketInfo, &true)?;
    let stream = open(SockType::Stream)?;
    listen(&stream, Backlog::MAXCONN)?;
    Ok((UdpSocket::from(datagrams), TcpListener::from(stream)))
}

/// Changes routes and rules of this network namespace (rtnetlink(7)).
struct Routes {
    socket: OwnedFd,
    interface: i32,
}

#[derive(Clone, Copy)]
enum RouteKind {
    /// Every address is this machine's, in this table.
    Local(u8),
    /// Every address is somewhere beyond the loopback device.
    IntoNothing,
}

impl Routes {
    fn new(interface: i32) -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        Ok(Self { socket, interface })
    }

    /// What is asked of any nameserver is for us.
    fn names_apart(&self) -> io::Result<()> {
        const UDP: u8 = 17;
        const TCP: u8 = 6;
        self.add(RouteKind::Local(TABLE_OF_NAMES))?;
        // Other datagrams with them: nobody listens, and the kernel says so to their sender.
        self.ask_table(1, UDP, None)?;
        self.ask_table(2, TCP, Some(DNS_PORT))
    }

    fn add(&self, kind: RouteKind) -> io::Result<()> {
        let (table, scope, of) = match kind {
            RouteKind::Local(table) => (table, libc::RT_SCOPE_HOST, libc::RTN_LOCAL),
            RouteKind::IntoNothing => (libc::RT_TABLE_MAIN, libc::RT_SCOPE_LINK, libc::RTN_UNICAST),
        };
        let mut request = Request::new(libc::RTM_NEWROUTE, table, scope, of);
        request.attribute(libc::RTA_OIF, &self.interface.to_ne_bytes());
        // Without it a local route has its users come from the address that they go to, which the kernel then does not find
        // in its own table of local addresses.
        if !matches!(kind, RouteKind::Local(libc::RT_TABLE_LOCAL)) {
            request.attribute(libc::RTA_PREFSRC, &Ipv4Addr::LOCALHOST.octets());
        }
        self.order(request)
    }

    /// For this protocol, and this port if one is given, the table of names is asked (`fib_rules.h` of the kernel).
    fn ask_table(&self, priority: u32, protocol: u8, port: Option<u16>) -> io::Result<()> {
        const TO_TABLE: u8 = 1;
        const FRA_PRIORITY: u16 = 6;
        const FRA_IP_PROTO: u16 = 22;
        const FRA_DPORT_RANGE: u16 = 24;
        let mut request = Request::new(libc::RTM_NEWRULE, TABLE_OF_NAMES, 0, TO_TABLE);
        request.attribute(FRA_PRIORITY, &priority.to_ne_bytes());
        request.attribute(FRA_IP_PROTO, &[protocol]);
        if let Some(port) = port {
            request.attribute(FRA_DPORT_RANGE, &[port.to_ne_bytes(); 2].concat());
        }
        self.order(request)
    }

    /// Sends a request and waits for the kernel's word on it, which comes at once.
    fn order(&self, request: Request) -> io::Result<()> {
        let bytes = request.bytes();
        let kernel = NetlinkAddr::new(0, 0);
        sendto(self.socket.as_raw_fd(), &bytes, &kernel, MsgFlags::empty())?;
        let mut answer = [0; 1024];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        // A header, whose type is NLMSG_ERROR, and the error: zero for none.
        let error = answer[..length].get(HEADER..HEADER + 4);
        let error = error.and_then(|error| error.try_into().ok());
        match error.map(i32::from_ne_bytes) {
            Some(0) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
            None => Err(io::Error::other("the kernel's answer is too short")),
        }
    }
}

/// The length of `struct nlmsghdr` (netlink(7)).
const HEADER: usize = 16;

/// A message of rtnetlink. `struct rtmsg` and `struct fib_rule_hdr` are alike: a rule has its action where a route has its
/// type.
struct Request {
    kind: u16,
    body: Vec<u8>,
}

impl Request {
    fn new(kind: u16, table: u8, scope: u8, of: u8) -> Self {
        /// `AF_INET`.
        const IPV4: u8 = 2;
        // Family, lengths of destination and source, TOS, table, protocol, scope, type; flags.
        let (protocol, any) = (libc::RTPROT_BOOT, 0);
        let protocol = if kind == libc::RTM_NEWROUTE {
            protocol
        } else {
            0
        };
        let mut body = vec![IPV4, any, any, 0, table, protocol, scope, of];
        body.extend([0; 4]);
        Self { kind, body }
    }

    /// All attributes but the last are of a length that needs no padding, or get it here.
    fn attribute(&mut self, kind: u16, value: &[u8]) {
        /// The length of `struct rtattr`.
        const HEAD: u16 = 4;
        let length = HEAD + u16::try_from(value.len()).unwrap_or(0);
        self.body.extend(length.to_ne_bytes());
        self.body.extend(kind.to_ne_bytes());
        self.body.extend(value);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    fn bytes(self) -> Vec<u8> {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(0);
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(u16::try_from(flags).unwrap_or(0).to_ne_bytes());
        // A sequence number, and the port of the sender, which the kernel fills in.
        bytes.extend([0; 8]);
        bytes.extend(self.body);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_length_and_whole_words() {
        let mut request = Request::new(libc::RTM_NEWRULE, TABLE_OF_NAMES, 0, 1);
        request.attribute(22, &[17]);
        let bytes = request.bytes();
        assert_eq!(bytes.len(), HEADER + 12 + 8);
        assert_eq!(bytes[..4], 36_u32.to_ne_bytes());
        assert_eq!(bytes[HEADER + 12..HEADER + 14], 5_u16.to_ne_bytes());
        assert_eq!(bytes[HEADER + 16..], [17, 0, 0, 0]);
    }
}

//! Serving the resolver of a cell, over UDP and TCP (RFC 1035, section 4.2).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddrV4, TcpListener as StdTcpListener, UdpSocket as StdUdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use nix::libc::in_pktinfo;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use super::dns;
use super::notes::Notes;
use crate::journal::Transport;

/// A message over UDP is no larger than its datagram.
const LARGEST: usize = 64 * 1024;

/// So many connections are served at once; more wait.
const MOST_CONNECTIONS: usize = 64;

/// Answers datagrams for ever.
pub(super) async fn datagrams(socket: StdUdpSocket, notes: Arc<Notes>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    let mut message = vec![0; LARGEST];
    loop {
        let received = socket.async_io(Interest::READABLE, || receive(&socket, &mut message));
        let (length, from, to) = received.await?;
        if let Some(reply) = dns::answer(&message[..length]) {
            // Before the answer: who asks waits for it with its socket open.
            notes.note_all(reply.asked, Transport::Udp, from.port());
            // Who has gone needs no answer, and one that finds no room is asked for again.
            let _ = send(&socket, &reply.bytes, from, to);
        }
    }
}

/// A datagram, whom it is from, and the address that it was sent to.
fn receive(
    socket: &UdpSocket,
    message: &mut [u8],
) -> io::Result<(usize, SocketAddrV4, Option<in_pktinfo>)> {
    let mut space = nix::cmsg_space!(in_pktinfo);
    let mut buffers = [IoSliceMut::new(message)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let received =
        recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut buffers, Some(&mut space), flags)?;
    let to = received.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::Ipv4PacketInfo(info) => Some(info),
        _ => None,
    });
    let from = received.address.map(SocketAddrV4::from);
    let from = from.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    Ok((received.bytes, from, to))
}

/// From the address that was asked, which others than the asked would not be believed.
fn send(
    socket: &UdpSocket,
    reply: &[u8],
    back: SocketAddrV4,
    from: Option<in_pktinfo>,
) -> io::Result<()> {
    let from = from.map(|asked| in_pktinfo {
        ipi_ifindex: 0,
        ..asked
    });
    let control: Vec<ControlMessage<'_>> =
        from.iter().map(ControlMessage::Ipv4PacketInfo).collect();
    sendmsg(
        socket.as_raw_fd(),
        &[IoSlice::new(reply)],
        &control,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        Some(&SockaddrIn::from(back)),
    )?;
    Ok(())
}

/// Serves connections for ever.
pub(super) async fn connections(listener: StdTcpListener, notes: Arc<Notes>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let mut serving = JoinSet::new();
    loop {
        while serving.try_join_next().is_some() {}
        if serving.len() >= MOST_CONNECTIONS {
            serving.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                serving.spawn(serve(stream, peer.port(), Arc::clone(&notes)));
            }
            // Whoever reached for us has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Until the other side has no more questions. Each has its length before it.
async fn serve(mut stream: TcpStream, port: u16, notes: Arc<Notes>) -> io::Result<()> {
    loop {
        let length = usize::from(stream.read_u16().await?);
        let mut message = vec![0; length];
        stream.read_exact(&mut message).await?;
        let Some(reply) = dns::answer(&message) else {
            return Ok(());
        };
        notes.note_all(reply.asked, Transport::Tcp, port);
        let length = u16::try_from(reply.bytes.len()).map_err(io::Error::other)?;
        stream.write_u16(length).await?;
        stream.write_all(&reply.bytes).await?;
    }
}

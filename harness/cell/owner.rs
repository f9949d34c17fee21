//! Whose socket it is: the process of the cell that holds the socket with this port.
//!
//! The sockets are asked one by one, and not looked up in the tables of `/proc/net`, for which the kernel walks those of
//! the whole machine.

use std::fs;
use std::os::fd::RawFd;
use std::path::Path;

use nix::sys::socket::SockType;

use super::{proc, sys};
use crate::journal::{Asker, Pid, Transport};

/// Of one process so many sockets are asked.
const MOST_SOCKETS: usize = 256;

/// The process below `root` that holds the socket; of several that share it the one with the lowest pid.
pub(super) fn owner(root: Pid, transport: Transport, port: u16) -> Option<Asker> {
    let kind = match transport {
        Transport::Tcp => SockType::Stream,
        Transport::Udp => SockType::Datagram,
    };
    let mut pids: Vec<Pid> = proc::below(root).ok()?.into_iter().collect();
    pids.sort_unstable();
    let pid = pids.into_iter().find(|pid| holds(*pid, kind, port))?;
    Some(Asker {
        pid,
        comm: proc::comm(pid)?,
    })
}

fn holds(pid: Pid, kind: SockType, port: u16) -> bool {
    let sockets = sockets(pid);
    if sockets.is_empty() {
        return false;
    }
    sys::pidfd(pid).is_ok_and(|pidfd| {
        let mut asked = sockets
            .into_iter()
            .filter_map(|fd| sys::kind_and_port(&pidfd, fd));
        asked.any(|socket| socket == (kind, port))
    })
}

/// The newest first: whoever asks has just opened it.
fn sockets(pid: Pid) -> Vec<RawFd> {
    let folder = Path::new("/proc").join(pid.to_string()).join("fd");
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut sockets: Vec<RawFd> = entries
        .flatten()
        .filter(|entry| {
            let link = fs::read_link(entry.path());
            link.is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    sockets.sort_unstable_by(|one, other| other.cmp(one));
    sockets.truncate(MOST_SOCKETS);
    sockets
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::OwnedFd;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_holder_of_a_socket_is_found_by_its_kind_and_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (tcp, udp) = (
            stream.local_addr().unwrap().port(),
            datagrams.local_addr().unwrap().port(),
        );
        let mut child = Command::new("sleep")
            .arg("600")
            .stdin(OwnedFd::from(stream))
            .stdout(OwnedFd::from(datagrams))
            .spawn()
            .unwrap();
        let pid = Pid::try_from(child.id()).unwrap();
        let me = Pid::try_from(std::process::id()).unwrap();
        let found = [(Transport::Tcp, tcp), (Transport::Udp, udp)]
            .map(|(transport, port)| owner(me, transport, port));
        child.kill().unwrap();
        child.wait().unwrap();
        let sleep = Asker {
            pid,
            comm: "sleep".to_owned(),
        };
        assert_eq!(found, [Some(sleep.clone()), Some(sleep)]);
        assert_eq!(owner(me, Transport::Tcp, tcp), None);
    }
}

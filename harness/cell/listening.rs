//! The TCP ports on which processes of the cell listen, where the network is the host's: to connect to one does not leave
//! the cell.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::proc::{below, inode, port_of};
use crate::journal::Pid;

/// All of them, for the processes below `root`.
pub(super) fn ports(root: Pid) -> io::Result<Vec<u16>> {
    let sockets: HashSet<u64> = below(root)?.into_iter().flat_map(sockets).collect();
    // Reading the table makes the kernel walk the connections of the whole machine.
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    let mut ports = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        let listening = text.lines().skip(1).filter_map(listening);
        ports.extend(
            listening
                .filter(|(_, inode)| sockets.contains(inode))
                .map(|(port, _)| port),
        );
    }
    Ok(ports)
}

/// The inodes of the sockets that a process holds, and of its pipes: no two have one number.
fn sockets(pid: Pid) -> Vec<u64> {
    let folder = Path::new("/proc").join(pid.to_string()).join("fd");
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| inode(link.as_os_str().as_bytes()))
        .collect()
}

/// Port and inode of a line `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …` that is about a
/// listener.
fn listening(line: &str) -> Option<(u16, u64)> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, _, state, .., inode] = fields.get(..10)? else {
        return None;
    };
    (*state == LISTEN).then_some((port_of(local)?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_read_from_its_line() {
        let line = "   0: 0100007F:1CF3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0";
        assert_eq!(listening(line), Some((7411, 4711)));
        assert_eq!(listening(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening("0: 0100007F:1CF3"), None);
    }

    #[test]
    fn the_port_of_a_child_is_found_and_that_of_another_process_is_not() {
        let ours = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = theirs.local_addr().unwrap().port();
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .stdin(std::os::fd::OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        let me = Pid::try_from(std::process::id()).unwrap();
        let seen = ports(me).unwrap();
        assert!(seen.contains(&port), "{seen:?}");
        // A child that another test has just forked holds all of ours until it executes its program.
        let own = ours.local_addr().unwrap().port();
        let is_hidden = (0..1000).any(|_| !ports(me).unwrap().contains(&own));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_hidden);
    }
}

//! What the harness and the cell say to each other: one typed message a frame, with descriptors where they belong.

use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use super::fence::Fence;
use super::mounts::Needs;
use crate::journal::{
    Asker, CellKind, Eater, Exit, Limit, Moment, Pid, PipeEnd, Process, Session, Socket, Stamp,
    Transport,
};

/// Joins an order with its report.
pub type Ticket = u64;

/// What the cell is to be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// Namespaces where they are allowed, the subreaper otherwise.
    Best,
    /// Namespaces, or an error.
    Namespaces,
    Subreaper,
}

/// How to build a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub wanted: Wanted,
    /// The server may use the host's network.
    pub open_network: bool,
    /// Listeners for OTLP are wanted as well.
    pub otlp: bool,
    pub bounds: Bounds,
    /// A folder that does not exist: the cell makes it, and removes it when all in the cell has ended. So it goes also
    /// where the harness was killed.
    pub scratch: PathBuf,
    /// What is needed besides of the folders that hold temporary files.
    pub needs: Needs,
}

/// From the harness to the cell.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// The first order: make the room.
    Build(Plan),
    /// Start a process. Three descriptors come with it: its stdin, stdout and stderr.
    Spawn {
        ticket: Ticket,
        argv: Vec<String>,
        env: Vec<(String, String)>,
        cwd: PathBuf,
    },
    Signal {
        ticket: Ticket,
        pid: Pid,
        signal: i32,
        /// To the process group that this process leads.
        group: bool,
    },
    /// Whether every thread of each of these is stopped.
    AreStopped { ticket: Ticket, pids: Vec<Pid> },
    /// Look at every process. `secrets` are searched for in arguments and environments.
    Look {
        ticket: Ticket,
        moment: Moment,
        session: Session,
        pipes: Vec<Pipe>,
        secrets: Vec<(String, Vec<String>)>,
    },
    /// Who is in the cell.
    Census { ticket: Ticket },
    /// Who holds one end of a session's pipes.
    Holders {
        ticket: Ticket,
        pipes: Vec<Pipe>,
        end: PipeEnd,
    },
    /// A fresh TCP socket of the cell's network.
    TcpSocket { ticket: Ticket },
    /// The TCP ports on which processes of the cell listen.
    Listening { ticket: Ticket },
    /// The local ports that are in `SYN_SENT` towards the remote.
    Connecting { ticket: Ticket },
    /// Whose socket has this port.
    Owner {
        ticket: Ticket,
        transport: Transport,
        port: u16,
    },
}

/// One end of a session's pipe, by its inode. Both ends of a pipe share one inode; the access mode tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    pub end: PipeEnd,
    pub inode: u64,
}

/// A living process of the cell, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Present {
    pub pid: Pid,
    pub parent: Pid,
    pub comm: String,
    /// The arguments, joined by spaces.
    pub command: String,
    /// In clock ticks since boot: tells a pid that was used again.
    pub started: u64,
    /// Time on the CPU and time waiting for it, over all threads, ns. What it waits for now is not in it yet.
    pub wanted: u64,
    /// How often its first thread has gone to sleep, where that one is not asleep now.
    pub slept: Option<u64>,
    /// Bytes that it has read and written, as far as that may be seen.
    pub passed: Option<u64>,
}

/// From the cell to the harness.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// The room is made. Descriptors: the remote's listener, then the packet socket if there is one, then the resolver's over
    /// UDP and over TCP, then the packet socket for contacts, then the listeners of OTLP over HTTP and over gRPC, each where
    /// it is there.
    Ready {
        kind: CellKind,
        user_namespace: bool,
        packet_socket: bool,
        resolver: bool,
        contacts: bool,
        otlp: bool,
        port: u16,
        /// The folders of temporary files that stay the host's.
        shared: Vec<PathBuf>,
        /// Where the network is the host's and is to be closed to the server.
        fence: Option<Fence>,
        /// What this room weakens, a sentence each.
        weakens: Vec<String>,
    },
    /// The room could not be made.
    NotReady {
        because: String,
    },
    Spawned {
        ticket: Ticket,
        pid: Pid,
    },
    NotSpawned {
        ticket: Ticket,
        because: String,
    },
    Signalled {
        ticket: Ticket,
        /// Right before it was sent; absent where nobody was there to take it.
        sent: Option<Stamp>,
    },
    Stopped {
        ticket: Ticket,
        all: bool,
    },
    Seen {
        ticket: Ticket,
        at: Stamp,
        moment: Moment,
        session: Session,
        processes: Vec<Process>,
        sockets: Vec<Socket>,
    },
    Counted {
        ticket: Ticket,
        present: Vec<Present>,
    },
    Holding {
        ticket: Ticket,
        pids: Vec<Pid>,
        /// Right before the look: who has let go, had done so by then.
        at: Stamp,
    },
    /// One descriptor comes with it.
    TcpSocket {
        ticket: Ticket,
    },
    Listening {
        ticket: Ticket,
        ports: Vec<u16>,
    },
    Connecting {
        ticket: Ticket,
        ports: Vec<u16>,
    },
    Owner {
        ticket: Ticket,
        owner: Option<Asker>,
    },
    Failed {
        ticket: Ticket,
        because: String,
    },
    /// A process was reaped by the cell: an orphan, or a client.
    Exited {
        at: Stamp,
        pid: Pid,
        exit: Exit,
        comm: Option<String>,
    },
    /// The processes used more than they may: all of them are killed, and no exit is reported any more.
    Exceeded {
        /// Right before they were killed.
        at: Stamp,
        limit: Limit,
        most: u64,
        used: u64,
        by: Vec<Eater>,
    },
    /// All that were killed have ended, this many.
    Cleared {
        at: Stamp,
        ended: u64,
    },
}

/// No frame is larger: a look at tens of thousands of processes stays below it.
const MOST: usize = 64 * 1024 * 1024;

/// Sends a message; `descriptors` are duplicated into the receiver.
pub fn send<M: Serialize>(
    socket: &UnixStream,
    message: &M,
    descriptors: &[RawFd],
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(|_| io::Error::other("message too large"))?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend_from_slice(&body);
    let rights = [ControlMessage::ScmRights(descriptors)];
    let mut control: &[ControlMessage<'_>] = if descriptors.is_empty() { &[] } else { &rights };
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        let sent = loop {
            match sendmsg::<()>(
                socket.as_raw_fd(),
                &[IoSlice::new(rest)],
                control,
                MsgFlags::MSG_NOSIGNAL,
                None,
            ) {
                Err(nix::Error::EINTR) => {}
                other => break other?,
            }
        };
        rest = &rest[sent..];
        // The descriptors went with the first byte.
        control = &[];
    }
    Ok(())
}

/// Receives a message and its descriptors; `None` when the other side has closed.
pub fn receive<M: DeserializeOwned>(socket: &UnixStream) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut header = [0_u8; 4];
    let (mut got, descriptors) = receive_head(socket, &mut header)?;
    if got == 0 {
        return Ok(None);
    }
    let mut reader = socket;
    while got < header.len() {
        match reader.read(&mut header[got..])? {
            0 => return Ok(None),
            n => got += n,
        }
    }
    let length = u32::from_le_bytes(header) as usize;
    if length > MOST {
        return Err(io::Error::other("message too large"));
    }
    let mut body = vec![0; length];
    match reader.read_exact(&mut body) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    Ok(Some((serde_json::from_slice(&body)?, descriptors)))
}

/// The first bytes of a frame, with which its descriptors arrive.
fn receive_head(socket: &UnixStream, header: &mut [u8; 4]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 8]);
    loop {
        let mut buffers = [IoSliceMut::new(header)];
        let message = match recvmsg::<()>(
            socket.as_raw_fd(),
            &mut buffers,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        ) {
            Err(nix::Error::EINTR) => continue,
            Err(nix::Error::ECONNRESET) => return Ok((0, Vec::new())),
            other => other?,
        };
        let mut descriptors = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = control {
                descriptors.extend(raw.into_iter().map(super::sys::own));
            }
        }
        return Ok((message.bytes, descriptors));
    }
}

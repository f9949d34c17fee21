//! The lookout: notices who reaches for the remote while its queue is full.
//!
//! Full means: the listener's backlog is 0 and one connection of our own, the filler, stands in the queue. The kernel
//! then drops every further SYN, and the connecting socket stays in `SYN_SENT`. For the server under drill that is a
//! network that takes its time: its event loop is free, and no byte of it has arrived anywhere.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, TcpStream as StdTcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{SockaddrIn, connect, setsockopt, sockopt};
use tokio::net::TcpStream;

use super::packet::{Packets, Seen};

/// How often `/proc/net/tcp` is read where there is no packet socket.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A filler connects at once, or not at all: then somebody else stands in the queue.
const PLACED_WITHIN: Duration = Duration::from_millis(20);

/// Makes a socket in the cell's network namespace.
pub(super) type Sockets = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// The local ports in the cell that are in `SYN_SENT` towards the remote.
pub(super) type Connecting = Arc<dyn Fn() -> io::Result<Vec<u16>> + Send + Sync>;

/// The local ports of all fillers so far: whoever looks at the cell's sockets must know which are ours.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnPorts(Arc<Mutex<HashSet<u16>>>);

impl OwnPorts {
    pub fn list(&self) -> Vec<u16> {
        let ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.iter().copied().collect()
    }

    fn add(&self, port: u16) {
        let mut ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.insert(port);
    }

    fn contains(&self, port: u16) -> bool {
        let ports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.contains(&port)
    }
}

/// Somebody reached for the remote and is kept waiting by the kernel.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Its local port.
    pub port: u16,
    /// The SYN, where it was seen; where not, the kernel's own repetition is waited for.
    frame: Option<Vec<u8>>,
}

/// Sees attempts, in the order in which they are made.
pub(super) struct Lookout {
    sight: Sight,
    own: OwnPorts,
    /// Seen while something else was looked for.
    waiting: VecDeque<Attempt>,
}

enum Sight {
    Packets(Packets),
    Table(Table),
}

/// `/proc/net/tcp`, read again and again.
struct Table {
    connecting: Connecting,
    known: HashSet<u16>,
    news: VecDeque<Seen>,
}

impl Lookout {
    pub fn new(
        packets: Option<OwnedFd>,
        connecting: Connecting,
        port: u16,
        own: OwnPorts,
    ) -> io::Result<Self> {
        let sight = match packets {
            Some(socket) => Sight::Packets(Packets::new(socket, port)?),
            None => Sight::Table(Table {
                connecting,
                known: HashSet::new(),
                news: VecDeque::new(),
            }),
        };
        Ok(Self {
            sight,
            own,
            waiting: VecDeque::new(),
        })
    }

    /// Forgets what was before.
    pub fn start(&mut self) -> io::Result<()> {
        self.waiting.clear();
        match &mut self.sight {
            Sight::Packets(packets) => packets.drain(),
            Sight::Table(table) => {
                table.known.clear();
                table.news.clear();
                Ok(())
            }
        }
    }

    /// The next attempt. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> io::Result<Attempt> {
        loop {
            if let Some(attempt) = self.waiting.pop_front() {
                return Ok(attempt);
            }
            self.look(None).await?;
        }
    }

    /// Returns when whoever reached for the remote from this port is not reaching any more: given up, or let in.
    pub async fn ended(&mut self, port: u16) -> io::Result<()> {
        while !self.look(Some(port)).await? {}
        Ok(())
    }

    /// Lets the kernel see the attempt once more. There is room in the queue now.
    pub fn send_again(&self, attempt: &Attempt) -> io::Result<()> {
        match (&self.sight, &attempt.frame) {
            (Sight::Packets(packets), Some(frame)) => packets.send_again(frame),
            _ => Ok(()),
        }
    }

    /// Whether the port asked for has ended.
    async fn look(&mut self, ended: Option<u16>) -> io::Result<bool> {
        let seen = match &mut self.sight {
            Sight::Packets(packets) => packets.next().await?,
            Sight::Table(table) => table.next().await?,
        };
        match seen {
            Seen::Reset { port } => return Ok(ended == Some(port)),
            Seen::Attempt { port, frame } if !self.own.contains(port) => {
                let frame = (!frame.is_empty()).then_some(frame);
                self.waiting.push_back(Attempt { port, frame });
            }
            Seen::Attempt { .. } => {}
        }
        Ok(false)
    }
}

impl Table {
    async fn next(&mut self) -> io::Result<Seen> {
        loop {
            if let Some(seen) = self.news.pop_front() {
                return Ok(seen);
            }
            // The kernel tells nobody of a socket that enters SYN_SENT.
            tokio::time::sleep(LOOK_EVERY).await;
            let connecting = Arc::clone(&self.connecting);
            let now: HashSet<u16> = blocking(move || connecting()).await?.into_iter().collect();
            for &port in self.known.difference(&now) {
                self.news.push_back(Seen::Reset { port });
            }
            for &port in now.difference(&self.known) {
                let frame = Vec::new();
                self.news.push_back(Seen::Attempt { port, frame });
            }
            self.known = now;
        }
    }
}

/// A connection of our own that fills the listener's queue.
#[derive(Debug)]
pub(super) struct Filler {
    /// Closed by a reset, so that nothing of it stays in the cell's tables.
    _stream: TcpStream,
    pub port: u16,
}

impl Filler {
    /// `None` where somebody else stands in the queue.
    pub async fn place(sockets: &Sockets, remote: u16, own: &OwnPorts) -> io::Result<Option<Self>> {
        let sockets = Arc::clone(sockets);
        let socket = StdTcpStream::from(blocking(move || sockets()).await?);
        socket.set_nonblocking(true)?;
        let reset = nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&socket, sockopt::Linger, &reset)?;
        let address = SockaddrIn::from(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, remote));
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let port = socket.local_addr()?.port();
        own.add(port);
        let stream = TcpStream::from_std(socket)?;
        if let Ok(ready) = tokio::time::timeout(PLACED_WITHIN, stream.writable()).await {
            ready?;
        }
        let placed = stream.peer_addr().is_ok();
        Ok(placed.then_some(Self {
            _stream: stream,
            port,
        }))
    }
}

/// Runs what waits for the kernel or the cell where it keeps nobody else waiting.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

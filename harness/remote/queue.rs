//! The listener's queue, and the art of keeping it full.
//!
//! Full means: the backlog is 0 and one connection of our own, the filler, stands in the queue. The kernel then drops
//! every further SYN, and the connecting socket stays in `SYN_SENT`. For the server under drill that is a network that
//! takes its time: its event loop is free, and no byte of it has arrived anywhere.
//!
//! The queue must be full again before anything else can use a gap. Two that come into a gap for one are worse than
//! one: the second is connected as far as it can tell, and the kernel knows nothing of it (SYN cookies). So whoever is
//! let through goes *behind* the filler, a new filler goes behind that, and only then the old one is taken out:
//!
//! ```text
//!   backlog 0   [filler]                     full
//!   backlog 2   [filler, it, new filler]     full again, some microseconds later
//!   backlog 0   [new filler]                 full all along
//! ```

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener as StdTcpListener, TcpStream as StdTcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{Backlog, SockaddrIn, connect, listen, setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};

/// A filler connects at once, or not at all: then somebody else stands in the queue.
const PLACED_WITHIN: Duration = Duration::from_millis(20);

/// How often the filler is placed again where others are quicker.
const PLACINGS: usize = 100;

/// Makes a socket in the cell's network namespace.
pub(super) type Sockets = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

/// A connection taken out of the queue, and the port it came from.
pub(super) type Taken = (TcpStream, u16);

/// The local ports of all fillers so far: whoever looks at the cell's sockets must know which are ours.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnPorts(Arc<Mutex<Ports>>);

#[derive(Debug, Default)]
struct Ports {
    all: HashSet<u16>,
    /// Those whose filler is not closed yet. The port of one that is closed is free at once, for a server under drill as well.
    in_use: HashSet<u16>,
}

impl OwnPorts {
    pub fn list(&self) -> Vec<u16> {
        self.lock().all.iter().copied().collect()
    }

    pub fn contains(&self, port: u16) -> bool {
        self.lock().all.contains(&port)
    }

    /// Whether a connection that was taken out of the queue is a filler, also one that was closed in it.
    fn made(&self, stream: &TcpStream, port: u16) -> bool {
        let ports = self.lock();
        ports.in_use.contains(&port) || (ports.all.contains(&port) && stream.peer_addr().is_err())
    }

    fn add(&self, port: u16) {
        let mut ports = self.lock();
        ports.all.insert(port);
        ports.in_use.insert(port);
    }

    fn give_back(&self, port: u16) {
        self.lock().in_use.remove(&port);
    }

    fn lock(&self) -> MutexGuard<'_, Ports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The listener and its queue.
pub(super) struct Queue {
    listener: TcpListener,
    /// The same socket: asks the kernel what is in the queue now, not tokio what it knows of it.
    direct: StdTcpListener,
    port: u16,
    sockets: Sockets,
    own: OwnPorts,
}

/// What came of letting one through.
pub(super) struct Passed {
    /// It, if it got in.
    pub stream: Option<TcpStream>,
    /// Absent where others came in between: then the queue has to be closed anew.
    pub filler: Option<Filler>,
    pub others: Vec<Taken>,
}

impl Queue {
    pub fn new(
        listener: StdTcpListener,
        port: u16,
        sockets: Sockets,
        own: OwnPorts,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let direct = listener.try_clone()?;
        let queue = Self {
            listener: TcpListener::from_std(listener)?,
            direct,
            port,
            sockets,
            own,
        };
        queue.open()?;
        Ok(queue)
    }

    /// Lets in all that come.
    pub fn open(&self) -> io::Result<()> {
        self.set_backlog(Backlog::MAXCONN)
    }

    /// The next connection that is not our own.
    pub async fn accept(&self) -> io::Result<Taken> {
        loop {
            let (stream, peer) = self.listener.accept().await?;
            if !self.own.made(&stream, peer.port()) {
                return Ok((stream, peer.port()));
            }
        }
    }

    /// Closes the queue: the filler that keeps it full, and those who were quicker.
    pub async fn close(&self, others: &mut Vec<Taken>) -> io::Result<Filler> {
        self.set_backlog(Backlog::new(0)?)?;
        for _ in 0..PLACINGS {
            while let Some((stream, port)) = self.take()? {
                if !self.own.made(&stream, port) {
                    others.push((stream, port));
                }
            }
            let filler = self.unplaced().await?.connect(self.port, &self.own)?;
            if filler.is_placed().await? {
                return Ok(filler);
            }
        }
        Err(io::Error::other(
            "connections kept coming while the remote's queue was being closed",
        ))
    }

    /// Takes the filler out, so that the next that comes gets in. Whoever stood before it came while it was placed.
    pub fn clear(&self, filler: Filler) -> io::Result<Option<Taken>> {
        let is_other = |(stream, port): &Taken| !self.own.made(stream, *port);
        let first = self.take()?.filter(is_other);
        drop(filler);
        Ok(first)
    }

    /// Lets one through: `knock` makes its SYN arrive. Afterwards the queue is full again.
    pub async fn pass(
        &self,
        old: Filler,
        port: u16,
        knock: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Passed> {
        let unplaced = self.unplaced().await?;
        // From here to the closing nothing waits: the gap is as long as these system calls.
        self.set_backlog(Backlog::new(2)?)?;
        knock()?;
        let filler = unplaced.connect(self.port, &self.own)?;
        self.set_backlog(Backlog::new(0)?)?;
        let mut passed = Passed {
            stream: None,
            filler: None,
            others: Vec::new(),
        };
        let mut taken_out = false;
        while passed.stream.is_none()
            && let Some((stream, from)) = self.take()?
        {
            if from == port {
                passed.stream = Some(stream);
            } else if from == filler.port {
                taken_out = true;
                break;
            } else if !self.own.made(&stream, from) {
                passed.others.push((stream, from));
            }
        }
        drop(old);
        if !taken_out && filler.is_connected() {
            passed.filler = Some(filler);
        }
        Ok(passed)
    }

    async fn unplaced(&self) -> io::Result<Unplaced> {
        let sockets = Arc::clone(&self.sockets);
        blocking(move || Unplaced::new(sockets()?)).await
    }

    /// The first in the queue, without waiting for one.
    pub fn take(&self) -> io::Result<Option<Taken>> {
        match self.direct.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                Ok(Some((TcpStream::from_std(stream)?, peer.port())))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// On a socket that listens already, listen(2) sets the length of its queue.
    fn set_backlog(&self, backlog: Backlog) -> io::Result<()> {
        listen(&self.listener, backlog).map_err(io::Error::from)
    }
}

/// A connection of our own that keeps the queue full. Closed by a reset, so that nothing of it stays in the cell's
/// tables.
#[derive(Debug)]
pub(super) struct Filler {
    stream: TcpStream,
    port: u16,
    own: OwnPorts,
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.own.give_back(self.port);
    }
}

impl Filler {
    /// False where somebody else stands in the queue.
    async fn is_placed(&self) -> io::Result<bool> {
        if let Ok(ready) = tokio::time::timeout(PLACED_WITHIN, self.stream.writable()).await {
            ready?;
        }
        Ok(self.is_connected())
    }

    fn is_connected(&self) -> bool {
        self.stream.peer_addr().is_ok()
    }
}

/// A socket that will be a filler.
struct Unplaced(StdTcpStream);

impl Unplaced {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = StdTcpStream::from(socket);
        socket.set_nonblocking(true)?;
        let reset = nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&socket, sockopt::Linger, &reset)?;
        Ok(Self(socket))
    }

    /// Over loopback this is done when it returns, if there is room.
    fn connect(self, remote: u16, own: &OwnPorts) -> io::Result<Filler> {
        let address = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, remote));
        match connect(self.0.as_raw_fd(), &address) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let port = self.0.local_addr()?.port();
        own.add(port);
        Ok(Filler {
            stream: TcpStream::from_std(self.0)?,
            port,
            own: own.clone(),
        })
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

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

    use super::*;

    #[tokio::test]
    async fn a_port_that_was_a_fillers_may_be_a_servers_next() {
        let listener = StdTcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let sockets: Sockets = Arc::new(|| {
            let (family, kind) = (AddressFamily::Inet, SockType::Stream);
            Ok(socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?)
        });
        let queue = Queue::new(listener, address.port(), sockets, OwnPorts::default()).unwrap();
        let filler = queue.close(&mut Vec::new()).await.unwrap();
        let port = filler.port;
        assert!(queue.clear(filler).unwrap().is_none());
        queue.open().unwrap();

        let client = tokio::net::TcpSocket::new_v4().unwrap();
        client.set_reuseaddr(true).unwrap();
        client.bind((Ipv4Addr::LOCALHOST, port).into()).unwrap();
        let _connected = client.connect(address).await.unwrap();
        // One that is taken for a filler is dropped, and the next waited for.
        let accepted = tokio::time::timeout(Duration::from_secs(10), queue.accept());
        let (_, from) = accepted.await.expect("it is served").unwrap();
        assert_eq!(from, port);
    }
}

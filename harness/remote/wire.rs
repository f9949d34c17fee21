//! The connection as hyper reads and writes it: it counts what goes over it, and writes a reply at the pace that is asked
//! for.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::front::Front;
use super::stance::Pace;

/// How long the peer's kernel may take to refuse bytes for a socket that is closed. Over loopback it takes
/// microseconds; the limit is reached only by a peer that has closed its sending side and reads on.
const RESET_WITHIN: Duration = Duration::from_millis(100);

/// What ends the head of a message (RFC 9112, section 2.1).
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// What went over a connection.
#[derive(Default)]
pub(super) struct Traffic {
    pub read: AtomicU64,
    /// The first byte that was read.
    pub first: AtomicU64,
    /// The peer had closed at least its sending side when we wrote last.
    half_closed: AtomicBool,
    /// The kernel took no more bytes.
    refused: AtomicBool,
    /// The connection is to end with a RST.
    reset: AtomicBool,
    /// The reply that comes next, where its pace is not the usual one.
    turn: Mutex<Option<Turn>>,
}

/// A reply that is not written as fast as it can be.
pub(super) struct Turn {
    pub front: Arc<Front>,
    pub request: u32,
    pub status: u16,
    pub pace: Pace,
    /// Its length in bytes.
    pub body: usize,
}

impl Traffic {
    pub fn next_reply(&self, turn: Turn) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }

    fn take_turn(&self) -> Option<Turn> {
        self.turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    pub fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
    }

    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    /// Whether the reply, all of it written, went to a peer that was still there.
    ///
    /// A peer that had closed its sending side is most likely gone, and may also be one that reads on (`shutdown(2)`
    /// after sending). The kernel tells them apart: bytes for a closed socket are answered with a reset.
    pub async fn was_taken(&self, stream: &TcpStream) -> bool {
        if self.refused.load(Ordering::Relaxed) {
            return false;
        }
        if !self.half_closed.load(Ordering::Relaxed) {
            return true;
        }
        tokio::time::timeout(RESET_WITHIN, stream.ready(Interest::ERROR))
            .await
            .is_err()
    }
}

type Until<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How the bytes of the reply are written that come next.
enum Flow {
    /// As hyper hands them over.
    Free,
    /// Half of the reply is out.
    Torn {
        turn: Turn,
        /// Bytes of the other half.
        left: usize,
        until: Until<Pace>,
    },
    /// Byte by byte, so many of them; the next one when this is ready.
    Slow {
        front: Arc<Front>,
        left: usize,
        until: Until<()>,
    },
}

/// The connection as hyper reads and writes it.
pub(super) struct Wire {
    stream: Arc<TcpStream>,
    traffic: Arc<Traffic>,
    flow: Flow,
}

impl Wire {
    pub fn new(stream: Arc<TcpStream>, traffic: Arc<Traffic>) -> Self {
        Self {
            stream,
            traffic,
            flow: Flow::Free,
        }
    }

    /// How many of these bytes may be written now.
    fn poll_allowed(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.flow {
                Flow::Free => return Poll::Ready(Ok(bytes.len())),
                Flow::Torn { turn, left, until } => {
                    let pace = ready!(until.as_mut().poll(cx));
                    self.flow = match pace {
                        Pace::Whole | Pace::Halved => Flow::Free,
                        Pace::Slow => slow(Arc::clone(&turn.front), *left),
                        Pace::Reset => {
                            self.traffic.reset();
                            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                        }
                    };
                }
                Flow::Slow { until, .. } => {
                    ready!(until.as_mut().poll(cx));
                    return Poll::Ready(Ok(1));
                }
            }
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.traffic
            .half_closed
            .store(has_half_closed(&self.stream), Ordering::Relaxed);
        self.stream.try_write(bytes)
    }
}

fn slow(front: Arc<Front>, left: usize) -> Flow {
    if left == 0 {
        return Flow::Free;
    }
    let gate = Arc::clone(&front);
    Flow::Slow {
        front,
        left,
        until: Box::pin(async move { gate.gate.before_byte(left == 1).await }),
    }
}

/// The flow when so many bytes have been written of a turn that begins.
fn begun(turn: Turn, written: usize, whole: usize) -> Flow {
    if turn.pace == Pace::Slow {
        return slow(turn.front, turn.body);
    }
    let front = Arc::clone(&turn.front);
    let (request, status) = (turn.request, turn.status);
    let until = async move {
        let gate = &front.gate;
        gate.before_other_half(request, status, written as u64, whole as u64)
            .await
    };
    Flow::Torn {
        turn,
        left: whole.saturating_sub(written),
        until: Box::pin(until),
    }
}

/// How many bytes of the first that hyper hands over are written at once: half of a reply that is torn, the head of one
/// that is slow.
fn beginning(turn: &Turn, bytes: &[u8]) -> usize {
    match turn.pace {
        Pace::Halved => bytes.len() / 2,
        Pace::Slow => bytes
            .windows(END_OF_HEAD.len())
            .position(|four| four == END_OF_HEAD)
            .map_or(bytes.len(), |place| place + END_OF_HEAD.len()),
        Pace::Whole | Pace::Reset => bytes.len(),
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let space = buffer.initialize_unfilled();
            match self.stream.try_read(space) {
                Ok(n) => {
                    if n > 0 && self.traffic.read.fetch_add(n as u64, Ordering::Relaxed) == 0 {
                        self.traffic
                            .first
                            .store(u64::from(space[0]), Ordering::Relaxed);
                    }
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    /// hyper hands over a reply of common size, head and body, at once: half of that is half of the reply.
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let allowed = match ready!(self.poll_allowed(cx, bytes)) {
            Ok(allowed) => allowed.min(bytes.len()),
            Err(error) => return Poll::Ready(Err(error)),
        };
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let turn = self.traffic.take_turn();
            let now = turn.as_ref().map_or(allowed, |turn| beginning(turn, bytes));
            match self.try_write(&bytes[..now]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(turn) = turn {
                        self.traffic.next_reply(turn);
                    }
                }
                written => {
                    match (&written, turn) {
                        (Err(_), _) => self.traffic.refused.store(true, Ordering::Relaxed),
                        (Ok(written), Some(turn)) => self.flow = begun(turn, *written, bytes.len()),
                        (Ok(written), None) => {
                            if let Flow::Slow { front, left, .. } = &self.flow {
                                self.flow = slow(Arc::clone(front), left.saturating_sub(*written));
                            }
                        }
                    }
                    return Poll::Ready(written);
                }
            }
        }
    }

    /// Nothing is kept back here.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Fails only where the peer has reset the connection, and what that means is asked elsewhere.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let _ = shutdown(self.stream.as_raw_fd(), Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}

/// Whether the peer will send nothing more (`POLLRDHUP`, poll(2)); does not wait.
fn has_half_closed(socket: &impl AsFd) -> bool {
    let wanted = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);
    let mut polled = [PollFd::new(socket.as_fd(), wanted)];
    nix::poll::poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

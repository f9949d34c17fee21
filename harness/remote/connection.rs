//! One connection: one request, one reply, `Connection: close`.
//!
//! hyper reads and writes; the [`Wire`] below it counts and looks. What became of the reply is decided here, when all of
//! it has been handed to the kernel and the peer's kernel has had its say.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::journal::{Event, Journal};

use super::front::{Answer, Arrived, Front, MOST_BODY};
use super::gate::Pace;

/// How long the peer's kernel may take to refuse bytes for a socket that is closed. Over loopback it takes
/// microseconds; the limit is reached only by a peer that has closed its sending side and reads on.
const RESET_WITHIN: Duration = Duration::from_millis(100);

/// The first byte of a TLS record that carries a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u64 = 0x16;

/// Serves one connection to its end, and what was held of it to its release.
pub(super) async fn serve(front: Arc<Front>, stream: TcpStream, connection: u32) {
    let stream = Arc::new(stream);
    let traffic = Arc::new(Traffic::default());
    let wire = Wire {
        stream: Arc::clone(&stream),
        traffic: Arc::clone(&traffic),
        waiting: None,
    };
    let (pass, mut arrived) = mpsc::channel::<(Arrived, oneshot::Sender<Answer>)>(1);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let pass = pass.clone();
        async move {
            let arrived = collect(request).await?;
            let (back, answer) = oneshot::channel();
            // Either fails only when the whole connection is being dropped.
            let _ = pass.send((arrived, back)).await;
            let answer = answer.await.map_err(|_| Broken::Dropped)?;
            Ok::<_, Broken>(response(answer))
        }
    });
    let speaking = http1::Builder::new()
        .keep_alive(false)
        // A peer that has closed its sending side may still read: who is really gone shows at the writing.
        .half_close(true)
        .serve_connection(TokioIo::new(wire), service);
    // Beside hyper and not inside it: a connection that breaks does not take back a request that has arrived.
    let answering = async {
        let (arrived, back) = arrived.recv().await?;
        let answer = front.answer(connection, arrived).await;
        let (request, status) = (answer.request, answer.status);
        if answer.pace == Pace::Halved {
            let front = Arc::clone(&front);
            let other_half = async move { front.gate.before_other_half(request, status).await };
            traffic.halve(Box::pin(other_half));
        }
        // Where nobody waits any more the reply is lost, which shows below.
        let taken = back.send(answer).is_ok();
        Some((request, status, taken))
    };
    let (spoken, answered) = tokio::join!(speaking, answering);
    match answered {
        Some((request, status, taken)) => {
            let sent = taken && spoken.is_ok() && traffic.was_taken(&stream).await;
            front.journal.append(if sent {
                Event::ReplySent { request, status }
            } else {
                Event::ReplyLost { request, status }
            });
        }
        None => record_torn(&front.journal, connection, &traffic, spoken.err().as_ref()),
    }
}

/// Nothing is said of a connection that ended without a byte.
fn record_torn(
    journal: &Journal,
    connection: u32,
    traffic: &Traffic,
    error: Option<&hyper::Error>,
) {
    let bytes = traffic.read.load(Ordering::Relaxed);
    if bytes == 0 {
        return;
    }
    let because = if traffic.first.load(Ordering::Relaxed) == TLS_HANDSHAKE {
        "it begins like TLS, and the remote speaks plain HTTP".to_owned()
    } else {
        match error {
            Some(error) if error.is_parse() => format!("it is not HTTP/1.1: {error}"),
            _ => "the connection ended before the request was whole".to_owned(),
        }
    };
    journal.append(Event::RequestTorn {
        connection,
        bytes,
        because,
    });
}

/// Why hyper gets no response from us.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the request did not arrive whole: {0}")]
    Request(#[from] hyper::Error),
    #[error("the remote was stopped")]
    Dropped,
}

/// Waits for the whole request. A body that is too large is read to its end and not kept: a connection closed with
/// bytes unread is reset, and the client would never see the 413.
async fn collect(request: hyper::Request<Incoming>) -> Result<Arrived, Broken> {
    let (parts, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    let mut body_bytes = 0_u64;
    while let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame?.into_data() {
            body_bytes += data.len() as u64;
            if body_bytes <= MOST_BODY as u64 {
                body.extend_from_slice(&data);
            } else {
                body = Vec::new();
            }
        }
    }
    Ok(Arrived {
        method: parts.method,
        target: parts
            .uri
            .path_and_query()
            .map_or_else(|| parts.uri.to_string(), ToString::to_string),
        headers: parts.headers,
        body: body.into(),
        body_bytes,
    })
}

fn response(answer: Answer) -> hyper::Response<Full<Bytes>> {
    let mut response = hyper::Response::new(Full::new(answer.body));
    // The status was a status before it became a number.
    *response.status_mut() = hyper::StatusCode::from_u16(answer.status).unwrap_or_default();
    *response.headers_mut() = answer.headers;
    response
}

/// What went over a connection.
#[derive(Default)]
struct Traffic {
    read: AtomicU64,
    /// The first byte that was read.
    first: AtomicU64,
    /// The peer had closed at least its sending side when we wrote last.
    half_closed: AtomicBool,
    /// The kernel took no more bytes.
    refused: AtomicBool,
    /// What the second half of the reply waits for.
    other_half: Mutex<Option<Until>>,
}

/// Ready when the rest of a reply may follow.
type Until = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Traffic {
    /// The reply that comes next is written in two halves.
    fn halve(&self, until: Until) {
        *self.lock_other_half() = Some(until);
    }

    fn lock_other_half(&self) -> MutexGuard<'_, Option<Until>> {
        self.other_half
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the reply, all of it written, went to a peer that was still there.
    ///
    /// A peer that had closed its sending side is most likely gone, and may also be one that reads on (`shutdown(2)`
    /// after sending). The kernel tells them apart: bytes for a closed socket are answered with a reset.
    async fn was_taken(&self, stream: &TcpStream) -> bool {
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

/// The connection as hyper reads and writes it.
struct Wire {
    stream: Arc<TcpStream>,
    traffic: Arc<Traffic>,
    /// Half of the reply is written.
    waiting: Option<Until>,
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
        if let Some(until) = &mut self.waiting {
            ready!(until.as_mut().poll(cx));
            self.waiting = None;
        }
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            self.traffic
                .half_closed
                .store(has_half_closed(&self.stream), Ordering::Relaxed);
            let halved = self.traffic.lock_other_half().is_some() && bytes.len() > 1;
            let now = if halved { bytes.len() / 2 } else { bytes.len() };
            match self.stream.try_write(&bytes[..now]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    if halved {
                        let until = self.traffic.lock_other_half().take();
                        self.waiting = until;
                    }
                    if written.is_err() {
                        self.traffic.refused.store(true, Ordering::Relaxed);
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

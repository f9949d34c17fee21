//! One connection: one request, one reply, `Connection: close`.
//!
//! hyper reads and writes; the [`Wire`] below it counts, looks and sets the pace. What became of the reply is decided here,
//! when all of it has been handed to the kernel and the peer's kernel has had its say.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::journal::{Event, Journal};

use super::front::{Answer, Arrived, Front, MOST_BODY};
use super::stance::Pace;
use super::wire::{Traffic, Turn, Wire};

/// The first byte of a TLS record that carries a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u64 = 0x16;

/// Serves one connection to its end, and what was held of it to its release.
pub(super) async fn serve(front: Arc<Front>, stream: TcpStream, connection: u32) {
    let stream = Arc::new(stream);
    let traffic = Arc::new(Traffic::default());
    let wire = Wire::new(Arc::clone(&stream), Arc::clone(&traffic));
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
        if answer.pace == Pace::Reset {
            // hyper gives the connection up when it gets no answer.
            drop(back);
            traffic.reset();
            return Some((request, status, false));
        }
        if answer.pace != Pace::Whole {
            traffic.next_reply(Turn {
                front: Arc::clone(&front),
                request,
                status,
                pace: answer.pace,
                body: answer.body.len(),
            });
        }
        // Where nobody waits any more the reply is lost, which shows below.
        let taken = back.send(answer).is_ok();
        Some((request, status, taken))
    };
    let (spoken, answered) = tokio::join!(speaking, answering);
    match answered {
        Some((request, status, _)) if traffic.is_reset() => {
            if reset(stream) {
                front.journal.append(Event::ConnectionReset { request });
            } else {
                front.journal.append(Event::ReplyLost { request, status });
            }
        }
        Some((request, status, taken)) => {
            if taken && spoken.is_ok() && traffic.was_taken(&stream).await {
                front.gate.delivered(request, status);
            } else {
                front.journal.append(Event::ReplyLost { request, status });
            }
        }
        None => record_torn(&front.journal, connection, &traffic, spoken.err().as_ref()),
    }
}

/// Closes the connection so that its peer gets a RST instead of an end (`SO_LINGER` of 0 s, socket(7)). False where the
/// kernel would not have it.
fn reset(stream: Arc<TcpStream>) -> bool {
    let at_once = linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // By now hyper has dropped its half, so this closes the socket.
    setsockopt(&*stream, sockopt::Linger, &at_once).is_ok() && Arc::into_inner(stream).is_some()
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

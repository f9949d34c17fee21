//! Serving OTLP: over HTTP in protobuf and JSON, and over gRPC.
//!
//! OTLP is two unary calls, so gRPC is served by hand on HTTP/2: a message is a flag, a length and protobuf, and how it
//! went stands in the trailers (the gRPC over HTTP/2 specification).

use std::convert::Infallible;
use std::io::{self, Read as _};
use std::net::TcpListener as StdTcpListener;

use flate2::read::MultiGzDecoder;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AsHeaderName, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::{Received, rows};
use crate::journal::excerpt;

/// A larger body is not taken, neither as it comes nor unpacked.
const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// How much of a foreign path is told.
const LONGEST_PATH: usize = 200;

type Reply = Response<BoxBody<Bytes, Infallible>>;

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Traces,
    Logs,
    /// Taken and passed over: no record is made of numbers.
    Metrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Protobuf,
    Json,
}

/// Why an export was not taken.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("nothing is exported to {0}")]
    Elsewhere(String),
    #[error("an export is a POST")]
    NotPosted,
    #[error("it is neither protobuf nor JSON")]
    Foreign,
    #[error("it is compressed by other means than gzip")]
    Compressed,
    #[error("an export was larger than {} MiB", LARGEST_BODY >> 20)]
    TooLarge,
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// Serves until `stopped`.
pub(super) async fn serve(
    http: StdTcpListener,
    grpc: StdTcpListener,
    received: Received,
    stopped: oneshot::Receiver<()>,
) {
    let both = async {
        tokio::join!(
            accept(http, &received, |stream, received| async move {
                let service = service_fn(move |request| over_http(request, received.clone()));
                // A peer that goes in the middle of its request has exported nothing.
                let _ = http1::Builder::new()
                    .serve_connection(stream, service)
                    .await;
            }),
            accept(grpc, &received, |stream, received| async move {
                let service = service_fn(move |request| over_grpc(request, received.clone()));
                let _ = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(stream, service)
                    .await;
            }),
        )
    };
    tokio::select! {
        _ = stopped => {}
        (over_http, over_grpc) = both => {
            if let Some(error) = over_http.err().or(over_grpc.err()) {
                received.miss(format!("the receiver failed: {error}"));
            }
        }
    }
}

/// Accepts for ever.
async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: StdTcpListener,
    received: &Received,
    serve: impl Fn(TokioIo<TcpStream>, Received) -> F,
) -> io::Result<Infallible> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(TokioIo::new(stream), received.clone()));
            }
            // Whoever reached for us has gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

// ---- HTTP --------------------------------------------------------------------------------------------------------

async fn over_http(request: Request<Incoming>, received: Received) -> Result<Reply, Infallible> {
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    Ok(match take_http(request, &received).await {
        Ok(encoding) => {
            // Both are the empty message: all of it was taken.
            let body = match encoding {
                Encoding::Protobuf => "",
                Encoding::Json => "{}",
            };
            let mut reply = Response::new(whole(body.to_owned()));
            if let Some(kind) = kind {
                reply.headers_mut().insert(CONTENT_TYPE, kind);
            }
            reply
        }
        Err(refusal) => {
            let status = match refusal {
                Refusal::Elsewhere(_) => StatusCode::NOT_FOUND,
                Refusal::NotPosted => StatusCode::METHOD_NOT_ALLOWED,
                Refusal::Foreign | Refusal::Compressed => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                Refusal::Unreadable(_) => StatusCode::BAD_REQUEST,
            };
            let mut reply = Response::new(whole(refusal.to_string()));
            *reply.status_mut() = status;
            reply
        }
    })
}

async fn take_http(request: Request<Incoming>, received: &Received) -> Result<Encoding, Refusal> {
    let signal = match request.uri().path() {
        "/v1/traces" => Signal::Traces,
        "/v1/logs" => Signal::Logs,
        "/v1/metrics" => Signal::Metrics,
        other => return Err(Refusal::Elsewhere(excerpt(other, LONGEST_PATH))),
    };
    if request.method() != Method::POST {
        return Err(Refusal::NotPosted);
    }
    let says = |header| text_of(request.headers(), header);
    let encoding = match says(CONTENT_TYPE).split(';').next().map(str::trim) {
        Some("application/x-protobuf") => Encoding::Protobuf,
        Some("application/json") => Encoding::Json,
        _ => return Err(Refusal::Foreign),
    };
    let is_packed = match says(CONTENT_ENCODING) {
        "" | "identity" => false,
        "gzip" => true,
        _ => return Err(Refusal::Compressed),
    };
    let body = collect(request.into_body(), received).await?;
    let body = if is_packed {
        unpack(&body, received)?
    } else {
        body
    };
    take(signal, encoding, &body, received)?;
    Ok(encoding)
}

// ---- gRPC --------------------------------------------------------------------------------------------------------

/// Status codes of gRPC.
mod code {
    pub const OK: &str = "0";
    pub const INVALID_ARGUMENT: &str = "3";
    pub const RESOURCE_EXHAUSTED: &str = "8";
    pub const UNIMPLEMENTED: &str = "12";
}

/// The flag and the length before a message.
const PREFIX: usize = 5;

async fn over_grpc(request: Request<Incoming>, received: Received) -> Result<Reply, Infallible> {
    let taken = take_grpc(request, &received).await;
    let (body, status, told) = match taken {
        // The empty message: all of it was taken.
        Ok(()) => (Bytes::from_static(&[0; PREFIX]), code::OK, String::new()),
        Err(refusal) => {
            let status = match refusal {
                Refusal::Elsewhere(_) | Refusal::NotPosted | Refusal::Compressed => {
                    code::UNIMPLEMENTED
                }
                Refusal::TooLarge => code::RESOURCE_EXHAUSTED,
                Refusal::Foreign | Refusal::Unreadable(_) => code::INVALID_ARGUMENT,
            };
            (Bytes::new(), status, refusal.to_string())
        }
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    if let Ok(told) = HeaderValue::from_str(&told)
        && !told.is_empty()
    {
        trailers.insert("grpc-message", told);
    }
    let body = Full::new(body).with_trailers(async move { Some(Ok(trailers)) });
    let mut reply = Response::new(BoxBody::new(body));
    let kind = HeaderValue::from_static("application/grpc");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(reply)
}

async fn take_grpc(request: Request<Incoming>, received: &Received) -> Result<(), Refusal> {
    const SERVICES: &str = "/opentelemetry.proto.collector.";
    let path = request.uri().path();
    let signal = match path.strip_prefix(SERVICES) {
        Some("trace.v1.TraceService/Export") => Signal::Traces,
        Some("logs.v1.LogsService/Export") => Signal::Logs,
        Some("metrics.v1.MetricsService/Export") => Signal::Metrics,
        _ => return Err(Refusal::Elsewhere(excerpt(path, LONGEST_PATH))),
    };
    if request.method() != Method::POST {
        return Err(Refusal::NotPosted);
    }
    let says_gzip = text_of(request.headers(), "grpc-encoding") == "gzip";
    let body = collect(request.into_body(), received).await?;
    let short = || Refusal::Unreadable("it is no whole message of gRPC".to_owned());
    let (prefix, message) = body.split_at_checked(PREFIX).ok_or_else(short)?;
    let [flag, length @ ..] = prefix else {
        return Err(short());
    };
    let length = <[u8; 4]>::try_from(length).map(u32::from_be_bytes);
    if length.ok() != u32::try_from(message.len()).ok() {
        return Err(short());
    }
    match (flag, says_gzip) {
        (0, _) => take(signal, Encoding::Protobuf, message, received),
        (1, true) => {
            let message = unpack(message, received)?;
            take(signal, Encoding::Protobuf, &message, received)
        }
        _ => Err(Refusal::Compressed),
    }
}

// ---- bodies ------------------------------------------------------------------------------------------------------

fn take(
    signal: Signal,
    encoding: Encoding,
    body: &[u8],
    received: &Received,
) -> Result<(), Refusal> {
    let rows = match signal {
        Signal::Traces => rows::of_traces(decode::<ExportTraceServiceRequest>(encoding, body)?),
        Signal::Logs => rows::of_logs(decode::<ExportLogsServiceRequest>(encoding, body)?),
        Signal::Metrics => return Ok(()),
    };
    received.take(rows);
    Ok(())
}

fn decode<M: Message + Default + DeserializeOwned>(
    encoding: Encoding,
    body: &[u8],
) -> Result<M, Refusal> {
    let told = match encoding {
        Encoding::Protobuf => match M::decode(body) {
            Ok(message) => return Ok(message),
            Err(error) => error.to_string(),
        },
        Encoding::Json => match serde_json::from_slice(body) {
            Ok(message) => return Ok(message),
            Err(error) => error.to_string(),
        },
    };
    Err(Refusal::Unreadable(told))
}

/// The whole body. One that is too large leaves a record with a gap, whatever else is in it.
async fn collect(body: Incoming, received: &Received) -> Result<Vec<u8>, Refusal> {
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes().to_vec()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(received)),
        Err(error) => Err(Refusal::Unreadable(error.to_string())),
    }
}

fn unpack(packed: &[u8], received: &Received) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    let most = LARGEST_BODY as u64 + 1;
    MultiGzDecoder::new(packed)
        .take(most)
        .read_to_end(&mut body)
        .map_err(|error| Refusal::Unreadable(error.to_string()))?;
    if body.len() > LARGEST_BODY {
        return Err(too_large(received));
    }
    Ok(body)
}

fn too_large(received: &Received) -> Refusal {
    received.miss(Refusal::TooLarge.to_string());
    Refusal::TooLarge
}

fn text_of(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    let value = headers.get(name).map(HeaderValue::to_str);
    value.and_then(Result::ok).unwrap_or_default()
}

fn whole(text: String) -> BoxBody<Bytes, Infallible> {
    BoxBody::new(Full::new(Bytes::from(text)))
}

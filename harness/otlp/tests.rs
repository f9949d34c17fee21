//! The receiver, spoken to over its sockets.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde_json::{Value, json};

use super::*;

fn receiver() -> Receiver {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let door = OtlpDoor {
        http: listen(),
        grpc: listen(),
    };
    Receiver::start(door).unwrap()
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn resource() -> Resource {
    Resource {
        attributes: vec![attribute("process.pid", Any::IntValue(7))],
        ..Resource::default()
    }
}

fn traces() -> ExportTraceServiceRequest {
    let span = Span {
        trace_id: vec![0xab; 16],
        span_id: vec![1; 8],
        name: "tools/call".to_owned(),
        start_time_unix_nano: 1_000_000_000,
        attributes: vec![attribute(
            "mcp.method.name",
            Any::StringValue("tools/call".to_owned()),
        )],
        events: vec![Event {
            name: "intended".to_owned(),
            attributes: vec![attribute(
                "drill.outcome",
                Any::StringValue("intended".to_owned()),
            )],
            ..Event::default()
        }],
        status: Some(Status {
            code: 2,
            ..Status::default()
        }),
        ..Span::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource()),
            scope_spans: vec![ScopeSpans {
                spans: vec![span],
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

fn logs(body: &str) -> ExportLogsServiceRequest {
    let log = LogRecord {
        observed_time_unix_nano: 2_000_000_000,
        body: Some(AnyValue {
            value: Some(Any::StringValue(body.to_owned())),
        }),
        attributes: vec![attribute(
            "drill.call.id",
            Any::StringValue("call-1".to_owned()),
        )],
        ..LogRecord::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource()),
            scope_logs: vec![ScopeLogs {
                log_records: vec![log],
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        }],
    }
}

/// The status line and the body of the reply.
fn post(receiver: &Receiver, path: &str, headers: &str, body: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, receiver.http_port)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Whoever refuses a large body does not read it to its end.
    let _ = stream.write_all(body);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

const PROTOBUF: &str = "Content-Type: application/x-protobuf\r\n";
const JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";

fn the_rows_of_the_traces() -> [Value; 2] {
    let trace = "abababababababababababababababab";
    [
        json!({
            "signal": "event", "name": "intended", "trace_id": trace, "span_id": "0101010101010101",
            "attributes": { "drill.outcome": "intended" }, "resource": { "process.pid": 7 },
        }),
        json!({
            "signal": "span", "name": "tools/call", "time": "1970-01-01T00:00:01Z", "trace_id": trace,
            "span_id": "0101010101010101", "status": "error", "attributes": { "mcp.method.name": "tools/call" },
            "resource": { "process.pid": 7 },
        }),
    ]
}

#[test]
fn a_span_and_its_events_are_rows() {
    let receiver = receiver();
    let (status, body) = post(&receiver, "/v1/traces", PROTOBUF, &traces().encode_to_vec());
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
    assert_eq!(receiver.received.standing().rows, the_rows_of_the_traces());
}

#[test]
fn json_is_as_good_as_protobuf() {
    let receiver = receiver();
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": [{ "key": "process.pid", "value": { "intValue": "7" } }] },
        "scopeSpans": [{ "spans": [{
            "traceId": "ABABABABABABABABABABABABABABABAB", "spanId": "0101010101010101", "name": "tools/call",
            "startTimeUnixNano": "1000000000", "status": { "code": 2 },
            "attributes": [{ "key": "mcp.method.name", "value": { "stringValue": "tools/call" } }],
            "events": [{ "name": "intended", "attributes": [
                { "key": "drill.outcome", "value": { "stringValue": "intended" } } ] }],
        }] }],
    }] });
    let (status, body) = post(&receiver, "/v1/traces", JSON, body.to_string().as_bytes());
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "{}"));
    assert_eq!(receiver.received.standing().rows, the_rows_of_the_traces());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_log_record_may_come_packed() {
    let receiver = receiver();
    let headers = format!("{PROTOBUF}Content-Encoding: gzip\r\n");
    let body = gzip(&logs("a job is intended").encode_to_vec());
    let (status, _) = post(&receiver, "/v1/logs", &headers, &body);
    assert_eq!(status, "HTTP/1.1 200 OK");
    let row = json!({
        "signal": "log", "time": "1970-01-01T00:00:02Z", "attributes": { "drill.call.id": "call-1" },
        "resource": { "process.pid": 7 }, "body": "a job is intended",
    });
    assert_eq!(receiver.received.standing().rows, [row]);
}

#[test]
fn what_is_no_export_is_refused() {
    let receiver = receiver();
    let status = |path, headers, body: &[u8]| post(&receiver, path, headers, body).0;
    assert!(status("/v1/traces", PROTOBUF, b"\xff\xff").contains("400"));
    assert!(status("/v1/traces", JSON, b"{").contains("400"));
    assert!(status("/v1/traces", "", b"").contains("415"));
    assert!(status("/elsewhere", PROTOBUF, b"").contains("404"));
    // Numbers are taken, so that nobody complains, and are no record.
    assert!(status("/v1/metrics", PROTOBUF, b"").contains("200"));
    assert_eq!(receiver.received.standing(), Standing::default());
}

#[test]
fn what_is_too_large_leaves_a_gap_that_is_told() {
    let mebibyte = " ".repeat(1024 * 1024);
    let large = logs(&mebibyte.repeat(17)).encode_to_vec();
    let packed = format!("{PROTOBUF}Content-Encoding: gzip\r\n");
    for (headers, body) in [(PROTOBUF, &large), (&packed, &gzip(&large))] {
        let receiver = receiver();
        post(&receiver, "/v1/logs", headers, body);
        let missing = receiver.received.standing().missing;
        assert_eq!(missing.as_deref(), Some("an export was larger than 16 MiB"));
    }
    let received = Received::default();
    received.take(vec![json!({}); MOST_ROWS + 1]);
    let standing = received.standing();
    assert_eq!(standing.rows.len(), MOST_ROWS);
    assert_eq!(
        standing.missing.as_deref(),
        Some("more than 100000 records were exported")
    );
}

/// The status of gRPC, and what is told of it.
async fn call(
    receiver: &Receiver,
    path: &str,
    encoding: &str,
    message: Vec<u8>,
) -> (String, String) {
    let stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, receiver.grpc_port));
    let stream = TokioIo::new(stream.await.unwrap());
    let client = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (mut client, connection) = client.await.unwrap();
    tokio::spawn(connection);
    let mut body = vec![u8::from(encoding == "gzip")];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    let request = Request::post(format!("http://x{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", encoding)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let reply = client.send_request(request).await.unwrap();
    let body = reply.into_body().collect().await.unwrap();
    let trailers = body.trailers().unwrap().clone();
    let says = |name: &str| {
        let value = trailers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default().to_owned()
    };
    (says("grpc-status"), says("grpc-message"))
}

#[tokio::test]
async fn grpc_is_as_good_as_http() {
    const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    let receiver = receiver();
    let (status, _) = call(&receiver, TRACES, "identity", traces().encode_to_vec()).await;
    assert_eq!(status, "0");
    assert_eq!(receiver.received.standing().rows, the_rows_of_the_traces());
    let packed = gzip(&logs("x").encode_to_vec());
    assert_eq!(call(&receiver, LOGS, "gzip", packed).await.0, "0");
    assert_eq!(receiver.received.standing().rows.len(), 3);
    let (status, told) = call(&receiver, "/a.b/C", "identity", Vec::new()).await;
    assert_eq!(
        (status.as_str(), told.as_str()),
        ("12", "nothing is exported to /a.b/C")
    );
    assert_eq!(call(&receiver, LOGS, "identity", vec![0xff]).await.0, "3");
}

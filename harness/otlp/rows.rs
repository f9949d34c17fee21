//! One row for each log record, each span and each event of a span, in words that a JSON pointer finds.
//!
//! ```json
//! { "signal": "log" | "span" | "event", "name": "…", "time": "2026-11-29T12:00:00Z", "end": "…",
//!   "trace_id": "32 hex digits", "span_id": "16 hex digits", "parent_span_id": "…", "status": "unset" | "ok" | "error",
//!   "severity": "INFO", "attributes": { "drill.run.id": "…" }, "resource": { "process.pid": 7 }, "body": … }
//! ```
//!
//! Attributes are flat, with their dotted names as they are: `/attributes/drill.run.id`. What is not there is absent. The
//! `time` of a span is its start; an event of a span has the ids of the span.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Map, Value};

pub(super) fn of_logs(request: ExportLogsServiceRequest) -> Vec<Value> {
    let mut rows = Vec::new();
    for of_resource in request.resource_logs {
        let resource = resource(of_resource.resource);
        for scope in of_resource.scope_logs {
            rows.extend(
                scope
                    .log_records
                    .into_iter()
                    .map(|log| of_log(log, &resource)),
            );
        }
    }
    rows
}

pub(super) fn of_traces(request: ExportTraceServiceRequest) -> Vec<Value> {
    let mut rows = Vec::new();
    for of_resource in request.resource_spans {
        let resource = resource(of_resource.resource);
        for scope in of_resource.scope_spans {
            for span in scope.spans {
                of_span(span, &resource, &mut rows);
            }
        }
    }
    rows
}

fn of_log(log: LogRecord, resource: &Value) -> Value {
    // A log record that says no time of its own was made when it was seen.
    let time = match log.time_unix_nano {
        0 => log.observed_time_unix_nano,
        time => time,
    };
    Row::new("log", &log.event_name)
        .time("time", time)
        .id("trace_id", &log.trace_id)
        .id("span_id", &log.span_id)
        .text("severity", &log.severity_text)
        .with("attributes", attributes(log.attributes))
        .with("resource", resource.clone())
        .with("body", log.body.map_or(Value::Null, any))
        .done()
}

fn of_span(span: Span, resource: &Value, rows: &mut Vec<Value>) {
    let status = span.status.as_ref().map_or(0, |status| status.code);
    let status = match StatusCode::try_from(status) {
        Ok(StatusCode::Ok) => "ok",
        Ok(StatusCode::Error) => "error",
        Ok(StatusCode::Unset) | Err(_) => "unset",
    };
    for event in span.events {
        rows.push(of_event(event, &span.trace_id, &span.span_id, resource));
    }
    rows.push(
        Row::new("span", &span.name)
            .time("time", span.start_time_unix_nano)
            .time("end", span.end_time_unix_nano)
            .id("trace_id", &span.trace_id)
            .id("span_id", &span.span_id)
            .id("parent_span_id", &span.parent_span_id)
            .text("status", status)
            .with("attributes", attributes(span.attributes))
            .with("resource", resource.clone())
            .done(),
    );
}

fn of_event(event: Event, trace: &[u8], span: &[u8], resource: &Value) -> Value {
    Row::new("event", &event.name)
        .time("time", event.time_unix_nano)
        .id("trace_id", trace)
        .id("span_id", span)
        .with("attributes", attributes(event.attributes))
        .with("resource", resource.clone())
        .done()
}

fn resource(resource: Option<Resource>) -> Value {
    attributes(
        resource
            .map(|resource| resource.attributes)
            .unwrap_or_default(),
    )
}

fn attributes(attributes: Vec<KeyValue>) -> Value {
    let fields = attributes
        .into_iter()
        .map(|KeyValue { key, value, .. }| (key, value.map_or(Value::Null, any)));
    Value::Object(fields.collect())
}

fn any(value: AnyValue) -> Value {
    match value.value {
        // The latter is an index into a table of strings, which profiles have, and logs and traces have not.
        None | Some(Any::StringValueStrindex(_)) => Value::Null,
        Some(Any::StringValue(text)) => Value::String(text),
        Some(Any::BoolValue(yes)) => Value::Bool(yes),
        Some(Any::IntValue(number)) => Value::from(number),
        Some(Any::DoubleValue(number)) => Value::from(number),
        Some(Any::ArrayValue(array)) => array.values.into_iter().map(any).collect(),
        Some(Any::KvlistValue(list)) => attributes(list.values),
        Some(Any::BytesValue(bytes)) => Value::String(STANDARD.encode(bytes)),
    }
}

/// A row in the making: what is empty is left out.
struct Row(Map<String, Value>);

impl Row {
    fn new(signal: &str, name: &str) -> Self {
        Self(Map::new()).text("signal", signal).text("name", name)
    }

    fn text(self, key: &str, text: &str) -> Self {
        let text = if text.is_empty() {
            Value::Null
        } else {
            Value::from(text)
        };
        self.with(key, text)
    }

    /// Trace and span ids, as W3C Trace Context writes them.
    fn id(self, key: &str, id: &[u8]) -> Self {
        self.text(key, &crate::journal::hex(id))
    }

    fn time(self, key: &str, nanoseconds: u64) -> Self {
        let time = jiff::Timestamp::from_nanosecond(nanoseconds.into());
        let text = time.map(|time| time.to_string()).unwrap_or_default();
        self.text(key, if nanoseconds == 0 { "" } else { &text })
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        if !value.is_null() {
            self.0.insert(key.to_owned(), value);
        }
        self
    }

    fn done(self) -> Value {
        Value::Object(self.0)
    }
}

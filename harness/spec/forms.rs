//! How a value is written in a drill file, where that differs from what it means.
//!
//! Several keys have a short form (`helpers: none`, `effects: 1`, a crash point as a plain word). The types here are
//! those forms: serde reads and writes them, and the JSON Schema is made from them. The types in `model` are what the
//! rest of the harness works with.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use super::crash_forms::*;
use super::model::{
    AllowedHelper, Call, Correlation, Count, CpuTime, CrashPoint, Helpers, Outcomes, Ownership,
    RecordPlace, RecordPointers, Recover, Recovery, Retry, Size, Source, Span, Status,
};

/// What session B does.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RecoverForm {
    Retry(RetryForm),
    Operator(OperatorForm),
    Tool(ToolForm),
}

/// The same call with the same correlation.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryForm {
    /// The same call with the same correlation, in session B. `true`: but not at `after-result`, where a client has the
    /// result and does not retry; session B then makes no call, and the effects are counted. `always`: there too.
    retry: RetryWord,
    /// Replaces `call.before` in session B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Vec<Call>>,
}

/// The same call, which the server must refuse where an intent has no known outcome.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OperatorForm {
    /// The same call, which the server must refuse to replay, saying why, where an intent has no known outcome.
    operator: True,
    /// Replaces `call.before` in session B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Vec<Call>>,
}

/// A tool made for recovery.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolForm {
    /// A tool made for recovery.
    tool: String,
    /// Strings are templates.
    #[serde(default)]
    arguments: serde_json::Map<String, Value>,
    #[serde(default)]
    correlation: Correlation,
    /// Replaces `call.before` in session B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Vec<Call>>,
}

impl From<RecoverForm> for Recover {
    fn from(form: RecoverForm) -> Self {
        match form {
            RecoverForm::Retry(RetryForm { retry, before }) => Self {
                how: Recovery::Retry(match retry {
                    RetryWord::WithoutResult(True) => Retry::WithoutResult,
                    RetryWord::Always(_) => Retry::Always,
                }),
                before,
            },
            RecoverForm::Operator(OperatorForm { before, .. }) => Self {
                how: Recovery::Operator(true),
                before,
            },
            RecoverForm::Tool(tool) => Self {
                how: Recovery::Tool {
                    tool: tool.tool,
                    arguments: tool.arguments,
                    correlation: tool.correlation,
                },
                before: tool.before,
            },
        }
    }
}

impl From<Recover> for RecoverForm {
    fn from(recover: Recover) -> Self {
        let before = recover.before;
        match recover.how {
            Recovery::Retry(retry) => Self::Retry(RetryForm {
                retry: match retry {
                    Retry::WithoutResult => RetryWord::WithoutResult(True),
                    Retry::Always => RetryWord::Always(Always::Always),
                },
                before,
            }),
            Recovery::Operator(_) => Self::Operator(OperatorForm {
                operator: True,
                before,
            }),
            Recovery::Tool {
                tool,
                arguments,
                correlation,
            } => Self::Tool(ToolForm {
                tool,
                arguments,
                correlation,
                before,
            }),
        }
    }
}

/// When session B makes the call again: `true` or `always`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum RetryWord {
    WithoutResult(True),
    Always(Always),
}

/// `always`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum Always {
    Always,
}

/// `true`, where `false` would say nothing that leaving the key out does not say.
#[derive(Clone, Copy)]
pub struct True;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom("must be true"))
        }
    }
}

impl JsonSchema for True {
    fn schema_name() -> Cow<'static, str> {
        "True".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "const": true })
    }
}

/// Where the record is: in a log file, or in what the server tells in another way.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OwnershipForm {
    Log(LogForm),
    From(SourceForm),
}

/// A log file.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogForm {
    /// JSON lines; a template. Or, in its place, `from: stderr`, `from: logging` or `from: otlp`.
    log: String,
    /// JSON pointers into a row. The keys named here are required.
    record: RecordPointers,
    /// The words that the log uses for an outcome.
    #[serde(default)]
    outcomes: Outcomes,
    /// The intent must be on the disk before dispatch (fsync, fdatasync, `O_SYNC`), so that a power cut cannot take it.
    /// Only a `gate` sees this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    durable: bool,
}

/// What the server tells besides a log file.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceForm {
    /// In place of `log`: `stderr` (its lines that are JSON objects), `logging` (MCP's `notifications/message`) or `otlp`.
    from: Source,
    /// JSON pointers into a row. The keys named here are required. May be left out for `otlp`.
    record: Option<RecordPointers>,
    /// The words that the record uses for an outcome.
    #[serde(default)]
    outcomes: Outcomes,
}

impl From<OwnershipForm> for Ownership {
    fn from(form: OwnershipForm) -> Self {
        match form {
            OwnershipForm::Log(form) => Self {
                place: RecordPlace::Log(form.log),
                record: form.record,
                outcomes: form.outcomes,
                durable: form.durable,
            },
            OwnershipForm::From(form) => Self {
                place: RecordPlace::From(form.from),
                record: form.record.unwrap_or_else(|| match form.from {
                    Source::Otlp => RecordPointers::of_otlp(),
                    // The drill is refused before anybody looks at this.
                    Source::Stderr | Source::Logging => RecordPointers::default(),
                }),
                outcomes: form.outcomes,
                durable: false,
            },
        }
    }
}

impl From<Ownership> for OwnershipForm {
    fn from(ownership: Ownership) -> Self {
        let Ownership {
            place,
            record,
            outcomes,
            durable,
        } = ownership;
        match place {
            RecordPlace::Log(log) => Self::Log(LogForm {
                log,
                record,
                outcomes,
                durable,
            }),
            RecordPlace::From(from) => Self::From(SourceForm {
                from,
                record: Some(record),
                outcomes,
            }),
        }
    }
}

/// `any`, or a list of exit codes.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StatusForm {
    Word(AnyWord),
    Codes(Vec<i32>),
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum AnyWord {
    /// Every code and no signal.
    Any,
}

impl From<StatusForm> for Status {
    fn from(form: StatusForm) -> Self {
        match form {
            StatusForm::Word(AnyWord::Any) => Self::Any,
            StatusForm::Codes(codes) => Self::Codes(codes),
        }
    }
}

impl From<Status> for StatusForm {
    fn from(status: Status) -> Self {
        match status {
            Status::Any => Self::Word(AnyWord::Any),
            Status::Codes(codes) => Self::Codes(codes),
        }
    }
}

/// Which processes may stay: `none`, or a list.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum HelpersForm {
    Word(NoneWord),
    Allow {
        /// Helpers that are declared durable.
        allow: Vec<AllowedHelper>,
    },
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum NoneWord {
    /// No process may stay.
    None,
}

impl From<HelpersForm> for Helpers {
    fn from(form: HelpersForm) -> Self {
        match form {
            HelpersForm::Word(NoneWord::None) => Self::default(),
            HelpersForm::Allow { allow } => Self { allow },
        }
    }
}

impl From<Helpers> for HelpersForm {
    fn from(helpers: Helpers) -> Self {
        if helpers.allow.is_empty() {
            Self::Word(NoneWord::None)
        } else {
            Self::Allow {
                allow: helpers.allow,
            }
        }
    }
}

/// How many effects: `1`, or `{ at_most: 1 }`.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum CountForm {
    Exactly(u32),
    AtMost {
        /// No more than this many.
        at_most: u32,
    },
}

impl From<CountForm> for Count {
    fn from(form: CountForm) -> Self {
        match form {
            CountForm::Exactly(n) => Self::Exactly(n),
            CountForm::AtMost { at_most } => Self::AtMost(at_most),
        }
    }
}

impl From<Count> for CountForm {
    fn from(count: Count) -> Self {
        match count {
            Count::Exactly(n) => Self::Exactly(n),
            Count::AtMost(at_most) => Self::AtMost { at_most },
        }
    }
}

/// A duration: `250ms`, `2s` or `1m`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SpanForm(String);

impl JsonSchema for SpanForm {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "duration",
            "description": "A whole number and a unit: ms, s or m.",
            "type": "string",
            "pattern": "^[0-9]{1,9}(ms|s|m)$",
            "examples": ["250ms", "2s", "1m"],
        })
    }
}

impl TryFrom<SpanForm> for Span {
    type Error = String;

    fn try_from(form: SpanForm) -> Result<Self, String> {
        parse_duration(&form.0)
            .map(Self)
            .ok_or_else(|| format!("`{}` is not a duration: write 250ms, 2s or 1m", form.0))
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

impl From<Span> for SpanForm {
    fn from(span: Span) -> Self {
        let ms = span.0.as_millis();
        Self(if ms.is_multiple_of(1000) {
            format!("{}s", ms / 1000)
        } else {
            format!("{ms}ms")
        })
    }
}

/// CPU time: a duration, or a plain number of seconds.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CpuTimeForm {
    Seconds(#[schemars(range(min = 0, max = 1_000_000))] f64),
    Span(SpanForm),
}

/// A plain number of seconds is no larger: it is eleven days.
const MOST_SECONDS: f64 = 1_000_000.0;

impl TryFrom<CpuTimeForm> for CpuTime {
    type Error = String;

    fn try_from(form: CpuTimeForm) -> Result<Self, String> {
        Ok(Self(match form {
            // The schema knows no fractions below zero; `valid` refuses what is no time at all.
            CpuTimeForm::Seconds(n) => Duration::from_secs_f64(n.clamp(0.0, MOST_SECONDS)),
            CpuTimeForm::Span(span) => Span::try_from(span)?.0,
        }))
    }
}

impl From<CpuTime> for CpuTimeForm {
    fn from(time: CpuTime) -> Self {
        Self::Span(Span(time.0).into())
    }
}

/// A size: `256MiB` or `1GiB`; a plain number is bytes.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SizeForm {
    Bytes(u64),
    Text(String),
}

/// What JSON numbers hold without loss.
const MOST_BYTES: u64 = 1 << 53;

impl JsonSchema for SizeForm {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0, "maximum": MOST_BYTES },
                {
                    "title": "size",
                    "type": "string",
                    "pattern": r"^[0-9]{1,9}(\.[0-9]{1,3})? ?([KMGTkmgt]([Ii]?[Bb])?|[KMGTkmgt][Ii]|[Bb])?$",
                    "examples": ["256MiB", "1GiB"],
                },
            ],
        })
    }
}

impl TryFrom<SizeForm> for Size {
    type Error = String;

    fn try_from(form: SizeForm) -> Result<Self, String> {
        match form {
            SizeForm::Bytes(bytes) => Ok(Self(bytes)),
            SizeForm::Text(text) => parse_size(&text)
                .map(Self)
                .ok_or_else(|| format!("`{text}` is not a size: write 256MiB or 1GiB")),
        }
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let unit_at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let power = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "ki" | "kib" => 1,
        "m" | "mb" | "mi" | "mib" => 2,
        "g" | "gb" | "gi" | "gib" => 3,
        "t" | "tb" | "ti" | "tib" => 4,
        _ => return None,
    };
    let one = 1024_u64.pow(power);
    let part = match fraction {
        "" => 0,
        digits => {
            let most = 10_u64.checked_pow(digits.len().try_into().ok()?)?;
            digits.parse::<u64>().ok()?.checked_mul(one)? / most
        }
    };
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(one)?
        .checked_add(part)
}

impl From<Size> for SizeForm {
    fn from(Size(bytes): Size) -> Self {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB")];
        units
            .into_iter()
            .find(|(one, _)| bytes > 0 && bytes % one == 0)
            .map_or(Self::Bytes(bytes), |(one, unit)| {
                Self::Text(format!("{}{unit}", bytes / one))
            })
    }
}

/// Text; a bare number, `true` or `false` is taken as the text that stands in the file.
///
/// `PORT: 8080` and `DEBUG: true` are what everybody writes in an environment.
pub struct AsWritten;

impl JsonSchema for AsWritten {
    fn schema_name() -> Cow<'static, str> {
        "AsWritten".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text. A bare number, `true` or `false` is taken as the text that stands in the file.",
            "type": ["string", "number", "boolean"],
        })
    }
}

/// A JSON pointer (RFC 6901) to something below the top.
pub struct Pointer;

impl JsonSchema for Pointer {
    fn schema_name() -> Cow<'static, str> {
        "JsonPointer".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "JSON pointer",
            "description": "A JSON pointer (RFC 6901).",
            "type": "string",
            "pattern": "^(/([^~/]|~[01])*)+$",
            "examples": ["/call_id", "/request/id"],
        })
    }
}

/// A mapping with one value by crash point.
pub struct ByPoint<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for ByPoint<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}_by_point", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<CrashPoint>(),
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// A value that is there, even when it is `null`.
pub fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

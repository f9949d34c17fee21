//! How a value is written in a drill file, where that differs from what it means.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::{
    AllowedHelper, Count, Crash, CrashPoint, Helpers, Kill, ReplyTiming, Signal, Span, Status,
    Stream,
};

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CrashForm {
    Point(CrashPoint),
    Full(CrashMap),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrashMap {
    at: CrashPoint,
    name: Option<String>,
    #[serde(default)]
    kill: Kill,
    #[serde(default)]
    signal: Signal,
    #[serde(default)]
    reply: ReplyTiming,
    #[serde(default)]
    close: Vec<Stream>,
    connection: Option<u32>,
}

impl From<CrashForm> for Crash {
    fn from(form: CrashForm) -> Self {
        match form {
            CrashForm::Point(at) => Self {
                at,
                name: None,
                kill: Kill::default(),
                signal: Signal::default(),
                reply: ReplyTiming::default(),
                close: Vec::new(),
                connection: None,
            },
            CrashForm::Full(map) => Self {
                at: map.at,
                name: map.name,
                kill: map.kill,
                signal: map.signal,
                reply: map.reply,
                close: map.close,
                connection: map.connection,
            },
        }
    }
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StatusForm {
    Word(AnyWord),
    Codes(Vec<i32>),
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnyWord {
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

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum HelpersForm {
    Word(NoneWord),
    Allow { allow: Vec<AllowedHelper> },
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoneWord {
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

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CountForm {
    Exactly(u32),
    AtMost { at_most: u32 },
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

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SpanForm(String);

impl TryFrom<SpanForm> for Span {
    type Error = String;

    fn try_from(form: SpanForm) -> Result<Self, String> {
        let text = form.0;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: u64 = digits
            .parse()
            .map_err(|_| format!("`{text}` is not a duration: write 250ms, 2s or 1m"))?;
        match &text[digits.len()..] {
            "ms" => Ok(Self(Duration::from_millis(number))),
            "s" => Ok(Self(Duration::from_secs(number))),
            "m" => Ok(Self(Duration::from_secs(number * 60))),
            _ => Err(format!("`{text}` is not a duration: write 250ms, 2s or 1m")),
        }
    }
}

impl From<Span> for SpanForm {
    fn from(span: Span) -> Self {
        let ms = span.0.as_millis();
        Self(if ms % 1000 == 0 {
            format!("{}s", ms / 1000)
        } else {
            format!("{ms}ms")
        })
    }
}

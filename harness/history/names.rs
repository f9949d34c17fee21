//! What varies from run to run gets a name by which it is the same thing in two journals.
//!
//! Ids are named after what they are: two requests with one key still have one key, and two with two have two.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::journal::{Event, Line};

/// Shorter texts are not taken for ids: they would be found in the middle of words.
const SHORTEST_ID: usize = 6;

/// Fields that hold pids, ports and the like, with what stands in their place; inside of other fields they are left out.
const FIELDS: [(&str, &str); 14] = [
    ("pid", "<pid>"),
    // As a row of the record names it.
    ("process", "<pid>"),
    ("ppid", "<pid>"),
    ("pgid", "<pid>"),
    ("sid", "<pid>"),
    ("pids", "<pids>"),
    ("by_server", "<pids>"),
    ("by_client", "<pids>"),
    ("reads_from", "<pids>"),
    ("others", "<pids>"),
    ("port", "<port>"),
    ("remote_port", "<port>"),
    ("window", "<time>"),
    ("wanted", "<time>"),
];

/// Fields that measure: they say nothing of what happened.
const MEASURES: [&str; 12] = [
    "bytes",
    "body_bytes",
    "whole",
    "started",
    "threads",
    "descriptors",
    "written",
    "used",
    "lines",
    "line",
    "end",
    "argv",
];

/// What varies inside of texts, with what stands in its place.
static TEXTS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<id>",
        ),
        (
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)",
            "<time>",
        ),
        (r"(/[^\s/]+)*/\.tmp[A-Za-z0-9]{6}", "<folder>"),
        (r"\b[0-9a-f]{16,}\b", "<id>"),
        (r"\b(127\.0\.0\.1|localhost|\[::1\]):\d+", "$1:<port>"),
        (r"\b[pP]ids? \d+", "pid <pid>"),
        (r"\b\d+(\.\d+)? ?(ms|ns|µs|s)\b", "<time>"),
    ]
    .into_iter()
    .filter_map(|(pattern, name)| Some((Regex::new(pattern).ok()?, name)))
    .collect()
});

fn stand_in(name: &str) -> Option<&'static str> {
    let known = FIELDS.iter().find(|(field, _)| *field == name);
    known.map(|(_, stand_in)| *stand_in)
}

/// The names of a journal's ids.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    pub fn of(lines: &[Line]) -> Self {
        let mut names = Self::default();
        let mut counts = BTreeMap::new();
        for line in lines {
            match &line.event {
                Event::Minted {
                    session,
                    run,
                    call,
                    approval,
                    ..
                } => {
                    names.add(run, format!("<run of {session}>"));
                    names.add(call, format!("<call of {session}>"));
                    names.add(approval, format!("<approval of {session}>"));
                }
                Event::RequestReceived { key: Some(key), .. } => {
                    names.count(key, "key", &mut counts);
                }
                Event::EffectApplied { effect, .. } => {
                    names.count(effect, "effect", &mut counts);
                }
                _ => {}
            }
        }
        names
    }

    fn add(&mut self, id: &str, name: String) {
        if id.len() >= SHORTEST_ID && !self.0.iter().any(|(known, _)| known == id) {
            self.0.push((id.to_owned(), name));
        }
    }

    /// Names it by the number of its kind, in the order in which they come.
    fn count(&mut self, id: &str, what: &'static str, counts: &mut BTreeMap<&'static str, u32>) {
        if self.0.iter().any(|(known, _)| known == id) {
            return;
        }
        let count = counts.entry(what).or_default();
        *count += 1;
        let name = format!("<{what} {count}>");
        self.add(id, name);
    }

    /// The event in a line, without what varies.
    pub fn spell(&self, event: &Event) -> String {
        let Ok(Value::Object(fields)) = serde_json::to_value(event) else {
            return String::new();
        };
        let mut text = fields
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        for (name, value) in &fields {
            if name == "kind" {
                continue;
            }
            let stand_in = stand_in(name).map(Value::from);
            if let Some(value) = stand_in.or_else(|| self.value(name, value)) {
                let value = match value {
                    Value::String(value) => value,
                    other => other.to_string(),
                };
                let _ = write!(text, "  {name}={value}");
            }
        }
        text
    }

    fn value(&self, name: &str, value: &Value) -> Option<Value> {
        if MEASURES.contains(&name) || stand_in(name).is_some() {
            return None;
        }
        Some(match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => {
                let items = items.iter().filter_map(|item| self.value("", item));
                Value::Array(items.collect())
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .filter_map(|(name, value)| Some((name.clone(), self.value(name, value)?)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            other => other.clone(),
        })
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (id, name) in &self.0 {
            if text.contains(id.as_str()) {
                text = text.replace(id.as_str(), name);
            }
        }
        for (varies, name) in TEXTS.iter() {
            text = varies.replace_all(&text, *name).into_owned();
        }
        text
    }
}

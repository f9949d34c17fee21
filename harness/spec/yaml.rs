//! A YAML document as a tree that knows where each of its parts stands.
//!
//! A typed reader forgets positions and stops at the first mistake. This tree keeps, for every key and value, the
//! place in the file and the text as it was written, so that `shape` and the checks behind it can point at both.
//!
//! Aliases are expanded, within a budget: a few lines of nested anchors must not fill the memory.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::{Number, Value};

/// How deep a file may nest. Deeper is an attack or an accident.
const MAX_DEPTH: usize = 64;
/// How many values a file may have, aliases expanded.
const MAX_VALUES: usize = 50_000;

/// A value and its place: a range of bytes in the source.
#[derive(Debug, Clone)]
pub struct Node {
    pub place: Range<usize>,
    pub data: Data,
}

#[derive(Debug, Clone)]
pub enum Data {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub key_place: Range<usize>,
    pub value: Node,
}

/// A word, number or text: as written, and as YAML's core schema reads it.
#[derive(Debug, Clone)]
pub struct Scalar {
    pub written: String,
    pub value: Value,
}

/// What is wrong with the YAML itself.
#[derive(Debug)]
pub struct NotYaml {
    pub because: String,
    pub place: Range<usize>,
    /// A second place that belongs to it: the first use of a key.
    pub also: Option<(Range<usize>, &'static str)>,
}

impl Entry {
    /// What to point at when the value is wrong: the key, where the value is nothing or more than a word.
    pub fn value_place(&self) -> &Range<usize> {
        match self.value.data {
            Data::Scalar(_) if !self.value.place.is_empty() => &self.value.place,
            _ => &self.key_place,
        }
    }
}

impl Node {
    /// The entries, where this is a mapping.
    pub fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The entry of this key, where this is a mapping that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value as JSON. Keys are text, as JSON wants them.
    pub fn json(&self) -> Value {
        match &self.data {
            Data::Scalar(scalar) => scalar.value.clone(),
            Data::List(items) => Value::Array(items.iter().map(Self::json).collect()),
            Data::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.json()))
                    .collect(),
            ),
        }
    }

    fn count(&self) -> usize {
        1 + match &self.data {
            Data::Scalar(_) => 0,
            Data::List(items) => items.iter().map(Self::count).sum(),
            Data::Map(entries) => entries.iter().map(|entry| entry.value.count()).sum(),
        }
    }

    fn depth(&self) -> usize {
        1 + match &self.data {
            Data::Scalar(_) => 0,
            Data::List(items) => items.iter().map(Self::depth).max().unwrap_or(0),
            Data::Map(entries) => entries
                .iter()
                .map(|entry| entry.value.depth())
                .max()
                .unwrap_or(0),
        }
    }
}

/// Reads one document. `None`: there is nothing in it.
pub fn parse(source: &str) -> Result<Option<Node>, NotYaml> {
    let mut reader = Reader::new(source);
    let mut parser = Parser::new_from_str(source);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| reader.scan_error(source, &error))?;
        let place = reader.bytes(span.start.index(), span.end.index());
        reader.event(event, place)?;
    }
    Ok(reader.document)
}

/// A list or mapping that has not ended.
struct Open {
    start: usize,
    anchor: usize,
    data: Data,
    /// The key that waits for its value.
    key: Option<(String, Range<usize>)>,
}

struct Reader {
    /// The byte where each character starts: the parser counts characters.
    starts: Vec<usize>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    values: usize,
    document: Option<Node>,
}

impl Reader {
    fn new(source: &str) -> Self {
        let mut starts: Vec<usize> = source.char_indices().map(|(byte, _)| byte).collect();
        starts.push(source.len());
        Self {
            starts,
            open: Vec::new(),
            anchors: HashMap::new(),
            values: 0,
            document: None,
        }
    }

    fn bytes(&self, from: usize, to: usize) -> Range<usize> {
        let last = self.starts.len() - 1;
        self.starts[from.min(last)]..self.starts[to.min(last)]
    }

    fn event(&mut self, event: Event<'_>, place: Range<usize>) -> Result<(), NotYaml> {
        match event {
            Event::DocumentStart(_) if self.document.is_some() => Err(wrong(
                "a file holds one document, and here a second one starts",
                place,
            )),
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = scalar(&text, style, tag.as_deref(), &place)?;
                let data = Data::Scalar(scalar);
                self.value(Node { place, data }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.start(Data::List(Vec::new()), anchor, tag.as_deref(), place)
            }
            Event::MappingStart(anchor, tag) => {
                self.start(Data::Map(Vec::new()), anchor, tag.as_deref(), place)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => {
                    let node = Node {
                        place: open.start..place.end,
                        data: open.data,
                    };
                    self.value(node, open.anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => {
                    let node = Node {
                        place: place.clone(),
                        data: node.data.clone(),
                    };
                    if self.open.len() + node.depth() > MAX_DEPTH {
                        return Err(too_deep(place));
                    }
                    self.values += node.count();
                    self.value(node, 0)
                }
                None => Err(wrong("this alias stands inside its own anchor", place)),
            },
            _ => Ok(()),
        }
    }

    fn start(
        &mut self,
        data: Data,
        anchor: usize,
        tag: Option<&Tag>,
        place: Range<usize>,
    ) -> Result<(), NotYaml> {
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema()) {
            return Err(wrong("there is no use for YAML tags here", place));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(place));
        }
        self.open.push(Open {
            start: place.start,
            anchor,
            data,
            key: None,
        });
        Ok(())
    }

    /// A value is complete: it belongs to whatever is open.
    fn value(&mut self, node: Node, anchor: usize) -> Result<(), NotYaml> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(wrong(
                format!("more than {MAX_VALUES} values, with aliases expanded"),
                node.place,
            ));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.document = Some(node).filter(|node| !is_nothing(node));
            return Ok(());
        };
        match &mut open.data {
            Data::List(items) => items.push(node),
            Data::Map(entries) => {
                if let Some((key, key_place)) = open.key.take() {
                    entries.push(Entry {
                        key,
                        key_place,
                        value: node,
                    });
                } else {
                    open.key = Some(key(entries, node)?);
                }
            }
            Data::Scalar(_) => {}
        }
        Ok(())
    }

    fn scan_error(&self, source: &str, error: &ScanError) -> NotYaml {
        let at = error.marker().index();
        let place = self.bytes(at, at + 1);
        let line = source[..place.start].rfind('\n').map_or(0, |n| n + 1);
        let blank = source[line..]
            .find(|c| c != ' ' && c != '\t')
            .map_or(source.len(), |n| line + n);
        match source[line..blank].find('\t') {
            Some(tab) => wrong(
                "YAML allows no tab in the indentation: use spaces",
                line + tab..line + tab + 1,
            ),
            None => wrong(format!("this is not YAML: {}", error.info()), place),
        }
    }
}

/// The next key of a mapping.
fn key(entries: &[Entry], node: Node) -> Result<(String, Range<usize>), NotYaml> {
    let Data::Scalar(scalar) = node.data else {
        return Err(wrong("a key must be a word or a text", node.place));
    };
    match entries.iter().find(|entry| entry.key == scalar.written) {
        Some(first) => Err(NotYaml {
            because: format!("the key `{}` stands here twice", scalar.written),
            place: node.place,
            also: Some((first.key_place.clone(), "first here")),
        }),
        None => Ok((scalar.written, node.place)),
    }
}

fn is_nothing(node: &Node) -> bool {
    matches!(&node.data, Data::Scalar(scalar) if scalar.value.is_null())
}

fn wrong(because: impl Into<String>, place: Range<usize>) -> NotYaml {
    NotYaml {
        because: because.into(),
        place,
        also: None,
    }
}

fn too_deep(place: Range<usize>) -> NotYaml {
    wrong(format!("nested deeper than {MAX_DEPTH} levels"), place)
}

fn scalar(
    text: &str,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: &Range<usize>,
) -> Result<Scalar, NotYaml> {
    let value = match tag {
        Some(tag) if !tag.is_yaml_core_schema() || tag.suffix != "str" => {
            return Err(wrong("there is no use for YAML tags here", place.clone()));
        }
        None if style == ScalarStyle::Plain => core_schema(text),
        _ => Value::String(text.to_owned()),
    };
    Ok(Scalar {
        written: text.to_owned(),
        value,
    })
}

/// What a plain scalar means: YAML 1.2.2, 10.3.2 (core schema). What JSON cannot say (`.inf`, `.nan`) stays text.
fn core_schema(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    integer(text)
        .or_else(|| float(text))
        .map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn integer(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return based(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return based(digits, 8);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    text.parse::<i64>()
        .map(Number::from)
        .or_else(|_| text.parse::<u64>().map(Number::from))
        .ok()
}

fn based(digits: &str, radix: u32) -> Option<Number> {
    // `from_str_radix` takes a sign, YAML does not.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).map(Number::from).ok()
}

fn float(text: &str) -> Option<Number> {
    // Rust also reads `inf`, `nan` and `infinity`, which are words in YAML.
    let starts = text.trim_start_matches(['+', '-']);
    if !starts.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use serde_json::json;

    use super::*;

    fn json(source: &str) -> Value {
        parse(source).unwrap().unwrap().json()
    }

    #[test]
    fn plain_scalars_mean_what_the_core_schema_says() {
        assert_eq!(
            json("[null, ~, true, 7, -7, +7, 0x1f, 0o17, 1.5, 1e3, .5]"),
            json!([null, null, true, 7, -7, 7, 31, 15, 1.5, 1000.0, 0.5])
        );
        assert_eq!(
            json(
                "[yes, on, no, inf, nan, .inf, 1.2.3, 2024-11-05, '7', \"true\", 0x, +, v1, !!str 7]"
            ),
            json!([
                "yes",
                "on",
                "no",
                "inf",
                "nan",
                ".inf",
                "1.2.3",
                "2024-11-05",
                "7",
                "true",
                "0x",
                "+",
                "v1",
                "7"
            ])
        );
    }

    #[test]
    fn an_alias_stands_for_its_anchor() {
        assert_eq!(
            json("a: &x { b: 1 }\nc: *x"),
            json!({"a": {"b": 1}, "c": {"b": 1}})
        );
    }

    #[test]
    fn nested_aliases_do_not_fill_the_memory() {
        let mut source = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let alias = format!("*a{},", n - 1).repeat(10);
            writeln!(source, "a{n}: &a{n} [{alias}]").unwrap();
        }
        assert!(parse(&source).unwrap_err().because.contains("values"));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let source = "[".repeat(100) + &"]".repeat(100);
        assert!(parse(&source).unwrap_err().because.contains("deeper"));
    }

    #[test]
    fn places_are_bytes_also_after_letters_of_several_bytes() {
        let source = "é: ü\nname: wörld # ∞\nb: x";
        let tree = parse(source).unwrap().unwrap();
        let entry = tree.entry("name").unwrap();
        assert_eq!(&source[entry.key_place.clone()], "name");
        assert_eq!(&source[entry.value.place.clone()], "wörld");
        assert_eq!(&source[tree.entry("b").unwrap().value.place.clone()], "x");
    }
}

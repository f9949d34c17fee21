//! Is a file written with the right keys, kinds and words?
//!
//! Walks the file and the JSON Schema side by side, collects every mistake with its place, and makes the JSON value
//! that serde then reads into the types.

mod form;

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};

use self::form::{Form, article, expected, first_line, forms, noun};
use super::mistake::{Added, Found, did_you_mean, nearest, one_of, short};
use super::path::Path;
use super::yaml::{Data, Entry, Node, Scalar};

/// The value as JSON, complete only if no mistake was found. `whole` is how a sentence speaks of the file.
pub(super) fn check(
    node: &Node,
    schema: &Value,
    whole: &'static str,
    found: &mut Found<'_>,
) -> Value {
    Walk {
        root: schema,
        found,
    }
    .value(node, &node.place, schema, &Path::whole(whole))
}

struct Walk<'w, 's> {
    root: &'w Value,
    found: &'w mut Found<'s>,
}

impl<'w> Walk<'w, '_> {
    /// `at` is what to point at when the value as a whole is wrong.
    fn value(&mut self, node: &Node, at: &Range<usize>, schema: &'w Value, path: &Path) -> Value {
        let forms = forms(self.root, schema);
        if forms.iter().any(|form| form.is_anything()) {
            return node.json();
        }
        match &node.data {
            Data::Scalar(scalar) => self.scalar(scalar, at, schema, &forms, path),
            Data::List(items) => match forms.iter().find_map(|form| Some((form, form.items()?))) {
                Some((form, _)) if form.least_items() > items.len() => {
                    let message = format!("{path} is an empty list");
                    self.found.add(at, message).help(form.description());
                    Value::Null
                }
                Some((_, item_schema)) => Value::Array(
                    items
                        .iter()
                        .enumerate()
                        .map(|(index, item)| {
                            self.value(item, &item.place, item_schema, &path.index(index))
                        })
                        .collect(),
                ),
                None => {
                    self.wrong_kind(at, "a list", &forms, path);
                    Value::Null
                }
            },
            Data::Map(entries) => {
                let mappings: Vec<Form<'w>> = forms
                    .iter()
                    .copied()
                    .filter(|form| form.is_mapping())
                    .collect();
                if let Some(form) = Form::best(&mappings, entries) {
                    self.mapping(at, entries, form, &mappings, path)
                } else {
                    self.wrong_kind(at, "a mapping", &forms, path);
                    Value::Null
                }
            }
        }
    }

    fn scalar(
        &mut self,
        scalar: &Scalar,
        at: &Range<usize>,
        schema: &'w Value,
        forms: &[Form<'w>],
        path: &Path,
    ) -> Value {
        let value = &scalar.value;
        if forms.iter().any(|form| form.has_word(value)) {
            return value.clone();
        }
        if let Some(form) = forms.iter().find(|form| form.is_as_written()) {
            if form.takes(value) {
                return Value::String(scalar.written.clone());
            }
        } else if let Some(form) = forms.iter().find(|form| form.takes(value)) {
            self.limits(scalar, at, *form, path);
            return value.clone();
        }
        let words: Vec<&str> = forms.iter().flat_map(|form| form.words()).collect();
        match value {
            Value::String(text) if !words.is_empty() => {
                let noun = noun(self.root, schema).map_or_else(
                    || "known here".to_owned(),
                    |noun| format!("{} {noun}", article(noun)),
                );
                let message = format!("{path}: `{}` is not {noun}", short(text));
                let guess = did_you_mean(nearest(text, words.iter().copied()));
                self.found
                    .add(at, format!("{message}{guess}"))
                    .help(format!("allowed: {}", expected(forms)));
            }
            _ => {
                let is = match value {
                    Value::Null => "empty".to_owned(),
                    Value::Bool(_) => format!("`{}`", short(&scalar.written)),
                    Value::Number(_) => format!("the number `{}`", short(&scalar.written)),
                    _ => format!("the text `{}`", short(&scalar.written)),
                };
                let added = self.wrong_kind(at, &is, forms, path);
                let text = forms.iter().find(|form| form.takes(&Value::from("")));
                if let Some(examples) = text.and_then(|form| form.examples()) {
                    added.help(format!("write {examples}"));
                } else if text.is_some() && !value.is_null() {
                    added.help(format!(
                        "in quotes it is text: \"{}\"",
                        short(&scalar.written)
                    ));
                }
            }
        }
        Value::Null
    }

    /// The rules on a text or a number beyond its kind.
    fn limits(&mut self, scalar: &Scalar, at: &Range<usize>, form: Form<'w>, path: &Path) {
        let written = short(&scalar.written);
        let number = match &scalar.value {
            Value::Number(number) => number
                .as_i64()
                .or_else(|| number.as_u64().map(|_| i64::MAX)),
            _ => None,
        };
        if let Some(number) = number {
            let least = form.0.get("minimum").and_then(Value::as_i64);
            let most = form.0.get("maximum").and_then(Value::as_i64);
            if let (Some(least), Some(most)) = (least, most)
                && !(least..=most).contains(&number)
            {
                let message = format!(
                    "{path}: `{written}` is out of range, expected a number from {least} to {most}"
                );
                self.found.add(at, message);
            }
        } else if let Some(pattern) = form.0.get("pattern").and_then(Value::as_str)
            && (!regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&scalar.written))
                || form.is_date() && scalar.written.parse::<jiff::civil::Date>().is_err())
        {
            let what = form
                .0
                .get("title")
                .and_then(Value::as_str)
                .map_or_else(String::new, |noun| format!(" {} {noun}", article(noun)));
            let (what, right) = match form.examples() {
                Some(examples) => (what, format!("write {examples}")),
                None => (
                    " in the allowed letters".to_owned(),
                    format!("it must match `{pattern}`"),
                ),
            };
            self.found
                .add(at, format!("{path}: `{written}` is not{what}"))
                .help(right);
        }
    }

    fn mapping(
        &mut self,
        at: &Range<usize>,
        entries: &[Entry],
        form: Form<'w>,
        all: &[Form<'w>],
        path: &Path,
    ) -> Value {
        let mut object = Map::new();
        // A key that was meant by an unknown one is not missing as well.
        let mut meant: Vec<&str> = Vec::new();
        for entry in entries {
            let below = path.key(&entry.key);
            if let Some(schema) = form.property(&entry.key) {
                object.insert(entry.key.clone(), self.entry_value(entry, schema, &below));
            } else if let Some(schema) = form.any_key() {
                self.key_word(entry, form, path);
                object.insert(entry.key.clone(), self.entry_value(entry, schema, &below));
            } else {
                meant.extend(self.unknown_key(entry, entries, form, all, path));
            }
        }
        for key in form.required() {
            if object.contains_key(key) || meant.contains(&key) {
                continue;
            }
            let message = format!("{path} has no `{key}`");
            let added = self.found.add(at, message);
            if let Some(what) = form
                .property(key)
                .and_then(|schema| schema.get("description"))
                .and_then(Value::as_str)
            {
                added.help(format!("`{key}`: {}", first_line(what)));
            }
        }
        Value::Object(object)
    }

    fn entry_value(&mut self, entry: &Entry, schema: &'w Value, path: &Path) -> Value {
        self.value(&entry.value, entry.value_place(), schema, path)
    }

    /// The key of a mapping that takes any of some words.
    fn key_word(&mut self, entry: &Entry, form: Form<'w>, path: &Path) {
        let Some(schema) = form.0.get("propertyNames") else {
            return;
        };
        let word = Value::String(entry.key.clone());
        let forms = forms(self.root, schema);
        if forms.iter().any(|form| form.has_word(&word)) {
            return;
        }
        let noun = noun(self.root, schema).unwrap_or("key");
        let words: Vec<&str> = forms.iter().flat_map(|form| form.words()).collect();
        let guess = did_you_mean(nearest(&entry.key, words.iter().copied()));
        self.found
            .add(
                &entry.key_place,
                format!(
                    "{path}: `{}` is not {} {noun}{guess}",
                    entry.key,
                    article(noun)
                ),
            )
            .help(format!("allowed: {}", one_of(words)));
    }

    /// Returns the key that was probably meant.
    fn unknown_key(
        &mut self,
        entry: &Entry,
        entries: &[Entry],
        form: Form<'w>,
        all: &[Form<'w>],
        path: &Path,
    ) -> Option<&'w str> {
        let key = &entry.key;
        // Known in another form: the two do not go together.
        if all.iter().any(|other| other.property(key).is_some()) {
            let excluded_by = entries
                .iter()
                .map(|other| other.key.as_str())
                .filter(|other| form.property(other).is_some())
                .find(|other| {
                    !all.iter()
                        .any(|form| form.property(other).is_some() && form.property(key).is_some())
                });
            if let Some(other) = excluded_by {
                let message = format!("{path}: `{key}` does not go together with `{other}`");
                self.found.add(&entry.key_place, message);
                return None;
            }
        }
        let known: BTreeSet<&str> = all.iter().flat_map(|form| form.keys()).collect();
        let meant = nearest(key, known.iter().copied());
        let guess = did_you_mean(meant);
        let added = self.found.add(
            &entry.key_place,
            format!("{path} has no key `{key}`{guess}"),
        );
        if known.is_empty() {
            added.help("it takes no keys");
        } else {
            added.help(format!("known here: {}", one_of(known)));
        }
        meant
    }

    fn wrong_kind(
        &mut self,
        at: &Range<usize>,
        is: &str,
        forms: &[Form<'w>],
        path: &Path,
    ) -> Added<'_> {
        let message = format!("{path} is {is}, expected {}", expected(forms));
        self.found.add(at, message)
    }
}

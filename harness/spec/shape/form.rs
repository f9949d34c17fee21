//! The ways in which the JSON Schema lets a value be written, and how to say them.
//!
//! This knows the part of JSON Schema that `schema` produces, no more.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::mistake::one_of;
use super::super::yaml::Entry;

/// More keys than this say less.
const MAX_KEYS_SAID: usize = 5;

/// One way in which a value may be written: a schema without choices in it.
#[derive(Clone, Copy)]
pub(super) struct Form<'w>(pub(super) &'w Map<String, Value>);

impl<'w> Form<'w> {
    pub(super) fn types(self) -> impl Iterator<Item = &'w str> + use<'w> {
        let types = match self.0.get("type") {
            Some(Value::Array(types)) => types.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        types.iter().filter_map(Value::as_str)
    }

    /// No rule at all, as for a tool's arguments.
    pub(super) fn is_anything(self) -> bool {
        !["type", "const", "enum"]
            .iter()
            .any(|key| self.0.contains_key(*key))
    }

    pub(super) fn is_mapping(self) -> bool {
        self.types().any(|name| name == "object")
    }

    /// Text, for which a bare number is as good.
    pub(super) fn is_as_written(self) -> bool {
        self.types().any(|name| name == "string") && self.types().any(|name| name == "number")
    }

    /// A day of the calendar, of which a pattern does not tell that it exists.
    pub(super) fn is_date(self) -> bool {
        self.0.get("format").and_then(Value::as_str) == Some("date")
    }

    pub(super) fn items(self) -> Option<&'w Value> {
        self.types().find(|name| *name == "array")?;
        self.0.get("items")
    }

    /// A list that must not be empty says so with `minItems: 1`.
    pub(super) fn least_items(self) -> usize {
        usize::from(self.0.contains_key("minItems"))
    }

    pub(super) fn description(self) -> &'w str {
        let description = self.0.get("description").and_then(Value::as_str);
        first_line(description.unwrap_or_default())
    }

    pub(super) fn constants(self) -> impl Iterator<Item = &'w Value> + use<'w> {
        let listed = self.0.get("enum").and_then(Value::as_array);
        self.0
            .get("const")
            .into_iter()
            .chain(listed.into_iter().flatten())
    }

    pub(super) fn words(self) -> impl Iterator<Item = &'w str> + use<'w> {
        self.constants().filter_map(Value::as_str)
    }

    pub(super) fn has_word(self, value: &Value) -> bool {
        self.constants().any(|constant| constant == value)
    }

    /// Whether a scalar is of the right kind, where any of that kind will do.
    pub(super) fn takes(self, value: &Value) -> bool {
        self.constants().next().is_none()
            && self.types().any(|name| match name {
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                "null" => value.is_null(),
                _ => false,
            })
    }

    /// How a text of this form is written.
    pub(super) fn examples(self) -> Option<String> {
        let examples = self.0.get("examples")?.as_array()?;
        Some(one_of(examples.iter().filter_map(Value::as_str)))
    }

    pub(super) fn keys(self) -> impl Iterator<Item = &'w str> + use<'w> {
        let properties = self.0.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
    }

    pub(super) fn property(self, key: &str) -> Option<&'w Value> {
        self.0.get("properties")?.get(key)
    }

    /// The schema of the keys that are not named, where there may be some.
    pub(super) fn any_key(self) -> Option<&'w Value> {
        self.0
            .get("additionalProperties")
            .filter(|schema| **schema != Value::Bool(false))
    }

    pub(super) fn required(self) -> impl Iterator<Item = &'w str> + use<'w> {
        let listed = self.0.get("required").and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The form that was most likely meant: it knows most of the keys, and misses few.
    pub(super) fn best(forms: &[Self], entries: &[Entry]) -> Option<Self> {
        let score = |form: Self| {
            let has = |key: &str| entries.iter().any(|entry| entry.key == key);
            let named = entries
                .iter()
                .filter(|entry| form.property(&entry.key).is_some())
                .count();
            let complete = form.required().all(has);
            // Of two keys that do not go together, the later one is the mistake.
            let first = entries
                .iter()
                .position(|entry| form.property(&entry.key).is_some());
            (
                named,
                complete,
                Reverse(first.unwrap_or(usize::MAX)),
                form.keys().count(),
            )
        };
        forms.iter().copied().max_by_key(|form| score(*form))
    }
}

/// The ways in which a value may be written, references followed and choices flattened.
pub(super) fn forms<'w>(root: &'w Value, schema: &'w Value) -> Vec<Form<'w>> {
    static ANYTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let Value::Object(object) = schema else {
        return vec![Form(&ANYTHING)];
    };
    if let Some(target) = reference(root, object) {
        return forms(root, target);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = object.get(choice) {
            return choices
                .iter()
                .flat_map(|choice| forms(root, choice))
                .collect();
        }
    }
    vec![Form(object)]
}

pub(super) fn reference<'w>(root: &'w Value, object: &Map<String, Value>) -> Option<&'w Value> {
    let pointer = object.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// What the words of this schema are: `crash point`. A choice that includes one such list takes its noun.
pub(super) fn noun<'w>(root: &'w Value, schema: &'w Value) -> Option<&'w str> {
    let object = schema.as_object()?;
    if let Some(target) = reference(root, object) {
        return noun(root, target);
    }
    let title = object.get("title").and_then(Value::as_str);
    title.or_else(|| {
        let choices = object.get("anyOf").or_else(|| object.get("oneOf"))?;
        choices
            .as_array()?
            .iter()
            .find_map(|choice| noun(root, choice))
    })
}

pub(super) fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

/// What may stand here, in words.
pub(super) fn expected(forms: &[Form<'_>]) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut say = |what: String| {
        if !said.contains(&what) {
            said.push(what);
        }
    };
    for form in forms {
        for constant in form.constants() {
            say(format!(
                "`{}`",
                constant
                    .as_str()
                    .map_or_else(|| constant.to_string(), str::to_owned)
            ));
        }
        if form.constants().next().is_some() {
            continue;
        }
        if form.is_as_written() {
            say("text".to_owned());
            continue;
        }
        for name in form.types() {
            say(match name {
                "string" => match form.0.get("title").and_then(Value::as_str) {
                    Some(noun) => format!("{} {noun}", article(noun)),
                    None => "text".to_owned(),
                },
                "integer" => "a whole number".to_owned(),
                "number" => "a number".to_owned(),
                "boolean" => "`true` or `false`".to_owned(),
                "array" => "a list".to_owned(),
                _ => continue,
            });
        }
    }
    let mappings: Vec<&Form<'_>> = forms.iter().filter(|form| form.is_mapping()).collect();
    if !mappings.is_empty() {
        let keys: BTreeSet<&str> = mappings
            .iter()
            .flat_map(|form| match form.required().collect::<Vec<_>>() {
                required if required.is_empty() => form.keys().collect(),
                required => required,
            })
            .collect();
        say(if keys.is_empty() || keys.len() > MAX_KEYS_SAID {
            "a mapping".to_owned()
        } else {
            format!("a mapping with {}", one_of(keys))
        });
    }
    match said.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

//! The JSON Schema of the files that people write, made from the types that read them.
//!
//! Editors show it, and `shape` checks every file against it, so that no key is written down twice.

use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::model::Drill;

/// The schema of the drill file, as `cargo drill schema` prints it.
pub fn schema() -> Value {
    SCHEMA.clone()
}

pub(super) static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| generate::<Drill>("A cargo-drill drill file"));

/// The schema of the files that are read into a `T`.
pub(crate) fn generate<T: JsonSchema>(title: &str) -> Value {
    let generated = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<T>();
    let mut schema = generated.to_value();
    schema["title"] = Value::from(title);
    tidy(&mut schema);
    schema
}

/// An optional key is left out, never written as `null`: schemars offers both. And every integer has its range.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            // What the types cannot hold is out of range, for editors as well.
            if let Some((least, most)) = object.get("format").and_then(range_of) {
                object.entry("minimum").or_insert(least.into());
                object.entry("maximum").or_insert(most.into());
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(forms)) = object.get_mut("anyOf") {
                forms.retain(|form| form.get("type").is_none_or(|name| name != "null"));
                if let [Value::Object(only)] = forms.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            object.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn range_of(format: &Value) -> Option<(i64, i64)> {
    match format.as_str()? {
        "int32" => Some((i32::MIN.into(), i32::MAX.into())),
        "uint32" => Some((0, u32::MAX.into())),
        _ => None,
    }
}

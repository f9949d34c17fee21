//! An in-toto Statement v1: what is stated, and of which artifacts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const TYPE: &str = "https://in-toto.io/Statement/v1";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    pub subject: Vec<ResourceDescriptor>,
    pub predicate_type: String,
    pub predicate: Value,
}

/// An artifact: by name, by digest, or both.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ResourceDescriptor {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// In hex, by algorithm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

impl Statement {
    pub fn new(predicate_type: &str, subject: Vec<ResourceDescriptor>, predicate: Value) -> Self {
        Self {
            kind: TYPE.to_owned(),
            subject,
            predicate_type: predicate_type.to_owned(),
            predicate,
        }
    }

    /// It is a Statement of the version that is read here.
    pub fn is_known(&self) -> bool {
        self.kind == TYPE
    }
}

impl ResourceDescriptor {
    pub fn of_sha256(name: &str, sha256: &str) -> Self {
        Self {
            name: name.to_owned(),
            digest: [("sha256".to_owned(), sha256.to_owned())].into(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.annotations.insert(key.to_owned(), value);
        self
    }

    pub fn sha256(&self) -> Option<&str> {
        self.digest.get("sha256").map(String::as_str)
    }
}

//! Where a trial is, as templates know it.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::Surroundings;
use crate::spec::Drill;

/// What templates know of the trial's place, whatever the session.
pub(super) fn place(
    surroundings: &Surroundings,
    drill: &Drill,
    work: &Path,
    port: u16,
) -> Map<String, Value> {
    let shown = |path: &Path| json!(path.display().to_string());
    let mut variables = Map::new();
    variables.insert("workdir".to_owned(), shown(work));
    variables.insert("root".to_owned(), shown(&surroundings.root));
    if let Some(fixture) = &surroundings.fixture {
        variables.insert("fixture".to_owned(), shown(fixture));
    }
    variables.insert("remote".to_owned(), json!({ "url": url(port) }));
    if !drill.redact.is_empty() {
        let set = |name: &String| Some((name.clone(), Value::String(std::env::var(name).ok()?)));
        let env: Map<String, Value> = drill.redact.iter().filter_map(set).collect();
        variables.insert("env".to_owned(), Value::Object(env));
    }
    variables
}

/// Of something that listens inside the cell.
pub(super) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

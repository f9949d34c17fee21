//! Where a trial is, as templates know it.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::Surroundings;

/// What templates know of the trial's place, whatever the session.
pub(super) fn place(surroundings: &Surroundings, work: &Path, port: u16) -> Map<String, Value> {
    let shown = |path: &Path| json!(path.display().to_string());
    let mut variables = Map::new();
    variables.insert("workdir".to_owned(), shown(work));
    variables.insert("root".to_owned(), shown(&surroundings.root));
    if let Some(fixture) = &surroundings.fixture {
        variables.insert("fixture".to_owned(), shown(fixture));
    }
    variables.insert("remote".to_owned(), json!({ "url": url(port) }));
    variables
}

/// Of something that listens inside the cell.
pub(super) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

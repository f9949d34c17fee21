//! What a trial needs of the host's folders for temporary files: its drill and tool, and what the drill names.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Surroundings;
use crate::cell::Needs;
use crate::spec::Drill;

/// Where one path ends and the next begins: `--config=/tmp/a`, `/tmp/a:/tmp/b`.
const BETWEEN: [char; 8] = [':', ';', ',', '=', '"', '\'', '(', ')'];

pub(super) fn needs(drill: &Drill, surroundings: &Surroundings) -> Needs {
    let mut paths: Vec<PathBuf> = surroundings.fixture.iter().cloned().collect();
    paths.extend(std::env::current_exe().ok());
    if let Some(path) = std::env::var_os("PATH") {
        paths.extend(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
    }
    if let Some(cwd) = &drill.server.cwd {
        paths.push(surroundings.drill_folder.join(cwd));
    }
    // A drill is written as JSON before this; one that cannot be was refused there.
    let drill = serde_json::to_value(drill).unwrap_or_default();
    name_paths(&drill, &surroundings.root, &mut paths);
    paths.sort();
    paths.dedup();
    Needs {
        trees: vec![surroundings.root.clone(), surroundings.drill_folder.clone()],
        paths,
    }
}

/// Adds the absolute paths that are named in any text of a drill.
fn name_paths(value: &Value, root: &Path, paths: &mut Vec<PathBuf>) {
    match value {
        Value::String(text) => paths.extend(named_in(text, root)),
        Value::Array(items) => items.iter().for_each(|item| name_paths(item, root, paths)),
        Value::Object(fields) => {
            for field in fields.values() {
                name_paths(field, root, paths);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn named_in(text: &str, root: &Path) -> Vec<PathBuf> {
    let root = root.display().to_string();
    let text = text.replace("{{ root }}", &root).replace("{{root}}", &root);
    text.split(|c: char| c.is_whitespace() || BETWEEN.contains(&c))
        // What a template adds is not known before the trial.
        .map(|word| word.split("{{").next().unwrap_or_default())
        .filter(|word| word.len() > 1 && word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_in_a_text_are_found_wherever_they_stand() {
        let of = |text: &str| -> Vec<String> {
            let paths = named_in(text, Path::new("/tmp/project"));
            let shown = |path: PathBuf| path.display().to_string();
            paths.into_iter().map(shown).collect()
        };
        assert_eq!(of("/tmp/a/server.py"), ["/tmp/a/server.py"]);
        assert_eq!(of("--config=/tmp/a --log '/tmp/b'"), ["/tmp/a", "/tmp/b"]);
        assert_eq!(of("/tmp/a:{{ root }}/lib"), ["/tmp/a", "/tmp/project/lib"]);
        assert_eq!(of("{{ root }}/../lib"), ["/tmp/project/../lib"]);
        assert_eq!(of("/tmp/a/{{ run.id }}"), ["/tmp/a/"]);
        assert!(of("POST builds").is_empty());
        assert_eq!(of("{{ remote.url }}/builds"), Vec::<String>::new());
    }
}

//! Where in a drill's file stands what an answer may speak of: whoever is told that the drill is mistaken is told the line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::mistake;
use super::model::{Authority, Call, Drill};
use super::path::Path;
use super::yaml::Node;

/// Lines of a drill's file, by what stands there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrillPlaces {
    /// Relative to the folder that holds `drills/`.
    pub file: String,
    /// By the path of the value, as `call.tool` or `server.env.API_TOKEN`; from 1.
    pub lines: BTreeMap<String, usize>,
}

impl DrillPlaces {
    /// Of a file that has no lines.
    pub fn of_file(file: &str) -> Self {
        Self {
            file: mistake::printable(file),
            lines: BTreeMap::new(),
        }
    }

    /// `drills/deploy.yaml:10`; without the line where the file leaves the value out.
    pub fn of(&self, value: &str) -> String {
        match self.lines.get(value) {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }

    /// Where the server's command stands.
    pub fn command(&self) -> String {
        self.of("server.command[0]")
    }

    /// Takes in all that this drill has. `line` is of a place in the source.
    pub(super) fn note(&mut self, drill: &Drill, tree: &Node, line: impl Fn(usize) -> usize) {
        for path in paths(drill).into_iter().filter(|path| path.is_in(tree)) {
            let name = path.to_string();
            let name = mistake::printable(name.trim_matches('`'));
            self.lines.insert(name, line(path.key_place(tree).start));
        }
    }
}

/// What an answer may speak of.
fn paths(drill: &Drill) -> Vec<Path> {
    let mut paths = vec![Path::of(["server", "command"]).index(0)];
    let env = Path::of(["server", "env"]);
    paths.extend(drill.server.env.keys().map(|name| env.key(name)));
    tools_of(&Path::of(["call"]), &drill.call, &mut paths);
    if let Some(recover) = &drill.recover {
        let place = Path::of(["recover"]);
        paths.push(place.key("tool"));
        befores(
            &place,
            recover.before.as_deref().unwrap_or_default(),
            &mut paths,
        );
    }
    let revocation = drill.expect.revocation.ask();
    if let Some(call) = revocation.and_then(|asked| asked.call.as_ref()) {
        tools_of(
            &Path::of(["expect", "revocation", "call"]),
            call,
            &mut paths,
        );
    }
    if let Some(Authority::Bearer(_)) = &drill.authority {
        paths.push(Path::of(["authority", "bearer"]));
    }
    paths
}

fn tools_of(place: &Path, call: &Call, paths: &mut Vec<Path>) {
    paths.push(place.key("tool"));
    befores(place, &call.before, paths);
}

fn befores(place: &Path, before: &[Call], paths: &mut Vec<Path>) {
    let before_place = place.key("before");
    let each = (0..before.len()).map(|n| before_place.index(n).key("tool"));
    paths.extend(each);
}

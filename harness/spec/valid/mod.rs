//! Does a well-written drill make sense?
//!
//! Every check here is about a drill that `shape` found well written: names that must exist, keys that exclude each
//! other, expectations that could never be asked. What can never be asked would look held, so it is a mistake.

mod crash;
mod expect;
mod remote;
mod route;
mod server;
mod variables;

use super::mistake::{Added, Found};
use super::model::{Drill, Route};
use super::path::Path;
use super::yaml::Node;

/// Adds what does not make sense to `found`.
pub(super) fn check(drill: &Drill, tree: &Node, stem: &str, found: &mut Found<'_>) {
    let mut check = Check { drill, tree, found };
    check.name(stem);
    check.server();
    check.remote();
    check.crashes();
    check.expectations();
    check.known();
    check.variables();
}

struct Check<'c, 's> {
    drill: &'c Drill,
    tree: &'c Node,
    found: &'c mut Found<'s>,
}

impl<'c> Check<'c, '_> {
    /// A mistake in a value.
    fn value(&mut self, path: &Path, message: impl AsRef<str>) -> Added<'_> {
        self.found
            .add(&path.place(self.tree), sentence(path, message.as_ref()))
    }

    /// A mistake about a key: that it is there at all.
    fn key(&mut self, path: &Path, message: impl AsRef<str>) -> Added<'_> {
        self.found
            .add(&path.key_place(self.tree), sentence(path, message.as_ref()))
    }

    /// Whether the file itself says it, rather than a default.
    fn says(&self, path: &Path) -> bool {
        path.is_in(self.tree)
    }

    fn routes(&self) -> &'c [Route] {
        self.drill
            .remote
            .as_ref()
            .map_or(&[], |remote| &remote.routes)
    }

    fn has_effect(&self) -> bool {
        self.routes().iter().any(|route| route.effect.is_some())
    }

    /// Trials are found by the name of their file, so the two must be one.
    fn name(&mut self, stem: &str) {
        let name = &self.drill.drill;
        if name != stem {
            let message = format!("`{name}` is not the stem of the file's name, `{stem}`");
            self.value(&Path::of(["drill"]), message);
        }
    }
}

fn sentence(path: &Path, message: &str) -> String {
    format!("{path}: {message}")
}

//! Where in a drill a value stands: `crash[1].at`.
//!
//! One type says it to people and finds it in the tree.

use std::fmt;
use std::ops::Range;

use super::yaml::{Data, Node};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    /// The path of the keys, from the top of the file.
    pub fn of<const N: usize>(keys: [&str; N]) -> Self {
        Self(
            keys.iter()
                .map(|key| Step::Key((*key).to_owned()))
                .collect(),
        )
    }

    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// What to point at for the value: itself, or its key where it is more than a word. Where the file leaves the
    /// value out, the nearest thing around it.
    pub fn place(&self, tree: &Node) -> Range<usize> {
        self.walk(tree).1
    }

    /// What to point at for the key.
    pub fn key_place(&self, tree: &Node) -> Range<usize> {
        if let Some((Step::Key(key), around)) = self.0.split_last()
            && let Some(node) = Self(around.to_vec()).walk(tree).0
            && let Some(entry) = node.entry(key)
        {
            return entry.key_place.clone();
        }
        self.place(tree)
    }

    /// Whether the file names it.
    pub fn is_in(&self, tree: &Node) -> bool {
        self.walk(tree).0.is_some()
    }

    fn walk<'t>(&self, tree: &'t Node) -> (Option<&'t Node>, Range<usize>) {
        let mut node = tree;
        let mut place = tree.place.clone();
        for step in &self.0 {
            let next = match (step, &node.data) {
                (Step::Key(key), Data::Map(_)) => node
                    .entry(key)
                    .map(|entry| (&entry.value, entry.value_place().clone())),
                (Step::Index(index), Data::List(items)) => {
                    items.get(*index).map(|item| (item, item.place.clone()))
                }
                _ => None,
            };
            match next {
                Some((below, at)) => {
                    node = below;
                    place = at;
                }
                None => return (None, place),
            }
        }
        (Some(node), place)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the drill");
        }
        f.write_str("`")?;
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if n == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        f.write_str("`")
    }
}

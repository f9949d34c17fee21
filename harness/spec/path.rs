//! Where in a file a value stands: `crash[1].at`.
//!
//! One type says it to people and finds it in the tree.

use std::fmt;
use std::ops::Range;

use super::yaml::{Data, Node};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// How the whole file is spoken of.
    whole: &'static str,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    /// The path of the keys, from the top of the file.
    pub fn of<const N: usize>(keys: [&str; N]) -> Self {
        let keys = keys.iter().map(|key| Step::Key((*key).to_owned()));
        Self {
            whole: "the file",
            steps: keys.collect(),
        }
    }

    /// The whole file, which a sentence speaks of in these words.
    pub fn whole(words: &'static str) -> Self {
        Self {
            whole: words,
            steps: Vec::new(),
        }
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
        let mut path = self.clone();
        path.steps.push(step);
        path
    }

    /// What to point at for the value: itself, or its key where it is more than a word. Where the file leaves the
    /// value out, the nearest thing around it.
    pub fn place(&self, tree: &Node) -> Range<usize> {
        walk(&self.steps, tree).1
    }

    /// What to point at for the key.
    pub fn key_place(&self, tree: &Node) -> Range<usize> {
        if let Some((Step::Key(key), around)) = self.steps.split_last()
            && let Some(node) = walk(around, tree).0
            && let Some(entry) = node.entry(key)
        {
            return entry.key_place.clone();
        }
        self.place(tree)
    }

    /// Whether the file names it.
    pub fn is_in(&self, tree: &Node) -> bool {
        walk(&self.steps, tree).0.is_some()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str(self.whole);
        }
        f.write_str("`")?;
        for (n, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key(key) if n == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        f.write_str("`")
    }
}

/// The value, where the file has it, and what to point at.
fn walk<'t>(steps: &[Step], tree: &'t Node) -> (Option<&'t Node>, Range<usize>) {
    let mut node = tree;
    let mut place = tree.place.clone();
    for step in steps {
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

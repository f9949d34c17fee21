//! Does a well-written drill make sense?

use super::mistake::Found;
use super::model::Drill;
use super::yaml::Node;

pub(super) fn check(_drill: &Drill, _tree: &Node, _stem: &str, _found: &mut Found<'_>) {}

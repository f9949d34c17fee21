//! The drill file: parsed, defaulted, validated. Knows no process.
//!
//! ```text
//! text -> yaml (a tree with places) -> shape (keys, kinds, words) -> model (types) -> valid (does it make sense)
//!                                        ^ schema, made from model
//! ```

#![forbid(unsafe_code)]

mod crash_forms;
mod file;
mod forms;
mod mistake;
mod model;
mod path;
mod schema;
mod shape;
mod template;
mod valid;
mod yaml;

pub use file::{Checked, DrillFile, PlannedTrial, check, find, find_named, load};
pub use mistake::{Mistake, Mistakes, Place};
pub use model::*;
pub use schema::schema;
pub use template::{TemplateError, Templates};

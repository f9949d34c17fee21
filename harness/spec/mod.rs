//! The drill file: parsed, defaulted, validated. Knows no process.
//!
//! ```text
//! text -> yaml (a tree with places) -> shape (keys, kinds, words) -> model (types) -> valid (does it make sense)
//!                                        ^ schema, made from model
//! ```
//!
//! Other files that people write are read the same way: see `document`.

#![forbid(unsafe_code)]

mod crash_forms;
mod document;
mod file;
mod forms;
mod mistake;
mod model;
mod path;
mod places;
mod schema;
mod shape;
mod template;
mod valid;
mod yaml;

pub use file::{Checked, DrillFile, PlannedTrial, check, find, find_named, load};
pub use mistake::{Mistake, Mistakes, Place};
pub use model::*;
pub use places::DrillPlaces;
pub use schema::schema;
pub use template::{TemplateError, Templates};

pub(crate) use document::{Kind, text_of};
pub(crate) use mistake::{did_you_mean, nearest};
pub(crate) use path::Path as At;
pub(crate) use schema::generate as schema_of;

//! The drill file: parsed, defaulted, validated. Knows no process.

mod forms;
mod model;
mod template;

pub use model::*;
pub use template::{TemplateError, Templates};

//! Templates in drill files: minijinja, strict. A name that does not resolve is an error, never an empty string.

use std::collections::BTreeSet;

use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;
use serde_json::Value;

/// A template that did not parse, or a name that did not resolve.
#[derive(Debug, thiserror::Error)]
#[error("template `{template}`: {because}")]
pub struct TemplateError {
    pub template: String,
    pub because: String,
}

/// The template engine, with the rules that hold everywhere in a drill.
#[derive(Debug, Clone)]
pub struct Templates {
    environment: Environment<'static>,
}

impl Default for Templates {
    fn default() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        Self { environment }
    }
}

impl Templates {
    /// The names that a template takes from outside, with their fields: `run.id`.
    pub fn names(&self, template: &str) -> Result<BTreeSet<String>, TemplateError> {
        let parsed = self
            .environment
            .template_from_str(template)
            .map_err(|error| failed(template, &error))?;
        self.calls_exist(template)?;
        let globals: BTreeSet<&str> = self.environment.globals().map(|(name, _)| name).collect();
        Ok(parsed
            .undeclared_variables(true)
            .into_iter()
            .filter(|name| !globals.contains(name.as_str()))
            .collect())
    }

    /// minijinja looks up filters, tests and functions only when it renders, so this renders without any variables
    /// and reports nothing but those. A template with statements is left alone, since a loop could take for ever.
    fn calls_exist(&self, template: &str) -> Result<(), TemplateError> {
        if template.contains("{%") {
            return Ok(());
        }
        let mut lenient = self.environment.clone();
        lenient.set_undefined_behavior(UndefinedBehavior::Chainable);
        match lenient.render_str(template, ()) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction
                ) =>
            {
                Err(failed(template, &error))
            }
            _ => Ok(()),
        }
    }

    /// Renders a string as text.
    pub fn text(&self, template: &str, variables: impl Serialize) -> Result<String, TemplateError> {
        if !template.contains("{{") && !template.contains("{%") && !template.contains("{#") {
            return Ok(template.to_owned());
        }
        self.environment
            .render_str(template, minijinja::value::Serde(variables))
            .map_err(|error| failed(template, &error))
    }

    /// Renders every string of a JSON value. A string that is one expression keeps the type of its value.
    pub fn value(&self, template: &Value, variables: &Value) -> Result<Value, TemplateError> {
        Ok(match template {
            Value::String(text) => match one_expression(text) {
                Some(expression) => {
                    let compiled = self
                        .environment
                        .compile_expression(expression)
                        .map_err(|error| failed(text, &error))?;
                    let value = compiled
                        .eval(minijinja::value::Serde(variables))
                        .map_err(|error| failed(text, &error))?;
                    if value.is_undefined() {
                        return Err(TemplateError {
                            template: text.clone(),
                            because: "undefined value".to_owned(),
                        });
                    }
                    serde_json::to_value(value).map_err(|error| TemplateError {
                        template: text.clone(),
                        because: error.to_string(),
                    })?
                }
                None => Value::String(self.text(text, variables)?),
            },
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| self.value(item, variables))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, field)| Ok((key.clone(), self.value(field, variables)?)))
                    .collect::<Result<_, TemplateError>>()?,
            ),
            other => other.clone(),
        })
    }
}

/// The inside of a string that is `{{ one expression }}` and nothing else.
fn one_expression(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inside.contains("{{") && !inside.contains("}}")).then_some(inside.trim())
}

fn failed(template: &str, error: &minijinja::Error) -> TemplateError {
    TemplateError {
        template: template.to_owned(),
        because: error
            .detail()
            .map_or_else(|| error.kind().to_string(), ToOwned::to_owned),
    }
}

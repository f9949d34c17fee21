//! Values that the drill wants to be kept out of the bundle: of variables that `redact` names.
//!
//! They are no credentials that the drill minted, so where they turn up says nothing of the server. They are written by
//! their names, and that is all.

use serde_json::Value;

use super::TrialError;
use crate::journal::Secrets;
use crate::spec::Drill;

/// A shorter value stands in many a text by chance, in bytes.
const SHORTEST: usize = 4;

/// Everything that `redact` names and that is known before there is a session.
pub(super) fn keep_all_out(drill: &Drill, secrets: &Secrets) -> Result<(), TrialError> {
    let text = serde_json::to_string(drill).unwrap_or_default();
    for name in &drill.redact {
        let own = drill.server.env.get(name);
        match std::env::var(name) {
            Ok(value) => keep_out(secrets, name, &value)?,
            Err(_) if text.contains(&format!("env.{name}")) => {
                return Err(TrialError::Prepare(format!(
                    "the drill takes the variable {name} from the environment, and it is not set there"
                )));
            }
            Err(_) => {}
        }
        // A template is known once it is rendered, for each session.
        if let Some(text) = own.filter(|text| !text.contains("{{")) {
            keep_out(secrets, name, text)?;
        }
    }
    Ok(())
}

pub(super) fn keep_out(secrets: &Secrets, name: &str, value: &str) -> Result<(), TrialError> {
    match value.len() {
        0 => Ok(()),
        length if length < SHORTEST => Err(TrialError::Prepare(format!(
            "the value of {name}, which `redact` names, has {length} bytes, and text as short as that stands everywhere"
        ))),
        _ => {
            secrets.redact(&format!("value of {name}"), value);
            Ok(())
        }
    }
}

/// The drill as the bundle has it.
pub(super) fn without_values(drill: &Drill, secrets: &Secrets) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(drill)?;
    if !drill.redact.is_empty() {
        conceal(&mut value, secrets);
    }
    Ok(value)
}

fn conceal(value: &mut Value, secrets: &Secrets) {
    match value {
        Value::String(text) => *text = secrets.conceal(text),
        Value::Array(items) => items.iter_mut().for_each(|item| conceal(item, secrets)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| conceal(field, secrets)),
        _ => {}
    }
}

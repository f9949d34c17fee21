//! The mocked external API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::forms;

/// The mocked external API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// The first route that matches answers; anything else gets 404.
    pub routes: Vec<Route>,
}

/// What the remote does with one kind of request. At most one of `effect`, `find`, `cancel`, `identity` and
/// `approval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// `METHOD /path`; `{name}` captures a segment.
    pub on: String,
    /// Applying this route makes one effect of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// Where the idempotency key of an effect is. Absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Lookup>,
    /// Replies with the effects of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<String>,
    /// Cancels an effect of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// Which effect: `find` compares keys, `cancel` ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Lookup>,
    /// Read only, safe to probe with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub identity: bool,
    /// Asks for a decision: may this call be made? `decision.approved` is what was decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// What the route answers.
    #[serde(default)]
    pub reply: Reply,
}

/// Where in a request a value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lookup {
    /// A header.
    Header(String),
    /// A JSON pointer into the body.
    Json(#[schemars(with = "forms::Pointer")] String),
    /// A query parameter.
    Query(String),
    /// A capture of the path.
    Path(String),
}

/// What a route answers. Strings are templates; a string that is one expression keeps the type of its value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Default: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub status: Option<u16>,
    /// Templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, forms::AsWritten>")]
    pub headers: BTreeMap<String, String>,
    /// The body as JSON, `null` included.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "forms::present"
    )]
    pub json: Option<Value>,
    /// The body as text; a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

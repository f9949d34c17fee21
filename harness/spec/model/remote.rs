//! The mocked external API, and who issues its credential.

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

/// What the remote does with one kind of request. At most one of `effect`, `find`, `cancel` and `identity`.
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

/// Who issues and revokes the credential of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Authority {
    /// The header that carries `Bearer <token>`. A refused request gets 401.
    pub bearer: String,
    /// A route that gives the bearer a second credential of the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
}

/// `POST /token` and the like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// `METHOD /path`.
    pub on: String,
    /// True: the remote would still take the second credential after the run was revoked.
    #[serde(default)]
    pub outlives_run: bool,
    /// `authority.derived` is the second credential.
    #[serde(default)]
    pub reply: Reply,
}

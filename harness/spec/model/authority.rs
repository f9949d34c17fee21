//! Who issues and revokes the credential of a run, in the forms that real deployments have.
//!
//! | form | where the credential is | how it is revoked |
//! |---|---|---|
//! | `bearer` | the server holds it | at the remote, at once |
//! | `oauth` | the server holds an access token and a refresh token | at the authorisation server (RFC 7009) |
//! | `gateway` | a gateway holds it, and performs the call itself | at the gateway, by run |
//! | `command` | as that gateway has it | by a command that the drill names |

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::forms;
use super::{Reply, Span};

/// Who issues and revokes the credential of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Authority {
    Bearer(Bearer),
    Oauth(OauthForm),
    Gateway(GatewayForm),
    Command(CommandForm),
}

/// A credential for each run that the server holds itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
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

/// Tokens from an authorisation server of the drill's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OauthForm {
    /// Tokens from an authorisation server of the drill's own, which answers below `{{ authority.issuer }}`.
    pub oauth: Oauth,
}

/// An authorisation server with refresh (RFC 6749), revocation (RFC 7009), introspection (RFC 7662) and keys (RFC 7517).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oauth {
    /// What an access token looks like.
    #[serde(default)]
    pub tokens: Tokens,
    /// How the remote checks an access token.
    #[serde(default)]
    pub resource: Resource,
    /// How long an access token is good for.
    #[serde(default = "Oauth::default_lifetime")]
    pub lifetime: Span,
    /// True: a refresh token still gives new access tokens after the run was revoked, and the remote takes them.
    #[serde(default)]
    pub refresh_outlives_run: bool,
    /// The header that carries `Bearer <token>`. A refused request gets 401.
    #[serde(default = "authorization")]
    pub header: String,
}

impl Oauth {
    fn default_lifetime() -> Span {
        Span(Duration::from_secs(300))
    }
}

/// What an access token looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "kind of token")]
pub enum Tokens {
    /// Random characters: only the authorisation server can tell what they are good for.
    #[default]
    Opaque,
    /// A JWT (RFC 9068) signed with Ed25519, whose public key is at `{{ authority.issuer }}/jwks.json`.
    Jwt,
}

/// How the remote checks an access token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "way to check a token")]
pub enum Resource {
    /// Asks the authorisation server: what was revoked is refused at once.
    #[default]
    Introspects,
    /// Checks signature and expiry alone: what was revoked is taken until it expires.
    ChecksSignature,
}

/// The gateway that ships with the drill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewayForm {
    /// `drill-fixture gateway`: it holds the key, approves by run, performs each call itself, and keeps a log.
    pub gateway: Gateway,
}

/// The shipped gateway. `authority.socket` is where it listens, `authority.log` its log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// The path of the remote at which the gateway asks for a decision before each write, as in `/approvals`. Absent: the
    /// approval of the run is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<String>,
}

/// An authority that is driven by commands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandForm {
    /// The commands of a real gateway. They run inside the cell, as the operator's.
    pub command: Commands,
}

/// The commands of an authority. Each is a list of templates, run without a shell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Commands {
    /// Started before the first session and kept running to the end of the trial. Ready when it has written a line to
    /// stdout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub serve: Vec<String>,
    /// Run before each session of a run. What it writes to stdout is `authority.token`, if it writes anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub issue: Vec<String>,
    /// Revokes the run `{{ run.id }}`. From its success (exit status 0) on nothing may get through.
    #[schemars(length(min = 1))]
    pub revoke: Vec<String>,
    /// Writes the refusals of the run `{{ run.id }}` to stdout, a JSON object on each line, with `call` and `target`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub refusals: Vec<String>,
    /// Checks the authority's own journal: exit status 0 where it is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub verify: Vec<String>,
    /// Variables of these commands, besides PATH, LANG, HOME and TMPDIR. `authority.key` is a key that the remote
    /// takes, `authority.wider_key` one that may do more and is for no run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, forms::AsWritten>")]
    pub env: BTreeMap<String, String>,
    /// For each command, and for `serve` to be ready.
    #[serde(default = "Commands::default_within")]
    pub within: Span,
    /// The header of the remote that carries `Bearer <authority.key>`, or what `issue` gave.
    #[serde(default = "authorization")]
    pub header: String,
}

impl Commands {
    fn default_within() -> Span {
        Span(Duration::from_secs(10))
    }
}

/// What is revoked, each with a life of its own.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "thing to revoke")]
pub enum Revocable {
    /// The credential that the server was given, and what was refreshed with it.
    Credential,
    /// All that the run may do.
    #[default]
    Run,
    /// The remote job that came of the call, by the handle in the record.
    Job,
}

fn authorization() -> String {
    "Authorization".to_owned()
}

impl Authority {
    /// The header of the remote that carries the credential.
    pub fn header(&self) -> &str {
        match self {
            Self::Bearer(bearer) => &bearer.bearer,
            Self::Oauth(form) => &form.oauth.header,
            Self::Gateway(_) => "Authorization",
            Self::Command(form) => &form.command.header,
        }
    }

    pub fn exchange(&self) -> Option<&Exchange> {
        match self {
            Self::Bearer(bearer) => bearer.exchange.as_ref(),
            _ => None,
        }
    }

    pub fn oauth(&self) -> Option<&Oauth> {
        match self {
            Self::Oauth(form) => Some(&form.oauth),
            _ => None,
        }
    }

    /// The commands of an authority that stands outside of the remote.
    pub fn commands(&self) -> Option<Commands> {
        match self {
            Self::Gateway(form) => Some(form.gateway.commands()),
            Self::Command(form) => Some(form.command.clone()),
            Self::Bearer(_) | Self::Oauth(_) => None,
        }
    }
}

impl Gateway {
    /// Where the gateway listens, and where its log is.
    pub const SOCKET: &'static str = "{{ workdir }}/gateway.sock";
    pub const LOG: &'static str = "{{ workdir }}/gateway.jsonl";

    /// What there is to say to the shipped gateway is said as to any other.
    fn commands(&self) -> Commands {
        let say = |words: &str| -> Vec<String> {
            let words = ["{{ fixture }}", "gateway"]
                .into_iter()
                .chain(words.split_whitespace());
            words
                .map(|word| match word {
                    "SOCKET" => Self::SOCKET.to_owned(),
                    "LOG" => Self::LOG.to_owned(),
                    "RUN" => "{{ run.id }}".to_owned(),
                    "REMOTE" => "{{ remote.url }}".to_owned(),
                    "APPROVAL" => "{{ approval.id }}".to_owned(),
                    other => other.to_owned(),
                })
                .collect()
        };
        let mut serve = say("serve --socket SOCKET --upstream REMOTE --log LOG");
        if let Some(path) = &self.approvals {
            serve.extend([
                "--approvals".to_owned(),
                format!("{{{{ remote.url }}}}{path}"),
            ]);
        }
        Commands {
            serve,
            issue: say("session open RUN --socket SOCKET --approval APPROVAL --by drill"),
            revoke: say("session revoke RUN --socket SOCKET --by drill"),
            refusals: say("refusals RUN --log LOG"),
            verify: say("verify LOG"),
            env: BTreeMap::from([
                ("GATEWAY_KEY".to_owned(), "{{ authority.key }}".to_owned()),
                (
                    "GATEWAY_DEFAULT_KEY".to_owned(),
                    "{{ authority.wider_key }}".to_owned(),
                ),
            ]),
            within: Commands::default_within(),
            header: authorization(),
        }
    }
}

//! The policy file as types. The doc comments become the descriptions in the JSON Schema that editors show.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::spans::{Age, Date};
use crate::spec::Question;

/// Which questions must hold, and what counts as evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Its name, `[a-z0-9-]+`, which stands in every decision.
    #[schemars(regex(pattern = r"^[a-z0-9-]+$"))]
    pub policy: String,
    /// One sentence for the people who read the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What counts as evidence. A bundle that was changed never does.
    #[serde(default)]
    pub evidence: Terms,
    /// What must hold: at least one rule.
    #[schemars(length(min = 1))]
    pub rules: Vec<Rule>,
    /// What may be released all the same, for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<Waiver>,
}

/// What counts as evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// How long ago a run may have begun. Default: any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Age>,
    /// Public keys, in PEM or as ssh-keygen writes them, relative to this file. One of them must have signed each bundle.
    /// Default: a bundle need not be signed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub signed_by: Vec<String>,
    /// Each bundle is of a run that came to its end: nobody interrupted or killed it.
    #[serde(default)]
    pub complete: bool,
    /// All trials of a drill ran on the same build of its server. With `false` they need not have, and the decision says so.
    #[serde(default = "yes")]
    pub same_build: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            max_age: None,
            signed_by: Vec::new(),
            complete: false,
            same_build: yes(),
        }
    }
}

fn yes() -> bool {
    true
}

/// Questions that must hold, for these servers at these crash points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Drills by name, with `*` for any letters. Each must find a drill.
    #[schemars(length(min = 1))]
    pub servers: Vec<Pattern>,
    /// Crash points, or names of crashes. Each server must have been drilled at each of them. Default: wherever it was drilled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub at: Vec<At>,
    /// Each must have been asked of each server. Default: all that were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub questions: Vec<Question>,
    /// What an answer counts as that the drill lists under `known`.
    #[serde(default)]
    pub known: KnownAnswers,
}

/// What an answer counts as that the drill lists as known to be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(title = "choice of what a known answer counts as")]
pub enum KnownAnswers {
    /// As broken, which it is.
    #[default]
    Refuse,
    /// As met. The decision names it.
    Accept,
}

/// An answer that may be broken until a day, because somebody answers for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Waiver {
    /// The question that need not hold.
    pub question: Question,
    /// Drills by name, with `*` for any letters.
    pub server: Pattern,
    /// Crash points, or names of crashes. Each must need the waiver. Default: wherever it is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    pub at: Vec<At>,
    /// Why it may be released all the same.
    pub reason: String,
    /// Who answers for it.
    pub owner: String,
    /// The last day on which it counts, in UTC.
    pub until: Date,
}

/// Drills by name, with `*` for any letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pattern(pub String);

impl Pattern {
    /// Whether it finds the drill of this name.
    pub fn matches(&self, drill: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = drill.strip_prefix(first) else {
            return false;
        };
        let mut pieces: Vec<&str> = pieces.collect();
        let Some(last) = pieces.pop() else {
            return rest.is_empty();
        };
        // The leftmost place for each piece leaves the most room for the next.
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "name of a drill in the letters `a-z`, `0-9`, `-` and `*`",
            "description": "Drills by name, with `*` for any letters.",
            "type": "string",
            "pattern": "^[a-z0-9*-]+$",
            "examples": ["deploy", "server-*", "*"],
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A crash point (`idle`), the name of a crash (`reply-given`, `connection-1`), or both (`after-acceptance::reply-given`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct At(pub String);

impl At {
    /// Whether a trial of this name within its drill is meant.
    pub fn matches(&self, within: &str) -> bool {
        let named = |part: &str| {
            // A boundary that `every` found has its place in the line before its name.
            let place = part.split_once('-').filter(|(place, _)| {
                !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit())
            });
            part == self.0 || place.is_some_and(|(_, name)| name == self.0)
        };
        within == self.0 || within.split("::").any(named)
    }
}

impl JsonSchema for At {
    fn schema_name() -> Cow<'static, str> {
        "At".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "crash point",
            "description": "A crash point, the name of a crash, or both.",
            "type": "string",
            "pattern": "^[a-z0-9-]+(::[a-z0-9-]+)*$",
            "examples": ["idle", "reply-given", "after-acceptance::reply-given"],
        })
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        let finds = |pattern: &str, drill: &str| Pattern(pattern.to_owned()).matches(drill);
        assert!(finds("*", "deploy") && finds("deploy", "deploy") && finds("de*oy", "deploy"));
        assert!(finds("*-gitlab*", "server-gitlab-npx") && finds("a*b*c", "a-b-b-c"));
        assert!(!finds("deploy", "deploy-two") && !finds("*oy", "deploy-two"));
        assert!(!finds("a*b*b", "ab") && !finds("aa*aa", "aaa") && !finds("", "deploy"));
    }

    #[test]
    fn a_moment_is_found_by_its_point_by_its_name_or_by_both() {
        let finds = |at: &str, within: &str| At(at.to_owned()).matches(within);
        assert!(finds("after-acceptance", "after-acceptance"));
        assert!(finds("after-acceptance", "after-acceptance::reply-given"));
        assert!(finds("reply-given", "after-acceptance::reply-given"));
        assert!(finds(
            "after-acceptance::reply-given",
            "after-acceptance::reply-given"
        ));
        assert!(
            finds("connection-1", "every::08-connection-1") && finds("every", "every::02-idle")
        );
        assert!(!finds("acceptance", "after-acceptance") && !finds("idle", "after-result"));
        assert!(!finds("after-acceptance::reply-given", "after-acceptance"));
    }
}

//! Routes: what a request means to the remote. The first that matches wins.

use serde_json::{Map, Value};

use crate::spec::{self, Lookup};

use super::RemoteError;
use super::oauth::Endpoint;
use super::request::{Request, decoded};

/// The routes of a drill, in order; what belongs to the authority before them, so that no route hides it.
#[derive(Debug)]
pub(super) struct Routes {
    routes: Vec<Route>,
}

/// A route of the drill, ready to match.
#[derive(Debug)]
pub(super) struct Route {
    /// As the drill writes it.
    pub on: String,
    pub pattern: Pattern,
    pub role: Role,
    pub reply: spec::Reply,
}

/// What a route does besides replying.
#[derive(Debug)]
pub(super) enum Role {
    Plain,
    Identity,
    /// Gives the bearer the second credential.
    Exchange,
    /// A part of the drill's own authorisation server.
    Oauth(Endpoint),
    /// Asks for a decision.
    Approval,
    Effect {
        kind: String,
        key: Option<Lookup>,
    },
    Find {
        kind: String,
        by: Option<Lookup>,
    },
    Cancel {
        kind: String,
        by: Option<Lookup>,
    },
}

impl Routes {
    pub fn new(
        spec: &spec::Remote,
        exchange: Option<&spec::Exchange>,
        has_issuer: bool,
    ) -> Result<Self, RemoteError> {
        let exchange = exchange.map(|exchange| {
            Ok(Route {
                on: exchange.on.clone(),
                pattern: Pattern::parse(&exchange.on)?,
                role: Role::Exchange,
                reply: exchange.reply.clone(),
            })
        });
        let issuer = Endpoint::ALL.into_iter().filter(|_| has_issuer);
        let issuer = issuer.map(|endpoint| {
            Ok(Route {
                pattern: Pattern::parse(&endpoint.on())?,
                on: endpoint.on(),
                role: Role::Oauth(endpoint),
                reply: spec::Reply::default(),
            })
        });
        let routes = exchange
            .into_iter()
            .chain(issuer)
            .chain(spec.routes.iter().map(Route::new))
            .collect::<Result<_, _>>()?;
        Ok(Self { routes })
    }

    /// The first route that matches, its place in the list, and what its path captured.
    pub fn find(&self, request: &Request) -> Option<(usize, &Route, Captures)> {
        self.routes.iter().enumerate().find_map(|(index, route)| {
            let captures = route.pattern.captures(&request.method, &request.path)?;
            Some((index, route, captures))
        })
    }

    /// The route that may be asked who the bearer is.
    pub fn identity(&self) -> Option<&Route> {
        self.routes
            .iter()
            .find(|route| matches!(route.role, Role::Identity))
    }

    /// The route that cancels an effect, and where it says which.
    pub fn cancel(&self) -> Option<(&Route, &Lookup)> {
        self.routes.iter().find_map(|route| match &route.role {
            Role::Cancel { by, .. } => Some((route, by.as_ref()?)),
            _ => None,
        })
    }

    pub fn len(&self) -> usize {
        self.routes.len()
    }
}

impl Route {
    fn new(spec: &spec::Route) -> Result<Self, RemoteError> {
        let mut roles = Vec::new();
        if let Some(kind) = spec.effect.clone() {
            let key = spec.key.clone();
            roles.push(Role::Effect { kind, key });
        }
        if let Some(kind) = spec.find.clone() {
            let by = spec.by.clone();
            roles.push(Role::Find { kind, by });
        }
        if let Some(kind) = spec.cancel.clone() {
            let by = spec.by.clone();
            roles.push(Role::Cancel { kind, by });
        }
        if spec.identity {
            roles.push(Role::Identity);
        }
        if spec.approval {
            roles.push(Role::Approval);
        }
        if roles.len() > 1 {
            return Err(RemoteError::Route {
                on: spec.on.clone(),
                because: "a route is at most one of `effect`, `find`, `cancel`, `identity` and `approval`",
            });
        }
        Ok(Self {
            on: spec.on.clone(),
            pattern: Pattern::parse(&spec.on)?,
            role: roles.pop().unwrap_or(Role::Plain),
            reply: spec.reply.clone(),
        })
    }
}

/// `METHOD /path/{capture}`. The query plays no part.
#[derive(Debug)]
pub(super) struct Pattern {
    method: String,
    segments: Vec<Segment>,
}

/// One segment of a path: text, or a capture with what stands before and after it (`{name}:cancel`).
#[derive(Debug)]
enum Segment {
    Literal(String),
    Capture {
        before: String,
        name: String,
        after: String,
    },
}

impl Pattern {
    fn parse(on: &str) -> Result<Self, RemoteError> {
        let wrong = |because| RemoteError::Route {
            on: on.to_owned(),
            because,
        };
        let (method, path) = on
            .trim()
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong("write it as `METHOD /path`"))?;
        let path = path
            .trim()
            .strip_prefix('/')
            .ok_or_else(|| wrong("the path begins with `/`"))?;
        if path.contains('?') {
            return Err(wrong(
                "a query plays no part in matching; name it under `key` or `by`",
            ));
        }
        let segments = path
            .split('/')
            .map(|segment| Segment::parse(segment).map_err(wrong))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            method: method.to_ascii_uppercase(),
            segments,
        })
    }

    /// What the path captured, if it matches. The path is taken apart before it is decoded: `%2F` parts nothing.
    pub fn captures(&self, method: &str, path: &str) -> Option<Captures> {
        if self.method != method {
            return None;
        }
        let mut captures = Captures::default();
        let mut pieces = path.strip_prefix('/')?.split('/');
        for segment in &self.segments {
            let piece = decoded(pieces.next()?);
            match segment {
                Segment::Literal(text) => (*text == piece).then_some(())?,
                Segment::Capture {
                    before,
                    name,
                    after,
                } => {
                    let inside = piece.strip_prefix(before.as_str())?;
                    let inside = inside.strip_suffix(after.as_str())?;
                    (!inside.is_empty()).then_some(())?;
                    captures.0.push((name.clone(), inside.to_owned()));
                }
            }
        }
        pieces.next().is_none().then_some(captures)
    }

    pub fn method(&self) -> &str {
        &self.method
    }

    /// A path that matches, with `filling` in place of each capture.
    pub fn path_with(&self, filling: &str) -> String {
        let segments = self.segments.iter().map(|segment| match segment {
            Segment::Literal(text) => text.clone(),
            Segment::Capture { before, after, .. } => format!("{before}{filling}{after}"),
        });
        format!("/{}", segments.collect::<Vec<_>>().join("/"))
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let Some((before, rest)) = text.split_once('{') else {
            return Ok(Self::Literal(decoded(text)));
        };
        let (name, after) = rest
            .split_once('}')
            .ok_or("a capture ends with `}` in the same segment")?;
        if name.is_empty() || name.contains('{') {
            return Err("a capture is `{name}`");
        }
        if after.contains('{') {
            return Err("a segment has at most one capture");
        }
        Ok(Self::Capture {
            before: before.to_owned(),
            name: name.to_owned(),
            after: after.to_owned(),
        })
    }
}

/// What a path captured, decoded, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Captures(Vec<(String, String)>);

impl Captures {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// As templates see them.
    pub fn variables(&self) -> Map<String, Value> {
        self.0
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(on: &str, method: &str, path: &str) -> Option<Vec<(String, String)>> {
        let captures = Pattern::parse(on).unwrap().captures(method, path)?;
        Some(captures.0)
    }

    #[test]
    fn a_path_is_captured_segment_by_segment_and_decoded() {
        let expected = vec![
            ("id".to_owned(), "a/b c".to_owned()),
            ("n".to_owned(), "7".to_owned()),
        ];
        let on = "POST /builds/{id}/logs/{n}";
        assert_eq!(
            captured(on, "POST", "/builds/a%2Fb%20c/logs/7"),
            Some(expected)
        );
        assert_eq!(captured(on, "GET", "/builds/1/logs/7"), None);
        assert_eq!(captured(on, "POST", "/builds/1/logs"), None);
        assert_eq!(captured(on, "POST", "/builds/1/logs/7/"), None);
        assert_eq!(captured(on, "POST", "/builds//logs/7"), None);
    }

    #[test]
    fn a_capture_may_have_text_around_it() {
        let on = "POST /v1/op-{id}:cancel";
        let expected = vec![("id".to_owned(), "7".to_owned())];
        assert_eq!(captured(on, "POST", "/v1/op-7:cancel"), Some(expected));
        assert_eq!(captured(on, "POST", "/v1/op-:cancel"), None);
    }

    #[test]
    fn a_route_that_cannot_be_read_says_what_is_wrong() {
        for on in [
            "/builds",
            "GET builds",
            "GET /a/{",
            "GET /{}",
            "GET /{a}{b}",
            "GET /a?b=c",
        ] {
            let error = Pattern::parse(on).unwrap_err();
            assert!(error.to_string().contains(on), "{error}");
        }
    }

    #[test]
    fn a_route_with_two_roles_is_refused() {
        let remote: spec::Remote = serde_json::from_value(serde_json::json!({
            "routes": [{ "on": "POST /x", "effect": "x", "cancel": "x" }]
        }))
        .unwrap();
        assert!(Routes::new(&remote, None, false).is_err());
    }
}

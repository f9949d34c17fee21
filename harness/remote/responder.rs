//! What wiremock calls: one matcher and one responder for each route.
//!
//! wiremock answers one request at a time and a responder that blocks stops all others, so nothing here waits. Whatever
//! is held is held by the front, before or after.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use wiremock::http::{HeaderName, HeaderValue};
use wiremock::{Match, Mock, MockServer, Respond, ResponseTemplate};

use crate::journal::{Event, Journal};
use crate::spec::{Lookup, Templates};

use super::authority::{Authority, Bearer};
use super::ledger::{Ledger, Outcome};
use super::reply::Reply;
use super::request::{APPROVED, NUMBER, Request};
use super::route::{Captures, Role, Route, Routes};

/// Says to the front, and to nobody else, that the reply speaks of an effect that the remote holds.
pub(super) const MADE: &str = "x-cargo-drill-made";

/// Everything that answering needs.
#[derive(Debug)]
pub(super) struct Answers {
    pub routes: Routes,
    pub authority: Authority,
    pub ledger: Ledger,
    pub templates: Templates,
    pub journal: Journal,
    /// What every reply knows of the trial: `workdir`, `remote.url` and the like.
    pub surroundings: Map<String, Value>,
}

impl Answers {
    /// Mounts the routes, in their order, on a wiremock server of their own.
    pub async fn mount(self: &Arc<Self>) -> MockServer {
        let server = MockServer::builder()
            .disable_request_recording()
            .start()
            .await;
        for index in 0..self.routes.len() {
            let answers = Arc::clone(self);
            Mock::given(RouteMatcher {
                answers: Arc::clone(self),
                index,
            })
            .respond_with(RouteResponder { answers })
            .mount(&server)
            .await;
        }
        server
    }

    fn respond(&self, number: u32, request: &Request, approved: Option<bool>) -> (Reply, bool) {
        let Some((_, route, captures)) = self.routes.find(request) else {
            let reply = Reply::error(404, "not_found", "no route of the drill matches");
            return (reply, false);
        };
        let bearer = self
            .authority
            .judge(&request.headers, |judged| judged.bearer);
        let scene = Scene {
            answers: self,
            route,
            request,
            captures,
            bearer,
            approved,
        };
        scene.play(number).unwrap_or_else(|because| {
            self.journal.append(Event::RouteFailed {
                request: number,
                route: route.on.clone(),
                because: because.clone(),
            });
            let message = format!("the reply of `{}` failed: {because}", route.on);
            (Reply::error(500, "drill_route_failed", &message), false)
        })
    }
}

/// One request on its route.
struct Scene<'a> {
    answers: &'a Answers,
    route: &'a Route,
    request: &'a Request,
    captures: Captures,
    bearer: Bearer,
    /// What was decided, where a decision was asked for.
    approved: Option<bool>,
}

impl Scene<'_> {
    /// The reply, and whether it speaks of an effect that the remote holds. An error is a mistake in the drill.
    fn play(&self, number: u32) -> Result<(Reply, bool), String> {
        let ledger = &self.answers.ledger;
        match &self.route.role {
            Role::Exchange if self.bearer.by_derived => Ok((
                Reply::error(
                    403,
                    "forbidden",
                    "only the first credential is exchanged for a second",
                ),
                false,
            )),
            Role::Oauth(endpoint) => {
                let answer = self.answers.authority.grant(*endpoint, self.request);
                Ok((answer?, false))
            }
            Role::Plain | Role::Identity | Role::Exchange | Role::Approval => {
                Ok((self.render(None, None)?, false))
            }
            Role::Effect { kind, key } => {
                let key = self.look_up(key.as_ref());
                // Taken before the ledger is locked for the effect itself.
                let others = self.listed(|_| true);
                let render = |effect| self.render(Some(effect), Some(others));
                match ledger.apply(self.request, number, kind, key, render) {
                    Outcome::Applied(reply) | Outcome::Repeated(reply) => Ok((reply, true)),
                    Outcome::Conflict => Ok((
                        Reply::error(
                            409,
                            "key_conflict",
                            "this key belongs to a request with another payload",
                        ),
                        false,
                    )),
                    Outcome::Failed(because) => Err(because),
                }
            }
            Role::Find { kind, by } => {
                let which = self.look_up(by.as_ref());
                let by_path = matches!(by, Some(Lookup::Path(_)));
                let found = self.listed(|effect| {
                    effect.kind == *kind
                        && which.as_deref().is_none_or(|which| {
                            effect.key.as_deref() == Some(which)
                                || (by_path && effect.answers_to(which))
                        })
                });
                let first = found.first().cloned();
                let none = first.is_none();
                match self.render(first, Some(found)) {
                    // A reply about one effect (`effects[0].id`) cannot be made of none: then there is no such thing.
                    Err(_) if by_path && none => Ok((unknown(kind), false)),
                    rendered => Ok((rendered?, false)),
                }
            }
            Role::Cancel { kind, by } => {
                let Some(which) = self.look_up(by.as_ref()) else {
                    return Ok((unknown(kind), false));
                };
                let render = |effect| self.render(Some(effect), None);
                match ledger.cancel(number, kind, &which, render) {
                    Some(rendered) => Ok((rendered?, false)),
                    None => Ok((unknown(kind), false)),
                }
            }
        }
    }

    fn look_up(&self, place: Option<&Lookup>) -> Option<String> {
        self.request.look_up(place?, &self.captures)
    }

    fn listed(&self, pick: impl Fn(&super::Effect) -> bool) -> Vec<Value> {
        let effects = self.answers.ledger.effects().into_iter();
        effects
            .filter(pick)
            .map(|effect| Value::Object(effect.object))
            .collect()
    }

    /// Captures stand beside the other variables and never hide one of them.
    fn render(&self, effect: Option<Value>, effects: Option<Vec<Value>>) -> Result<Reply, String> {
        let captured = self.captures.variables();
        let mut variables = self.answers.surroundings.clone();
        variables.extend(captured.clone());
        let path = Value::Object(captured);
        variables.insert("path".to_owned(), path);
        variables.insert("request".to_owned(), self.request.variables());
        variables.insert(
            "authority".to_owned(),
            json!({
                "user": self.bearer.user,
                "token": self.bearer.token,
                "derived": self.bearer.derived,
            }),
        );
        if let Some(approved) = self.approved {
            variables.insert("decision".to_owned(), json!({ "approved": approved }));
        }
        if let Some(effect) = effect {
            variables.insert("effect".to_owned(), effect);
        }
        if let Some(effects) = effects {
            variables.insert("effects".to_owned(), effects.into());
        }
        Reply::render(
            &self.route.reply,
            &self.answers.templates,
            &Value::Object(variables),
        )
    }
}

fn unknown(kind: &str) -> Reply {
    Reply::error(404, "not_found", &format!("there is no such {kind}"))
}

/// Matches the requests for which its route is the first that matches.
struct RouteMatcher {
    answers: Arc<Answers>,
    index: usize,
}

impl Match for RouteMatcher {
    fn matches(&self, request: &wiremock::Request) -> bool {
        let request = Request::new(&request.method, &request.url, &request.headers, &[]);
        self.answers
            .routes
            .find(&request)
            .is_some_and(|(index, _, _)| index == self.index)
    }
}

struct RouteResponder {
    answers: Arc<Answers>,
}

impl Respond for RouteResponder {
    fn respond(&self, request: &wiremock::Request) -> ResponseTemplate {
        let number = request
            .headers
            .get(NUMBER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .unwrap_or_default();
        let approved = request.headers.get(APPROVED).map(|value| value == "true");
        let request = Request::new(
            &request.method,
            &request.url,
            &request.headers,
            &request.body,
        );
        let (mut reply, made) = self.answers.respond(number, &request, approved);
        if made {
            reply.headers.push((
                HeaderName::from_static(MADE),
                HeaderValue::from_static("effect"),
            ));
        }
        reply.into()
    }
}

//! The front: what happens to a request that has arrived whole, step by step.
//!
//! ```text
//!   numbered, judged, recorded
//!      gate: held before anything comes of it?
//!            │                 ──> 401 refused
//!            │                 ──> 404 unmatched, with a route to paste
//!      gate: decision held?
//!            │
//!      gate: effect request held? ──> 503, 429 turned away
//!            │
//!         wiremock: matched, applied, answered <── sent once more by a proxy
//!            │                                              │
//!      gate: reply held? ───────────────────────────────────┘
//!            │       └─────> 500, or a reset, in its place
//!          reply
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use tokio::net::TcpStream;
use wiremock::http::{HeaderMap, HeaderName, HeaderValue, Method, Url};

use crate::journal::{Credential, Event, Journal, excerpt};
use crate::spec::Lookup;

use super::authority::Judged;
use super::gate::Gate;
use super::misplaced::misplaced;
use super::oauth;
use super::paste;
use super::reply::Reply;
use super::request::{APPROVED, NUMBER, Request};
use super::responder::{Answers, MADE};
use super::route::Role;
use super::stance::{Course, Pace};

/// Bytes of text from the server under drill that are written down.
const EXCERPT: usize = 500;

/// The largest body that the remote takes, in bytes.
pub(super) const MOST_BODY: usize = 10 * 1024 * 1024;

/// Headers that belong to one hop (RFC 9110, section 7.6.1), and those that hyper sets itself.
const HOP: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
];

/// A request as it came off the wire.
#[derive(Debug, Clone)]
pub(super) struct Arrived {
    pub method: Method,
    /// Path and query, as sent.
    pub target: String,
    pub headers: HeaderMap,
    /// Empty where it was larger than [`MOST_BODY`].
    pub body: Bytes,
    pub body_bytes: u64,
}

/// What goes back, and for which request.
#[derive(Debug)]
pub(super) struct Answer {
    pub request: u32,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub pace: Pace,
}

/// Stands before wiremock and decides when.
#[derive(Debug)]
pub(super) struct Front {
    pub gate: Gate,
    pub answers: Arc<Answers>,
    pub journal: Journal,
    /// Where wiremock listens.
    pub mock: SocketAddr,
    /// Requests so far.
    pub requests: AtomicU32,
}

impl Front {
    /// Takes a request to its answer. Goes on when the client has gone: a real API does not look back either.
    pub async fn answer(&self, connection: u32, arrived: Arrived) -> Answer {
        let url = url_of(&arrived.target);
        let request = url
            .as_ref()
            .map(|url| Request::new(&arrived.method, url, &arrived.headers, &arrived.body));
        let routed = request
            .as_ref()
            .and_then(|request| Some((request, self.answers.routes.find(request)?)));
        let endpoint = routed
            .as_ref()
            .and_then(|(_, (_, route, _))| match route.role {
                Role::Oauth(endpoint) => Some(endpoint),
                _ => None,
            });
        let is_approval =
            matches!(&routed, Some((_, (_, route, _))) if matches!(route.role, Role::Approval));
        let (route, effect, key) = match &routed {
            Some((request, (_, route, captures))) => match &route.role {
                Role::Effect { kind, key } => {
                    let key = key.as_ref().and_then(|key| request.look_up(key, captures));
                    (Some(route.on.clone()), Some(kind.clone()), key)
                }
                _ => (Some(route.on.clone()), None, None),
            },
            None => (None, None, None),
        };
        let (is_effect, is_routed) = (effect.is_some(), route.is_some());

        // Numbered and written down inside the judgement: the journal has requests in the order of their numbers, and
        // none as accepted after its run was revoked.
        let authority = &self.answers.authority;
        let received = |judged: Judged| {
            let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            self.journal.append(Event::RequestReceived {
                request,
                connection,
                method: excerpt(arrived.method.as_str(), EXCERPT),
                target: excerpt(&arrived.target, EXCERPT),
                credential: judged.credential.clone(),
                route,
                effect,
                key: key.map(|key| excerpt(&key, EXCERPT)),
                body_bytes: arrived.body_bytes,
            });
            (request, judged.credential, judged.accepted)
        };
        let (number, credential, accepted) = match endpoint {
            Some(endpoint) => authority.judge_grant(endpoint, &arrived.body, received),
            None => authority.judge(&arrived.headers, received),
        };
        let applying = self.gate.before_anything(number, is_effect).await;
        let path = url.as_ref().map_or(arrived.target.as_str(), Url::path);
        let (mut answer, made) = if !accepted && endpoint.is_some() {
            self.note_refused(number, credential);
            (from_reply(number, oauth::invalid_grant()), false)
        } else if !accepted && !is_approval {
            let answer = self.refuse(number, credential.clone());
            if let Some(request) = request.filter(|_| is_unknown(&credential)) {
                self.note_misplaced(number, &request);
            }
            (answer, false)
        } else if arrived.body_bytes > MOST_BODY as u64 {
            let message = format!("the remote takes bodies of up to {MOST_BODY} bytes");
            let reply = Reply::error(413, "too_large", &message);
            (from_reply(number, reply), false)
        } else if !is_routed {
            self.journal.append(Event::RequestUnmatched {
                request: number,
                paste: paste::route(arrived.method.as_str(), path),
            });
            let message = "no route of the drill matches";
            let reply = Reply::error(404, "not_found", message);
            (from_reply(number, reply), false)
        } else {
            if is_effect && let Err(status) = self.gate.before_applying(number).await {
                // It has had its answer: the gate held it as long as it was to be held.
                return from_reply(number, turned_away(status));
            }
            let approved = if is_approval {
                Some(self.gate.decide(number).await)
            } else {
                None
            };
            self.apply(number, arrived.clone(), approved).await
        };
        drop(applying);
        let status = answer.status;
        match self
            .gate
            .before_replying(number, status, is_effect, made)
            .await
        {
            Course::Reply(pace) => answer.pace = pace,
            Course::Error => {
                let message = "the request was applied, and then something went wrong";
                let reply = Reply::error(500, "internal", message);
                self.journal.append(Event::ReplyReplaced {
                    request: number,
                    status: reply.status,
                });
                answer = from_reply(number, reply);
            }
            Course::Replay => {
                answer = self.replay(number, arrived).await;
                answer.request = number;
            }
        }
        answer
    }

    fn note_refused(&self, request: u32, credential: Credential) {
        self.journal.append(Event::RequestRefused {
            request,
            credential,
        });
    }

    /// Whose credential was not seen where the drill says that it is may have it elsewhere.
    fn note_misplaced(&self, number: u32, request: &Request) {
        if let Some(event) = misplaced(number, request, self.journal.secrets()) {
            self.journal.append(event);
        }
    }

    fn refuse(&self, request: u32, credential: Credential) -> Answer {
        self.note_refused(request, credential);
        let mut answer = from_reply(request, refusal());
        answer.headers.insert(
            HeaderName::from_static("www-authenticate"),
            HeaderValue::from_static("Bearer"),
        );
        answer
    }

    /// What the remote makes of a request, and whether its reply speaks of an effect that it holds.
    async fn apply(&self, number: u32, arrived: Arrived, approved: Option<bool>) -> (Answer, bool) {
        let mut answer = match self.ask(number, arrived, approved).await {
            Ok(answer) => answer,
            Err(because) => {
                let message = format!("the remote itself failed: {because}");
                self.journal.append(Event::TrialFailed {
                    because: message.clone(),
                });
                from_reply(number, Reply::error(502, "remote_failed", &message))
            }
        };
        let made = answer.headers.remove(MADE).is_some();
        (answer, made)
    }

    /// What a proxy does that has lost the first reply: it sends the same request once more, with the same key and
    /// credential, and knows of nobody who might have gone.
    async fn replay(&self, request: u32, arrived: Arrived) -> Answer {
        let (as_request, credential, accepted) =
            self.answers.authority.judge(&arrived.headers, |judged| {
                let as_request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
                self.journal.append(Event::RequestReplayed {
                    request,
                    as_request,
                });
                (as_request, judged.credential, judged.accepted)
            });
        if accepted {
            self.apply(as_request, arrived, None).await.0
        } else {
            self.refuse(as_request, credential)
        }
    }

    /// Asks the identity route with this token, past the wire and the gate. The route and the status.
    pub async fn probe(&self, token: &str) -> Option<(String, u16)> {
        let route = self.answers.routes.identity()?;
        let accepted = self
            .answers
            .authority
            .judge_token(Some(token), |judged| judged.accepted);
        if !accepted {
            return Some((route.on.clone(), refusal().status));
        }
        let mut headers = HeaderMap::new();
        if let (Some(name), Ok(value)) = (
            self.answers.authority.header(),
            HeaderValue::from_str(&format!("Bearer {token}")),
        ) {
            headers.insert(name, value);
        }
        let arrived = Arrived {
            method: Method::from_bytes(route.pattern.method().as_bytes()).ok()?,
            target: route.pattern.path_with("probe"),
            headers,
            body: Bytes::new(),
            body_bytes: 0,
        };
        let status = match self.ask(0, arrived, None).await {
            Ok(answer) => answer.status,
            Err(_) => 502,
        };
        Some((route.on.clone(), status))
    }

    /// Cancels an effect past the wire and the gate. The route and the status.
    pub async fn cancel(&self, effect: &str) -> Option<(String, u16)> {
        let (route, by) = self.answers.routes.cancel()?;
        let mut headers = HeaderMap::new();
        let mut body = Bytes::new();
        let mut target = route.pattern.path_with(&encoded(effect));
        match by {
            Lookup::Path(_) => {}
            Lookup::Query(name) => {
                target = format!("{target}?{}={}", encoded(name), encoded(effect));
            }
            Lookup::Header(name) => {
                let name: HeaderName = name.parse().ok()?;
                headers.insert(name, HeaderValue::from_str(effect).ok()?);
            }
            Lookup::Json(pointer) => {
                body = Bytes::from(at_pointer(pointer, effect).to_string());
                headers.insert("content-type", HeaderValue::from_static("application/json"));
            }
        }
        let arrived = Arrived {
            method: Method::from_bytes(route.pattern.method().as_bytes()).ok()?,
            target,
            headers,
            body_bytes: body.len() as u64,
            body,
        };
        let status = match self.ask(0, arrived, None).await {
            Ok(answer) => answer.status,
            Err(_) => 502,
        };
        Some((route.on.clone(), status))
    }

    /// Has wiremock match and answer.
    async fn ask(
        &self,
        number: u32,
        arrived: Arrived,
        approved: Option<bool>,
    ) -> Result<Answer, String> {
        let stream = TcpStream::connect(self.mock)
            .await
            .map_err(|error| error.to_string())?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        let mut request = hyper::Request::new(Full::new(arrived.body));
        *request.method_mut() = arrived.method;
        *request.uri_mut() = arrived
            .target
            .parse()
            .map_err(|error: hyper::http::uri::InvalidUri| error.to_string())?;
        *request.headers_mut() = arrived.headers;
        drop_hop_headers(request.headers_mut());
        request.headers_mut().insert(NUMBER, number.into());
        if let Some(approved) = approved {
            let value = HeaderValue::from_static(if approved { "true" } else { "false" });
            request.headers_mut().insert(APPROVED, value);
        }
        request
            .headers_mut()
            .entry("host")
            .or_insert(HeaderValue::from_static("remote"));
        let exchange = async move {
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, hyper::Error>((parts, body))
        };
        // The connection does the reading and writing for the exchange, and ends when the exchange drops its sender.
        let (exchanged, _) = tokio::join!(exchange, connection);
        let (mut parts, body) = exchanged.map_err(|error| error.to_string())?;
        drop_hop_headers(&mut parts.headers);
        // hyper writes the date of the reply that goes over the wire.
        parts.headers.remove("date");
        Ok(Answer {
            request: number,
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            pace: Pace::Whole,
        })
    }
}

/// As a segment of a path, or a value of a query.
fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// An object, or objects in one another, with this text at this JSON pointer.
fn at_pointer(pointer: &str, text: &str) -> Value {
    pointer.rsplit('/').filter(|key| !key.is_empty()).fold(
        Value::String(text.to_owned()),
        |inner, key| {
            let key = key.replace("~1", "/").replace("~0", "~");
            Value::Object(Map::from_iter([(key, inner)]))
        },
    )
}

fn is_unknown(credential: &Credential) -> bool {
    matches!(credential, Credential::Absent | Credential::Foreign)
}

fn refusal() -> Reply {
    Reply::error(
        401,
        "unauthorized",
        "the credential is absent, unknown or revoked",
    )
}

/// What a remote says that does not get to the request, and what it asks of the client.
fn turned_away(status: u16) -> Reply {
    if status == 429 {
        let mut reply = Reply::error(status, "too_many_requests", "the request was not applied");
        reply.headers.push((
            HeaderName::from_static("retry-after"),
            HeaderValue::from_static("0"),
        ));
        reply
    } else {
        Reply::error(status, "unavailable", "the request was not applied")
    }
}

fn from_reply(request: u32, reply: Reply) -> Answer {
    Answer {
        request,
        status: reply.status,
        headers: reply.headers.into_iter().collect(),
        body: reply.body.into(),
        pace: Pace::Whole,
    }
}

/// The URL as wiremock sees it, so that both match the same path. `None` for `OPTIONS *` and the like.
fn url_of(target: &str) -> Option<Url> {
    target
        .starts_with('/')
        .then(|| Url::parse(&format!("http://localhost{target}")).ok())?
}

fn drop_hop_headers(headers: &mut HeaderMap) {
    for name in HOP {
        headers.remove(name);
    }
}

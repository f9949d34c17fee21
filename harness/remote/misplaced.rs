//! A credential that the drill minted, in a request that was refused: it came in another form than the drill declares. The
//! remote refuses it as any other; that it was there says who is mistaken.

use serde_json::Value;
use wiremock::http::Url;

use crate::journal::{Carrier, Event, Secrets, excerpt};

use super::request::{Request, decoded};

/// Bytes of a name that are written down.
const LONGEST_NAME: usize = 80;

/// Deeper values of a body are found, and not where.
const DEEPEST: usize = 32;

/// What tells of the first place where a minted credential stands.
pub(super) fn misplaced(number: u32, request: &Request, secrets: &Secrets) -> Option<Event> {
    let found = headers(request, secrets)
        .or_else(|| query(request, secrets))
        .or_else(|| path(request, secrets))
        .or_else(|| body(request, secrets))?;
    let Found {
        secret,
        carrier,
        scheme,
        is_encoded,
    } = found;
    Some(Event::CredentialMisplaced {
        request: number,
        secret,
        carrier,
        scheme,
        encoded: is_encoded,
    })
}

struct Found {
    secret: String,
    carrier: Carrier,
    scheme: Option<String>,
    is_encoded: bool,
}

impl Found {
    /// The first secret that stands in this text, if one does.
    fn at(text: &str, secrets: &Secrets, carrier: impl FnOnce() -> Carrier) -> Option<Self> {
        let secret = secrets.seen_in(text.as_bytes()).into_iter().next()?;
        Some(Self {
            is_encoded: !secrets.stands_plain_in(&secret, text),
            secret,
            carrier: carrier(),
            scheme: None,
        })
    }
}

fn headers(request: &Request, secrets: &Secrets) -> Option<Found> {
    request.headers.iter().find_map(|(name, value)| {
        let text = String::from_utf8_lossy(value.as_bytes());
        let carrier = || Carrier::Header(excerpt(name.as_str(), LONGEST_NAME));
        let found = Found::at(&text, secrets, carrier)?;
        Some(Found {
            scheme: scheme_of(&text, secrets),
            ..found
        })
    })
}

/// The word before the credential, where it is one of a scheme (RFC 9110, section 11.1).
fn scheme_of(value: &str, secrets: &Secrets) -> Option<String> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let is_token = !scheme.is_empty()
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_before = !secrets.seen_in(rest.as_bytes()).is_empty();
    (is_token && is_before).then(|| excerpt(scheme, LONGEST_NAME))
}

fn query(request: &Request, secrets: &Secrets) -> Option<Found> {
    request.query.iter().find_map(|(name, value)| {
        Found::at(value, secrets, || {
            Carrier::Query(excerpt(&secrets.conceal(name), LONGEST_NAME))
        })
    })
}

fn path(request: &Request, secrets: &Secrets) -> Option<Found> {
    Found::at(&decoded(&request.path), secrets, || Carrier::Path)
}

fn body(request: &Request, secrets: &Secrets) -> Option<Found> {
    let text = String::from_utf8_lossy(&request.body);
    let found = Found::at(&text, secrets, || Carrier::Body(None))?;
    let field = match &request.json {
        Some(json) => pointer_to(json, secrets, DEEPEST),
        None => form_field(&text, secrets),
    };
    Some(Found {
        carrier: Carrier::Body(field.map(|field| excerpt(&field, LONGEST_NAME))),
        ..found
    })
}

/// The JSON pointer of the first text with a secret in it.
fn pointer_to(json: &Value, secrets: &Secrets, deepest: usize) -> Option<String> {
    let within = |key: &str, value: &Value| {
        let rest = pointer_to(value, secrets, deepest.checked_sub(1)?)?;
        let key = secrets.conceal(key).replace('~', "~0").replace('/', "~1");
        Some(format!("/{key}{rest}"))
    };
    match json {
        Value::String(text) => (!secrets.seen_in(text.as_bytes()).is_empty()).then(String::new),
        Value::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(n, item)| within(&n.to_string(), item))
        }
        Value::Object(fields) => fields.iter().find_map(|(key, value)| within(key, value)),
        _ => None,
    }
}

/// The field of a form (`application/x-www-form-urlencoded`).
fn form_field(text: &str, secrets: &Secrets) -> Option<String> {
    let mut url = Url::parse("http://localhost/").ok()?;
    url.set_query(Some(text));
    let found = url.query_pairs().find_map(|(name, value)| {
        let is_there = !secrets.seen_in(value.as_bytes()).is_empty();
        is_there.then(|| secrets.conceal(&name))
    });
    found.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use wiremock::http::{HeaderMap, HeaderName, Method};

    use super::*;

    const TOKEN: &str = "drill-3f9a1c77e0b2";

    fn found(target: &str, header: Option<(&str, &str)>, body: &str) -> Option<Event> {
        let secrets = Secrets::default();
        secrets.mint("token of run A", TOKEN);
        let url = Url::parse(&format!("http://localhost{target}")).unwrap();
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            let name: HeaderName = name.parse().unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        let request = Request::new(&Method::POST, &url, &headers, body.as_bytes());
        misplaced(7, &request, &secrets)
    }

    #[track_caller]
    fn assert_found(
        target: &str,
        header: Option<(&str, &str)>,
        body: &str,
        (carrier, scheme, encoded): (&Carrier, Option<&str>, bool),
    ) {
        let expected = Event::CredentialMisplaced {
            request: 7,
            secret: "token of run A".to_owned(),
            carrier: carrier.clone(),
            scheme: scheme.map(str::to_owned),
            encoded,
        };
        assert_eq!(found(target, header, body), Some(expected));
    }

    #[test]
    fn it_is_found_in_any_header_with_its_scheme() {
        let own = Carrier::Header("authorization".to_owned());
        // "me:drill-3f9a1c77e0b2"
        let basic = "Basic bWU6ZHJpbGwtM2Y5YTFjNzdlMGIy";
        let key = format!("ApiKey {TOKEN}");
        for (value, scheme, encoded) in [
            (TOKEN, None, false),
            (&*key, Some("ApiKey"), false),
            (basic, Some("Basic"), true),
        ] {
            let header = Some(("Authorization", value));
            assert_found("/", header, "", (&own, scheme, encoded));
        }
        let other = Carrier::Header("x-api-key".to_owned());
        let header = Some(("X-Api-Key", TOKEN));
        assert_found("/", header, "", (&other, None, false));
    }

    #[test]
    fn it_is_found_in_the_target() {
        let query = Carrier::Query("api_key".to_owned());
        let encoded = TOKEN.replace('-', "%2D");
        for value in [TOKEN, &encoded] {
            let target = format!("/a?x=1&api_key={value}");
            assert_found(&target, None, "", (&query, None, false));
            let target = format!("/bot{value}/send");
            assert_found(&target, None, "", (&Carrier::Path, None, false));
        }
    }

    #[test]
    fn it_is_found_in_a_body_at_its_field() {
        let field = |name: &str| Carrier::Body(Some(name.to_owned()));
        let json = format!(r#"{{"auth":[{{"a/b":"{TOKEN}"}}]}}"#);
        let form = format!("user=me&token={TOKEN}");
        let text = format!("<key>{TOKEN}</key>");
        for (body, carrier) in [
            (json, field("/auth/0/a~1b")),
            (form, field("token")),
            (text, Carrier::Body(None)),
        ] {
            assert_found("/", None, &body, (&carrier, None, false));
        }
    }

    #[test]
    fn what_has_no_credential_of_the_drill_is_not_misplaced() {
        let foreign = Some(("authorization", "Bearer other"));
        assert_eq!(found("/a?b=c", foreign, "{}"), None);
    }
}

//! A whole request, read once: what the front records and what the responders answer come from the same eyes.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use wiremock::http::{HeaderMap, Method, Url};

use crate::spec::Lookup;

use super::route::Captures;

/// Says which request of the trial this is, between the front and the responders. Never seen by a template, and never
/// taken from the server under drill.
pub(super) const NUMBER: &str = "x-cargo-drill-request";

/// Says what was decided about the call that a request asks about; between the same two.
pub(super) const APPROVED: &str = "x-cargo-drill-approved";

/// A request that has arrived whole.
#[derive(Debug)]
pub(super) struct Request {
    pub method: String,
    /// As sent, percent-encoded, without dot segments.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The body, where it is JSON.
    pub json: Option<Value>,
}

impl Request {
    pub fn new(method: &Method, url: &Url, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut headers = headers.clone();
        headers.remove(NUMBER);
        headers.remove(APPROVED);
        Self {
            method: method.as_str().to_owned(),
            path: url.path().to_owned(),
            query: url
                .query_pairs()
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
            headers,
            body: body.to_vec(),
            json: serde_json::from_slice(body).ok(),
        }
    }

    /// What stands at this place; an empty string counts as nothing.
    pub fn look_up(&self, place: &Lookup, captures: &Captures) -> Option<String> {
        let found = match place {
            Lookup::Header(name) => self
                .headers
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            Lookup::Json(pointer) => match self.json.as_ref()?.pointer(pointer)? {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            },
            Lookup::Query(name) => self
                .query
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone()),
            Lookup::Path(name) => captures.get(name).map(ToOwned::to_owned),
        };
        found.filter(|text| !text.is_empty())
    }

    /// What makes two requests the same: method, path, and the body, where JSON in its canonical form (RFC 8785).
    pub fn payload(&self) -> Payload {
        let body = self
            .json
            .as_ref()
            .and_then(|json| serde_json_canonicalizer::to_vec(json).ok())
            .unwrap_or_else(|| self.body.clone());
        Payload {
            method: self.method.clone(),
            path: self.path.clone(),
            body,
        }
    }

    /// The fields of the body, where it is a JSON object.
    pub fn fields(&self) -> Map<String, Value> {
        match &self.json {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        }
    }

    /// `request` as templates see it.
    pub fn variables(&self) -> Value {
        let mut headers = Map::new();
        for name in self.headers.keys() {
            let values: Vec<_> = self
                .headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            headers.insert(name.as_str().to_owned(), values.join(", ").into());
        }
        let query: Map<String, Value> = self
            .query
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect();
        serde_json::json!({
            "method": self.method,
            "path": self.path,
            "query": query,
            "headers": headers,
            "json": self.json,
        })
    }
}

/// See [`Request::payload`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Payload {
    method: String,
    path: String,
    body: Vec<u8>,
}

/// A piece of a path without its percent-encoding. Bytes that are not UTF-8 become U+FFFD.
pub(super) fn decoded(piece: &str) -> String {
    percent_decode_str(piece).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, body: &str) -> Request {
        let url = Url::parse(&format!("http://localhost{target}")).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", "k1".parse().unwrap());
        headers.insert(NUMBER, "7".parse().unwrap());
        Request::new(&Method::POST, &url, &headers, body.as_bytes())
    }

    #[test]
    fn a_key_is_found_wherever_the_drill_says() {
        let request = request("/builds?request_id=q%201", r#"{"a":{"id":7},"none":null}"#);
        let found = |place| request.look_up(&place, &Captures::default());
        assert_eq!(
            found(Lookup::Header("Idempotency-Key".into())).as_deref(),
            Some("k1")
        );
        assert_eq!(
            found(Lookup::Query("request_id".into())).as_deref(),
            Some("q 1")
        );
        assert_eq!(found(Lookup::Json("/a/id".into())).as_deref(), Some("7"));
        assert_eq!(found(Lookup::Json("/none".into())), None);
        assert_eq!(found(Lookup::Json("/absent".into())), None);
    }

    #[test]
    fn the_order_of_keys_and_the_spaces_of_a_body_make_no_other_payload() {
        let one = request("/builds", r#"{"a":1,"b":2}"#).payload();
        assert_eq!(one, request("/builds", r#"{ "b": 2, "a": 1 }"#).payload());
        assert_ne!(one, request("/builds", r#"{"a":1,"b":3}"#).payload());
        assert_ne!(one, request("/other", r#"{"a":1,"b":2}"#).payload());
    }

    #[test]
    fn the_number_of_the_request_is_not_a_header_that_a_template_sees() {
        let variables = request("/builds", "").variables();
        assert_eq!(
            variables["headers"],
            serde_json::json!({ "idempotency-key": "k1" })
        );
        assert_eq!(variables["json"], Value::Null);
    }
}

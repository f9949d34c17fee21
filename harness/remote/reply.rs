//! A reply, rendered. What the drill writes is checked here, since wiremock panics on a status or a header that HTTP
//! does not know.

use serde_json::{Value, json};
use wiremock::ResponseTemplate;
use wiremock::http::{HeaderName, HeaderValue};

use crate::spec::{self, Templates};

/// What goes back to the server.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub status: u16,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Vec<u8>,
    /// The body, where the drill writes it as JSON.
    pub json: Option<Value>,
}

impl Reply {
    /// Renders what the drill writes.
    pub fn render(
        spec: &spec::Reply,
        templates: &Templates,
        variables: &Value,
    ) -> Result<Self, String> {
        let status = spec.status.unwrap_or(200);
        if !(200..=599).contains(&status) {
            return Err(format!(
                "status {status} is no final status of HTTP: write 200 to 599"
            ));
        }
        let mut headers = Vec::new();
        for (name, template) in &spec.headers {
            let value = templates
                .text(template, variables)
                .map_err(|error| error.to_string())?;
            headers.push(header(name, &value)?);
        }
        let (body, json, media_type) = match (&spec.json, &spec.text) {
            (Some(template), _) => {
                let value = templates
                    .value(template, variables)
                    .map_err(|error| error.to_string())?;
                (
                    value.to_string().into_bytes(),
                    Some(value),
                    "application/json",
                )
            }
            (None, Some(template)) => {
                let text = templates
                    .text(template, variables)
                    .map_err(|error| error.to_string())?;
                (text.into_bytes(), None, "text/plain; charset=utf-8")
            }
            (None, None) => (Vec::new(), None, ""),
        };
        if !media_type.is_empty() && !headers.iter().any(|(name, _)| name == "content-type") {
            headers.push(header("content-type", media_type)?);
        }
        Ok(Self {
            status,
            headers,
            body,
            json,
        })
    }

    /// A refusal or a failure of the remote itself.
    pub fn error(status: u16, error: &str, message: &str) -> Self {
        let json = json!({ "error": error, "message": message });
        Self {
            status,
            headers: vec![(
                HeaderName::from_static("content-type"),
                HeaderValue::from_static("application/json"),
            )],
            body: json.to_string().into_bytes(),
            json: Some(json),
        }
    }
}

impl From<Reply> for ResponseTemplate {
    fn from(reply: Reply) -> Self {
        let mut template = Self::new(reply.status).set_body_bytes(reply.body);
        for (name, value) in reply.headers {
            template = template.append_header(name, value);
        }
        template
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || format!("`{name}: {value}` is no header that HTTP knows");
    Ok((
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?,
        HeaderValue::from_str(value).map_err(|_| wrong())?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(reply: Value) -> Result<Reply, String> {
        let spec: spec::Reply = serde_json::from_value(reply).unwrap();
        Reply::render(
            &spec,
            &Templates::default(),
            &json!({ "n": 3, "bad": "a\nb" }),
        )
    }

    #[test]
    fn a_reply_has_the_media_type_of_its_body_unless_the_drill_names_one() {
        let reply = render(json!({ "status": 201, "json": { "n": "{{ n }}" } })).unwrap();
        assert_eq!((reply.status, reply.body), (201, br#"{"n":3}"#.to_vec()));
        assert_eq!(reply.headers[0].1, "application/json");
        let reply = render(json!({ "headers": { "Content-Type": "text/csv" }, "text": "{{ n }}" }));
        assert_eq!(reply.unwrap().headers[0].1, "text/csv");
    }

    #[test]
    fn what_http_does_not_know_is_an_error_and_no_panic() {
        for wrong in [
            json!({ "status": 101 }),
            json!({ "status": 1000 }),
            json!({ "headers": { "a b": "c" } }),
            json!({ "headers": { "a": "{{ bad }}" } }),
            json!({ "text": "{{ absent }}" }),
        ] {
            assert!(render(wrong).is_err());
        }
    }
}

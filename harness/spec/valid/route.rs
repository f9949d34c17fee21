//! The `on` of a route: `POST /builds/{id}/cancel`.

use super::super::mistake::{did_you_mean, nearest, one_of};

/// RFC 9110, 9.3, and PATCH (RFC 5789). CONNECT and TRACE are for proxies and diagnosis.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// What templates in a reply know already.
const TAKEN: [&str; 4] = ["effect", "effects", "request", "authority"];

/// A method and a path with its captures.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct On<'o> {
    pub method: &'o str,
    pub captures: Vec<&'o str>,
}

impl<'o> On<'o> {
    /// The error is a message and what would be right.
    pub(super) fn parse(on: &'o str) -> Result<Self, (String, String)> {
        let form = || "write it like `POST /builds/{id}`".to_owned();
        let Some((method, path)) = on.split_once(' ') else {
            return Err((format!("`{on}` is not a method and a path"), form()));
        };
        if !METHODS.contains(&method) {
            let guess = did_you_mean(nearest(method, METHODS));
            return Err((
                format!("`{method}` is not a method{guess}"),
                format!("allowed: {}", one_of(METHODS)),
            ));
        }
        if !path.starts_with('/') || path.contains([' ', '?', '#']) {
            let right = if path.contains('?') {
                "leave the query out: a route matches with any".to_owned()
            } else {
                form()
            };
            return Err((format!("`{path}` is not a path"), right));
        }
        Ok(Self {
            method,
            captures: captures(path).map_err(|message| (message, form()))?,
        })
    }
}

fn captures(path: &str) -> Result<Vec<&str>, String> {
    let unbalanced = || format!("the braces in `{path}` do not match");
    let mut captures = Vec::new();
    let mut rest = path;
    while let Some(brace) = rest.find(['{', '}']) {
        let inside = rest[brace..].strip_prefix('{').ok_or_else(unbalanced)?;
        let end = inside.find('}').ok_or_else(unbalanced)?;
        let name = &inside[..end];
        if name.contains(['{', '/']) {
            return Err(unbalanced());
        }
        let word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !word {
            return Err(format!("`{{{name}}}` is not a capture: its name is a word"));
        }
        if TAKEN.contains(&name) {
            return Err(format!(
                "`{{{name}}}` would hide `{name}` from the templates of the reply"
            ));
        }
        if captures.contains(&name) {
            return Err(format!("`{{{name}}}` is captured twice"));
        }
        captures.push(name);
        rest = &inside[end + 1..];
    }
    Ok(captures)
}

/// RFC 9110, 5.1: a field name is a token.
pub(super) fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_read_in_order() {
        let on = On::parse("POST /a/{b}/c/{d}:cancel").unwrap();
        assert_eq!((on.method, on.captures), ("POST", vec!["b", "d"]));
    }

    #[test]
    fn what_is_not_a_route_is_refused() {
        for on in [
            "POST",
            "/builds",
            "POST builds",
            "PSOT /x",
            "post /x",
            "GET /a/{b",
            "GET /a/b}",
            "GET /{}",
            "GET /{a}/{a}",
            "GET /{{a}}",
            "GET /{a/b}",
            "GET /x?y=1",
            "GET  /x",
            "GET /{effect}",
            "GET /{1}",
        ] {
            assert!(On::parse(on).is_err(), "{on}");
        }
    }
}

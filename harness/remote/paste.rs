//! A route for a request that no route matched, ready to paste under `remote.routes`.
//!
//! The path comes from the server under drill, and the text is meant for a file: whatever is not plainly harmless in
//! YAML is quoted and escaped.

use std::fmt::Write as _;

use crate::journal::excerpt;

use super::request::decoded;

/// Enough for any real path; what is longer is cut, and the route is then a start and no more.
const MOST: usize = 200;

/// The route as YAML.
pub(super) fn route(method: &str, path: &str) -> String {
    let method = excerpt(method, MOST);
    let path = excerpt(path, MOST);
    let mut captures = 0;
    let mut noun = None;
    let mut segments = Vec::new();
    for segment in path.split('/').skip(1) {
        if is_identifier(segment) {
            captures += 1;
            segments.push(match captures {
                1 => "{id}".to_owned(),
                n => format!("{{id{n}}}"),
            });
        } else {
            let word: String = segment
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
                .collect();
            if !word.is_empty() {
                noun = Some(word.strip_suffix('s').unwrap_or(&word).to_owned());
            }
            segments.push(segment.to_owned());
        }
    }
    let mut yaml = format!(
        "- on: {}\n",
        scalar(&format!("{method} /{}", segments.join("/")))
    );
    if matches!(method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE") {
        let noun = noun.as_deref().unwrap_or("change");
        let _ = writeln!(yaml, "  # effect: {noun}   # if this changes something");
    }
    yaml.push_str("  reply: { status: 200, json: {} }\n");
    yaml
}

/// A segment that names one thing among many, or that a route could not write literally.
fn is_identifier(segment: &str) -> bool {
    let text = decoded(segment);
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let hex = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    text.contains(['{', '}', '?'])
        || (!text.is_empty() && digits == text.len())
        || (hex && digits > 0 && text.len() >= 8)
        || (digits >= 4 && text.len() >= 16)
}

/// The text as a YAML scalar: plain where nothing in it could be read otherwise, else double-quoted.
fn scalar(text: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || " /{}._~%+-".contains(c);
    if text.starts_with(|c: char| c.is_ascii_uppercase()) && text.chars().all(harmless) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    #[test]
    fn a_read_is_pasted_as_it_is() {
        assert_eq!(
            route("GET", "/api/v4/user"),
            "- on: GET /api/v4/user\n  reply: { status: 200, json: {} }\n"
        );
    }

    #[test]
    fn what_names_one_thing_becomes_a_capture_and_a_write_gets_a_hint() {
        let yaml = route(
            "POST",
            "/projects/17/builds/3f2504e0-4f89-11d3-9a0c-0305e82c3301/cancel",
        );
        assert!(
            yaml.starts_with("- on: POST /projects/{id}/builds/{id2}/cancel\n  # effect: cancel"),
            "{yaml}"
        );
        assert!(route("PUT", "/builds/7").contains("# effect: build "));
    }

    #[test]
    fn hostile_text_stays_inside_its_scalar() {
        for path in [
            "/a: b",
            "/a #b",
            "/\"x",
            "/a\\b",
            "/a\n- on: GET /evil",
            "/\u{2028}\u{85}",
            "/{{ evil }}",
        ] {
            let yaml = route("GET", path);
            let routes: Vec<spec::Route> = serde_yaml::from_str(&yaml).expect(&yaml);
            assert_eq!(routes.len(), 1, "{yaml}");
            assert!(!routes[0].on.contains("{{"), "{yaml}");
        }
    }
}

//! Links to the evidence, and text inside HTML.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand in the path of a relative reference as it is (RFC 3986); a `:` might be taken for the end of a scheme.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path as a relative reference.
#[must_use]
pub fn uri(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// Text that is safe between the tags of HTML, and in an attribute with quotes around it.
#[must_use]
pub fn escape_html(text: &str) -> String {
    minijinja::HtmlEscape(&crate::journal::printable(text)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_name_a_scheme_or_leave_its_attribute() {
        assert_eq!(
            uri("deploy__sent~2/journal.jsonl"),
            "deploy__sent~2/journal.jsonl"
        );
        assert_eq!(uri("javascript:x"), "javascript%3Ax");
        assert_eq!(uri("a b\"><c"), "a%20b%22%3E%3Cc");
    }

    #[test]
    fn no_tag_survives() {
        let hostile = "<script>alert('\u{1b}')</script>&\"";
        let safe = escape_html(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{1b}']), "{safe}");
    }
}

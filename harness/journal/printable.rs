//! Untrusted text made safe to show: on a terminal, in a page, through `cat`.

/// Escapes what a terminal would act on or a reader would not see: control characters (C0 besides newline and tab, DEL,
/// C1) and the bidirectional overrides of Unicode, as `\u{9b}`.
#[must_use]
pub fn printable(text: &str) -> String {
    if !text.chars().any(is_unsafe) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The beginning of a text, about `most` bytes, with the number of bytes left out. A text that is hardly longer stays
/// whole: to say that something is missing takes room too.
#[must_use]
pub fn excerpt(text: &str, most: usize) -> String {
    /// What "… (1234 bytes more)" takes.
    const NOTE: usize = 24;
    if text.len() <= most + NOTE {
        return text.to_owned();
    }
    let end = (0..=most)
        .rev()
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(0);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end)
}

fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_sequences_become_visible() {
        assert_eq!(
            printable("a\x1b[31mred\x7f\u{9b}"),
            r"a\u{1b}[31mred\u{7f}\u{9b}"
        );
        assert_eq!(printable("two\nlines\t— fine"), "two\nlines\t— fine");
    }

    #[test]
    fn an_excerpt_never_cuts_a_character() {
        assert_eq!(
            excerpt(&format!("aé{}", "b".repeat(30)), 2),
            "a… (32 bytes more)"
        );
        assert_eq!(excerpt("hardly longer", 10), "hardly longer");
    }
}

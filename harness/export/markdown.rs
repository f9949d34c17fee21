//! Untrusted text inside Markdown.

use crate::report::one_line;

/// What turns nothing into a link, a mention or an address, and is not seen.
const BREAK: char = '\u{200b}';

/// Text on one line that Markdown leaves as it is: no markup, no HTML, no cell of a table, no link.
///
/// A backslash takes the meaning from each character that has one. Addresses and mentions need none, since GitHub and
/// others find them in plain text: a zero-width space parts them.
#[must_use]
pub fn inert(text: &str) -> String {
    let line = one_line(text);
    let mut out = String::with_capacity(line.len() + line.len() / 8);
    for (at, c) in line.char_indices() {
        let rest = &line[at..];
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '!' | '&' | '$' => {
                out.push('\\');
                out.push(c);
            }
            // At the start of a line these begin a list or a heading.
            '-' | '+' | '=' if at == 0 => {
                out.push('\\');
                out.push(c);
            }
            '@' => out.extend([c, BREAK]),
            ':' if rest.starts_with("://") => out.extend([c, BREAK]),
            '.' if has_www_before(&line[..at]) => out.extend([BREAK, c]),
            _ => out.push(c),
        }
    }
    out
}

/// Untrusted text as code, without markup inside. Not for a table, whose cell a bar ends even there.
pub(super) fn code(text: &str) -> String {
    let line = one_line(text);
    let mut fence = "`".to_owned();
    while line.contains(&fence) {
        fence.push('`');
    }
    let room = if line.starts_with('`') || line.ends_with('`') || line.is_empty() {
        " "
    } else {
        ""
    };
    format!("{fence}{room}{line}{room}{fence}")
}

fn has_www_before(text: &str) -> bool {
    text.get(text.len().saturating_sub(3)..)
        .is_some_and(|end| end.eq_ignore_ascii_case("www"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(
            inert("a|b <i> [x](y) `z`"),
            "a\\|b \\<i\\> \\[x\\](y) \\`z\\`"
        );
        assert_eq!(inert("two\n# lines"), "two \\# lines");
        assert_eq!(inert("- no list"), "\\- no list");
    }

    #[test]
    fn nothing_becomes_a_link_or_a_mention() {
        assert_eq!(inert("http://x"), "http:\u{200b}//x");
        assert_eq!(inert("WWW.x.org"), "WWW\u{200b}.x.org");
        assert_eq!(inert("a@b.c"), "a@\u{200b}b.c");
    }

    #[test]
    fn code_cannot_be_left() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`a|"), "`` `a| ``");
    }
}

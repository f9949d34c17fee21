//! How much room text takes in a picture, which cannot wrap it by itself.
//!
//! A page says which kind of letters it wants, not which: each machine has its own. The widths here are those of the widest that
//! are common for reading on screens (such as Verdana), so that others leave a little room.

use unicode_width::UnicodeWidthChar as _;

/// The text in lines that are at most `width` wide, in hundredths of the size of its letters.
///
/// It is broken between words, and within a word that has no room in a line of its own.
pub(super) fn wrapped(text: &str, width: u32) -> Vec<String> {
    const SPACE: u32 = 32;
    let mut lines: Vec<(String, u32)> = vec![(String::new(), 0)];
    for word in text.split_whitespace() {
        let (line, taken) = last(&mut lines);
        let needed = width_of(word);
        if *taken > 0 && *taken + SPACE + needed <= width {
            line.push(' ');
            line.push_str(word);
            *taken += SPACE + needed;
            continue;
        }
        if *taken > 0 {
            lines.push((String::new(), 0));
        }
        for letter in word.chars() {
            let (line, taken) = last(&mut lines);
            if *taken > 0 && *taken + letter_width(letter) > width {
                lines.push((letter.to_string(), letter_width(letter)));
            } else {
                line.push(letter);
                *taken += letter_width(letter);
            }
        }
    }
    lines.into_iter().map(|(line, _)| line).collect()
}

fn last(lines: &mut [(String, u32)]) -> (&mut String, &mut u32) {
    // It begins with one line, and none is taken away.
    let (line, taken) = lines.last_mut().expect("there is a line");
    (line, taken)
}

fn width_of(word: &str) -> u32 {
    word.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> u32 {
    match letter {
        'i' | 'j' | 'l' | '\'' => 28,
        ' ' | '.' | ',' | ':' | ';' | '/' | '\\' | '|' | 'I' | '-' => 36,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '"' | '!' | '“' | '”' => 42,
        's' | 'c' | 'z' | '_' | '*' | '?' => 54,
        'm' | 'M' | 'w' | 'W' | '%' | '@' | '…' | '+' | '=' | '<' | '>' | '~' => 100,
        'A'..='Z' => 76,
        _ if letter.is_ascii() => 64,
        // Letters of East Asia, and pictures, are as wide as two of the others and never wider than they are high.
        _ => match letter.width() {
            Some(0) => 0,
            Some(1) => 80,
            _ => 130,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_lost_but_the_spaces_between_its_lines() {
        let text = "after-acceptance is reached: request 1 was applied, and its reply is withheld";
        let lines = wrapped(text, 1500);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), text);
        assert!(lines.iter().all(|line| width_of(line) <= 1500), "{lines:?}");
    }

    #[test]
    fn a_word_that_is_wider_than_a_line_is_broken() {
        let lines = wrapped("GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 1000);
        assert_eq!(
            lines.concat().replace("GET", ""),
            "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        );
        assert!(lines.iter().all(|line| width_of(line) <= 1000), "{lines:?}");
    }

    #[test]
    fn a_text_without_letters_is_one_empty_line() {
        assert_eq!(wrapped("  ", 1000), [""]);
    }
}

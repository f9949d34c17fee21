//! A sentence that is said twice: once for the reader, with pids, times and ids, and once for the snapshot, without what
//! changes from run to run. Both come from the same parts, so they cannot drift apart.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::journal::{Pid, excerpt};

/// The most bytes of a server's own text that a sentence quotes.
const QUOTED: usize = 200;

/// The most things of one kind that a sentence names one by one.
const NAMED: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Varies { said: String, stable: String },
}

/// A sentence under construction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sentence {
    parts: Vec<Part>,
}

/// Begins a sentence.
pub(super) fn say(text: impl Into<String>) -> Sentence {
    Sentence::default().text(text)
}

impl Sentence {
    /// Words that are the same in every run; counts belong here too.
    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// `said` for the reader, `stable` for the snapshot.
    pub(super) fn varies(mut self, said: impl Into<String>, stable: impl Into<String>) -> Self {
        self.parts.push(Part::Varies {
            said: said.into(),
            stable: stable.into(),
        });
        self
    }

    pub(super) fn pid(self, pid: Pid) -> Self {
        self.varies(pid.to_string(), "<pid>")
    }

    /// A measured time, in ns.
    pub(super) fn time(self, ns: u64) -> Self {
        self.varies(duration(Duration::from_nanos(ns)), "<time>")
    }

    /// A time that the drill gives: the same in every run.
    pub(super) fn limit(self, limit: Duration) -> Self {
        self.text(duration(limit))
    }

    /// An id or a key that was made in this run.
    pub(super) fn id(self, id: &str) -> Self {
        self.varies(one_line(id, QUOTED), "<id>")
    }

    /// Text of a server that may change from run to run, named `what` in the snapshot.
    pub(super) fn quote(self, text: &str, what: &str) -> Self {
        let quoted = one_line(text.trim(), QUOTED);
        self.varies(format!("“{quoted}”"), format!("“<{what}>”"))
    }

    /// As [`Self::quote`], and where the text is long, its end.
    pub(super) fn quote_end(self, text: &str, what: &str) -> Self {
        let text = text.trim();
        let from = text.len().saturating_sub(QUOTED);
        let from = (from..=text.len()).find(|&i| text.is_char_boundary(i));
        let end = &text[from.unwrap_or_default()..];
        let before = if end.len() < text.len() { "…" } else { "" };
        let quoted = end.replace(['\n', '\t'], " ");
        self.varies(format!("“{before}{quoted}”"), format!("“<{what}>”"))
    }

    /// A word of a server that is the same in every run.
    pub(super) fn word(self, word: &str) -> Self {
        self.text(format!("“{}”", one_line(word.trim(), QUOTED)))
    }

    /// How often something came that comes as time passes: the snapshot only tells one from several.
    pub(super) fn several(self, n: usize) -> Self {
        self.varies(n.to_string(), if n == 1 { "1" } else { "several" })
    }

    pub(super) fn then(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Several sentences with something between them.
    pub(super) fn join(sentences: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut joined = Self::default();
        for (i, sentence) in sentences.into_iter().enumerate() {
            if i > 0 {
                joined = joined.text(between);
            }
            joined = joined.then(sentence);
        }
        joined
    }

    /// The first few of a list, and how many more there are.
    pub(super) fn list(sentences: Vec<Self>) -> Self {
        let more = sentences.len().saturating_sub(NAMED);
        let list = Self::join(sentences.into_iter().take(NAMED), ", ");
        if more == 0 {
            return list;
        }
        list.varies(format!(" and {more} more"), " and more")
    }

    /// For the reader.
    pub(super) fn said(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Varies { said, .. } => said.as_str(),
            })
            .collect()
    }

    /// For the snapshot.
    pub(super) fn stable(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Varies { stable, .. } => stable.as_str(),
            })
            .collect()
    }
}

/// `1 effect`, `2 effects`.
pub(super) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Milliseconds below a second, seconds from there on, with no more digits than a reader uses.
pub(super) fn duration(time: Duration) -> String {
    let ms = time.as_millis();
    if ms == 0 && !time.is_zero() {
        return format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    }
    if ms < 1000 {
        return format!("{ms} ms");
    }
    if ms.is_multiple_of(1000) {
        return format!("{} s", ms / 1000);
    }
    format!("{:.1} s", time.as_secs_f64())
}

fn one_line(text: &str, most: usize) -> String {
    excerpt(text, most).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_run_to_run_is_left_out_of_the_snapshot() {
        let sentence = say("pid ")
            .pid(17)
            .text(" made ")
            .text(counted(2, "effect", "effects"))
            .text(" in ")
            .time(2_013_000_000);
        assert_eq!(sentence.said(), "pid 17 made 2 effects in 2.0 s");
        assert_eq!(sentence.stable(), "pid <pid> made 2 effects in <time>");
    }

    #[test]
    fn what_a_server_says_is_quoted_bounded_and_in_one_line() {
        let sentence = Sentence::default().quote(&"a\nb ".repeat(100), "stderr");
        assert!(sentence.said().starts_with("“a b a b"));
        assert!(sentence.said().ends_with("bytes more)”"));
        assert!(sentence.said().len() < 250);
        assert_eq!(sentence.stable(), "“<stderr>”");
    }

    #[test]
    fn of_what_ends_with_the_reason_the_end_is_quoted() {
        let text = format!("{}\nno DATABASE_URL\n", "x".repeat(1000));
        let said = Sentence::default().quote_end(&text, "stderr").said();
        assert!(said.starts_with("“…x") && said.ends_with("x no DATABASE_URL”"));
        assert!(said.len() < QUOTED + 20, "{said}");
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let list = Sentence::list((1..=6).map(|pid| Sentence::default().pid(pid)).collect());
        assert_eq!(list.said(), "1, 2, 3, 4 and 2 more");
        assert_eq!(list.stable(), "<pid>, <pid>, <pid>, <pid> and more");
    }

    #[test]
    fn times_have_the_digits_that_a_reader_uses() {
        let said = |micros| duration(Duration::from_micros(micros));
        assert_eq!(said(0), "0 ms");
        assert_eq!(said(400), "0.4 ms");
        assert_eq!(said(12_300), "12 ms");
        assert_eq!(said(2_000_000), "2 s");
        assert_eq!(said(2_040_000), "2.0 s");
        assert_eq!(said(61_500_000), "61.5 s");
    }
}

//! How to draw: the width, whether the terminal knows more than ASCII, and whether to colour.
//!
//! No verdict is told by colour alone: each has a shape and a word. Colours are the terminal's own sixteen, so that they
//! suit its background; whoever prints to `anstream::stdout()` has them removed where `NO_COLOR` or a pipe asks for it.

use std::env;

use owo_colors::{OwoColorize as _, Style as Paint};

use super::outcome::{SnapshotState, TrialVerdict};
use crate::journal::printable;
use crate::judge::{Answer, Verdict};

/// The width where nothing tells it: a pipe, a log.
const DEFAULT_WIDTH: usize = 100;
/// Lines longer than this are hard to read, however wide the terminal.
const WIDEST: usize = 120;
const NARROWEST: usize = 40;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// In terminal columns.
    pub width: usize,
    pub unicode: bool,
    pub colour: bool,
}

/// What a cell or a line says, by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Held,
    Broken,
    Unproven,
    Error,
    /// The verdict differed between repeats.
    Unstable,
    /// Broken or unproven, and excused by the drill.
    Known,
    Skipped,
    NotAsked,
}

impl Shape {
    /// In the order in which they are explained.
    pub const ALL: [Self; 8] = [
        Self::Held,
        Self::Broken,
        Self::Unproven,
        Self::Error,
        Self::Unstable,
        Self::Known,
        Self::Skipped,
        Self::NotAsked,
    ];

    pub fn of(answer: &Answer) -> Self {
        match answer.verdict {
            _ if answer.unstable.is_some() => Self::Unstable,
            Verdict::Held => Self::Held,
            _ if answer.known => Self::Known,
            Verdict::Unproven => Self::Unproven,
            Verdict::Broken => Self::Broken,
            Verdict::Error => Self::Error,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Unproven => "unproven",
            Self::Error => "error",
            Self::Unstable => "unstable",
            Self::Known => "known",
            Self::Skipped => "left out",
            Self::NotAsked => "not asked",
        }
    }
}

impl From<TrialVerdict> for Shape {
    fn from(verdict: TrialVerdict) -> Self {
        match verdict {
            TrialVerdict::Held => Self::Held,
            TrialVerdict::Unproven => Self::Unproven,
            TrialVerdict::Broken => Self::Broken,
            TrialVerdict::Error => Self::Error,
            TrialVerdict::Ignored => Self::Skipped,
        }
    }
}

impl Style {
    /// As the environment has it, for text that goes to `anstream::stdout()`.
    pub fn detect() -> Self {
        let columns = env::var("COLUMNS").ok();
        let terminal = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self {
            width: width_from(columns.as_deref(), terminal),
            unicode: knows_unicode(|name| env::var(name).ok()),
            colour: true,
        }
    }

    /// Without colour.
    pub fn plain(width: usize) -> Self {
        Self {
            width,
            unicode: true,
            colour: false,
        }
    }

    pub(crate) fn shape(self, shape: Shape) -> &'static str {
        match (self.unicode, shape) {
            (true, Shape::Held) => "✓",
            (true, Shape::Broken) => "✗",
            (true, Shape::Known) => "(✗)",
            (true, Shape::Skipped) => "–",
            (true, Shape::NotAsked) => "·",
            (false, Shape::Held) => "ok",
            (false, Shape::Broken) => "X",
            (false, Shape::Known) => "(X)",
            (false, Shape::Skipped) => "-",
            (false, Shape::NotAsked) => ".",
            (_, Shape::Unproven) => "?",
            (_, Shape::Error) => "!",
            (_, Shape::Unstable) => "~",
        }
    }

    pub(crate) fn paint(self, shape: Shape, text: &str) -> String {
        self.painted(
            match shape {
                Shape::Held => Paint::new().green(),
                Shape::Broken | Shape::Error | Shape::Unstable => Paint::new().red().bold(),
                Shape::Unproven => Paint::new().yellow().bold(),
                Shape::Known => Paint::new().yellow(),
                Shape::Skipped | Shape::NotAsked => Paint::new().dimmed(),
            },
            text,
        )
    }

    pub(crate) fn snapshot(self, state: SnapshotState, text: &str) -> String {
        self.painted(
            match state {
                SnapshotState::Same => Paint::new().green(),
                SnapshotState::New => Paint::new().cyan(),
                SnapshotState::Differs => Paint::new().red().bold(),
            },
            text,
        )
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.painted(Paint::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.painted(Paint::new().dimmed(), text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.painted(Paint::new().red(), text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.painted(Paint::new().green(), text)
    }

    fn painted(self, paint: Paint, text: &str) -> String {
        if self.colour && !text.is_empty() {
            text.style(paint).to_string()
        } else {
            text.to_owned()
        }
    }

    /// A sentence, safe to show, wrapped to the width and indented; the first line continues what stands before it.
    pub(crate) fn sentence(self, text: &str, indent: usize) -> String {
        let room = self.width.saturating_sub(indent).max(20);
        let lines = textwrap::wrap(&one_line(text), room)
            .into_iter()
            .map(std::borrow::Cow::into_owned)
            .collect::<Vec<_>>();
        lines.join(&format!("\n{}", " ".repeat(indent)))
    }
}

/// Untrusted text on one line: safe to show, and unable to begin a line that looks like ours.
pub(crate) fn one_line(text: &str) -> String {
    printable(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// A path on one line, to be copied: safe to show, its spaces as they are.
pub(crate) fn path_line(path: &str) -> String {
    printable(path).replace('\n', "\\n")
}

/// The text filled up with spaces to `columns` of the terminal.
pub(crate) fn filled(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(columns_of(text));
    format!("{text}{}", " ".repeat(missing))
}

/// How many columns of a terminal the text takes.
pub(crate) fn columns_of(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// `41 ms`, `2.4 s`, `3 min 12 s`.
pub(crate) fn spell_seconds(seconds: f64) -> String {
    if seconds < 0.9995 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else {
        let minutes = ((seconds + 0.5) / 60.0).floor();
        format!(
            "{minutes:.0} min {:.0} s",
            (seconds - minutes * 60.0).max(0.0)
        )
    }
}

fn width_from(columns: Option<&str>, terminal: Option<usize>) -> usize {
    columns
        .and_then(|columns| columns.trim().parse().ok())
        .filter(|columns| *columns > 0)
        .or(terminal)
        .unwrap_or(DEFAULT_WIDTH)
        .clamp(NARROWEST, WIDEST)
}

/// POSIX: the first of these that is set and not empty decides.
fn knows_unicode(lookup: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(lookup)
        .find(|value| !value.is_empty())
        .is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides_whether_more_than_ascii_is_drawn() {
        let with = |set: &'static [(&str, &str)]| {
            knows_unicode(|name| {
                let found = set.iter().find(|(key, _)| *key == name)?;
                Some(found.1.to_owned())
            })
        };
        assert!(with(&[("LANG", "de_DE.UTF-8")]));
        assert!(with(&[("LANG", "C.utf8")]));
        assert!(!with(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]));
        assert!(with(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "")]));
        assert!(!with(&[]));
    }

    #[test]
    fn the_width_comes_from_columns_then_from_the_terminal() {
        assert_eq!(width_from(Some("80"), Some(90)), 80);
        assert_eq!(width_from(Some("many"), Some(90)), 90);
        assert_eq!(width_from(None, Some(300)), WIDEST);
        assert_eq!(width_from(None, None), DEFAULT_WIDTH);
    }

    #[test]
    fn times_are_spelled_in_the_unit_that_suits_them() {
        assert_eq!(spell_seconds(0.041), "41 ms");
        assert_eq!(spell_seconds(0.9996), "1.0 s");
        assert_eq!(spell_seconds(2.44), "2.4 s");
        assert_eq!(spell_seconds(59.96), "1 min 0 s");
        assert_eq!(spell_seconds(192.0), "3 min 12 s");
    }

    #[test]
    fn a_path_keeps_its_spaces() {
        assert_eq!(path_line("my  reports/a\nb"), "my  reports/a\\nb");
    }

    #[test]
    fn a_quoted_newline_cannot_begin_a_line_of_its_own() {
        assert_eq!(
            one_line("failed\nheld     deploy::sent"),
            "failed held deploy::sent"
        );
    }
}

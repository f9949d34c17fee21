//! A mistake in a file that people write, such as a drill: what is wrong, where, and what would be right.
//!
//! These types carry text and places. How they look (frame, colour, width) is decided where they are printed.
//! Such a file may come from anywhere: no control character of it reaches a terminal from here.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

/// How many characters of a value are quoted in a message.
const MAX_QUOTED: usize = 60;

/// All mistakes of one file.
#[derive(Debug, Clone)]
pub struct Mistakes {
    /// The file, or the folder that could not be searched.
    pub path: PathBuf,
    pub mistakes: Vec<Mistake>,
    source: Option<NamedSource<String>>,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// One sentence, without a full stop.
    pub message: String,
    /// What would be right, where the message does not say so.
    pub help: Option<String>,
    /// `None`: the mistake is about the file as a whole.
    pub place: Option<Place>,
    /// A second place that belongs to it, with what it is.
    pub also: Option<(Place, String)>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Bytes of the text that is shown.
    pub bytes: Range<usize>,
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = one_line(&self.path.display().to_string());
        match self.mistakes.len() {
            1 => write!(f, "a mistake in {path}"),
            n => write!(f, "{n} mistakes in {path}"),
        }
    }
}

impl std::error::Error for Mistakes {}

impl Diagnostic for Mistakes {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(
            self.mistakes
                .iter()
                .map(|mistake| mistake as &dyn Diagnostic),
        ))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

impl Diagnostic for Mistake {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help
            .as_ref()
            .map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let here = LabeledSpan::new_primary_with_span(None, place.bytes.clone());
        let also = self.also.iter().map(|(place, what)| {
            LabeledSpan::new_with_span(Some(what.clone()), place.bytes.clone())
        });
        Some(Box::new(std::iter::once(here).chain(also)))
    }
}

impl Mistakes {
    /// The lines of this file cannot be shown: it could not be read, or is a folder.
    pub(crate) fn unread(path: &Path, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            mistakes: vec![Mistake {
                message: one_line(&message.into()),
                help: None,
                place: None,
                also: None,
            }],
            source: None,
        }
    }
}

/// Collects the mistakes of one file. Places come in as bytes of the source.
#[derive(Debug)]
pub(crate) struct Found<'s> {
    path: &'s Path,
    source: &'s str,
    mistakes: Vec<Mistake>,
}

impl<'s> Found<'s> {
    pub(crate) fn new(path: &'s Path, source: &'s str) -> Self {
        Self {
            path,
            source,
            mistakes: Vec::new(),
        }
    }

    /// Adds a mistake. The returned handle adds help, or a second place.
    pub(crate) fn add(&mut self, place: &Range<usize>, message: impl Into<String>) -> Added<'_> {
        let mistake = Mistake {
            message: one_line(&message.into()),
            help: None,
            place: Some(self.place(place)),
            also: None,
        };
        self.mistakes.push(mistake);
        let last = self.mistakes.len() - 1;
        Added {
            mistake: &mut self.mistakes[last],
            source: self.source,
        }
    }

    /// The first occurrence of a text inside a place, or the whole place.
    pub(super) fn inside(&self, place: &Range<usize>, text: &str) -> Range<usize> {
        self.source
            .get(place.clone())
            .and_then(|written| written.find(text))
            .map_or_else(
                || place.clone(),
                |at| place.start + at..place.start + at + text.len(),
            )
    }

    fn place(&self, bytes: &Range<usize>) -> Place {
        place_in(self.source, bytes)
    }

    /// All of them, in the order of the file, if there are any.
    pub(super) fn finish(self) -> Result<(), Mistakes> {
        if self.mistakes.is_empty() {
            Ok(())
        } else {
            Err(self.into_mistakes())
        }
    }

    /// All of them, in the order of the file.
    pub(super) fn into_mistakes(mut self) -> Mistakes {
        self.mistakes
            .sort_by_key(|mistake| mistake.place.as_ref().map(|place| place.bytes.start));
        let name = one_line(&self.path.display().to_string());
        Mistakes {
            path: self.path.to_owned(),
            mistakes: self.mistakes,
            source: Some(NamedSource::new(name, printable(self.source)).with_language("yaml")),
        }
    }
}

/// A mistake just added.
pub(crate) struct Added<'a> {
    mistake: &'a mut Mistake,
    source: &'a str,
}

impl Added<'_> {
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        self.mistake.help = Some(one_line(&help.into()));
        self
    }

    pub(super) fn also(self, place: &Range<usize>, what: impl Into<String>) -> Self {
        self.mistake.also = Some((place_in(self.source, place), one_line(&what.into())));
        self
    }
}

/// A range of the source as a place in what is shown: never more than one line, and never nothing.
fn place_in(source: &str, bytes: &Range<usize>) -> Place {
    let start = bytes.start.min(source.len());
    let before = &source[..start];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let end = bytes.end.clamp(start, source.len());
    let text = source[start..end].lines().next().unwrap_or("").trim_end();
    let shown_start = printable(before).len();
    let shown_len = printable(text).len().max(usize::from(start < source.len()));
    Place {
        line: before.matches('\n').count() + 1,
        column: source[line_start..start].chars().count() + 1,
        bytes: shown_start..shown_start + shown_len,
    }
}

/// The text with a harmless sign for every character that would act on a terminal.
///
/// One character stands for one character, so that lines and columns stay what they are.
pub(super) fn printable(text: &str) -> String {
    let mut characters = text.chars().peekable();
    let mut shown = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        shown.push(match character {
            '\n' | '\t' => character,
            // A line may end as it does on Windows.
            '\r' if characters.peek() == Some(&'\n') => ' ',
            // The control pictures of Unicode stand in the order of the control characters.
            '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
            '\x7f' => '\u{2421}',
            '\u{80}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}' => '\u{fffd}',
            other => other,
        });
    }
    shown
}

/// The same for a sentence or a name, which has no lines.
fn one_line(text: &str) -> String {
    printable(text)
        .replace('\n', "\u{240a}")
        .replace('\t', "\u{2409}")
}

/// The beginning of a text, where all of it would bury the sentence around it.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The nearest of some words, if one is near enough to be what was meant.
pub(crate) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            let near = strsim::jaro_winkler(&word, &candidate.to_lowercase());
            // A swap or two in a long word is a slip; in a word of three letters it is another word.
            let far = strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
            (candidate, near, far)
        })
        .filter(|(candidate, near, far)| *near > 0.85 || *far <= candidate.len() / 3)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(candidate, ..)| candidate)
}

/// The end of a sentence that says what was probably meant.
pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

/// `` `a`, `b` or `c` ``.
pub(super) fn one_of<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

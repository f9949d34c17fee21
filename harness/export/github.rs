//! Annotations of GitHub: workflow commands that put what did not hold beside the line of the drill's file.
//!
//! A command is a line of its own, so whatever could end it or begin another is escaped, as GitHub's toolkit does it.

use std::fmt::Write as _;

use super::objection::{excused, objections};
use super::{EndedRun, Kind};
use crate::report::{Style, one_line, tally};

/// GitHub shows this many errors, and as many warnings, of a step.
const SHOWN: usize = 10;

/// One command.
struct Annotation {
    level: &'static str,
    worst: Kind,
    place: Option<(String, usize)>,
    title: String,
    text: String,
}

/// An error for each objection, the worst first, since GitHub shows the first ten; a warning for each known answer; and a
/// notice that sums up. `folder` is the run's, as the user would type it.
#[must_use]
pub fn render_annotations(run: &EndedRun<'_>, folder: &str) -> String {
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for trial in run.results.in_order() {
        let place = run.place_of(&trial.drill, &trial.name);
        for objection in objections(trial, run.new_fails) {
            let (about, word) = (objection.about(), objection.kind.word());
            let said = match objection.kind {
                Kind::Snapshot => String::new(),
                _ if about == "trial" => format!(" {word}"),
                _ => format!(" {about} {word}"),
            };
            errors.push(Annotation {
                level: "error",
                worst: objection.kind,
                place: place.clone(),
                title: format!("{}{said}", trial.name),
                text: objection.sentence,
            });
        }
        for answer in excused(trial) {
            let because = run.known_because(&trial.drill, answer.question);
            let because = because.map_or(String::new(), |because| format!(" (known: {because})"));
            warnings.push(Annotation {
                level: "warning",
                worst: Kind::Broken,
                place: place.clone(),
                title: format!("{} {} known", trial.name, answer.question),
                text: format!("{}{because}", trial.sentence_of(answer)),
            });
        }
    }
    // A slice may have no trial, where there are fewer than slices.
    let is_empty_slice = run.facts.partition.is_some() && run.results.trials.is_empty();
    if !run.has_run() && !is_empty_slice {
        errors.push(Annotation {
            level: "error",
            worst: Kind::Error,
            place: None,
            title: "cargo drill".to_owned(),
            text: "Nothing was run, so nothing is proven.".to_owned(),
        });
    }
    errors.sort_by_key(|annotation| annotation.worst);
    let mut out = String::new();
    for annotation in errors.iter().chain(&warnings) {
        annotation.write(&mut out);
    }
    notice(run, folder, errors.len(), warnings.len()).write(&mut out);
    out
}

fn notice(run: &EndedRun<'_>, folder: &str, errors: usize, warnings: usize) -> Annotation {
    let mut text = format!(
        "{}. Bundle: {folder}",
        tally(&run.results.counts(), Style::plain(usize::MAX))
    );
    for (count, what) in [(errors, "errors"), (warnings, "warnings")] {
        if count > SHOWN {
            let _ = write!(
                text,
                ". GitHub shows {SHOWN} of {count} {what}; all are in {folder}/summary.md"
            );
        }
    }
    Annotation {
        level: "notice",
        worst: Kind::Snapshot,
        place: None,
        title: "cargo drill".to_owned(),
        text,
    }
}

impl Annotation {
    fn write(&self, out: &mut String) {
        let _ = write!(out, "::{} ", self.level);
        if let Some((file, line)) = &self.place {
            let _ = write!(out, "file={},line={line},", property(file));
        }
        let _ = writeln!(out, "title={}::{}", property(&self.title), data(&self.text));
    }
}

/// What stands behind the second `::`.
fn data(text: &str) -> String {
    one_line(text)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The value of a property, which a colon or a comma would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

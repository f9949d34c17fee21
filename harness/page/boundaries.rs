//! The line of boundaries of a drill that is crashed at every one of them.

use maud::{Markup, html};

use super::verdict::{class, glyph, of_trial};
use crate::report::{TrialResult, boundaries};

pub(super) fn lines(trials: &[(usize, &TrialResult)]) -> Markup {
    let all: Vec<&TrialResult> = trials.iter().map(|(_, trial)| *trial).collect();
    let place = |wanted: &TrialResult| {
        let found = trials
            .iter()
            .find(|(_, trial)| std::ptr::eq(*trial, wanted));
        found.map_or(0, |(place, _)| *place)
    };
    html! {
        @for (name, line) in boundaries::lines(&all) {
            h4 { (name) ": every boundary of the call" }
            ol.boundaries {
                @for trial in &line {
                    @let shape = of_trial(trial);
                    li.(class(shape)) {
                        a href={ "#t" (place(trial)) } {
                            span.glyph { (glyph(shape)) } " " (boundaries::short_name(trial))
                        }
                    }
                }
            }
            @let changes = boundaries::changes(&line);
            @if changes.is_empty() {
                p { "No answer changes along it." }
            } @else {
                p { "An answer changes at " (changes.join("; then at ")) "." }
            }
        }
    }
}

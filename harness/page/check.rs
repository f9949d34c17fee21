//! How a reader who believes nothing checks the bundle.

use maud::{Markup, html};

use super::reproduce::quoted;
use crate::report::{CHECKS, Check};

pub(super) fn section(shown_folder: &str, is_sealed: bool) -> Markup {
    html! {
        section aria-labelledby="check" {
            h2 id="check" { "How to check this bundle" }
            p {
                "This page is a rendering. The evidence lies beside it, and needs neither this page nor trust in it: "
                "every number of an event above is a line of a journal, counted from 0."
            }
            @if is_sealed {
                p { "All of it, offline: digests, chains, population, signature, and that each answer follows from its journal." }
                pre { code { "cargo drill verify " (quoted(shown_folder)) } }
                p { "With public tools alone, in bash and in the bundle's folder:" }
                @for check in &CHECKS { (one(check)) }
            } @else {
                p { "This run has no manifest of the whole, so nobody can tell what it lacks. What there is can be judged again:" }
                pre { code { "cargo drill judge " (quoted(shown_folder)) } }
            }
        }
    }
}

fn one(check: &Check) -> Markup {
    html! {
        details.check {
            summary { (check.title) }
            p { (super::verdict::with_code(check.about)) }
            pre { code { (check.script) } }
        }
    }
}

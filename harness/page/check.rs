//! How a reader who believes nothing checks the bundle.

use maud::{Markup, html};

use super::reproduce::quoted;

/// THE place for `report::how_to_check`: until it says more, the commands that work with any bundle.
pub(super) fn section(shown_folder: &str, is_sealed: bool) -> Markup {
    let judge = format!("cargo drill judge {}", quoted(shown_folder));
    html! {
        section aria-labelledby="check" {
            h2 id="check" { "How to check this bundle" }
            p { "This page is a rendering. The evidence is beside it, and needs neither this page nor trust in it." }
            p { "The answers again, from the journals alone, without running anything:" }
            pre { code { (judge) } }
            p {
                "Each line of a journal carries the SHA-256 of its canonical form (RFC 8785) without "
                code { "hash" } ", and the hash of the line before."
                @if is_sealed {
                    " " code { "manifest.json" } " has the last hash of each journal and the digest of every file, "
                    "this page among them."
                } @else {
                    " There is no manifest, so a journal that was cut does not show it."
                }
            }
        }
    }
}

//! The decision as a page of Markdown, for a job's summary or the comment on a merge request.
//!
//! What it quotes may come from a server that wants to deceive: nothing of it becomes a link, a tag or a row of its own.

use std::fmt::Write as _;

use super::decision::{Case, Decision};
use super::spans::spell_days;
use super::words::trials;
use crate::export::inert;

/// How many trials of one reason are shown with their sentences.
const SHOWN: usize = 3;

/// The page, with a newline at its end.
pub fn render_markdown(decision: &Decision) -> String {
    let mut page = format!("# {}\n", inert(&decision.headline()));
    let _ = writeln!(
        page,
        "\nBy the policy {} at {}.",
        inert(&decision.policy),
        inert(&decision.decided)
    );
    if !decision.reasons.is_empty() {
        page += "\n## Reasons\n\n";
    }
    for (n, reason) in (1..).zip(&decision.reasons) {
        let _ = writeln!(page, "{n}. **{}**", inert(&reason.because));
        for case in reason.cases.iter().take(SHOWN) {
            let change = case.change(reason.kind);
            let change = change.map(|change| format!("; {}", inert(&change)));
            let told = spell(case, reason.question.is_some());
            let _ = writeln!(page, "   - {told}{}", change.unwrap_or_default());
        }
        if let Some(more) = reason.cases.len().checked_sub(SHOWN).filter(|n| *n > 0) {
            let _ = writeln!(page, "   - and {more} more");
        }
    }
    if !decision.waived.is_empty() {
        page += "\n## Waived\n\n| question | server | until | trials | owner | reason |\n|---|---|---|---|---|---|\n";
    }
    for waived in &decision.waived {
        let _ = writeln!(
            page,
            "| {} | {} | {}, {} left | {} | {} | {} |",
            waived.question,
            inert(&waived.server),
            waived.until,
            spell_days(waived.days_left),
            waived.cases.len(),
            inert(&waived.owner),
            inert(&waived.reason)
        );
    }
    if !decision.notes.is_empty() {
        page += "\n## Notes\n\n";
    }
    for note in &decision.notes {
        let _ = writeln!(page, "- {}", inert(note));
    }
    page += "\n## Evidence\n\n| run | began | counts for | signed by | SHA-256 of its manifest |\n|---|---|---|---|---|\n";
    for bundle in &decision.evidence {
        let signers = match bundle.signers.as_slice() {
            [] => "—".to_owned(),
            signers => inert(&signers.join(", ")),
        };
        let _ = writeln!(
            page,
            "| {} | {} | {} | {signers} | `{}` |",
            inert(&bundle.run),
            inert(bundle.started.as_deref().unwrap_or("—")),
            trials(bundle.trials),
            inert(&bundle.manifest_sha256)
        );
    }
    page
}

fn spell(case: &Case, with_sentence: bool) -> String {
    let mut text = inert(&case.trial);
    if with_sentence {
        let _ = write!(text, ": {}", inert(&case.because));
    }
    if !case.events.is_empty() {
        let events: Vec<String> = case.events.iter().map(ToString::to_string).collect();
        let _ = write!(text, " (events {})", events.join(", "));
    }
    text
}

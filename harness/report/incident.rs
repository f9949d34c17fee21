//! The incident record as a page of Markdown, for whoever has to do something about it.
//!
//! Everything in it may come from the server under drill: it stands in code spans, without what could end them.

use std::fmt::Write as _;

use crate::judge::{Action, Incident, IncidentKind, Party};

/// One page for the incidents of a trial.
pub fn render_incidents(trial: &str, incidents: &[Incident]) -> String {
    let mut page = format!("# Incidents of {}\n", code(trial));
    for (n, incident) in incidents.iter().enumerate() {
        let _ = write!(page, "\n## {}. {}\n\n", n + 1, title(incident));
        page.push_str("| | |\n|---|---|\n");
        for (what, told) in rows(incident) {
            let _ = writeln!(page, "| {what} | {told} |");
        }
        let _ = write!(
            page,
            "\n**Follow-up required:** {}.\n",
            plain(&incident.follow_up)
        );
    }
    page
}

fn title(incident: &Incident) -> &'static str {
    match incident.kind {
        IncidentKind::Survivor => "A process outlived its session",
        IncidentKind::UnresolvedCall => "Nobody was told how a call ended",
    }
}

fn rows(incident: &Incident) -> Vec<(&'static str, String)> {
    let none = || "—".to_owned();
    let party = |party: &Option<Party>| party.as_ref().map_or_else(none, spell_party);
    let action = |action: &Option<Action>| action.as_ref().map_or_else(none, spell_action);
    let text = |text: &Option<String>| text.as_deref().map_or_else(none, code);
    let mut rows = vec![
        ("Observed at", code(&incident.observed_at)),
        ("Client process", party(&incident.client)),
        ("Server process", party(&incident.server)),
    ];
    if let Some(process) = &incident.process {
        rows.push(("Process", spell_party(process)));
    }
    if let Some(place) = &incident.place {
        rows.push((
            "Parent, group and session",
            format!("{}, {} and {}", place.parent, place.group, place.session),
        ));
        let orphan = match (place.os_orphan, place.logical_orphan) {
            (true, true) => "of its parent and of its session",
            (true, false) => "of its parent",
            (false, true) => "of its session",
            (false, false) => "no",
        };
        rows.push(("Orphan", orphan.to_owned()));
    }
    rows.extend([
        ("Run", code(&incident.run)),
        ("Call", code(&incident.call)),
        ("Approval", code(&incident.approval)),
        ("Decision", text(&incident.decision)),
        ("Authorisation", plain(&incident.authorisation)),
        ("Last successful action", action(&incident.last_success)),
        ("Last attempted action", action(&incident.last_attempt)),
        ("Target, as recorded", text(&incident.target)),
        ("Outcome, as recorded", text(&incident.recorded)),
        (
            "Remote jobs",
            if incident.remote_jobs.is_empty() {
                none()
            } else {
                let jobs: Vec<String> = incident.remote_jobs.iter().map(|job| code(job)).collect();
                jobs.join(", ")
            },
        ),
        (
            "Revoked",
            incident.revoked.as_ref().map_or_else(none, |revoked| {
                format!("{} by {}", code(&revoked.at), plain(&revoked.operator))
            }),
        ),
        (
            "Signals",
            if incident.signals.is_empty() {
                none()
            } else {
                let signals = incident.signals.iter();
                let spelled: Vec<String> = signals
                    .map(|sent| {
                        format!(
                            "{} at {}",
                            nix::sys::signal::Signal::from(sent.signal),
                            code(&sent.at)
                        )
                    })
                    .collect();
                spelled.join(", ")
            },
        ),
        ("Exit", text(&incident.exit)),
    ]);
    rows
}

fn spell_party(party: &Party) -> String {
    match &party.command {
        Some(command) => format!("pid {}: {}", party.pid, code(command)),
        None => format!("pid {}", party.pid),
    }
}

fn spell_action(action: &Action) -> String {
    format!(
        "{} at {}: {} (event {})",
        code(&action.operation),
        code(&action.at),
        plain(&action.result),
        action.event
    )
}

/// A code span in a cell of a table: nothing in it can end the span, the cell or the row.
fn code(text: &str) -> String {
    let inside: String = text
        .chars()
        .map(|c| match c {
            '`' => '\'',
            '|' => '¦',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    let inside = inside.trim();
    if inside.is_empty() {
        "—".to_owned()
    } else {
        format!("`{inside}`")
    }
}

/// Words of our own, which stand as they are but for what Markdown would take for something else.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '|' => '¦',
            '<' => '‹',
            '>' => '›',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_server_says_ends_its_cell() {
        let hostile = "x` | <script>alert(1)</script>\n| y";
        let shown = code(hostile);
        assert!(shown.starts_with('`') && shown.ends_with('`'));
        assert_eq!(shown.matches('`').count(), 2);
        assert!(!shown.contains('|') && !shown.contains('\n'));
        assert!(!plain(hostile).contains('<') && !plain(hostile).contains('|'));
    }
}

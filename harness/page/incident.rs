//! The incident records of a trial: what somebody has to know, and to do.

use maud::{Markup, html};

use crate::judge::{Action, Incident, IncidentKind, Party};

pub(crate) fn title(incident: &Incident) -> &'static str {
    match incident.kind {
        IncidentKind::Survivor => "A process outlived its session",
        IncidentKind::UnresolvedCall => "Nobody was told how a call ended",
    }
}

/// What is known of it, as name and text; what is not known is left out.
pub(crate) fn facts(incident: &Incident) -> Vec<(&'static str, String)> {
    let party = |party: &Option<Party>| party.as_ref().map(spell_party);
    let action = |action: &Option<Action>| action.as_ref().map(spell_action);
    let place = incident.place.as_ref().map(|place| {
        let orphan = match (place.os_orphan, place.logical_orphan) {
            (true, true) => "an orphan of its parent and of its session",
            (true, false) => "an orphan of its parent",
            (false, true) => "an orphan of its session",
            (false, false) => "no orphan",
        };
        let (parent, group, session) = (place.parent, place.group, place.session);
        format!("{orphan}; parent {parent}, group {group}, session {session}")
    });
    let signals: Vec<String> = incident
        .signals
        .iter()
        .map(|sent| {
            let signal = nix::sys::signal::Signal::from(sent.signal);
            format!("{signal} at {}", sent.at)
        })
        .collect();
    let revoked = incident.revoked.as_ref().map(|revoked| {
        let by = if revoked.operator.is_empty() {
            "the harness"
        } else {
            &revoked.operator
        };
        format!("{} by {by}", revoked.at)
    });
    let joined = |texts: &[String]| (!texts.is_empty()).then(|| texts.join(", "));
    let text = |text: &String| Some(text.clone());
    let all = [
        ("Observed at", text(&incident.observed_at)),
        ("Client process", party(&incident.client)),
        ("Server process", party(&incident.server)),
        ("Process", party(&incident.process)),
        ("Its place", place),
        ("Run", text(&incident.run)),
        ("Call", text(&incident.call)),
        ("Approval", text(&incident.approval)),
        ("Decision", incident.decision.clone()),
        ("Authorisation", text(&incident.authorisation)),
        ("Last successful action", action(&incident.last_success)),
        ("Last attempted action", action(&incident.last_attempt)),
        ("Target, as recorded", incident.target.clone()),
        ("Outcome, as recorded", incident.recorded.clone()),
        ("Remote jobs", joined(&incident.remote_jobs)),
        ("Revoked", revoked),
        ("Signals", joined(&signals)),
        ("Exit", incident.exit.clone()),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    known.filter(|(_, text)| !text.is_empty()).collect()
}

fn spell_party(party: &Party) -> String {
    match &party.command {
        Some(command) => format!("pid {}: {command}", party.pid),
        None => format!("pid {}", party.pid),
    }
}

fn spell_action(action: &Action) -> String {
    let Action {
        at,
        operation,
        result,
        event,
    } = action;
    format!("{operation} at {at}: {result} (event {event})")
}

pub(super) fn section(incidents: &[Incident]) -> Markup {
    html! {
        @for incident in incidents {
            article.incident {
                h5 { (title(incident)) }
                p.follow-up { strong { "To be done: " } (incident.follow_up) "." }
                dl.facts {
                    @for (name, text) in facts(incident) {
                        div { dt { (name) } dd { (text) } }
                    }
                }
            }
        }
    }
}

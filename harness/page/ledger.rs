//! The remote's side of a trial: what came over the wire, and what was applied.

use maud::{Markup, html};

use super::names::credential_name;
use super::tale::ms;
use crate::journal::{Event, Line};

/// So many requests of a trial stand in its table.
const MOST: usize = 60;

/// A request and what became of it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) number: u32,
    /// In ns since the trial's start.
    pub(crate) at: u64,
    /// Method and target.
    pub(crate) request: String,
    pub(crate) credential: String,
    pub(crate) key: Option<String>,
    /// What the remote made of it, in order.
    pub(crate) came: Vec<String>,
    /// An effect was applied, cancelled, or answered again.
    pub(crate) effect: Option<String>,
    /// What was sent back, in order.
    pub(crate) replies: Vec<String>,
    /// How often the same came one after the other, and when the last of them came.
    pub(crate) times: usize,
    pub(crate) until: u64,
}

impl Entry {
    /// Tells a reader the same as the one before.
    fn repeats(&self, other: &Self) -> bool {
        self.effect.is_none()
            && self.request == other.request
            && self.credential == other.credential
            && self.key == other.key
            && self.came == other.came
            && self.replies == other.replies
    }
}

/// All requests of a trial, in order; those that say the same one after the other stand together.
pub(crate) fn entries(lines: &[Line]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines {
        note(&mut entries, line);
    }
    let mut together: Vec<Entry> = Vec::new();
    for entry in entries {
        match together.last_mut() {
            Some(last) if entry.repeats(last) => {
                last.times += 1;
                last.until = entry.at;
            }
            _ => together.push(entry),
        }
    }
    together
}

fn note(entries: &mut Vec<Entry>, line: &Line) {
    let mut amend = |number: &u32, change: &dyn Fn(&mut Entry)| {
        if let Some(entry) = entries.iter_mut().rev().find(|e| e.number == *number) {
            change(entry);
        }
    };
    match &line.event {
        Event::RequestReceived {
            request,
            method,
            target,
            credential,
            key,
            ..
        } => entries.push(Entry {
            number: *request,
            at: line.at,
            request: format!("{method} {target}"),
            credential: credential_name(credential),
            key: key.clone(),
            came: Vec::new(),
            effect: None,
            replies: Vec::new(),
            times: 1,
            until: line.at,
        }),
        Event::RequestReplayed {
            request,
            as_request,
        } => {
            let first = entries.iter().rev().find(|e| e.number == *request).cloned();
            entries.extend(first.map(|first| Entry {
                number: *as_request,
                at: line.at,
                came: vec![format!("request {request} once more, by a proxy")],
                effect: None,
                replies: Vec::new(),
                times: 1,
                until: line.at,
                ..first
            }));
        }
        Event::RequestHeld { request } => amend(request, &|e| e.came.push("held".to_owned())),
        Event::RequestRefused { request, .. } => {
            amend(request, &|e| e.came.push("refused".to_owned()));
        }
        Event::RequestUnmatched { request, .. } => {
            amend(request, &|e| e.came.push("no such route".to_owned()));
        }
        Event::RouteFailed { request, .. } => {
            amend(request, &|e| {
                e.came
                    .push("the drill's reply could not be made".to_owned());
            });
        }
        Event::EffectApplied {
            request,
            effect,
            of,
            ..
        } => amend(request, &|e| {
            e.came.push(format!("applied: {of} {effect}"));
            e.effect = Some(effect.clone());
        }),
        Event::EffectRepeated {
            request, effect, ..
        } => amend(request, &|e| {
            e.came.push(format!("known key: {effect} again"));
        }),
        Event::KeyConflict { request, .. } => {
            amend(request, &|e| {
                e.came.push("known key, other payload".to_owned());
            });
        }
        Event::EffectCancelled { request, effect } => {
            amend(request, &|e| e.came.push(format!("cancelled: {effect}")));
        }
        Event::Decided { request, approved } => amend(request, &|e| {
            let word = if *approved {
                "approved"
            } else {
                "not approved"
            };
            e.came.push(word.to_owned());
        }),
        Event::RequestTurnedAway { request, .. } => {
            amend(request, &|e| e.came.push("turned away".to_owned()));
        }
        Event::ReplyHeld { request, status } => {
            amend(request, &|e| e.replies.push(format!("{status} withheld")));
        }
        Event::HalfReplySent {
            request, status, ..
        } => amend(request, &|e| e.replies.push(format!("half of {status}"))),
        Event::ReplyReplaced { request, status } => {
            amend(request, &|e| {
                e.replies.push(format!("{status} in its place"));
            });
        }
        Event::ConnectionReset { request } => {
            amend(request, &|e| e.replies.push("reset".to_owned()));
        }
        Event::ReplySlowed { request, status } => {
            amend(request, &|e| {
                e.replies.push(format!("{status}, byte by byte"));
            });
        }
        Event::ReplySent { request, status } => {
            amend(request, &|e| e.replies.push(format!("{status} sent")));
        }
        Event::ReplyLost { request, status } => {
            amend(request, &|e| e.replies.push(format!("{status} lost")));
        }
        _ => {}
    }
}

/// The two lists, as one table: the effects are marked in it, and counted below.
pub(super) fn section(entries: &[Entry]) -> Markup {
    let effects: Vec<&str> = entries.iter().filter_map(|e| e.effect.as_deref()).collect();
    html! {
        table.facts {
            caption { "What came over the wire, and what the remote made of it" }
            thead {
                tr {
                    th scope="col" { "When" }
                    th scope="col" { "Request" }
                    th scope="col" { "With" }
                    th scope="col" { "What came of it" }
                    th scope="col" { "Reply" }
                }
            }
            tbody {
                @for entry in entries.iter().take(MOST) {
                    tr.applied[entry.effect.is_some()] {
                        td.number data-label="When" { (ms(entry.at)) }
                        td data-label="Request" {
                            code { (entry.request) }
                            @if entry.times > 1 { br; (entry.times) " times, until " (ms(entry.until)) }
                        }
                        td data-label="With" {
                            (entry.credential)
                            @if let Some(key) = &entry.key { br; "key " code { (key) } }
                        }
                        td data-label="What came of it" {
                            @if entry.came.is_empty() { "answered" } @else { (entry.came.join(", then ")) }
                        }
                        td data-label="Reply" {
                            @if entry.replies.is_empty() { "none" } @else { (entry.replies.join(", then ")) }
                        }
                    }
                }
            }
        }
        @if entries.len() > MOST {
            p { (entries.len() - MOST) " more stand in " code { "journal.jsonl" } "." }
        }
        p {
            @match effects.len() {
                0 => "Nothing was applied.",
                1 => { "One effect was applied: " code { (effects[0]) } "." }
                n => { (n) " effects were applied: " code { (effects.join(", ")) } "." }
            }
        }
    }
}

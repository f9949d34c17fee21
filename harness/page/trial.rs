//! One trial: what it answered, and the evidence.

use std::collections::BTreeSet;
use std::path::Path;

use maud::{Markup, html};

use super::found::Kept;
use super::tale::Tale;
use super::verdict::{class, moment, of_trial, sentence, verdict, with_code};
use super::{glance, hosts, incident, ledger, processes, record, reproduce, timeline};
use crate::export::asks;
use crate::journal::{Event, Seq};
use crate::judge::{Answer, Code, Verdict};
use crate::report::{RunFacts, Shape, TrialResult, TrialVerdict};

/// So many events are named for an answer.
const MOST_EVENTS: usize = 12;
/// So many repeats of a trial are shown.
const MOST_REPEATS: usize = 3;
/// The files of a trial that a reader may open; each is text.
const FILES: [&str; 6] = [
    "journal.jsonl",
    "answers.json",
    "incidents.md",
    "drill.json",
    "record.jsonl",
    "otlp.jsonl",
];

/// What all trials of a page share.
pub(super) struct Setting<'r> {
    /// The run's folder.
    pub(super) folder: &'r Path,
    /// As a user would name it in a command.
    pub(super) shown_folder: &'r str,
    pub(super) facts: &'r RunFacts,
}

/// A run has room for the evidence of so many trials. Of those that held, the others have their answers here, and the rest
/// in the bundle: a page that no browser opens shows nothing at all.
pub(super) const MOST_IN_FULL: usize = 200;

/// A trial of the page, with its evidence where there is any. `weakens` takes in what its cell weakens.
pub(super) fn section(
    place: usize,
    trial: &TrialResult,
    cut_short: bool,
    setting: &Setting<'_>,
    weakens: &mut BTreeSet<String>,
) -> Markup {
    let shape = of_trial(trial);
    let open = trial.verdict != TrialVerdict::Held;
    let id = format!("t{place}");
    html! {
        section.trial.(class(shape)) aria-labelledby={ (id) "-name" } {
            details open[open] {
                summary {
                    h4 id={ (id) "-name" } { (glance::within_drill(trial)) }
                    " " (verdict(shape)) " "
                    span.note { (seconds(trial)) }
                }
                // A link to what is inside opens it.
                p.crash id=(id) { (moment(trial)) }
                @if cut_short {
                    p.trouble {
                        "This trial was cut short. Its answers are what the judge says of the journal up to there."
                    }
                }
                @if let Some(repeats) = trial.spell_repeats() {
                    p { "Carried out several times: " (repeats) "." }
                }
                @if let Some(error) = &trial.error {
                    p.trouble { strong { "Error: " } (error) }
                }
                (evidence(place, trial, setting, weakens))
                (again(trial, setting))
            }
        }
    }
}

fn seconds(trial: &TrialResult) -> String {
    crate::report::spell_seconds(trial.seconds)
}

/// Each folder of the trial that an answer rests on; the first where none objects.
fn evidence(
    place: usize,
    trial: &TrialResult,
    setting: &Setting<'_>,
    weakens: &mut BTreeSet<String>,
) -> Markup {
    if place >= MOST_IN_FULL && trial.verdict == TrialVerdict::Held {
        return html! {
            (answers(trial, &trial.answers.iter().collect::<Vec<_>>(), None))
            p { "What proves it, on a terminal:" }
            pre { code { (reproduce::shown(setting.shown_folder, &trial.name)) } }
        };
    }
    let bundles = bundles(trial);
    if bundles.is_empty() {
        return html! {
            (answers(trial, &trial.answers.iter().collect::<Vec<_>>(), None))
            p.none { "Nothing was kept of it." }
        };
    }
    let shown: Vec<Markup> = bundles
        .iter()
        .take(MOST_REPEATS)
        .enumerate()
        .map(|(n, bundle)| {
            let prefix = if n == 0 {
                format!("t{place}")
            } else {
                format!("t{place}r{n}")
            };
            let own: Vec<&Answer> = trial
                .answers
                .iter()
                .filter(|answer| trial.bundle_of(answer).as_ref() == Some(bundle))
                .collect();
            let heading = (bundles.len() > 1).then_some(bundle.as_str());
            one_folder(&prefix, trial, bundle, &own, heading, setting, weakens)
        })
        .collect();
    html! {
        @for shown in &shown { (shown) }
        @if bundles.len() > MOST_REPEATS {
            p { "Answers rest on " (bundles.len() - MOST_REPEATS) " more repeats, which are not shown here." }
        }
    }
}

/// The folders on which answers rest, in order.
pub(super) fn bundles(trial: &TrialResult) -> Vec<String> {
    let mut bundles: Vec<String> = Vec::new();
    for answer in &trial.answers {
        if let Some(bundle) = trial.bundle_of(answer)
            && !bundles.contains(&bundle)
        {
            bundles.push(bundle);
        }
    }
    if bundles.is_empty() {
        bundles.extend(trial.bundle.clone());
    }
    bundles
}

fn one_folder(
    prefix: &str,
    trial: &TrialResult,
    bundle: &str,
    own: &[&Answer],
    heading: Option<&str>,
    setting: &Setting<'_>,
    weakens: &mut BTreeSet<String>,
) -> Markup {
    let folder = setting.folder.join(bundle);
    let kept = Kept::read(&folder);
    for line in &kept.lines {
        if let Event::CellReady { weakens: these, .. } = &line.event {
            weakens.extend(these.iter().cloned());
        }
    }
    let moments = kept.judgement.as_ref().map_or_else(
        || trial.moments.clone(),
        |judgement| judgement.moments.clone(),
    );
    let cited: BTreeSet<Seq> = own
        .iter()
        .flat_map(|answer| answer.evidence.clone())
        .collect();
    let tale = Tale::of(&kept.lines, &moments, &cited);
    let looks = processes::looks(&kept.lines);
    let entries = ledger::entries(&kept.lines);
    let record = record::record(&kept.lines);
    let sought = hosts::lines(&kept.lines);
    html! {
        @if let Some(heading) = heading { h5.repeat { "From " code { (heading) } } }
        @for trouble in &kept.troubles { p.trouble { (trouble) } }
        div.evidence {
            @if !tale.rows.is_empty() {
                div.picture {
                    a.skip href={ "#" (prefix) "a" } { "Past the picture, to the answers" }
                    h5 { "What happened" }
                    (timeline::figure(&trial.name, prefix, &tale, &moments))
                }
            }
            div.told {
                h5 id={ (prefix) "a" } { "Answers" }
                (answers(trial, own, Some((prefix, &tale))))
                @if !sought.is_empty() {
                    h5 { "Sought besides the remote" }
                    (hosts::section(&sought))
                }
                @if !kept.incidents.is_empty() {
                    h5 { "Incident record" }
                    (incident::section(&kept.incidents))
                }
                @if !looks.is_empty() {
                    h5 { "Processes" }
                    (processes::section(&looks))
                }
                @if !entries.is_empty() {
                    h5 { "Ledger of the remote" }
                    (ledger::section(&entries))
                }
                @if let Some(record) = &record {
                    h5 { "The server's record" }
                    (record::section(record, record::named(&trial.answers)))
                }
                (files(&folder, bundle))
            }
        }
    }
}

fn answers(trial: &TrialResult, own: &[&Answer], evidence: Option<(&str, &Tale)>) -> Markup {
    html! {
        dl.answers {
            @for answer in worst_first(own) {
                div.(class(Shape::of(answer))) {
                    dt {
                        (verdict(Shape::of(answer))) " "
                        span.question { (answer.question) }
                        @if answer.verdict != Verdict::Held { span.asks { (asks(answer.question)) } }
                    }
                    dd {
                        p.sentence { (with_code(&sentence(trial, answer))) }
                        @for code in &answer.codes { (hint(*code)) }
                        @if let Some((prefix, tale)) = evidence { (events(answer, prefix, tale)) }
                    }
                }
            }
            @for skipped in &trial.skipped {
                div.left-out {
                    dt { (verdict(Shape::Skipped)) " " span.question { (skipped.question) } }
                    dd { (skipped.reason) }
                }
            }
        }
    }
}

/// What the catalogue says of a finding.
fn hint(code: Code) -> Markup {
    let finding = code.finding();
    html! {
        p.hint {
            code { (finding.id) } " " (with_code(finding.means)) " " strong { "What to do: " } (with_code(finding.hint))
        }
    }
}

fn worst_first<'a>(answers: &[&'a Answer]) -> Vec<&'a Answer> {
    let mut sorted = answers.to_vec();
    sorted.sort_by_key(|answer| std::cmp::Reverse(super::verdict::weight(Shape::of(answer))));
    sorted
}

/// The events that prove it, each a link to its row.
fn events(answer: &Answer, prefix: &str, tale: &Tale) -> Markup {
    html! {
        @if !answer.evidence.is_empty() {
            span.events {
                @if answer.evidence.len() == 1 { "event " } @else { "events " }
                @for (n, seq) in answer.evidence.iter().take(MOST_EVENTS).enumerate() {
                    @if n > 0 { ", " }
                    @match tale.row_of(*seq).and_then(|row| row.seqs.first()) {
                        Some(first) => a href={ "#" (prefix) "e" (first) } { (seq) },
                        None => (seq),
                    }
                }
                @if answer.evidence.len() > MOST_EVENTS {
                    " and " (answer.evidence.len() - MOST_EVENTS) " more"
                }
            }
        }
    }
}

/// Only names that are ours become links, and only below this page.
fn files(folder: &Path, bundle: &str) -> Markup {
    let there: Vec<&str> = FILES
        .into_iter()
        .filter(|file| folder.join(file).is_file())
        .collect();
    let path = percent_encoding::utf8_percent_encode(bundle, percent_encoding::NON_ALPHANUMERIC);
    html! {
        p.files {
            "In the bundle: "
            @for (n, file) in there.iter().enumerate() {
                @if n > 0 { ", " }
                a href={ "./" (path) "/" (file) } { (file) }
            }
        }
    }
}

fn again(trial: &TrialResult, setting: &Setting<'_>) -> Markup {
    html! {
        h5 { "To see it again" }
        p { "Carry this trial out, in the folder that holds the drills' folder:" }
        pre { code { (reproduce::again(trial, setting.facts, None)) } }
        @if let Some(bundle) = &trial.bundle {
            p { "Answer again from the files alone:" }
            pre { code { (reproduce::judged_again(setting.shown_folder, bundle)) } }
        }
    }
}

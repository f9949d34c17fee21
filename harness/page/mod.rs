//! The page of a run: one HTML file for a reader who was not there, has no reason to believe us, and has ten minutes.
//!
//! ```text
//!   Results, RunFacts ─┐
//!   each trial's folder ┴─> found ──> glance, controls        the answer first
//!                                  ├> trial, one by one ─┬─> tale ─> layout ─> timeline   the picture
//!                                  │                     └─> processes, ledger, record, incident
//!                                  └> check               how to do without this page
//! ```
//!
//! It is written trial by trial, so that a run of a thousand needs no more memory than one of ten. It needs no network and
//! no script, and its policy forbids both. What servers wrote is escaped as it is put in (that is what maud does with
//! every value), and what a reader would not see, such as a bidirectional override, is made visible as it is written out.
//! It decides nothing: a verdict that stands here was given by the judge.

#![forbid(unsafe_code)]

mod boundaries;
mod cast;
mod check;
mod controls;
pub(crate) mod found;
mod glance;
mod hosts;
pub(crate) mod incident;
mod layout;
pub(crate) mod ledger;
mod letters;
mod names;
pub(crate) mod processes;
pub(crate) mod record;
pub(crate) mod reproduce;
pub(crate) mod tale;
pub(crate) mod tell;
pub(crate) mod terminal;
#[cfg(test)]
mod tests;
mod timeline;
mod trial;
pub(crate) mod verdict;
mod wire;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::export::asks;
use crate::journal::printable;
use crate::report::{Results, RunFacts, write_with};
use found::Run;
use glance::Server;
pub(crate) use reproduce::quoted;

/// The page's file, in the run's folder.
pub(crate) const FILE: &str = "report.html";
const STYLE: &str = include_str!("style.css");

/// Writes the page of a run that has ended.
pub fn render(
    folder: &Path,
    results: &Results,
    facts: &RunFacts,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut run = Run::with(folder, results.clone(), facts.clone(), Vec::new());
    // The manifest is written last.
    run.is_sealed = true;
    render_run(folder, &run, out)
}

/// The page of a run's folder. One that was killed has none, and gets it now; to one that is sealed nothing is added.
pub(crate) fn at(folder: &Path) -> Result<PathBuf, String> {
    let page = folder.join(FILE);
    if page.is_file() {
        return Ok(page);
    }
    let run = Run::read(folder);
    let run = run.map_err(|error| format!("failed to read {}: {error}", folder.display()))?;
    if run.is_sealed {
        return Err(format!(
            "{} was sealed without a page: `cargo drill show` shows it on the terminal",
            folder.display()
        ));
    }
    let written = write_with(&page, |file| {
        let mut out = BufWriter::new(file);
        render_run(folder, &run, &mut out)?;
        out.flush()
    });
    match written {
        Ok(()) => Ok(page),
        Err(error) => Err(format!("failed to write {}: {error}", page.display())),
    }
}

fn render_run(folder: &Path, run: &Run, out: &mut impl io::Write) -> io::Result<()> {
    let results = &run.results;
    let shown_folder = format!("reports/runs/{}", results.run);
    let servers = glance::servers(results);
    put(out, html! { (DOCTYPE) (PreEscaped("<html lang=\"en\">")) })?;
    put(
        out,
        html! { (head(results)) (PreEscaped("<body>")) (skip_link()) },
    )?;
    put(out, top(run, &servers))?;
    put(
        out,
        html! { (PreEscaped("<main id=\"main\">")) (answer(run, &servers)) },
    )?;
    let setting = trial::Setting {
        folder,
        shown_folder: &shown_folder,
        facts: &run.facts,
    };
    let mut weakens = BTreeSet::new();
    for server in &servers {
        if !server
            .trials
            .iter()
            .any(|(_, trial)| verdict::was_run(trial))
        {
            continue;
        }
        let first = server.trials[0].0;
        put(
            out,
            html! {
                (PreEscaped(format!("<section class=\"server\" id=\"d-{first}\" aria-labelledby=\"d-{first}-name\">")))
                (about(server, &run.facts))
            },
        )?;
        for (place, trial) in &server.trials {
            if verdict::was_run(trial) {
                let cut_short = run.is_cut_short(trial);
                put(
                    out,
                    trial::section(*place, trial, cut_short, &setting, &mut weakens),
                )?;
            }
        }
        put(out, html! { (PreEscaped("</section>")) })?;
    }
    put(
        out,
        html! {
            (controls::section(results, &run.facts))
            (grounds(&weakens))
            (check::section(&shown_folder, run.is_sealed))
            (PreEscaped("</main></body></html>\n"))
        },
    )
}

/// All that is written goes through here: nothing that a reader would not see, or that would turn the text around, gets
/// into the page, wherever it comes from.
fn put(out: &mut impl io::Write, markup: Markup) -> io::Result<()> {
    out.write_all(printable(&markup.into_string()).as_bytes())
}

fn head(results: &Results) -> Markup {
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    );
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            meta name="robots" content="noindex";
            title { "Crash drill " (results.run) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

fn skip_link() -> Markup {
    html! { a.skip href="#main" { "To the answer" } }
}

fn top(run: &Run, servers: &[Server<'_>]) -> Markup {
    let results = &run.results;
    let facts = &run.facts;
    html! {
        header {
            p.kind { "Crash drill report" }
            h1 { "What did the servers do when their client died in the middle of a write?" }
            (glance::conclusion(servers))
            @for trouble in &run.troubles { p.trouble { (trouble) } }
            dl.run {
                div { dt { "Run" } dd { code { (results.run) } } }
                div { dt { "Started" } dd { (results.started) } }
                div {
                    dt { "Ended" }
                    dd { (results.finished.as_deref().unwrap_or("it did not")) }
                }
                @if let Some(commit) = &facts.commit {
                    div {
                        dt { "Commit" }
                        dd {
                            code { (commit.id) }
                            @match commit.dirty {
                                Some(true) => ", with changes that are not in it",
                                Some(false) => "",
                                None => ", as far as git could tell",
                            }
                        }
                    }
                }
                @if let Some(partition) = &facts.partition {
                    div { dt { "Part of the trials" } dd { code { (partition) } } }
                }
                @for shard in &facts.shards {
                    div { dt { "Joined from" } dd { code { (shard.run) } } }
                }
                @if let Some(cell) = &facts.cell { div { dt { "Cell" } dd { (cell) } } }
                div { dt { "Tool" } dd { (crate::trial::TOOL) } }
            }
        }
    }
}

fn answer(run: &Run, servers: &[Server<'_>]) -> Markup {
    let trials: Vec<_> = run.results.trials.iter().collect();
    let asked = glance::asked(&trials);
    html! {
        section aria-labelledby="glance" {
            h2 id="glance" { "At a glance" }
            (glance::table(servers, &asked))
            details.words {
                summary { "What the questions and the answers mean" }
                dl.questions {
                    @for question in &asked { div { dt { (question) } dd { (asks(*question)) } } }
                }
                (glance::legend())
            }
        }
        (glance::objections(&run.results))
        (glance::not_run(&run.results, &run.facts))
    }
}

/// A server, before its trials.
fn about(server: &Server<'_>, facts: &RunFacts) -> Markup {
    let first = server.trials[0].0;
    let drill = facts
        .drills
        .iter()
        .find(|drill| drill.drill == server.drill);
    let trials: Vec<_> = server.trials.iter().map(|(_, trial)| *trial).collect();
    let asked = glance::asked(&trials);
    html! {
        h2 id={ "d-" (first) "-name" } { (server.drill) " " (verdict::verdict(server.worst())) }
        @if let Some(drill) = drill {
            @if let Some(about) = &drill.about { p.about { (about) } }
            dl.run {
                div { dt { "Drill" } dd { code { (drill.file) } " sha256 " code.digest { (drill.sha256) } } }
                div { dt { "Server" } dd { code { (drill.server.command.join(" ")) } } }
                @for (file, digest) in &drill.server.files {
                    div { dt { "Of it" } dd { code { (file) } " sha256 " code.digest { (digest) } } }
                }
                @for package in &drill.server.packages {
                    div { dt { "Package" } dd { code { (package.url()) } } }
                }
                @if !drill.controls.is_empty() {
                    div { dt { "Controls" } dd { (drill.controls.join(", ")) } }
                }
            }
        }
        h3 { "Its trials" }
        (glance::trials(server, &asked))
        (boundaries::lines(&server.trials))
    }
}

/// What weakens all of it.
fn grounds(weakens: &BTreeSet<String>) -> Markup {
    html! {
        @if !weakens.is_empty() {
            section aria-labelledby="weakens" {
                h2 id="weakens" { "What this machine weakens" }
                ul { @for sentence in weakens { li { (sentence) } } }
            }
        }
    }
}

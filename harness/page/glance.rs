//! The answer first: servers by questions, what did not hold, and what was not run.

use maud::{Markup, html};

use super::verdict::{class, glyph, of_question, of_trial, verdict, was_run, weight, with_code};
use crate::export::asks;
use crate::report::{Results, Shape, TrialResult, TrialVerdict};
use crate::spec::Question;

/// So many crash points are named where an answer is the same at many.
const NAMED: usize = 6;

/// The trials of one drill, which is one server.
pub(super) struct Server<'r> {
    pub(super) drill: &'r str,
    /// With their places in the results.
    pub(super) trials: Vec<(usize, &'r TrialResult)>,
}

impl Server<'_> {
    fn run(&self) -> impl Iterator<Item = &TrialResult> {
        self.trials
            .iter()
            .map(|(_, trial)| *trial)
            .filter(|trial| was_run(trial))
    }

    pub(super) fn worst(&self) -> Shape {
        let shapes = self.run().map(of_trial);
        shapes
            .max_by_key(|shape| weight(*shape))
            .unwrap_or(Shape::Skipped)
    }

    /// The worst shape, and at how many of how many trials it stands.
    fn answer(&self, question: Question) -> Option<(Shape, usize, usize)> {
        let shapes: Vec<Shape> = self
            .run()
            .filter_map(|trial| of_question(trial, question))
            .collect();
        let worst = shapes.iter().copied().max_by_key(|shape| weight(*shape))?;
        let asked = shapes
            .iter()
            .filter(|shape| !matches!(shape, Shape::NotAsked | Shape::Skipped));
        let count = shapes.iter().filter(|shape| **shape == worst).count();
        Some((worst, count, asked.count()))
    }
}

/// The results by drill, in their order.
pub(super) fn servers(results: &Results) -> Vec<Server<'_>> {
    let mut servers: Vec<Server<'_>> = Vec::new();
    for (place, trial) in results.trials.iter().enumerate() {
        match servers.last_mut() {
            Some(server) if server.drill == trial.drill => server.trials.push((place, trial)),
            _ => servers.push(Server {
                drill: &trial.drill,
                trials: vec![(place, trial)],
            }),
        }
    }
    servers
}

/// The sentence that somebody reads who reads no other.
pub(super) fn conclusion(servers: &[Server<'_>]) -> Markup {
    let run: Vec<&Server<'_>> = servers
        .iter()
        .filter(|s| s.run().next().is_some())
        .collect();
    let count_of = |wanted: &[Shape]| {
        run.iter()
            .filter(|server| wanted.contains(&server.worst()))
            .count()
    };
    let held = count_of(&[Shape::Held]);
    let all = run.len();
    let trials: usize = run.iter().map(|server| server.run().count()).sum();
    let one = all == 1;
    let parts = [
        (count_of(&[Shape::Broken, Shape::Unstable]), Shape::Broken),
        (count_of(&[Shape::Unproven]), Shape::Unproven),
        (count_of(&[Shape::Error]), Shape::Error),
    ];
    html! {
        @if all == 0 {
            p.conclusion { span.verdict.left-out { "– not run" } " Nothing was run, so nothing is shown to hold." }
        } @else if held == all {
            p.conclusion {
                (verdict(Shape::Held)) " "
                @if one { "The server" } @else { "All " (all) " servers" }
                " answered every question as expected, in " (trials) " trials."
            }
        } @else {
            @for (count, shape) in parts {
                @if count > 0 {
                    p.conclusion {
                        (verdict(shape)) " "
                        @if one { "The server" } @else { (count) " of " (all) " servers" }
                        (meaning(shape))
                    }
                }
            }
            p {
                "There were " (trials) " trials."
                @if held > 0 { " In all of theirs, " (held) " of " (all) " servers held." }
            }
        }
    }
}

fn meaning(shape: Shape) -> &'static str {
    match shape {
        Shape::Unproven => ": the evidence does not decide every answer, which counts like broken.",
        Shape::Error => ": a trial could not be carried through, which says nothing of the server.",
        _ => " did something that a server must not do, and the events prove it.",
    }
}

/// Servers by questions.
pub(super) fn table(servers: &[Server<'_>], asked: &[Question]) -> Markup {
    let run = servers
        .iter()
        .filter(|server| server.run().next().is_some());
    html! {
        table class={ "matrix glance q" (asked.len()) } role="table" {
            caption { "Servers by questions: the worst answer of all trials, and in how many of them it stands where it is not all" }
            (head("Server", asked))
            tbody role="rowgroup" {
                @for server in run {
                    tr role="row" {
                        th scope="row" role="rowheader" {
                            a href={ "#d-" (server.trials[0].0) } { (server.drill) }
                            " " (verdict(server.worst()))
                        }
                        @for question in asked {
                            @match server.answer(*question) {
                                None => (empty()),
                                Some((shape, count, all)) => (cell(shape, (count < all).then(|| format!("{count}/{all}")))),
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The trials of one server by questions.
pub(super) fn trials(server: &Server<'_>, asked: &[Question]) -> Markup {
    html! {
        table class={ "matrix q" (asked.len()) } role="table" {
            caption { "Crash points by questions" }
            (head("Crash point", asked))
            tbody role="rowgroup" {
                @for (place, trial) in &server.trials {
                    @if was_run(trial) {
                        tr role="row" {
                            th scope="row" role="rowheader" {
                                a href={ "#t" (place) } { (within_drill(trial)) }
                                " " (verdict(of_trial(trial)))
                            }
                            @for question in asked {
                                @match of_question(trial, *question) {
                                    None => (empty()),
                                    Some(shape) => (cell(shape, None)),
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn head(first: &str, asked: &[Question]) -> Markup {
    html! {
        thead role="rowgroup" {
            tr role="row" {
                th scope="col" role="columnheader" { (first) }
                @for question in asked {
                    th scope="col" role="columnheader" { span title=(asks(*question)) { (question) } }
                }
            }
        }
    }
}

pub(super) fn cell(shape: Shape, portion: Option<String>) -> Markup {
    html! {
        td.(class(shape)) role="cell" {
            span.glyph aria-hidden="true" { (glyph(shape)) } " "
            span.word { (shape.word()) }
            @if let Some(portion) = portion { " " span.share { (portion) } }
        }
    }
}

fn empty() -> Markup {
    html! { td role="cell" { span.word { "no answer" } } }
}

/// The name of a trial without that of its drill.
pub(super) fn within_drill(trial: &TrialResult) -> &str {
    let rest = trial.name.strip_prefix(&trial.drill);
    rest.and_then(|rest| rest.strip_prefix("::"))
        .unwrap_or(&trial.name)
}

/// The questions that some trial was asked.
pub(super) fn asked(trials: &[&TrialResult]) -> Vec<Question> {
    let is_asked = |question: &Question| {
        trials
            .iter()
            .any(|trial| !matches!(of_question(trial, *question), None | Some(Shape::NotAsked)))
    };
    Question::ALL.into_iter().filter(is_asked).collect()
}

/// What the shapes mean, all of them.
pub(super) fn legend() -> Markup {
    let meaning = |shape| match shape {
        Shape::Held => "the events prove it",
        Shape::Broken => "they prove the opposite",
        Shape::Unproven => "they do not decide it, which counts like broken",
        Shape::Error => "the tool's fault or the machine's, never the server's",
        Shape::Unstable => "repeats of the trial do not agree",
        Shape::Known => "broken, and the drill says so beforehand",
        Shape::Skipped => "the drill gives a reason",
        Shape::NotAsked => "the question does not arise there",
    };
    html! {
        ul.verdicts {
            @for shape in Shape::ALL { li { (verdict(shape)) ": " (meaning(shape)) } }
        }
    }
}

/// What did not hold: an answer once, with the crash points at which it stands.
pub(super) fn objections(results: &Results) -> Markup {
    let groups = grouped(results);
    html! {
        @if !groups.is_empty() {
            section aria-labelledby="objections" {
                h2 id="objections" { "What did not hold" }
                ol.objections {
                    @for group in &groups { (objection(group)) }
                }
            }
        }
    }
}

struct Objection<'r> {
    drill: &'r str,
    what: String,
    shape: Shape,
    sentence: String,
    trials: Vec<(usize, &'r TrialResult)>,
}

fn grouped(results: &Results) -> Vec<Objection<'_>> {
    let mut groups: Vec<Objection<'_>> = Vec::new();
    for (place, trial) in results.trials.iter().enumerate() {
        let mut add = |what: String, shape: Shape, sentence: String| {
            let same = groups.iter_mut().find(|group| {
                group.drill == trial.drill && group.what == what && group.shape == shape
            });
            match same {
                Some(group) => group.trials.push((place, trial)),
                None => groups.push(Objection {
                    drill: &trial.drill,
                    what,
                    shape,
                    sentence,
                    trials: vec![(place, trial)],
                }),
            }
        };
        for (answers, sentence) in trial.grouped_objections() {
            let names: Vec<String> = answers.iter().map(|a| a.question.to_string()).collect();
            // What holds although it is known to be broken objects as well.
            let shape = answers
                .first()
                .map_or(Shape::Unproven, |answer| Shape::of(answer));
            let shape = if shape == Shape::Held {
                Shape::Known
            } else {
                shape
            };
            add(names.join(", "), shape, sentence);
        }
        if let Some(error) = &trial.error {
            add("the trial itself".to_owned(), Shape::Error, error.clone());
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(weight(group.shape)));
    groups
}

fn objection(group: &Objection<'_>) -> Markup {
    html! {
        li {
            p.what {
                (verdict(group.shape)) " " strong { (group.drill) ": " (group.what) }
                " at "
                @for (n, (place, trial)) in group.trials.iter().take(NAMED).enumerate() {
                    @if n > 0 { ", " }
                    a href={ "#t" (place) } { (within_drill(trial)) }
                }
                @if group.trials.len() > NAMED { " and " (group.trials.len() - NAMED) " more" }
            }
            p.sentence {
                (with_code(&group.sentence))
                @if group.trials.len() > 1 { span.note { " (at the first of them)" } }
            }
        }
    }
}

/// What was found and not run, together where the reason is the same.
pub(super) fn not_run(results: &Results, facts: &crate::report::RunFacts) -> Markup {
    let ignored = results
        .trials
        .iter()
        .filter(|trial| trial.verdict == TrialVerdict::Ignored)
        .map(|trial| {
            (
                trial.reason.as_deref().unwrap_or("ignored"),
                trial.name.as_str(),
            )
        });
    // What was ignored stands in the results as well. What has neither a result nor a reason, nobody came to.
    let others = facts.population.iter().filter_map(|entry| {
        let name = entry.trial.as_deref().unwrap_or(&entry.drill);
        let has_result = results.trials.iter().any(|trial| trial.name == name);
        let reason = entry
            .not_run
            .as_deref()
            .unwrap_or("the run ended before it");
        (!has_result).then_some((reason, name))
    });
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (reason, name) in ignored.chain(others) {
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    html! {
        @if !groups.is_empty() {
            section aria-labelledby="not-run" {
                h2 id="not-run" { "What was not run" }
                p { "These trials were found. Of them this run shows nothing." }
                ul {
                    @for (reason, names) in &groups {
                        li {
                            (names.len()) " "
                            @if names.len() == 1 { "trial" } @else { "trials" }
                            ": " (reason)
                            details {
                                summary { "Which" }
                                p { (names.join(", ")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

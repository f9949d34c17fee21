//! The controls that the drills are evidence for.
//!
//! A control without a drill that ran is not evidenced, whatever else held.

use maud::{Markup, html};

use super::glance::Server;
use super::verdict::{asks, of_question, verdict, was_run, weight};
use crate::report::{RunFacts, Shape, TrialResult};
use crate::spec::Question;

/// A control, and each drill that names it.
struct Control<'f> {
    name: &'f str,
    drills: Vec<&'f str>,
}

pub(super) fn section(servers: &[Server<'_>], facts: &RunFacts) -> Markup {
    let controls = controls(facts);
    html! {
        section aria-labelledby="controls" {
            h2 id="controls" { "Controls" }
            @if controls.is_empty() {
                p { "No drill of this run names a control, so this run is evidence for none." }
            } @else {
                p {
                    "A control is evidenced by the drills that name it, as far as they were run. What an answer is worth "
                    "for a control, the reader decides."
                }
                @for control in &controls { (one(control, servers)) }
            }
        }
    }
}

fn controls(facts: &RunFacts) -> Vec<Control<'_>> {
    let mut controls: Vec<Control<'_>> = Vec::new();
    for drill in &facts.drills {
        for name in &drill.controls {
            match controls.iter_mut().find(|control| control.name == name) {
                Some(control) => control.drills.push(&drill.drill),
                None => controls.push(Control {
                    name,
                    drills: vec![&drill.drill],
                }),
            }
        }
    }
    controls.sort_by_key(|control| control.name);
    controls
}

fn one(control: &Control<'_>, servers: &[Server<'_>]) -> Markup {
    html! {
        h3 { (control.name) }
        @for drill in &control.drills {
            @let run = run_of(drill, servers);
            p.control {
                strong { (drill) } " "
                @if run.is_empty() {
                    span.verdict.unproven { span aria-hidden="true" { "?" } " not evidenced" }
                    ": no trial of this drill was run."
                } @else {
                    (run.len()) @if run.len() == 1 { " trial" } @else { " trials" } " ran."
                }
            }
            @if !run.is_empty() {
                ul.evidence {
                    @for (question, shape) in answers(&run) {
                        li { (verdict(shape)) " " span title=(asks(question)) { (question) } }
                    }
                }
            }
        }
    }
}

fn run_of<'s>(drill: &str, servers: &'s [Server<'_>]) -> Vec<&'s TrialResult> {
    servers
        .iter()
        .filter(|server| server.drill == drill)
        .flat_map(|server| server.trials.iter().map(|(_, trial)| *trial))
        .filter(|trial| was_run(trial))
        .collect()
}

/// The worst answer to each question that was asked.
fn answers(trials: &[&TrialResult]) -> Vec<(Question, Shape)> {
    let worst = |question| {
        let shapes = trials
            .iter()
            .filter_map(|trial| of_question(trial, question));
        let worst = shapes.max_by_key(|shape| weight(*shape))?;
        (worst != Shape::NotAsked).then_some((question, worst))
    };
    Question::ALL.into_iter().filter_map(worst).collect()
}

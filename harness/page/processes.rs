//! The processes of a trial before the crash, after it, and once everything was stopped.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use super::cast::Cast;
use super::names::moment_name;
use crate::journal::{Event, Exit, Line, Moment, Pid, PipeEnd, Process};

/// One look, as trees.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) moment: Moment,
    /// Those whose parents are not among them come first.
    pub(crate) roots: Vec<Node>,
    /// Who was there at the look before and is not any more, and how it ended where that is known.
    pub(crate) gone: Vec<(String, Option<Exit>)>,
}

/// A process and those that it started.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its part in the trial, and its pid.
    pub(crate) name: String,
    pub(crate) command: String,
    /// What is to be said of it, a few words each.
    pub(crate) remarks: Vec<String>,
    pub(crate) children: Vec<Node>,
}

/// Before the crash, after the observation, and when everything was stopped, as far as they were looked at.
pub(crate) fn looks(lines: &[Line]) -> Vec<Look> {
    let cast = Cast::of(lines);
    let exits = exits(lines);
    let look_at = |wanted: &[Moment]| {
        wanted.iter().find_map(|wanted| {
            lines.iter().find_map(|line| match &line.event {
                Event::Looked {
                    moment, processes, ..
                } if moment == wanted => Some((*moment, processes)),
                _ => None,
            })
        })
    };
    let before = look_at(&[Moment::Point, Moment::Dispatch]);
    let after = look_at(&[Moment::End, Moment::Deadline, Moment::ClientGone]);
    let stopped = look_at(&[Moment::AfterStop, Moment::AfterTerm]);
    let mut known: Option<&Vec<Process>> = None;
    let mut looks = Vec::new();
    for (moment, processes) in [before, after, stopped].into_iter().flatten() {
        looks.push(Look {
            moment,
            roots: trees(processes, known.map(Vec::as_slice), &cast),
            gone: gone(processes, known.map_or(&[], Vec::as_slice), &cast, &exits),
        });
        known = Some(processes);
    }
    looks
}

fn exits(lines: &[Line]) -> BTreeMap<Pid, Exit> {
    let ended = lines.iter().filter_map(|line| match &line.event {
        Event::ProcessExited { pid, exit, .. } | Event::ClientGone { pid, exit } => {
            Some((*pid, *exit))
        }
        _ => None,
    });
    ended.collect()
}

fn gone(
    now: &[Process],
    before: &[Process],
    cast: &Cast,
    exits: &BTreeMap<Pid, Exit>,
) -> Vec<(String, Option<Exit>)> {
    before
        .iter()
        .filter(|process| now.iter().all(|other| other.pid != process.pid))
        .map(|process| (cast.name(process.pid), exits.get(&process.pid).copied()))
        .collect()
}

fn trees(processes: &[Process], before: Option<&[Process]>, cast: &Cast) -> Vec<Node> {
    let pids: BTreeSet<Pid> = processes.iter().map(|process| process.pid).collect();
    // A journal that somebody made up could have parents that go in a circle: each process stands in one place.
    let mut left: Vec<&Process> = processes.iter().collect();
    let roots: Vec<&Process> = left
        .iter()
        .copied()
        .filter(|process| !pids.contains(&process.ppid) || process.ppid == process.pid)
        .collect();
    left.retain(|process| roots.iter().all(|root| root.pid != process.pid));
    let mut nodes: Vec<Node> = roots
        .into_iter()
        .map(|root| node(root, &mut left, before, cast))
        .collect();
    while let Some(next) = left.pop() {
        nodes.push(node(next, &mut left, before, cast));
    }
    nodes
}

fn node<'p>(
    process: &'p Process,
    left: &mut Vec<&'p Process>,
    before: Option<&[Process]>,
    cast: &Cast,
) -> Node {
    let (children, others): (Vec<&Process>, Vec<&Process>) =
        left.iter().partition(|other| other.ppid == process.pid);
    *left = others;
    Node {
        name: cast.name(process.pid),
        command: if process.argv.is_empty() {
            process.comm.clone()
        } else {
            process.argv.join(" ")
        },
        remarks: remarks(process, before),
        children: children
            .into_iter()
            .map(|child| node(child, left, before, cast))
            .collect(),
    }
}

fn remarks(process: &Process, before: Option<&[Process]>) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut say = |text: &str| remarks.push(text.to_owned());
    if process.is_zombie() {
        say("a zombie: nobody has asked how it ended");
    }
    if process.state == 'T' {
        say("stopped");
    }
    if let Some(before) = before {
        match before.iter().find(|known| known.pid == process.pid) {
            None => say("new"),
            Some(known) if known.ppid != process.ppid => say(&format!(
                "lost its parent {}: now it is {}",
                known.ppid, process.ppid
            )),
            Some(_) if !process.is_zombie() => say("still there"),
            Some(_) => {}
        }
    }
    if process.holds.contains(&PipeEnd::StdinWrite) {
        say("holds the write end of the server's stdin");
    }
    if process.sid == process.pid {
        say("leads a session of its own");
    }
    if !process.readable {
        say("could not be looked into");
    }
    for secret in &process.secrets_in_argv {
        say(&format!("{secret} in its arguments"));
    }
    for secret in &process.secrets_in_environ {
        say(&format!("{secret} in its environment"));
    }
    remarks
}

/// The looks beside each other.
pub(super) fn section(looks: &[Look]) -> Markup {
    html! {
        div.looks {
            @for look in looks {
                div.look {
                    h5 { (heading(look.moment)) }
                    p.when { (moment_name(look.moment)) }
                    @if look.roots.is_empty() {
                        p.none { "No process was left." }
                    } @else {
                        (tree(&look.roots))
                    }
                    @if !look.gone.is_empty() {
                        p.gone {
                            "Gone: "
                            @for (n, (name, exit)) in look.gone.iter().enumerate() {
                                @if n > 0 { "; " }
                                (name)
                                @if let Some(exit) = exit { ", " (exit) }
                            }
                            "."
                        }
                    }
                }
            }
        }
    }
}

fn heading(moment: Moment) -> &'static str {
    match moment {
        Moment::Point | Moment::Dispatch => "Before the crash",
        Moment::AfterStop | Moment::AfterTerm => "When all was stopped",
        _ => "After it",
    }
}

fn tree(nodes: &[Node]) -> Markup {
    html! {
        ul.tree {
            @for node in nodes {
                li {
                    span.who { (node.name) }
                    " " code { (node.command) }
                    @for remark in &node.remarks {
                        " " span.remark { (remark) }
                    }
                    @if !node.children.is_empty() { (tree(&node.children)) }
                }
            }
        }
    }
}

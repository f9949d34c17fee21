//! Spinning, which is part of `quiet`: a process that wants the CPU all the time and comes no nearer to an end.
//!
//! What ends is work, however long it took and however loaded the machine is: the trial looks at one window after another
//! until the server has had its time to exit. What wants the CPU up to then and meanwhile reads and writes nothing spins. What
//! reads or writes may be on its way to an end, and nobody can tell.
//!
//! Time wanting to run is measured, not CPU share: on a loaded machine a spinner gets little.
#![forbid(unsafe_code)]

use crate::journal::{Event, QuietWindow, Work};

use super::code::Code;
use super::finding::Findings;
use super::history::History;
use super::quiet::is_answerable;
use super::sentence::{Sentence, say};

/// A window shorter than this says nothing about the CPU: the scheduler's share is too coarse.
const SHORTEST_WINDOW: u64 = 200_000_000;

pub(super) fn judge(history: &History<'_>, findings: &mut Findings) {
    let Some(ended) = history.quiet_ended() else {
        findings.unproven(
            Code::QuietNotWatched,
            say("the quiet period was not watched to its end"),
            [],
        );
        return;
    };
    let Event::QuietEnded { empty, windows } = ended.event else {
        return;
    };
    let Some((last, earlier)) = windows.split_last().filter(|_| !*empty) else {
        return;
    };
    let answerable = |work: &&Work| is_answerable(history, work.pid);
    if last.length < SHORTEST_WINDOW {
        if last.work.iter().any(|work| answerable(&work)) {
            findings.unproven(
                Code::QuietNotWatched,
                say("a quiet period of ")
                    .time(last.length)
                    .text(" is too short to tell spinning from working"),
                [ended.seq],
            );
        }
        return;
    }
    for work in last.work.iter().filter(answerable) {
        if !is_busy(last, work) {
            continue;
        }
        let before = earlier.last().and_then(|window| {
            let work = window.work.iter().find(|before| before.pid == work.pid)?;
            Some((window, work))
        });
        let told = history.cast.called(work.pid);
        let (code, told) = sentence(told, windows, (last, work), before);
        match code {
            Code::QuietSpinning => findings.broken(code, told, [ended.seq]),
            _ => findings.unproven(code, told, [ended.seq]),
        };
    }
}

fn is_busy(window: &QuietWindow, work: &Work) -> bool {
    work.wanted > window.length / 2
}

fn sentence(
    told: Sentence,
    windows: &[QuietWindow],
    (last, work): (&QuietWindow, &Work),
    before: Option<(&QuietWindow, &Work)>,
) -> (Code, Sentence) {
    let wanted = |told: Sentence, (window, work): (&QuietWindow, &Work)| {
        told.time(work.wanted).text(" of ").time(window.length)
    };
    let told = |verb: &str| {
        let all: u64 = windows.iter().map(|window| window.length).sum();
        let begun = told
            .text(format!(" {verb} at the end of a quiet period of "))
            .time(all)
            .text(": it wanted the CPU for ");
        wanted(begun, (last, work))
    };
    let Some(before) = before.filter(|(window, work)| is_busy(window, work)) else {
        let told = told("was working").text(", and not in the window before");
        return (Code::QuietWorkUndecided, told);
    };
    let passed = [work, before.1].into_iter().filter_map(|work| work.passed);
    match passed.reduce(u64::saturating_add) {
        Some(bytes) if bytes > 0 => {
            let told = wanted(told("was working").text(", and before that for "), before)
                .text(", and read and wrote ")
                .varies(format!("{bytes} bytes"), "some bytes")
                .text(" meanwhile; whether it comes to an end was not seen");
            (Code::QuietWorkUndecided, told)
        }
        passed => {
            let nothing = match passed {
                Some(_) => ", and read and wrote nothing",
                None => "; what it read and wrote could not be seen",
            };
            let told = wanted(told("was spinning").text(", and before that for "), before);
            (Code::QuietSpinning, told.text(nothing))
        }
    }
}

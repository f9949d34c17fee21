//! The difference on a terminal.

use std::fmt::Write as _;

use super::difference::{
    AnswerChange, Difference, Lone, Pair, Shown, SubjectChange, Told, TrialChange,
};
use crate::journal::excerpt;
use crate::report::{Shape, Style};

const INDENT: usize = 4;
/// How many trials are named that only one run has.
const NAMED: usize = 10;
/// How much of an event is shown, in bytes.
const LONGEST: usize = 400;
/// How much of a digest tells two apart.
const DIGEST: usize = 12;

/// The difference, with a newline at its end.
pub fn render_difference(difference: &Difference, style: &Style) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}\n",
        style.bold(&format!("A  {}\nB  {}", difference.a, difference.b))
    );
    for change in &difference.trials {
        trial(&mut out, change, *style);
    }
    lone(&mut out, "only in A", &difference.only_a, *style);
    lone(&mut out, "only in B", &difference.only_b, *style);
    subjects(&mut out, &difference.subjects, *style);
    let _ = writeln!(out, "{}", style.bold(&summary(difference)));
    out
}

fn summary(difference: &Difference) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let answers = difference
        .trials
        .iter()
        .map(|trial| trial.answers.len())
        .sum();
    let same = count(difference.same, "answer");
    if !difference.is_change() {
        return format!("no answer changed: {same} the same");
    }
    let mut parts = vec![format!(
        "{} changed in {}",
        count(answers, "answer"),
        count(difference.trials.len(), "trial")
    )];
    let lone = difference.only_a.len() + difference.only_b.len();
    if lone > 0 {
        parts.push(format!("{} in one run alone", count(lone, "trial")));
    }
    parts.push(format!("{same} the same"));
    parts.join(", ")
}

fn trial(out: &mut String, change: &TrialChange, style: Style) {
    let arrow = arrow(style);
    let verdicts = if change.a.verdict == change.b.verdict {
        change.b.verdict.to_string()
    } else {
        format!("{} {arrow} {}", change.a.verdict, change.b.verdict)
    };
    let verdicts = style.paint(Shape::from(change.b.verdict), &verdicts);
    let _ = writeln!(out, "{}  {verdicts}", style.bold(&change.trial));
    for (label, ended) in [("A", &change.a), ("B", &change.b)] {
        if let Some(because) = &ended.because {
            line(out, label, because, style);
        }
    }
    for change in &change.answers {
        answer(out, change, style);
    }
    out.push('\n');
}

fn answer(out: &mut String, change: &AnswerChange, style: Style) {
    let (a, b) = (word(&change.a), word(&change.b));
    let words = if a == b {
        b
    } else {
        format!("{a} {} {b}", arrow(style))
    };
    let words = style.paint(shape(&change.b), &words);
    let _ = writeln!(out, "  {}  {words}", change.question);
    for (label, told) in [("A", &change.a), ("B", &change.b)] {
        match told {
            Told::Answered { because, .. } => line(out, label, because, style),
            Told::LeftOut { reason } => line(out, label, reason, style),
            Told::NotAsked => {}
        }
    }
    let mut say = |text: &str| {
        let text = style.dim(&style.sentence(text, INDENT + 3));
        let _ = writeln!(out, "{}{text}", " ".repeat(INDENT + 3));
    };
    if let Some(because) = &change.unread {
        say(&format!("its events cannot be shown: {because}"));
    } else if change.events.is_empty() && change.same_events > 0 {
        say("the events are the same: what is asked of them has changed");
    } else if change.same_events > 0 {
        say(&match change.same_events {
            1 => "besides 1 event that is the same:".to_owned(),
            n => format!("besides {n} events that are the same:"),
        });
    }
    for pair in &change.events {
        let from = shared(pair);
        for (label, shown) in [("A", &pair.a), ("B", &pair.b)] {
            if let Some(Shown { seq, event }) = shown {
                let event = excerpt_from(event, from);
                let label = format!("{label} {seq:>4}");
                let indent = INDENT + 3 + label.len() + 2;
                let text = style.sentence(&event, indent);
                let _ = writeln!(
                    out,
                    "{}{}  {text}",
                    " ".repeat(INDENT + 3),
                    style.dim(&label)
                );
            }
        }
    }
}

/// How many bytes of a long pair of events need not be shown, since they begin alike.
fn shared(pair: &Pair) -> usize {
    let (Some(a), Some(b)) = (&pair.a, &pair.b) else {
        return 0;
    };
    let alike = a.event.chars().zip(b.event.chars());
    let alike = alike.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8());
    let alike: usize = alike.sum();
    if alike < LONGEST / 2 {
        0
    } else {
        alike - LONGEST / 4
    }
}

/// The kind of an event, and what stands from there on.
fn excerpt_from(event: &str, from: usize) -> String {
    let from = (from..=event.len()).find(|at| event.is_char_boundary(*at));
    match from {
        None | Some(0) => excerpt(event, LONGEST),
        Some(from) => {
            let kind = event.split(' ').next().unwrap_or_default();
            format!("{kind} … {}", excerpt(&event[from..], LONGEST))
        }
    }
}

fn line(out: &mut String, label: &str, text: &str, style: Style) {
    let text = style.sentence(text, INDENT + 3);
    let _ = writeln!(out, "{}{}  {text}", " ".repeat(INDENT), style.dim(label));
}

fn lone(out: &mut String, label: &str, trials: &[Lone], style: Style) {
    if trials.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.bold(label));
    for lone in trials.iter().take(NAMED) {
        let verdict = lone.verdict.map_or("not run".to_owned(), |v| v.to_string());
        let _ = writeln!(out, "{}{}  {verdict}", " ".repeat(INDENT), lone.trial);
    }
    if let Some(more) = trials.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let _ = writeln!(out, "{}and {more} more", " ".repeat(INDENT));
    }
    out.push('\n');
}

fn subjects(out: &mut String, changes: &[SubjectChange], style: Style) {
    if changes.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", style.bold("what was drilled"));
    for change in changes {
        let short = |value: &Option<String>| {
            let value = value.as_deref().unwrap_or("none");
            let is_digest =
                value.len() >= 40 && value.bytes().take(40).all(|b| b.is_ascii_hexdigit());
            let (head, tail) = value.split_at(if is_digest { DIGEST } else { value.len() });
            let tail = tail.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            format!("{head}{tail}")
        };
        let whose = change
            .drill
            .as_deref()
            .map_or(String::new(), |drill| format!("{drill}: "));
        let text = format!(
            "{whose}{} {} {} {}",
            change.what,
            short(&change.a),
            arrow(style),
            short(&change.b)
        );
        let _ = writeln!(
            out,
            "{}{}",
            " ".repeat(INDENT),
            style.sentence(&text, INDENT)
        );
    }
    out.push('\n');
}

fn word(told: &Told) -> String {
    match told {
        Told::Answered {
            verdict,
            known,
            unstable,
            codes,
            ..
        } => {
            let known = if *known { ", known" } else { "" };
            let unstable = if *unstable { ", unstable" } else { "" };
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            let codes = if codes.is_empty() {
                String::new()
            } else {
                format!(" ({})", codes.join(", "))
            };
            format!("{verdict}{known}{unstable}{codes}")
        }
        Told::LeftOut { .. } => "left out".to_owned(),
        Told::NotAsked => "not asked".to_owned(),
    }
}

fn shape(told: &Told) -> Shape {
    match told {
        Told::Answered { unstable: true, .. } => Shape::Unstable,
        Told::Answered {
            verdict,
            known: true,
            ..
        } if *verdict != crate::judge::Verdict::Held => Shape::Known,
        Told::Answered { verdict, .. } => Shape::from(crate::report::TrialVerdict::from(*verdict)),
        Told::LeftOut { .. } => Shape::Skipped,
        Told::NotAsked => Shape::NotAsked,
    }
}

fn arrow(style: Style) -> &'static str {
    if style.unicode { "→" } else { "->" }
}

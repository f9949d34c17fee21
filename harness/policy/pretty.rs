//! The decision on a terminal: the answer in the first line, the reasons below it, and where to look.

use std::fmt::Write as _;

use super::decision::{Case, Considered, Decision, Reason, ReasonKind, Waived};
use super::spans::spell_days;
use super::words::trials;
use crate::report::{Shape, Style, path_line};

const INDENT: usize = 4;
/// How many trials of one reason are shown with their sentences.
const SHOWN: usize = 3;

/// The decision, with a newline at its end.
pub fn render_decision(decision: &Decision, style: &Style) -> String {
    let mut out = String::new();
    let headline = decision.headline();
    let headline = if decision.is_go() {
        style.green(&headline)
    } else {
        style.red(&headline)
    };
    let _ = writeln!(out, "{}\n", style.bold(&headline));
    for reason in &decision.reasons {
        tell(&mut out, reason, decision, *style);
    }
    for waived in &decision.waived {
        excused(&mut out, waived, *style);
    }
    for note in &decision.notes {
        let text = style.sentence(note, "note  ".len());
        let _ = writeln!(out, "{}{text}", style.dim("note  "));
    }
    if !decision.notes.is_empty() {
        out.push('\n');
    }
    for (n, rule) in (1..).zip(&decision.rules) {
        let known = (rule.known > 0).then(|| format!("{} known", rule.known));
        let waived = (rule.waived > 0).then(|| format!("{} waived", rule.waived));
        let unmet = (rule.unmet > 0).then(|| format!("{} not met", rule.unmet));
        let held = Some(format!("{} held", rule.held));
        let elsewhere = rule.does_not_arise;
        let elsewhere = (elsewhere > 0).then(|| format!("{elsewhere} did not arise"));
        let counts = [held, known, waived, unmet, elsewhere];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        let text = format!(
            "{} of {}: {}",
            trials(rule.trials),
            rule.servers.join(", "),
            counts.join(", ")
        );
        let label = format!("rule {n}  ");
        let _ = writeln!(
            out,
            "{}{}",
            style.dim(&label),
            style.sentence(&text, label.len())
        );
    }
    for bundle in &decision.evidence {
        considered(&mut out, bundle, *style);
    }
    if let (Some(last), Some(run)) = (&decision.baseline, decision.evidence.first())
        && last.run != run.run
    {
        let (last, run) = (path_line(&last.folder), path_line(&run.folder));
        let hint = format!("what changed since the last release: cargo drill diff {last} {run}");
        let _ = writeln!(out, "{}", style.dim(&hint));
    }
    let by = format!("by the policy {} at {}", decision.policy, decision.decided);
    let _ = writeln!(out, "{}", style.dim(&by));
    out
}

/// A reason: its sentence, then the trials that show it.
fn tell(out: &mut String, reason: &Reason, decision: &Decision, style: Style) {
    let shape = shape_of(reason.kind);
    let mark = style.shape(shape);
    let because = style.sentence(&reason.because, mark.chars().count() + 1);
    let _ = writeln!(out, "{} {}", style.paint(shape, mark), style.bold(&because));
    // Without a question the sentence has said it all.
    let own = |case: &Case| {
        let sentence = format!("{}: {}", case.trial, case.because);
        let sentence = reason.question.is_some().then_some(sentence);
        let own = [sentence, case.change(reason.kind)];
        let own: Vec<String> = own.into_iter().flatten().collect();
        (own, place_of(case, decision))
    };
    let told: Vec<_> = reason.cases.iter().map(own).collect();
    let told = told
        .iter()
        .filter(|(own, place)| !own.is_empty() || place.is_some());
    let count = told.clone().count();
    let indent = " ".repeat(INDENT);
    for (own, place) in told.take(SHOWN) {
        for text in own {
            let _ = writeln!(out, "{indent}{}", style.sentence(text, INDENT));
        }
        if let Some(place) = place {
            let _ = writeln!(out, "{indent}{}", style.dim(place));
        }
    }
    if let Some(more) = count.checked_sub(SHOWN).filter(|more| *more > 0) {
        let more = format!("and {more} more");
        let _ = writeln!(out, "{indent}{}", style.dim(&more));
    }
    out.push('\n');
}

/// Where the evidence is: a path to copy, and the events.
fn place_of(case: &Case, decision: &Decision) -> Option<String> {
    let folder = case.folder.as_ref()?;
    let run = decision
        .evidence
        .iter()
        .find(|bundle| bundle.run == case.run)?;
    let path = path_line(&format!("{}/{folder}", run.folder));
    if case.events.is_empty() {
        return Some(path);
    }
    let events: Vec<String> = case.events.iter().map(ToString::to_string).collect();
    Some(format!("{path}  events {}", events.join(", ")))
}

fn excused(out: &mut String, waived: &Waived, style: Style) {
    let shape = Shape::Known;
    let mark = style.shape(shape);
    let left = match waived.days_left {
        0 => "its last day".to_owned(),
        days => format!("{} left", spell_days(days)),
    };
    let text = format!(
        "waived until {} ({left}): {} of {} in {}",
        waived.until,
        waived.question,
        waived.server,
        trials(waived.cases.len())
    );
    let text = style.sentence(&text, mark.chars().count() + 1);
    let _ = writeln!(out, "{} {text}", style.paint(shape, mark));
    let why = format!("{}: {}", waived.owner, waived.reason);
    let _ = writeln!(
        out,
        "{}{}\n",
        " ".repeat(INDENT),
        style.sentence(&why, INDENT)
    );
}

fn considered(out: &mut String, bundle: &Considered, style: Style) {
    let signed = if bundle.signers.is_empty() {
        String::new()
    } else {
        format!(", signed by {}", bundle.signers.join(", "))
    };
    let began = bundle.started.as_deref().unwrap_or("at no time");
    let text = format!(
        "{} began {began}, counts for {}{signed}",
        bundle.run,
        trials(bundle.trials)
    );
    let label = "run     ";
    let _ = writeln!(
        out,
        "{}{}",
        style.dim(label),
        style.sentence(&text, label.len())
    );
}

fn shape_of(kind: ReasonKind) -> Shape {
    match kind {
        ReasonKind::Altered
        | ReasonKind::Unsigned
        | ReasonKind::Broken
        | ReasonKind::WaiverEnded => Shape::Broken,
        ReasonKind::Known => Shape::Known,
        ReasonKind::Error => Shape::Error,
        ReasonKind::LeftOut => Shape::Skipped,
        ReasonKind::NotAsked | ReasonKind::NotRun | ReasonKind::Missing => Shape::NotAsked,
        ReasonKind::Unproven
        | ReasonKind::Incomplete
        | ReasonKind::Old
        | ReasonKind::SeveralBuilds
        | ReasonKind::Stale
        | ReasonKind::WaiverUnneeded => Shape::Unproven,
    }
}

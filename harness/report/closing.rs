//! What stands below the table: what did not hold and why, what is to be approved, and the one line that sums up.

use std::fmt::Write as _;
use std::time::Duration;

use super::outcome::{SnapshotState, TrialResult, TrialVerdict};
use super::results::{Counts, Results};
use super::style::{Shape, Style, columns_of, filled, one_line, path_line, spell_seconds};
use crate::journal::printable;
use crate::judge::Answer;

const INDENT: usize = 4;
/// How many trials are named where many have one thing in common.
const NAMED: usize = 4;

/// All that is said at the end besides the table.
#[derive(Debug, Clone, Copy)]
pub struct Closing<'a> {
    pub results: &'a Results,
    /// The run's folder, as the user would type it.
    pub folder: &'a str,
    pub elapsed: Duration,
    pub unmatched: &'a [UnmatchedRoute],
    /// For each trial whose snapshot differs, [`super::Comparison::diff`].
    pub diffs: &'a [(String, String)],
    /// `CI` is set: a new snapshot was not written, and fails.
    pub ci: bool,
}

/// A request that no route of the drill matched, as a route ready to paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmatchedRoute {
    pub trial: String,
    /// YAML, in one or more lines.
    pub route: String,
}

/// Everything below the table, with a newline at its end.
pub fn render_closing(closing: &Closing<'_>, style: &Style) -> String {
    let trials = closing.results.in_order();
    let mut out = String::new();
    for trial in &trials {
        objections(&mut out, trial, closing.folder, *style);
    }
    ignored(&mut out, &trials, *style);
    unmatched(&mut out, closing.unmatched, *style);
    snapshots(&mut out, closing, &trials, *style);
    out.push_str(&summary(closing, *style));
    out.push('\n');
    out
}

/// One trial that did not hold: each answer's sentence, and where the evidence is.
fn objections(out: &mut String, trial: &TrialResult, folder: &str, style: Style) {
    if matches!(trial.verdict, TrialVerdict::Held | TrialVerdict::Ignored) {
        return;
    }
    let shape = Shape::from(trial.verdict);
    let heading = format!("{} {}", style.shape(shape), one_line(&trial.name));
    let _ = writeln!(
        out,
        "{}  {}",
        style.bold(&heading),
        style.paint(shape, &trial.verdict.to_string())
    );
    let groups = trial.grouped_objections();
    let alone = groups.iter().filter(|(answers, _)| answers.len() == 1);
    let label = alone
        .map(|(answers, _)| columns_of(&names_of(answers)))
        .chain(["bundle".len()])
        .max()
        .unwrap_or(0)
        + 2;
    let mut said = |name: &str, painted: &str, text: &str| {
        // Many names stand on a line of their own.
        let fill = match label.checked_sub(columns_of(name)) {
            Some(fill) => " ".repeat(fill),
            None => format!("\n{}", " ".repeat(INDENT + label)),
        };
        let text = style.sentence(text, INDENT + label);
        let _ = writeln!(out, "{}{painted}{fill}{text}", " ".repeat(INDENT));
    };
    for (answers, sentence) in &groups {
        let name = names_of(answers);
        let shape = answers
            .first()
            .map_or(Shape::Unproven, |answer| Shape::of(answer));
        said(&name, &style.paint(shape, &name), sentence);
    }
    if let Some(error) = &trial.error {
        said("error", &style.paint(Shape::Error, "error"), error);
    }
    if let Some(bundle) = &trial.bundle {
        // A path is never wrapped: it is there to be copied.
        let path = path_line(&format!("{folder}/{bundle}"));
        let name = filled("bundle", label);
        let _ = writeln!(out, "{}{}{path}", " ".repeat(INDENT), style.dim(&name));
    }
    out.push('\n');
}

fn names_of(answers: &[&Answer]) -> String {
    let names: Vec<String> = answers
        .iter()
        .map(|answer| answer.question.to_string())
        .collect();
    names.join(", ")
}

/// The trials that were not run, together where the reason is the same.
fn ignored(out: &mut String, trials: &[&TrialResult], style: Style) {
    let reasons = trials
        .iter()
        .filter_map(|trial| Some((trial.reason.as_deref()?, trial.name.as_str())));
    for (reason, names) in grouped(reasons) {
        let drill = names[0].split("::").next().unwrap_or_default();
        let of_drill = trials.iter().filter(|trial| trial.drill == drill).count();
        let is_whole_drill = names.len() == of_drill
            && names.len() > 1
            && names
                .iter()
                .all(|name| name.split("::").next() == Some(drill));
        let whose = if is_whole_drill {
            format!("{} ({of_drill} trials)", one_line(drill))
        } else {
            some_of(&names)
        };
        let heading = format!("{} {whose}", style.shape(Shape::Skipped));
        let _ = writeln!(
            out,
            "{}  {}\n{}{}\n",
            style.bold(&heading),
            style.dim("ignored"),
            " ".repeat(INDENT),
            style.sentence(reason, INDENT)
        );
    }
}

fn unmatched(out: &mut String, routes: &[UnmatchedRoute], style: Style) {
    if routes.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{}",
        style.sentence(
            "The remote answered 404 to requests that match no route of the drill. Where they belong to it, add under \
             `remote.routes`:",
            0
        )
    );
    let routes = routes.iter().map(|r| (r.route.as_str(), r.trial.as_str()));
    for (route, trials) in grouped(routes) {
        let seen_in = format!("# {}", some_of(&trials));
        let _ = writeln!(out, "{}{}", " ".repeat(INDENT), style.dim(&seen_in));
        for line in printable(route).lines() {
            let _ = writeln!(out, "{}{line}", " ".repeat(INDENT));
        }
    }
    out.push('\n');
}

/// Names that share a key, in the order in which the keys first occur.
fn grouped<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (key, name) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, names)) => names.push(name),
            None => groups.push((key, vec![name])),
        }
    }
    groups
}

/// The first few names, and how many more there are.
fn some_of(names: &[&str]) -> String {
    let first: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| one_line(name))
        .collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn snapshots(out: &mut String, closing: &Closing<'_>, trials: &[&TrialResult], style: Style) {
    for (trial, diff) in closing.diffs {
        let _ = writeln!(
            out,
            "{}  {}",
            style.bold(&one_line(trial)),
            style.snapshot(SnapshotState::Differs, "snapshot differs")
        );
        for line in printable(diff).lines() {
            let painted = match line.as_bytes().first() {
                Some(b'+') => style.green(line),
                Some(b'-') => style.red(line),
                _ => line.to_owned(),
            };
            let _ = writeln!(out, "{}{painted}", " ".repeat(INDENT));
        }
        out.push('\n');
    }

    let named = |state| {
        let names: Vec<&str> = trials
            .iter()
            .filter(|trial| trial.snapshot == Some(state))
            .map(|trial| trial.name.as_str())
            .collect();
        names
    };
    let (new, differing) = (named(SnapshotState::New), named(SnapshotState::Differs));
    if new.is_empty() && differing.is_empty() {
        return;
    }
    for (state, word, names) in [
        (SnapshotState::New, "new", &new),
        (SnapshotState::Differs, "differs", &differing),
    ] {
        if !names.is_empty() {
            let label = filled(&format!("snapshot {word}"), "snapshot differs  ".len());
            let text = style.sentence(&some_of(names), columns_of(&label));
            let _ = writeln!(out, "{}{text}", style.snapshot(state, &label));
        }
    }
    let advice = if closing.ci {
        "In CI nothing is approved. Run `cargo drill`, then `cargo drill accept`, and commit the snapshots."
    } else if differing.is_empty() {
        "Read them in the reports folder (*.snap.new), then approve with `cargo drill accept`."
    } else {
        "If the change is meant, approve it with `cargo drill accept`."
    };
    let _ = writeln!(out, "{}\n", style.sentence(advice, 0));
}

/// `12 trials: 11 held, 1 broken (in 0.8 s). Bundle: reports/runs/…`, on two lines where one is too short.
fn summary(closing: &Closing<'_>, style: Style) -> String {
    let counts = closing.results.counts();
    let total = closing.results.trials.len();
    let trials = if total == 1 { "trial" } else { "trials" };
    let head = format!("{total} {trials}: ");
    let time = spell_seconds(closing.elapsed.as_secs_f64());
    let bundle = format!("Bundle: {}", path_line(closing.folder));
    let plain = Style {
        colour: false,
        ..style
    };
    let columns = columns_of(&format!(
        "{head}{} (in {time}). {bundle}",
        tally(&counts, plain)
    ));
    let between = if columns <= style.width { ' ' } else { '\n' };
    format!(
        "{}{} (in {time}).{between}{bundle}",
        style.bold(&head),
        tally(&counts, style)
    )
}

fn tally(counts: &Counts, style: Style) -> String {
    let parts = [
        (counts.held, Shape::Held, "held"),
        (counts.broken, Shape::Broken, "broken"),
        (counts.unproven, Shape::Unproven, "unproven"),
        (counts.error, Shape::Error, "error"),
        (counts.ignored, Shape::Skipped, "ignored"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, shape, word)| style.paint(shape, &format!("{count} {word}")));
    let snapshots = [
        (counts.new, SnapshotState::New, "new"),
        (counts.differs, SnapshotState::Differs, "differing"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, state, word)| {
        let plural = if count == 1 { "" } else { "s" };
        style.snapshot(state, &format!("{count} {word} snapshot{plural}"))
    });
    let all: Vec<String> = parts.chain(snapshots).collect();
    if all.is_empty() {
        "nothing was run".to_owned()
    } else {
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::TrialName;
    use crate::report::samples::{eventful, name, results};
    use crate::spec::CrashPoint;

    fn closing(results: &Results) -> Closing<'_> {
        Closing {
            results,
            folder: "reports/runs/20261129T234510Z-3f9a",
            elapsed: Duration::from_millis(812),
            unmatched: &[],
            diffs: &[],
            ci: false,
        }
    }

    #[test]
    fn every_objection_is_shown_with_its_sentence_and_its_bundle() {
        let text = render_closing(&closing(&eventful()), &Style::plain(400));
        assert!(text.contains("deploy::after-acceptance  broken"), "{text}");
        assert!(text.contains("made a second build"), "{text}");
        assert!(text.contains("was cut short"), "{text}");
        assert!(
            text.contains("reports/runs/20261129T234510Z-3f9a/deploy__after-acceptance\n"),
            "{text}"
        );
        assert!(
            !text.contains("was alive 10 s after"),
            "an excused answer is no objection: {text}"
        );
    }

    #[test]
    fn the_last_line_sums_up() {
        let text = render_closing(&closing(&eventful()), &Style::plain(200));
        assert_eq!(
            text.lines().last().unwrap(),
            "6 trials: 3 held, 1 broken, 1 error, 1 ignored, 1 new snapshot, 1 differing snapshot (in 812 ms). \
             Bundle: reports/runs/20261129T234510Z-3f9a"
        );
        let narrow = render_closing(&closing(&eventful()), &Style::plain(80));
        assert!(
            narrow.ends_with("(in 812 ms).\nBundle: reports/runs/20261129T234510Z-3f9a\n"),
            "{narrow}"
        );
        let nothing = render_closing(&closing(&results(Vec::new())), &Style::plain(80));
        assert!(
            nothing.starts_with("0 trials: nothing was run"),
            "{nothing}"
        );
    }

    #[test]
    fn new_snapshots_come_with_the_command_that_approves_them_but_not_in_ci() {
        let run = eventful();
        let here = render_closing(&closing(&run), &Style::plain(80));
        assert!(
            here.contains("approve it with `cargo drill accept`"),
            "{here}"
        );
        let ci = Closing {
            ci: true,
            ..closing(&run)
        };
        let ci = render_closing(&ci, &Style::plain(80));
        assert!(ci.contains("In CI nothing is approved"), "{ci}");
    }

    #[test]
    fn trials_that_share_a_reason_are_told_of_once() {
        let ignored: Vec<TrialResult> = (0..6)
            .map(|i| {
                let variant = TrialName {
                    variant: Some(format!("v{i}")),
                    ..name("notes", CrashPoint::Idle)
                };
                TrialResult::ignored(&variant, "npm ci")
            })
            .collect();
        let text = render_closing(&closing(&results(ignored)), &Style::plain(120));
        assert_eq!(text.matches("npm ci").count(), 1, "{text}");
        assert!(text.contains("notes (6 trials)"), "{text}");
    }

    #[test]
    fn what_a_server_sent_cannot_act_on_the_terminal() {
        let unmatched = [UnmatchedRoute {
            trial: "deploy::sent".to_owned(),
            route: "- on: GET /\u{1b}]0;owned\u{7}".to_owned(),
        }];
        let diffs = [("deploy::sent".to_owned(), "+\u{1b}[2J".to_owned())];
        let mut run = eventful();
        // As read from a file that somebody else wrote.
        run.trials[1].answers[4].because = "\u{1b}[31mred".to_owned();
        let text = render_closing(
            &Closing {
                unmatched: &unmatched,
                diffs: &diffs,
                ..closing(&run)
            },
            &Style::plain(80),
        );
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
    }
}

//! What stands below the table: what did not hold and why, what is to be approved, and the one line that sums up.

use std::fmt::Write as _;
use std::time::Duration;

use super::boundaries;
use super::failure::{Circumstances, reasons, some_of};
use super::outcome::{SnapshotState, TrialResult, TrialVerdict};
use super::results::{Counts, Results};
use super::style::{Shape, Style, columns_of, filled, one_line, path_line, spell_seconds};
use crate::journal::printable;
use crate::judge::Answer;

const INDENT: usize = 4;

/// All that is said at the end besides the table.
#[derive(Debug, Clone, Copy)]
pub struct Closing<'a> {
    pub results: &'a Results,
    /// The run's folder, as the user would type it.
    pub folder: &'a str,
    /// The folder of snapshots, in the same way.
    pub reports: &'a str,
    pub elapsed: Duration,
    pub unmatched: &'a [UnmatchedRoute],
    /// What the cells weaken, a sentence each.
    pub weakens: &'a [String],
    /// Where two clean runs of one call had other boundaries, a sentence each.
    pub courses: &'a [String],
    pub diffs: &'a [SnapshotDiff],
    /// How many trials were not run because the run was interrupted, where it was.
    pub interrupted: Option<usize>,
    /// What a command needs to find the drills and reports of this run, with a space before it; often nothing.
    pub flags: &'a str,
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

/// What differs in a trial's snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDiff {
    pub trial: String,
    /// [`super::Comparison::diff`].
    pub diff: String,
    /// The repeats of the trial differ from each other, so that nothing is pending.
    pub between_repeats: bool,
}

/// Everything below the table, with a newline at its end.
pub fn render_closing(closing: &Closing<'_>, style: &Style) -> String {
    let trials = closing.results.in_order();
    let mut out = String::new();
    boundaries::render(&mut out, &trials, *style);
    for trial in &trials {
        objections(&mut out, trial, closing.folder, *style);
    }
    stable(&mut out, &trials, *style);
    ignored(&mut out, &trials, *style);
    unmatched(&mut out, closing.unmatched, *style);
    snapshots(&mut out, closing, &trials, *style);
    courses(&mut out, closing.courses, *style);
    weakens(&mut out, closing.weakens, *style);
    out.push_str(&summary(closing, *style));
    out.push('\n');
    failed(&mut out, closing, *style);
    out
}

/// Why the run failed, where it did.
fn failed(out: &mut String, closing: &Closing<'_>, style: Style) {
    const LABEL: &str = "Failed: ";
    let torn = torn(closing);
    let around = Circumstances {
        new_fails: closing.ci,
        interrupted: closing.interrupted,
        torn: &torn,
        flags: closing.flags,
    };
    for (n, reason) in reasons(closing.results, around).iter().enumerate() {
        let label = match n {
            0 => style.paint(Shape::Broken, LABEL),
            _ => " ".repeat(LABEL.len()),
        };
        let _ = writeln!(out, "{label}{}", style.sentence(reason, LABEL.len()));
    }
}

/// The trials of which the repeats have snapshots that differ from each other.
fn torn<'c>(closing: &Closing<'c>) -> Vec<&'c str> {
    let torn = closing.diffs.iter().filter(|diff| diff.between_repeats);
    torn.map(|diff| diff.trial.as_str()).collect()
}

/// One trial that did not hold: each answer's sentence, and where the evidence is.
fn objections(out: &mut String, trial: &TrialResult, folder: &str, style: Style) {
    if matches!(trial.verdict, TrialVerdict::Held | TrialVerdict::Ignored) {
        return;
    }
    let shape = Shape::from(trial.verdict);
    let heading = format!("{} {}", style.shape(shape), one_line(&trial.name));
    // An unstable answer says it below, for itself.
    let repeats = trial.spell_repeats().filter(|_| !trial.is_unstable());
    let repeats = repeats.unwrap_or_default();
    let heading = format!(
        "{}  {}  {}",
        style.bold(&heading),
        style.paint(shape, &trial.verdict.to_string()),
        style.dim(&repeats)
    );
    let _ = writeln!(out, "{}", heading.trim_end());
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
    let bundles = bundles_of(trial);
    for (bundle, questions) in &bundles {
        // A path is never wrapped: it is there to be copied.
        let path = path_line(&format!("{folder}/{bundle}"));
        let name = style.dim(&filled("bundle", label));
        let whose = if bundles.len() > 1 {
            style.dim(&format!("  {}", questions.join(", ")))
        } else {
            String::new()
        };
        let _ = writeln!(out, "{}{name}{path}{whose}", " ".repeat(INDENT));
    }
    out.push('\n');
}

/// The folders in which the evidence is, each with the questions that it answers: those of the repeats that gave the
/// answers. The trial's own where there is no answer.
fn bundles_of(trial: &TrialResult) -> Vec<(String, Vec<String>)> {
    let mut bundles: Vec<(String, Vec<String>)> = Vec::new();
    for (answers, _) in trial.grouped_objections() {
        for answer in answers {
            let Some(bundle) = trial.bundle_of(answer) else {
                continue;
            };
            let question = answer.question.to_string();
            match bundles.iter_mut().find(|(known, _)| *known == bundle) {
                Some((_, questions)) => questions.push(question),
                None => bundles.push((bundle, vec![question])),
            }
        }
    }
    if bundles.is_empty() {
        bundles.extend(trial.bundle.iter().map(|own| (own.clone(), Vec::new())));
    }
    bundles
}

/// The trials that held each time, together where they were repeated as often.
fn stable(out: &mut String, trials: &[&TrialResult], style: Style) {
    let held = trials
        .iter()
        .filter(|trial| trial.verdict == TrialVerdict::Held);
    let repeated: Vec<(String, &str)> = held
        .filter_map(|trial| Some((trial.spell_repeats()?, trial.name.as_str())))
        .collect();
    let repeated = repeated.iter().map(|(times, name)| (times.as_str(), *name));
    for (times, names) in grouped(repeated) {
        let label = format!("{} {times} held  ", style.shape(Shape::Held));
        let names = style.sentence(&some_of(&names), columns_of(&label));
        let _ = writeln!(out, "{}{names}\n", style.paint(Shape::Held, &label));
    }
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

/// A reader of the answers must know what they were got in.
fn courses(out: &mut String, sentences: &[String], style: Style) {
    for sentence in sentences {
        let text = format!(
            "{sentence}: the call does not take one course, and there may be boundaries that no trial is at"
        );
        let _ = writeln!(out, "{}\n", style.sentence(&text, 0));
    }
}

fn weakens(out: &mut String, sentences: &[String], style: Style) {
    if sentences.is_empty() {
        return;
    }
    let _ = writeln!(out, "What this cell weakens:");
    for sentence in sentences {
        let sentence = style.sentence(sentence, INDENT);
        let _ = writeln!(out, "{}{sentence}", " ".repeat(INDENT));
    }
    out.push('\n');
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

fn snapshots(out: &mut String, closing: &Closing<'_>, trials: &[&TrialResult], style: Style) {
    for SnapshotDiff { trial, diff, .. } in closing.diffs {
        let found = trials.iter().find(|found| found.name == *trial);
        let heading = match found.and_then(|found| found.snapshot) {
            // The findings say it already.
            Some(SnapshotState::New) if found.is_some_and(|found| found.is_unstable()) => continue,
            Some(SnapshotState::New) => style.snapshot(
                SnapshotState::New,
                "snapshot new, and not the same each time",
            ),
            _ => style.snapshot(SnapshotState::Differs, "snapshot differs"),
        };
        let _ = writeln!(out, "{}  {heading}", style.bold(&one_line(trial)));
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

    // What fails is told at the end.
    if closing.ci {
        return;
    }
    let torn = torn(closing);
    let new = trials
        .iter()
        .filter(|trial| trial.snapshot == Some(SnapshotState::New))
        .map(|trial| trial.name.as_str());
    let (torn, new): (Vec<&str>, Vec<&str>) = new.partition(|name| torn.contains(name));
    if !torn.is_empty() {
        let because = "Where the repeats of a trial do not agree, there is nothing to approve.";
        let _ = writeln!(out, "{}\n", style.sentence(because, 0));
    }
    if new.is_empty() {
        return;
    }
    let label = "snapshot new  ";
    let text = style.sentence(&some_of(&new), label.len());
    let _ = writeln!(out, "{}{text}", style.snapshot(SnapshotState::New, label));
    let pending = path_line(&format!("{}/*.snap.new", closing.reports));
    let advice = format!(
        "Read them in {pending}, then approve with `cargo drill accept{}`.",
        closing.flags
    );
    let _ = writeln!(out, "{}\n", style.sentence(&advice, 0));
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

pub(crate) fn tally(counts: &Counts, style: Style) -> String {
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
    let unstable = (counts.unstable > 0).then(|| {
        style.paint(
            Shape::Unstable,
            &format!("{} of them unstable", counts.unstable),
        )
    });
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
    let all: Vec<String> = parts.chain(unstable).chain(snapshots).collect();
    if all.is_empty() {
        "nothing was run".to_owned()
    } else {
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::report::TrialName;
    use crate::report::samples::{eventful, name, results, trial, unstable};
    use crate::spec::CrashPoint;

    fn closing(results: &Results) -> Closing<'_> {
        Closing {
            results,
            folder: "reports/runs/20261129T234510Z-3f9a",
            reports: "reports",
            flags: "",
            interrupted: None,
            elapsed: Duration::from_millis(812),
            unmatched: &[],
            weakens: &[],
            courses: &[],
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
    fn one_line_sums_up_and_the_reasons_of_a_failure_stand_at_the_end() {
        let text = render_closing(&closing(&eventful()), &Style::plain(200));
        let (_, end) = text.split_once("6 trials: ").unwrap();
        assert_eq!(
            end,
            "3 held, 1 broken, 1 error, 1 ignored, 1 new snapshot, 1 differing snapshot (in 812 ms). \
             Bundle: reports/runs/20261129T234510Z-3f9a\n\
             Failed: 1 trial did not complete: notes::startup.\n        \
             1 trial is broken: deploy::after-acceptance.\n        \
             The snapshot of notes::idle differs from the approved one. If the change is meant, approve it with `cargo drill accept`.\n"
        );
        let narrow = render_closing(&closing(&eventful()), &Style::plain(80));
        assert!(
            narrow.contains("(in 812 ms).\nBundle: reports/runs/20261129T234510Z-3f9a\n"),
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
    fn what_is_unstable_is_said_in_words_with_the_bundle_of_a_broken_repeat() {
        let held = trial(&name("deploy", CrashPoint::Idle), Vec::new());
        let held = held.repeated([Verdict::Held; 20].into_iter().collect(), 20);
        let run = results(vec![unstable(), held]);
        insta::assert_snapshot!(render_closing(&closing(&run), &Style::plain(100)), @r"
        ✗ deploy::sent  broken
            helpers  unstable: held in 19 of 20, broken in 1: pid 12 is alive.
            bundle   reports/runs/20261129T234510Z-3f9a/deploy__sent~3

        ✓ 20 of 20 held  deploy::idle

        2 trials: 1 held, 1 broken, 1 of them unstable, 1 differing snapshot (in 812 ms).
        Bundle: reports/runs/20261129T234510Z-3f9a
        Failed: 1 trial is broken: deploy::sent.
                The snapshot of deploy::sent differs from the approved one. If the change is meant, approve
                it with `cargo drill accept`.
        ");
    }

    #[test]
    fn answers_of_several_repeats_name_the_bundle_of_each() {
        let mut two = unstable();
        two.answers[0].verdict = Verdict::Broken;
        let text = render_closing(&closing(&results(vec![two])), &Style::plain(100));
        for line in ["deploy__sent  eof\n", "deploy__sent~3  helpers\n"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn where_repeats_do_not_agree_nothing_is_said_to_be_pending() {
        let diffs = [SnapshotDiff {
            trial: "deploy::sent".to_owned(),
            diff: "-a\n+b\n".to_owned(),
            between_repeats: true,
        }];
        let with = |result: TrialResult| {
            let run = results(vec![result]);
            let closing = Closing {
                diffs: &diffs,
                ..closing(&run)
            };
            render_closing(&closing, &Style::plain(100))
        };
        let bundle = || Some("deploy__sent".to_owned());
        let differs = with(unstable());
        assert!(differs.contains("snapshot differs\n    -a\n"), "{differs}");
        let new = with(unstable().with(Some(SnapshotState::New), bundle()));
        assert!(!new.contains("-a\n"), "{new}");
        let held = trial(&name("deploy", CrashPoint::Sent), Vec::new());
        let held = with(held.with(Some(SnapshotState::New), bundle()));
        assert!(held.contains("not the same each time\n    -a"), "{held}");
        for text in [differs, new, held] {
            assert!(text.contains("there is nothing to approve"), "{text}");
            assert!(!text.contains("cargo drill accept"), "{text}");
        }
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
        let diffs = [SnapshotDiff {
            trial: "deploy::sent".to_owned(),
            diff: "+\u{1b}[2J".to_owned(),
            between_repeats: false,
        }];
        let mut run = eventful();
        // As read from a file that somebody else wrote.
        run.trials[1].answers[4].because = "\u{1b}[31mred".to_owned();
        let text = render_closing(
            &Closing {
                unmatched: &unmatched,
                weakens: &[],
                courses: &[],
                diffs: &diffs,
                ..closing(&run)
            },
            &Style::plain(80),
        );
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
    }
}

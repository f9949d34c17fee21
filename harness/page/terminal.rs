//! The same as the page, on a terminal.
//!
//! The lanes of the picture are columns, a row an event. All that came from a server goes through `printable`, as
//! everything does that reaches a terminal.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::cast::Lane;
use super::found::{Kept, Run};
use super::names::moment_name;
use super::processes::{Look, Node};
use super::record::Record;
use super::tale::{Instant, Row, Tale, ms};
use super::tell::{Arrival, Drawn, Mark};
use super::verdict::{moment, of_trial, was_run};
use super::{hosts, incident, ledger, processes, record, reproduce};
use crate::judge::{Incident, Moments};
use crate::report::{
    Shape, Style, TrialResult, columns_of, filled, one_line, path_line, render_judgement,
    render_table, spell_seconds,
};

const INDENT: usize = 2;
/// The columns of one lane.
const LANE: usize = 4;
/// For `+1234 ms`.
const TIME: usize = 9;

/// Which run it is, and what is not as it should be with it.
pub(crate) fn render_heading(run: &Run, style: Style) -> String {
    let mut out = String::new();
    let heading = format!("run {}", one_line(run.results.run.as_str()));
    let _ = writeln!(out, "{}\n", style.bold(&heading));
    for trouble in &run.troubles {
        let _ = writeln!(
            out,
            "{}\n",
            style.paint(Shape::Unproven, &style.sentence(trouble, 0))
        );
    }
    out
}

/// What was found: the table, and what is not as it should be.
pub(crate) fn render_glance(run: &Run, style: Style) -> String {
    let mut out = render_heading(run, style);
    let table = render_table(&run.results, &style);
    if table.is_empty() {
        out.push_str("no trial of it was run\n");
    }
    out.push_str(&table);
    out
}

/// One trial with its evidence. `folder` is the run's, `shown_folder` how a user would name it, and `flags` are those by which
/// a command finds its drills, where they are found.
pub(crate) fn render_trial(
    run: &Run,
    trial: &TrialResult,
    folder: &Path,
    shown_folder: &str,
    flags: Option<&str>,
    style: Style,
) -> String {
    let mut out = String::new();
    let shape = of_trial(trial);
    let name = format!("{} {}", style.shape(shape), one_line(&trial.name));
    let _ = writeln!(
        out,
        "{}  {}  {}",
        style.bold(&name),
        style.paint(shape, shape.word()),
        style.dim(&spell_seconds(trial.seconds))
    );
    if was_run(trial) {
        let _ = writeln!(out, "{}", style.dim(&style.sentence(moment(trial), 0)));
    }
    if let Some(because) = trial.reason.as_ref().or(trial.error.as_ref()) {
        let _ = writeln!(out, "{}", style.sentence(because, 0));
    }
    if let Some(repeats) = trial.spell_repeats() {
        let _ = writeln!(out, "Carried out several times: {}.", one_line(&repeats));
    }
    let bundles = super::trial::bundles(trial);
    for bundle in &bundles {
        if bundles.len() > 1 {
            let _ = writeln!(out, "\n{}", style.bold(&path_line(bundle)));
        }
        one_folder(&mut out, trial, folder, bundle, style);
    }
    if was_run(trial) {
        let again = match flags {
            Some(_) => "To see it again",
            None => "To see it again, in the folder that holds the drills' folder",
        };
        heading(&mut out, again, style);
        line(
            &mut out,
            &path_line(&reproduce::again(trial, &run.facts, flags)),
        );
    }
    if let Some(bundle) = &trial.bundle {
        line(
            &mut out,
            &path_line(&reproduce::judged_again(shown_folder, bundle)),
        );
    }
    out
}

fn one_folder(out: &mut String, trial: &TrialResult, run: &Path, bundle: &str, style: Style) {
    let kept = Kept::read(&run.join(bundle));
    for trouble in &kept.troubles {
        let trouble = style.sentence(trouble, 0);
        let _ = writeln!(out, "\n{}", style.paint(Shape::Unproven, &trouble));
    }
    let mut own = trial.answers.clone();
    own.retain(|answer| trial.bundle_of(answer).as_deref() == Some(bundle));
    let cited: BTreeSet<u64> = own
        .iter()
        .flat_map(|answer| answer.evidence.clone())
        .collect();
    let moments = kept.judgement.as_ref().map(|judgement| &judgement.moments);
    let moments = moments.unwrap_or(&trial.moments);
    let tale = Tale::of(&kept.lines, moments, &cited);
    if let Some(judgement) = &kept.judgement {
        heading(out, "Answers", style);
        out.push_str(&render_judgement(judgement, &style));
    }
    let sought = hosts::lines(&kept.lines);
    if !sought.is_empty() {
        heading(out, "Sought besides the remote", style);
        for sought in &sought {
            line(out, &style.sentence(sought, INDENT));
        }
    }
    if !tale.rows.is_empty() {
        heading(out, "What happened", style);
        timeline(out, &tale, moments, style);
    }
    incidents(out, &kept.incidents, style);
    let looks = processes::looks(&kept.lines);
    if !looks.is_empty() {
        heading(out, "Processes", style);
        for look in &looks {
            show_look(out, look, style);
        }
    }
    let entries = ledger::entries(&kept.lines);
    if !entries.is_empty() {
        heading(out, "Ledger of the remote", style);
        for entry in &entries {
            show_entry(out, entry, style);
        }
    }
    if let Some(record) = record::record(&kept.lines) {
        heading(out, "The server's record", style);
        show_record(out, &record, trial, style);
    }
}

fn heading(out: &mut String, text: &str, style: Style) {
    let _ = writeln!(out, "\n{}", style.bold(text));
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}{text}", " ".repeat(INDENT));
}

/// A name, and what is to be said of it, which may take several lines.
fn pair(out: &mut String, name: &str, text: &str, columns: usize, style: Style) {
    let label = filled(name, columns);
    let text = style.sentence(text, INDENT + columns);
    let _ = writeln!(out, "{}{}{text}", " ".repeat(INDENT), style.dim(&label));
}

// ---- the picture -------------------------------------------------------------------------------------------------

fn timeline(out: &mut String, tale: &Tale, moments: &Moments, style: Style) {
    for instant in Instant::ALL {
        let at = instant.of(moments).map_or_else(|| "never".to_owned(), ms);
        let name = format!("{} {}", number(instant, style), instant.word());
        pair(out, &name, &at, 28, style);
    }
    let lanes = Lane::ALL
        .map(|lane| filled(&lane.word()[..3], LANE))
        .concat();
    let lanes = format!("{}{}", " ".repeat(TIME + 2), lanes.trim_end());
    let _ = writeln!(out, "{}", style.dim(&lanes));
    for row in &tale.rows {
        show_row(out, row, tale, style);
    }
}

fn show_row(out: &mut String, row: &Row, tale: &Tale, style: Style) {
    let indent = TIME + 2 + LANE * Lane::ALL.len();
    if row.told.drawn == Drawn::Heading {
        let rest = lanes(row, tale, style);
        let text = style.bold(&one_line(&row.told.text));
        let _ = writeln!(out, "{}{rest}{text}", " ".repeat(TIME + 2));
        return;
    }
    let time = format!("{:>TIME$}  ", ms(row.at));
    let instant = row.instant.map_or_else(String::new, |instant| {
        format!(" {}", number(instant, style))
    });
    let text = style.sentence(&format!("{}{instant}", row.told.text), indent);
    let text = match tone(row.told.drawn) {
        Some(shape) => style.paint(shape, &text),
        None if row.instant.is_some() => style.bold(&text),
        None => text,
    };
    let _ = writeln!(out, "{}{}{text}", style.dim(&time), lanes(row, tale, style));
}

fn number(instant: Instant, style: Style) -> &'static str {
    match instant {
        _ if style.unicode => instant.sign(),
        Instant::ClientGone => "(1)",
        Instant::LastOperation => "(2)",
        Instant::Revoked => "(3)",
    }
}

fn tone(drawn: Drawn) -> Option<Shape> {
    match drawn {
        Drawn::At(_, Mark::Crash) | Drawn::Across(Mark::Crash) => Some(Shape::Broken),
        Drawn::At(_, Mark::Trouble) | Drawn::Across(Mark::Trouble) => Some(Shape::Unproven),
        _ => None,
    }
}

/// The lanes as they are at this row: who lives, and what happens.
fn lanes(row: &Row, tale: &Tale, style: Style) -> String {
    let mut cells = vec![' '; LANE * Lane::ALL.len()];
    let at = row.place();
    for life in &tale.lives {
        if life.from <= at && life.to.is_none_or(|ended| ended >= at) {
            cells[column(life.lane)] = if style.unicode { '│' } else { '|' };
        }
    }
    match row.told.drawn {
        Drawn::Heading => {}
        Drawn::At(lane, mark) => cells[column(lane)] = sign(mark, style),
        Drawn::Across(mark) => {
            let stroke = if style.unicode { '─' } else { '-' };
            cells[..LANE * Lane::ALL.len() - 1].fill(stroke);
            cells[0] = sign(mark, style);
        }
        Drawn::Arrow { from, to, arrival } => {
            arrow(&mut cells, column(from), column(to), arrival, style);
        }
    }
    cells.into_iter().collect()
}

fn column(lane: Lane) -> usize {
    let place = Lane::ALL.into_iter().position(|known| known == lane);
    place.unwrap_or(0) * LANE + 1
}

fn arrow(cells: &mut [char], from: usize, to: usize, arrival: Arrival, style: Style) {
    let (stroke, right, left, lost) = match (style.unicode, arrival) {
        (true, Arrival::Whole) => ('─', '▶', '◀', '✗'),
        (true, _) => ('╌', '▷', '◁', '✗'),
        (false, Arrival::Whole) => ('-', '>', '<', 'X'),
        (false, _) => ('.', '>', '<', 'X'),
    };
    let (low, high) = (from.min(to), from.max(to));
    cells[low + 1..high].fill(stroke);
    let (end, tip) = if from < to {
        (high - 1, right)
    } else {
        (low + 1, left)
    };
    cells[end] = if arrival == Arrival::Lost { lost } else { tip };
}

fn sign(mark: Mark, style: Style) -> char {
    let (unicode, ascii) = match mark {
        Mark::Note => ('○', 'o'),
        Mark::Start => ('▼', 'v'),
        Mark::Exit => ('■', '#'),
        Mark::Crash => ('✗', 'X'),
        Mark::Eof => ('═', '='),
        Mark::Effect => ('◆', '*'),
        Mark::Refused => ('⊘', '/'),
        Mark::Revoked => ('●', '@'),
        Mark::Trouble => ('▲', '!'),
    };
    if style.unicode { unicode } else { ascii }
}

// ---- the rest ----------------------------------------------------------------------------------------------------

fn incidents(out: &mut String, incidents: &[Incident], style: Style) {
    for one in incidents {
        heading(out, &format!("Incident: {}", incident::title(one)), style);
        pair(out, "To be done", &one.follow_up, 24, style);
        for (name, text) in incident::facts(one) {
            pair(out, name, &text, 24, style);
        }
    }
}

fn show_look(out: &mut String, look: &Look, style: Style) {
    line(out, &style.dim(moment_name(look.moment)));
    if look.roots.is_empty() {
        line(out, "  no process was left");
    }
    for root in &look.roots {
        show_node(out, root, 1, style);
    }
    for (name, exit) in &look.gone {
        let how = exit.map_or_else(String::new, |exit| format!(", {exit}"));
        line(out, &format!("  gone: {}{how}", one_line(name)));
    }
}

fn show_node(out: &mut String, node: &Node, depth: usize, style: Style) {
    let indent = INDENT + 2 * depth;
    let remarks: Vec<String> = node
        .remarks
        .iter()
        .map(|remark| format!(" [{remark}]"))
        .collect();
    let text = format!("{}: {}{}", node.name, node.command, remarks.concat());
    let text = style.sentence(&text, indent + 2);
    let _ = writeln!(out, "{}{text}", " ".repeat(indent));
    for child in &node.children {
        show_node(out, child, depth + 1, style);
    }
}

fn show_entry(out: &mut String, entry: &ledger::Entry, style: Style) {
    let key = entry
        .key
        .as_ref()
        .map_or_else(String::new, |key| format!(", key {key}"));
    let times = match entry.times {
        1 => String::new(),
        times => format!(", {times} times, until {}", ms(entry.until)),
    };
    let came = if entry.came.is_empty() {
        "answered".to_owned()
    } else {
        entry.came.join(", then ")
    };
    let replies = if entry.replies.is_empty() {
        "no reply".to_owned()
    } else {
        entry.replies.join(", then ")
    };
    let text = format!(
        "{}{times} ({}{key}): {came}; {replies}",
        entry.request, entry.credential
    );
    pair(out, &ms(entry.at), &text, TIME + 2, style);
}

fn show_record(out: &mut String, found: &Record, trial: &TrialResult, style: Style) {
    for named in record::named(&trial.answers) {
        let answer = match (&named.by, named.answered) {
            (Some(by), true) => format!("answered by {by}"),
            (None, true) => "answered".to_owned(),
            (_, false) => "not answered by the record".to_owned(),
        };
        pair(out, record::asks(named.question), &answer, 38, style);
    }
    if let Some(absent) = &found.absent {
        line(out, &style.sentence(absent, INDENT));
        return;
    }
    let columns = found.columns();
    for row in &found.rows {
        let fields: Vec<String> = columns
            .iter()
            .filter_map(|column| Some(format!("{column} {}", row.text(column)?)))
            .collect();
        let when = if found.early.contains(&row.line) {
            found.early_word()
        } else {
            "later"
        };
        let text = format!("{} ({when})", fields.join(", "));
        pair(
            out,
            &format!("row {}", row.line),
            &text,
            columns_of("row 1234  "),
            style,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{moments, poller};
    use super::*;

    fn drawn(style: Style) -> String {
        let mut out = String::new();
        let tale = Tale::of(&poller(), &moments(), &BTreeSet::new());
        timeline(&mut out, &tale, &moments(), style);
        out
    }

    #[test]
    fn lanes_are_columns_and_a_row_an_event() {
        insta::assert_snapshot!(drawn(Style::plain(80)), @r"
          ① client gone               +6.0 ms
          ② last operation started    +50.0 ms
          ③ authority revoked         +49.0 ms
                   cli ser hel rem aut
                                       Session A
          +1.0 ms   ▼                  client of session A starts, pid 2
          +2.0 ms   │   ▼              server of session A starts, pid 3
                    │   │              Evidence before the crash
          +5.0 ms  ✗────────────────── CRASH: SIGKILL to the client
          +6.0 ms   ■   │   │          client gone: SIGKILL ①
          +7.0 ms       │──────▶       GET /whoami
          +8.0 ms       │◀──────       200
          +9.0 ms       │──────▶       these 2 rows 19 times more, until +46.0 ms
         +47.0 ms       ■   │          server of session A (pid 3) ends: status 0
         +49.0 ms           │       ●  the run of session A is revoked ③
         +50.0 ms           │──▶       GET /late ②
        ");
    }

    #[test]
    fn without_unicode_the_picture_is_ascii() {
        let ascii = Style {
            unicode: false,
            ..Style::plain(80)
        };
        assert!(drawn(ascii).is_ascii(), "{}", drawn(ascii));
    }

    #[test]
    fn no_line_of_the_picture_is_wider_than_the_terminal() {
        for width in [60, 80, 120] {
            for line in drawn(Style::plain(width)).lines() {
                assert!(columns_of(line) <= width, "{width}: {line}");
            }
        }
    }
}

//! The page and its parts, from journals that are made up.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::cast::Lane;
use super::found::{Kept, Run};
use super::tale::Tale;
use super::tell::Drawn;
use super::{STYLE, found, ledger, processes, record, render};
use crate::journal::{
    Credential, Event, Exit, Journal, Line, Moment, Phase, Process, Row, Secrets, Session,
};
use crate::judge::{Moments, Operation, Verdict};
use crate::report::samples::{answer, eventful, name, results, trial};
use crate::report::{DrillFacts, Population, Results, RunFacts, ServerFacts};
use crate::spec::{CrashPoint, Question, Revocable};

fn lines(events: Vec<Event>) -> Vec<Line> {
    let line = |(seq, event)| Line {
        seq,
        at: seq * 1_000_000,
        time: "2026-11-30T10:00:00Z".to_owned(),
        event,
        prev: String::new(),
        hash: String::new(),
    };
    (0..).zip(events).map(line).collect()
}

fn killed() -> Exit {
    Exit::Signal {
        number: 9,
        core: false,
    }
}

fn request(number: u32, target: &str) -> Event {
    Event::RequestReceived {
        request: number,
        connection: number,
        method: "GET".to_owned(),
        target: target.to_owned(),
        credential: Credential::Absent,
        route: None,
        effect: None,
        key: None,
        body_bytes: 0,
    }
}

fn replied(number: u32) -> Event {
    Event::ReplySent {
        request: number,
        status: 200,
    }
}

fn process(pid: i32, parent: i32, comm: &str) -> Process {
    Process {
        pid,
        ppid: parent,
        pgid: pid,
        sid: 0,
        state: 'S',
        comm: comm.to_owned(),
        argv: vec![comm.to_owned()],
        started: 0,
        threads: 1,
        descriptors: None,
        written: None,
        wanted: 0,
        holds: Vec::new(),
        reads_from: Vec::new(),
        secrets_in_argv: Vec::new(),
        secrets_in_environ: Vec::new(),
        readable: true,
    }
}

fn looked(moment: Moment, processes: Vec<Process>) -> Event {
    Event::Looked {
        moment,
        session: Session::A,
        processes,
        sockets: Vec::new(),
    }
}

/// A server that leaves a helper and polls.
pub(super) fn poller() -> Vec<Line> {
    let mut events = vec![
        Event::PhaseStarted {
            phase: Phase::SessionA,
        },
        Event::ClientStarted {
            session: Session::A,
            pid: 2,
        },
        Event::ServerStarted {
            session: Session::A,
            pid: 3,
            argv: vec!["server".to_owned()],
        },
        Event::PhaseStarted {
            phase: Phase::Evidence,
        },
        looked(
            Moment::Point,
            vec![
                process(2, 1, "client"),
                process(3, 2, "server"),
                process(4, 3, "helper"),
            ],
        ),
        Event::CrashFired {
            action: "SIGKILL to the client".to_owned(),
            pid: 2,
        },
        Event::ClientGone {
            pid: 2,
            exit: killed(),
        },
    ];
    for number in 1..=20 {
        events.extend([request(number, "/whoami"), replied(number)]);
    }
    events.extend([
        Event::ProcessExited {
            pid: 3,
            exit: Exit::Code(0),
            comm: Some("server".to_owned()),
        },
        looked(Moment::End, vec![process(4, 1, "helper")]),
        Event::Revoked {
            run: Session::A,
            of: Revocable::Run,
            by: String::new(),
        },
        request(21, "/late"),
    ]);
    lines(events)
}

pub(super) fn moments() -> Moments {
    Moments {
        crash: None,
        client_gone: Some(6_000_000),
        last_operation: Some(Operation {
            at: 50_000_000,
            name: "GET /late".to_owned(),
        }),
        revoked: Some(49_000_000),
    }
}

fn tale(cited: &[u64]) -> Tale {
    let cited: BTreeSet<u64> = cited.iter().copied().collect();
    Tale::of(&poller(), &moments(), &cited)
}

fn texts(tale: &Tale) -> Vec<&str> {
    tale.rows.iter().map(|row| row.told.text.as_str()).collect()
}

// ---- what happened -----------------------------------------------------------------------------------------------

#[test]
fn what_comes_again_and_again_is_told_once_with_a_count() {
    let tale = tale(&[]);
    let texts = texts(&tale);
    let polls = texts.iter().filter(|text| **text == "GET /whoami").count();
    assert_eq!(polls, 1, "{texts:?}");
    assert!(
        texts.contains(&"these 2 rows 19 times more, until +46.0 ms"),
        "{texts:?}"
    );
}

#[test]
fn every_event_that_an_answer_rests_on_has_a_row() {
    let all: Vec<u64> = (0..poller().len() as u64).collect();
    let tale = tale(&all);
    let without_words: Vec<u64> = all
        .into_iter()
        .filter(|seq| tale.row_of(*seq).is_none())
        .collect();
    // Steps of the trial in which nothing else was told would have none; here each has something.
    assert_eq!(without_words, Vec::<u64>::new());
}

#[test]
fn a_look_is_told_only_where_an_answer_rests_on_it() {
    assert!(tale(&[]).row_of(4).is_none());
    assert!(tale(&[4]).row_of(4).is_some());
}

#[test]
fn the_three_moments_are_the_events_that_they_are() {
    let tale = tale(&[]);
    let marked: Vec<&str> = tale
        .rows
        .iter()
        .filter(|row| row.instant.is_some())
        .map(|row| row.told.text.as_str())
        .collect();
    assert_eq!(
        marked,
        [
            "client gone: SIGKILL",
            "the run of session A is revoked",
            "GET /late"
        ]
    );
}

#[test]
fn a_request_that_comes_when_the_server_has_gone_is_not_drawn_as_its_own() {
    let tale = tale(&[]);
    let asker = |text: &str| {
        let row = tale.rows.iter().find(|row| row.told.text == text).unwrap();
        match row.told.drawn {
            Drawn::Arrow { from, .. } => from,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(asker("GET /whoami"), Lane::Server);
    assert_eq!(asker("GET /late"), Lane::Helpers);
}

#[test]
fn a_long_trial_is_cut_in_its_middle_and_says_so() {
    let mut events = Vec::new();
    for number in 0..1000 {
        events.push(request(number, &format!("/{number}")));
    }
    let cited = [500].into();
    let tale = Tale::of(&lines(events), &Moments::default(), &cited);
    assert!(tale.rows.len() < 200, "{}", tale.rows.len());
    assert!(tale.row_of(500).is_some(), "an answer rests on it");
    let left_out = texts(&tale)
        .iter()
        .filter(|t| t.contains("rows left out"))
        .count();
    assert_eq!(left_out, 2);
}

// ---- processes, ledger, record -----------------------------------------------------------------------------------

#[test]
fn a_helper_that_lost_its_parent_is_said_to_have() {
    let looks = processes::looks(&poller());
    assert_eq!(looks.len(), 2);
    let before = &looks[0].roots[0];
    assert_eq!(before.children[0].children[0].name, "helper (pid 4)");
    let after = &looks[1].roots[0];
    assert_eq!(after.remarks, ["lost its parent 3: now it is 1"]);
    let gone: Vec<&str> = looks[1]
        .gone
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        gone,
        ["client of session A (pid 2)", "server of session A (pid 3)"]
    );
}

fn count(nodes: &[processes::Node]) -> usize {
    nodes.iter().map(|node| 1 + count(&node.children)).sum()
}

#[test]
fn parents_that_go_in_a_circle_are_all_shown_and_end() {
    let circle = vec![process(5, 6, "a"), process(6, 5, "b"), process(7, 7, "c")];
    let looks = processes::looks(&lines(vec![looked(Moment::Point, circle)]));
    assert_eq!(count(&looks[0].roots), 3);
}

#[test]
fn requests_that_say_the_same_stand_together_and_effects_never_do() {
    let entries = ledger::entries(&poller());
    let shown: Vec<(&str, usize)> = entries
        .iter()
        .map(|e| (e.request.as_str(), e.times))
        .collect();
    assert_eq!(shown, [("GET /whoami", 20), ("GET /late", 1)]);
    let effect = |request, effect: &str| Event::EffectApplied {
        request,
        effect: effect.to_owned(),
        of: "build".to_owned(),
        key: None,
    };
    let twice = lines(vec![
        request(1, "/builds"),
        effect(1, "7"),
        request(2, "/builds"),
        effect(2, "8"),
    ]);
    assert_eq!(ledger::entries(&twice).len(), 2);
}

#[test]
fn a_row_that_could_be_read_before_dispatch_is_told_from_a_later_one() {
    let row = |line| Row {
        line,
        end: None,
        fields: [("outcome".to_owned(), "intended".into())].into(),
    };
    let read = |moment, rows| Event::RecordRead {
        moment,
        connection: None,
        present: true,
        bytes: 0,
        rows,
        lines: 0,
        torn: 0,
        unreadable: None,
    };
    let found = record::record(&lines(vec![
        read(Moment::Dispatch, vec![row(1)]),
        read(Moment::End, vec![row(1), row(2)]),
    ]));
    let found = found.unwrap();
    assert_eq!(found.early, [1].into());
    assert_eq!(found.early_word(), "before dispatch");
    assert_eq!(found.rows.len(), 2);
}

// ---- what is not whole -------------------------------------------------------------------------------------------

/// The folder of a trial whose journal has two events.
fn folder_with_journal(folder: &Path) {
    let journal = Journal::create(&folder.join("journal.jsonl"), Secrets::default()).unwrap();
    journal.append(Event::PhaseStarted {
        phase: Phase::Prepare,
    });
    journal.append(Event::ConnectionHeld { connection: 40_000 });
}

#[test]
fn a_journal_that_was_changed_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    folder_with_journal(folder.path());
    let path = folder.path().join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap().replace("40000", "40001");
    fs::write(&path, text).unwrap();
    let kept = Kept::read(folder.path());
    assert!(kept.lines.is_empty());
    let said = kept.troubles.join("\n");
    assert!(said.contains("cannot be believed"), "{said}");
}

#[test]
fn a_torn_journal_is_said_to_be_torn_and_shown_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    folder_with_journal(folder.path());
    let path = folder.path().join("journal.jsonl");
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - 9]).unwrap();
    let kept = Kept::read(folder.path());
    assert_eq!(kept.lines.len(), 1);
    assert!(kept.troubles[0].contains("in the middle of a line"));
}

#[test]
fn a_trial_that_no_result_names_is_said_to_be_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("deploy__idle");
    fs::create_dir(&cut).unwrap();
    folder_with_journal(&cut);
    let mut run = results(Vec::new());
    run.finished = None;
    let run = Run::with(folder.path(), run, RunFacts::default(), Vec::new());
    let said = run.troubles.join("\n");
    assert!(said.contains("The run did not end"), "{said}");
    assert!(said.contains("deploy__idle"), "{said}");
}

#[test]
fn the_latest_run_is_the_one_that_began_last() {
    let runs = tempfile::tempdir().unwrap();
    for run in ["20261129T234510Z-3f9a", "20261130T000000Z-0000", "notes"] {
        fs::create_dir(runs.path().join(run)).unwrap();
        fs::write(runs.path().join(run).join("results.json"), "{}").unwrap();
    }
    // It has begun, and there is nothing of it.
    fs::create_dir(runs.path().join("20261201T000000Z-0000")).unwrap();
    let latest = found::latest(runs.path()).unwrap();
    assert!(latest.ends_with("20261130T000000Z-0000"));
}

// ---- the page ----------------------------------------------------------------------------------------------------

fn page(results: &Results, facts: &RunFacts) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut out = Vec::new();
    render(folder.path(), results, facts, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn drill(name: &str, control: &str) -> DrillFacts {
    DrillFacts {
        drill: name.to_owned(),
        file: format!("drills/{name}.yaml"),
        sha256: String::new(),
        about: None,
        controls: vec![control.to_owned()],
        known: std::collections::BTreeMap::new(),
        server: ServerFacts::default(),
    }
}

#[test]
fn a_control_whose_drill_did_not_run_is_not_evidenced_whatever_else_held() {
    let ran = trial(
        &name("deploy", CrashPoint::Idle),
        vec![answer(Question::Eof, Verdict::Held, "It exited.")],
    );
    let facts = RunFacts {
        drills: vec![drill("deploy", "CC7.4"), drill("notes", "CC9.9")],
        ..RunFacts::default()
    };
    let text = page(&results(vec![ran]), &facts);
    let (_, controls) = text.split_once("id=\"controls\"").unwrap();
    let (first, second) = controls.split_once("CC9.9").unwrap();
    assert!(first.contains("held") && !first.contains("not evidenced"));
    let second = &second[..second.find("</tbody>").unwrap()];
    assert!(second.contains("not evidenced") && !second.contains("held"));
}

#[test]
fn what_was_found_and_neither_run_nor_left_out_is_said_not_to_have_been_reached() {
    let facts = RunFacts {
        population: vec![Population {
            drill: "deploy".to_owned(),
            trial: Some("deploy::sent".to_owned()),
            line: None,
            not_run: None,
            repeats: Vec::new(),
        }],
        ..RunFacts::default()
    };
    let text = page(&results(Vec::new()), &facts);
    assert!(text.contains("Nothing was run, so nothing is shown to hold."));
    assert!(text.contains("the run ended before it"));
    assert!(text.contains("deploy::sent"));
}

#[test]
fn each_trial_that_ran_has_a_section_and_each_other_its_reason() {
    let text = page(&eventful(), &RunFacts::default());
    assert_eq!(text.matches("<section class=\"trial ").count(), 5);
    assert!(text.contains("fixtures/node/node_modules is missing"));
    assert!(text.contains("was cut short"), "why it is unproven");
    let closed = text.matches("<details open").count();
    assert_eq!(closed, 2, "those that did not hold are open");
}

#[test]
fn words_of_others_are_escaped_and_made_visible() {
    let mut run = eventful();
    run.trials[1].answers[4].because = "</style><script>\u{202e}\u{7}".to_owned();
    let text = page(&run, &RunFacts::default());
    assert!(!text.contains("<script") && !text.contains('\u{202e}') && !text.contains('\u{7}'));
    assert!(text.contains("&lt;/style&gt;&lt;script&gt;\\u{202e}\\u{7}"));
    assert_eq!(text.matches("</style>").count(), 1);
}

#[test]
fn a_backtick_of_a_server_s_own_changes_no_words() {
    let shown = |text: &str| super::verdict::with_code(text).into_string();
    assert_eq!(
        shown("the server `a b` ended"),
        "the server <code>a b</code> ended"
    );
    assert_eq!(shown("the server `a`b` ended"), "the server `a`b` ended");
}

#[test]
fn the_style_asks_nobody_for_anything() {
    for word in ["url(", "@import", "http", "</"] {
        assert!(!STYLE.contains(word), "{word}");
    }
}

// ---- colours -----------------------------------------------------------------------------------------------------

/// The colours of the style sheet by name; the first block is for light, the second for dark.
fn colours(dark: bool) -> Vec<(String, [u8; 3])> {
    let block = STYLE
        .split(":root {")
        .nth(if dark { 2 } else { 1 })
        .unwrap();
    let block = &block[..block.find('}').unwrap()];
    let colour = |line: &str| {
        let (name, hex) = line.trim().strip_prefix("--")?.split_once(": #")?;
        let channel = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        Some((name.to_owned(), [channel(0), channel(2), channel(4)]))
    };
    block.lines().filter_map(colour).collect()
}

/// WCAG 2.2, relative luminance.
fn luminance(rgb: [u8; 3]) -> f64 {
    let [red, green, blue] = rgb.map(|channel| {
        let channel = f64::from(channel) / 255.0;
        if channel <= 0.040_45 {
            channel / 12.92
        } else {
            ((channel + 0.055) / 1.055).powf(2.4)
        }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_has_the_contrast_of_wcag_aa_on_every_ground_in_both_themes() {
    /// For text of any size.
    const AA: f64 = 4.5;
    const PAIRS: [(&str, &str); 16] = [
        ("ink", "paper"),
        ("ink", "panel"),
        ("ink", "broken-ground"),
        ("ink", "unproven-ground"),
        ("dim", "paper"),
        ("dim", "panel"),
        ("dim", "unproven-ground"),
        ("link", "paper"),
        ("held", "held-ground"),
        ("held", "paper"),
        ("broken", "broken-ground"),
        ("broken", "paper"),
        ("broken", "unproven-ground"),
        ("unproven", "unproven-ground"),
        ("error", "error-ground"),
        ("error", "paper"),
    ];
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 0.01);
    for dark in [false, true] {
        let colours = colours(dark);
        let colour = |wanted: &str| {
            let found = colours.iter().find(|(name, _)| name == wanted);
            found.unwrap_or_else(|| panic!("no colour {wanted}")).1
        };
        for (text, ground) in PAIRS {
            let found = contrast(colour(text), colour(ground));
            assert!(found >= AA, "{text} on {ground}, dark {dark}: {found:.2}");
        }
        let focus = contrast(colour("focus"), colour("paper"));
        assert!(focus >= 3.0, "the outline of the focus: {focus:.2}");
    }
}

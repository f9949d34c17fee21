//! What is a change, and what is none.

use super::{Archive, Difference, Side, Sides, Told, What, compare, render_difference};
use crate::journal::{Credential, Event, Line, Session};
use crate::judge::{Answer, Code, Verdict};
use crate::report::samples::{answer, name, results, trial};
use crate::report::{
    DrillFacts, Population, Results, RunFacts, ServerFacts, Style, TrialResult, TrialVerdict,
};
use crate::spec::{CrashPoint, Question};

/// Bundles whose journals are given, and whose judge says the same as the answers do.
#[derive(Default)]
struct Given {
    a: Vec<Event>,
    b: Vec<Event>,
}

impl Archive for Given {
    fn journal(&mut self, side: Side, _: &str) -> Result<Vec<Line>, String> {
        let events = match side {
            Side::A => &self.a,
            Side::B => &self.b,
        };
        if events.is_empty() {
            return Err("it is gone".to_owned());
        }
        let lines = (0..).zip(events).map(|(seq, event)| Line {
            seq,
            at: seq * 1_000,
            time: String::new(),
            event: event.clone(),
            prev: String::new(),
            hash: String::new(),
        });
        Ok(lines.collect())
    }
}

fn said(verdict: Verdict, because: &str) -> Answer {
    answer(Question::Eof, verdict, because)
}

fn run(answers: Vec<Answer>) -> Results {
    results(vec![trial(&name("deploy", CrashPoint::Sent), answers)])
}

fn differ(a: &Results, b: &Results, archive: &mut Given) -> Difference {
    let facts = RunFacts::default();
    let side = |results| Sides {
        results,
        facts: &facts,
    };
    compare(side(a), side(b), archive)
}

#[test]
fn the_same_answers_are_no_change() {
    let run = run(vec![said(Verdict::Held, "It exited.")]);
    let difference = differ(&run, &run, &mut Given::default());
    assert!(!difference.is_change());
    assert_eq!(difference.same, 1);
}

#[test]
fn a_sentence_in_other_words_is_no_change_and_another_finding_is() {
    let a = run(vec![said(Verdict::Broken, "pid 7 is still running.")]);
    let b = run(vec![said(Verdict::Broken, "pid 12 had not exited.")]);
    assert!(!differ(&a, &b, &mut Given::default()).is_change());
    let mut c = b.clone();
    c.trials[0].answers[0].codes = vec![Code::EofSignal];
    let difference = differ(&a, &c, &mut Given::default());
    assert_eq!(difference.trials[0].answers[0].what, What::Finding);
    let text = render_difference(&difference, &Style::plain(100));
    assert!(
        text.contains("broken (eof/still-running)") && text.contains("broken (eof/signal)"),
        "{text}"
    );
}

#[test]
fn another_verdict_is_a_change_of_the_answer_and_of_the_trial() {
    let a = run(vec![said(Verdict::Held, "It exited.")]);
    let b = run(vec![said(Verdict::Broken, "It did not.")]);
    let difference = differ(&a, &b, &mut Given::default());
    let [change] = difference.trials.as_slice() else {
        panic!("{difference:?}");
    };
    assert_eq!(change.a.verdict, TrialVerdict::Held);
    assert_eq!(change.b.verdict, TrialVerdict::Broken);
    assert_eq!(change.answers[0].what, What::Verdict);
    assert_eq!(change.answers[0].unread.as_deref(), Some("it is gone"));
}

#[test]
fn an_answer_that_the_drill_now_lists_as_known_is_a_change() {
    let broken = said(Verdict::Broken, "It did not.");
    let known = Answer {
        known: true,
        ..broken.clone()
    };
    let difference = differ(&run(vec![broken]), &run(vec![known]), &mut Given::default());
    assert_eq!(difference.trials[0].answers[0].what, What::Known);
}

#[test]
fn a_question_that_one_of_them_is_asked_is_a_change_unless_it_comes_by_chance() {
    let with = run(vec![said(Verdict::Held, "It exited.")]);
    let without = run(vec![answer(Question::Quiet, Verdict::Held, "…")]);
    let difference = differ(&with, &without, &mut Given::default());
    let changes = &difference.trials[0].answers;
    assert_eq!(
        (changes[0].what, &changes[0].b),
        (What::Asked, &Told::NotAsked)
    );
    let mut by_chance = with.clone();
    by_chance.trials[0].answers[0].by_chance = true;
    let bare = run(Vec::new());
    assert!(!differ(&by_chance, &bare, &mut Given::default()).is_change());
}

#[test]
fn a_trial_that_could_not_be_carried_through_is_one_change() {
    let a = run(vec![said(Verdict::Held, "It exited.")]);
    let b = results(vec![TrialResult::ignored(
        &name("deploy", CrashPoint::Sent),
        "npm is missing",
    )]);
    let difference = differ(&a, &b, &mut Given::default());
    let [change] = difference.trials.as_slice() else {
        panic!("{difference:?}");
    };
    assert!(change.answers.is_empty());
    assert_eq!(change.b.because.as_deref(), Some("npm is missing"));
}

#[test]
fn a_trial_that_one_of_them_does_not_know_is_named() {
    let a = run(vec![said(Verdict::Held, "It exited.")]);
    let difference = differ(&a, &results(Vec::new()), &mut Given::default());
    assert_eq!(difference.only_a[0].trial, "deploy::sent");
    assert!(difference.is_change());
    // Filtered out, it is known.
    let filtered = RunFacts {
        population: vec![Population {
            drill: "deploy".to_owned(),
            trial: Some("deploy::sent".to_owned()),
            line: None,
            not_run: Some("filtered out".to_owned()),
            repeats: Vec::new(),
        }],
        ..RunFacts::default()
    };
    let (whole, none) = (RunFacts::default(), results(Vec::new()));
    let a = Sides {
        results: &a,
        facts: &whole,
    };
    let b = Sides {
        results: &none,
        facts: &filtered,
    };
    assert!(!compare(a, b, &mut Given::default()).is_change());
}

#[test]
fn another_build_is_told_and_is_no_change_of_an_answer() {
    let facts = |digest: &str| RunFacts {
        drills: vec![DrillFacts {
            drill: "deploy".to_owned(),
            file: "drills/deploy.yaml".to_owned(),
            sha256: "cd".repeat(32),
            about: None,
            controls: Vec::new(),
            known: std::collections::BTreeMap::new(),
            server: ServerFacts {
                files: [("bin/server".to_owned(), digest.repeat(32))].into(),
                ..ServerFacts::default()
            },
        }],
        ..RunFacts::default()
    };
    let results = run(vec![said(Verdict::Held, "It exited.")]);
    let (old, new) = (facts("11"), facts("22"));
    let side = |facts| Sides {
        results: &results,
        facts,
    };
    let difference = compare(side(&old), side(&new), &mut Given::default());
    assert!(!difference.is_change());
    let [change] = difference.subjects.as_slice() else {
        panic!("{difference:?}");
    };
    assert_eq!(change.what, "server file bin/server");
    let text = render_difference(&difference, &Style::plain(100));
    assert!(
        text.contains("deploy: server file bin/server 111111111111 → 222222222222\n"),
        "{text}"
    );
}

fn minted(run: &str, call: &str) -> Event {
    Event::Minted {
        session: Session::A,
        run: run.to_owned(),
        call: call.to_owned(),
        approval: "a-000000".to_owned(),
        declared: String::new(),
    }
}

fn request(request: u32, key: &str) -> Event {
    Event::RequestReceived {
        request,
        connection: request,
        method: "POST".to_owned(),
        target: format!("/builds?key={key}"),
        credential: Credential::Absent,
        route: None,
        effect: Some("build".to_owned()),
        key: Some(key.to_owned()),
        body_bytes: 20,
    }
}

/// `eof` with all events of such a journal as its evidence.
fn proven(verdict: Verdict) -> Results {
    run(vec![Answer {
        evidence: (0..10).collect(),
        ..said(verdict, "…")
    }])
}

#[test]
fn of_the_events_only_what_happened_differently_is_shown() {
    let mut journals = Given {
        a: vec![
            minted("run-0001", "call-0001"),
            request(1, "key-7f7f7f"),
            request(2, "key-7f7f7f"),
        ],
        b: vec![
            minted("run-0002", "call-0002"),
            request(1, "key-3a3a3a"),
            request(2, "key-9b9b9b"),
        ],
    };
    let difference = differ(
        &proven(Verdict::Held),
        &proven(Verdict::Broken),
        &mut journals,
    );
    let change = &difference.trials[0].answers[0];
    assert_eq!(change.same_events, 2);
    let [pair] = change.events.as_slice() else {
        panic!("{change:?}");
    };
    let (a, b) = (pair.a.as_ref().unwrap(), pair.b.as_ref().unwrap());
    assert_eq!((a.seq, b.seq), (2, 2));
    assert!(a.event.contains("target=/builds?key=<key 1>"), "{a:?}");
    assert!(b.event.contains("target=/builds?key=<key 2>"), "{b:?}");
    let text = render_difference(&difference, &Style::plain(120));
    assert!(
        text.contains("besides 2 events that are the same:"),
        "{text}"
    );
    assert!(text.contains("A    2  request-received"), "{text}");
}

#[test]
fn an_event_that_one_of_them_lacks_stands_alone() {
    let both = vec![minted("run-0001", "call-0001"), request(1, "key-7f7f7f")];
    let mut journals = Given {
        a: both.clone(),
        b: [both, vec![Event::RemoteReleased]].concat(),
    };
    let difference = differ(
        &proven(Verdict::Held),
        &proven(Verdict::Broken),
        &mut journals,
    );
    let [pair] = difference.trials[0].answers[0].events.as_slice() else {
        panic!("{difference:?}");
    };
    assert_eq!(pair.a, None);
    assert_eq!(pair.b.as_ref().unwrap().event, "remote-released");
}

#[test]
fn pids_ports_folders_and_measures_are_no_difference() {
    let events = |pid, port, folder: &str| {
        vec![
            Event::ServerStarted {
                session: Session::A,
                pid,
                argv: vec![format!("{folder}/server")],
            },
            Event::ConnectionSought {
                connection: 1,
                port,
            },
            Event::PointReached {
                point: CrashPoint::Sent,
                proof: format!("pid {pid} wrote {folder}/log after {pid} ms to 127.0.0.1:{port}"),
            },
        ]
    };
    let mut journals = Given {
        a: events(7, 40001, "/tmp/.tmpAbCdEf"),
        b: events(12, 40002, "/var/tmp/x/.tmpUvWxYz"),
    };
    let difference = differ(
        &proven(Verdict::Held),
        &proven(Verdict::Broken),
        &mut journals,
    );
    let change = &difference.trials[0].answers[0];
    assert_eq!(
        (change.events.len(), change.same_events),
        (0, 3),
        "{change:?}"
    );
    let text = render_difference(&difference, &Style::plain(100));
    assert!(text.contains("the events are the same"), "{text}");
}

#[test]
fn what_a_bundle_says_acts_on_no_terminal() {
    let hostile = "\u{1b}[2J\u{202e}\nno answer changed";
    let a = run(vec![said(Verdict::Held, "It exited.")]);
    let mut b = run(vec![said(Verdict::Broken, "")]);
    b.trials[0].answers[0].because = hostile.to_owned();
    let mut journals = Given {
        a: vec![minted(hostile, hostile)],
        b: vec![Event::TrialFailed {
            because: hostile.to_owned(),
        }],
    };
    let a = Results {
        trials: vec![TrialResult {
            answers: vec![Answer {
                evidence: vec![0],
                ..a.trials[0].answers[0].clone()
            }],
            ..a.trials[0].clone()
        }],
        ..a
    };
    b.trials[0].answers[0].evidence = vec![0];
    let text = render_difference(&differ(&a, &b, &mut journals), &Style::plain(100));
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert!(!text.contains('\u{202e}'), "{text:?}");
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("no answer changed")),
        "{text}"
    );
}

#[test]
fn a_difference_at_the_end_of_a_long_event_is_found_and_shown() {
    let armed = |end: &str| Event::PointReached {
        point: CrashPoint::Sent,
        proof: format!("{} {end}", "x ".repeat(3_000)),
    };
    let mut journals = Given {
        a: vec![armed("left")],
        b: vec![armed("right")],
    };
    let difference = differ(
        &proven(Verdict::Held),
        &proven(Verdict::Broken),
        &mut journals,
    );
    assert_eq!(difference.trials[0].answers[0].same_events, 0);
    let text = render_difference(&difference, &Style::plain(100));
    assert!(
        text.contains("left\n") && text.contains("right\n"),
        "{text}"
    );
    assert!(text.len() < 2_000, "{text}");
}

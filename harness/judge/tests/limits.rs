//! A limit of the cell was exceeded, at any moment: `resources` is broken (in the revoked session `revocation`), and nothing is
//! held that was not decided.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

/// 65 processes where 64 are allowed.
fn exceeded() -> Event {
    Event::LimitExceeded {
        limit: Limit::Processes,
        most: 64,
        used: 65,
        by: vec![
            Eater {
                comm: "worker".to_owned(),
                processes: 64,
                uses: 64,
            },
            Eater {
                comm: "deploy".to_owned(),
                processes: 1,
                uses: 1,
            },
        ],
        rehearsal: false,
    }
}

fn cleared() -> Event {
    Event::CellCleared { ended: 66 }
}

/// The good trial up to here; then the limit, and the end of it.
fn cut_short(tale: Tale, by: Event, before: impl Fn(&Event) -> bool) -> Tale {
    let ends = [by, cleared(), Event::TrialEnded];
    let cut = tale.before(&before, ends);
    // All that would have come is gone.
    cut.until_after(|e| matches!(e, Event::TrialEnded))
}

fn good_until(before: impl Fn(&Event) -> bool) -> Tale {
    cut_short(Tale::good(CrashPoint::AfterAcceptance), exceeded(), before)
}

/// Only `resources` is broken; these are held, and the rest is open for the reason that broke it.
#[track_caller]
fn breaks_resources_and_holds(tale: &Tale, held: &[Question], when: &str) {
    breaks_and_holds(tale, Question::Resources, held, when);
}

#[track_caller]
fn breaks_and_holds(tale: &Tale, broken: Question, held: &[Question], when: &str) {
    let told = format!(
        "{when} had 65 processes (64 `worker`, 1 `deploy`); the limit is 64: the cell ended them all"
    );
    let judgement = tale.judged();
    assert_eq!(judgement.verdict, Verdict::Broken);
    assert!(judgement.answers.len() > 8);
    for answer in judgement.answers {
        let question = answer.question;
        let right = if question == broken {
            Verdict::Broken
        } else if held.contains(&question) {
            Verdict::Held
        } else {
            Verdict::Unproven
        };
        assert_eq!(answer.verdict, right, "{question}: {}", answer.because);
        if question == Question::Resources && right == Verdict::Broken {
            assert_eq!(answer.because, told);
        }
        if right == Verdict::Broken {
            assert!(answer.because.contains(&told), "{}", answer.because);
        }
        if right == Verdict::Unproven {
            assert_eq!(answer.because, format!("{told}, before this was decided"));
        }
        if right == Verdict::Unproven {
            let evidence: Vec<Event> = tale
                .lines()
                .into_iter()
                .filter(|line| answer.evidence.contains(&line.seq))
                .map(|line| line.event)
                .collect();
            assert_eq!(evidence, [exceeded(), cleared()], "{question}");
        }
    }
}

const OF_SESSION_A: [Question; 6] = [
    Question::Eof,
    Question::Helpers,
    Question::Quiet,
    Question::Effects,
    Question::Handle,
    Question::Ownership,
];

#[test]
fn before_the_crash_nothing_else_is_decided() {
    let handshake = |e: &Event| {
        matches!(
            e,
            Event::Handshaken {
                session: Session::A,
                ..
            }
        )
    };
    let armed = |e: &Event| matches!(e, Event::Armed { .. });
    let reached = |e: &Event| matches!(e, Event::PointReached { .. });
    for (before, when) in [
        (
            &handshake as &dyn Fn(&Event) -> bool,
            "before the handshake was answered its session",
        ),
        (&armed, "before its call its session"),
        (&reached, "on the way to the crash point its session"),
        (&phase(Phase::Crash), "at the crash point its session"),
    ] {
        let tale = good_until(before);
        let tale = match when {
            // The phase is entered before the point is armed.
            "before its call its session" => tale.without(phase(Phase::Arm)),
            _ => tale,
        };
        breaks_resources_and_holds(&tale, &[], when);
    }
}

#[test]
fn after_the_crash_nothing_else_is_decided_as_long_as_session_a_is_watched() {
    for seen in [
        Phase::Observe,
        Phase::Release,
        Phase::Quiet,
        Phase::EvidenceAgain,
        Phase::Revoke,
        Phase::Stop,
    ] {
        let tale = good_until(phase(seen));
        breaks_resources_and_holds(&tale, &[], "after the crash its session");
    }
}

#[test]
fn in_a_later_session_what_session_a_did_is_decided() {
    let is_answered = |wanted: Session| move |e: &Event| matches!(e, Event::CallAnswered { session, .. } if *session == wanted);
    let in_b = good_until(is_answered(Session::B));
    breaks_resources_and_holds(&in_b, &OF_SESSION_A, "session B");
    // It is made for `revocation`, and breaks nothing else.
    let in_revoked = good_until(is_answered(Session::Revoked));
    let mut held = OF_SESSION_A.to_vec();
    held.extend([Question::Reconcile, Question::Resources]);
    breaks_and_holds(
        &in_revoked,
        Question::Revocation,
        &held,
        "the revoked session",
    );
    in_revoked.finds(
        Code::RevocationLimit,
        "the revoked session had 65 processes",
    );
}

#[test]
fn what_was_proven_broken_before_stays_so() {
    let noise = line(Session::A, Way::FromServer, LineShape::Noise, "1");
    let tale = Tale::good(CrashPoint::AfterAcceptance).before(phase(Phase::Crash), [noise]);
    let tale = cut_short(tale, exceeded(), phase(Phase::Quiet));
    tale.finds(Code::ProtocolNoise, "not JSON-RPC");
    tale.finds(Code::ResourcesLimit, "the limit is 64");
    tale.finds_at(Question::Eof, Code::TrialLimitExceeded, "the limit is 64");
}

#[test]
fn what_comes_of_the_cell_s_killing_breaks_nothing() {
    let by_us = Event::ProcessExited {
        pid: SERVER,
        exit: Exit::Signal {
            number: 9,
            core: false,
        },
        comm: None,
    };
    let tale = good_until(phase(Phase::Observe)).after(
        |e| matches!(e, Event::LimitExceeded { .. }),
        [
            by_us,
            Event::EofInPipe {
                session: Session::A,
            },
        ],
    );
    breaks_only_resources(&tale);
}

#[track_caller]
fn breaks_only_resources(tale: &Tale) {
    for answer in tale.judged().answers {
        let right = match answer.question {
            Question::Resources => Verdict::Broken,
            _ => Verdict::Unproven,
        };
        assert_eq!(
            answer.verdict, right,
            "{}: {}",
            answer.question, answer.because
        );
    }
}

#[test]
fn a_trial_that_failed_on_our_side_is_an_error_all_the_same() {
    let failed = Event::TrialFailed {
        because: "the disk is full".to_owned(),
    };
    let tale =
        good_until(phase(Phase::Quiet)).after(|e| matches!(e, Event::CellCleared { .. }), [failed]);
    assert_eq!(tale.judged().verdict, Verdict::Error);
}

#[test]
fn each_limit_is_told_in_its_own_unit() {
    let of = |limit, most, used, uses| Event::LimitExceeded {
        limit,
        most,
        used,
        by: vec![Eater {
            comm: "deploy".to_owned(),
            processes: 1,
            uses,
        }],
        rehearsal: false,
    };
    for (event, told) in [
        (
            of(Limit::Memory, 256 << 20, 300 << 20, 290 << 20),
            "had 300 MiB of memory (`deploy` 290 MiB); the limit is 256 MiB",
        ),
        (
            of(Limit::Cpu, 10_000 * MS, 10_100 * MS, 10_000 * MS),
            "had used 10.1 s of CPU time (`deploy` 10 s); the limit is 10 s",
        ),
        (
            of(Limit::Threads, 4096, 5000, 4999),
            "had 5000 threads (`deploy` 4999); the limit is 4096",
        ),
    ] {
        let tale = cut_short(Tale::good(CrashPoint::Idle), event, phase(Phase::Quiet));
        let answer = tale.finds(Code::ResourcesLimit, told);
        assert!(
            answer.stable.starts_with("<when> its session"),
            "{}",
            answer.stable
        );
        assert!(!answer.stable.contains("deploy"), "{}", answer.stable);
    }
}

#[test]
fn a_limit_that_was_exceeded_in_the_rehearsal_says_so() {
    let mut event = exceeded();
    if let Event::LimitExceeded { rehearsal, .. } = &mut event {
        *rehearsal = true;
    }
    let tale = cut_short(
        Tale::good(CrashPoint::BeforeDispatch),
        event,
        phase(Phase::Arm),
    )
    .without(|e| matches!(e, Event::CellCleared { .. }));
    tale.finds(
        Code::ResourcesLimit,
        "in the rehearsal of the call its session had 65 processes",
    );
    tale.finds_at(
        Question::Effects,
        Code::TrialLimitExceeded,
        "its cell ended them all",
    );
}

#[test]
fn a_limit_that_is_known_to_be_exceeded_leaves_the_rest_open() {
    let tale = good_until(phase(Phase::Quiet)).drilled_with(json!({
        "known": { "resources": { "because": "reported upstream" } },
    }));
    assert!(tale.answer(Question::Resources).known);
    assert_eq!(tale.judged().verdict, Verdict::Unproven);
}

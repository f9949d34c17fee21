//! Crashes that did not land: every question stays open.

use super::tale::*;
use crate::journal::*;
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

fn failed(session: Session, fault: SessionFault) -> Event {
    Event::SessionFailed {
        session,
        fault,
        detail: "it did not work".to_owned(),
        stderr_tail: "lock is held by pid 12".to_owned(),
    }
}

/// A tale that ends where session A's server would have been handshaken.
fn not_started(fault: SessionFault) -> Tale {
    Tale::good(CrashPoint::Idle)
        .until(|e| matches!(e, Event::Handshaken { .. }))
        .after(
            |e| matches!(e, Event::ServerStarted { .. }),
            [failed(Session::A, fault), Event::TrialEnded],
        )
}

fn all_open(tale: &Tale, code: Code, words: &str) {
    let judgement = tale.judged();
    assert!(!judgement.answers.is_empty());
    assert_eq!(judgement.verdict, Verdict::Unproven);
    for answer in judgement.answers {
        assert_eq!(answer.verdict, Verdict::Unproven, "{}", answer.because);
        assert!(answer.because.contains(words), "{}", answer.because);
        assert_eq!(answer.codes, [code], "{}", answer.because);
    }
}

#[test]
fn a_point_that_is_missed_leaves_everything_open() {
    let tale = Tale::good(CrashPoint::BeforeDispatch)
        .until(|e| matches!(e, Event::PointReached { .. }))
        .after(
            |e| matches!(e, Event::CallIssued { .. }),
            [
                Event::PointMissed {
                    point: CrashPoint::BeforeDispatch,
                    instead: "the call was answered".to_owned(),
                },
                Event::TrialEnded,
            ],
        );
    all_open(&tale, Code::TrialNotReached, "the call was answered");
}

#[test]
fn a_crash_that_did_not_happen_leaves_everything_open() {
    let tale = Tale::good(CrashPoint::Idle).without(|e| matches!(e, Event::CrashFired { .. }));
    all_open(&tale, Code::TrialEndedEarly, "had already ended");
    let tale = tale.without(|e| matches!(e, Event::ProcessExited { .. }));
    all_open(&tale, Code::TrialNoEvidence, "the crash did not happen");
}

#[test]
fn a_server_that_was_dead_before_the_crash_leaves_everything_open() {
    let tale = Tale::good(CrashPoint::AfterAcceptance)
        .without(|e| matches!(e, Event::ProcessExited { pid: SERVER, .. }))
        .after(
            |e| matches!(e, Event::PointReached { .. }),
            [exited(SERVER, 101)],
        );
    all_open(
        &tale,
        Code::TrialEndedEarly,
        "had already ended, with status 101, before the crash",
    );
}

#[test]
fn a_server_that_closed_stdout_before_the_crash_leaves_everything_open() {
    let tale = Tale::good(CrashPoint::AfterAcceptance).after(
        |e| matches!(e, Event::PointReached { .. }),
        [Event::StdoutEnded {
            session: Session::A,
            torn: 0,
        }],
    );
    all_open(&tale, Code::TrialEndedEarly, "already closed its stdout");
}

#[test]
fn a_server_that_cannot_open_a_session_breaks_the_protocol_and_leaves_the_rest_open() {
    for fault in [
        SessionFault::Exited,
        SessionFault::TimedOut,
        SessionFault::Refused,
    ] {
        let tale = not_started(fault);
        let answer = tale.finds(Code::ProtocolNoHandshake, "lock is held by pid 12");
        assert!(!answer.stable.contains("lock"), "{}", answer.stable);
        tale.finds_at(Question::Eof, Code::TrialNoHandshake, "nothing to crash");
        tale.finds_at(
            Question::Secrets,
            Code::TrialNoHandshake,
            "nothing to crash",
        );
    }
}

#[test]
fn a_server_that_is_lost_before_the_call_leaves_everything_open() {
    all_open(
        &not_started(SessionFault::Lost),
        Code::TrialNoHandshake,
        "before the call",
    );
}

#[test]
fn a_command_that_cannot_be_executed_is_an_error_and_says_nothing_of_the_server() {
    for fault in [SessionFault::NotExecuted, SessionFault::Client] {
        let judgement = not_started(fault).judged();
        assert_eq!(judgement.verdict, Verdict::Error);
        assert!(judgement.answers.is_empty());
        assert_eq!(
            judgement.error.as_deref(),
            Some("session A could not be started: it did not work")
        );
    }
}

#[test]
fn a_later_session_that_cannot_be_executed_is_an_error_too() {
    let tale = Tale::good(CrashPoint::Idle).before(
        |e| {
            matches!(
                e,
                Event::Handshaken {
                    session: Session::B,
                    ..
                }
            )
        },
        [failed(Session::B, SessionFault::NotExecuted)],
    );
    assert_eq!(tale.judged().verdict, Verdict::Error);
}

#[test]
fn a_client_that_the_crash_has_ended_is_no_error() {
    let tale = Tale::good(CrashPoint::Startup).after(
        |e| matches!(e, Event::ClientGone { .. }),
        [failed(Session::A, SessionFault::Client)],
    );
    assert_eq!(tale.judged().verdict, Verdict::Held);
}

#[test]
fn a_trial_that_failed_is_an_error() {
    let tale = Tale::good(CrashPoint::Idle).before(
        |e| matches!(e, Event::TrialEnded),
        [Event::TrialFailed {
            because: "no space left on device".to_owned(),
        }],
    );
    assert_eq!(
        tale.judged().error.as_deref(),
        Some("no space left on device")
    );
}

#[test]
fn noise_is_noise_even_where_the_crash_did_not_land() {
    let tale = not_started(SessionFault::Lost).after(
        |e| matches!(e, Event::ServerStarted { .. }),
        [line(Session::A, Way::FromServer, LineShape::Noise, "")],
    );
    tale.finds(Code::ProtocolNoise, "listening on 8080");
}

#[test]
fn a_server_killed_by_the_crash_itself_may_be_reaped_before_the_crash_is_noted() {
    let tale = Tale::good_with(crash(serde_json::json!({ "at": "idle", "kill": "server" })))
        .without(|e| matches!(e, Event::ProcessExited { pid: SERVER, .. }))
        .before(
            |e| matches!(e, Event::CrashFired { .. }),
            [Event::ProcessExited {
                pid: SERVER,
                exit: Exit::Signal {
                    number: 9,
                    core: false,
                },
                comm: None,
            }],
        );
    tale.holds(Question::Helpers);
    assert!(tale.asked(Question::Eof).is_none());
}

#[test]
fn a_call_that_failed_without_an_effect_is_no_control() {
    let tale = Tale::good(CrashPoint::AfterResult)
        .without(|e| matches!(e, Event::EffectApplied { request: 1, .. }))
        .change(|event| match event {
            Event::CallAnswered {
                session: Session::A,
                shape,
                text,
                ..
            } => {
                (*shape, *text) = (AnswerShape::ToolError, "no such project".to_owned());
                true
            }
            _ => false,
        });
    all_open(
        &tale,
        Code::TrialCallFailed,
        "so there was no result to crash after: “no such project”",
    );
    // Where the drill says that such a call changes nothing, that is its result.
    tale.drilled_with(serde_json::json!({ "expect": { "effects": { "after-result": 0 } } }))
        .holds(Question::Effects);
}

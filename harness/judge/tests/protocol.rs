//! `protocol`.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn closes_stdin(point: CrashPoint) -> Tale {
    Tale::good_with(crash(json!({ "at": point, "close": ["stdin"] })))
}

// ---- protocol ----------------------------------------------------------------------------------------------------

#[test]
fn noise_on_the_stdout_of_any_session_breaks_and_is_quoted() {
    for session in [Session::A, Session::Revoked, Session::B] {
        let answer = point()
            .after(
                |e| matches!(e, Event::Handshaken { session: of, .. } if *of == session),
                [line(session, Way::FromServer, LineShape::Noise, "")],
            )
            .finds_only(Code::ProtocolNoise, "“listening on 8080”");
        assert!(
            answer.because.starts_with(&session.to_string()),
            "{}",
            answer.because
        );
        assert!(!answer.stable.contains("8080"), "{}", answer.stable);
    }
}

#[test]
fn what_the_client_writes_is_never_noise() {
    point()
        .after(
            |e| matches!(e, Event::Handshaken { .. }),
            [line(Session::A, Way::ToServer, LineShape::Noise, "")],
        )
        .holds(Question::Protocol);
}

#[test]
fn a_torn_last_line_breaks_while_nobody_killed_the_server_or_its_client() {
    let torn = |session| Event::StdoutEnded { session, torn: 12 };
    point()
        .before(
            |e| {
                matches!(
                    e,
                    Event::SessionEnded {
                        session: Session::B
                    }
                )
            },
            [torn(Session::B)],
        )
        .finds_only(
            Code::ProtocolTorn,
            "in the middle of a line, after 12 bytes",
        );
    point()
        .after(
            |e| {
                matches!(
                    e,
                    Event::SessionEnded {
                        session: Session::B
                    }
                )
            },
            [torn(Session::B)],
        )
        .holds(Question::Protocol);
}

#[test]
fn a_server_that_was_killed_has_written_a_short_line_at_once_or_not_at_all() {
    let killed = |bytes| {
        let torn = Event::StdoutEnded {
            session: Session::A,
            torn: bytes,
        };
        Tale::good_with(crash(json!({ "at": "idle", "kill": "server" })))
            .after(|e| matches!(e, Event::CrashFired { .. }), [torn])
    };
    killed(12).finds_only(Code::ProtocolTorn, "in the middle of a line");
    killed(4096).holds(Question::Protocol);
}

#[test]
fn a_line_that_was_begun_is_written_to_its_end_also_when_the_client_has_closed_stdin() {
    let closed = Event::ClientClosed {
        session: Session::B,
        stream: "stdin".to_owned(),
    };
    let torn = Event::StdoutEnded {
        session: Session::B,
        torn: 12,
    };
    let is_end = |e: &Event| {
        matches!(
            e,
            Event::SessionEnded {
                session: Session::B
            }
        )
    };
    point()
        .before(is_end, [closed, torn])
        .finds_only(Code::ProtocolTorn, "in the middle of a line");
}

#[test]
fn an_answer_that_nobody_asked_for_and_a_second_one_break() {
    let is_handshake = |e: &Event| {
        matches!(
            e,
            Event::Handshaken {
                session: Session::B,
                ..
            }
        )
    };
    let lines = |ids: &[&str]| -> Vec<Event> {
        let asked = line(Session::B, Way::ToServer, LineShape::Request, "70");
        let answers = ids
            .iter()
            .map(|id| line(Session::B, Way::FromServer, LineShape::Response, id));
        std::iter::once(asked).chain(answers).collect()
    };
    point()
        .after(is_handshake, lines(&["70"]))
        .holds(Question::Protocol);
    point()
        .after(is_handshake, lines(&["9999"]))
        .finds_only(Code::ProtocolUnasked, "a request that was never made");
    point()
        .after(is_handshake, lines(&["70", "70"]))
        .finds_only(Code::ProtocolUnasked, "one request twice");
}

#[test]
fn an_answer_that_is_lost_breaks_where_the_client_could_still_read() {
    let is_answer = |e: &Event| matches!(e, Event::LinePassed { session: Session::A, way: Way::FromServer, id: Some(id), .. } if id == "1");
    let log = json!({ "expect": { "ownership": null } });
    closes_stdin(CrashPoint::CallWritten)
        .without(is_answer)
        .drilled_with(log.clone())
        .finds_only(
            Code::ProtocolLost,
            "(tools/call) was never answered, and the server exited with status 0",
        );
    // An outcome in the record accounts for it.
    closes_stdin(CrashPoint::CallWritten)
        .without(is_answer)
        .holds(Question::Protocol);
    // The outcome of the same call in session B does not.
    let of_b_alone = |event: &mut Event| match event {
        Event::RecordRead { moment, rows, .. } if *moment < Moment::AfterSessionB => {
            rows.clear();
            true
        }
        _ => false,
    };
    closes_stdin(CrashPoint::CallWritten)
        .without(is_answer)
        .change(of_b_alone)
        .finds(Code::ProtocolLost, "was never answered");
    // A dead client reads nothing.
    Tale::good(CrashPoint::CallWritten)
        .drilled_with(log)
        .holds(Question::Protocol);
}

#[test]
fn a_server_that_still_runs_has_not_lost_its_answer() {
    let is_answer = |e: &Event| matches!(e, Event::LinePassed { session: Session::A, way: Way::FromServer, id: Some(id), .. } if id == "1");
    closes_stdin(CrashPoint::CallWritten)
        .never_exiting()
        .without(is_answer)
        .drilled_with(json!({ "expect": { "ownership": null } }))
        .holds(Question::Protocol);
}

#[test]
fn a_handshake_probe_need_not_be_answered() {
    closes_stdin(CrashPoint::Idle)
        .before(
            |e| {
                matches!(
                    e,
                    Event::Handshaken {
                        session: Session::A,
                        ..
                    }
                )
            },
            [line(Session::A, Way::ToServer, LineShape::Request, "probe")],
        )
        .holds(Question::Protocol);
}

#[test]
fn a_request_before_the_result_must_have_been_answered() {
    Tale::good(CrashPoint::AfterResult)
        .after(
            |e| {
                matches!(
                    e,
                    Event::Handshaken {
                        session: Session::A,
                        ..
                    }
                )
            },
            [line(Session::A, Way::ToServer, LineShape::Request, "77")],
        )
        .finds_only(Code::ProtocolLost, "was never answered");
}

fn is_answer(of: Session) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::CallAnswered { session, .. } if *session == of)
}

fn is_issue(of: Session) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::CallIssued { session, .. } if *session == of)
}

/// A server that is gone with so many bytes unread, and has written a word.
fn gone(session: Session, exit: Option<i32>, unread: Option<u64>) -> Event {
    Event::ServerLost {
        session,
        exit: exit.map(Exit::Code),
        unread,
        stderr_tail: "no pool\n".to_owned(),
    }
}

/// The trial in which session B's server is gone instead of answering.
fn gone_in_b(exit: Option<i32>, unread: Option<u64>) -> Tale {
    let is_last = |e: &Event| {
        matches!(
            e,
            Event::LinePassed {
                session: Session::B,
                way: Way::FromServer,
                id: Some(id),
                ..
            } if id == "4"
        )
    };
    point()
        .without(is_last)
        .change(|event| match event {
            Event::CallAnswered {
                session: Session::B,
                shape,
                ..
            } => {
                *shape = AnswerShape::Nothing;
                true
            }
            _ => false,
        })
        .before(is_answer(Session::B), [gone(Session::B, exit, unread)])
}

/// The trial in which session A's server is gone before the crash, so that its point is missed.
fn gone_in_a(answered: bool, unread: Option<u64>) -> Tale {
    let answer = line(Session::A, Way::FromServer, LineShape::Response, "1");
    let missed = Event::PointMissed {
        point: CrashPoint::AfterAcceptance,
        instead: "the server ended with status 0 before the point was reached".to_owned(),
    };
    let rest = [
        exited(SERVER, 0),
        gone(Session::A, Some(0), unread),
        missed,
        Event::PhaseStarted {
            phase: Phase::Close,
        },
        Event::TrialEnded,
    ];
    point()
        .until_after(is_issue(Session::A))
        .after(
            is_issue(Session::A),
            answered.then_some(answer).into_iter().chain(rest),
        )
        .a_moment_apart()
}

#[test]
fn a_request_that_a_later_server_had_read_and_did_not_answer_breaks() {
    let told = "the server of session B exited with status 0 while its call was not answered; its stderr ended with \
                “no pool”";
    gone_in_b(Some(0), Some(0)).finds(Code::ProtocolLost, told);
    gone_in_b(None, Some(0)).finds(
        Code::ProtocolLost,
        "the server of session B closed its stdout, and did not exit, while its call was not answered",
    );
    // A line that was begun to be read was read.
    gone_in_b(Some(0), Some(99)).finds(Code::ProtocolLost, told);
    gone_in_b(Some(0), Some(100)).holds(Question::Protocol);
    // Where nothing tells what was read, a request that came of the call does.
    gone_in_b(Some(0), None).finds(Code::ProtocolLost, told);
    gone_in_a(false, None).finds(
        Code::ProtocolPerhapsLost,
        "nothing shows whether it had read it",
    );
}

#[test]
fn a_request_that_is_lost_before_the_crash_breaks_though_the_crash_never_came() {
    let tale = gone_in_a(false, Some(0));
    let told = "the server of session A exited with status 0 while its call was not answered; its stderr ended with \
                “no pool”";
    tale.finds(Code::ProtocolLost, told);
    let missed = tale.finds_at(
        Question::Eof,
        Code::TrialNotReached,
        "the crash point after-acceptance was not reached",
    );
    assert!(missed.because.contains("no pool"), "{}", missed.because);
    assert!(!missed.stable.contains("no pool"), "{}", missed.stable);
    gone_in_a(false, Some(100)).finds_at(
        Question::Protocol,
        Code::TrialNotReached,
        "was not reached",
    );
    gone_in_a(true, Some(0)).finds_at(Question::Protocol, Code::TrialNotReached, "was not reached");
}

#[test]
fn an_answer_is_due_from_where_a_client_that_had_stopped_reading_reads_on() {
    let is_answer = |e: &Event| matches!(e, Event::LinePassed { session: Session::A, way: Way::FromServer, id: Some(id), .. } if id == "1");
    let is_fired = |e: &Event| matches!(e, Event::CrashFired { .. });
    let session = Session::A;
    let tale = closes_stdin(CrashPoint::AfterReply)
        .without(is_answer)
        .drilled_with(json!({ "expect": { "ownership": null } }))
        .before(is_fired, [Event::ReadingStopped { session }]);
    tale.clone().holds(Question::Protocol);
    tale.after(is_fired, [Event::ReadingResumed { session }])
        .finds(Code::ProtocolLost, "was never answered");
}

#[test]
fn a_silent_server_holds() {
    Tale::good(CrashPoint::Startup)
        .without(|e| matches!(e, Event::LinePassed { .. }))
        .holds_saying(Question::Protocol, "nothing came on stdout");
}

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
            .breaks_only(Question::Protocol, "“listening on 8080”");
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
        .breaks_only(
            Question::Protocol,
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
    killed(12).breaks_only(Question::Protocol, "in the middle of a line");
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
        .breaks_only(Question::Protocol, "in the middle of a line");
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
        .breaks_only(Question::Protocol, "a request that was never made");
    point()
        .after(is_handshake, lines(&["70", "70"]))
        .breaks_only(Question::Protocol, "one request twice");
}

#[test]
fn an_answer_that_is_lost_breaks_where_the_client_could_still_read() {
    let is_answer = |e: &Event| matches!(e, Event::LinePassed { session: Session::A, way: Way::FromServer, id: Some(id), .. } if id == "1");
    let log = json!({ "expect": { "ownership": null } });
    closes_stdin(CrashPoint::CallWritten)
        .without(is_answer)
        .drilled_with(log.clone())
        .breaks_only(
            Question::Protocol,
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
        .breaks(Question::Protocol, "was never answered");
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
        .breaks_only(Question::Protocol, "was never answered");
}

#[test]
fn a_later_server_that_ends_instead_of_answering_breaks() {
    let nothing = |event: &mut Event| match event {
        Event::CallAnswered {
            session: Session::B,
            shape,
            ..
        } => {
            *shape = AnswerShape::Nothing;
            true
        }
        _ => false,
    };
    let tale = point().change(nothing);
    tale.clone()
        .before(
            |e| {
                matches!(
                    e,
                    Event::CallAnswered {
                        session: Session::B,
                        ..
                    }
                )
            },
            [exited(21, 0)],
        )
        .breaks(
            Question::Protocol,
            "the server of session B exited with status 0 while its call was not answered",
        );
    tale.clone()
        .before(
            |e| {
                matches!(
                    e,
                    Event::CallAnswered {
                        session: Session::B,
                        ..
                    }
                )
            },
            [Event::StdoutEnded {
                session: Session::B,
                torn: 0,
            }],
        )
        .breaks(Question::Protocol, "closed its stdout");
    tale.holds(Question::Protocol);
}

#[test]
fn a_silent_server_holds() {
    Tale::good(CrashPoint::Startup)
        .without(|e| matches!(e, Event::LinePassed { .. }))
        .holds_saying(Question::Protocol, "nothing came on stdout");
}

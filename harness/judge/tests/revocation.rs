//! `revocation`.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

// ---- revocation: the survivors -----------------------------------------------------------------------------------

fn derived() -> Credential {
    Credential::Run {
        run: Session::A,
        derived: true,
        revoked: true,
    }
}

fn revoked() -> Credential {
    Credential::Run {
        run: Session::A,
        derived: false,
        revoked: true,
    }
}

fn refused(number: u32, credential: &Credential) -> [Event; 2] {
    [
        request_by(number, "GET /builds", credential.clone()),
        Event::RequestRefused {
            request: number,
            credential: credential.clone(),
        },
    ]
}

fn is_probe(event: &Event) -> bool {
    matches!(event, Event::Probed { .. })
}

#[test]
fn a_session_that_is_refused_answers_and_records_it_holds() {
    let answer = point().holds(Question::Revocation);
    assert_eq!(
        answer.because,
        "after the run was revoked, a probe with the run's credential got 401; the revoked session's call was refused by the \
         remote, 3 ms after it was issued and 39 ms after revoking, and was answered as an error; it changed nothing, and 0 \
         requests got through; the refusal stands in the record"
    );
}

#[test]
fn a_survivor_that_is_refused_and_recorded_holds() {
    point()
        .after(is_probe, refused(60, &revoked()))
        .change(|event| match event {
            Event::RecordRead {
                moment: Moment::AfterStop,
                bytes,
                lines,
                ..
            } => {
                *bytes += 80;
                *lines += 1;
                true
            }
            _ => false,
        })
        .holds(Question::Revocation);
}

#[test]
fn a_survivor_that_records_none_of_its_refusals_breaks() {
    point().after(is_probe, refused(60, &revoked())).finds(
        Code::RevocationUnrecorded,
        "1 attempt was refused after revoking, and the record did not get a single row",
    );
}

#[test]
fn a_survivor_that_gets_through_with_a_second_credential_breaks() {
    point()
        .after(is_probe, [request_by(60, "POST /builds", derived())])
        .finds(
            Code::RevocationSecondCredential,
            "what survived session A got 1 request through with a second credential",
        );
}

#[test]
fn a_survivor_that_falls_back_to_another_credential_breaks() {
    point()
        .after(is_probe, refused(60, &Credential::Foreign))
        .finds(
            Code::RevocationFellBack,
            "fell back to a credential that is not of the revoked run",
        );
}

#[test]
fn a_foreign_credential_that_was_always_used_is_no_fallback() {
    point()
        .before(
            |e| matches!(e, Event::PointReached { .. }),
            refused(59, &Credential::Foreign),
        )
        .after(
            |e| {
                matches!(
                    e,
                    Event::CallIssued {
                        session: Session::Revoked,
                        ..
                    }
                )
            },
            refused(60, &Credential::Foreign),
        )
        .holds(Question::Revocation);
}

#[test]
fn a_request_without_any_credential_is_no_fallback() {
    point()
        .after(
            |e| {
                matches!(
                    e,
                    Event::CallIssued {
                        session: Session::Revoked,
                        ..
                    }
                )
            },
            refused(60, &Credential::Absent),
        )
        .holds(Question::Revocation);
}

#[test]
fn to_ask_without_a_credential_what_was_refused_with_one_is_a_fallback() {
    let bare = [
        request_by(61, "POST /builds", Credential::Absent),
        Event::RequestRefused {
            request: 61,
            credential: Credential::Absent,
        },
    ];
    point()
        .after(
            |e| matches!(e, Event::RequestRefused { request: 8, .. }),
            bare,
        )
        .finds_only(
            Code::RevocationWithoutCredential,
            "the revoked session asked without any credential where that of the run is refused (POST /builds)",
        );
}

#[test]
fn a_server_that_has_never_shown_the_runs_credential_has_not_fallen_back() {
    Tale::good(CrashPoint::Idle)
        .change(|event| match event {
            Event::RequestReceived { credential, .. }
            | Event::RequestRefused { credential, .. } => {
                *credential = Credential::Foreign;
                true
            }
            _ => false,
        })
        .finds(
            Code::RevocationForeignCredential,
            "the run's own was never shown",
        );
}

#[test]
fn an_authority_that_does_not_refuse_leaves_it_open() {
    point()
        .change(|event| match event {
            Event::Probed { status, .. } => {
                *status = 200;
                true
            }
            _ => false,
        })
        .finds(Code::RevocationMockAccepts, "still took run A's credential");
}

#[test]
fn a_run_that_was_not_revoked_leaves_it_open() {
    point()
        .without(|e| matches!(e, Event::Revoked { .. }))
        .finds(Code::RevocationNotRevoked, "was not revoked");
}

// ---- revocation: the revoked session -----------------------------------------------------------------------------

fn answers(shape: AnswerShape) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::CallAnswered {
            session: Session::Revoked,
            shape: old,
            ..
        } => {
            *old = shape;
            true
        }
        _ => false,
    }
}

fn revoked_row(word: &'static str) -> impl Fn(&mut Event) -> bool {
    rows_at(Moment::AfterRevokedSession, move |rows| {
        rows.retain(|row| row.text("call").as_deref() != Some("call-r"));
        if !word.is_empty() {
            rows.push(row("call-r", word));
        }
    })
}

fn unasked(tale: Tale) -> Tale {
    tale.without(|e| {
        matches!(
            e,
            Event::RequestReceived { request: 8, .. } | Event::RequestRefused { request: 8, .. }
        )
    })
}

#[test]
fn an_answer_of_success_breaks() {
    unasked(point())
        .change(answers(AnswerShape::Result))
        .finds_only(Code::RevocationAnsweredSuccess, "was answered as a success");
}

#[test]
fn no_answer_breaks() {
    point()
        .change(answers(AnswerShape::Nothing))
        .finds_only(Code::RevocationNoAnswer, "got no answer");
}

#[test]
fn an_effect_breaks_revocation_alone() {
    point()
        .after(
            |e| matches!(e, Event::RequestRefused { request: 8, .. }),
            [
                sought(61),
                request_by(61, "POST /builds", derived()),
                applied(61, "build-6", "key-6"),
            ],
        )
        .finds_only(Code::RevocationEffect, "the revoked session made 1 effect");
}

#[test]
fn a_second_credential_that_gets_through_breaks() {
    point()
        .after(
            |e| matches!(e, Event::RequestRefused { request: 8, .. }),
            [request_by(61, "GET /builds", derived())],
        )
        .finds_only(
            Code::RevocationSecondCredential,
            "the revoked session got 1 request through with a second credential",
        );
}

#[test]
fn a_fallback_after_the_refusal_breaks_even_if_it_is_refused() {
    point()
        .after(
            |e| matches!(e, Event::RequestRefused { request: 8, .. }),
            refused(61, &Credential::Foreign),
        )
        .finds_only(Code::RevocationFellBack, "the revoked session fell back");
}

#[test]
fn a_refusal_that_comes_too_late_breaks() {
    point()
        .wait(
            |e| matches!(e, Event::RequestReceived { request: 8, .. }),
            1500 * MS,
        )
        .finds_only(
            Code::RevocationLate,
            "1.5 s after it was issued, where at most 1 s is right",
        );
}

#[test]
fn the_start_of_the_session_does_not_count() {
    point()
        .wait(
            |e| {
                matches!(
                    e,
                    Event::Handshaken {
                        session: Session::Revoked,
                        ..
                    }
                )
            },
            5000 * MS,
        )
        .holds(Question::Revocation);
}

#[test]
fn an_error_of_a_call_that_nobody_saw_work_is_no_refusal() {
    unasked(Tale::good(CrashPoint::Idle))
        .without(|e| matches!(e, Event::EffectApplied { .. }))
        .change(|e| match e {
            Event::CallAnswered {
                session: Session::B,
                shape,
                ..
            } => {
                *shape = AnswerShape::Error;
                true
            }
            _ => false,
        })
        .finds(
            Code::RevocationUntested,
            "no session of this trial shows that the call works at all",
        );
}

#[test]
fn a_server_may_refuse_by_itself() {
    unasked(point()).holds_saying(
        Question::Revocation,
        "by the server itself, without asking the remote",
    );
    unasked(point())
        .wait(
            |e| {
                matches!(
                    e,
                    Event::CallAnswered {
                        session: Session::Revoked,
                        ..
                    }
                )
            },
            1500 * MS,
        )
        .finds(Code::RevocationLate, "where at most 1 s is right");
}

#[test]
fn a_refusal_that_is_recorded_as_something_else_breaks() {
    for word in ["success", "failed", "unknown"] {
        point().change(revoked_row(word)).finds_only(
            Code::RevocationFalseRecord,
            &format!("stands in the record as “{word}”"),
        );
    }
}

#[test]
fn a_refusal_that_is_not_recorded_breaks() {
    for word in ["", "intended"] {
        point()
            .change(revoked_row(word))
            .finds_only(Code::RevocationUnrecorded, "does not stand in the record");
    }
}

#[test]
fn without_a_log_no_row_is_due() {
    let tale = point().change(revoked_row(""));
    tale.drilled_with(json!({ "expect": { "ownership": null } }))
        .holds(Question::Revocation);
}

#[test]
fn a_record_that_was_not_read_after_the_session_is_open() {
    point()
        .without(read_at(Moment::AfterRevokedSession))
        .finds_at(
            Question::Revocation,
            Code::TrialNoEvidence,
            "was not read after the revoked session",
        );
}

#[test]
fn a_session_that_cannot_start_is_open() {
    let failed = Event::SessionFailed {
        session: Session::Revoked,
        fault: SessionFault::Exited,
        detail: "status 1".to_owned(),
        stderr_tail: String::new(),
    };
    point()
        .until(|e| {
            matches!(
                e,
                Event::Handshaken {
                    session: Session::Revoked,
                    ..
                }
            )
        })
        .after(
            |e| {
                matches!(
                    e,
                    Event::ServerStarted {
                        session: Session::Revoked,
                        ..
                    }
                )
            },
            [failed, Event::TrialEnded],
        )
        .finds(
            Code::RevocationUntested,
            "did not get to its call: “status 1”",
        );
}

#[test]
fn a_session_that_was_not_started_is_open() {
    point()
        .until(phase(Phase::RevokedSession))
        .after(read_at(Moment::AfterStop), [Event::TrialEnded])
        .finds(
            Code::RevocationUntested,
            "no session with the revoked credential was started",
        );
}

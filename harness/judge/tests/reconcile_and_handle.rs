//! `reconcile` and `handle`.

use serde_json::{Value, json};

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn is_repeat(event: &Event) -> bool {
    matches!(event, Event::EffectRepeated { .. })
}

fn answers_b(shape: AnswerShape, text: &'static str) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::CallAnswered {
            session: Session::B,
            shape: old,
            text: said,
            ..
        } => {
            *old = shape;
            text.clone_into(said);
            true
        }
        _ => false,
    }
}

fn operator() -> Value {
    json!({ "recover": { "retry": null, "operator": true } })
}

fn operator_without_log() -> Value {
    json!({ "recover": { "retry": null, "operator": true }, "expect": { "ownership": null } })
}

/// Session B refuses and leaves the remote alone.
fn refuses(tale: Tale) -> Tale {
    tale.without(|e| {
        matches!(
            e,
            Event::EffectRepeated { request: 9, .. }
                | Event::EffectApplied { request: 9, .. }
                | Event::RequestReceived { request: 9, .. }
        )
    })
    .change(answers_b(
        AnswerShape::ToolError,
        "the outcome of the earlier call is not known",
    ))
}

// ---- retry -------------------------------------------------------------------------------------------------------

#[test]
fn a_retry_with_the_same_key_holds() {
    let answer = point().holds(Question::Reconcile);
    assert_eq!(
        answer.because,
        "after recovery the remote holds 1 effect, made by session A (build build-1 with key key-a), and the answer names it"
    );
}

#[test]
fn a_retry_where_nothing_had_been_made_holds() {
    Tale::good(CrashPoint::BeforeDispatch).holds(Question::Reconcile);
}

#[test]
fn an_answer_need_not_name_the_effect() {
    point()
        .change(answers_b(AnswerShape::Result, "done"))
        .holds_saying(Question::Reconcile, "does not name it");
}

#[test]
fn a_replay_with_another_key_breaks() {
    let answer = point()
        .without(is_repeat)
        .before(
            |e| matches!(e, Event::ReplySent { request: 9, .. }),
            [applied(9, "build-2", "key-9")],
        )
        .finds_only(
            Code::ReconcileDuplicate,
            "after recovery the remote holds 2 effects, 1 made by session A and 1 by session B",
        );
    assert!(
        answer
            .stable
            .ends_with("; each with another key), where 1 is right"),
        "{}",
        answer.stable
    );
}

#[test]
fn a_replay_as_the_server_starts_breaks_too() {
    point()
        .after(
            |e| {
                matches!(
                    e,
                    Event::ServerStarted {
                        session: Session::B,
                        ..
                    }
                )
            },
            [applied(80, "build-2", "key-9")],
        )
        .finds_only(Code::ReconcileDuplicate, "2 effects");
}

#[test]
fn a_call_that_is_lost_breaks() {
    Tale::good(CrashPoint::Idle)
        .without(|e| matches!(e, Event::EffectApplied { .. }))
        .finds_only(Code::ReconcileMissing, "holds 0 effects, where 1 is right");
}

#[test]
fn a_drill_that_lacks_the_route_cannot_tell() {
    Tale::good(CrashPoint::Idle)
        .change(|event| {
            let applied = matches!(event, Event::EffectApplied { .. });
            if let Event::EffectApplied { request, .. } = event {
                *event = Event::RequestUnmatched {
                    request: *request,
                    paste: String::new(),
                };
            }
            applied
        })
        .change(answers_b(AnswerShape::ToolError, "404"))
        .finds(Code::ReconcileUnmatched, "matches no route of the drill");
}

#[test]
fn an_error_about_an_effect_that_is_there_breaks() {
    for shape in [AnswerShape::ToolError, AnswerShape::Error] {
        point()
            .change(answers_b(shape, "already exists"))
            .finds_only(
                Code::ReconcileError,
                "but session B answered with an error: “already exists”",
            );
    }
    point()
        .change(answers_b(AnswerShape::Nothing, ""))
        .finds_only(Code::ReconcileNoAnswer, "session B did not answer");
}

#[test]
fn a_key_that_collides_with_another_calls_breaks() {
    let other = Event::EffectRepeated {
        request: 9,
        effect: "build-0".to_owned(),
        key: "4".to_owned(),
    };
    point()
        .before(phase(Phase::Arm), [applied(50, "build-0", "4")])
        .without(is_repeat)
        .before(
            |e| matches!(e, Event::ReplySent { request: 9, .. }),
            [other],
        )
        .finds_only(
            Code::ReconcileKeyCollision,
            "the effect of another call: their keys collide",
        );
}

#[test]
fn a_server_that_cancels_the_first_and_makes_another_leaves_one() {
    point()
        .without(is_repeat)
        .before(
            |e| matches!(e, Event::ReplySent { request: 9, .. }),
            [
                Event::EffectCancelled {
                    request: 90,
                    effect: "build-1".to_owned(),
                },
                applied(9, "build-2", "key-9"),
            ],
        )
        .holds(Question::Reconcile);
}

#[test]
fn the_calls_before_in_session_b_are_not_counted() {
    let issued = Event::CallIssued {
        session: Session::B,
        role: CallRole::Before,
        tool: "prepare".to_owned(),
        call: "x".to_owned(),
        rpc_id: "3".to_owned(),
    };
    point()
        .after(
            |e| {
                matches!(
                    e,
                    Event::Handshaken {
                        session: Session::B,
                        ..
                    }
                )
            },
            [issued, applied(81, "build-x", "key-x")],
        )
        .holds(Question::Reconcile);
}

#[test]
fn what_the_revoked_session_makes_is_left_out() {
    point()
        .after(
            phase(Phase::RevokedSession),
            [applied(8, "build-8", "key-r")],
        )
        .holds(Question::Reconcile);
}

#[test]
fn the_drill_may_expect_another_count() {
    let expect = |n: Value| json!({ "expect": { "eof": null, "reconcile": { "effects": n } } });
    point()
        .drilled_with(expect(json!(2)))
        .finds(Code::ReconcileMissing, "where 2 is right");
    point()
        .drilled_with(expect(json!({ "after-acceptance": 2 })))
        .finds(Code::ReconcileMissing, "where 2 is right");
    point()
        .drilled_with(expect(json!({ "sent": 2 })))
        .holds(Question::Reconcile);
}

#[test]
fn nothing_to_report_may_be_an_error() {
    let none = json!({ "expect": { "eof": null, "reconcile": { "effects": 0 } } });
    Tale::good(CrashPoint::Idle)
        .drilled_with(none)
        .without(|e| matches!(e, Event::EffectApplied { .. }))
        .change(answers_b(AnswerShape::ToolError, "no such build"))
        .holds(Question::Reconcile);
}

#[test]
fn a_session_b_without_an_answer_is_open() {
    point()
        .without(|e| {
            matches!(
                e,
                Event::CallAnswered {
                    session: Session::B,
                    ..
                }
            )
        })
        .finds_at(
            Question::Reconcile,
            Code::TrialNoEvidence,
            "nothing shows how session B's call ended",
        );
}

#[test]
fn a_session_b_that_does_not_start_is_open_here_and_breaks_resources() {
    let failed = Event::SessionFailed {
        session: Session::B,
        fault: SessionFault::Exited,
        detail: "it ended with status 1".to_owned(),
        stderr_tail: "deploy.lock is held".to_owned(),
    };
    let tale = point()
        .without(|e| {
            matches!(
                e,
                Event::CallAnswered {
                    session: Session::B,
                    ..
                } | Event::Handshaken {
                    session: Session::B,
                    ..
                }
            )
        })
        .after(
            |e| {
                matches!(
                    e,
                    Event::ServerStarted {
                        session: Session::B,
                        ..
                    }
                )
            },
            [failed],
        );
    tale.finds(Code::ReconcileNotTried, "it ended with status 1");
    tale.finds(Code::ResourcesNextSession, "deploy.lock is held");
}

// ---- operator ----------------------------------------------------------------------------------------------------

#[test]
fn an_operator_is_refused_where_the_record_knows_no_outcome() {
    refuses(point())
        .drilled_with(operator())
        .holds(Question::Reconcile);
    point().drilled_with(operator()).finds_only(
        Code::ReconcileNotRefused,
        "session B answered with a result, where an operator must be told",
    );
}

#[test]
fn an_intent_alone_must_be_refused_as_well() {
    let tale = Tale::good(CrashPoint::BeforeDispatch)
        .change(rows_from(Moment::ClientGone, |rows| {
            rows.retain(|r| r.text("outcome").as_deref() != Some("failed"));
        }))
        .drilled_with(operator());
    tale.finds(
        Code::ReconcileReplayed,
        "made 1 effect although the outcome of session A's call is not known",
    );
    refuses(tale).holds(Question::Reconcile);
}

#[test]
fn a_refusal_must_say_why() {
    refuses(point())
        .drilled_with(operator())
        .change(answers_b(AnswerShape::ToolError, "  "))
        .finds_only(Code::ReconcileNoReason, "refused without saying why");
}

#[test]
fn a_refusal_that_writes_all_the_same_breaks() {
    refuses(point())
        .drilled_with(operator())
        .after(
            |e| {
                matches!(
                    e,
                    Event::CallIssued {
                        session: Session::B,
                        ..
                    }
                )
            },
            [applied(9, "build-2", "key-9")],
        )
        .finds_only(Code::ReconcileReplayed, "session B made 1 effect");
}

#[test]
fn an_operator_may_go_on_where_the_outcome_is_known() {
    let known = Tale::good(CrashPoint::BeforeDispatch).drilled_with(operator());
    known.holds(Question::Reconcile);
    refuses(known).finds(Code::ReconcileMissing, "holds 0 effects, where 1 is right");
    Tale::good(CrashPoint::AfterResult)
        .drilled_with(operator())
        .holds(Question::Reconcile);
}

#[test]
fn an_operator_may_go_on_where_nothing_was_intended() {
    for point in [CrashPoint::Startup, CrashPoint::Idle, CrashPoint::TornCall] {
        Tale::good(point)
            .drilled_with(operator())
            .holds(Question::Reconcile);
        let tale = Tale::good(point).drilled_with(operator_without_log());
        tale.holds(Question::Reconcile);
        refuses(tale).finds(Code::ReconcileMissing, "0 effects");
    }
}

#[test]
fn without_a_log_the_ledger_tells_what_the_server_can_know() {
    let lost = || Tale::good(CrashPoint::AfterAcceptance).drilled_with(operator_without_log());
    lost().finds(Code::ReconcileNotRefused, "answered with a result");
    refuses(lost()).holds(Question::Reconcile);
    let before = || Tale::good(CrashPoint::BeforeDispatch).drilled_with(operator_without_log());
    before().holds(Question::Reconcile);
    refuses(before()).holds(Question::Reconcile);
}

#[test]
fn without_a_log_a_delivered_reply_may_or_may_not_be_known() {
    let delivered = || Tale::good(CrashPoint::AfterReply).drilled_with(operator_without_log());
    delivered().holds(Question::Reconcile);
    refuses(delivered()).holds(Question::Reconcile);
    // Delivered to a server that had gone is not delivered.
    delivered()
        .change(|event| match event {
            Event::ReplySent { request: 1, status } => {
                let status = *status;
                *event = Event::ReplyHeld { request: 1, status };
                true
            }
            _ => false,
        })
        .after(|e| matches!(e, Event::RemoteReleased), [replied(1)])
        .finds(Code::ReconcileNotRefused, "answered with a result");
}

// ---- handle ------------------------------------------------------------------------------------------------------

fn drop_field(field: &'static str) -> impl Fn(&mut Event) -> bool {
    rows_from(Moment::Dispatch, move |rows| {
        for row in rows {
            row.fields.remove(field);
        }
    })
}

#[test]
fn an_effect_that_its_key_finds_holds() {
    point().holds_saying(
        Question::Handle,
        "can be found and cancelled by the key that the record holds",
    );
}

#[test]
fn an_effect_whose_id_the_record_holds_is_found() {
    point()
        .change(drop_field("key"))
        .change(rows_from(Moment::End, |rows| {
            for row in rows {
                row.fields.insert("effect".to_owned(), json!("build-1"));
            }
        }))
        .holds(Question::Handle);
}

#[test]
fn an_effect_without_key_or_id_in_the_record_breaks() {
    point().change(drop_field("key")).finds(
        Code::HandleNotFindable,
        "no row holds its key or the remote's id of it",
    );
}

#[test]
fn an_effect_without_any_row_breaks() {
    point()
        .change(rows_from(Moment::Dispatch, Vec::clear))
        .finds(Code::HandleNotFindable, "it has no row of the call");
}

#[test]
fn a_key_in_the_record_finds_an_effect_in_a_list_of_all() {
    let routes = json!({ "remote": { "routes": [
        { "on": "POST /builds", "effect": "build", "key": { "header": "Idempotency-Key" } },
        { "on": "GET /builds", "find": "build" },
    ] } });
    point()
        .drilled_with(routes)
        .holds_saying(Question::Handle, "by the key that the record holds");
}

#[test]
fn a_key_that_finds_nothing_breaks() {
    let routes = json!({ "remote": { "routes": [
        { "on": "POST /builds", "effect": "build", "key": { "header": "Idempotency-Key" } },
        { "on": "POST /builds/{id}/cancel", "cancel": "build", "by": { "path": "id" } },
    ] } });
    point()
        .drilled_with(routes)
        .finds_only(Code::HandleNotFindable, "the remote finds nothing by key");
}

#[test]
fn an_effect_made_without_a_key_breaks() {
    point()
        .change(|event| match event {
            Event::EffectApplied { key, .. } => key.take().is_some(),
            _ => false,
        })
        .finds(Code::HandleNotFindable, "it was made without a key");
}

#[test]
fn a_known_outcome_needs_no_handle() {
    assert!(
        Tale::good(CrashPoint::AfterResult)
            .asked(Question::Handle)
            .is_none()
    );
    assert!(
        Tale::good(CrashPoint::BeforeDispatch)
            .asked(Question::Handle)
            .is_none()
    );
}

#[test]
fn a_success_that_names_another_effect_is_not_known() {
    Tale::good(CrashPoint::AfterResult)
        .change(rows_from(Moment::AfterStop, |rows| {
            for row in rows {
                if row.text("outcome").as_deref() == Some("success") {
                    row.fields.insert("effect".to_owned(), json!("build-0"));
                }
            }
        }))
        .holds(Question::Handle);
}

#[test]
fn a_remote_that_finds_and_cancels_nothing_is_not_asked() {
    let routes = json!({ "remote": { "routes": [{ "on": "POST /builds", "effect": "build" }] } });
    assert!(
        point()
            .drilled_with(routes)
            .asked(Question::Handle)
            .is_none()
    );
}

#[test]
fn a_record_that_was_not_read_leaves_the_handle_open() {
    point().without(read_at(Moment::AfterStop)).finds_at(
        Question::Handle,
        Code::TrialNoEvidence,
        "was not read",
    );
    point()
        .change(|event| match event {
            Event::RecordRead {
                moment: Moment::AfterStop,
                unreadable,
                ..
            } => {
                *unreadable = Some("a FIFO".to_owned());
                true
            }
            _ => false,
        })
        .finds_at(Question::Handle, Code::TrialRecordUnreadable, "a FIFO");
}

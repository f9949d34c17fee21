//! `ownership`.

use serde_json::{Value, json};

use super::tale::*;
use crate::journal::*;
use crate::judge::Whose;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

/// Sets a field in every row of session A's call, at all moments.
fn field(name: &'static str, value: Value) -> impl Fn(&mut Event) -> bool {
    rows_from(Moment::Dispatch, move |rows| {
        for row in rows {
            row.fields.insert(name.to_owned(), value.clone());
        }
    })
}

/// Session A's outcome says something else.
fn says(word: &'static str) -> impl Fn(&mut Event) -> bool {
    rows_from(Moment::ClientGone, move |rows| {
        for row in rows {
            let is_outcome = row.text("outcome").as_deref() != Some("intended");
            if is_outcome && row.text("call").as_deref() == Some("call-a") {
                row.fields.insert("outcome".to_owned(), json!(word));
                row.fields.insert("effect".to_owned(), json!("build-1"));
            }
        }
    })
}

fn without_outcome(word: &'static str) -> impl Fn(&mut Event) -> bool {
    rows_from(Moment::ClientGone, move |rows| {
        rows.retain(|row| {
            row.text("outcome").as_deref() != Some(word)
                || row.text("call").as_deref() != Some("call-a")
        });
    })
}

// ---- ownership: the intent ---------------------------------------------------------------------------------------

#[test]
fn a_record_that_names_all_before_the_dispatch_holds() {
    let answer = point().holds(Question::Ownership);
    assert_eq!(
        answer.because,
        "at the moment of dispatch the record named the call, run, process, approval, target and key; \
         the outcome is recorded as “unknown”, and the remote's reply never arrived"
    );
}

#[test]
fn it_is_not_asked_before_a_dispatch() {
    for point in [
        CrashPoint::Idle,
        CrashPoint::CallUnread,
        CrashPoint::CallWritten,
    ] {
        assert!(Tale::good(point).asked(Question::Ownership).is_none());
    }
}

#[test]
fn a_row_that_is_only_there_after_sending_breaks() {
    point()
        .change(rows_at(Moment::Dispatch, Vec::clear))
        .finds_only(
            Code::OwnershipNoRow,
            "at the moment of dispatch no row of the record named the call",
        );
}

#[test]
fn without_a_held_dispatch_the_point_is_looked_at() {
    let tale = point().without(read_at(Moment::Dispatch));
    tale.holds(Question::Ownership);
    tale.change(rows_at(Moment::Point, Vec::clear))
        .finds_only(Code::OwnershipNoRow, "at the crash point");
}

#[test]
fn only_the_connection_that_carries_the_effect_counts() {
    let exchange = Event::RecordRead {
        moment: Moment::Dispatch,
        connection: Some(40),
        present: true,
        bytes: 0,
        rows: Vec::new(),
        lines: 0,
        torn: 0,
        unreadable: None,
    };
    for point in [CrashPoint::BeforeDispatch, CrashPoint::AfterAcceptance] {
        Tale::good(point)
            .after(
                |e| matches!(e, Event::ConnectionHeld { .. }),
                [exchange.clone()],
            )
            .holds(Question::Ownership);
    }
}

#[test]
fn each_field_that_the_drill_names_is_required() {
    for (name, words) in [
        ("run", "does not name the run"),
        ("process", "does not name the process"),
        ("approval", "does not name the approval"),
        ("target", "does not name the target"),
        ("key", "does not name the key"),
    ] {
        point()
            .change(field(name, json!("")))
            .finds(Code::OwnershipIncomplete, words);
        point()
            .change(field(name, Value::Null))
            .finds(Code::OwnershipIncomplete, words);
    }
}

#[test]
fn each_field_must_be_the_right_one() {
    for (name, wrong, words) in [
        ("run", json!("mcp-client"), "names another run (mcp-client)"),
        (
            "process",
            json!(4711),
            "names a process that is not of session A (4711)",
        ),
        (
            "process",
            json!(CLIENT),
            "names a process that is not of session A",
        ),
        ("approval", json!("yes"), "names another approval"),
        (
            "key",
            json!("1"),
            "names another key (1) than the request carried",
        ),
    ] {
        point()
            .change(field(name, wrong))
            .finds(Code::OwnershipWrongOwner, words);
    }
}

#[test]
fn a_field_that_the_drill_does_not_name_is_not_required() {
    let few = json!({ "expect": { "ownership": { "record": {
        "run": null, "process": null, "approval": null, "target": null, "key": null, "effect": null } } } });
    let bare = rows_from(Moment::Dispatch, |rows| {
        for row in rows {
            row.fields
                .retain(|name, _| name == "call" || name == "outcome");
        }
    });
    point()
        .drilled_with(few)
        .change(bare)
        .holds(Question::Ownership);
}

#[test]
fn a_child_of_the_server_may_own_the_row() {
    point()
        .alive_from(Moment::Point, &process(HELPER))
        .change(field("process", json!("7")))
        .holds(Question::Ownership);
}

#[test]
fn a_row_that_is_no_intent_breaks_and_is_quoted() {
    point()
        .change(rows_at(Moment::Dispatch, |rows| {
            rows[0]
                .fields
                .insert("outcome".to_owned(), json!("sending"));
        }))
        .finds_only(Code::OwnershipNoIntent, "the last one says “sending”");
}

#[test]
fn a_record_that_does_not_exist_breaks() {
    point()
        .change(|event| match event {
            Event::RecordRead {
                moment: Moment::Dispatch,
                present,
                rows,
                ..
            } => {
                *present = false;
                rows.clear();
                true
            }
            _ => false,
        })
        .finds_only(Code::OwnershipNoRecord, "the record did not exist");
}

#[test]
fn a_record_that_cannot_be_read_is_open() {
    point()
        .change(|event| match event {
            Event::RecordRead { unreadable, .. } => {
                *unreadable = Some("outside the work folder".to_owned());
                true
            }
            _ => false,
        })
        .finds_at(
            Question::Ownership,
            Code::TrialRecordUnreadable,
            "outside the work folder",
        );
}

#[test]
fn a_record_that_was_never_read_is_open() {
    point()
        .without(|e| matches!(e, Event::RecordRead { .. }))
        .finds_at(
            Question::Ownership,
            Code::TrialNoEvidence,
            "was not read at the moment of dispatch",
        );
}

// ---- ownership: the outcome --------------------------------------------------------------------------------------

#[test]
fn an_outcome_that_is_missing_breaks() {
    point().change(without_outcome("unknown")).finds_only(
        Code::OwnershipNoOutcome,
        "no row of the record told the outcome",
    );
    Tale::good(CrashPoint::BeforeDispatch)
        .change(without_outcome("failed"))
        .finds_only(
            Code::OwnershipNoOutcome,
            "no row of the record told the outcome",
        );
}

#[test]
fn where_the_reply_was_lost_only_unknown_is_true() {
    for point in [CrashPoint::Sent, CrashPoint::AfterAcceptance] {
        Tale::good(point).holds(Question::Ownership);
        Tale::good(point)
            .change(says("success"))
            .finds(Code::OwnershipFalseOutcome, "nobody could know");
        for lie in ["failed", "denied", "cancelled"] {
            Tale::good(point).change(says(lie)).finds(
                Code::OwnershipFalseOutcome,
                "but the remote applied 1 effect",
            );
        }
    }
}

#[test]
fn half_a_reply_may_have_told_the_effect() {
    let tale = Tale::good(CrashPoint::TornReply).change(says("success"));
    tale.holds(Question::Ownership);
    tale.change(rows_from(Moment::ClientGone, |rows| {
        for row in rows {
            row.fields.remove("effect");
        }
    }))
    .finds(Code::OwnershipFalseOutcome, "nobody could know");
}

#[test]
fn where_the_reply_was_delivered_success_or_unknown_is_true() {
    let tale = || Tale::good(CrashPoint::AfterReply);
    tale().holds(Question::Ownership);
    tale().change(says("unknown")).holds(Question::Ownership);
    tale().change(says("failed")).finds(
        Code::OwnershipFalseOutcome,
        "but the remote applied 1 effect",
    );
}

#[test]
fn where_the_client_has_the_result_only_success_is_true() {
    let tale = || Tale::good(CrashPoint::AfterResult);
    tale().holds(Question::Ownership);
    tale().change(says("unknown")).finds_only(
        Code::OwnershipFalseOutcome,
        "had given the result to its client",
    );
}

#[test]
fn a_reply_that_came_with_the_release_was_delivered() {
    point()
        .without(|e| matches!(e, Event::ReplyLost { .. }))
        .before(
            |e| matches!(e, Event::ProcessExited { pid: SERVER, .. }),
            [replied(1)],
        )
        .change(says("success"))
        .holds(Question::Ownership);
}

#[test]
fn a_reply_may_be_told_of_after_the_end_of_the_server_that_took_it() {
    let end = |e: &Event| matches!(e, Event::ProcessExited { pid: SERVER, .. });
    let given = crash(json!({ "at": "after-acceptance", "reply": "given" }));
    Tale::good_with(given)
        .after(end, [replied(1)])
        .change(says("success"))
        .holds(Question::Ownership);
    point()
        .after(|e| matches!(e, Event::RemoteReleased), [replied(1)])
        .change(says("success"))
        .finds(Code::OwnershipFalseOutcome, "nobody could know");
}

#[test]
fn a_success_must_name_the_effect_where_the_drill_names_it() {
    let named = |value: Value| {
        Tale::good(CrashPoint::AfterResult).change(rows_from(Moment::Dispatch, move |rows| {
            for row in rows {
                row.fields.insert("effect".to_owned(), value.clone());
            }
        }))
    };
    named(Value::Null).finds(
        Code::OwnershipFalseOutcome,
        "without the remote's id of the effect",
    );
    named(json!("build-7")).finds(
        Code::OwnershipFalseOutcome,
        "names another effect than the remote made",
    );
}

#[test]
fn where_nothing_was_made_only_success_is_a_lie() {
    for word in ["failed", "refused", "unknown"] {
        Tale::good(CrashPoint::BeforeDispatch)
            .change(says(word))
            .holds(Question::Ownership);
    }
    Tale::good(CrashPoint::BeforeDispatch)
        .change(says("ok"))
        .finds_only(
            Code::OwnershipFalseOutcome,
            "the record says “ok” of the call, but the remote applied nothing",
        );
}

#[test]
fn a_server_that_cancelled_its_effect_may_say_so() {
    point()
        .after(
            |e| matches!(e, Event::EffectApplied { .. }),
            [Event::EffectCancelled {
                request: 2,
                effect: "build-1".to_owned(),
            }],
        )
        .change(says("cancelled"))
        .holds(Question::Ownership);
}

#[test]
fn a_server_that_cancelled_something_else_may_not() {
    point()
        .after(
            |e| matches!(e, Event::EffectApplied { .. }),
            [Event::EffectCancelled {
                request: 2,
                effect: "build-0".to_owned(),
            }],
        )
        .change(says("cancelled"))
        .finds(
            Code::OwnershipFalseOutcome,
            "but the remote applied 1 effect",
        );
}

#[test]
fn the_last_outcome_counts() {
    point()
        .change(rows_from(Moment::ClientGone, |rows| {
            rows.push(row("call-a", "success"));
        }))
        .finds(Code::OwnershipFalseOutcome, "“success”");
}

#[test]
fn the_words_are_those_of_the_drill() {
    let words = json!({ "expect": { "ownership": { "outcomes": { "unknown": ["dunno"] } } } });
    let tale = point().drilled_with(words);
    tale.finds(
        Code::OwnershipNoOutcome,
        "no row of the record told the outcome",
    );
    tale.change(says("dunno")).holds(Question::Ownership);
}

#[test]
fn a_server_that_had_to_be_killed_owed_no_outcome() {
    point()
        .never_exiting()
        .change(without_outcome("unknown"))
        .finds(Code::OwnershipKilledFirst, "had to be ended by SIGKILL");
    point().never_exiting().holds(Question::Ownership);
    point()
        .never_exiting()
        .change(says("success"))
        .finds(Code::OwnershipFalseOutcome, "nobody could know");
    point()
        .never_exiting()
        .change(rows_at(Moment::Dispatch, Vec::clear))
        .finds(Code::OwnershipNoRow, "no row of the record named the call");
}

#[test]
fn a_server_that_the_drill_kills_owes_only_the_intent() {
    Tale::good_with(crash(json!({ "at": "after-acceptance", "kill": "server" })))
        .change(without_outcome("unknown"))
        .holds(Question::Ownership);
}

#[test]
fn lines_that_are_torn_break() {
    point()
        .change(|event| match event {
            Event::RecordRead {
                moment: Moment::AfterStop,
                torn,
                ..
            } => {
                *torn = 2;
                true
            }
            _ => false,
        })
        .finds_only(Code::OwnershipTorn, "2 lines of the record cannot be read");
}

#[test]
fn a_success_where_no_remote_can_tell_is_believed() {
    let tale = Tale::good(CrashPoint::AfterResult)
        .drilled_with(json!({
            "remote": null, "authority": null, "recover": null,
            "expect": { "ownership": { "record": { "key": null, "effect": null } } },
        }))
        .without(|e| {
            matches!(
                e,
                Event::ConnectionSought { .. }
                    | Event::ConnectionAccepted { .. }
                    | Event::RequestReceived { .. }
                    | Event::EffectApplied { .. }
                    | Event::ReplySent { .. }
            )
        });
    tale.holds_saying(Question::Ownership, "no remote can tell otherwise");
}

// ---- who the client says it is ----------------------------------------------------------------------------------

#[test]
fn what_the_client_declares_about_itself_is_no_proof() {
    point()
        .change(field("run", json!("run-declared-by-a")))
        .finds_only(
            Code::OwnershipBelievesClient,
            "the row of the intent names the run that the client declared about itself, which is no proof of who it is",
        );
}

#[test]
fn a_journal_of_before_clients_declared_anything_is_judged_as_it_was() {
    let undeclared = |event: &mut Event| {
        let Event::Minted { declared, .. } = event else {
            return false;
        };
        declared.clear();
        true
    };
    point().change(undeclared).holds(Question::Ownership);
    point()
        .change(undeclared)
        .change(field("run", json!("")))
        .finds(Code::OwnershipIncomplete, "does not name the run");
}

// ---- the four questions -----------------------------------------------------------------------------------------

fn named(tale: &Tale) -> Vec<(Whose, Option<String>)> {
    let answer = tale.answer(Question::Ownership);
    let named = answer.named.into_iter();
    named
        .map(|named| {
            assert_eq!(named.answered, named.by.is_some());
            (named.question, named.by)
        })
        .collect()
}

#[test]
fn each_of_the_four_questions_is_answered_by_name() {
    let all = [
        (Whose::Run, Some("/run".to_owned())),
        (Whose::Process, Some("/pid".to_owned())),
        (Whose::Decision, Some("/approval".to_owned())),
        (Whose::Operation, Some("/key".to_owned())),
    ];
    assert_eq!(named(&point()), all);
    let known = Tale::good(CrashPoint::AfterResult);
    assert_eq!(
        named(&known)[3],
        (Whose::Operation, Some("/effect".to_owned()))
    );
}

#[test]
fn what_the_record_gets_wrong_is_not_answered() {
    for (name, place) in [("run", 0), ("process", 1), ("approval", 2), ("key", 3)] {
        let tale = point().change(field(name, json!("4711")));
        assert_eq!(named(&tale)[place].1, None, "{name}");
    }
}

#[test]
fn an_answer_that_holds_says_what_the_record_does_not_say() {
    let ownership = json!({ "record": { "process": null, "approval": null } });
    let tale = point()
        .change(field("approval", Value::Null))
        .drilled_with(json!({ "expect": { "ownership": ownership } }));
    let answer = tale.holds(Question::Ownership);
    assert!(
        answer.because.ends_with(
            "; the record does not say which process sent it, which decision allowed it"
        ),
        "{}",
        answer.because
    );
}

// ---- notifications ----------------------------------------------------------------------------------------------

fn notified(point: CrashPoint) -> Tale {
    let ownership = json!({ "log": null, "from": "logging" });
    Tale::good(point).drilled_with(json!({ "expect": { "ownership": ownership } }))
}

#[test]
fn an_outcome_that_only_a_dead_client_could_read_is_no_record() {
    notified(CrashPoint::AfterAcceptance)
        .change(without_outcome("unknown"))
        .finds(
            Code::OwnershipUnheard,
            "a record that dies with the client is no durable record",
        );
}

#[test]
fn a_client_that_hangs_or_reads_no_more_receives_nothing() {
    for (what, told) in [
        (json!({ "signal": "STOP" }), "its client hung"),
        (
            json!({ "close": ["stdout", "stdin"] }),
            "its client read nothing more",
        ),
    ] {
        let mut form = json!({ "at": "after-acceptance" });
        form.as_object_mut()
            .unwrap()
            .extend(what.as_object().unwrap().clone());
        let ownership = json!({ "log": null, "from": "logging" });
        Tale::good_with(crash(form))
            .drilled_with(json!({ "expect": { "ownership": ownership } }))
            .change(without_outcome("unknown"))
            .finds(Code::OwnershipUnheard, told);
    }
}

#[test]
fn an_outcome_that_the_client_still_read_counts() {
    notified(CrashPoint::AfterResult).holds(Question::Ownership);
}

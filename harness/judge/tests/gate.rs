//! What is said of a server that was held in a system call, and of records and the disk.

use serde_json::{Value, json};

use super::tale::*;
use crate::journal::*;
use crate::spec::{Crash, CrashPoint, Question, SyscallName};

fn held_in(name: &str) -> Crash {
    crash(json!({ "syscall": { "name": name } }))
}

/// The server is held on its way to the intent, and dispatches when it goes on.
fn on_its_way() -> Tale {
    let held = held_in("openat");
    Tale::good(CrashPoint::CallWritten).change(move |event| match event {
        Event::TrialStarted { crash, .. } => {
            *crash = held.clone();
            true
        }
        _ => false,
    })
}

fn is_sought(event: &Event) -> bool {
    matches!(event, Event::ConnectionSought { connection: 1, .. })
}

fn of_remote(event: &Event) -> bool {
    matches!(
        event,
        Event::ConnectionSought { connection: 1, .. }
            | Event::ConnectionAccepted { connection: 1 }
            | Event::RequestReceived { request: 1, .. }
            | Event::EffectApplied { request: 1, .. }
            | Event::ReplyHeld { request: 1, .. }
            | Event::ReplyLost { request: 1, .. }
    )
}

// ---- a system call as the crash point ----------------------------------------------------------------------------

#[test]
fn a_server_that_is_held_while_it_answers_holds() {
    let tale = Tale::good_with(held_in("write"));
    for question in [Question::Quiet, Question::Ownership, Question::Effects] {
        tale.holds(question);
    }
}

#[test]
fn the_dispatch_of_the_held_call_itself_is_not_new() {
    let tale = on_its_way();
    tale.holds(Question::Quiet);
    // Another one is.
    tale.after(
        |e| matches!(e, Event::ReplyHeld { request: 1, .. }),
        [
            sought(8),
            Event::ConnectionAccepted { connection: 8 },
            Event::RequestReceived {
                request: 8,
                connection: 8,
                method: "POST".to_owned(),
                target: "/builds".to_owned(),
                credential: Credential::Run {
                    run: Session::A,
                    derived: false,
                    revoked: false,
                },
                route: Some("POST /builds".to_owned()),
                effect: Some("build".to_owned()),
                key: Some("key-a".to_owned()),
                body_bytes: 2,
            },
        ],
    )
    .finds(Code::QuietLateRequest, "arrived after the session was gone");
}

#[test]
fn before_any_intent_and_without_a_dispatch_there_is_nothing_to_own() {
    let tale = on_its_way()
        .without(of_remote)
        .change(rows_from(Moment::Dispatch, |rows| {
            rows.retain(|row| row.text("call").as_deref() != Some("call-a"));
        }));
    assert!(tale.asked(Question::Ownership).is_none());
}

#[test]
fn an_intent_that_was_never_dispatched_still_owes_its_outcome() {
    let tale = on_its_way().without(of_remote);
    tale.clone()
        .change(rows_from(Moment::ClientGone, |rows| {
            rows.retain(|row| row.text("outcome").as_deref() == Some("intended"));
        }))
        .finds(
            Code::OwnershipNoOutcome,
            "no row of the record told the outcome",
        );
}

#[test]
fn what_stood_at_the_crash_point_says_nothing_of_a_dispatch_that_came_after_it() {
    on_its_way().finds_at(
        Question::Ownership,
        Code::TrialNoEvidence,
        "was not read at the moment of dispatch",
    );
}

// ---- the disk ----------------------------------------------------------------------------------------------------

const END: u64 = 100;

fn synced(bytes: u64) -> Event {
    Event::RecordSynced { pid: SERVER, bytes }
}

fn opened(synchronous: bool) -> Event {
    Event::RecordOpened {
        pid: SERVER,
        synchronous,
    }
}

/// Of a drill with this, the row of the intent ends at [`END`].
fn gated(drill: Value) -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
        .drilled_with(drill)
        .change(rows_at(Moment::Dispatch, |rows| {
            for row in rows {
                row.end = Some(END);
            }
        }))
}

fn told() -> Tale {
    gated(json!({ "gate": true }))
}

fn asked() -> Tale {
    gated(json!({ "gate": true, "expect": { "ownership": { "durable": true } } }))
}

#[test]
fn an_intent_that_was_synced_before_dispatch_is_durable() {
    for tale in [told(), asked()] {
        tale.before(is_sought, [opened(false), synced(END)])
            .holds_saying(Question::Ownership, ", synced to the disk before dispatch");
    }
}

#[test]
fn an_intent_that_was_not_synced_is_told_and_breaks_only_where_the_drill_asks() {
    let words = ", not synced before dispatch: a power cut could lose it";
    told()
        .before(is_sought, [opened(false)])
        .holds_saying(Question::Ownership, words);
    asked()
        .before(is_sought, [opened(false)])
        .finds_only(Code::OwnershipNotDurable, words);
}

#[test]
fn a_sync_of_what_stood_there_before_the_intent_is_none_of_it() {
    asked()
        .before(is_sought, [synced(END - 1)])
        .finds_only(Code::OwnershipNotDurable, "not synced before dispatch");
}

#[test]
fn a_sync_after_the_connection_was_sought_comes_too_late() {
    asked()
        .after(is_sought, [synced(END)])
        .finds_only(Code::OwnershipNotDurable, "not synced before dispatch");
}

#[test]
fn the_call_that_makes_the_connection_is_earlier_than_the_connection_that_is_seen() {
    let connects = Event::SyscallEntered {
        pid: SERVER,
        name: SyscallName::Connect,
        nth: 1,
        detail: "127.0.0.1:8080".to_owned(),
    };
    asked()
        .before(is_sought, [connects, synced(END)])
        .finds_only(Code::OwnershipNotDurable, "not synced before dispatch");
}

#[test]
fn a_log_that_is_opened_synchronously_needs_no_sync() {
    asked()
        .before(is_sought, [opened(true)])
        .holds_saying(Question::Ownership, ", synced to the disk before dispatch");
    asked()
        .before(is_sought, [opened(true), opened(false)])
        .finds_only(Code::OwnershipNotDurable, "not synced before dispatch");
}

#[test]
fn where_the_gate_could_not_see_it_nothing_is_said_of_the_disk() {
    let blind = Event::GateUnavailable {
        because: "the container forbids it".to_owned(),
    };
    asked()
        .before(is_sought, [blind.clone()])
        .finds(Code::OwnershipSyncUnseen, "the container forbids it");
    told()
        .before(is_sought, [blind])
        .holds_saying(Question::Ownership, "cannot be told");
    gated(json!({ "expect": { "ownership": { "durable": true } } }))
        .finds(Code::OwnershipSyncUnseen, "the drill has no `gate` here");
    assert!(
        !gated(json!({}))
            .holds(Question::Ownership)
            .because
            .contains("disk")
    );
}

//! `reconcile` where session B makes no call: its client has the result, and a client with a result does not retry.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

/// Session B opens, lists the tools and ends.
fn looked_back() -> Tale {
    let is_of_call = |e: &Event| {
        matches!(
            e,
            Event::CallIssued {
                session: Session::B,
                ..
            } | Event::CallAnswered {
                session: Session::B,
                ..
            } | Event::ConnectionSought { connection: 9, .. }
                | Event::RequestReceived { request: 9, .. }
                | Event::EffectRepeated { request: 9, .. }
                | Event::ReplySent { request: 9, .. }
        )
    };
    Tale::good(CrashPoint::AfterResult)
        .drilled_with(json!({ "recover": { "retry": true } }))
        .without(is_of_call)
}

#[test]
fn where_the_client_had_the_result_the_effects_are_counted_and_no_call_is_made() {
    let told = looked_back().holds(Question::Reconcile).because;
    assert!(told.contains("session B made no call"), "{told}");
    let at_start = [
        sought(9),
        request(9, "POST /builds"),
        applied(9, "build-9", "key-b"),
    ];
    let is_open = |e: &Event| {
        matches!(
            e,
            Event::Handshaken {
                session: Session::B,
                ..
            }
        )
    };
    looked_back().after(is_open, at_start).finds(
        Code::ReconcileDuplicate,
        "1 made by session A and 1 by session B",
    );
    looked_back()
        .without(|e| matches!(e, Event::EffectApplied { .. }))
        .finds(Code::ReconcileMissing, "0 effects");
    looked_back().without(is_open).finds_at(
        Question::Reconcile,
        Code::TrialNoEvidence,
        "session B started and ended",
    );
}

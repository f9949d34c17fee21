//! What the remote did next, and what that makes of a record.

use serde_json::{Value, json};

use super::tale::*;
use crate::journal::*;
use crate::spec::Question;

/// The crash at a point with what the remote does next; the server exits in the middle of it.
fn next(at: &str, then: &str, events: impl IntoIterator<Item = Event>) -> Tale {
    Tale::good_with(crash(json!({ "at": at, "then": then })))
        .without(|e| matches!(e, Event::ReplyLost { request: 1, .. }))
        .before(
            |e| matches!(e, Event::ProcessExited { pid: SERVER, .. }),
            events,
        )
}

fn dropped() -> Tale {
    let reset = Event::ConnectionReset { request: 1 };
    next("after-acceptance", "dropped", [reset])
}

fn error_500() -> Tale {
    let (request, status) = (1, 500);
    next(
        "after-acceptance",
        "error-500",
        [
            Event::ReplyReplaced { request, status },
            Event::ReplySent { request, status },
        ],
    )
}

/// The request that was held is turned away, so session B makes the effect.
fn turned_away(then: &str, status: u16) -> Tale {
    let request = 1;
    next(
        "sent",
        then,
        [
            Event::RequestTurnedAway { request, status },
            Event::ReplySent { request, status },
        ],
    )
    .without(|e| matches!(e, Event::EffectApplied { request: 1, .. }))
    .change(|event| match event {
        Event::EffectRepeated { request: 9, .. } => {
            *event = applied(9, "build-1", "key-a");
            true
        }
        _ => false,
    })
}

fn slow() -> Tale {
    Tale::good_with(crash(json!({ "at": "after-acceptance", "then": "slow" }))).before(
        |e| matches!(e, Event::ProcessExited { pid: SERVER, .. }),
        [Event::ReplySlowed {
            request: 1,
            status: 201,
        }],
    )
}

fn replayed(made: Event) -> Tale {
    let (request, as_request) = (1, 2);
    next(
        "after-acceptance",
        "replayed",
        [
            Event::RequestReplayed {
                request,
                as_request,
            },
            made,
            replied(1),
        ],
    )
    .change(says("success", Some("build-1")))
}

/// What the record says of session A's call when its server has ended.
fn says(word: &'static str, effect: Option<&'static str>) -> impl Fn(&mut Event) -> bool {
    rows_from(Moment::End, move |rows| {
        for row in rows {
            let is_outcome = row.text("outcome").as_deref() != Some("intended");
            if is_outcome && row.text("call").as_deref() == Some("call-a") {
                row.fields.insert("outcome".to_owned(), json!(word));
                let effect = effect.map_or(Value::Null, Value::from);
                row.fields.insert("effect".to_owned(), effect);
            }
        }
    })
}

#[test]
fn after_a_reset_only_unknown_is_true() {
    let told = "the connection was reset before the remote's reply had arrived";
    dropped().holds_saying(Question::Ownership, told);
    for question in [Question::Quiet, Question::Effects, Question::Reconcile] {
        dropped().holds(question);
    }
    dropped().change(says("failed", None)).finds_only(
        Code::OwnershipFalseOutcome,
        "but the remote applied 1 effect",
    );
    dropped()
        .change(says("success", Some("build-1")))
        .finds_only(Code::OwnershipFalseOutcome, "nobody could know");
}

#[test]
fn after_a_500_only_unknown_is_true() {
    let told = "a 500, which says nothing of what was done before it";
    error_500().holds_saying(Question::Ownership, told);
    error_500().change(says("failed", None)).finds_only(
        Code::OwnershipFalseOutcome,
        "but the remote applied 1 effect",
    );
    error_500()
        .change(says("success", Some("build-1")))
        .finds_only(Code::OwnershipFalseOutcome, "a 500");
}

#[test]
fn where_the_request_was_turned_away_failed_is_true_and_unknown_no_lie() {
    for (then, status) in [("error-503", 503), ("error-429", 429)] {
        let told = format!("turned the request away with {status}, and applied nothing");
        for word in ["failed", "unknown"] {
            turned_away(then, status)
                .change(says(word, None))
                .holds_saying(Question::Ownership, &told);
        }
        turned_away(then, status)
            .change(says("success", Some("build-1")))
            .finds_only(Code::OwnershipFalseOutcome, "the remote applied nothing");
        for question in [Question::Quiet, Question::Effects, Question::Reconcile] {
            turned_away(then, status).holds(question);
        }
        assert!(turned_away(then, status).asked(Question::Handle).is_none());
    }
}

#[test]
fn who_asks_again_by_himself_after_a_503_is_not_quiet() {
    let again = [sought(3), request(3, "POST /builds"), applied(3, "b", "k")];
    let tale = turned_away("error-503", 503)
        .after(|e| matches!(e, Event::ReplySent { status: 503, .. }), again);
    tale.finds(
        Code::QuietLateRequest,
        "1 request arrived after the session was gone",
    );
    tale.holds(Question::Effects);
}

#[test]
fn a_part_of_a_slow_reply_may_have_told_the_effect() {
    slow().holds_saying(
        Question::Ownership,
        "the remote's reply never arrived whole",
    );
    slow()
        .change(says("success", Some("build-1")))
        .holds(Question::Ownership);
    slow()
        .change(says("success", None))
        .finds(Code::OwnershipFalseOutcome, "nobody could know");
}

#[test]
fn who_has_looked_for_the_effect_knows_it() {
    let looks = || {
        dropped().after(
            |e| matches!(e, Event::ConnectionReset { .. }),
            [sought(3), request(3, "GET /builds"), replied(3)],
        )
    };
    looks()
        .change(says("success", Some("build-1")))
        .holds(Question::Ownership);
    looks()
        .change(says("success", Some("build-2")))
        .finds(Code::OwnershipFalseOutcome, "nobody could know");
    // Who was refused was told nothing.
    looks()
        .after(
            |e| matches!(e, Event::ReplySent { request: 3, .. }),
            [Event::RequestRefused {
                request: 3,
                credential: Credential::Absent,
            }],
        )
        .change(says("success", Some("build-1")))
        .finds(Code::OwnershipFalseOutcome, "nobody could know");
}

#[test]
fn a_replay_with_a_key_changes_nothing() {
    let tale = replayed(Event::EffectRepeated {
        request: 2,
        effect: "build-1".to_owned(),
        key: "key-a".to_owned(),
    });
    for question in [
        Question::Quiet,
        Question::Effects,
        Question::Reconcile,
        Question::Ownership,
    ] {
        tale.holds(question);
    }
    assert!(tale.asked(Question::Handle).is_none());
}

#[test]
fn a_replay_without_a_key_makes_two_effects_and_is_not_the_servers_doing() {
    let mut second = applied(2, "build-2", "key-a");
    let without_key = |event: &mut Event| match event {
        Event::EffectApplied { key, .. } => {
            *key = None;
            true
        }
        _ => false,
    };
    without_key(&mut second);
    let tale = replayed(second).change(without_key);
    tale.holds(Question::Quiet);
    tale.finds(
        Code::EffectsDuplicate,
        "; a proxy that sent the request once more made one of them",
    );
    tale.finds(Code::ReconcileDuplicate, "a proxy");
    tale.holds(Question::Ownership);
}

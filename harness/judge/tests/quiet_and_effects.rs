//! `quiet` and `effects`.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn is_eof(event: &Event) -> bool {
    matches!(event, Event::EofInPipe { .. })
}

fn late_write() -> [Event; 4] {
    [
        Event::ConnectionReleased { connection: 1 },
        Event::ConnectionAccepted { connection: 1 },
        request(1, "POST /builds"),
        applied(1, "build-1", "key-a"),
    ]
}

// ---- quiet: operations -------------------------------------------------------------------------------------------

#[test]
fn an_empty_cell_is_quiet() {
    let answer = point().holds(Question::Quiet);
    assert_eq!(
        answer.because,
        "nothing was left 9 ms after the session was gone, and no new request had arrived"
    );
}

#[test]
fn a_poller_breaks() {
    let answer = point()
        .after(
            |e| matches!(e, Event::QuietStarted),
            [
                sought(2),
                request(2, "GET /builds"),
                sought(3),
                request(3, "GET /builds"),
            ],
        )
        .finds_only(
            Code::QuietLateRequest,
            "2 requests arrived after the session was gone (GET /builds)",
        );
    assert!(
        answer.stable.starts_with("several requests arrived"),
        "{}",
        answer.stable
    );
}

#[test]
fn a_late_write_on_the_pending_connection_breaks_quiet_and_effects() {
    let tale = Tale::good(CrashPoint::BeforeDispatch)
        .after(|e| matches!(e, Event::RemoteReleased), late_write());
    tale.finds(Code::QuietLateWrite, "a late write");
    tale.finds(
        Code::EffectsUnwanted,
        "the remote applied 1 effect for this call",
    );
}

#[test]
fn a_connection_that_carries_the_effect_is_before_dispatch_whatever_it_is_called() {
    let connection = |form| {
        let mut boundary = json!({ "boundary": { "event": "connection", "nth": 1 } });
        if let Some(carrier) = form {
            boundary["connection"] = json!(carrier);
        }
        let at = crash(boundary);
        Tale::good(CrashPoint::BeforeDispatch).change(move |event| match event {
            Event::TrialStarted { crash, .. } => {
                *crash = at.clone();
                true
            }
            _ => false,
        })
    };
    let released = |e: &Event| matches!(e, Event::RemoteReleased);
    let tale = connection(None).after(released, late_write());
    tale.finds(Code::QuietLateWrite, "a late write");
    tale.finds(Code::EffectsUnwanted, "none is right at connection-1");
    // A server that gave it up has shown nothing; a clean run says what would have come.
    let told = connection(Some(1)).holds(Question::Effects).because;
    assert!(told.contains("none is right at connection-1"), "{told}");
    let told = connection(Some(2)).holds(Question::Effects).because;
    assert!(told.contains("at most 1 is right"), "{told}");
    // What came over it decides.
    let read = [
        Event::ConnectionReleased { connection: 1 },
        request(1, "GET /whoami"),
        sought(2),
        request(2, "POST /builds"),
        applied(2, "build-1", "key-a"),
    ];
    let tale = connection(Some(1)).after(released, read);
    tale.holds(Question::Effects);
    tale.finds(Code::QuietLateWrite, "2 requests arrived");
}

#[test]
fn an_effect_before_the_crash_was_not_held_before_its_dispatch() {
    let early = [
        sought(9),
        request(9, "POST /builds"),
        applied(9, "build-9", "key-a"),
    ];
    Tale::good(CrashPoint::BeforeDispatch)
        .before(|e| matches!(e, Event::CrashFired { .. }), early)
        .finds_at(
            Question::Effects,
            Code::TrialDispatchedEarly,
            "had applied 1 effect",
        );
}

#[test]
fn a_request_that_does_not_count_is_told() {
    let told = Tale::good(CrashPoint::CallUnread)
        .holds(Question::Quiet)
        .because;
    assert!(
        told.contains("no new request had arrived; not counted: POST /builds, "),
        "{told}"
    );
    assert!(
        told.contains("read the call after its client had died"),
        "{told}"
    );
    let told = point()
        .before(is_eof, [sought(2)])
        .after(is_eof, [request(2, "GET /builds")])
        .holds(Question::Quiet)
        .because;
    assert!(told.contains("not counted: GET /builds, "), "{told}");
    assert!(
        told.contains("its connection had been begun before"),
        "{told}"
    );
}

#[test]
fn a_late_write_counts_wherever_the_release_lets_it_come() {
    Tale::good(CrashPoint::BeforeDispatch)
        .after(phase(Phase::Quiet), late_write())
        .finds(Code::QuietLateWrite, "1 request arrived");
}

#[test]
fn a_connection_that_was_pending_and_never_completes_is_nothing() {
    Tale::good(CrashPoint::BeforeDispatch)
        .after(
            |e| matches!(e, Event::RemoteReleased),
            [Event::ConnectionReleased { connection: 1 }],
        )
        .holds(Question::Quiet);
}

#[test]
fn a_connection_that_is_begun_after_eof_breaks_without_a_request() {
    point().after(is_eof, [sought(2)]).finds_only(
        Code::QuietLateConnection,
        "1 connection to the remote was begun after the session was gone",
    );
}

#[test]
fn a_request_that_was_on_its_way_is_not_new() {
    point()
        .before(is_eof, [sought(2)])
        .after(is_eof, [request(2, "GET /builds")])
        .holds(Question::Quiet);
}

#[test]
fn a_second_request_on_an_old_connection_is_new() {
    let mut again = request(2, "GET /builds");
    if let Event::RequestReceived { connection, .. } = &mut again {
        *connection = 1;
    }
    point()
        .after(is_eof, [again])
        .finds(Code::QuietLateRequest, "GET /builds");
}

#[test]
fn the_calls_own_dispatch_is_allowed_where_the_client_died_before_it() {
    for point in [CrashPoint::CallUnread, CrashPoint::CallWritten] {
        let tale = Tale::good(point);
        tale.holds(Question::Quiet);
        tale.after(
            |e| matches!(e, Event::ReplyHeld { .. }),
            [sought(2), request(2, "POST /builds")],
        )
        .finds(Code::QuietLateRequest, "1 request arrived");
    }
}

#[test]
fn the_calls_other_requests_are_allowed_once_too() {
    Tale::good(CrashPoint::CallUnread)
        .after(
            phase(Phase::Observe),
            [sought(2), request(2, "GET /builds")],
        )
        .holds(Question::Quiet);
}

#[test]
fn one_connection_without_a_request_is_the_calls_own_where_the_client_died_before_it() {
    let unheard = |e: &Event| {
        matches!(
            e,
            Event::RequestReceived { request: 1, .. } | Event::EffectApplied { request: 1, .. }
        )
    };
    let tale = Tale::good(CrashPoint::CallUnread).without(unheard);
    tale.holds(Question::Quiet);
    tale.after(is_eof, [sought(5)])
        .finds(Code::QuietLateConnection, "connection");
}

#[test]
fn a_retry_is_not_the_calls_own_dispatch_where_that_had_gone_out_before_eof() {
    let early = [
        sought(1),
        request(1, "POST /builds"),
        applied(1, "build-1", "key-a"),
    ];
    let tale = Tale::good(CrashPoint::CallWritten)
        .without(|e| matches!(e, Event::ConnectionSought { connection: 1, .. }))
        .without(|e| {
            matches!(
                e,
                Event::RequestReceived { request: 1, .. } | Event::EffectApplied { request: 1, .. }
            )
        })
        .before(|e| matches!(e, Event::CrashFired { .. }), early);
    tale.holds(Question::Quiet);
    tale.clone()
        .after(is_eof, [sought(2), request(2, "POST /builds")])
        .finds(Code::QuietLateRequest, "POST /builds");
    tale.after(is_eof, [sought(2)])
        .finds(Code::QuietLateConnection, "connection");
}

#[test]
fn what_is_asked_over_the_wire_is_of_the_server_also_where_the_drill_probes_the_same_route() {
    let revoked = Credential::Run {
        run: Session::A,
        derived: false,
        revoked: true,
    };
    let asked = [
        sought(70),
        request_by(70, "GET /whoami", revoked.clone()),
        Event::RequestRefused {
            request: 70,
            credential: revoked,
        },
    ];
    // The harness asks past the wire.
    point().holds(Question::Quiet);
    point()
        .after(|e| matches!(e, Event::Revoked { .. }), asked)
        .finds(Code::QuietLateRequest, "GET /whoami");
}

#[test]
fn without_eof_nothing_can_be_told_to_be_late() {
    point()
        .without(is_eof)
        .after(
            |e| matches!(e, Event::QuietStarted),
            [sought(2), request(2, "GET /builds")],
        )
        .finds(
            Code::QuietEndNotSeen,
            "nothing shows when the session was gone",
        );
}

#[test]
fn what_asks_for_nothing_after_the_crash_is_quiet_also_where_eof_never_came() {
    let answer = point().without(is_eof).holds(Question::Quiet);
    assert!(answer.because.starts_with("no request arrived after"));
}

#[test]
fn a_write_between_the_kill_and_the_news_of_it_is_late_and_a_read_may_be_chance() {
    let fired = |e: &Event| matches!(e, Event::CrashFired { .. });
    let tale = Tale::good(CrashPoint::AfterResult);
    tale.clone()
        .after(fired, [sought(2), request(2, "POST /builds")])
        .finds(Code::QuietLateRequest, "1 request arrived");
    tale.clone()
        .after(fired, [sought(2), request(2, "GET /whoami")])
        .holds(Question::Quiet);
    // Begun in between, and received when all is known.
    tale.clone()
        .after(fired, [sought(2)])
        .after(is_eof, [request(2, "POST /builds")])
        .finds(Code::QuietLateRequest, "1 request arrived");
    // Begun before, it was on its way.
    tale.before(fired, [sought(2)])
        .after(fired, [request(2, "POST /builds")])
        .holds(Question::Quiet);
}

#[test]
fn a_quiet_period_that_was_not_watched_is_open() {
    point()
        .without(|e| matches!(e, Event::QuietEnded { .. }))
        .finds(Code::QuietNotWatched, "was not watched to its end");
}

#[test]
fn a_worker_that_writes_after_the_server_was_killed_breaks() {
    Tale::good_with(crash(json!({ "at": "after-acceptance", "kill": "server" })))
        .without(is_eof)
        .after(
            |e| matches!(e, Event::QuietStarted),
            [sought(2), request(2, "POST /builds")],
        )
        .finds(Code::QuietLateRequest, "POST /builds");
}

// ---- effects -----------------------------------------------------------------------------------------------------

#[test]
fn one_effect_holds_after_acceptance() {
    let answer = point().holds(Question::Effects);
    assert_eq!(
        answer.because,
        "the remote applied 1 effect for this call (build build-1 with key key-a) (exactly 1 is right at after-acceptance)"
    );
}

#[test]
fn a_second_effect_breaks_and_the_keys_are_compared() {
    let twice = |key: &str| {
        point().after(
            is_eof,
            [
                sought(2),
                request(2, "POST /builds"),
                applied(2, "build-2", key),
            ],
        )
    };
    let answer = twice("key-2").finds(Code::EffectsDuplicate, "applied 2 effects");
    assert!(
        answer.stable.contains("each with another key"),
        "{}",
        answer.stable
    );
    twice("key-a").finds(Code::EffectsDuplicate, "one key for all");
}

#[test]
fn an_effect_before_dispatch_breaks_and_tells_how_late_it_came() {
    Tale::good(CrashPoint::BeforeDispatch)
        .after(|e| matches!(e, Event::RemoteReleased), late_write())
        .finds(
            Code::EffectsUnwanted,
            "where none is right at before-dispatch; the last one came 7 ms after the crash",
        );
}

#[test]
fn a_server_whose_client_only_hangs_may_go_on_with_its_dispatch() {
    let tale = Tale::good_with(crash(json!({ "at": "before-dispatch", "signal": "STOP" })))
        .without(is_eof)
        .after(|e| matches!(e, Event::RemoteReleased), late_write());
    tale.holds(Question::Effects);
    tale.after(
        |e| matches!(e, Event::RemoteReleased),
        [applied(2, "b", "c")],
    )
    .finds(Code::EffectsDuplicate, "at most 1 is right");
}

#[test]
fn an_effect_of_a_server_that_just_starts_breaks() {
    Tale::good(CrashPoint::Startup)
        .after(
            |e| matches!(e, Event::ServerStarted { .. }),
            [request(1, "POST /builds"), applied(1, "build-1", "key-a")],
        )
        .finds(Code::EffectsUnwanted, "none is right at startup");
}

#[test]
fn no_effect_or_one_is_right_where_the_request_was_on_its_way() {
    for point in [
        CrashPoint::CallUnread,
        CrashPoint::CallWritten,
        CrashPoint::Sent,
    ] {
        let tale = Tale::good(point);
        tale.holds(Question::Effects);
        tale.without(|e| matches!(e, Event::EffectApplied { .. }))
            .holds(Question::Effects);
    }
}

#[test]
fn a_missing_effect_breaks_where_the_remote_had_accepted() {
    point()
        .without(|e| matches!(e, Event::EffectApplied { .. }))
        .finds(
            Code::EffectsMissing,
            "applied 0 effects for this call, where exactly 1 is right",
        );
}

#[test]
fn the_drill_may_expect_other_counts() {
    let two = json!({ "expect": { "eof": null, "effects": { "after-acceptance": 2, "sent": { "at_most": 0 } } } });
    point()
        .drilled_with(two.clone())
        .finds(Code::EffectsMissing, "exactly 2 is right");
    Tale::good(CrashPoint::Sent)
        .drilled_with(two)
        .finds(Code::EffectsUnwanted, "at most 0 is right");
}

#[test]
fn effects_of_the_calls_before_are_not_of_this_call() {
    point()
        .before(
            phase(Phase::Arm),
            [request(50, "POST /builds"), applied(50, "build-0", "key-0")],
        )
        .holds(Question::Effects);
}

#[test]
fn effects_of_later_sessions_are_not_of_this_question() {
    let tale = Tale::good(CrashPoint::Idle);
    tale.holds(Question::Effects);
    tale.after(
        phase(Phase::RevokedSession),
        [applied(8, "build-8", "key-r")],
    )
    .holds(Question::Effects);
}

#[test]
fn an_effect_of_a_survivor_after_revoking_counts() {
    point()
        .after(
            |e| matches!(e, Event::Revoked { .. }),
            [applied(60, "build-6", "key-6")],
        )
        .finds(Code::EffectsDuplicate, "2 effects");
}

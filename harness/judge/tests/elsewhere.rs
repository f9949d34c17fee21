//! Where no request of the call reached the remote: what needs one is unproven, and says what was sought instead. Where one
//! did, a request that is lost stays lost.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

fn looked_up(pid: Pid) -> Event {
    Event::HostSought {
        host: Host::name("api.tracker.example", "A"),
        outcome: HostOutcome::NoSuchName,
        by: Some(Asker {
            pid,
            comm: "tracker".to_owned(),
        }),
        times: 1,
    }
}

fn is_of_remote(event: &Event) -> bool {
    matches!(
        event,
        Event::ConnectionSought { .. }
            | Event::ConnectionHeld { .. }
            | Event::ConnectionReleased { .. }
            | Event::ConnectionAccepted { .. }
            | Event::RequestReceived { .. }
            | Event::RequestRefused { .. }
            | Event::EffectApplied { .. }
            | Event::EffectRepeated { .. }
            | Event::ReplySent { .. }
            | Event::ReplyHeld { .. }
            | Event::ReplyLost { .. }
    )
}

fn issued_in(of: Session) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::CallIssued { session, .. } if *session == of)
}

fn answers(shape: AnswerShape, text: &str) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::CallAnswered {
            shape: answered,
            text: told,
            ..
        } => {
            *answered = shape;
            text.clone_into(told);
            true
        }
        _ => false,
    }
}

/// Nothing comes to the remote, and every call is answered with a result whose text is an error.
fn hard_wired(point: CrashPoint) -> Tale {
    Tale::good(point)
        .without(is_of_remote)
        .change(answers(AnswerShape::Result, "{\"error\":\"fetch failed\"}"))
}

/// It looks up its own host in each call.
fn seeks(tale: Tale) -> Tale {
    let mut tale = tale;
    for (of, pid) in [
        (Session::A, SERVER),
        (Session::B, 21),
        (Session::Revoked, 11),
    ] {
        let is_there = tale.lines().iter().any(|line| issued_in(of)(&line.event));
        if is_there {
            tale = tale.after(issued_in(of), [looked_up(pid)]);
        }
    }
    tale
}

fn kept(session: Session) -> Event {
    Event::StderrKept {
        session,
        tail: "starting\nTypeError: fetch failed\n".to_owned(),
    }
}

/// `handle` is asked only where there is an effect.
const OF_REMOTE: [Question; 4] = [
    Question::Effects,
    Question::Reconcile,
    Question::Ownership,
    Question::Revocation,
];

#[test]
fn what_was_sought_instead_is_told_with_how_the_server_ended() {
    let ended = |e: &Event| matches!(e, Event::ProcessExited { pid: SERVER, .. });
    let tale = seeks(hard_wired(CrashPoint::AfterResult))
        .change(|event| match event {
            Event::ProcessExited {
                pid: SERVER, exit, ..
            } => {
                *exit = Exit::Code(3);
                true
            }
            _ => false,
        })
        .after(ended, [kept(Session::A)]);
    for question in OF_REMOTE {
        let answer = tale.finds_at(
            question,
            Code::TrialRemoteNotReached,
            "no request of the call reached the remote, so this is not decided: the server looked up \
             `api.tracker.example` (tracker, pid 3, pid 21, pid 11; no such name in the sandbox)",
        );
        for words in [
            "session A's server ended with status 3",
            "the last line of session A's stderr is “TypeError: fetch failed”",
            "point the server at the drill's `remote.url`",
        ] {
            assert!(answer.because.contains(words), "{}", answer.because);
        }
        assert!(!answer.stable.contains("pid 3"), "{}", answer.stable);
    }
    tale.holds(Question::Eof);
    tale.holds(Question::Protocol);
    assert_eq!(tale.asked(Question::Handle), None);
}

#[test]
fn a_cell_that_sees_no_host_names_exit_and_stderr_alone() {
    let tale = hard_wired(CrashPoint::AfterResult)
        .change(|event| match event {
            Event::CellReady { cell, .. } => {
                *cell = CellKind::Subreaper;
                true
            }
            _ => false,
        })
        .after(
            |e| matches!(e, Event::ProcessExited { pid: SERVER, .. }),
            [kept(Session::A)],
        );
    for question in OF_REMOTE {
        let answer = tale.finds_at(
            question,
            Code::TrialRemoteNotReached,
            "this is not decided: session A's server ended with status 0; the last line of session A's stderr is “TypeError",
        );
        assert!(!answer.because.contains("looked up"), "{}", answer.because);
    }
}

#[test]
fn a_server_that_sought_nothing_is_said_to_have_done_so() {
    hard_wired(CrashPoint::AfterResult).finds_at(
        Question::Effects,
        Code::TrialRemoteNotReached,
        "the server looked up no name and tried to connect to no other address",
    );
}

#[test]
fn a_crash_point_that_was_never_reached_for_it_says_so_as_well() {
    let missed = Event::PointMissed {
        point: CrashPoint::AfterAcceptance,
        instead: "the call was answered before the point was reached".to_owned(),
    };
    let tale = seeks(hard_wired(CrashPoint::AfterResult))
        .before(|e| matches!(e, Event::PointReached { .. }), [missed])
        .without(|e| matches!(e, Event::PointReached { .. }));
    for question in OF_REMOTE {
        tale.finds_at(question, Code::TrialRemoteNotReached, "tracker, pid 3");
    }
    tale.finds_at(Question::Eof, Code::TrialNotReached, "before the point");
}

#[test]
fn what_a_rehearsal_sought_counts_where_the_trial_made_no_call() {
    let missed = Event::PointMissed {
        point: CrashPoint::BeforeDispatch,
        instead: "in the rehearsal the call made no request and no effect".to_owned(),
    };
    let sought = hosts_sought([(0, &looked_up(7))]);
    let rehearsed = Event::Rehearsed {
        connection: None,
        requests: Vec::new(),
        answer: AnswerShape::Result,
        detail: String::new(),
        sought,
    };
    let tale = Tale::good(CrashPoint::BeforeDispatch)
        .until(phase(Phase::Arm))
        .after(
            |e| matches!(e, Event::Handshaken { .. }),
            [rehearsed, missed],
        );
    tale.finds_at(
        Question::Effects,
        Code::TrialRemoteNotReached,
        "the server looked up `api.tracker.example` (tracker, pid 7; no such name",
    );
}

#[test]
fn a_remote_that_is_spoken_to_in_tls_is_not_reached() {
    let torn = Event::RequestTorn {
        connection: 1,
        bytes: 300,
        because: "it begins like TLS, and the remote speaks plain HTTP".to_owned(),
    };
    hard_wired(CrashPoint::AfterResult)
        .after(issued_in(Session::A), [sought(1), torn])
        .finds_at(
            Question::Effects,
            Code::TrialRemoteNotReached,
            "it begins like TLS, and the remote speaks plain HTTP",
        );
}

// ---- what is right, although nothing came --------------------------------------------------------------------------

/// Neither of the later sessions, so that nothing comes in the whole trial.
fn alone(point: CrashPoint) -> Tale {
    let change = json!({ "recover": null, "authority": null });
    let close = Event::PhaseStarted {
        phase: Phase::Close,
    };
    Tale::good(point)
        .drilled_with(change)
        .until(phase(Phase::SessionB))
        .after(
            |e| matches!(e, Event::SecretsSought { .. }),
            [close, Event::TrialEnded],
        )
        .without(|e| matches!(e, Event::Revoked { .. } | Event::Probed { .. }))
}

#[test]
fn no_effect_holds_where_none_is_right() {
    for point in [CrashPoint::Idle, CrashPoint::TornCall] {
        alone(point).holds(Question::Effects);
    }
    // The connection that was held is the remote's.
    alone(CrashPoint::BeforeDispatch).holds(Question::Effects);
    alone(CrashPoint::BeforeDispatch).holds(Question::Ownership);
    alone(CrashPoint::CallUnread)
        .without(is_of_remote)
        .holds(Question::Effects);
}

#[test]
fn no_effect_of_a_call_that_went_elsewhere_proves_nothing() {
    let tale = alone(CrashPoint::CallUnread)
        .without(is_of_remote)
        .after(phase(Phase::Observe), [looked_up(SERVER)]);
    tale.finds_at(
        Question::Effects,
        Code::TrialRemoteNotReached,
        "looked up `api.tracker.example`",
    );
}

#[test]
fn no_effect_of_a_call_that_brings_no_request_in_a_clean_run_proves_nothing() {
    let rehearsed = |answer| Event::Rehearsed {
        connection: None,
        requests: Vec::new(),
        answer,
        detail: String::new(),
        sought: Vec::new(),
    };
    let ending = |answer| {
        alone(CrashPoint::CallUnread)
            .without(is_of_remote)
            .before(|e| matches!(e, Event::TrialEnded), [rehearsed(answer)])
    };
    ending(AnswerShape::Result).finds_at(
        Question::Effects,
        Code::TrialRemoteNotReached,
        "no request of the call reached the remote",
    );
    ending(AnswerShape::Nothing).holds(Question::Effects);
    alone(CrashPoint::Idle)
        .before(
            |e| matches!(e, Event::TrialEnded),
            [rehearsed(AnswerShape::Result)],
        )
        .holds(Question::Effects);
}

#[test]
fn what_others_seek_or_send_as_a_datagram_is_no_call() {
    let datagram = Event::HostSought {
        host: Host::Address {
            address: "10.0.0.1:8125".to_owned(),
            transport: Transport::Udp,
        },
        outcome: HostOutcome::Stayed,
        by: None,
        times: 1,
    };
    alone(CrashPoint::CallUnread)
        .without(is_of_remote)
        .after(phase(Phase::Observe), [datagram, looked_up(CLIENT)])
        .holds(Question::Effects);
}

// ---- what was lost, although the remote could be reached ----------------------------------------------------------

/// Session B is answered as a success, and sends nothing.
fn loses(tale: Tale) -> Tale {
    let lines = tale.lines();
    let from = lines
        .iter()
        .position(|line| phase(Phase::SessionB)(&line.event))
        .unwrap();
    let numbers: Vec<u32> = lines[from..]
        .iter()
        .filter_map(|line| match &line.event {
            Event::RequestReceived { request, .. } => Some(*request),
            _ => None,
        })
        .collect();
    tale.without(|e| match e {
        Event::RequestReceived { request, .. }
        | Event::EffectApplied { request, .. }
        | Event::EffectRepeated { request, .. }
        | Event::RequestRefused { request, .. }
        | Event::ReplySent { request, .. } => numbers.contains(request),
        _ => false,
    })
}

#[test]
fn a_retry_that_is_not_sent_is_lost_where_a_connection_to_the_remote_was_held() {
    for tale in [
        loses(Tale::good(CrashPoint::BeforeDispatch)),
        seeks(loses(Tale::good(CrashPoint::BeforeDispatch))),
    ] {
        tale.finds(Code::ReconcileMissing, "holds 0 effects");
    }
}

#[test]
fn a_retry_that_is_not_sent_is_lost_where_the_rehearsal_reached_the_remote() {
    let rehearsed = Event::Rehearsed {
        connection: Some(1),
        requests: vec!["POST /builds".to_owned()],
        answer: AnswerShape::Result,
        detail: String::new(),
        sought: Vec::new(),
    };
    loses(Tale::good(CrashPoint::Idle))
        .before(|e| matches!(e, Event::Armed { .. }), [rehearsed.clone()])
        .finds(Code::ReconcileMissing, "holds 0 effects");
    // A lock that session A left turns the later sessions away: the clean run in the end is not.
    let tale = Tale::good(CrashPoint::Idle)
        .without(is_of_remote)
        .change(answers(AnswerShape::ToolError, "the lock is held"))
        .before(|e| matches!(e, Event::TrialEnded), [rehearsed]);
    tale.finds(Code::ReconcileError, "session B answered with an error");
    assert!(tale.judged().verdict == Verdict::Broken);
}

#[test]
fn an_effect_that_is_missing_is_missing_where_a_later_session_makes_it() {
    let is_of_a = |e: &Event| match e {
        Event::RequestReceived { request, .. }
        | Event::EffectApplied { request, .. }
        | Event::ReplySent { request, .. } => *request == 1,
        _ => false,
    };
    seeks(Tale::good(CrashPoint::AfterResult).without(is_of_a))
        .finds(Code::EffectsMissing, "exactly 1 is right");
}

#[test]
fn one_request_of_any_kind_shows_that_the_remote_is_known_unless_the_call_went_elsewhere() {
    let whoami = request(9, "GET /whoami");
    let tale =
        hard_wired(CrashPoint::AfterResult).before(|e| matches!(e, Event::Armed { .. }), [whoami]);
    tale.finds(Code::EffectsMissing, "exactly 1 is right");
    tale.finds(Code::RevocationAnsweredSuccess, "answered as a success");
    seeks(tale).finds_at(
        Question::Effects,
        Code::TrialRemoteNotReached,
        "looked up `api.tracker.example`",
    );
}

#[test]
fn a_server_that_fails_over_the_call_and_sought_nobody_has_failed_by_itself() {
    let tale = Tale::good(CrashPoint::Idle)
        .without(is_of_remote)
        .change(answers(AnswerShape::Nothing, ""));
    tale.finds(Code::ReconcileNoAnswer, "did not answer");
    tale.finds(Code::RevocationNoAnswer, "got no answer");
    let tale = seeks(tale);
    for question in [Question::Reconcile, Question::Revocation] {
        tale.finds_at(
            question,
            Code::TrialRemoteNotReached,
            "looked up `api.tracker.example`",
        );
    }
    assert_eq!(tale.judged().verdict, Verdict::Unproven);
}

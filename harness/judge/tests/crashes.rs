//! What each kind of crash means for the answers.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question, Signal};

fn signalled(signal: Signal) -> Event {
    Event::ClientSignalled {
        session: Session::A,
        signal,
        group: false,
    }
}

fn is_eof(event: &Event) -> bool {
    matches!(event, Event::EofInPipe { .. })
}

fn polite() -> Tale {
    Tale::good_with(crash(
        json!({ "at": "idle", "kill": { "polite": "typescript" } }),
    ))
}

fn torn_record(tale: Tale) -> Tale {
    tale.change(|event| match event {
        Event::RecordRead {
            moment: Moment::AfterStop,
            torn,
            ..
        } => {
            *torn = 1;
            true
        }
        _ => false,
    })
}

#[test]
fn a_server_that_ends_while_its_client_waits_has_seen_eof() {
    polite().holds(Question::Eof);
}

#[test]
fn a_server_whose_client_had_to_send_sigterm_has_not_ended_at_eof() {
    polite()
        .after(is_eof, [signalled(Signal::Term)])
        .finds_only(
            Code::EofClientLostPatience,
            "its client lost patience and sent SIGTERM",
        );
}

#[test]
fn a_server_whose_client_had_to_kill_it_was_deaf_to_sigterm() {
    let deaf = polite().after(is_eof, [signalled(Signal::Term), signalled(Signal::Kill)]);
    deaf.finds(Code::EofClientLostPatience, "the client killed it");
    deaf.finds(
        Code::QuietIgnoresSigterm,
        "ignored the SIGTERM of its client",
    );
}

#[test]
fn eof_is_not_asked_of_a_server_that_the_crash_kills() {
    for kill in ["server", "both", "group"] {
        let tale = Tale::good_with(crash(json!({ "at": "idle", "kill": kill })));
        assert!(tale.asked(Question::Eof).is_none(), "{kill}");
    }
}

#[test]
fn a_signal_to_the_clients_group_spares_a_server_in_a_group_of_its_own() {
    let own = json!({ "client": { "group": "own" } });
    Tale::good_with(crash(json!({ "at": "idle", "kill": "group" })))
        .drilled_with(own)
        .holds(Question::Eof);
}

#[test]
fn half_a_row_that_sigkill_leaves_breaks_ownership() {
    let killed = || {
        let killed = Tale::good_with(crash(json!({ "at": "after-acceptance", "kill": "server" })));
        killed.holds(Question::Ownership);
        killed
    };
    torn_record(killed()).finds_only(
        Code::OwnershipTorn,
        "1 line of the record that cannot be read as a JSON object",
    );
}

#[test]
fn a_crash_that_lost_its_point_proves_nothing() {
    let lost = Event::PointLost {
        point: CrashPoint::CallUnread,
        instead: "the server did not stay stopped".to_owned(),
    };
    Tale::good(CrashPoint::CallUnread)
        .after(is_eof, [lost])
        .finds_at(
            Question::Effects,
            Code::TrialPointLost,
            "the server did not stay stopped",
        );
}

#[test]
fn a_session_b_that_does_not_start_is_no_worse_than_a_session_a_that_was_asked_for_no_handshake() {
    let ended = || Event::SessionFailed {
        session: Session::B,
        fault: SessionFault::Exited,
        detail: "the server ended with status 0".to_owned(),
        stderr_tail: String::new(),
    };
    let is_handshake = |e: &Event| {
        matches!(
            e,
            Event::Handshaken {
                session: Session::B,
                ..
            }
        )
    };
    let fails = |point| {
        Tale::good(point)
            .before(is_handshake, [ended()])
            .without(is_handshake)
    };
    fails(CrashPoint::Startup).finds(Code::ResourcesNotSeen, "did not get to its call");
    fails(CrashPoint::Idle).finds(Code::ResourcesNextSession, "not as good as session A");
}

#[test]
fn a_launcher_at_work_may_have_commands_that_hold_the_credential_until_the_server_is_there() {
    let with_token = Process {
        secrets_in_environ: vec!["token of run A".to_owned()],
        ..process(HELPER)
    };
    let seen_at = |point, from: Moment| {
        Tale::good(point).change(|event| match event {
            Event::Looked {
                moment,
                session: Session::A,
                processes,
                ..
            } if *moment == from => {
                processes.push(with_token.clone());
                true
            }
            _ => false,
        })
    };
    seen_at(CrashPoint::Startup, Moment::Point).holds(Question::Secrets);
    seen_at(CrashPoint::Startup, Moment::End).finds(Code::SecretsEnvironment, "environment");
    seen_at(CrashPoint::Idle, Moment::Point).finds(Code::SecretsEnvironment, "environment");
}

#[test]
fn what_is_known_of_a_boundary_is_named_by_the_boundary_or_by_none() {
    let at_boundary = |at: serde_json::Value| {
        let form = json!({ "at": "after-acceptance", "of_every": 9 });
        let known = json!({ "known": { "eof": { "at": at, "because": "reported" } } });
        Tale::good_with(crash(form)).drilled_with(known)
    };
    let is_excused = |at| {
        let broken = at_boundary(at).never_exiting();
        broken.answer(Question::Eof).known
    };
    assert!(is_excused(json!(["after-acceptance"])));
    assert!(is_excused(json!(["09-after-acceptance"])));
    assert!(is_excused(json!(["every"])));
    assert!(is_excused(json!([])));
    assert!(!is_excused(json!(["connection-1"])));
    // Where it is not said at which boundary, it may hold at this one.
    assert!(
        at_boundary(json!(["every"]))
            .judged()
            .stale_known
            .is_empty()
    );
    assert_eq!(
        at_boundary(json!(["after-acceptance"]))
            .judged()
            .stale_known,
        [Question::Eof]
    );
}

#[test]
fn a_command_that_opens_no_session_holds_nothing_at_startup() {
    let is_handshake = |e: &Event| matches!(e, Event::Handshaken { .. });
    let mute = Tale::good(CrashPoint::Startup).without(is_handshake);
    mute.finds_at(
        Question::Eof,
        Code::TrialStartUnproven,
        "nothing shows that it would have started",
    );
    mute.finds_at(
        Question::Helpers,
        Code::TrialStartUnproven,
        "nothing shows that it would have started",
    );
    let rehearsed = |answer| Event::Rehearsed {
        connection: None,
        requests: Vec::new(),
        answer,
        detail: String::new(),
        sought: Vec::new(),
    };
    let is_armed = |e: &Event| matches!(e, Event::Armed { .. });
    let with = |answer| mute.clone().before(is_armed, [rehearsed(answer)]);
    with(AnswerShape::Result).holds(Question::Eof);
    with(AnswerShape::Nothing).finds_at(
        Question::Eof,
        Code::TrialStartUnproven,
        "would have started",
    );
}

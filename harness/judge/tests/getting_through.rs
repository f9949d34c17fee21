//! `revocation`: the ways to get through after it, the lives of what is revoked, and the call that is made again.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn of_run_a(derived: bool) -> Credential {
    Credential::Run {
        run: Session::A,
        derived,
        revoked: true,
    }
}

fn is_probe(event: &Event) -> bool {
    matches!(event, Event::Probed { .. })
}

/// A request of the survivors after the revocation, with this credential, that nobody refused.
fn let_through(credential: Credential) -> Tale {
    point().after(is_probe, [request_by(60, "POST /builds", credential)])
}

fn with_authority(tale: Tale, authority: &serde_json::Value) -> Tale {
    // Keys that are null are taken out.
    let mut form = json!({ "bearer": null });
    for (key, value) in authority.as_object().unwrap() {
        form[key] = value.clone();
    }
    tale.drilled_with(json!({ "authority": form }))
}

#[test]
fn a_gateway_that_still_makes_calls_is_told_from_one_that_widens() {
    let commands = || json!({ "command": { "revoke": ["revoke"] } });
    let by = |wider| with_authority(let_through(Credential::Authority { wider }), &commands());
    by(false).finds(
        Code::RevocationAuthorityCalls,
        "got 1 request through by way of the authority, which still made its calls, the first POST /builds",
    );
    by(true).finds(
        Code::RevocationWidened,
        "with a wider key than that of the run",
    );
}

#[test]
fn what_was_on_its_way_when_the_run_was_revoked_is_no_attempt_after_it() {
    let is_revoked = |e: &Event| matches!(e, Event::Revoked { .. });
    let sought = Event::ConnectionSought {
        connection: 60,
        port: 1,
    };
    let on_its_way =
        let_through(Credential::Authority { wider: false }).before(is_revoked, [sought]);
    let commands = json!({ "command": { "revoke": ["revoke"] } });
    with_authority(on_its_way, &commands).holds(Question::Revocation);
}

#[test]
fn a_remote_that_checks_the_signature_alone_breaks_and_is_not_taken_for_a_fault_of_the_mock() {
    let jwt = |resource| json!({ "oauth": { "tokens": "jwt", "resource": resource } });
    with_authority(let_through(of_run_a(false)), &jwt("checks-signature")).finds(
        Code::RevocationStillWorks,
        "the remote checks signature and expiry alone",
    );
    with_authority(let_through(of_run_a(false)), &jwt("introspects")).finds(
        Code::RevocationMockAccepts,
        "the mock itself took the revoked credential",
    );
}

#[test]
fn a_token_that_was_refreshed_is_told_from_the_first() {
    with_authority(let_through(of_run_a(true)), &json!({ "oauth": {} })).finds(
        Code::RevocationRefreshed,
        "with a token that it had refreshed",
    );
    let_through(of_run_a(true)).finds(
        Code::RevocationSecondCredential,
        "with a second credential of the revoked run",
    );
}

#[test]
fn an_authority_whose_command_failed_has_revoked_nothing() {
    let failed = Event::AuthorityCommand {
        what: "revoke".to_owned(),
        run: Session::A,
        argv: vec!["sp".to_owned()],
        exit: Some(Exit::Code(1)),
        stdout: String::new(),
        stderr: "no such session".to_owned(),
    };
    let is_revoked = |e: &Event| matches!(e, Event::Revoked { .. });
    point()
        .before(is_revoked, [failed])
        .without(is_revoked)
        .finds(
            Code::RevocationNotRevoked,
            "the authority did not revoke run A: it ended with status 1: “no such session”",
        );
}

#[test]
fn a_job_that_is_to_be_cancelled_must_be_gone() {
    let of_job = |tale: Tale| {
        tale.drilled_with(json!({ "expect": { "revocation": { "of": ["run", "job"] } } }))
    };
    let is_close = phase(Phase::Close);
    let tried = |events: Vec<Event>| {
        let start = Event::PhaseStarted {
            phase: Phase::RevokeJob,
        };
        of_job(point().before(&is_close, std::iter::once(start).chain(events)))
    };
    let asked = |status| Event::CancelAsked {
        effect: "build-1".to_owned(),
        route: "POST /builds/{id}/cancel".to_owned(),
        status,
    };
    let cancelled = Event::EffectCancelled {
        request: 0,
        effect: "build-1".to_owned(),
    };
    let told = tried(vec![cancelled.clone(), asked(200)]);
    told.holds_saying(
        Question::Revocation,
        "was cancelled by the handle in the record",
    );
    // Session B had it right, whatever the operator does later.
    told.holds(Question::Reconcile);
    tried(vec![asked(404)]).finds_only(
        Code::RevocationJobStands,
        "still stands: POST /builds/{id}/cancel answered 404",
    );
    tried(Vec::new()).finds_only(
        Code::RevocationJobStands,
        "still stands: the record does not name it",
    );
    of_job(point()).finds(
        Code::RevocationJobNotTried,
        "nobody tried to cancel the remote job",
    );
}

#[test]
fn a_second_call_of_the_revoked_session_must_be_refused_and_recorded_as_well() {
    let again = |shape| {
        let issued = Event::CallIssued {
            session: Session::Revoked,
            role: CallRole::Again,
            tool: "deploy_build".to_owned(),
            call: "call-again".to_owned(),
            rpc_id: "77".to_owned(),
        };
        let answered = Event::CallAnswered {
            session: Session::Revoked,
            role: CallRole::Again,
            rpc_id: "77".to_owned(),
            shape,
            text: "as you like".to_owned(),
        };
        let is_first = |e: &Event| {
            matches!(
                e,
                Event::CallAnswered {
                    session: Session::Revoked,
                    ..
                }
            )
        };
        point().after(is_first, [issued, answered])
    };
    again(AnswerShape::Result).finds(
        Code::RevocationAnsweredSuccess,
        "answered as a success when it was made again",
    );
    again(AnswerShape::ToolError).finds_only(
        Code::RevocationUnrecorded,
        "call, made again, does not stand in the record",
    );
}

#[test]
fn a_wider_key_is_for_no_run_also_where_the_run_still_counts() {
    let is_revoked = |e: &Event| matches!(e, Event::Revoked { .. });
    let wider = Credential::Authority { wider: true };
    let early = point().before(is_revoked, [request_by(60, "GET /builds", wider)]);
    let commands = json!({ "command": { "revoke": ["revoke"] } });
    with_authority(early, &commands).finds(
        Code::RevocationWidened,
        "with its wider key, which is for no run",
    );
}

#[test]
fn a_server_that_is_refused_at_its_start_and_ends_is_contained() {
    let is_of_session = |e: &Event| match e {
        Event::Handshaken { session, .. }
        | Event::CallAsked { session, .. }
        | Event::CallIssued { session, .. }
        | Event::CallAnswered { session, .. } => *session == Session::Revoked,
        _ => false,
    };
    let failed = Event::SessionFailed {
        session: Session::Revoked,
        fault: SessionFault::Exited,
        detail: "the server ended with status 1".to_owned(),
        stderr_tail: String::new(),
    };
    let is_refusal = |e: &Event| matches!(e, Event::RequestRefused { .. });
    let fails = point().without(is_of_session).after(is_refusal, [failed]);
    fails.holds_saying(
        Question::Revocation,
        "ended before it took a call; 0 requests got through",
    );
    fails
        .without(is_refusal)
        .finds(Code::RevocationUntested, "did not get to its call");
}

#[test]
fn what_was_done_against_a_refusal_breaks_although_as_many_effects_are_right() {
    let decided = |approved| Event::Decided {
        request: 60,
        approved,
    };
    let is_effect = |e: &Event| matches!(e, Event::EffectApplied { .. });
    let told = |approved| point().before(is_effect, [decided(approved)]);
    told(false).finds_only(
        Code::EffectsAgainstDecision,
        "after the approval of this call had been refused",
    );
    told(true).holds(Question::Effects);
    let is_call = |e: &Event| {
        matches!(
            e,
            Event::CallIssued {
                session: Session::A,
                ..
            }
        )
    };
    let later = point().after(is_call, [decided(false), decided(true)]);
    later.holds(Question::Effects);
}

#[test]
fn an_authority_that_ends_in_the_middle_is_an_error_and_one_that_is_ended_is_none() {
    const AUTHORITY: Pid = 90;
    let serves = Event::AuthorityServes {
        pid: AUTHORITY,
        argv: vec!["sp".to_owned()],
        others: Vec::new(),
    };
    let ends = || Event::ProcessExited {
        pid: AUTHORITY,
        exit: Exit::Code(3),
        comm: None,
    };
    let told = point().before(phase(Phase::SessionA), [serves]);
    let early = told.clone().before(phase(Phase::Revoke), [ends()]);
    let because = early.judged().error.expect("it is an error");
    assert!(
        because.contains("the authority ended with status 3"),
        "{because}"
    );
    let late = told.clone().after(phase(Phase::Close), [ends()]);
    assert_eq!(late.judged().error, None);
    let interrupted = told
        .before(phase(Phase::Revoke), [Event::Interrupted, ends()])
        .until(phase(Phase::Revoke));
    assert_eq!(interrupted.judged().error, None);
}

#[test]
fn the_revoked_session_that_takes_the_credential_of_another_run_has_got_through() {
    for run in [Session::B, Session::Beside] {
        let another = Credential::Run {
            run,
            derived: false,
            revoked: false,
        };
        let is_refusal = |e: &Event| matches!(e, Event::RequestRefused { .. });
        point()
            .after(is_refusal, [request_by(60, "POST /builds", another)])
            .finds_only(
                Code::RevocationFellBack,
                "the revoked session got 1 request through with the credential of another run",
            );
    }
}

#[test]
fn what_the_revoked_session_does_to_the_journal_of_the_authority_breaks_revocation_alone() {
    let verify = |exit| Event::AuthorityCommand {
        what: "verify".to_owned(),
        run: Session::A,
        argv: vec!["sp".to_owned()],
        exit: Some(Exit::Code(exit)),
        stdout: String::new(),
        stderr: "row 7 is torn".to_owned(),
    };
    let verified = |before, after| {
        point()
            .before(phase(Phase::RevokedSession), [verify(before)])
            .before(phase(Phase::Close), [verify(after)])
    };
    verified(0, 0).holds(Question::Revocation);
    verified(0, 1).finds_only(
        Code::RevocationAuthorityJournal,
        "the authority's own journal, in which its refusals stand, does not verify",
    );
    verified(1, 0).finds_only(Code::OwnershipAuthorityJournal, "“row 7 is torn”");
}

#[test]
fn no_session_has_a_part_in_what_another_is_asked() {
    // Each of them makes an effect of its own, in its own time.
    let of = |run| Credential::Run {
        run,
        derived: false,
        revoked: false,
    };
    let effect = |run, number: u32| {
        let (id, key) = (format!("build-{number}"), format!("key-{number}"));
        [
            sought(number),
            request_by(number, "POST /builds", of(run)),
            applied(number, &id, &key),
        ]
    };
    let begin = |phase| Event::PhaseStarted { phase };
    let beside = std::iter::once(begin(Phase::Beside)).chain(effect(Session::Beside, 61));
    let tale = point()
        .before(phase(Phase::RevokedSession), beside)
        .after(phase(Phase::RevokedSession), effect(Session::B, 62));
    tale.holds(Question::Effects);
    tale.holds(Question::Reconcile);
    tale.holds(Question::Quiet);
    tale.finds_only(
        Code::RevocationEffect,
        "the revoked session made 1 effect (build build-62 with key key-62)",
    );
}

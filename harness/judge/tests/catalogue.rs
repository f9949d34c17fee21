//! Each finding of the catalogue has a test that produces it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::judge::FINDINGS;
use crate::spec::{CrashPoint, Question};

#[test]
fn each_finding_is_produced_by_a_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("harness/judge/tests");
    let mut tests = String::new();
    for entry in fs::read_dir(here).unwrap() {
        tests += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    let mut missing = String::new();
    for finding in FINDINGS {
        let named = format!("Code::{:?}", finding.code);
        let is_there = tests.match_indices(&named).any(|(at, _)| {
            let next = tests[at + named.len()..].chars().next();
            next.is_some_and(|c| !c.is_alphanumeric())
        });
        if !is_there {
            let _ = writeln!(missing, "{}", finding.id);
        }
    }
    assert!(
        missing.is_empty(),
        "no test of the judge produces these:\n{missing}"
    );
}

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn command(what: &str) -> Event {
    Event::AuthorityCommand {
        what: what.to_owned(),
        run: Session::A,
        argv: vec!["sp".to_owned()],
        exit: Some(Exit::Code(1)),
        stdout: String::new(),
        stderr: "row 7 is missing".to_owned(),
    }
}

fn with_commands(tale: Tale) -> Tale {
    let commands = json!({ "revoke": ["revoke"], "refusals": ["list"], "verify": ["verify"] });
    tale.drilled_with(json!({ "authority": { "bearer": null, "command": commands } }))
}

fn is_revoked(event: &Event) -> bool {
    matches!(event, Event::Revoked { .. })
}

#[test]
fn commands_of_the_authority_that_fail_leave_open_or_break_what_rests_on_them() {
    with_commands(point().after(is_revoked, [command("verify")]))
        .finds(Code::OwnershipAuthorityJournal, "row 7 is missing");
    with_commands(point().after(is_revoked, [command("refusals")]))
        .finds(Code::RevocationListUnreadable, "row 7 is missing");
}

#[test]
fn an_authority_that_lists_no_refusal_of_the_calls_that_it_makes_is_broken() {
    let list = |moment| Event::RefusalsRead {
        moment,
        refusals: Vec::new(),
    };
    let is_end = |event: &Event| matches!(event, Event::TrialEnded);
    with_commands(
        point()
            .after(is_revoked, [list(Moment::End)])
            .before(is_end, [list(Moment::AfterRevokedSession)])
            .change(|event| match event {
                Event::RequestReceived {
                    effect: Some(_),
                    credential,
                    ..
                } => {
                    *credential = Credential::Authority { wider: false };
                    true
                }
                _ => false,
            }),
    )
    .finds(Code::RevocationNotListed, "lists no refusal");
}

#[test]
fn a_server_that_refuses_by_itself_is_not_broken_by_a_remote_that_takes_the_token() {
    let takes_token = |tale: Tale| {
        tale.drilled_with(json!({ "authority": {
            "bearer": null,
            "oauth": { "tokens": "jwt", "resource": "checks-signature", "lifetime": "10m" },
        } }))
        .change(|event| match event {
            Event::Probed { status, .. } => {
                *status = 200;
                true
            }
            _ => false,
        })
    };
    let asks_nobody = point().without(|e| {
        matches!(
            e,
            Event::RequestReceived {
                credential: Credential::Run { revoked: true, .. },
                ..
            }
        )
    });
    let told = takes_token(asks_nobody).holds(Question::Revocation).because;
    assert!(told.contains("only the server itself can refuse"), "{told}");
    assert!(
        told.contains("by the server itself, without asking the remote"),
        "{told}"
    );
    // One that hands it on all the same relies on a remote that does not refuse.
    let hands_it_on = point().without(|e| matches!(e, Event::RequestRefused { .. }));
    takes_token(hands_it_on).finds(Code::RevocationStillWorks, "signature and expiry alone");
}

#[test]
fn an_approved_call_that_is_dispatched_after_the_revocation_is_late() {
    let refused = [
        Event::ConnectionSought {
            connection: 70,
            port: 1,
        },
        request_by(
            70,
            "POST /builds",
            Credential::Run {
                run: Session::A,
                derived: false,
                revoked: true,
            },
        ),
        Event::RequestRefused {
            request: 70,
            credential: Credential::Run {
                run: Session::A,
                derived: false,
                revoked: true,
            },
        },
    ];
    Tale::good_with(crash(
        json!({ "at": "after-approval", "decision": "after-revocation" }),
    ))
    .after(is_revoked, refused)
    .finds(Code::RevocationLateDispatch, "only the remote refused it");
}

#[test]
fn helpers_of_a_server_that_eof_never_reached_are_still_in_use() {
    point()
        .without(|event| matches!(event, Event::EofInPipe { .. }))
        .after(
            |event| matches!(event, Event::ClientGone { .. }),
            [Event::StdinHeld {
                session: Session::A,
                by_server: Vec::new(),
                by_client: vec![9],
            }],
        )
        .change(|event| match event {
            Event::Looked {
                moment: Moment::End,
                session: Session::A,
                processes,
                ..
            } => {
                *processes = vec![process(SERVER), process(HELPER)];
                true
            }
            _ => false,
        })
        .finds(Code::HelpersInUse, "EOF never reached the server");
}

/// The session beside makes its call, and this is its answer.
fn beside(shape: AnswerShape, rows: Vec<Row>) -> Tale {
    let identity = Event::Minted {
        session: Session::Beside,
        run: "run-beside".to_owned(),
        call: "call-beside".to_owned(),
        approval: "approval-beside".to_owned(),
        declared: "run-declared-by-beside".to_owned(),
    };
    let answer = Event::CallAnswered {
        session: Session::Beside,
        role: CallRole::Main,
        rpc_id: "9".to_owned(),
        shape,
        text: "done".to_owned(),
    };
    let read = Event::RecordRead {
        moment: Moment::AfterBeside,
        connection: None,
        present: true,
        bytes: 100,
        lines: 1,
        rows,
        torn: 0,
        unreadable: None,
    };
    let own = [
        Event::PhaseStarted {
            phase: Phase::Beside,
        },
        answer,
        read,
    ];
    point()
        .drilled_with(json!({ "client": { "beside": true } }))
        .before(
            |event| {
                matches!(
                    event,
                    Event::Minted {
                        session: Session::A,
                        ..
                    }
                )
            },
            [identity],
        )
        .before(
            |event| matches!(event, Event::PhaseStarted { phase } if *phase > Phase::Stop),
            own,
        )
}

#[test]
fn a_session_beside_that_is_disturbed_or_loses_its_write_is_told() {
    beside(AnswerShape::Error, Vec::new()).finds(Code::ResourcesBeside, "was disturbed");
    let done = beside(AnswerShape::Result, vec![row("call-beside", "success")]);
    done.finds(Code::EffectsBeside, "answered as done");
    done.finds(Code::OwnershipBeside, "names another run");
    assert_eq!(done.holds(Question::Eof).codes, []);
}

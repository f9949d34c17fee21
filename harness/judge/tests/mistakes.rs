//! The drill's own mistakes: they leave open what they touch, and break nothing of the server's.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

fn read() -> Event {
    let lines = [
        ("call.tool", 41),
        ("recover.tool", 50),
        ("expect.revocation.call.tool", 60),
        ("authority.bearer", 33),
    ];
    Event::DrillRead {
        file: "drills/deploy.yaml".to_owned(),
        lines: lines.map(|(path, line)| (path.to_owned(), line)).into(),
    }
}

fn listed(session: Session, tools: &[&str], whole: bool) -> Event {
    Event::ToolsListed {
        session,
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        whole,
    }
}

/// A good server that lists these tools, in a session A that calls `deploy_build`.
fn lists(point: CrashPoint, tools: &[&str]) -> Tale {
    Tale::good(point).after(
        |e| matches!(e, Event::Handshaken { .. }),
        [read(), listed(Session::A, tools, true)],
    )
}

/// It answers every call with an error, as one that is unknown.
fn knows_no_such_tool(tale: Tale) -> Tale {
    tale.change(|event| match event {
        Event::CallAnswered { shape, text, .. } => {
            *shape = AnswerShape::Error;
            "unknown tool".clone_into(text);
            true
        }
        _ => false,
    })
    .without(|e| {
        matches!(
            e,
            Event::RequestReceived { .. } | Event::EffectApplied { .. }
        )
    })
}

const ALL: [Question; 4] = [
    Question::Eof,
    Question::Effects,
    Question::Reconcile,
    Question::Revocation,
];

#[test]
fn a_tool_that_is_not_listed_leaves_all_open_from_the_call_on() {
    let tale = knows_no_such_tool(lists(CrashPoint::AfterResult, &["deploy_biuld", "whoami"]));
    for question in ALL {
        let answer = tale.finds_at(question, Code::TrialUnknownTool,
            "the drill's mistake: the server has no tool `deploy_build` (drills/deploy.yaml:41); nearest: \
             `deploy_biuld`",
        );
        assert!(!answer.stable.contains(":41"), "{}", answer.stable);
        assert_eq!(answer.evidence.len(), 2);
    }
    assert_eq!(tale.asked(Question::Handle), None);
}

#[test]
fn a_call_that_was_given_up_after_its_rehearsal_is_judged_by_its_tool() {
    let missed = Event::PointMissed {
        point: CrashPoint::BeforeDispatch,
        instead: "in the rehearsal the call made no request and no effect".to_owned(),
    };
    let tale = lists(CrashPoint::BeforeDispatch, &["whoami"])
        .until(phase(Phase::Arm))
        .after(|e| matches!(e, Event::ToolsListed { .. }), [missed]);
    tale.finds_at(
        Question::Effects,
        Code::TrialUnknownTool,
        "the server has no tool `deploy_build`",
    );
}

#[test]
fn where_no_tool_is_near_those_that_there_are_are_named() {
    let tale = knows_no_such_tool(lists(CrashPoint::AfterResult, &["search", "whoami"]));
    tale.finds_at(
        Question::Effects,
        Code::TrialUnknownTool,
        "; it lists `search`, `whoami`",
    );
    let tale = knows_no_such_tool(lists(CrashPoint::AfterResult, &[]));
    tale.finds_at(
        Question::Effects,
        Code::TrialUnknownTool,
        "; it lists no tool",
    );
}

#[test]
fn before_the_call_only_what_needs_it_is_left_open() {
    let tale = knows_no_such_tool(lists(CrashPoint::Idle, &["search"]));
    for question in [Question::Eof, Question::Effects, Question::Quiet] {
        tale.holds(question);
    }
    for question in [Question::Reconcile, Question::Revocation] {
        tale.finds_at(
            question,
            Code::TrialUnknownTool,
            "the server has no tool `deploy_build`",
        );
    }
}

#[test]
fn a_tool_that_works_although_it_is_not_listed_is_no_mistake() {
    for point in [CrashPoint::AfterAcceptance, CrashPoint::AfterResult] {
        let tale = lists(point, &["search"]);
        assert_eq!(tale.judged().verdict, Verdict::Held);
    }
}

#[test]
fn a_list_that_is_not_whole_or_has_changed_proves_nothing() {
    let handshaken = |e: &Event| matches!(e, Event::Handshaken { .. });
    let part = listed(Session::A, &["search"], false);
    let tale = Tale::good(CrashPoint::AfterResult).after(handshaken, [part]);
    knows_no_such_tool(tale).finds_at(
        Question::Reconcile,
        Code::TrialCallFailed,
        "answered with an error",
    );

    let changed = Event::LinePassed {
        session: Session::A,
        way: Way::FromServer,
        shape: LineShape::Notification,
        bytes: 60,
        id: None,
        method: Some("notifications/tools/list_changed".to_owned()),
        excerpt: None,
    };
    let tale = lists(CrashPoint::AfterResult, &["search"]).after(handshaken, [changed]);
    knows_no_such_tool(tale).finds_at(
        Question::Reconcile,
        Code::TrialCallFailed,
        "answered with an error",
    );
}

#[test]
fn a_tool_of_a_later_session_leaves_its_own_question_open() {
    let change = json!({
        "recover": { "retry": null, "tool": "reconcile_build" },
        "expect": { "revocation": { "call": { "tool": "delete_build" } } },
    });
    let later = |event: &mut Event| match event {
        Event::CallIssued { session, tool, .. } => {
            let other = match session {
                Session::B => "reconcile_build",
                Session::Revoked => "delete_build",
                _ => return false,
            };
            other.clone_into(tool);
            true
        }
        Event::CallAnswered {
            session: Session::B,
            shape,
            ..
        } => {
            *shape = AnswerShape::Error;
            true
        }
        _ => false,
    };
    let b = |e: &Event| {
        matches!(
            e,
            Event::PhaseStarted {
                phase: Phase::SessionB
            }
        )
    };
    let tale = lists(CrashPoint::AfterResult, &["deploy_build"])
        .drilled_with(change)
        .change(later)
        .after(b, [listed(Session::B, &["deploy_build"], true)]);
    tale.holds(Question::Eof);
    tale.holds(Question::Effects);
    tale.finds_at(
        Question::Reconcile,
        Code::TrialUnknownTool,
        "no tool `reconcile_build` (drills/deploy.yaml:50)",
    );
    tale.finds_at(
        Question::Revocation,
        Code::TrialUnknownTool,
        "no tool `delete_build` (drills/deploy.yaml:60)",
    );
}

#[test]
fn a_list_of_tools_that_never_comes_is_no_lost_request() {
    let list = Event::LinePassed {
        session: Session::A,
        way: Way::ToServer,
        shape: LineShape::Request,
        bytes: 60,
        id: Some("77".to_owned()),
        method: Some("tools/list".to_owned()),
        excerpt: None,
    };
    let tale = Tale::good(CrashPoint::AfterResult)
        .after(|e| matches!(e, Event::Handshaken { .. }), [list]);
    tale.holds(Question::Protocol);
}

// ---- the credential ----------------------------------------------------------------------------------------------

/// Every request comes without what the drill declares, and with the credential there.
fn comes(point: CrashPoint, carrier: &Carrier, scheme: Option<&str>) -> Tale {
    let mut tale = Tale::good(point)
        .after(|e| matches!(e, Event::TrialStarted { .. }), [read()])
        .without(|e| matches!(e, Event::EffectApplied { .. }))
        .change(|event| match event {
            Event::RequestReceived { credential, .. } => {
                *credential = Credential::Absent;
                true
            }
            Event::CallAnswered { shape, text, .. } => {
                *shape = AnswerShape::ToolError;
                "the API refused the credential".clone_into(text);
                true
            }
            _ => false,
        });
    let requests: Vec<u32> = tale
        .lines()
        .iter()
        .filter_map(|line| match &line.event {
            Event::RequestReceived { request, .. } => Some(*request),
            _ => None,
        })
        .collect();
    for number in requests {
        let told = [
            Event::RequestRefused {
                request: number,
                credential: Credential::Absent,
            },
            Event::CredentialMisplaced {
                request: number,
                secret: "token of run A".to_owned(),
                carrier: carrier.clone(),
                scheme: scheme.map(str::to_owned),
                encoded: false,
            },
        ];
        let is =
            |e: &Event| matches!(e, Event::RequestReceived { request, .. } if *request == number);
        tale = tale.after(is, told);
    }
    tale
}

#[test]
fn a_credential_in_another_form_leaves_open_what_needs_the_remote() {
    let key = Carrier::Header("X-Api-Key".to_owned());
    let tale = comes(CrashPoint::Sent, &key, None);
    for question in [
        Question::Effects,
        Question::Reconcile,
        Question::Ownership,
        Question::Revocation,
    ] {
        tale.finds_at(question, Code::TrialCredentialForm,
            "the drill's mistake: the server sends its credential without a scheme in the header `X-Api-Key`, and \
             `authority.bearer: Authorization` (drills/deploy.yaml:33) declares `Bearer …` in the header \
             `Authorization`, so the remote refused POST /builds; write `bearer: X-Api-Key`",
        );
    }
    tale.holds(Question::Eof);
}

#[test]
fn a_form_that_no_drill_declares_is_said_to_be_one() {
    let cases = [
        (
            Carrier::Header("authorization".to_owned()),
            Some("Basic"),
            "as `Basic …` in the header",
        ),
        (
            Carrier::Query("key".to_owned()),
            None,
            "in the query parameter `key`",
        ),
        (Carrier::Path, None, "in the path"),
        (
            Carrier::Body(Some("/auth".to_owned())),
            None,
            "in the body, at `/auth`",
        ),
    ];
    for (carrier, scheme, words) in cases {
        let answer = comes(CrashPoint::Sent, &carrier, scheme).finds_at(
            Question::Effects,
            Code::TrialCredentialForm,
            words,
        );
        assert!(
            answer.because.contains("leave `authority` out"),
            "{}",
            answer.because
        );
    }
}

#[test]
fn where_the_point_is_missed_for_it_all_is_left_open_with_the_mistake() {
    let missed = Event::PointMissed {
        point: CrashPoint::AfterAcceptance,
        instead: "the call was answered before the point was reached".to_owned(),
    };
    let tale = comes(CrashPoint::AfterAcceptance, &Carrier::Path, None)
        .before(|e| matches!(e, Event::PointReached { .. }), [missed]);
    for question in ALL {
        tale.finds_at(
            question,
            Code::TrialCredentialForm,
            "the server sends its credential in the path",
        );
    }
}

#[test]
fn a_server_that_knows_the_declared_form_is_not_excused() {
    let key = Carrier::Header("X-Api-Key".to_owned());
    let tale = comes(CrashPoint::Sent, &key, None);
    let declared = std::cell::Cell::new(true);
    let tale = tale.change(|event| match event {
        Event::RequestReceived { credential, .. } if declared.take() => {
            *credential = Credential::Run {
                run: Session::A,
                derived: false,
                revoked: false,
            };
            true
        }
        _ => false,
    });
    let answer = tale.answer(Question::Reconcile);
    assert!(!answer.because.contains("mistake"), "{}", answer.because);
}

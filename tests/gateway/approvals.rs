//! A write waits for its approval, and an approval does not make up for what happened meanwhile.

use serde_json::json;

use crate::{http::Http, place::Place};

#[test]
fn an_approved_write_goes_out_and_its_rows_name_the_approval() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&["--approvals", &format!("{}/ask", approvals.url())]);
    let call = gateway.call("call-1");
    let question = approvals.request();
    assert_eq!(question.line, "POST /ask");
    let asked = json!({ "run": "run-1", "call": "call-1", "target": "POST /builds" });
    assert_eq!(question.body, asked);
    assert_eq!(place.outcomes(), ["intended"]);
    place.upstream.nothing_came();
    question.approve();
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
    let rows = place.activity();
    assert_eq!(rows[0]["approval_id"], "CHG-7");
    assert_eq!(rows[1]["approval_id"], "A-1");
    assert_eq!(rows[1]["remote_id"], "b-1");
}

#[test]
fn a_read_needs_no_approval() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&["--approvals", &approvals.url()]);
    let call = gateway.ask("GET /builds?request_id=7", "run-1", "call-1", "");
    let request = place.upstream.request();
    assert_eq!(request.line, "GET /builds?request_id=7");
    request.reply(200, &json!({ "builds": [] }));
    assert_eq!(call.answer().0, 200);
    approvals.nothing_came();
}

#[test]
fn whatever_is_no_approval_refuses() {
    let answers = [
        (200, json!({ "approved": false })),
        (200, json!({ "approved": "true" })),
        (200, json!({})),
        (403, json!({ "approved": true })),
    ];
    for (status, answer) in answers {
        let (place, approvals) = (Place::new(), Http::listen());
        let gateway = place.serve_run(&["--approvals", &approvals.url()]);
        let call = gateway.call("call-1");
        approvals.request().reply(status, &answer);
        assert_eq!(call.answer().0, 403, "{status} {answer}");
        assert_eq!(place.outcomes(), ["intended", "refused"]);
        place.upstream.nothing_came();
    }
}

#[test]
fn an_approval_that_comes_after_the_revocation_dispatches_nothing() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&["--approvals", &approvals.url()]);
    let call = gateway.call("call-1");
    let question = approvals.request();
    gateway.revoke("run-1");
    question.approve();
    let (status, reply) = call.answer();
    assert_eq!(status, 403);
    assert!(
        reply.contains("revoked before the call went out"),
        "{reply}"
    );
    place.upstream.nothing_came();
    assert_eq!(place.outcomes(), ["intended", "refused"]);
    assert_eq!(place.refusals("run-1").len(), 1);
}

#[test]
fn a_gateway_that_does_not_look_again_dispatches_it() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&[
        "--approvals",
        &approvals.url(),
        "--fault",
        "approval-not-rechecked",
    ]);
    let call = gateway.call("call-1");
    let question = approvals.request();
    gateway.revoke("run-1");
    question.approve();
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
    // What comes in after the revocation it refuses, as it should.
    assert_eq!(gateway.call("call-2").answer().0, 403);
    place.is_whole();
}

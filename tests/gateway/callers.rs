//! A caller that has gone before its call went out has no call; one that goes later leaves an outcome.

use std::{net::TcpStream, process};

use serde_json::{Value, json};

use crate::{
    http::Http,
    place::{Caller, Place},
};

#[test]
fn a_call_is_performed_with_the_key_and_without_what_is_the_callers() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let headers = "Idempotency-Key: k-1\r\nAuthorization: Bearer mine\r\nX-Seen: yes\r\n\
                   Gateway-Pid: 1\r\nX-Hop: 1\r\nConnection: X-Hop\r\n";
    let call = gateway.ask("POST /builds", "run-1", "call-1", headers);
    let request = place.upstream.request();
    assert_eq!(request.line, "POST /builds");
    assert_eq!(request.body, json!({ "app": "shop", "ref": "v1" }));
    let bearer = format!("authorization: bearer {}", crate::place::KEY);
    assert_eq!(request.headers.matches("authorization").count(), 1);
    assert!(request.headers.contains(&bearer));
    assert!(request.headers.contains("idempotency-key: k-1"));
    assert!(request.headers.contains("x-seen: yes"));
    assert!(!request.headers.contains("gateway-"), "{}", request.headers);
    assert!(!request.headers.contains("x-hop"), "{}", request.headers);
    request.accept();
    let (status, reply) = call.answer();
    assert_eq!(status, 201);
    assert!(
        reply.ends_with(r#"{"id":"b-1","state":"queued"}"#),
        "{reply}"
    );
}

#[test]
fn the_rows_name_run_call_approval_and_the_process_that_the_kernel_knows() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let headers = "Gateway-Pid: 1\r\nIdempotency-Key: k-1\r\n";
    let call = gateway.ask("POST /builds", "run-1", "call-1", headers);
    let request = place.upstream.request();
    let standing = place.activity();
    assert_eq!(standing.len(), 1, "the intent is there before the reply");
    request.accept();
    call.answer();
    let rows = place.activity();
    assert_eq!(place.outcomes(), ["intended", "success"]);
    for row in &rows {
        assert_eq!(row["run_id"], "run-1");
        assert_eq!(row["call_id"], "call-1");
        assert_eq!(row["pid"], process::id());
        assert_eq!(row["approval_id"], "CHG-7");
        assert_eq!(row["target"], "POST /builds");
        assert_eq!(row["operation"], "write");
        assert_eq!(row["key"], "k-1");
    }
    assert_eq!(rows[1]["remote_id"], "b-1");
    assert_eq!(rows[1]["intent"], rows[0]["seq"]);
    let attached = place
        .rows()
        .into_iter()
        .find(|row| row["event"] == "attached");
    assert_eq!(attached.unwrap()["pid"], process::id());
}

#[test]
fn on_the_port_nobody_is_said_to_be_known() {
    let place = Place::new();
    let gateway = place.serve_run(&["--port", "0"]);
    let (_, address) = gateway.ready.trim_end().split_once("http://").unwrap();
    let stream = TcpStream::connect(address).unwrap();
    let call = Caller::ask(
        stream,
        "POST /builds",
        "run-1",
        "call-1",
        "Gateway-Pid: 7\r\n",
    );
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
    for row in place.activity() {
        assert_eq!(row["pid"], Value::Null);
    }
}

#[test]
fn a_caller_that_goes_before_dispatch_has_no_call() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&["--approvals", &approvals.url()]);
    let call = gateway.call("call-1");
    let question = approvals.request();
    drop(call);
    question.until_given_up();
    place.until_outcomes(&["intended", "failed"]);
    place.upstream.nothing_came();
}

#[test]
fn a_caller_that_goes_in_the_moment_of_its_approval_has_no_call() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&["--approvals", &approvals.url()]);
    let call = gateway.call("call-1");
    let question = approvals.request();
    // The connection is closed before the approval is there, whichever of the two the gateway hears of first.
    drop(call);
    question.approve();
    place.until_outcomes(&["intended", "failed"]);
    place.upstream.nothing_came();
}

#[test]
fn a_caller_that_goes_while_its_call_is_connecting_has_no_call() {
    let (place, _filler) = Place::unreachable();
    let gateway = place.serve_run(&[]);
    let call = gateway.call("call-1");
    place.upstream.until_pending();
    drop(call);
    place.until_outcomes(&["intended", "failed"]);
    place.upstream.release();
    place.upstream.nothing_came();
}

#[test]
fn a_gateway_that_dispatches_for_the_dead_sends_it() {
    let (place, approvals) = (Place::new(), Http::listen());
    let fault = ["--fault", "dispatches-for-the-dead"];
    let gateway = place.serve_run(&[&["--approvals", &approvals.url()][..], &fault].concat());
    let call = gateway.call("call-1");
    let question = approvals.request();
    drop(call);
    question.approve();
    place.upstream.request().accept();
    place.until_outcomes(&["intended", "success"]);
}

#[test]
fn a_caller_that_goes_after_dispatch_leaves_an_outcome() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let call = gateway.call("call-1");
    let request = place.upstream.request();
    drop(call);
    request.accept();
    place.until_outcomes(&["intended", "success"]);
    assert_eq!(place.activity()[1]["remote_id"], "b-1");
}

#[test]
fn a_lost_reply_is_unknown_and_an_answer_that_says_no_is_a_failure() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let lost = gateway.call("call-1");
    place.upstream.request().lose();
    assert_eq!(lost.answer().0, 504);
    let wrong = gateway.call("call-2");
    place.upstream.request().reply(422, &json!({}));
    assert_eq!(wrong.answer().0, 422);
    let broken = gateway.call("call-3");
    place.upstream.request().reply(500, &json!({}));
    assert_eq!(broken.answer().0, 500);
    let outcomes = [
        "intended", "unknown", "intended", "failed", "intended", "unknown",
    ];
    assert_eq!(place.outcomes(), outcomes);
}

#[test]
fn a_call_that_was_done_is_answered_again_without_being_sent() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    gateway.open("run-2");
    let call = gateway.call("call-1");
    place.upstream.request().accept();
    call.answer();
    let (status, reply) = gateway.call_of("run-2", "call-1").answer();
    assert_eq!(status, 200);
    assert!(reply.contains(r#""id":"b-1""#), "{reply}");
    // What is in the log entitles nobody.
    gateway.revoke("run-1");
    assert_eq!(gateway.call("call-1").answer().0, 403);
    place.upstream.nothing_came();
}

#[test]
fn a_call_whose_outcome_is_unknown_is_repeated_only_with_a_key() {
    let place = Place::new();
    let mut gateway = place.serve_run(&[]);
    let with = gateway.call("call-1");
    let first = place.upstream.request();
    let without = gateway.ask("POST /builds", "run-1", "call-2", "");
    let second = place.upstream.request();
    gateway.kill();
    drop((with, without, first, second));
    let gateway = place.serve(&[]);
    let (status, reply) = gateway.ask("POST /builds", "run-1", "call-2", "").answer();
    assert_eq!(status, 409, "{reply}");
    let again = gateway.call("call-1");
    place.upstream.request().accept();
    assert_eq!(again.answer().0, 201);
    place.upstream.nothing_came();
    place.is_whole();
}

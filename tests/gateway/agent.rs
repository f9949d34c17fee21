//! MCP servers behind the gateway: one that has nothing of its own, and the model deploy server.

use std::{fs, time::Duration};

use serde_json::Value;

use crate::{
    http::Http,
    place::{Gateway, Place, gateway},
    session::Server,
};

/// The drain, the last words and a loaded machine. A stock server would take 5 s.
const PROMPT: Duration = Duration::from_secs(3);

fn mcp(broker: &Gateway) -> Server {
    let mut command = gateway(&["mcp", "--socket"]);
    command.arg(&broker.socket).env("RUN_ID", "run-1");
    Server::started(command)
}

fn own_outcomes(place: &Place) -> Vec<Value> {
    let log = fs::read_to_string(place.path("activity.jsonl")).unwrap_or_default();
    log.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["outcome"].clone())
        .collect()
}

#[test]
fn the_tool_has_the_gateway_start_the_build_and_the_row_names_the_server() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let mut server = mcp(&gateway);
    server.call("call-1");
    let request = place.upstream.request();
    assert_eq!(request.line, "POST /builds");
    assert!(request.headers.contains("idempotency-key: "));
    request.accept();
    let result = server.result();
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(result["structuredContent"]["id"], "b-1");
    for row in place.activity() {
        assert_eq!(row["pid"], server.child.id());
        assert_eq!(row["call_id"], "call-1");
    }
    server.close_stdin();
    assert!(server.exits() < PROMPT);
}

#[test]
fn a_second_session_is_given_the_result_of_the_first() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let mut first = mcp(&gateway);
    first.call("call-1");
    let request = place.upstream.request();
    first.close_stdin();
    request.accept();
    place.until_outcomes(&["intended", "success"]);
    let mut second = mcp(&gateway);
    second.call("call-1");
    assert_eq!(second.result()["structuredContent"]["id"], "b-1");
    place.upstream.nothing_came();
}

#[test]
fn a_refusal_is_an_error_of_the_tool() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    gateway.revoke("run-1");
    let mut server = mcp(&gateway);
    server.call("call-1");
    assert_eq!(server.result()["isError"], true);
    assert_eq!(place.outcomes(), ["refused"]);
    place.upstream.nothing_came();
}

#[test]
fn at_the_end_of_its_session_a_call_that_is_not_out_yet_until_given_up() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&["--approvals", &approvals.url()]);
    let mut server = mcp(&gateway);
    server.call("call-1");
    let question = approvals.request();
    server.close_stdin();
    assert!(server.exits() < PROMPT);
    question.until_given_up();
    place.until_outcomes(&["intended", "failed"]);
    place.upstream.nothing_came();
}

#[test]
fn the_deploy_server_works_behind_the_gateway_and_records_its_refusals() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let log = place.path("activity.jsonl");
    let mut server = Server::started(Server::deploy(&gateway, &log, None));
    server.call("call-1");
    place.upstream.request().accept();
    assert_eq!(server.result()["structuredContent"]["id"], "b-1");
    gateway.revoke("run-1");
    server.call("call-2");
    assert_eq!(server.result()["isError"], true);
    assert_eq!(
        own_outcomes(&place),
        ["intended", "success", "intended", "refused"]
    );
    assert_eq!(place.outcomes(), ["intended", "success", "refused"]);
    assert_eq!(place.activity()[0]["pid"], server.child.id());
    // What it stored is not given out either: the look at it is a call too, and refused.
    server.call("call-1");
    assert_eq!(server.result()["isError"], true);
    assert_eq!(place.activity()[3]["target"], "GET /builds");
    place.upstream.nothing_came();
}

#[test]
fn the_deploy_server_asks_for_an_approval_and_obeys() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&[]);
    let mut command = Server::deploy(&gateway, &place.path("activity.jsonl"), None);
    command.env("APPROVAL_API", approvals.url());
    let mut server = Server::started(command);
    server.call("call-1");
    let question = approvals.request();
    assert_eq!(question.line, "POST /approvals");
    assert_eq!(question.body["run"], "run-1");
    assert_eq!(own_outcomes(&place), ["intended"]);
    question.approve();
    place.upstream.request().accept();
    assert_eq!(server.result()["isError"], false);
    server.call("call-2");
    approvals
        .request()
        .reply(200, &serde_json::json!({ "approved": false }));
    assert_eq!(server.result()["isError"], true);
    assert_eq!(
        own_outcomes(&place),
        ["intended", "success", "intended", "refused"]
    );
    place.upstream.nothing_came();
}

#[test]
fn an_approval_after_the_end_of_the_session_dispatches_nothing() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&[]);
    let mut command = Server::deploy(&gateway, &place.path("activity.jsonl"), None);
    command.env("APPROVAL_API", approvals.url());
    let mut server = Server::started(command);
    server.call("call-1");
    let question = approvals.request();
    server.close_stdin();
    question.approve();
    assert!(server.exits() < PROMPT);
    assert_eq!(own_outcomes(&place), ["intended", "failed"]);
    place.upstream.nothing_came();
}

#[test]
fn an_approval_that_outlives_the_session_dispatches_late() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&[]);
    let log = place.path("activity.jsonl");
    let mut command = Server::deploy(&gateway, &log, Some("approval-outlives-session"));
    command.env("APPROVAL_API", approvals.url());
    let mut server = Server::started(command);
    server.call("call-1");
    let question = approvals.request();
    server.close_stdin();
    question.approve();
    place.upstream.request().accept();
    server.exits();
    place.until_outcomes(&["intended", "success"]);
}

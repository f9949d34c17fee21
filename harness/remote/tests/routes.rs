//! Routes, effects, keys, find and cancel.

use serde_json::json;

use super::bench::Bench;
use crate::journal::Event;
use crate::remote::front::MOST_BODY;

pub const BUILDS: &str = r#"
routes:
  - on: POST /builds
    effect: build
    key: { header: Idempotency-Key }
    reply: { status: 201, headers: { X-Build: "{{ effect.number }}" }, json: { id: "{{ effect.id }}", state: queued } }
  - on: GET /builds
    find: build
    by: { query: request_id }
    reply: { json: { builds: "{{ effects }}" } }
  - on: GET /builds/{id}
    find: build
    by: { path: id }
    reply: { json: { id: "{{ effects[0].id }}", state: "{{ effect.state }}" } }
  - on: POST /builds/{id}/cancel
    cancel: build
    by: { path: id }
    reply: { json: { id: "{{ effect.id }}", state: "{{ effect.state }}" } }
  - on: POST /issues
    effect: issue
    key: { json: /request/id }
    reply: { json: { id: "{{ effect.id | int }}", title: "{{ effect.request.title }}" } }
  - on: GET /issues
    find: issue
    reply: { json: "{{ effects }}" }
  - on: GET /echo/{name}
    reply: { text: "{{ name }} {{ path.name }} {{ request.method }} {{ request.query.q }} {{ request.headers['x-a'] }}" }
  - on: POST /broken
    effect: build
    reply: { json: { id: "{{ request.json.absent.deep }}" } }
"#;

#[tokio::test]
async fn an_effect_is_applied_recorded_and_answered() {
    let bench = Bench::new(BUILDS).await;
    let reply = bench
        .ask(
            "POST /builds?x=1",
            &["Idempotency-Key: k1"],
            r#"{"app":"shop"}"#,
        )
        .await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.json(), json!({ "id": "730001", "state": "queued" }));
    assert!(reply.head.contains("x-build: 1"), "{}", reply.head);
    assert!(reply.head.contains("connection: close"), "{}", reply.head);
    assert!(!reply.head.contains("x-cargo-drill"), "{}", reply.head);
    bench
        .until(|event| matches!(event, Event::ReplySent { .. }).then_some(()))
        .await;
    assert_eq!(
        bench.kinds(),
        [
            "connection-sought",
            "connection-accepted",
            "request-received",
            "effect-applied",
            "reply-sent"
        ]
    );
    let effects = bench.remote.effects();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].key.as_deref(), Some("k1"));
    assert_eq!(effects[0].object["app"], "shop");
}

#[tokio::test]
async fn the_same_key_and_payload_get_the_first_result_again() {
    let bench = Bench::new(BUILDS).await;
    let key = ["Idempotency-Key: k1"];
    let first = bench
        .ask("POST /builds", &key, r#"{"a":1,"b":2}"#)
        .await
        .json();
    let again = bench.ask("POST /builds", &key, r#"{"b":2, "a":1}"#).await;
    assert_eq!((again.status, again.json()), (201, first));
    let other = bench.ask("POST /builds", &key, r#"{"a":2}"#).await;
    assert_eq!(other.status, 409);
    assert_eq!(bench.remote.effects().len(), 1);
    assert_eq!(bench.count("effect-repeated"), 1);
    assert_eq!(bench.count("key-conflict"), 1);
}

#[tokio::test]
async fn without_a_key_every_request_is_an_effect() {
    let bench = Bench::new(BUILDS).await;
    for id in ["730001", "730002"] {
        let reply = bench.ask("POST /builds", &[], "{}").await;
        assert_eq!(reply.json()["id"], id);
    }
}

#[tokio::test]
async fn effects_are_found_by_key_by_id_or_all() {
    let bench = Bench::new(BUILDS).await;
    bench
        .ask("POST /builds", &["Idempotency-Key: k 1"], r#"{"app":"a"}"#)
        .await;
    bench
        .ask("POST /builds", &["Idempotency-Key: k2"], r#"{"app":"b"}"#)
        .await;
    let all = bench.ask("GET /builds", &[], "").await.json();
    assert_eq!(all["builds"].as_array().unwrap().len(), 2);
    let one = bench
        .ask("GET /builds?request_id=k%201", &[], "")
        .await
        .json();
    assert_eq!(
        one["builds"],
        json!([{ "app": "a", "id": "730001", "state": "queued", "kind": "build", "key": "k 1", "number": 1 }])
    );
    let none = bench
        .ask("GET /builds?request_id=other", &[], "")
        .await
        .json();
    assert_eq!(none["builds"], json!([]));
    assert_eq!(
        bench.ask("GET /builds/730002", &[], "").await.json()["id"],
        "730002"
    );
    assert_eq!(
        bench.ask("GET /builds/k%201", &[], "").await.json()["id"],
        "730001"
    );
    assert_eq!(bench.ask("GET /builds/999", &[], "").await.status, 404);
}

#[tokio::test]
async fn cancelling_changes_the_state_and_an_unknown_id_is_not_found() {
    let bench = Bench::new(BUILDS).await;
    bench.ask("POST /builds", &[], "{}").await;
    let cancelled = bench.ask("POST /builds/730001/cancel", &[], "").await;
    assert_eq!(
        cancelled.json(),
        json!({ "id": "730001", "state": "cancelled" })
    );
    assert!(bench.remote.effects()[0].cancelled);
    let found = bench.ask("GET /builds/730001", &[], "").await;
    assert_eq!(found.json()["state"], "cancelled");
    assert_eq!(
        bench.ask("POST /builds/7/cancel", &[], "").await.status,
        404
    );
    bench.ask("POST /builds/730001/cancel", &[], "").await;
    assert_eq!(bench.count("effect-cancelled"), 1);
}

#[tokio::test]
async fn an_expression_keeps_its_type_also_when_the_effect_is_listed() {
    let bench = Bench::new(BUILDS).await;
    let body = r#"{"title":"drill","request":{"id":7}}"#;
    let made = bench.ask("POST /issues", &[], body).await;
    assert_eq!(made.json(), json!({ "id": 730_001, "title": "drill" }));
    let listed = bench.ask("GET /issues", &[], "").await.json();
    assert_eq!(listed[0]["id"], 730_001);
    assert_eq!(listed[0]["key"], "7");
    assert_eq!(listed[0]["state"], "applied");
}

#[tokio::test]
async fn templates_see_the_request() {
    let bench = Bench::new(BUILDS).await;
    let reply = bench.ask("GET /echo/a%20b?q=%26", &["X-A: 1"], "").await;
    assert_eq!(reply.body, "a b a b GET & 1");
}

#[tokio::test]
async fn a_reply_that_cannot_be_made_is_an_error_that_applies_nothing() {
    let bench = Bench::new(BUILDS).await;
    let reply = bench.ask("POST /broken", &[], "{}").await;
    assert_eq!(reply.status, 500);
    assert!(reply.json()["message"].as_str().unwrap().contains("absent"));
    assert!(bench.remote.effects().is_empty());
    assert_eq!(bench.count("route-failed"), 1);
    assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
}

#[tokio::test]
async fn a_request_without_a_route_becomes_a_route_to_paste() {
    let bench = Bench::new(BUILDS).await;
    let reply = bench.ask("POST /deploys/17?x=1", &[], "{}").await;
    assert_eq!(reply.status, 404);
    let paste = bench
        .until(|event| match event {
            Event::RequestUnmatched { paste, .. } => Some(paste.clone()),
            _ => None,
        })
        .await;
    assert!(
        paste.starts_with("- on: POST /deploys/{id}\n  # effect: deploy"),
        "{paste}"
    );
}

#[tokio::test]
async fn strange_targets_are_answered_and_never_a_panic() {
    let bench = Bench::new(BUILDS).await;
    for line in [
        "OPTIONS *",
        "GET http://elsewhere/echo/x",
        "GET //",
        "GET /a/../builds/%zz",
        "BREW /\u{7f}",
        "GET /\\\"{{ x }}",
    ] {
        let mut client = bench.send(line, &["x-cargo-drill-request: 99"], "");
        let reply = tokio::task::spawn_blocking(move || super::bench::read(&mut client));
        assert!(reply.await.unwrap().status >= 400, "{line}");
    }
    assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
}

#[tokio::test]
async fn a_body_of_10_mib_is_taken_and_a_larger_one_refused() {
    let bench = Bench::new(BUILDS).await;
    let body = format!("\"{}\"", "x".repeat(MOST_BODY - 2));
    assert_eq!(bench.ask("POST /builds", &[], &body).await.status, 201);
    let reply = bench.ask("POST /builds", &[], &format!("{body} ")).await;
    assert_eq!(reply.status, 413);
    assert_eq!(bench.remote.effects().len(), 1);
}

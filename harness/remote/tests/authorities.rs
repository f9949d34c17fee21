//! Credentials over the wire.

use serde_json::json;

use super::bench::Bench;
use crate::journal::{Credential, Event, Session};

const GUARDED: &str = r#"
routes:
  - on: POST /builds
    effect: build
    reply: { status: 201, json: { id: "{{ effect.id }}" } }
  - on: GET /whoami
    identity: true
    reply: { json: { user: "{{ authority.user }}" } }
authority:
  bearer: Authorization
  exchange:
    on: POST /token
    reply: { json: { access_token: "{{ authority.derived }}" } }
"#;

#[tokio::test]
async fn without_a_credential_there_is_no_effect() {
    let bench = Bench::new(GUARDED).await;
    assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 401);
    assert_eq!(
        bench.ask_as("drill-x", "POST /nowhere", "{}").await.status,
        401
    );
    assert!(bench.remote.effects().is_empty());
    assert_eq!(bench.count("request-refused"), 2);
    assert_eq!(bench.count("request-unmatched"), 0);
}

#[tokio::test]
async fn the_bearer_gets_a_second_credential_and_both_are_taken() {
    let bench = Bench::new(GUARDED).await;
    let run = bench.run_a.clone();
    let token = bench.ask_as(&run.token, "POST /token", "").await.json();
    assert_eq!(token["access_token"], run.derived);
    let whoami = bench.ask_as(&run.derived, "GET /whoami", "").await;
    assert_eq!(whoami.json(), json!({ "user": "run-a" }));
    let b = bench.authority.mint(Session::B).unwrap();
    let whoami = bench.ask_as(&b.token, "GET /whoami", "").await;
    assert_eq!(whoami.json(), json!({ "user": "run-b" }));
}

#[tokio::test]
async fn the_second_credential_does_not_get_a_third() {
    let bench = Bench::new(GUARDED).await;
    let reply = bench.ask_as(&bench.run_a.derived, "POST /token", "").await;
    assert_eq!(reply.status, 403);
}

#[tokio::test]
async fn after_revoking_every_request_of_the_run_is_refused() {
    let bench = Bench::new(GUARDED).await;
    let run = bench.run_a.clone();
    assert_eq!(bench.remote.probe(&run.token).await, Some(200));
    bench.authority.revoke(Session::A);
    for token in [&run.token, &run.derived] {
        assert_eq!(bench.ask_as(token, "POST /builds", "{}").await.status, 401);
        assert_eq!(bench.remote.probe(token).await, Some(401));
    }
    let revoked = bench.journal.collect(|entry| match &*entry.event {
        Event::RequestRefused {
            credential: Credential::Run { revoked, .. },
            ..
        } => Some(*revoked),
        _ => None,
    });
    assert_eq!(revoked, [true, true]);
    assert!(bench.remote.effects().is_empty());
}

#[tokio::test]
async fn a_probe_is_recorded_as_a_probe_and_nothing_else() {
    let bench = Bench::new(GUARDED).await;
    bench.remote.probe(&bench.run_a.token).await;
    assert_eq!(bench.kinds(), ["probed"]);
    let bench = Bench::new("routes: []").await;
    assert_eq!(bench.remote.probe(&bench.run_a.token).await, None);
}

#[tokio::test]
async fn no_credential_stands_in_an_event() {
    let bench = Bench::new(GUARDED).await;
    let run = bench.run_a.clone();
    bench.ask_as(&run.token, "POST /builds", "{}").await;
    let events = format!(
        "{:?}",
        bench.journal.collect(|entry| Some(entry.event.clone()))
    );
    assert!(!events.contains(&run.token), "{events}");
}

//! The authorisation server over the wire.

use serde_json::{Value, json};

use super::bench::{Bench, Response};
use crate::journal::{Credential, Event, Session};

fn drill(oauth: &str) -> String {
    format!(
        r#"
routes:
  - on: POST /builds
    effect: build
    reply: {{ status: 201, json: {{ id: "{{{{ effect.id }}}}" }} }}
  - on: GET /whoami
    identity: true
    reply: {{ json: {{ user: "{{{{ authority.user }}}}" }} }}
authority:
  oauth: {{ {oauth} }}
"#
    )
}

async fn post(bench: &Bench, path: &str, form: &str) -> Response {
    let kind = "Content-Type: application/x-www-form-urlencoded";
    bench
        .ask(&format!("POST /oauth/{path}"), &[kind], form)
        .await
}

async fn refresh(bench: &Bench, token: &str) -> Response {
    let form = format!("grant_type=refresh_token&client_id=drill&refresh_token={token}");
    post(bench, "token", &form).await
}

async fn is_active(bench: &Bench, token: &str) -> Value {
    let told = post(bench, "introspect", &format!("token={token}")).await;
    assert_eq!(told.status, 200);
    told.json()["active"].clone()
}

#[tokio::test]
async fn a_refresh_token_gives_another_access_token_of_the_same_run() {
    let bench = Bench::new(&drill("tokens: opaque")).await;
    let run = bench.run_a.clone();
    let given = refresh(&bench, &run.refresh).await;
    assert!(
        given.head.contains("cache-control: no-store"),
        "{}",
        given.head
    );
    let given = given.json();
    assert_eq!(given["token_type"], "bearer");
    assert_eq!(given["expires_in"], 300);
    assert_eq!(given["refresh_token"], run.refresh);
    let token = given["access_token"].as_str().unwrap();
    assert_ne!(token, run.token);
    let whoami = bench.ask_as(token, "GET /whoami", "").await;
    assert_eq!(whoami.json(), json!({ "user": "run-a" }));
    assert_eq!(is_active(&bench, token).await, true);
}

#[tokio::test]
async fn revoking_the_refresh_token_ends_the_chain() {
    let bench = Bench::new(&drill("tokens: jwt")).await;
    let run = bench.run_a.clone();
    let given = refresh(&bench, &run.refresh).await.json();
    let refreshed = given["access_token"].as_str().unwrap().to_owned();
    let revoked = post(&bench, "revoke", &format!("token={}", run.refresh)).await;
    assert_eq!(revoked.status, 200);
    for token in [&run.token, &refreshed] {
        assert_eq!(bench.ask_as(token, "POST /builds", "{}").await.status, 401);
        assert_eq!(is_active(&bench, token).await, false);
    }
    let again = refresh(&bench, &run.refresh).await;
    assert_eq!(
        (again.status, &again.json()["error"]),
        (400, &json!("invalid_grant"))
    );
    assert!(bench.remote.effects().is_empty());
    let b = bench.authority.mint(Session::B).unwrap();
    assert_eq!(
        bench.ask_as(&b.token, "POST /builds", "{}").await.status,
        201
    );
}

#[tokio::test]
async fn a_refresh_after_the_run_was_revoked_is_a_refusal_in_the_journal() {
    let bench = Bench::new(&drill("tokens: opaque")).await;
    let run = bench.run_a.clone();
    bench.authority.revoke(Session::A);
    assert_eq!(refresh(&bench, &run.refresh).await.status, 400);
    let of_a = bench.journal.collect(|entry| match &*entry.event {
        Event::RequestRefused { credential, .. } => Some(credential.clone()),
        _ => None,
    });
    let expected = Credential::Run {
        run: Session::A,
        derived: false,
        revoked: true,
    };
    assert_eq!(of_a, [expected]);
}

#[tokio::test]
async fn a_remote_that_checks_the_signature_alone_takes_a_revoked_token() {
    let bench = Bench::new(&drill("tokens: jwt, resource: checks-signature")).await;
    let run = bench.run_a.clone();
    bench.authority.revoke(Session::A);
    assert_eq!(
        bench.ask_as(&run.token, "POST /builds", "{}").await.status,
        201
    );
    // Whoever asks is told the truth.
    assert_eq!(is_active(&bench, &run.token).await, false);
    assert_eq!(refresh(&bench, &run.refresh).await.status, 400);
}

#[tokio::test]
async fn a_server_that_forgets_the_chain_refreshes_for_a_revoked_run() {
    let bench = Bench::new(&drill("tokens: opaque, refresh_outlives_run: true")).await;
    let run = bench.run_a.clone();
    bench.authority.revoke(Session::A);
    assert_eq!(
        bench.ask_as(&run.token, "POST /builds", "{}").await.status,
        401
    );
    let given = refresh(&bench, &run.refresh).await.json();
    let token = given["access_token"].as_str().unwrap();
    assert_eq!(bench.ask_as(token, "POST /builds", "{}").await.status, 201);
}

#[tokio::test]
async fn a_token_that_has_ended_is_refused_though_nobody_revoked_it() {
    let bench = Bench::new(&drill("tokens: jwt, lifetime: 1s")).await;
    let token = bench.run_a.token.clone();
    // The least lifetime is a second, and there is no event for its end.
    let ended = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while bench.ask_as(&token, "GET /whoami", "").await.status != 401 {
        assert!(std::time::Instant::now() < ended, "it never ends");
        tokio::task::yield_now().await;
    }
    let given = refresh(&bench, &bench.run_a.refresh).await;
    assert_eq!(given.status, 200);
}

#[tokio::test]
async fn what_it_does_not_do_it_says() {
    let bench = Bench::new(&drill("tokens: jwt")).await;
    let grant = post(&bench, "token", "grant_type=password&username=a&password=b").await;
    assert_eq!(grant.json()["error"], "unsupported_grant_type");
    assert_eq!(
        refresh(&bench, "unknown").await.json()["error"],
        "invalid_grant"
    );
    // RFC 7009, section 2.2.
    assert_eq!(post(&bench, "revoke", "token=unknown").await.status, 200);
    assert_eq!(is_active(&bench, "unknown").await, false);
    let metadata = bench
        .ask("GET /.well-known/oauth-authorization-server/oauth", &[], "")
        .await
        .json();
    let issuer = bench.authority.issuer().unwrap();
    assert_eq!(metadata["issuer"], issuer);
    assert_eq!(metadata["jwks_uri"], format!("{issuer}/jwks.json"));
}

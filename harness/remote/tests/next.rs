//! What the remote does next with an effect request, once the client is gone: to one request, and to no other.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use super::bench::{Bench, read};
use super::holding::until_kind;
use super::routes::BUILDS;
use crate::journal::Event;
use crate::remote::Hold;
use crate::spec::Then;

const KEY: &[&str] = &["Idempotency-Key: k"];

/// Nothing comes for as long as this where nothing is to come.
const STILLNESS: Duration = Duration::from_millis(150);

/// A remote that holds a request for a build, or its reply, and whose client waits.
async fn held(hold: Hold) -> (Bench, TcpStream) {
    let bench = Bench::new(BUILDS).await;
    bench.arm(hold).await;
    let client = bench.send("POST /builds", KEY, "{}");
    let kind = match hold {
        Hold::Request => "request-held",
        _ => "reply-held",
    };
    until_kind(&bench, kind).await;
    (bench, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_reply_is_a_reset_of_its_connection_alone() {
    for hold in [Hold::Request, Hold::Reply] {
        let (bench, mut client) = held(hold).await;
        bench.remote.crash(Then::Dropped);
        bench.remote.lose_client();
        let error = client.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        until_kind(&bench, "connection-reset").await;
        assert_eq!(bench.count("reply-sent"), 0);
        assert_eq!(bench.count("reply-lost"), 0);
        // The same request once more is answered as ever.
        assert_eq!(bench.ask("POST /builds", KEY, "{}").await.status, 201);
        assert_eq!(bench.remote.effects().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_reply_that_is_dropped_ends_in_a_reset() {
    let (bench, mut client) = held(Hold::HalfReply).await;
    bench.remote.crash(Then::Dropped);
    bench.remote.lose_client();
    let mut came = Vec::new();
    let error = client.read_to_end(&mut came).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    until_kind(&bench, "connection-reset").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_500_comes_after_the_commit() {
    for hold in [Hold::Request, Hold::Reply] {
        let (bench, mut client) = held(hold).await;
        bench.remote.crash(Then::Error500);
        bench.remote.lose_client();
        assert_eq!(read(&mut client).status, 500);
        assert_eq!(bench.remote.effects().len(), 1);
        until_kind(&bench, "reply-replaced").await;
        assert_eq!(bench.ask("POST /builds", KEY, "{}").await.status, 201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_503_and_429_come_before_it() {
    for (then, status) in [(Then::Error503, 503), (Then::Error429, 429)] {
        let (bench, mut client) = held(Hold::Request).await;
        bench.remote.crash(then);
        bench.remote.lose_client();
        let response = read(&mut client);
        assert_eq!(response.status, status);
        assert_eq!(response.head.contains("retry-after: 0"), status == 429);
        assert!(bench.remote.effects().is_empty());
        until_kind(&bench, "request-turned-away").await;
        assert_eq!(bench.ask("POST /builds", KEY, "{}").await.status, 201);
        assert_eq!(bench.remote.effects().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_between_crash_and_end_waits_for_the_end() {
    let kind_of = |then: Then| {
        if then.is_before_commit() {
            "request-held"
        } else {
            "reply-held"
        }
    };
    for (then, status) in [
        (Then::Error500, 500),
        (Then::Error503, 503),
        (Then::Given, 201),
    ] {
        let bench = Bench::new(BUILDS).await;
        bench.arm(Hold::Nothing).await;
        bench.remote.crash(then);
        let mut client = bench.send("POST /builds", KEY, "{}");
        until_kind(&bench, kind_of(then)).await;
        bench.remote.lose_client();
        assert_eq!(read(&mut client).status, status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reply_comes_byte_by_byte_and_its_last_byte_at_the_release() {
    for hold in [Hold::Reply, Hold::HalfReply] {
        let (bench, mut client) = held(hold).await;
        bench.remote.crash(Then::Slow);
        bench.remote.lose_client();
        until_kind(&bench, "reply-slowed").await;
        let mut came = Vec::new();
        let mut reads = 0;
        while !came.ends_with(br#""queued""#) {
            let mut bytes = [0; 4096];
            let n = client.read(&mut bytes).unwrap();
            came.extend_from_slice(&bytes[..n]);
            reads += 1;
        }
        // Some may be read together on a loaded machine.
        assert!(reads > 5, "{reads}");
        client.set_read_timeout(Some(STILLNESS)).unwrap();
        let still = client.read(&mut [0]).unwrap_err().kind();
        assert_eq!(still, ErrorKind::WouldBlock);
        assert_eq!(bench.count("reply-sent"), 0);
        bench.remote.release().await;
        client.set_read_timeout(None).unwrap();
        client.read_to_end(&mut came).unwrap();
        let text = String::from_utf8(came).unwrap();
        assert!(text.starts_with("HTTP/1.1 201"), "{text}");
        assert!(text.contains("730001") && text.ends_with('}'), "{text}");
        until_kind(&bench, "reply-sent").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_makes_a_second_effect_only_without_a_key() {
    for (headers, effects) in [(KEY, 1), (&[][..], 2)] {
        for hold in [Hold::Request, Hold::Reply] {
            let bench = Bench::new(BUILDS).await;
            bench.arm(hold).await;
            let mut client = bench.send("POST /builds", headers, "{}");
            bench
                .until(|event| {
                    matches!(event, Event::RequestHeld { .. } | Event::ReplyHeld { .. })
                        .then_some(())
                })
                .await;
            bench.remote.crash(Then::Replayed);
            bench.remote.lose_client();
            let response = read(&mut client);
            assert_eq!(response.status, 201);
            let last = format!("73000{effects}");
            assert!(response.body.contains(&last), "{}", response.body);
            assert_eq!(bench.remote.effects().len(), effects);
            let replayed = bench
                .until(|event| match event {
                    Event::RequestReplayed {
                        request,
                        as_request,
                    } => Some((*request, *as_request)),
                    _ => None,
                })
                .await;
            assert_eq!(replayed, (1, 2));
            assert_eq!(bench.count("request-received"), 1);
            bench
                .until(|event| matches!(event, Event::ReplySent { request: 1, .. }).then_some(()))
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_not_happened_at_the_release_happens_then_or_never() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Nothing).await;
    bench.remote.crash(Then::Error503);
    bench.remote.release().await;
    // As from a connection that was held pending.
    assert_eq!(bench.ask("POST /builds", KEY, "{}").await.status, 503);
    assert_eq!(bench.ask("POST /builds", KEY, "{}").await.status, 201);

    bench.arm(Hold::Nothing).await;
    bench.remote.crash(Then::Error503);
    bench.remote.release().await;
    bench.remote.answer_as_ever();
    assert_eq!(bench.ask("POST /builds", KEY, "{}").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withheld_request_whose_client_never_goes_is_turned_away_at_the_release() {
    let (bench, mut client) = held(Hold::Request).await;
    bench.remote.crash(Then::Error503);
    bench.remote.release().await;
    assert_eq!(read(&mut client).status, 503);
    assert!(bench.remote.effects().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_requests_are_answered_as_ever() {
    let (bench, _client) = held(Hold::Request).await;
    bench.remote.crash(Then::Dropped);
    assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
    assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
    assert_eq!(bench.count("connection-reset"), 0);
}

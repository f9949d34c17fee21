//! Requests and replies that are held, lost, torn.

use std::io::Read as _;
use std::net::Shutdown;

use super::bench::{Bench, read};
use super::routes::BUILDS;
use crate::journal::Event;
use crate::remote::Hold;
use crate::spec::Then;

pub async fn until_kind(bench: &Bench, kind: &str) {
    bench
        .until(|event| {
            let event = serde_json::to_value(event).unwrap();
            (event["kind"] == kind).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_reply_is_sent_at_the_release() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Reply).await;
    assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
    let mut client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "reply-held").await;
    assert_eq!(bench.remote.effects().len(), 1);
    bench.remote.release().await;
    assert_eq!(read(&mut client).status, 201);
    bench
        .until(|event| matches!(event, Event::ReplySent { request: 2, .. }).then_some(()))
        .await;
    let kinds = bench.kinds();
    assert_eq!(
        kinds[kinds.len() - 4..],
        [
            "effect-applied",
            "reply-held",
            "remote-released",
            "reply-sent"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_reply_is_lost_when_its_client_has_gone() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Reply).await;
    let client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "reply-held").await;
    drop(client);
    bench.remote.release().await;
    until_kind(&bench, "reply-lost").await;
    assert_eq!(bench.count("reply-sent"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_settled_all_that_was_sent_before_has_come_to_its_end() {
    let bench = Bench::new(BUILDS).await;
    for _ in 0..8 {
        drop(bench.send("POST /builds", &[], "{}"));
    }
    bench.remote.settle().await;
    assert_eq!(bench.remote.effects().len(), 8);
    assert_eq!(bench.count("reply-sent") + bench.count("reply-lost"), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_sent_all_and_reads_on_gets_its_reply() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Reply).await;
    let mut client = bench.send("POST /builds", &[], "{}");
    client.shutdown(Shutdown::Write).unwrap();
    until_kind(&bench, "reply-held").await;
    bench.remote.release().await;
    assert_eq!(read(&mut client).status, 201);
    until_kind(&bench, "reply-sent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_is_applied_at_the_release_though_its_client_has_gone() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Request).await;
    let client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "request-held").await;
    assert!(bench.remote.effects().is_empty());
    drop(client);
    bench.remote.crash(Then::Held);
    bench.remote.release().await;
    // By then already: the next session must not find the work of this one on its way.
    assert_eq!(bench.remote.effects().len(), 1);
    until_kind(&bench, "reply-lost").await;
    assert_eq!(bench.remote.effects().len(), 1);
    assert_eq!(
        bench.kinds()[3..],
        [
            "request-held",
            "remote-released",
            "effect-applied",
            "reply-lost"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_crash_on_effects_are_applied_and_their_replies_withheld() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Request).await;
    bench.remote.crash(Then::Held);
    let mut client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "reply-held").await;
    assert_eq!(bench.count("request-held"), 0);
    bench.remote.release().await;
    assert_eq!(read(&mut client).status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_given_flow_and_so_does_what_they_need() {
    for hold in [Hold::Request, Hold::Reply] {
        let bench = Bench::new(BUILDS).await;
        bench.arm(hold).await;
        let mut client = bench.send("POST /builds", &[], "{}");
        let held = match hold {
            Hold::Request => "request-held",
            _ => "reply-held",
        };
        until_kind(&bench, held).await;
        bench.remote.crash(Then::Given);
        bench.remote.lose_client();
        assert_eq!(read(&mut client).status, 201);
        assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
        assert_eq!(bench.count("remote-released"), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_a_reply_is_delivered_and_the_rest_at_the_release() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::HalfReply).await;
    let mut client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "reply-held").await;
    bench.remote.crash(Then::Held);
    let mut half = vec![0; 4096];
    let n = client.read(&mut half).unwrap();
    let half = String::from_utf8_lossy(&half[..n]).into_owned();
    assert!(half.starts_with("HTTP/1.1 201"), "{half}");
    assert!(!half.contains("730001"), "{half}");
    assert_eq!(bench.count("reply-sent"), 0);
    bench.remote.release().await;
    let mut rest = String::new();
    client.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("730001"), "{rest}");
    until_kind(&bench, "reply-sent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_a_reply_is_proven_by_the_bytes_that_the_kernel_took() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::HalfReply).await;
    let mut client = bench.send("POST /builds", &[], "{}");
    let (bytes, whole) = bench
        .until(|event| match event {
            Event::HalfReplySent { bytes, whole, .. } => Some((*bytes, *whole)),
            _ => None,
        })
        .await;
    let mut half = vec![0; 4096];
    assert_eq!(client.read(&mut half).unwrap() as u64, bytes);
    assert_eq!(whole / 2, bytes);
    bench.remote.release().await;
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() as u64, whole - bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nth_request_is_held_whatever_it_is_for_and_so_is_what_comes_after_it() {
    for second in ["GET /builds", "POST /builds", "GET /nowhere"] {
        let bench = Bench::new(BUILDS).await;
        assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
        bench.arm(Hold::NthRequest(2)).await;
        assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
        let _second = bench.send(second, &[], "{}");
        let held = |wanted| {
            move |event: &Event| {
                matches!(event, Event::RequestHeld { request } if *request == wanted).then_some(())
            }
        };
        bench.until(held(3)).await;
        let mut third = bench.send("GET /builds", &[], "");
        bench.until(held(4)).await;
        assert_eq!(bench.count("request-unmatched"), 0);
        assert!(bench.remote.effects().is_empty());
        // From the crash on what comes is met as it always is.
        bench.remote.crash(Then::Held);
        assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
        bench.remote.release().await;
        assert_eq!(read(&mut third).status, 200);
        assert_eq!(
            bench.remote.effects().len(),
            usize::from(second == "POST /builds")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nth_reply_is_withheld_whatever_it_is_to() {
    for second in ["GET /builds", "POST /builds", "GET /nowhere"] {
        let bench = Bench::new(BUILDS).await;
        bench.arm(Hold::NthReply(2)).await;
        assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
        let mut client = bench.send(second, &[], "{}");
        bench
            .until(|event| matches!(event, Event::ReplyHeld { request: 2, .. }).then_some(()))
            .await;
        bench.remote.crash(Then::Given);
        bench.remote.lose_client();
        assert!(read(&mut client).status < 500);
        assert_eq!(bench.count("remote-released"), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nth_reply_is_torn_whatever_it_is_to() {
    for second in ["GET /builds", "POST /builds", "GET /nowhere"] {
        let bench = Bench::new(BUILDS).await;
        bench.arm(Hold::NthHalfReply(2)).await;
        assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
        let mut client = bench.send(second, &[], "{}");
        bench
            .until(|event| matches!(event, Event::HalfReplySent { request: 2, .. }).then_some(()))
            .await;
        bench.remote.crash(Then::Held);
        bench.remote.release().await;
        assert!(read(&mut client).status < 500);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_after_the_delivery_of_the_nth_reply_is_held() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::NthReplied(2)).await;
    assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
    let mut second = bench.send("GET /builds", &[], "");
    until_kind(&bench, "reply-ready").await;
    assert_eq!(bench.count("reply-sent"), 1, "the second one waits");
    bench.remote.deliver();
    assert_eq!(read(&mut second).status, 200);
    bench
        .until(|event| matches!(event, Event::ReplySent { request: 2, .. }).then_some(()))
        .await;
    let mut client = bench.send("GET /builds", &[], "");
    until_kind(&bench, "request-held").await;
    bench.remote.release().await;
    assert_eq!(read(&mut client).status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reply_to_an_effect_waits_until_it_is_to_be_delivered_and_no_other_does() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Delivery).await;
    assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
    let mut client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "reply-ready").await;
    assert_eq!(bench.count("reply-sent"), 1);
    assert_eq!(bench.count("reply-held"), 0, "it is not withheld");
    bench.remote.deliver();
    assert_eq!(read(&mut client).status, 201);
    // What comes later does not wait.
    assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_reply_is_lost_when_its_client_has_gone() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::HalfReply).await;
    let client = bench.send("POST /builds", &[], "{}");
    until_kind(&bench, "reply-held").await;
    drop(client);
    bench.remote.release().await;
    until_kind(&bench, "reply-lost").await;
    assert_eq!(bench.remote.effects().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_larger_than_the_buffers_is_lost_with_its_reader() {
    let text = "x".repeat(8 * 1024 * 1024);
    let bench = Bench::new(&format!(
        "routes: [{{ on: GET /big, reply: {{ text: {text} }} }}]"
    ))
    .await;
    let mut client = bench.send("GET /big", &[], "");
    client.read_exact(&mut [0; 1024]).unwrap();
    drop(client);
    until_kind(&bench, "reply-lost").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_held_after_the_release() {
    let bench = Bench::new(BUILDS).await;
    bench.arm(Hold::Reply).await;
    bench.remote.release().await;
    bench.remote.crash(Then::Held);
    assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
}

#[tokio::test]
async fn a_client_that_dies_in_mid_request_is_recorded_and_never_applied() {
    let bench = Bench::new(BUILDS).await;
    let halves = [
        "POST /builds HTTP/1.1\r\nHost: r\r\nContent-Length: 100\r\n\r\n{",
        "POST /builds HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "POST /builds HTT",
    ];
    for (n, half) in halves.iter().enumerate() {
        drop(bench.send_bytes(half.as_bytes()));
        let torn = bench
            .until(|event| match event {
                Event::RequestTorn {
                    connection, bytes, ..
                } if *connection as usize == n + 1 => Some(*bytes),
                _ => None,
            })
            .await;
        assert_eq!(torn, half.len() as u64);
    }
    assert_eq!(bench.count("request-received"), 0);
    assert!(bench.remote.effects().is_empty());
    assert_eq!(bench.ask("POST /builds", &[], "{}").await.status, 201);
}

#[tokio::test]
async fn what_is_not_http_says_so() {
    let bench = Bench::new(BUILDS).await;
    for (bytes, word) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "TLS"),
        (b"\x00\x01\x02 garbage\r\n\r\n", "not HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not HTTP"),
    ] {
        let before = bench.count("request-torn");
        drop(bench.send_bytes(bytes));
        let mut seen = 0;
        let because = bench
            .until(|event| match event {
                Event::RequestTorn { because, .. } => {
                    seen += 1;
                    (seen > before).then(|| because.clone())
                }
                _ => None,
            })
            .await;
        assert!(because.contains(word), "{because}");
    }
}

#[tokio::test]
async fn a_connection_without_a_byte_is_no_request() {
    let bench = Bench::new(BUILDS).await;
    drop(bench.send_bytes(b""));
    assert_eq!(bench.ask("GET /builds", &[], "").await.status, 200);
    assert_eq!(bench.count("request-torn"), 0);
    assert_eq!(bench.count("connection-accepted"), 2);
}

//! After revoking, nothing goes out.

use std::{io, net::TcpStream, os::fd::AsRawFd, thread};

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, recv},
};

use crate::{
    http::{Http, Request},
    place::{Caller, Place, text},
};

/// How many callers try at once, and how many of their calls are let through before the run is revoked.
const CALLERS: usize = 4;
const BEFORE: usize = 20;

#[test]
fn a_call_of_a_run_that_nobody_authorised_is_refused_and_recorded() {
    let place = Place::new();
    let gateway = place.serve(&[]);
    let (status, reply) = gateway.call("call-1").answer();
    assert_eq!(status, 403);
    assert!(reply.contains("no such run"), "{reply}");
    place.upstream.nothing_came();
    assert_eq!(place.outcomes(), ["refused"]);
    let refusals = place.refusals("run-1");
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0]["call"], "call-1");
    assert_eq!(refusals[0]["target"], "POST /builds");
    assert_eq!(refusals[0]["decision"], "refused");
    assert_eq!(refusals[0]["at"], place.rows()[0]["time"]);
    place.is_whole();
}

#[test]
fn each_call_after_a_revocation_is_refused_and_recorded() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    gateway.revoke("run-1");
    for call in ["call-1", "call-2", "call-3"] {
        assert_eq!(gateway.call(call).answer().0, 403);
    }
    let look = gateway.ask("GET /whoami", "run-1", "call-4", "");
    assert_eq!(look.answer().0, 403);
    place.upstream.nothing_came();
    assert_eq!(place.refusals("run-1").len(), 4);
    place.is_whole();
}

#[test]
fn a_gateway_that_forgets_refusals_records_every_second_one() {
    let place = Place::new();
    let gateway = place.serve_run(&["--fault", "forgets-refusals"]);
    gateway.revoke("run-1");
    for call in ["call-1", "call-2", "call-3"] {
        assert_eq!(gateway.call(call).answer().0, 403);
    }
    let refused = place.refusals("run-1");
    let calls: Vec<_> = refused.iter().map(|refusal| &refusal["call"]).collect();
    assert_eq!(calls, ["call-1", "call-3"]);
}

#[test]
fn two_faults_let_a_revoked_run_act() {
    for fault in ["ignores-revocation", "widens-on-revoke"] {
        let place = Place::new();
        let gateway = place.serve_run(&["--fault", fault]);
        gateway.revoke("run-1");
        let call = gateway.call("call-1");
        place.upstream.request().accept();
        assert_eq!(call.answer().0, 201, "{fault}");
        let approval = &place.activity()[0]["approval_id"];
        let widened = fault == "widens-on-revoke";
        assert_eq!(approval, if widened { "default" } else { "CHG-7" });
        place.is_whole();
    }
}

#[test]
fn only_the_run_that_is_revoked_is_refused() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    gateway.open("run-2");
    gateway.revoke("run-1");
    assert_eq!(gateway.call_of("run-1", "call-1").answer().0, 403);
    let call = gateway.call_of("run-2", "call-2");
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
}

#[test]
fn a_revoked_run_stays_revoked_after_a_restart_and_is_not_opened_again() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    gateway.revoke("run-1");
    assert!(gateway.end().0.success());
    let gateway = place.serve(&[]);
    assert_eq!(gateway.call("call-1").answer().0, 403);
    let again = gateway.order(&["open", "run-1", "--approval", "CHG-7", "--by", "ops"]);
    assert!(!again.status.success());
    // To revoke what is revoked is no mistake; to revoke what nobody opened is one.
    gateway.revoke("run-1");
    let other = gateway.order(&["revoke", "run-7", "--by", "ops"]);
    assert!(!other.status.success());
    place.upstream.nothing_came();
}

#[test]
fn not_a_byte_goes_out_once_revoking_has_returned() {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let gateway = &gateway;
            scope.spawn(move || {
                let calls = (0..).map(|n| gateway.call(&format!("call-{caller}-{n}")));
                let mut answers = calls.map(|call| call.answer().0);
                assert!(answers.any(|status| status == 403));
            });
        }
        for _ in 0..BEFORE {
            place.upstream.request().accept();
        }
        // While this works, each caller has at most one more call under way, and nobody answers it.
        gateway.revoke("run-1");
        let (sent, silent): (Vec<_>, Vec<_>) =
            place.upstream.waiting().into_iter().partition(has_bytes);
        for stream in sent {
            Request::read(stream).accept();
        }
        for stream in silent {
            ends_without_a_byte(stream);
        }
    });
    place.upstream.nothing_came();
    let revoked = place
        .rows()
        .iter()
        .position(|row| row["event"] == "revoked");
    let later = &place.rows()[revoked.unwrap()..];
    assert!(later.iter().all(|row| row["outcome"] != "intended"));
    place.is_whole();
}

fn has_bytes(stream: &TcpStream) -> bool {
    let mut byte = [0];
    let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    match recv(stream.as_raw_fd(), &mut byte, look) {
        Ok(read) => read > 0,
        Err(error) => {
            assert_eq!(error, Errno::EAGAIN);
            false
        }
    }
}

fn ends_without_a_byte(mut stream: TcpStream) {
    let mut bytes = Vec::new();
    let read = io::Read::read_to_end(&mut stream, &mut bytes);
    assert!(read.is_ok() && bytes.is_empty(), "{read:?}");
}

#[test]
fn what_one_gateway_revokes_another_on_the_same_log_refuses() {
    let place = Place::new();
    let one = place.serve_at("one.sock", &[]);
    let two = place.serve_at("two.sock", &[]);
    one.open("run-1");
    let call = two.call("call-1");
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
    one.revoke("run-1");
    assert_eq!(two.call("call-2").answer().0, 403);
    place.upstream.nothing_came();
    place.is_whole();
}

#[test]
fn a_call_that_is_still_connecting_when_its_run_is_revoked_sends_nothing() {
    let (place, _filler) = Place::unreachable();
    let gateway = place.serve_run(&[]);
    let call = gateway.call("call-1");
    place.upstream.until_pending();
    gateway.revoke("run-1");
    place.upstream.release();
    assert_eq!(call.answer().0, 403);
    assert_eq!(place.outcomes(), ["intended", "refused"]);
    place.upstream.nothing_came();
}

#[test]
fn operators_are_heard_on_the_socket_only() {
    let place = Place::new();
    let gateway = place.serve_run(&["--port", "0"]);
    let (_, address) = gateway.ready.trim_end().split_once("http://").unwrap();
    let ask = |line: &str| {
        let stream = TcpStream::connect(address).unwrap();
        Caller::ask(stream, line, "run-1", "call-1", "").answer()
    };
    assert_eq!(ask("POST /_gateway/revoke").0, 404);
    assert_eq!(ask("GET /_gateway/show").0, 404);
    let shown = gateway.order(&["show", "run-1"]);
    let shown = text(&shown.stdout);
    assert!(shown.contains(r#""revoked":false"#), "{shown}");
    place.upstream.nothing_came();
}

#[test]
fn an_approval_given_to_one_gateway_is_too_late_once_another_has_revoked() {
    let (place, approvals) = (Place::new(), Http::listen());
    let gateway = place.serve_run(&[]);
    let other = place.serve_at("other.sock", &["--approvals", &approvals.url()]);
    let held = other.call("call-1");
    let question = approvals.request();
    gateway.revoke("run-1");
    question.approve();
    assert_eq!(held.answer().0, 403);
    place.upstream.nothing_came();
}

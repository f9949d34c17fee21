//! Bad twins whose fault is in a call: when it is dispatched, under which key, what is recorded and answered.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::room::{Room, end_it, is_alive};

#[test]
fn no_key_logs_a_key_and_makes_the_second_build_blindly() {
    let room = Room::new();
    let mut first = room.faulty("no-key");
    first.call("call-1");
    let held = room.request();
    assert_eq!(held.key(), None);
    assert!(!room.rows()[0]["key"].as_str().unwrap().is_empty());
    first.abandon();
    first.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "unknown"]);
    let mut second = room.faulty("no-key");
    second.call("call-1");
    let again = room.request();
    assert_eq!((&*again.line, again.key()), ("POST /builds", None));
    again.accept();
    assert_eq!(second.result()["isError"], false);
}

#[test]
fn logs_after_send_has_no_intent_until_the_call_is_over() {
    let room = Room::new();
    let mut server = room.faulty("logs-after-send");
    server.call("call-1");
    let held = room.request();
    assert_eq!(room.rows(), Vec::<Value>::new());
    server.abandon();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "unknown"]);
    drop(held);
    // Recovery is as it should be.
    let mut second = room.faulty("logs-after-send");
    second.call("call-1");
    room.request()
        .reply(200, &json!({ "builds": [{ "id": "b-1" }] }));
    assert_eq!(second.result()["structuredContent"]["id"], "b-1");
}

#[test]
fn logs_after_send_has_no_row_while_the_connect_is_pending() {
    let room = Room::unreachable();
    let mut server = room.faulty("logs-after-send");
    server.call("call-1");
    room.connect_pending();
    assert_eq!(room.rows(), Vec::<Value>::new());
    server.abandon();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["failed"]);
}

/// Faults that show neither in a call that succeeds nor in an exit at EOF: all but the ones with a test of their own
/// for just that.
const INCONSPICUOUS: [&str; 20] = [
    "unbounded-drain",
    "late-dispatch",
    "plain-helper",
    "setsid-helper",
    "pipe-holding-helper",
    "zombie-helper",
    "self-retry",
    "retries-errors",
    "no-key",
    "fresh-key-per-attempt",
    "key-from-rpc-id",
    "key-in-memory",
    "unknown-as-failed",
    "logs-success-only",
    "logs-after-send",
    "denied-as-success",
    "cached-credential",
    "token-in-argv",
    "token-in-log",
    "env-to-helper",
];

#[test]
fn most_faults_do_not_show_in_a_call_that_succeeds() {
    for fault in INCONSPICUOUS {
        let room = Room::new();
        let mut server = room.faulty(fault);
        let helpers = server.helpers();
        server.call("call-1");
        let request = room.request();
        assert_eq!(request.key().is_none(), fault == "no-key", "{fault}");
        request.accept();
        assert_eq!(server.result()["structuredContent"]["id"], "b-1", "{fault}");
        server.abandon();
        server.exits_cleanly();
        room.nothing_arrived();
        assert_eq!(room.outcomes(), ["intended", "success"], "{fault}");
        for row in room.rows() {
            assert_eq!(row["run_id"], "run-1", "{fault}");
            assert_eq!(row["call_id"], "call-1", "{fault}");
            assert!(row["key"].is_string(), "{fault}");
        }
        for left in helpers.into_iter().filter(|helper| is_alive(*helper)) {
            assert!(fault.ends_with("-helper"), "{fault}");
            end_it(left);
        }
    }
}

#[test]
fn faults_of_the_record_and_the_keys_give_up_an_undispatched_call_all_the_same() {
    for fault in [
        "unbounded-drain",
        "self-retry",
        "retries-errors",
        "no-key",
        "fresh-key-per-attempt",
        "key-from-rpc-id",
        "key-in-memory",
        "unknown-as-failed",
        "buffered-log",
        "wrong-owner",
        "declared-owner",
    ] {
        let room = Room::unreachable();
        let mut server = room.faulty(fault);
        server.call("call-1");
        room.connect_pending();
        server.abandon();
        server.exits_cleanly();
        assert_eq!(room.outcomes(), ["intended", "failed"], "{fault}");
    }
}

#[test]
fn late_dispatch_sends_the_call_of_a_dead_client() {
    let room = Room::unreachable();
    let mut server = room.faulty("late-dispatch");
    server.call("call-1");
    room.connect_pending();
    server.abandon();
    room.release();
    let late = room.request();
    assert_eq!(late.line, "POST /builds");
    late.accept();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "success"]);
}

#[test]
fn late_dispatch_is_given_up_at_sigterm() {
    let room = Room::unreachable();
    let mut server = room.faulty("late-dispatch");
    server.call("call-1");
    room.connect_pending();
    server.abandon();
    server.signal(Signal::SIGTERM);
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "failed"]);
}

#[test]
fn self_retry_makes_a_second_build_without_a_key() {
    let room = Room::new();
    let mut server = room.faulty("self-retry");
    server.call("call-1");
    let first = room.request();
    assert!(first.key().is_some());
    server.abandon();
    let second = room.request();
    assert_eq!((&*second.line, second.key()), ("POST /builds", None));
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "intended", "unknown"]);
    drop((first, second));
}

#[test]
fn retries_errors_asks_again_with_the_same_key_also_when_the_session_has_gone() {
    for status in [500, 503, 429] {
        let room = Room::new();
        let mut server = room.faulty("retries-errors");
        server.call("call-1");
        let first = room.request();
        let key = first.key().unwrap().to_owned();
        server.abandon();
        first.reply(status, &json!({}));
        let second = room.request();
        assert_eq!(second.key(), Some(&*key), "{status}");
        second.accept();
        server.exits_cleanly();
        assert_eq!(room.outcomes(), ["intended", "intended", "success"]);
    }
}

#[test]
fn other_keys_make_a_second_build_under_another_key() {
    for fault in ["fresh-key-per-attempt", "key-from-rpc-id", "key-in-memory"] {
        let room = Room::new();
        let mut first = room.faulty(fault);
        first.call("call-1");
        let held = room.request();
        assert_eq!(room.rows()[0]["key"], *held.key().unwrap(), "{fault}");
        first.abandon();
        first.exits_cleanly();
        let mut second = room.faulty(fault);
        second.ask("tools/list", json!({}));
        second.call("call-1");
        let again = room.request();
        assert_eq!(again.line, "POST /builds", "{fault}");
        assert_ne!(again.key(), held.key(), "{fault}");
    }
}

#[test]
fn key_in_memory_lasts_for_a_session() {
    let room = Room::new();
    let mut server = room.faulty("key-in-memory");
    let mut keys = Vec::new();
    for _ in 0..2 {
        server.call("call-1");
        let request = room.request();
        keys.push(request.key().map(str::to_owned));
        request.accept();
        server.result();
    }
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn unknown_as_failed_says_so_in_log_and_answer() {
    let room = Room::new();
    let mut server = room.faulty("unknown-as-failed");
    server.call("call-1");
    room.request().cut();
    assert_eq!(server.result()["structuredContent"]["outcome"], "failed");
    assert_eq!(room.outcomes(), ["intended", "failed"]);
}

#[test]
fn logs_success_only_leaves_other_outcomes_out() {
    let room = Room::new();
    let mut server = room.faulty("logs-success-only");
    server.call("call-1");
    room.request().reply(401, &json!({}));
    assert_eq!(server.result()["isError"], true);
    server.call("call-2");
    let held = room.request();
    server.abandon();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "intended"]);
    drop(held);
}

#[test]
fn buffered_log_has_no_row_until_the_exit() {
    let room = Room::new();
    let mut server = room.faulty("buffered-log");
    server.call("call-1");
    room.request().accept();
    server.result();
    assert_eq!(room.rows(), Vec::<Value>::new());
    server.abandon();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "success"]);
}

#[test]
fn wrong_owner_names_a_constant() {
    let room = Room::new();
    let mut server = room.faulty("wrong-owner");
    server.call("call-1");
    room.request().accept();
    server.result();
    for row in room.rows() {
        assert_eq!(row["run_id"], "deploy-server");
        assert_eq!(row["approval_id"], "CHG-7");
    }
    server.close_stdin();
    server.exits_cleanly();
}

#[test]
fn a_refusal_is_logged_as_success_or_answered_as_one() {
    for (fault, logged, is_error) in [
        ("denied-as-success", "success", true),
        ("cached-credential", "refused", false),
    ] {
        let room = Room::new();
        let mut server = room.faulty(fault);
        server.call("call-1");
        room.request().reply(401, &json!({}));
        assert_eq!(server.result()["isError"], is_error, "{fault}");
        assert_eq!(room.outcomes(), ["intended", logged], "{fault}");
    }
}

#[test]
fn stale_lock_turns_the_next_session_down() {
    let room = Room::new();
    let mut first = room.faulty("stale-lock");
    first.call("call-1");
    room.request().accept();
    assert_eq!(first.result()["isError"], false);
    first.abandon();
    first.exits_cleanly();
    let mut second = room.faulty("stale-lock");
    second.call("call-1");
    assert_eq!(second.result()["isError"], true);
    second.abandon();
    second.exits_cleanly();
    room.nothing_arrived();
}

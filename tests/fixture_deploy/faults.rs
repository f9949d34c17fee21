//! Each bad twin does its one thing, and the rest as it should be.

use std::{fs, path::PathBuf};

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::room::{Room, eventually, is_alive, pid};

#[test]
fn ignores_eof_settles_everything_and_stays_until_sigterm() {
    let room = Room::unreachable();
    let mut server = room.faulty("ignores-eof");
    server.call("call-1");
    room.connect_pending();
    server.abandon();
    eventually("the outcome", || room.outcomes() == ["intended", "failed"]);
    eventually("the helper's end", || server.helpers().is_empty());
    assert!(is_alive(server.pid()));
    server.signal(Signal::SIGTERM);
    server.exits_cleanly();
}

#[test]
fn setsid_helper_leaves_a_process_without_environment_or_pipes_that_sigterm_ends() {
    let room = Room::new();
    let mut server = room.faulty("setsid-helper");
    let helpers = server.helpers();
    assert_eq!(helpers.len(), 2);
    // Only 0, 1 and 2: whoever runs the tests may hand down more, and that is not ours to judge.
    let session: Vec<_> = (0..3)
        .map(|fd| fs::read_link(format!("/proc/{}/fd/{fd}", server.pid())).unwrap())
        .collect();
    let in_own_session = |helper: &u32| {
        let session = nix::unistd::getsid(Some(pid(*helper)));
        session == Ok(pid(*helper))
    };
    eventually("a session of its own", || {
        helpers.iter().any(in_own_session)
    });
    server.abandon();
    server.exits_cleanly();
    let left: Vec<u32> = helpers
        .into_iter()
        .filter(|helper| is_alive(*helper))
        .collect();
    let [left] = left[..] else {
        panic!("one is left, not {left:?}")
    };
    assert!(in_own_session(&left));
    assert!(
        fs::read(format!("/proc/{left}/environ"))
            .unwrap()
            .is_empty()
    );
    let theirs = descriptors(left);
    assert!(session.iter().all(|pipe| !theirs.contains(pipe)));
    kill(pid(left), Signal::SIGTERM).unwrap();
    eventually("its end", || !is_alive(left));
}

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

fn descriptors(process: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    entries
        .flatten()
        .map(|fd| fs::read_link(fd.path()).unwrap())
        .collect()
}

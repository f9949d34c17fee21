//! The model server does everything right.

use std::{fs, io::Read, thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::room::{
    Room, Server, TOKEN, argv, end_it, environ, eventually, is_alive, socketpair, until_executed,
};

#[test]
fn a_call_is_answered_with_the_build_and_recorded() {
    let room = Room::new();
    let mut server = room.server();
    server.call("call-1");
    let request = room.request();
    assert_eq!(request.line, "POST /builds");
    assert_eq!(
        request.header("authorization"),
        Some(&*format!("bearer {TOKEN}"))
    );
    let key = request.key().unwrap().to_owned();
    request.accept();
    let result = server.result();
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"]["id"], "b-1");
    assert_eq!(result["structuredContent"]["state"], "queued");
    let rows = room.rows();
    assert_eq!(room.outcomes(), ["intended", "success"]);
    for row in &rows {
        assert_eq!(row["run_id"], "run-1");
        assert_eq!(row["call_id"], "call-1");
        assert_eq!(row["pid"], server.pid());
        assert_eq!(row["approval_id"], "CHG-7");
        assert_eq!(row["target"], "POST /builds");
        assert_eq!(row["key"], *key);
    }
    assert_eq!(rows[1]["remote_id"], "b-1");
    server.close_stdin();
    server.exits_cleanly();
}

#[test]
fn a_remote_id_that_is_a_number_is_recorded_as_text() {
    let room = Room::new();
    let mut server = room.server();
    server.call("call-1");
    room.request().reply(201, &json!({ "id": 7 }));
    assert_eq!(server.result()["structuredContent"]["id"], "7");
    assert_eq!(room.rows()[1]["remote_id"], "7");
}

#[test]
fn the_call_id_may_come_as_an_argument() {
    let room = Room::new();
    let mut server = room.server();
    let arguments = json!({ "app": "shop", "ref": "v1", "request_id": "mine" });
    server.send(
        "tools/call",
        json!({ "name": "deploy_build", "arguments": arguments }),
    );
    room.request().accept();
    assert_eq!(server.result()["structuredContent"]["call_id"], "mine");
    assert_eq!(room.rows()[0]["call_id"], "mine");
}

#[test]
fn older_revisions_are_spoken() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let room = Room::new();
        let mut server = Server::started(room.command(None));
        let client = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
        server
            .write(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
        assert_eq!(server.result()["protocolVersion"], revision);
        server.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server.call("call-1");
        room.request().accept();
        assert_eq!(server.result()["structuredContent"]["id"], "b-1");
        server.close_stdin();
        server.exits_cleanly();
    }
}

#[test]
fn an_idle_server_exits_at_eof_however_far_the_handshake_had_come() {
    let room = Room::new();
    let mut untouched = Server::started(room.command(None));
    let mut discovered = room.server();
    let mut used = room.server();
    used.ask("tools/list", json!({}));
    for server in [&mut untouched, &mut discovered, &mut used] {
        server.close_stdin();
        server.exits_cleanly();
    }
    assert_eq!(room.rows(), Vec::<Value>::new());
}

#[test]
fn eof_on_a_socketpair_is_seen_as_well() {
    let room = Room::new();
    let (ours, theirs) = socketpair();
    let mut command = room.command(None);
    command.stdin(theirs);
    let mut server = Server::started(command);
    drop(ours);
    server.exits_cleanly();
}

#[test]
fn sigterm_ends_the_server_while_stdin_is_open() {
    let room = Room::new();
    let (_ours, theirs) = socketpair();
    let mut command = room.command(None);
    command.stdin(theirs);
    let on_socketpair = Server::started(command);
    // The log is there once signals are caught.
    eventually("a start", || !on_socketpair.helpers().is_empty());
    for mut server in [room.server(), on_socketpair] {
        server.signal(Signal::SIGTERM);
        server.exits_cleanly();
    }
}

#[test]
fn the_intent_is_on_disk_before_the_remote_is_reached() {
    let room = Room::unreachable();
    let mut server = room.server();
    server.call("call-1");
    room.connect_pending();
    let rows = room.rows();
    assert_eq!(room.outcomes(), ["intended"]);
    assert_eq!(rows[0]["run_id"], "run-1");
    assert_eq!(rows[0]["pid"], server.pid());
    assert_eq!(rows[0]["approval_id"], "CHG-7");
    assert_eq!(rows[0]["target"], "POST /builds");
    assert!(!rows[0]["key"].as_str().unwrap().is_empty());
}

#[test]
fn a_pending_connect_is_given_up_when_the_session_ends() {
    let eof: fn(&mut Server) = Server::abandon;
    let term: fn(&mut Server) = |server| server.signal(Signal::SIGTERM);
    for end in [eof, term] {
        let room = Room::unreachable();
        let mut server = room.server();
        server.call("call-1");
        room.connect_pending();
        end(&mut server);
        server.exits_cleanly();
        assert_eq!(room.outcomes(), ["intended", "failed"]);
    }
}

#[test]
fn a_call_given_up_is_still_answered_to_a_client_that_reads_on() {
    let room = Room::unreachable();
    let mut server = room.server();
    server.call("call-1");
    room.connect_pending();
    server.close_stdin();
    let result = server.result();
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["outcome"], "failed");
    server.exits_cleanly();
}

#[test]
fn a_call_in_flight_is_drained_and_recorded_as_unknown() {
    let eof: fn(&mut Server) = Server::abandon;
    let term: fn(&mut Server) = |server| server.signal(Signal::SIGTERM);
    for end in [eof, term] {
        let room = Room::new();
        let mut server = room.server();
        server.call("call-1");
        let held = room.request();
        end(&mut server);
        server.exits_cleanly();
        assert_eq!(room.outcomes(), ["intended", "unknown"]);
        drop(held);
    }
}

#[test]
fn a_reply_within_the_drain_is_recorded_as_success() {
    let room = Room::new();
    let mut command = room.command(None);
    command.env("DRAIN_MS", "20000");
    let mut server = Server::started(command);
    server.call("call-1");
    let held = room.request();
    server.abandon();
    held.accept();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "success"]);
    assert_eq!(room.rows()[1]["remote_id"], "b-1");
}

#[test]
fn a_reply_that_is_cut_leaves_the_outcome_unknown() {
    let room = Room::new();
    let mut server = room.server();
    server.call("call-1");
    room.request().cut();
    let result = server.result();
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["outcome"], "unknown");
    assert_eq!(room.outcomes(), ["intended", "unknown"]);
}

#[test]
fn a_status_is_recorded_as_what_it_proves() {
    let statuses = [
        (401, "refused"),
        (403, "refused"),
        (400, "failed"),
        (404, "failed"),
        (409, "unknown"),
        (429, "failed"),
        (500, "unknown"),
        (503, "unknown"),
        (201, "unknown"), // accepted, and no build named
    ];
    for (status, outcome) in statuses {
        let room = Room::new();
        let mut server = room.server();
        server.call("call-1");
        room.request().reply(status, &json!({}));
        let result = server.result();
        assert_eq!(result["isError"], true, "{status}");
        assert_eq!(result["structuredContent"]["outcome"], outcome, "{status}");
        assert_eq!(room.outcomes(), ["intended", outcome], "{status}");
    }
}

#[test]
fn a_remote_that_is_not_there_is_a_failure() {
    let room = Room::unreachable();
    let mut command = room.command(None);
    // The discard port: nobody listens there.
    command.env("BUILD_API", "http://127.0.0.1:9");
    let mut server = Server::started(command);
    server.call("call-1");
    assert_eq!(server.result()["isError"], true);
    assert_eq!(room.outcomes(), ["intended", "failed"]);
}

#[test]
fn a_later_session_sends_the_same_key_for_the_same_call() {
    let room = Room::unreachable();
    let mut first = room.server();
    first.call("call-1");
    room.connect_pending();
    first.abandon();
    first.exits_cleanly();
    let room = room.reachable();
    let mut second = room.server();
    second.call("call-1");
    let again = room.request();
    assert_eq!(again.line, "POST /builds");
    assert_eq!(room.rows()[0]["key"], *again.key().unwrap());
    again.accept();
    assert_eq!(second.result()["structuredContent"]["id"], "b-1");
    assert_eq!(
        room.outcomes(),
        ["intended", "failed", "intended", "success"]
    );
}

#[test]
fn two_calls_have_two_keys() {
    let room = Room::new();
    let mut server = room.server();
    let mut keys = Vec::new();
    for call_id in ["call-1", "call-2"] {
        server.call(call_id);
        let request = room.request();
        keys.push(request.key().unwrap().to_owned());
        request.accept();
        server.result();
    }
    assert_ne!(keys[0], keys[1]);
}

/// Leaves a call whose outcome nobody knows, by an orderly exit or by SIGKILL.
fn lose_the_reply(room: &Room, sigkill: bool) -> String {
    let mut server = room.server();
    server.call("call-1");
    let held = room.request();
    if sigkill {
        server.signal(Signal::SIGKILL);
        server.exit();
    } else {
        server.abandon();
        server.exits_cleanly();
    }
    held.key().unwrap().to_owned()
}

#[test]
fn a_later_session_finds_the_build_whose_reply_was_lost() {
    for sigkill in [false, true] {
        let room = Room::new();
        let key = lose_the_reply(&room, sigkill);
        let mut second = room.server();
        second.call("call-1");
        let question = room.request();
        assert_eq!(question.line, format!("GET /builds?request_id={key}"));
        question.reply(
            200,
            &json!({ "builds": [{ "id": "b-1", "state": "running" }] }),
        );
        let result = second.result();
        assert_eq!(result["structuredContent"]["id"], "b-1");
        assert_eq!(result["structuredContent"]["state"], "running");
        second.close_stdin();
        second.exits_cleanly();
        room.nothing_arrived();
        assert_eq!(room.rows().last().unwrap()["remote_id"], "b-1");
    }
}

#[test]
fn a_later_session_repeats_a_call_that_left_no_build() {
    let room = Room::new();
    let key = lose_the_reply(&room, false);
    let mut second = room.server();
    second.call("call-1");
    room.request().reply(200, &json!({ "builds": [] }));
    let again = room.request();
    assert_eq!((&*again.line, again.key()), ("POST /builds", Some(&*key)));
    again.accept();
    assert_eq!(second.result()["structuredContent"]["id"], "b-1");
}

#[test]
fn a_build_that_is_known_is_not_started_again() {
    let room = Room::new();
    let mut first = room.server();
    first.call("call-1");
    room.request().accept();
    first.result();
    let mut second = room.server();
    second.call("call-1");
    let question = room.request();
    assert!(
        question.line.starts_with("GET /builds?"),
        "{}",
        question.line
    );
    question.reply(
        200,
        &json!({ "builds": [{ "id": "b-1", "state": "done" }] }),
    );
    assert_eq!(second.result()["structuredContent"]["id"], "b-1");
    // A revoked session does not get to see it.
    second.call("call-1");
    room.request().reply(401, &json!({}));
    assert_eq!(second.result()["isError"], true);
    second.close_stdin();
    second.exits_cleanly();
    room.nothing_arrived();
    assert_eq!(
        room.outcomes(),
        ["intended", "success", "success", "refused"]
    );
}

#[test]
fn another_build_under_the_same_call_id_is_turned_down() {
    let room = Room::new();
    let mut server = room.server();
    server.call_ref("call-1", "v1");
    room.request().cut();
    server.result();
    server.call_ref("call-1", "v2");
    assert_eq!(server.result()["isError"], true);
    // The first one is still what the call id stands for, and still unknown.
    server.call_ref("call-1", "v1");
    room.request()
        .reply(200, &json!({ "builds": [{ "id": "b-1" }] }));
    assert_eq!(server.result()["structuredContent"]["id"], "b-1");
    server.close_stdin();
    server.exits_cleanly();
    room.nothing_arrived();
}

#[test]
fn reconcile_build_reports_what_the_remote_holds_and_starts_nothing() {
    let room = Room::new();
    lose_the_reply(&room, false);
    let mut server = room.server();
    let reconcile = |server: &mut Server, call_id: &str| {
        let arguments = json!({ "request_id": call_id });
        server.send(
            "tools/call",
            json!({ "name": "reconcile_build", "arguments": arguments }),
        );
    };
    reconcile(&mut server, "call-1");
    room.request().reply(200, &json!({ "builds": [] }));
    assert_eq!(server.result()["structuredContent"]["outcome"], "unknown");
    reconcile(&mut server, "call-1");
    room.request()
        .reply(200, &json!({ "builds": [{ "id": "b-1" }] }));
    assert_eq!(server.result()["structuredContent"]["id"], "b-1");
    reconcile(&mut server, "never made");
    assert_eq!(server.result()["isError"], false);
    server.close_stdin();
    server.exits_cleanly();
    room.nothing_arrived();
}

#[test]
fn whoami_asks_the_remote() {
    let room = Room::new();
    let mut server = room.server();
    server.send("tools/call", json!({ "name": "whoami" }));
    let request = room.request();
    assert_eq!(request.line, "GET /whoami");
    request.reply(200, &json!({ "user": "ci" }));
    assert_eq!(server.result()["content"][0]["text"], r#"{"user":"ci"}"#);
}

#[test]
fn the_helper_ends_with_the_server() {
    let room = Room::new();
    let eof: fn(&mut Server) = Server::abandon;
    let term: fn(&mut Server) = |server| server.signal(Signal::SIGTERM);
    for end in [eof, term] {
        let mut server = room.server();
        let [helper] = server.helpers()[..] else {
            panic!("one helper")
        };
        end(&mut server);
        server.exits_cleanly();
        // Reaped before the exit, so there is nothing to wait for.
        assert!(!is_alive(helper));
    }
}

#[test]
fn the_helper_ends_when_the_server_is_killed() {
    let room = Room::new();
    let mut server = room.server();
    let [helper] = server.helpers()[..] else {
        panic!("one helper")
    };
    server.signal(Signal::SIGKILL);
    server.exit();
    eventually("the helper's end", || !is_alive(helper));
}

#[test]
fn the_token_stays_in_the_server() {
    let room = Room::new();
    let mut server = room.server();
    let [helper] = server.helpers()[..] else {
        panic!("one helper")
    };
    until_executed(helper);
    assert_eq!(environ(helper), "");
    server.call("call-1");
    room.request().reply(401, &json!({}));
    let answer = server.result().to_string();
    let mut stderr = String::new();
    let argv = argv(server.pid());
    server.close_stdin();
    server.exits_cleanly();
    server
        .child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    let log = fs::read_to_string(room.log_path()).unwrap();
    for text in [answer, stderr, argv, log] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}

#[test]
fn a_log_that_cannot_be_written_stops_the_start() {
    let room = Room::new();
    let mut command = room.command(None);
    command.env("ACTIVITY_LOG", "/proc/no/such/folder/log");
    let (status, took) = Server::started(command).exit();
    assert_eq!(status.code(), Some(1));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn refuses_replay_leaves_an_unknown_outcome_to_an_operator() {
    let room = Room::new();
    let key = lose_the_reply(&room, false);
    let mut command = room.command(None);
    command.args(["--manner", "refuses-replay"]);
    let mut server = Server::started(command);
    server.call("call-1");
    let result = server.result();
    assert_eq!(result["isError"], true);
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains(&key)
    );
    // What was never tried is tried.
    server.call("call-2");
    room.request().accept();
    assert_eq!(server.result()["isError"], false);
    server.close_stdin();
    server.exits_cleanly();
    room.nothing_arrived();
}

#[test]
fn a_durable_helper_stays() {
    let room = Room::new();
    let mut command = room.command(None);
    command.args(["--manner", "durable-helper"]);
    let mut server = Server::started(command);
    server.ask("server/discover", json!({}));
    let helpers = server.helpers();
    server.close_stdin();
    server.exits_cleanly();
    let left: Vec<u32> = helpers.into_iter().filter(|h| is_alive(*h)).collect();
    assert_eq!(left.len(), 1);
    end_it(left[0]);
}

#[test]
fn loud_stderr_and_large_frames_are_all_there() {
    let room = Room::new();
    let mut command = room.command(None);
    command.args(["--manner", "loud-stderr"]);
    let mut loud = Server::started(command);
    let mut stderr = loud.child.stderr.take().unwrap();
    let drained = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text.len())
    });
    loud.ask("server/discover", json!({}));
    loud.close_stdin();
    loud.exits_cleanly();
    assert!(drained.join().unwrap().unwrap() > 1024 * 1024);

    let mut command = room.command(None);
    command.args(["--manner", "large-frames"]);
    let mut large = Server::started(command);
    large.call("call-1");
    room.request().accept();
    let result = large.result();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.len() > 300_000 && text.ends_with('\u{2028}'));
}

#[test]
fn a_stderr_that_is_closed_from_the_start_does_no_harm() {
    let room = Room::new();
    let mut command = room.command(Some("token-in-log"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.stderr(writer);
    let mut server = Server::started(command);
    server.ask("server/discover", json!({}));
    server.abandon();
    server.exits_cleanly();
}

#[test]
fn two_servers_side_by_side_do_not_disturb_each_other() {
    let room = Room::new();
    let (mut one, mut two) = (room.server(), room.server());
    one.call("call-1");
    let first = room.request();
    two.call("call-2");
    let second = room.request();
    one.abandon();
    one.exits_cleanly();
    second.accept();
    assert_eq!(two.result()["isError"], false);
    two.close_stdin();
    two.exits_cleanly();
    let of = |call: &str| -> Vec<Value> {
        let rows = room.rows().into_iter().filter(|row| row["call_id"] == call);
        rows.map(|row| row["outcome"].clone()).collect()
    };
    assert_eq!(of("call-1"), ["intended", "unknown"]);
    assert_eq!(of("call-2"), ["intended", "success"]);
    drop(first);
}

//! Bad twins whose fault is in the process: how it ends, what it starts, what it lets out.

use std::{fs, io::Read, os::unix::process::ExitStatusExt, path::PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::room::{
    Room, Server, TOKEN, argv, end_it, environ, eventually, is_alive, pid, processes,
    until_executed,
};

#[test]
fn ignores_eof_settles_everything_and_stays_until_sigterm() {
    let room = Room::unreachable();
    let mut server = room.faulty("ignores-eof");
    server.call("call-1");
    room.connect_pending();
    server.abandon();
    eventually("the outcome", || room.outcomes() == ["intended", "failed"]);
    server.outstays_eof_until_sigterm();
}

#[test]
fn setsid_helper_leaves_a_process_without_environment_or_pipes_that_sigterm_ends() {
    let room = Room::new();
    let mut server = room.faulty("setsid-helper");
    let helpers = two_helpers(&server);
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
    let left = left_of(helpers);
    assert!(in_own_session(&left));
    assert!(environ(left).is_empty());
    let theirs = descriptors(left);
    assert!(session.iter().all(|pipe| !theirs.contains(pipe)));
    end_it(left);
}

/// The pids of the two helpers that a server with a helper fault has: no order is promised.
fn two_helpers(server: &Server) -> Vec<u32> {
    let helpers = server.helpers();
    assert_eq!(helpers.len(), 2);
    helpers
}

/// After an exit at EOF, the one that was left; it ends at SIGTERM.
fn left_of(helpers: Vec<u32>) -> u32 {
    let left: Vec<u32> = helpers.into_iter().filter(|h| is_alive(*h)).collect();
    let [left] = left[..] else {
        panic!("one is left, not {left:?}")
    };
    left
}

/// CPU time in clock ticks (`proc_pid_stat(5)`, fields 14 and 15).
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    fields[11..13]
        .iter()
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn unbounded_drain_waits_for_the_reply_after_eof() {
    let room = Room::new();
    let mut command = room.command(Some("unbounded-drain"));
    command.env("DRAIN_MS", "0");
    let mut server = Server::started(command);
    server.call("call-1");
    let held = room.request();
    server.abandon();
    // A good server with no drain would be done with the call at once, and its helper with it.
    assert_eq!(server.helpers().len(), 1);
    assert_eq!(room.outcomes(), ["intended"]);
    held.accept();
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "success"]);
}

#[test]
fn unbounded_drain_ends_at_sigterm() {
    let room = Room::new();
    let mut server = room.faulty("unbounded-drain");
    server.call("call-1");
    let held = room.request();
    server.abandon();
    server.signal(Signal::SIGTERM);
    server.exits_cleanly();
    assert_eq!(room.outcomes(), ["intended", "unknown"]);
    drop(held);
}

#[test]
fn abort_at_exit_settles_everything_and_dies_of_sigabrt() {
    let room = Room::unreachable();
    let mut server = room.faulty("abort-at-exit");
    let helpers = server.helpers();
    server.call("call-1");
    room.connect_pending();
    server.abandon();
    let (status, _) = server.exit();
    assert_eq!(status.signal(), Some(Signal::SIGABRT as i32));
    assert_eq!(room.outcomes(), ["intended", "failed"]);
    assert!(!is_alive(helpers[0]));
}

#[test]
fn deaf_to_term_ends_by_nothing_but_sigkill() {
    let room = Room::new();
    let mut server = room.faulty("deaf-to-term");
    server.signal(Signal::SIGTERM);
    // It still serves.
    server.ask("tools/list", json!({}));
    server.abandon();
    eventually("the helper's end", || server.helpers().is_empty());
    server.signal(Signal::SIGTERM);
    eventually("the signal's delivery", || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        status.contains("ShdPnd:\t0000000000000000")
    });
    assert!(is_alive(server.pid()));
    server.signal(Signal::SIGKILL);
    assert_eq!(server.exit().0.signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn eof_spin_burns_the_cpu_until_sigterm() {
    let room = Room::new();
    let mut server = room.faulty("eof-spin");
    server.close_stdin();
    // A tenth of a second: far more than start and end take together.
    eventually("CPU time", || ticks(server.pid()) > 10);
    server.outstays_eof_until_sigterm();
}

#[test]
fn keeps_polling_asks_with_its_credential_and_records_the_refusal() {
    let room = Room::new();
    let mut server = room.faulty("keeps-polling");
    server.abandon();
    for status in [200, 200, 401] {
        let poll = room.request();
        assert_eq!(poll.line, "GET /whoami");
        assert_eq!(
            poll.header("authorization"),
            Some(&*format!("bearer {TOKEN}"))
        );
        poll.reply(status, &json!({}));
    }
    eventually("the refusal", || room.outcomes() == ["refused"]);
    assert_eq!(room.rows()[0]["call_id"], Value::Null);
    server.outstays_eof_until_sigterm();
}

#[test]
fn plain_helper_leaves_a_process_of_its_own_group() {
    let room = Room::new();
    let mut server = room.faulty("plain-helper");
    let helpers = two_helpers(&server);
    let group = nix::unistd::getpgid(Some(pid(server.pid())));
    server.abandon();
    server.exits_cleanly();
    let left = left_of(helpers);
    assert_eq!(nix::unistd::getpgid(Some(pid(left))), group);
    end_it(left);
}

#[test]
fn pipe_holding_helper_keeps_the_reader_of_stderr_waiting() {
    let room = Room::new();
    let mut server = room.faulty("pipe-holding-helper");
    let helpers = two_helpers(&server);
    let stderr = fs::read_link(format!("/proc/{}/fd/2", server.pid())).unwrap();
    server.close_stdin();
    server.exits_cleanly();
    let left = left_of(helpers);
    assert!(descriptors(left).contains(&stderr));
    end_it(left);
}

#[test]
fn daemon_helper_is_nobody_s_child_and_has_no_descriptor() {
    let room = Room::new();
    let before: Vec<u32> = processes().iter().map(|process| process.pid).collect();
    let mut server = room.faulty("daemon-helper");
    assert_eq!(server.helpers().len(), 1);
    server.abandon();
    server.exits_cleanly();
    // Nothing links it to its server any more; but it is new, and no other test has one.
    let ours = fs::canonicalize(env!("CARGO_BIN_EXE_drill-fixture")).unwrap();
    let is_daemon = |process: u32| {
        let argv = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let exe = fs::read_link(format!("/proc/{process}/exe"));
        argv.ends_with("\0helper\0orphan\0") && exe.is_ok_and(|exe| exe == ours)
    };
    let mut daemons = Vec::new();
    eventually("a daemon", || {
        let all = processes().into_iter().filter(|process| process.alive);
        daemons = all.map(|process| process.pid).collect();
        daemons.retain(|process| is_daemon(*process) && !before.contains(process));
        !daemons.is_empty()
    });
    assert_eq!(daemons.len(), 1);
    let daemon = daemons[0];
    eventually("no descriptors", || descriptors(daemon).is_empty());
    assert!(environ(daemon).is_empty());
    assert_ne!(
        nix::unistd::getsid(Some(pid(daemon))),
        nix::unistd::getsid(None)
    );
    end_it(daemon);
}

#[test]
fn zombie_helper_is_there_as_long_as_the_server() {
    let room = Room::new();
    let mut server = room.faulty("zombie-helper");
    let zombies = |server: &Server| {
        let all = processes().into_iter();
        all.filter(|p| p.parent == server.pid() && !p.alive).count()
    };
    assert_eq!((zombies(&server), server.helpers().len()), (1, 1));
    server.call("call-1");
    room.request().accept();
    server.result();
    assert_eq!(zombies(&server), 1);
    server.close_stdin();
    server.exits_cleanly();
}

#[test]
fn the_token_gets_out_where_the_fault_says() {
    for fault in ["token-in-argv", "token-in-log", "env-to-helper"] {
        let room = Room::new();
        let mut server = room.faulty(fault);
        let [helper] = server.helpers()[..] else {
            panic!("one helper")
        };
        until_executed(helper);
        if fault == "env-to-helper" {
            eventually("an environment", || !environ(helper).is_empty());
        }
        let seen = [argv(helper), environ(helper)];
        server.close_stdin();
        server.exits_cleanly();
        let mut stderr = String::new();
        let mut pipe = server.child.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        let leaks = seen
            .iter()
            .chain([&stderr])
            .map(|text| text.contains(TOKEN));
        let expected = ["token-in-argv", "env-to-helper", "token-in-log"].map(|name| name == fault);
        assert_eq!(leaks.collect::<Vec<_>>(), expected, "{fault}");
    }
}

#[test]
fn stdout_noise_comes_before_the_first_answer() {
    let room = Room::new();
    let mut server = Server::started(room.command(Some("stdout-noise")));
    assert_eq!(server.line(), "deploy server is starting\n");
    server.ask("server/discover", json!({}));
    server.close_stdin();
    server.exits_cleanly();
}

fn descriptors(process: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    entries
        .flatten()
        .map(|fd| fs::read_link(fd.path()).unwrap())
        .collect()
}

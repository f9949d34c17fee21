//! The log is one chain, whoever writes it and however a writer ends; and whoever changes it is found out.

use std::{fs, process::Command, thread};

use crate::place::{Gateway, Place, gateway, text};

const CALLERS: usize = 3;
const CALLS: usize = 8;

/// Some bytes of a row, and not all.
const PART_OF_A_ROW: u64 = 60;

/// A log with a run, a call and a refusal in it.
fn some_log() -> Place {
    let place = Place::new();
    let gateway = place.serve_run(&[]);
    let call = gateway.call("call-1");
    place.upstream.request().accept();
    call.answer();
    gateway.revoke("run-1");
    gateway.call("call-2").answer();
    assert!(gateway.end().0.success());
    place.is_whole();
    place
}

#[test]
fn two_gateways_on_one_log_keep_the_chain_whole() {
    let place = Place::new();
    let gateways = [
        place.serve_at("one.sock", &[]),
        place.serve_at("two.sock", &[]),
    ];
    gateways[0].open("run-1");
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            for (number, gateway) in gateways.iter().enumerate() {
                scope.spawn(move || {
                    for call in 0..CALLS {
                        let call = gateway.call(&format!("call-{number}-{caller}-{call}"));
                        assert_eq!(call.answer().0, 201);
                    }
                });
            }
        }
        for _ in 0..CALLERS * CALLS * gateways.len() {
            place.upstream.request().accept();
        }
    });
    place.is_whole();
    assert_eq!(
        place.activity().len(),
        2 * CALLERS * CALLS * gateways.len(),
        "an intent and an outcome for each"
    );
}

#[test]
fn two_writers_without_a_lock_are_found_by_verify() {
    let place = Place::new();
    let gateway = place.serve_run(&["--fault", "torn-journal"]);
    let call = gateway.call("call-1");
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
    let (whole, said) = place.verify();
    assert!(!whole, "{said}");
    assert!(said.starts_with("broken: line "), "{said}");
}

#[test]
fn a_byte_that_was_flipped_is_found_wherever_it_is() {
    let place = some_log();
    let good = fs::read(place.log()).unwrap();
    // Each script run takes some milliseconds: one place in each stretch is looked at, and it differs from run to run.
    let step = good.len() / 25;
    for at in (usize::try_from(std::process::id()).unwrap() % step..good.len()).step_by(step) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(place.log(), &bad).unwrap();
        let (whole, said) = place.verify();
        assert!(!whole, "byte {at}: {said}");
        let line = good[..at].split(|byte| *byte == b'\n').count();
        let named = [line, line + 1].map(|line| format!("broken: line {line} "));
        assert!(
            named.iter().any(|named| said.starts_with(named)),
            "byte {at}: {said}"
        );
    }
}

#[test]
fn a_row_that_was_cut_out_is_found_and_a_log_that_was_cut_off_by_its_head() {
    let place = some_log();
    let good = fs::read_to_string(place.log()).unwrap();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    fs::write(place.log(), [&lines[..1], &lines[2..]].concat().concat()).unwrap();
    let (whole, said) = place.verify();
    assert!(!whole);
    assert!(said.contains("line 2 has seq 2 where 1 was due"), "{said}");

    fs::write(place.log(), &good).unwrap();
    let (_, said) = place.verify();
    let (_, head) = said.trim_end().rsplit_once(' ').unwrap();
    let with_head = || {
        let mut command = gateway(&["verify", "--head", head]);
        command.arg(place.log()).output().unwrap().status.success()
    };
    assert!(with_head());
    fs::write(place.log(), lines[..lines.len() - 1].concat()).unwrap();
    assert!(!with_head());
}

#[test]
fn a_gateway_does_not_write_behind_a_row_that_was_changed() {
    let place = some_log();
    let good = fs::read_to_string(place.log()).unwrap();
    fs::write(place.log(), good.replacen("CHG-7", "CHG-8", 1)).unwrap();
    let output = place.command("gateway.sock", &[]).output().unwrap();
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("line 1 was changed"), "{said}");
}

#[test]
fn a_gateway_that_was_killed_in_mid_write_leaves_a_torn_end_that_the_next_one_accounts_for() {
    let place = Place::new();
    assert!(place.serve_run(&[]).end().0.success());
    let length = fs::metadata(place.log()).unwrap().len();
    // The kernel cuts a write that passes this size (setrlimit(2)), as it does on a disk that is full.
    let inner = place.command("gateway.sock", &[]);
    let mut command = Command::new("prlimit");
    command.arg(format!("--fsize={}", length + PART_OF_A_ROW));
    command.arg(inner.get_program()).args(inner.get_args());
    command.env("GATEWAY_KEY", crate::place::KEY);
    let mut gateway = Gateway::started(command, place.path("gateway.sock"));
    let (status, reply) = gateway.call("call-1").answer();
    assert_eq!(status, 503, "{reply}");
    gateway.kill();
    place.upstream.nothing_came();
    let torn = fs::read(place.log()).unwrap();
    assert_eq!(torn.len() as u64, length + PART_OF_A_ROW);
    let (whole, said) = place.verify();
    assert!(!whole);
    assert_eq!(said, "broken: line 2 is torn: it has no end\n");

    let gateway = place.serve(&[]);
    let call = gateway.call("call-1");
    place.upstream.request().accept();
    assert_eq!(call.answer().0, 201);
    let now = fs::read(place.log()).unwrap();
    assert!(now.starts_with(&torn), "what was there stays");
    let (whole, said) = place.verify();
    assert!(whole, "{said}");
    assert!(said.contains("note: line 2 is torn"), "{said}");
    let seal = &place.rows()[1];
    assert_eq!(seal["kind"], "torn");
    assert_eq!(seal["torn_bytes"], PART_OF_A_ROW);
}

#[test]
fn a_row_that_lacked_only_its_newline_counts() {
    let place = some_log();
    let mut log = fs::read(place.log()).unwrap();
    log.pop();
    fs::write(place.log(), &log).unwrap();
    assert!(!place.verify().0);
    let gateway = place.serve(&[]);
    place.is_whole();
    assert_eq!(place.outcomes(), ["intended", "success", "refused"]);
    assert_eq!(gateway.call("call-3").answer().0, 403);
    place.is_whole();
}

#[test]
fn the_two_journals_are_views_of_the_one_log() {
    let place = some_log();
    let look = |view: &str, flags: &[&str]| {
        let mut command = gateway(&[view]);
        let output = command.arg(place.log()).args(flags).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    let sessions = look("sessions", &["--json"]);
    let events: Vec<serde_json::Value> = sessions
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let words: Vec<_> = events.iter().map(|row| &row["event"]).collect();
    assert_eq!(words, ["authorised", "attached", "revoked"]);
    assert_eq!(events[0]["by"], "ops");
    assert_eq!(look("activity", &["--json"]).lines().count(), 3);
    let table = look("activity", &[]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4);
    let column = lines[0].find("outcome").unwrap();
    assert!(lines[2][column..].starts_with("success"), "{table}");
    assert!(lines[3][column..].starts_with("refused"), "{table}");
}

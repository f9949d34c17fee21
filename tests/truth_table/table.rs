//! The table itself.

#[expect(clippy::enum_glob_use, reason = "a table is full of them")]
use cargo_drill::spec::Question::*;

use super::Room;
#[expect(clippy::enum_glob_use, reason = "a table is full of them")]
use super::row::Point::*;
use super::row::{
    BESIDE, DISPATCHED_AND_ALIVE, Expected, FROM_DISPATCH_ON, Row, UNDISPATCHED, WAITING,
    WITH_EFFECT, WITHIN, breaks,
};

pub fn table(room: Room) -> Vec<Row> {
    main_rows()
        .into_iter()
        .chain(good_rows(room))
        .chain(rows_of_the_end(room))
        .chain(rows_of_the_call())
        .chain(rows_of_the_record(room))
        .chain(rows_of_the_credential())
        .chain(rows_of_oauth())
        .chain(rows_of_the_wire())
        .chain(rows_beside())
        .collect()
}

/// The good server and its main bad twins.
fn main_rows() -> Vec<Row> {
    vec![
        Row::good("good"),
        Row::fault("ignores-eof")
            .outlives_eof()
            .wherever_it_lives(&breaks(Eof)),
        Row::fault("setsid-helper").everywhere(&breaks(Helpers)),
        Row::fault("no-key")
            .waits_for_its_reply()
            .at(
                &[Sent, Held, ServerKilled, TornReply],
                &breaks(Reconcile).so(Handle, "the key in the record was never sent"),
            )
            .at(&[Given, AfterReply], &breaks(Reconcile))
            .at(
                &[AfterResult],
                &Expected::Unseen("a client that has its result does not retry"),
            )
            .elsewhere_unseen("without an effect of session A, session B makes the first"),
    ]
}

/// Unusual, and right: all of these must hold everywhere.
fn good_rows(room: Room) -> Vec<Row> {
    const REVISIONS: [&str; 5] = [
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
        "2026-07-28",
    ];
    let durable = r#"{ allow: [{ command: "helper setsid$", because: "it is meant to stay" }] }"#;
    let mut rows = vec![
        Row::manner("refuses-replay").drilled("retry: true", "operator: true"),
        Row::manner("durable-helper").drilled("helpers: none", format!("helpers: {durable}")),
        Row::manner("loud-stderr"),
        Row::manner("large-frames"),
        Row::manner("broken-pipe"),
        Row::good("slow-but-in-time")
            .env(r#"DRAIN_MS: "1500""#)
            .drilled(WITHIN, "eof: { within: 4s }"),
        Row::good("socketpair").server("stdin: socketpair"),
        // What others read of a process, a user that is not root cannot read of this one.
        match room {
            Room::OrdinaryUser => Row::new("not-dumpable")
                .started_with("--manner", "not-dumpable")
                .everywhere(&Expected::LeavesOpen(
                    &[Secrets],
                    "its environment cannot be read, so nobody can say what is in it",
                )),
            Room::Namespaces | Room::Subreaper => Row::manner("not-dumpable"),
        },
        Row::good("stderr-closed-from-the-start").through("exec \"$@\" 2>&-"),
        Row::new("behind-sh")
            .through("\"$@\"; exit $?")
            .at(&[ServerKilled], &breaks(Helpers))
            .elsewhere_held(),
        Row::good("adopted-by-process-1-from-the-start").through("exec 3<&0; \"$@\" <&3 3<&- &"),
    ];
    rows.extend(REVISIONS.map(|revision| {
        Row::good(format!("protocol-{revision}")).server(format!("protocol: {revision}"))
    }));
    rows
}

/// EOF, signals, the CPU, and what is left behind.
fn rows_of_the_end(room: Room) -> Vec<Row> {
    let watchdog = Row::fault("ppid-watchdog").outlives_eof();
    vec![
        match room {
            Room::Namespaces | Room::OrdinaryUser => watchdog.everywhere(&Expected::Unseen(
                "process 1 adopts it when the client dies: the one layout in which its watchdog works",
            )),
            Room::Subreaper => watchdog.wherever_it_lives(&breaks(Eof)),
        },
        Row::new("ppid-watchdog-behind-sh")
            .through("\"$@\" --fault ppid-watchdog; exit $?")
            .outlives_eof()
            .at(&[ServerKilled], &breaks(Helpers))
            .elsewhere(&breaks(Eof).so(Helpers, "the server behind the wrapper stays as well")),
        Row::fault("socketpair-misread")
            .everywhere(&Expected::Unseen("its stdin is a pipe")),
        Row::new("socketpair-misread-on-a-socketpair")
            .started_with("--fault", "socketpair-misread")
            .server("stdin: socketpair")
            .at(
                &[Startup],
                &Expected::NoCrash(None, "no session shows that it starts at all"),
            )
            .elsewhere(&Expected::NoCrash(Some(Protocol), "it never opens a session")),
        Row::new("pipe-held-by-a-careless-client")
            .client("leak_stdin_to: [sleep, \"600\"]")
            .at(
                &[CallUnread, CallWritten, BeforeDispatch],
                &Expected::LeavesOpen(&[Eof, Helpers, Quiet], "no EOF came: what it sent late was in time"),
            )
            .at(
                &[ServerKilled],
                &Expected::Unseen("the server is killed, and nobody waits for EOF"),
            )
            .elsewhere(&Expected::LeavesOpen(
                &[Eof, Helpers],
                "no EOF came, so its helper is in use",
            )),
        Row::fault("helper-after-kill")
            .at(&[ServerKilled], &breaks(Helpers))
            .elsewhere_unseen("nobody kills the server before it ends in order"),
        Row::fault("unbounded-drain")
            .outlives_eof()
            .at(WAITING, &breaks(Eof))
            .elsewhere_unseen("no call waits for a reply that does not come"),
        Row::fault("abort-at-exit").wherever_it_lives(&breaks(Eof)),
        Row::fault("deaf-to-term")
            .outlives_eof()
            .wherever_it_lives(&breaks(Quiet).so(Eof, "only who has outlived EOF is sent SIGTERM")),
        Row::fault("eof-spin")
            .drilled(WITHIN, "eof: { within: 300ms }")
            // It takes a processor from all the others for as long as it is watched.
            .drilled("quiet: { for: 500ms }", "quiet: { for: 200ms }")
            .drilled("    within: 1s", "    within: 500ms")
            .wherever_it_lives(&breaks(Quiet).so(Eof, "who spins on EOF has not exited")),
        Row::fault("keeps-polling")
            .outlives_eof()
            .wherever_it_lives(&breaks(Quiet).so(Eof, "who polls on has not exited")),
        late_dispatch("late-dispatch"),
        // Nobody is asked for an approval here: it is as late.
        late_dispatch("approval-outlives-session"),
        Row::fault("plain-helper").everywhere(&breaks(Helpers)),
        Row::fault("daemon-helper").everywhere(&breaks(Helpers)),
        Row::fault("pipe-holding-helper").everywhere(&breaks(Helpers)),
        Row::fault("zombie-helper")
            .at(&[Startup], &Expected::Unseen("it starts its helper in a session"))
            .at(&[CallUnread], &Expected::Unseen("who is stopped cannot wait for a child"))
            .elsewhere(&breaks(Resources)),
        Row::fault("stale-lock")
            // Session B makes no call then, which the lock would turn away.
            .at(&[AfterResult], &breaks(Revocation))
            .elsewhere(&breaks(Reconcile).so(
                Revocation,
                "the revoked session is turned away by the lock, and notes no refusal",
            )),
    ]
}

/// How often a call takes effect.
fn rows_of_the_call() -> Vec<Row> {
    let first_is_right = "without an effect of session A, session B makes the first";
    let mut rows = vec![
        Row::fault("self-retry")
            .waits_for_its_reply()
            .at(
                WAITING,
                &breaks(Effects)
                    .so(Quiet, "the second request comes after the client's death")
                    .so(Reconcile, "there are two before session B begins")
                    .so(Handle, "the second has no key"),
            )
            .elsewhere_unseen("no reply is lost"),
    ];
    rows.push(Row::fault("retries-errors").everywhere(&Expected::Unseen(
        "the remote answers with no error but a refusal",
    )));
    rows.push(Row::fault("key-not-bound").everywhere(&Expected::Unseen(
        "a drill makes one call, with the same arguments whenever it makes it",
    )));
    for fault in ["fresh-key-per-attempt", "key-from-rpc-id", "key-in-memory"] {
        let row = Row::fault(fault)
            .drilled("retry: true", "retry: always")
            .at(WITH_EFFECT, &breaks(Reconcile))
            .elsewhere_unseen(first_is_right);
        rows.push(row);
    }
    rows
}

fn late_dispatch(fault: &str) -> Row {
    Row::fault(fault)
        // Its late call waits for a reply, and is waited for, at the points at which it was never held.
        .drilled(WITHIN, "eof: { within: 1500ms }")
        .at(
            &[BeforeDispatch],
            &breaks(Quiet)
                .so(Eof, "it waits for the connection, which is pending")
                .so(Effects, "what is dispatched late is applied"),
        )
        .elsewhere_unseen("no dispatch is pending when the client dies")
}

/// What is written down.
fn rows_of_the_record(room: Room) -> Vec<Row> {
    let refusal = "a refusal is an outcome too";
    let logs_after_send = Row::fault("logs-after-send");
    let killed_unrecorded = breaks(Ownership).so(
        Handle,
        "no row of the call is on disk when the server is killed, so nothing is found by it",
    );
    vec![
        match room {
            Room::Namespaces | Room::OrdinaryUser => logs_after_send
                .at(&[ServerKilled], &killed_unrecorded)
                .at(DISPATCHED_AND_ALIVE, &breaks(Ownership))
                .elsewhere_unseen("nothing is dispatched"),
            Room::Subreaper => logs_after_send
                .at(&[ServerKilled], &killed_unrecorded)
                .at(
                    &[BeforeDispatch, Sent, Held, Given, TornReply],
                    &breaks(Ownership),
                )
                .elsewhere_unseen(
                    "a dispatch cannot be held in this cell, and after the result the row is there",
                ),
        },
        Row::fault("shared-log-torn").everywhere(&Expected::Unseen(
            "no other session writes in the moment between two halves of a row",
        )),
        Row::fault("shared-owner").everywhere(&Expected::Unseen("no other session is open")),
        Row::fault("unknown-as-failed")
            .waits_for_its_reply()
            .at(WAITING, &breaks(Ownership))
            .elsewhere_unseen("no outcome is unknown"),
        Row::fault("logs-success-only")
            .waits_for_its_reply()
            .at(
                &[BeforeDispatch, Sent, Held, TornReply],
                &breaks(Ownership).so(Revocation, refusal),
            )
            .at(UNDISPATCHED, &breaks(Revocation))
            .at(
                &[Given, ServerKilled, AfterReply, AfterResult],
                &breaks(Revocation),
            ),
        Row::fault("buffered-log")
            .at(&[ServerKilled], &killed_unrecorded)
            .at(DISPATCHED_AND_ALIVE, &breaks(Ownership))
            .elsewhere_unseen("nothing is dispatched"),
        Row::fault("wrong-owner")
            .at(FROM_DISPATCH_ON, &breaks(Ownership))
            .elsewhere_unseen("nothing is dispatched"),
        Row::fault("declared-owner")
            .at(FROM_DISPATCH_ON, &breaks(Ownership))
            .elsewhere_unseen("nothing is dispatched"),
    ]
}

fn rows_of_the_credential() -> Vec<Row> {
    vec![
        Row::fault("denied-as-success").everywhere(&breaks(Revocation)),
        Row::fault("cached-credential").everywhere(&breaks(Revocation)),
        Row::fault("forgets-refusals").everywhere(&breaks(Revocation)),
        Row::fault("second-credential").everywhere(&breaks(Revocation)),
        Row::fault("token-keeping-helper").everywhere(
            &breaks(Helpers)
                .so(Quiet, "the helper goes on asking")
                .so(Revocation, "nobody records what the helper is refused"),
        ),
        Row::fault("token-in-argv").everywhere(&breaks(Secrets)),
        Row::fault("token-in-log").everywhere(&breaks(Secrets)),
        Row::fault("env-to-helper").everywhere(&breaks(Secrets)),
    ]
}

/// Tokens of an authorisation server.
fn rows_of_oauth() -> Vec<Row> {
    vec![
        Row::good("oauth-opaque").oauth("tokens: opaque"),
        Row::good("oauth-jwt").oauth("tokens: jwt"),
        Row::new("oauth-remote-checks-signature")
            .oauth("tokens: jwt, resource: checks-signature")
            .everywhere(&breaks(Revocation)),
        Row::new("oauth-refresh-survives")
            .oauth("tokens: opaque, refresh_outlives_run: true")
            .everywhere(&breaks(Revocation)),
        Row::new("oauth-server-checks-signature")
            .started_with("--fault", "signature-only")
            .oauth("tokens: jwt")
            .everywhere(&breaks(Revocation)),
        Row::fault("signature-only").everywhere(&Expected::Unseen(
            "its token is no JWT, so there is nothing to check",
        )),
    ]
}

fn rows_of_the_wire() -> Vec<Row> {
    vec![Row::fault("stdout-noise").everywhere(&breaks(Protocol))]
}

/// Two sessions of one command side by side: what befalls the one that is not crashed.
fn rows_beside() -> Vec<Row> {
    vec![
        Row::good("beside").client(BESIDE),
        Row::fault("kills-sibling").everywhere(&Expected::Unseen("no other session is open")),
        Row::new("kills-sibling-beside")
            .started_with("--fault", "kills-sibling")
            .client(BESIDE)
            .everywhere(&breaks(Resources)),
        Row::new("shared-owner-beside")
            .started_with("--fault", "shared-owner")
            .client(BESIDE)
            .at(FROM_DISPATCH_ON, &breaks(Ownership))
            .elsewhere_unseen("who owns a call is not asked where session A made none"),
        Row::new("stale-lock-beside")
            .started_with("--fault", "stale-lock")
            .client(BESIDE)
            .at(
                FROM_DISPATCH_ON,
                &Expected::NoCrash(
                    None,
                    "the other session has the lock, and the call is turned away",
                ),
            )
            .at(
                UNDISPATCHED,
                &breaks(Reconcile).so(
                    Revocation,
                    "the lock turns away the revoked session as well",
                ),
            ),
    ]
}

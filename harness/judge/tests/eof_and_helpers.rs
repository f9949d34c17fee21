//! `eof` and `helpers`.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn is_server_exit(event: &Event) -> bool {
    matches!(event, Event::ProcessExited { pid: SERVER, .. })
}

fn is_eof(event: &Event) -> bool {
    matches!(event, Event::EofInPipe { .. })
}

fn exits_by(exit: Exit) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::ProcessExited {
            pid: SERVER,
            exit: old,
            ..
        } => {
            *old = exit;
            true
        }
        _ => false,
    }
}

fn held(by_server: &[Pid], by_client: &[Pid]) -> Event {
    Event::StdinHeld {
        session: Session::A,
        by_server: by_server.to_vec(),
        by_client: by_client.to_vec(),
    }
}

// ---- eof ---------------------------------------------------------------------------------------------------------

#[test]
fn a_server_that_exits_in_time_holds() {
    let answer = point().holds(Question::Eof);
    assert_eq!(
        answer.because,
        "the server `deploy` (pid 3) exited with status 0, 2 ms after EOF (at most 2 s)"
    );
    assert_eq!(
        answer.stable,
        "the server `deploy` (pid <pid>) exited with status 0, <time> after EOF (at most 2 s)"
    );
}

#[test]
fn a_server_that_exits_before_we_see_its_eof_says_the_same_in_the_snapshot() {
    let seen = point().holds(Question::Eof);
    let faster = point().without(is_eof).holds(Question::Eof);
    assert!(faster.because.contains("as soon as the client was gone"));
    assert_eq!(faster.stable, seen.stable);
}

#[test]
fn a_slow_server_that_exits_at_the_deadline_holds() {
    point().wait(is_server_exit, 1990 * MS).holds(Question::Eof);
}

#[test]
fn any_code_is_a_truthful_exit_by_default() {
    point().change(exits_by(Exit::Code(1))).holds(Question::Eof);
}

#[test]
fn a_code_that_the_drill_does_not_list_breaks() {
    let only_zero = json!({ "expect": { "eof": { "within": "2s", "status": [0, 3] } } });
    point()
        .drilled_with(only_zero.clone())
        .change(exits_by(Exit::Code(1)))
        .finds_only(
            Code::EofStatus,
            "exited with status 1, 2 ms after EOF, where only 0 or 3 is right",
        );
    point()
        .drilled_with(only_zero)
        .change(exits_by(Exit::Code(3)))
        .holds(Question::Eof);
}

#[test]
fn an_exit_by_a_signal_of_its_own_breaks() {
    point()
        .change(exits_by(Exit::Signal {
            number: 6,
            core: true,
        }))
        .finds_only(Code::EofSignal, "was ended by SIGABRT and dumped core");
}

#[test]
fn a_server_that_exits_before_eof_was_noted_exited_in_no_time() {
    point()
        .without(is_server_exit)
        .before(is_eof, [exited(SERVER, 1)])
        .holds(Question::Eof);
}

#[test]
fn a_server_that_ignores_eof_breaks_and_the_reader_learns_what_ended_it() {
    let answer = point().never_exiting().finds(
        Code::EofStillRunning,
        "SIGTERM did not end it, SIGKILL did (SIGKILL)",
    );
    assert!(
        answer.because.contains("still running 2 s after EOF"),
        "{}",
        answer.because
    );
}

#[test]
fn a_server_that_needs_sigterm_breaks_and_says_so() {
    let tale = point()
        .never_exiting()
        .without(|e| {
            matches!(
                e,
                Event::SignalSent {
                    signal: crate::spec::Signal::Kill,
                    ..
                }
            )
        })
        .change(exits_by(Exit::Signal {
            number: 15,
            core: false,
        }));
    tale.finds(
        Code::EofStillRunning,
        "it ended with SIGTERM, 0 ms after SIGTERM",
    );
    tale.holds(Question::Quiet);
}

#[test]
fn a_server_that_waits_for_the_remote_breaks_and_the_reader_learns_that() {
    point()
        .without(is_server_exit)
        .wait(|e| matches!(e, Event::ObservationEnded { .. }), 2000 * MS)
        .after(|e| matches!(e, Event::RemoteReleased), [exited(SERVER, 1)])
        .finds_only(Code::EofStillRunning, "after the remote's reply was let go");
}

#[test]
fn a_server_that_exits_late_by_itself_breaks() {
    point().wait(is_server_exit, 2500 * MS).finds_only(
        Code::EofStillRunning,
        "it ended with status 0, 2.5 s after EOF",
    );
}

#[test]
fn a_server_that_was_not_watched_to_the_deadline_is_open() {
    point()
        .without(is_server_exit)
        .after(phase(Phase::Stop), [term(SERVER), exited(SERVER, 0)])
        .finds(Code::EofNotWatched, "was not watched until 2 s after EOF");
}

#[test]
fn a_process_of_the_server_that_holds_stdin_breaks_and_is_named() {
    point()
        .without(is_eof)
        .alive_from(Moment::Point, &process(HELPER))
        .before(phase(Phase::Observe), [held(&[HELPER], &[])])
        .finds(
            Code::EofStdinHeld,
            "`sleep 600` (pid 7), started by the server, still held the write end",
        );
}

#[test]
fn a_careless_client_leaves_eof_open_and_its_sibling_is_named() {
    let sibling = Event::SiblingStarted {
        session: Session::A,
        pid: HELPER,
        argv: vec!["sleep".to_owned(), "600".to_owned()],
    };
    let mut seen = process(HELPER);
    seen.ppid = CLIENT;
    let tale = point()
        .without(is_eof)
        .after(|e| matches!(e, Event::ClientStarted { .. }), [sibling])
        .alive_from(Moment::Point, &seen)
        .before(phase(Phase::Observe), [held(&[], &[HELPER])]);
    tale.finds(
        Code::EofClientHoldsStdin,
        "`sleep 600` (pid 7), started by the client",
    );
    tale.holds(Question::Helpers);
    // The sibling ends when we end it, and EOF comes through then: too late to count.
    tale.after(
        phase(Phase::Stop),
        [
            term(HELPER),
            Event::EofInPipe {
                session: Session::A,
            },
        ],
    )
    .finds(Code::EofClientHoldsStdin, "started by the client");
}

#[test]
fn eof_that_came_after_a_holder_had_gone_counts_from_there() {
    point()
        .before(is_eof, [held(&[HELPER], &[])])
        .holds(Question::Eof);
}

#[test]
fn eof_that_nobody_saw_is_open() {
    let tale = point().without(is_eof).never_exiting();
    tale.finds(Code::EofNotSeen, "nothing shows that EOF arrived");
}

#[test]
fn crashes_that_send_no_eof_do_not_ask_for_it() {
    for form in [
        json!({ "at": "idle", "signal": "STOP" }),
        json!({ "at": "idle", "close": ["stdout"] }),
        json!({ "at": "idle", "kill": "server" }),
        json!({ "at": "idle", "kill": "both" }),
    ] {
        assert!(Tale::good_with(crash(form)).asked(Question::Eof).is_none());
    }
}

#[test]
fn signals_that_belong_to_the_point_do_not_end_the_observation() {
    let stop = Event::SignalSent {
        pid: SERVER,
        signal: crate::spec::Signal::Stop,
        comm: String::new(),
    };
    let go_on = Event::ServerContinued { pids: vec![SERVER] };
    Tale::good(CrashPoint::CallUnread)
        .after(|e| matches!(e, Event::Armed { .. }), [stop])
        .after(is_eof, [go_on])
        .holds(Question::Eof);
}

// ---- helpers -----------------------------------------------------------------------------------------------------

#[test]
fn no_process_left_holds() {
    let answer = point().holds(Question::Helpers);
    assert_eq!(
        answer.because,
        "no process that the server started was alive at the end"
    );
}

#[test]
fn a_plain_helper_breaks_as_an_os_orphan() {
    let mut helper = process(HELPER);
    helper.ppid = 1;
    let answer = point().alive_from(Moment::Point, &helper).finds_only(
        Code::HelpersAlive,
        "1 process that the server started was still alive at the end",
    );
    assert_eq!(
        answer.because,
        "1 process that the server started was still alive at the end: `sleep 600` (pid 7), an OS orphan with parent 1"
    );
    assert_eq!(
        answer.stable,
        "1 process that the server started was still alive at the end: `sleep` (pid <pid>), an OS orphan with parent <pid>"
    );
}

#[test]
fn a_helper_in_a_session_of_its_own_is_told_apart() {
    let mut helper = process(HELPER);
    helper.sid = HELPER;
    point()
        .alive_from(Moment::Point, &helper)
        .finds(Code::HelpersAlive, "in a session of its own");
    helper.sid = 1;
    helper.pgid = HELPER;
    point()
        .alive_from(Moment::Point, &helper)
        .finds(Code::HelpersAlive, "in a process group of its own");
}

#[test]
fn a_helper_whose_server_is_still_there_is_a_logical_orphan() {
    point()
        .never_exiting()
        .alive_from(Moment::Point, &process(HELPER))
        .finds(
            Code::HelpersAlive,
            "a logical orphan of parent `deploy` (pid 3)",
        );
}

#[test]
fn the_real_server_behind_a_wrapper_is_recognised() {
    let mut real = process(HELPER);
    real.holds = vec![PipeEnd::StdinRead, PipeEnd::StdoutWrite];
    real.written = Some(10_000);
    point()
        .alive_from(Moment::Point, &real)
        .finds(Code::HelpersAlive, "the real server behind a wrapper");
}

#[test]
fn a_helper_that_has_only_inherited_the_pipes_is_not_taken_for_the_server() {
    let mut worker = process(HELPER);
    worker.holds = vec![PipeEnd::StdinRead, PipeEnd::StdoutWrite];
    point()
        .alive_from(Moment::Point, &worker)
        .finds(Code::HelpersAlive, "which keeps the server's output open");
}

/// A worker that waits for the remote when the time to end is over, and ends when the remote lets it go.
fn worker_at_the_deadline(others: &[Pid]) -> Tale {
    let worker = process(HELPER);
    let processes = others.iter().map(|pid| process(*pid));
    let look = Event::Looked {
        moment: Moment::Deadline,
        session: Session::A,
        processes: processes.chain([worker]).collect(),
        sockets: Vec::new(),
    };
    let is_end = |e: &Event| matches!(e, Event::ObservationEnded { .. });
    point().wait(is_end, 2000 * MS).before(is_end, [look])
}

#[test]
fn a_helper_that_outlives_the_server_to_the_deadline_breaks_although_it_ends_later() {
    worker_at_the_deadline(&[]).finds_only(
        Code::HelpersOutlived,
        "1 process that the server started was still alive when the time to end at EOF was over, and the server was \
         not: `sleep 600` (pid 7)",
    );
    let allowed = json!({
        "expect": { "helpers": { "allow": [{ "command": "^sleep", "because": "durable" }] } },
    });
    worker_at_the_deadline(&[])
        .drilled_with(allowed)
        .holds(Question::Helpers);
}

#[test]
fn a_helper_of_a_server_that_is_still_there_at_the_deadline_is_not_left() {
    worker_at_the_deadline(&[SERVER]).holds(Question::Helpers);
}

// ---- a launcher that has gone ------------------------------------------------------------------------------------

/// The command started the server and went; the server has the cell's init as its parent.
fn launched() -> Tale {
    let mut heir = process(HELPER);
    heir.ppid = 1;
    heir.holds = process(SERVER).holds;
    heir.written = process(SERVER).written;
    heir.secrets_in_environ = process(SERVER).secrets_in_environ;
    point()
        .change(move |event| match event {
            Event::ProcessExited { pid, .. } if *pid == SERVER => {
                *pid = HELPER;
                true
            }
            Event::Looked { processes, .. } => {
                let server = processes.iter_mut().find(|process| process.pid == SERVER);
                server.is_some_and(|server| {
                    *server = heir.clone();
                    true
                })
            }
            _ => false,
        })
        .after(
            |e| {
                matches!(
                    e,
                    Event::ServerStarted {
                        session: Session::A,
                        ..
                    }
                )
            },
            [exited(SERVER, 0)],
        )
}

#[test]
fn the_server_that_a_launcher_has_left_is_the_one_that_is_asked() {
    launched().holds_saying(
        Question::Eof,
        "the server `sleep 600` (pid 7), which its launcher had left, exited with status 0, 2 ms after EOF",
    );
    let judgement = launched().judged();
    for answer in &judgement.answers {
        assert_eq!(answer.verdict, Verdict::Held, "{}", answer.because);
    }
    launched()
        .without(|e| matches!(e, Event::ProcessExited { pid: HELPER, .. }))
        .wait(|e| matches!(e, Event::ObservationEnded { .. }), 2000 * MS)
        .finds(Code::EofStillRunning, "was still running 2 s after EOF");
}

#[test]
fn a_server_that_fails_before_the_crash_has_left_no_heir() {
    launched()
        .change(|event| match event {
            Event::ProcessExited {
                pid: SERVER, exit, ..
            } => {
                *exit = Exit::Code(1);
                true
            }
            _ => false,
        })
        .finds_at(
            Question::Eof,
            Code::TrialEndedEarly,
            "had already ended, with status 1, before the crash",
        );
}

#[test]
fn a_helper_that_the_drill_declares_may_stay() {
    let tale = |pattern: &str| {
        point().alive_from(Moment::Point, &process(HELPER)).drilled_with(json!({
            "expect": { "eof": null, "helpers": { "allow": [{ "command": pattern, "because": "durable" }] } },
        }))
    };
    tale("^sleep [0-9]+$").holds(Question::Helpers);
    tale("^deploy").finds(Code::HelpersAlive, "`sleep 600`");
    tale("(").finds(Code::HelpersAlive, "`sleep 600`");
}

#[test]
fn a_zombie_is_dead() {
    let mut zombie = process(HELPER);
    zombie.state = 'Z';
    zombie.argv = Vec::new();
    point()
        .alive_from(Moment::Point, &zombie)
        .holds(Question::Helpers);
}

#[test]
fn the_server_itself_is_no_helper() {
    point().never_exiting().holds(Question::Helpers);
}

#[test]
fn what_a_sibling_of_the_client_starts_is_not_the_servers() {
    let sibling = Event::SiblingStarted {
        session: Session::A,
        pid: 5,
        argv: vec!["sh".to_owned()],
    };
    let mut parent = process(5);
    parent.ppid = 1;
    let mut child = process(HELPER);
    child.ppid = 5;
    point()
        .after(|e| matches!(e, Event::ClientStarted { .. }), [sibling])
        .alive_from(Moment::Point, &parent)
        .alive_from(Moment::Point, &child)
        .holds(Question::Helpers);
}

#[test]
fn without_a_look_at_the_end_helpers_are_open() {
    point().without(looked(Moment::End)).finds_at(
        Question::Helpers,
        Code::TrialNoEvidence,
        "nobody looked",
    );
}

#[test]
fn a_session_that_goes_on_needs_its_helpers() {
    let tale = Tale::good_with(crash(json!({ "at": "idle", "signal": "STOP" })));
    assert!(tale.asked(Question::Helpers).is_none());
}

//! `secrets` and `resources`.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question, SyscallName};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

// ---- secrets -----------------------------------------------------------------------------------------------------

fn with_token(mut process: Process) -> Process {
    process.secrets_in_environ = vec!["token of run A".to_owned()];
    process
}

#[test]
fn a_credential_in_the_servers_environment_alone_holds() {
    point().never_exiting().holds(Question::Secrets);
}

#[test]
fn a_credential_in_arguments_breaks_and_is_named() {
    let mut helper = process(HELPER);
    helper.secrets_in_argv = vec!["token of run A".to_owned()];
    point().alive_from(Moment::Point, &helper).finds(
        Code::SecretsArgv,
        "token of run A stood in the arguments of `sleep 600` (pid 7)",
    );
}

#[test]
fn a_credential_in_a_helpers_environment_breaks_once() {
    let answer = point()
        .alive_from(Moment::Point, &with_token(process(HELPER)))
        .finds(
            Code::SecretsEnvironment,
            "token of run A stood in the environment of `sleep 600` (pid 7)",
        );
    assert_eq!(answer.evidence.len(), 1);
}

#[test]
fn a_child_between_fork_and_exec_is_no_helper_with_the_credential() {
    let mut child = with_token(process(HELPER));
    child.argv = process(SERVER).argv;
    let born = point().change(at_point(&child));
    born.holds(Question::Secrets);
    // A worker that never executes anything is one.
    born.clone()
        .alive_from(Moment::ClientGone, &child)
        .finds(Code::SecretsEnvironment, "(pid 7)");
    let mut helper = child.clone();
    helper.argv = process(HELPER).argv;
    helper.secrets_in_environ.clear();
    born.alive_from(Moment::ClientGone, &helper)
        .holds(Question::Secrets);
}

#[test]
fn a_fork_of_the_server_that_serves_its_session_may_hold_what_the_server_holds() {
    let mut worker = with_token(process(HELPER));
    worker.argv = process(SERVER).argv;
    worker.holds = vec![PipeEnd::StdinRead, PipeEnd::StdoutWrite];
    let tale = point().alive_from(Moment::Point, &worker);
    tale.holds(Question::Secrets);
    // Left behind it is a helper, and still the same program.
    tale.finds_only(Code::HelpersAlive, "(pid 7)");
}

#[test]
fn a_helper_that_inherited_the_pipes_is_not_the_server() {
    let mut helper = with_token(process(HELPER));
    helper.holds = vec![
        PipeEnd::StdinRead,
        PipeEnd::StdoutWrite,
        PipeEnd::StderrWrite,
    ];
    point()
        .alive_from(Moment::Point, &helper)
        .finds(Code::SecretsEnvironment, "`sleep 600` (pid 7)");
}

#[test]
fn a_look_before_the_first_byte_only_counts_where_there_is_no_better_one() {
    let mut helper = with_token(process(HELPER));
    helper.holds = vec![PipeEnd::StdinRead, PipeEnd::StdoutWrite];
    let early = Event::Looked {
        moment: Moment::Dispatch,
        session: Session::A,
        processes: vec![process(CLIENT), process(SERVER), helper.clone()],
        sockets: Vec::new(),
    };
    point()
        .after(|e| matches!(e, Event::ServerStarted { .. }), [early])
        .finds(Code::SecretsEnvironment, "(pid 7)");
    // At `startup` nothing tells it from a server behind a wrapper.
    Tale::good(CrashPoint::Startup)
        .change(at_point(&helper))
        .holds(Question::Secrets);
}

#[test]
fn a_real_server_behind_wrappers_may_hold_the_credential() {
    let shell = with_token(process(6));
    let mut real = with_token(process(HELPER));
    real.ppid = 6;
    real.written = Some(200);
    real.holds = vec![PipeEnd::StdinRead, PipeEnd::StdoutWrite];
    let wrapper_wrote_nothing = |event: &mut Event| match event {
        Event::Looked {
            session: Session::A,
            processes,
            ..
        } => {
            for process in processes.iter_mut().filter(|p| p.pid == SERVER) {
                process.written = Some(0);
            }
            true
        }
        _ => false,
    };
    let tale = point().change(wrapper_wrote_nothing);
    tale.clone()
        .alive_from(Moment::Point, &shell)
        .alive_from(Moment::Point, &real)
        .holds(Question::Secrets);
    // And it stays the real one when its wrapper has gone.
    let mut orphan = real.clone();
    orphan.ppid = 1;
    tale.clone()
        .change(|event| match event {
            Event::Looked {
                moment: Moment::Point,
                processes,
                ..
            } => {
                processes.extend([shell.clone(), real.clone()]);
                true
            }
            _ => false,
        })
        .alive_from(Moment::ClientGone, &orphan)
        .holds(Question::Secrets);
    // What it starts in turn may not.
    let mut below = with_token(process(9));
    below.ppid = HELPER;
    tale.alive_from(Moment::Point, &shell)
        .alive_from(Moment::Point, &real)
        .alive_from(Moment::Point, &below)
        .finds(Code::SecretsEnvironment, "(pid 9)");
}

#[test]
fn a_real_server_behind_a_wrapper_with_pipes_of_its_own_may_hold_the_credential() {
    let mut real = with_token(process(HELPER));
    real.written = Some(10_000);
    real.reads_from = vec![SERVER];
    let wrapper = |reads_from: Vec<Pid>| {
        point().change(move |event| match event {
            Event::Looked { processes, .. } => {
                for process in processes.iter_mut().filter(|p| p.pid == SERVER) {
                    process.reads_from.clone_from(&reads_from);
                }
                true
            }
            _ => false,
        })
    };
    let held = |wrapper: Tale, real: &Process| wrapper.alive_from(Moment::Point, real);
    held(wrapper(vec![HELPER]), &real).holds(Question::Secrets);
    // Only stdin goes through the wrapper.
    let mut direct = real.clone();
    direct.holds = vec![PipeEnd::StdoutWrite];
    held(wrapper(vec![]), &direct).holds(Question::Secrets);
    // A helper that is fed, and from whom nothing of the session comes.
    held(wrapper(vec![]), &real).finds(Code::SecretsEnvironment, "(pid 7)");
    let mut silent = real.clone();
    silent.written = Some(0);
    held(wrapper(vec![HELPER]), &silent).finds(Code::SecretsEnvironment, "(pid 7)");
}

#[test]
fn our_own_client_may_hold_the_credential() {
    let mut client = process(CLIENT);
    client.secrets_in_argv = vec!["token of run A".to_owned()];
    point()
        .alive_from(Moment::Point, &client)
        .holds(Question::Secrets);
}

#[test]
fn a_credential_in_output_breaks_and_says_where() {
    for (place, code, words) in [
        (
            Place::Stderr,
            Code::SecretsStderr,
            "stood in stderr of session A",
        ),
        (
            Place::Stdout,
            Code::SecretsStdout,
            "stood in stdout of session A",
        ),
        (Place::Log, Code::SecretsLog, "stood in a log of session A"),
    ] {
        point()
            .after(
                |e| matches!(e, Event::SecretsSought { .. }),
                [Event::SecretSeen {
                    session: Session::A,
                    secret: "token of run A".to_owned(),
                    place,
                    detail: "line 4".to_owned(),
                }],
            )
            .finds_only(code, words);
    }
}

#[test]
fn a_process_that_cannot_be_read_is_open_unless_it_is_a_zombie() {
    let mut hidden = process(HELPER);
    hidden.readable = false;
    point().alive_from(Moment::Point, &hidden).finds(
        Code::SecretsUnreadable,
        "the environment of `sleep 600` (pid 7) could not be read",
    );
    hidden.state = 'Z';
    point()
        .alive_from(Moment::Point, &hidden)
        .holds(Question::Secrets);
}

#[test]
fn output_that_was_not_searched_is_open() {
    let tale = point().without(|e| {
        matches!(
            e,
            Event::SecretsSought {
                session: Session::B,
                ..
            }
        )
    });
    tale.finds(
        Code::SecretsNotSearched,
        "the output of session B was not searched",
    );
    tale.drilled_with(json!({ "authority": null }))
        .holds(Question::Secrets);
}

// ---- resources ---------------------------------------------------------------------------------------------------

fn zombie(pid: Pid) -> Process {
    let mut zombie = process(pid);
    zombie.state = 'Z';
    zombie.argv = Vec::new();
    zombie
}

/// Adds a look 100 ms after the one at the crash or at the end, which shows the same.
fn looked_again(tale: Tale, first: Moment, again: Moment) -> Tale {
    let copied = tale
        .lines()
        .into_iter()
        .find(|line| looked(first)(&line.event))
        .map(|line| line.event)
        .unwrap();
    let Event::Looked {
        session,
        processes,
        sockets,
        ..
    } = copied
    else {
        unreachable!("it is a look");
    };
    tale.after(
        looked(first),
        [Event::Looked {
            moment: again,
            session,
            processes,
            sockets,
        }],
    )
}

fn socket(state: &str) -> impl Fn(&mut Event) -> bool {
    let socket = Socket {
        local_port: 40001,
        remote_port: 8080,
        state: state.to_owned(),
    };
    move |event| match event {
        Event::Looked {
            moment: Moment::Point,
            sockets,
            ..
        } => {
            sockets.push(socket.clone());
            true
        }
        _ => false,
    }
}

fn at_point(process: &Process) -> impl Fn(&mut Event) -> bool {
    let process = process.clone();
    move |event| match event {
        Event::Looked {
            moment: Moment::Point,
            processes,
            ..
        } => {
            processes.push(process.clone());
            true
        }
        _ => false,
    }
}

#[test]
fn nothing_left_and_a_session_b_that_starts_hold() {
    let answer = point().holds(Question::Resources);
    assert!(
        answer
            .because
            .ends_with("and session B started as session A did"),
        "{}",
        answer.because
    );
    let tale = point();
    let handshaken = tale.lines().iter().position(|l| {
        matches!(
            l.event,
            Event::Handshaken {
                session: Session::B,
                ..
            }
        )
    });
    assert!(answer.evidence.contains(&(handshaken.unwrap() as u64)));
}

#[test]
fn a_zombie_in_two_looks_breaks() {
    let tale = looked_again(
        point().change(at_point(&zombie(HELPER))),
        Moment::Point,
        Moment::PointAgain,
    );
    tale.finds_only(
        Code::ResourcesZombie,
        "1 zombie was left at the crash: `sleep` (pid 7), never waited for by `deploy` (pid 3)",
    );
    let end = point()
        .never_exiting()
        .alive_from(Moment::End, &zombie(HELPER));
    looked_again(end, Moment::End, Moment::EndAgain).finds(Code::ResourcesZombie, "at the end");
}

#[test]
fn a_zombie_that_was_reaped_meanwhile_holds() {
    let again = Event::Looked {
        moment: Moment::PointAgain,
        session: Session::A,
        processes: vec![process(CLIENT), process(SERVER)],
        sockets: Vec::new(),
    };
    point()
        .change(at_point(&zombie(HELPER)))
        .after(looked(Moment::Point), [again])
        .holds(Question::Resources);
}

#[test]
fn a_pid_that_was_used_again_is_another_zombie() {
    let mut other = zombie(HELPER);
    other.started += 1;
    let again = Event::Looked {
        moment: Moment::PointAgain,
        session: Session::A,
        processes: vec![process(SERVER), other],
        sockets: Vec::new(),
    };
    point()
        .change(at_point(&zombie(HELPER)))
        .after(looked(Moment::Point), [again])
        .holds(Question::Resources);
}

#[test]
fn a_zombie_that_was_seen_once_is_open() {
    point()
        .change(at_point(&zombie(HELPER)))
        .finds(Code::ResourcesNotSeen, "nobody looked again");
}

#[test]
fn a_zombie_of_the_init_or_of_the_client_is_not_the_servers() {
    for parent in [1, CLIENT] {
        let mut orphan = zombie(HELPER);
        orphan.ppid = parent;
        looked_again(
            point().change(at_point(&orphan)),
            Moment::Point,
            Moment::PointAgain,
        )
        .holds(Question::Resources);
    }
}

#[test]
fn a_server_that_the_drill_has_stopped_cannot_wait_or_close() {
    let stopped = |event: &mut Event| match event {
        Event::Looked {
            moment: Moment::Point,
            processes,
            ..
        } => {
            for process in processes.iter_mut().filter(|p| p.pid == SERVER) {
                process.state = 'T';
            }
            true
        }
        _ => false,
    };
    let tale = Tale::good(CrashPoint::CallUnread)
        .change(at_point(&zombie(HELPER)))
        .change(socket("CLOSE_WAIT"))
        .change(stopped);
    looked_again(tale, Moment::Point, Moment::PointAgain).holds(Question::Resources);
}

#[test]
fn a_server_that_the_drill_holds_in_a_system_call_cannot_wait_or_close() {
    let held = Event::SyscallHeld {
        pid: SERVER,
        name: SyscallName::Write,
        nth: 1,
    };
    let released = Event::SyscallReleased {
        pid: SERVER,
        name: SyscallName::Write,
        nth: 1,
        errno: None,
    };
    let crash = crash(serde_json::json!({ "syscall": { "name": "write" } }));
    let tale = Tale::good_with(crash)
        .before(|e| matches!(e, Event::PointReached { .. }), [held])
        .after(|e| matches!(e, Event::ClientGone { .. }), [released])
        .change(at_point(&zombie(HELPER)))
        .change(socket("CLOSE_WAIT"));
    looked_again(tale.clone(), Moment::Point, Moment::PointAgain).holds(Question::Resources);
    // One that is let go can.
    let tale = tale.without(|e| matches!(e, Event::SyscallHeld { .. }));
    looked_again(tale, Moment::Point, Moment::PointAgain)
        .finds(Code::ResourcesZombie, "CLOSE_WAIT");
}

#[test]
fn a_half_closed_socket_in_two_looks_breaks() {
    looked_again(
        point().change(socket("CLOSE_WAIT")),
        Moment::Point,
        Moment::PointAgain,
    )
    .finds_only(
        Code::ResourcesCloseWait,
        "1 socket to the remote stayed in CLOSE_WAIT at the crash",
    );
    point()
        .change(socket("CLOSE_WAIT"))
        .finds(Code::ResourcesNotSeen, "nobody looked again");
    looked_again(
        point().change(socket("ESTABLISHED")),
        Moment::Point,
        Moment::PointAgain,
    )
    .holds(Question::Resources);
}

#[test]
fn the_remotes_own_end_of_a_connection_is_not_the_servers() {
    let remotes = |event: &mut Event| match event {
        Event::Looked {
            moment: Moment::Point,
            sockets,
            ..
        } => {
            sockets.push(Socket {
                local_port: 8080,
                remote_port: 40001,
                state: "CLOSE_WAIT".to_owned(),
            });
            true
        }
        _ => false,
    };
    looked_again(point().change(remotes), Moment::Point, Moment::PointAgain)
        .holds(Question::Resources);
}

#[test]
fn without_its_looks_it_is_open() {
    point().without(looked(Moment::Point)).finds_at(
        Question::Resources,
        Code::TrialNoEvidence,
        "at the crash",
    );
    point().without(looked(Moment::End)).finds_at(
        Question::Resources,
        Code::TrialNoEvidence,
        "at the end",
    );
}

#[test]
fn a_session_b_that_nobody_saw_is_open() {
    point()
        .without(|e| {
            matches!(
                e,
                Event::Handshaken {
                    session: Session::B,
                    ..
                }
            )
        })
        .finds(
            Code::ResourcesNotSeen,
            "nothing shows that session B started",
        );
    let alone = json!({ "recover": null });
    Tale::good(CrashPoint::Idle)
        .drilled_with(alone)
        .holds(Question::Resources);
}

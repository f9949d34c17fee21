//! `protocol`, `secrets` and `resources`.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn closes_stdin(point: CrashPoint) -> Tale {
    Tale::good_with(crash(json!({ "at": point, "close": ["stdin"] })))
}

// ---- protocol ----------------------------------------------------------------------------------------------------

#[test]
fn noise_on_the_stdout_of_any_session_breaks_and_is_quoted() {
    for session in [Session::A, Session::Revoked, Session::B] {
        let answer = point()
            .after(
                |e| matches!(e, Event::Handshaken { session: of, .. } if *of == session),
                [line(session, Way::FromServer, LineShape::Noise, "")],
            )
            .breaks_only(Question::Protocol, "“listening on 8080”");
        assert!(
            answer.because.starts_with(&session.to_string()),
            "{}",
            answer.because
        );
        assert!(!answer.stable.contains("8080"), "{}", answer.stable);
    }
}

#[test]
fn what_the_client_writes_is_never_noise() {
    point()
        .after(
            |e| matches!(e, Event::Handshaken { .. }),
            [line(Session::A, Way::ToServer, LineShape::Noise, "")],
        )
        .holds(Question::Protocol);
}

#[test]
fn a_torn_last_line_breaks_while_nobody_asked_the_server_to_end() {
    let torn = |session| Event::StdoutEnded { session, torn: 12 };
    point()
        .before(
            |e| {
                matches!(
                    e,
                    Event::SessionEnded {
                        session: Session::B
                    }
                )
            },
            [torn(Session::B)],
        )
        .breaks_only(
            Question::Protocol,
            "in the middle of a line, after 12 bytes",
        );
    point()
        .after(
            |e| {
                matches!(
                    e,
                    Event::SessionEnded {
                        session: Session::B
                    }
                )
            },
            [torn(Session::B)],
        )
        .holds(Question::Protocol);
    Tale::good_with(crash(json!({ "at": "idle", "kill": "server" })))
        .after(
            |e| matches!(e, Event::CrashFired { .. }),
            [torn(Session::A)],
        )
        .holds(Question::Protocol);
}

#[test]
fn an_answer_that_is_lost_breaks_where_the_client_could_still_read() {
    let is_answer = |e: &Event| matches!(e, Event::LinePassed { session: Session::A, way: Way::FromServer, id: Some(id), .. } if id == "1");
    let log = json!({ "expect": { "ownership": null } });
    closes_stdin(CrashPoint::CallWritten)
        .without(is_answer)
        .drilled_with(log.clone())
        .breaks_only(
            Question::Protocol,
            "(tools/call) was never answered, and the server exited with status 0",
        );
    // An outcome in the record accounts for it.
    closes_stdin(CrashPoint::CallWritten)
        .without(is_answer)
        .holds(Question::Protocol);
    // A dead client reads nothing.
    Tale::good(CrashPoint::CallWritten)
        .drilled_with(log)
        .holds(Question::Protocol);
}

#[test]
fn a_server_that_still_runs_has_not_lost_its_answer() {
    let is_answer = |e: &Event| matches!(e, Event::LinePassed { session: Session::A, way: Way::FromServer, id: Some(id), .. } if id == "1");
    closes_stdin(CrashPoint::CallWritten)
        .never_exiting()
        .without(is_answer)
        .drilled_with(json!({ "expect": { "ownership": null } }))
        .holds(Question::Protocol);
}

#[test]
fn a_handshake_probe_need_not_be_answered() {
    closes_stdin(CrashPoint::Idle)
        .before(
            |e| {
                matches!(
                    e,
                    Event::Handshaken {
                        session: Session::A,
                        ..
                    }
                )
            },
            [line(Session::A, Way::ToServer, LineShape::Request, "probe")],
        )
        .holds(Question::Protocol);
}

#[test]
fn a_request_before_the_result_must_have_been_answered() {
    Tale::good(CrashPoint::AfterResult)
        .after(
            |e| {
                matches!(
                    e,
                    Event::Handshaken {
                        session: Session::A,
                        ..
                    }
                )
            },
            [line(Session::A, Way::ToServer, LineShape::Request, "77")],
        )
        .breaks_only(Question::Protocol, "was never answered");
}

#[test]
fn a_later_server_that_ends_instead_of_answering_breaks() {
    let nothing = |event: &mut Event| match event {
        Event::CallAnswered {
            session: Session::B,
            shape,
            ..
        } => {
            *shape = AnswerShape::Nothing;
            true
        }
        _ => false,
    };
    let tale = point().change(nothing);
    tale.clone()
        .before(
            |e| {
                matches!(
                    e,
                    Event::CallAnswered {
                        session: Session::B,
                        ..
                    }
                )
            },
            [exited(21, 0)],
        )
        .breaks(
            Question::Protocol,
            "the server of session B exited with status 0 while its call was not answered",
        );
    tale.clone()
        .before(
            |e| {
                matches!(
                    e,
                    Event::CallAnswered {
                        session: Session::B,
                        ..
                    }
                )
            },
            [Event::StdoutEnded {
                session: Session::B,
                torn: 0,
            }],
        )
        .breaks(Question::Protocol, "closed its stdout");
    tale.holds(Question::Protocol);
}

#[test]
fn a_silent_server_holds() {
    Tale::good(CrashPoint::Startup)
        .without(|e| matches!(e, Event::LinePassed { .. }))
        .holds(Question::Protocol)
        .because
        .contains("nothing came on stdout")
        .then_some(())
        .unwrap();
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
    point().alive_from(Moment::Point, &helper).breaks(
        Question::Secrets,
        "token of run A stood in the arguments of `sleep 600` (pid 7)",
    );
}

#[test]
fn a_credential_in_a_helpers_environment_breaks_once() {
    let answer = point()
        .alive_from(Moment::Point, &with_token(process(HELPER)))
        .breaks(
            Question::Secrets,
            "token of run A stood in the environment of `sleep 600` (pid 7)",
        );
    assert_eq!(answer.evidence.len(), 1);
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
        .breaks(Question::Secrets, "`sleep 600` (pid 7)");
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
        .breaks(Question::Secrets, "(pid 9)");
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
    for (place, words) in [
        (Place::Stderr, "stood in stderr of session A"),
        (Place::Stdout, "stood in stdout of session A"),
        (Place::Log, "stood in a log of session A"),
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
            .breaks_only(Question::Secrets, words);
    }
}

#[test]
fn a_process_that_cannot_be_read_is_open_unless_it_is_a_zombie() {
    let mut hidden = process(HELPER);
    hidden.readable = false;
    point().alive_from(Moment::Point, &hidden).leaves_open(
        Question::Secrets,
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
    tale.leaves_open(
        Question::Secrets,
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
    tale.breaks_only(
        Question::Resources,
        "1 zombie was left at the crash: `sleep` (pid 7), never waited for by `deploy` (pid 3)",
    );
    let end = point()
        .never_exiting()
        .alive_from(Moment::End, &zombie(HELPER));
    looked_again(end, Moment::End, Moment::EndAgain).breaks(Question::Resources, "at the end");
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
        .leaves_open(Question::Resources, "nobody looked again");
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
fn a_half_closed_socket_in_two_looks_breaks() {
    looked_again(
        point().change(socket("CLOSE_WAIT")),
        Moment::Point,
        Moment::PointAgain,
    )
    .breaks_only(
        Question::Resources,
        "1 socket to the remote stayed in CLOSE_WAIT at the crash",
    );
    point()
        .change(socket("CLOSE_WAIT"))
        .leaves_open(Question::Resources, "nobody looked again");
    looked_again(
        point().change(socket("ESTABLISHED")),
        Moment::Point,
        Moment::PointAgain,
    )
    .holds(Question::Resources);
}

#[test]
fn without_its_looks_it_is_open() {
    point()
        .without(looked(Moment::Point))
        .leaves_open(Question::Resources, "at the crash");
    point()
        .without(looked(Moment::End))
        .leaves_open(Question::Resources, "at the end");
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
        .leaves_open(Question::Resources, "nothing shows that session B started");
    let alone = json!({ "recover": null });
    Tale::good(CrashPoint::Idle)
        .drilled_with(alone)
        .holds(Question::Resources);
}

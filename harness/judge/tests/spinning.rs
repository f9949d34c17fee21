//! `quiet`: the CPU and SIGTERM.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::spec::{CrashPoint, Question, Signal};

fn point() -> Tale {
    Tale::good(CrashPoint::AfterAcceptance)
}

fn is_eof(event: &Event) -> bool {
    matches!(event, Event::EofInPipe { .. })
}

/// The quiet period is watched in two windows of this length, with this much wanted by each process in both.
fn watched(length: u64, wanted: &[(Pid, u64)]) -> impl Fn(&mut Event) -> bool {
    let work = wanted.iter().map(|(pid, wanted)| (*pid, *wanted, Some(0)));
    let window = window(length, work);
    in_windows(vec![window.clone(), window])
}

fn window(length: u64, work: impl Iterator<Item = (Pid, u64, Option<u64>)>) -> QuietWindow {
    let work = work.map(|(pid, wanted, passed)| Work {
        pid,
        wanted,
        passed,
    });
    QuietWindow {
        length,
        work: work.collect(),
    }
}

fn in_windows(windows: Vec<QuietWindow>) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::QuietEnded { .. } => {
            let windows = windows.clone();
            *event = Event::QuietEnded {
                empty: false,
                windows,
            };
            true
        }
        _ => false,
    }
}

#[test]
fn a_cell_with_a_calm_process_is_quiet() {
    point()
        .never_exiting()
        .without(|e| {
            matches!(
                e,
                Event::SignalSent {
                    signal: Signal::Kill,
                    ..
                }
            )
        })
        .change(watched(500 * MS, &[(SERVER, 249 * MS), (CLIENT, 500 * MS)]))
        .holds(Question::Quiet);
}

#[test]
fn a_hung_client_is_only_asked_for_cpu_and_sigterm() {
    let tale = Tale::good_with(crash(json!({ "at": "idle", "signal": "STOP" }))).without(is_eof);
    let calm = tale.clone().change(watched(500 * MS, &[(SERVER, 0)]));
    calm.holds(Question::Quiet);
    calm.after(
        |e| matches!(e, Event::QuietStarted),
        [sought(2), request(2, "GET /builds")],
    )
    .holds(Question::Quiet);
    tale.change(watched(500 * MS, &[(SERVER, 500 * MS)]))
        .finds(Code::QuietSpinning, "spinning");
}

#[test]
fn a_spinner_breaks_even_where_it_gets_little_of_the_cpu() {
    point()
        .change(watched(500 * MS, &[(SERVER, 251 * MS)]))
        .finds_only(Code::QuietSpinning, "`deploy` (pid 3) was spinning at the end of a quiet period of 1 s: it wanted the CPU for 251 ms of 500 ms, and before that for 251 ms of 500 ms, and read and wrote nothing");
}

#[test]
fn what_works_in_the_last_window_alone_or_reads_and_writes_is_not_told_to_spin() {
    let busy = |passed| window(500 * MS, [(SERVER, 500 * MS, passed)].into_iter());
    let calm = window(500 * MS, [(SERVER, MS, Some(0))].into_iter());
    point()
        .change(in_windows(vec![calm.clone(), busy(Some(0))]))
        .finds(Code::QuietWorkUndecided, "not in the window before");
    point()
        .change(in_windows(vec![busy(Some(0)), busy(Some(4096))]))
        .finds(Code::QuietWorkUndecided, "read and wrote 4096 bytes");
    point()
        .change(in_windows(vec![busy(None), busy(None)]))
        .finds(Code::QuietSpinning, "could not be seen");
    // What came to rest has worked.
    point()
        .never_exiting()
        .without(|e| {
            matches!(
                e,
                Event::SignalSent {
                    signal: Signal::Kill,
                    ..
                }
            )
        })
        .change(in_windows(vec![busy(Some(0)), busy(Some(0)), calm]))
        .holds(Question::Quiet);
}

#[test]
fn a_window_that_is_too_short_tells_nothing_of_the_cpu() {
    point()
        .change(watched(199 * MS, &[(SERVER, 199 * MS)]))
        .finds(Code::QuietNotWatched, "too short");
}

#[test]
fn a_declared_helper_may_work_and_may_ignore_sigterm() {
    let allowed = json!({ "expect": { "eof": null, "helpers": { "allow": [
        { "command": "^sleep", "because": "durable" } ] } } });
    let tale = point()
        .alive_from(Moment::Point, &process(HELPER))
        .change(watched(500 * MS, &[(HELPER, 500 * MS)]))
        .after(phase(Phase::Stop), [term(HELPER), kill(HELPER)]);
    tale.finds(Code::QuietSpinning, "`sleep 600` (pid 7) ignored SIGTERM");
    tale.drilled_with(allowed).holds(Question::Quiet);
}

#[test]
fn a_survivor_that_ignores_sigterm_breaks() {
    point().never_exiting().finds(
        Code::QuietIgnoresSigterm,
        "`deploy` (pid 3) ignored SIGTERM and had to be killed",
    );
}

#[test]
fn a_survivor_that_ends_at_sigterm_holds() {
    point()
        .alive_from(Moment::End, &process(HELPER))
        .after(phase(Phase::Stop), [term(HELPER), exited(HELPER, 0)])
        .holds(Question::Quiet);
}

#[test]
fn a_survivor_that_ends_by_itself_just_as_sigkill_is_sent_holds() {
    point()
        .alive_from(Moment::End, &process(HELPER))
        .after(
            phase(Phase::Stop),
            [term(HELPER), kill(HELPER), exited(HELPER, 0)],
        )
        .holds(Question::Quiet);
}

#[test]
fn our_own_client_may_be_killed() {
    point()
        .after(phase(Phase::Stop), [term(CLIENT), kill(CLIENT)])
        .holds(Question::Quiet);
}

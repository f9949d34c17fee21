//! What came first is told by the times of the events, and not by the order in which they arrived.

use std::collections::BTreeSet;

use super::tale::*;
use crate::journal::*;
use crate::judge::{Answer, Code, Incident};
use crate::spec::{CrashPoint, Question};

/// Answers with the times of their evidence in place of its numbers.
fn timed(tale: &Tale) -> Vec<(Answer, BTreeSet<u64>)> {
    let lines = tale.lines();
    let at = |seq: &Seq| lines[usize::try_from(*seq).unwrap()].at;
    let answers = tale.judged().answers.into_iter();
    answers
        .map(|mut answer| {
            let evidence = std::mem::take(&mut answer.evidence);
            (answer, evidence.iter().map(at).collect())
        })
        .collect()
}

/// Without the numbers of events.
fn incidents(tale: &Tale) -> Vec<Incident> {
    let mut incidents = tale.incidents();
    for incident in &mut incidents {
        let actions = [&mut incident.last_success, &mut incident.last_attempt];
        for action in actions.into_iter().flatten() {
            action.event = 0;
        }
    }
    incidents
}

#[test]
fn a_journal_that_arrived_in_another_order_has_the_same_answers() {
    for point in [
        CrashPoint::CallUnread,
        CrashPoint::BeforeDispatch,
        CrashPoint::AfterAcceptance,
        CrashPoint::AfterResult,
    ] {
        for tale in [Tale::good(point), Tale::good(point).never_exiting()] {
            // Those that came into the tale later share a time with another.
            let tale = tale.a_moment_apart();
            let mixed = tale.clone().told_backwards();
            assert_eq!(timed(&mixed), timed(&tale), "{point}");
            assert_eq!(mixed.judged().moments, tale.judged().moments, "{point}");
            assert_eq!(incidents(&mixed), incidents(&tale), "{point}");
        }
    }
}

/// The client dies before what it told last has arrived.
#[test]
fn a_call_that_is_told_after_the_death_of_its_client_was_made_before_it() {
    let is_call = |e: &Event| {
        matches!(
            e,
            Event::CallIssued {
                session: Session::A,
                ..
            }
        )
    };
    let is_gone = |e: &Event| matches!(e, Event::ClientGone { .. });
    let tale = Tale::good(CrashPoint::AfterAcceptance);
    let late = tale.clone().told_after(is_call, is_gone);
    let place = |is: &dyn Fn(&Event) -> bool| {
        let lines = late.lines();
        lines.iter().position(|line| is(&line.event)).unwrap()
    };
    assert!(place(&is_call) > place(&is_gone));
    assert_eq!(timed(&late), timed(&tale));
}

/// A request that came in time is not late because it was told late, nor is one in time because it was told early.
#[test]
fn a_request_is_late_by_its_time() {
    let is_eof = |e: &Event| matches!(e, Event::EofInPipe { .. });
    let quiet = |e: &Event| matches!(e, Event::QuietStarted);
    let with_more = |tale: Tale, is: &dyn Fn(&Event) -> bool| {
        tale.after(is, [request(77, "POST /builds")])
            .a_moment_apart()
    };
    let early = |e: &Event| matches!(e, Event::PointReached { .. });
    let is_more = |e: &Event| matches!(e, Event::RequestReceived { request: 77, .. });
    let in_time = with_more(Tale::good(CrashPoint::AfterAcceptance), &early);
    let late = with_more(Tale::good(CrashPoint::AfterAcceptance), &is_eof);
    late.finds(Code::QuietLateRequest, "arrived after the session was gone");
    late.told_before(is_more, early)
        .finds(Code::QuietLateRequest, "arrived after the session was gone");
    in_time.clone().holds(Question::Quiet);
    in_time.told_after(is_more, quiet).holds(Question::Quiet);
}

//! The incident record: which incidents there are, and what each tells.

use super::tale::*;
use crate::journal::{Event, Moment, Pid, Process};
use crate::judge::{Incident, IncidentKind};
use crate::spec::CrashPoint;

fn of(tale: &Tale) -> Vec<Incident> {
    tale.incidents()
}

#[test]
fn a_server_that_outlives_its_session_is_told_with_what_it_took_to_end_it() {
    let told = of(&Tale::good(CrashPoint::AfterResult).never_exiting());
    let [survivor] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(survivor.kind, IncidentKind::Survivor);
    assert_eq!(survivor.process.as_ref().unwrap().pid, SERVER);
    assert_eq!(survivor.signals.len(), 2);
    assert!(
        survivor.follow_up.contains("SIGKILL"),
        "{}",
        survivor.follow_up
    );
    assert!(survivor.place.as_ref().unwrap().logical_orphan);
    let helper = Tale::good(CrashPoint::Idle).alive_from(Moment::End, &process(40));
    assert_eq!(of(&helper).len(), 1);
}

#[test]
fn a_call_that_was_answered_is_no_incident() {
    assert_eq!(of(&Tale::good(CrashPoint::AfterResult)), []);
}

#[test]
fn a_call_that_nobody_saw_the_end_of_is_told_with_its_owner_and_its_job() {
    let told = of(&Tale::good(CrashPoint::AfterAcceptance));
    let [incident] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(incident.kind, IncidentKind::UnresolvedCall);
    assert_eq!(incident.remote_jobs.len(), 1);
    assert!(
        incident.follow_up.contains("one job stands"),
        "{}",
        incident.follow_up
    );
    assert_eq!(incident.authorisation, "revoked");
    assert!(incident.revoked.is_some());
    assert_eq!(
        incident.last_attempt.as_ref().unwrap().operation,
        "POST /builds"
    );
}

#[test]
fn where_nothing_was_dispatched_nothing_stands() {
    let told = of(&Tale::good(CrashPoint::BeforeDispatch));
    assert_eq!(told.len(), 1);
    assert!(
        told[0].follow_up.contains("nothing stands at the remote"),
        "{}",
        told[0].follow_up
    );
    assert_eq!(told[0].remote_jobs, Vec::<String>::new());
}

#[test]
fn a_server_whose_parent_has_gone_is_told_to_be_an_orphan() {
    let init = 1;
    let with_parent = |parent: Pid| Process {
        ppid: parent,
        ..process(SERVER)
    };
    let seen_by = move |moment: Moment, parent: Pid| {
        move |event: &mut Event| match event {
            Event::Looked {
                moment: at,
                processes,
                ..
            } if *at == moment => {
                processes.retain(|process| process.pid != SERVER);
                processes.push(with_parent(parent));
                true
            }
            _ => false,
        }
    };
    let tale = Tale::good(CrashPoint::AfterAcceptance)
        .change(seen_by(Moment::Point, CLIENT))
        .change(seen_by(Moment::ClientGone, init));
    let told = of(&tale);
    let place = told[0].place.as_ref().unwrap();
    assert_eq!((place.parent, place.os_orphan), (init, true));
    // Where nobody looked at it after its client had gone, nothing is known of its parent.
    let gone = |event: &mut Event| match event {
        Event::Looked {
            moment: Moment::ClientGone,
            processes,
            ..
        } => {
            processes.clear();
            true
        }
        _ => false,
    };
    assert_eq!(of(&tale.change(gone))[0].place, None);
}

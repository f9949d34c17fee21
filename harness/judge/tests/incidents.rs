//! The incident record: which incidents there are, and what each tells.

use super::tale::*;
use crate::journal::Moment;
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

//! The revocation of the remote job: the operator cancels what the call started, with nothing but what the record holds.
//!
//! It comes last. A job has a life of its own: it outlasts the client, the credential and the run, the session that recovers
//! may have found it still running, and the revoked session may have started another one.

use super::stage::Stage;
use super::{TrialError, enter};
use crate::journal::{Event, Moment, Phase, Session};
use crate::spec::Revocable;

/// Cancels the jobs that the record of the call names, where the drill asks for it.
pub(super) async fn revoke(stage: &Stage) -> Result<(), TrialError> {
    let asked = stage.drill.expect.revocation.ask();
    if !asked.is_some_and(|revocation| revocation.of.contains(&Revocable::Job)) {
        return Ok(());
    }
    enter(&stage.journal, Phase::RevokeJob);
    stage.read_record(Moment::BeforeCancel);
    // Also a job that the revoked session got through. What the session beside has started is its own.
    let beside = stage.call_beside();
    let named = stage.journal.latest(|entry| match &*entry.event {
        Event::RecordRead {
            moment: Moment::BeforeCancel,
            rows,
            ..
        } => {
            let ours = rows
                .iter()
                .filter(|row| beside.is_none() || row.text("call") != beside);
            let mut jobs: Vec<String> = ours.filter_map(|row| row.text("effect")).collect();
            jobs.retain(|job| !job.is_empty());
            jobs.sort();
            jobs.dedup();
            Some(jobs)
        }
        _ => None,
    });
    let Some(remote) = &stage.remote else {
        return Ok(());
    };
    for job in named.unwrap_or_default() {
        remote.cancel(&job).await;
        stage.journal.append(Event::Revoked {
            run: Session::A,
            of: Revocable::Job,
            by: super::after::OPERATOR.to_owned(),
        });
    }
    Ok(())
}

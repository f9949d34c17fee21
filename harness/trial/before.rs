//! Up to the crash point: session A, arming, the call, and the evidence while the world is held still.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::gate;
use super::rehearsal::rehearse;
use super::stage::Stage;
use super::{Surroundings, TrialError, enter};
use crate::journal::{CallRole, Entry, Event, Moment, Phase, Session, SessionFault};
use crate::remote::Hold;
use crate::session::LiveSession;
use crate::spec::{Crash, CrashPoint};

/// From the call to the crash point.
const POINT_WITHIN: Duration = Duration::from_secs(30);

/// Brings session A to the crash point and secures the evidence there. `None` when it was not reached; the journal says
/// what happened instead.
pub(super) async fn reach(
    stage: &mut Stage,
    crash: &Crash,
    surroundings: &Surroundings,
) -> Result<Option<LiveSession>, TrialError> {
    let drill = Arc::clone(&stage.drill);
    enter(&stage.journal, Phase::SessionA);
    stage.is_gated = drill.is_gated(crash);
    let Some(mut live) = stage.open(Session::A, &drill.call.before).await? else {
        return Ok(None);
    };
    let hold = match hold_for(stage, crash, surroundings).await? {
        Ok(hold) => hold,
        Err(instead) => {
            stage.journal.append(Event::PointMissed {
                point: crash.at,
                instead,
            });
            return Ok(None);
        }
    };
    enter(&stage.journal, Phase::Arm);
    if crash.at != CrashPoint::Idle {
        arm(stage, hold).await?;
    }
    stage.journal.append(Event::Armed { point: crash.at });
    if let Err(instead) = gate::arm(stage, crash) {
        stage.journal.append(Event::PointMissed {
            point: crash.at,
            instead,
        });
        return Ok(None);
    }
    let reached = if crash.at == CrashPoint::Idle {
        Ok("the session is open and no call was issued".to_owned())
    } else {
        let call_id = stage.identity(Session::A).call.clone();
        stage
            .issue(&mut live, Session::A, CallRole::Main, &drill.call, call_id)
            .await?;
        wait_for(stage, crash.at, &live).await
    };
    let proof = match reached {
        Ok(proof) => proof,
        Err(instead) => {
            stage.journal.append(Event::PointMissed {
                point: crash.at,
                instead,
            });
            return Ok(None);
        }
    };
    if stage.is_dead(&live) {
        let instead = "the server had already ended".to_owned();
        stage.journal.append(Event::PointMissed {
            point: crash.at,
            instead,
        });
        return Ok(None);
    }
    stage.journal.append(Event::PointReached {
        point: crash.at,
        proof,
    });

    enter(&stage.journal, Phase::Evidence);
    stage
        .look(Moment::Point, Some(Moment::PointAgain), Session::A, &live)
        .await?;
    stage.read_record(Moment::Point);
    Ok(Some(live))
}

/// What the remote holds for this crash point, or why that cannot be known.
async fn hold_for(
    stage: &mut Stage,
    crash: &Crash,
    surroundings: &Surroundings,
) -> Result<Result<Hold, String>, TrialError> {
    Ok(Ok(match crash.at {
        CrashPoint::BeforeDispatch => {
            if let Some(nth) = crash.connection {
                Hold::Connection { nth }
            } else {
                let folder = stage.rehearsal_folder()?;
                let event =
                    rehearse(Arc::clone(&stage.drill), surroundings.clone(), &folder).await?;
                let Event::Rehearsed {
                    connection,
                    requests,
                    answer,
                    detail,
                } = &event
                else {
                    // The trial goes to its close when it sees this.
                    stage.journal.append(event);
                    return Ok(Err("a limit was exceeded in the rehearsal".to_owned()));
                };
                let nth = connection.ok_or_else(|| {
                let requests = match requests.as_slice() {
                    [] => "no request".to_owned(),
                    some => some.join(", "),
                };
                format!(
                    "in the rehearsal the call made {requests} and no effect; its answer was {answer:?}: {detail}"
                )
            });
                stage.journal.append(event.clone());
                match nth {
                    Ok(nth) => Hold::Connection { nth },
                    Err(instead) => return Ok(Err(instead)),
                }
            }
        }
        CrashPoint::Sent => Hold::Request,
        CrashPoint::AfterAcceptance => Hold::Reply,
        _ => Hold::Nothing,
    }))
}

/// From here on each connection waits until the record was read: what stands in it then stood there before dispatch.
async fn arm(stage: &Stage, hold: Hold) -> Result<(), TrialError> {
    let Some(remote) = &stage.remote else {
        return Ok(());
    };
    let packet_socket = stage
        .journal
        .latest(|entry| match &*entry.event {
            Event::CellReady { packet_socket, .. } => Some(*packet_socket),
            _ => None,
        })
        .unwrap_or_default();
    let at_dispatch = stage
        .record
        .clone()
        .filter(|_| packet_socket)
        .map(|record| {
            Arc::new(move |connection| record.read(Moment::Dispatch, Some(connection)))
                as Arc<dyn Fn(u32) + Send + Sync>
        });
    Ok(remote.arm(hold, at_dispatch).await?)
}

/// Waits for the event that is the crash point. The proof, or what happened instead.
async fn wait_for(stage: &Stage, point: CrashPoint, live: &LiveSession) -> Result<String, String> {
    let deadline = Instant::now() + POINT_WITHIN;
    let mut armed = false;
    let seen = stage
        .journal
        .watch()
        .until(deadline, |entry| {
            armed |= matches!(*entry.event, Event::Armed { .. });
            armed
                .then(|| sign(entry, point, live.server()))?
                .filter(|sign| {
                    // A launcher that has gone has left somebody who serves.
                    let is_exit = matches!(*entry.event, Event::ProcessExited { .. });
                    sign.is_ok() || !is_exit || stage.is_dead(live)
                })
        })
        .await;
    seen.unwrap_or_else(|| {
        let calls = gate::seen_so_far(stage).filter(|_| point == CrashPoint::Syscall);
        let happened = calls.unwrap_or_else(|| requests_so_far(stage));
        Err(format!(
            "the point was not reached within {} s; {happened}",
            POINT_WITHIN.as_secs()
        ))
    })
}

fn sign(entry: &Entry, point: CrashPoint, server: i32) -> Option<Result<String, String>> {
    if point == CrashPoint::Syscall
        && let Some(proof) = gate::sign(entry)
    {
        return Some(Ok(proof));
    }
    match (&*entry.event, point) {
        (Event::ConnectionHeld { connection }, CrashPoint::BeforeDispatch) => Some(Ok(format!(
            "connection {connection}, which carries the effect, is held pending; no byte of it has arrived"
        ))),
        (Event::RequestHeld { request }, CrashPoint::Sent) => Some(Ok(format!(
            "request {request} has arrived whole and is not applied"
        ))),
        (Event::ReplyHeld { request, status }, CrashPoint::AfterAcceptance) => Some(Ok(format!(
            "request {request} was applied and its reply, status {status}, is withheld"
        ))),
        (
            Event::CallAnswered {
                session: Session::A,
                role: CallRole::Main,
                shape,
                ..
            },
            CrashPoint::AfterResult,
        ) => Some(Ok(format!("the client has read the answer, {shape:?}"))),
        (
            Event::CallAnswered {
                session: Session::A,
                role: CallRole::Main,
                shape,
                text,
                ..
            },
            _,
        ) => Some(Err(format!(
            "the call was answered before the point was reached, {shape:?}: {}",
            crate::journal::excerpt(text, 300)
        ))),
        (Event::ProcessExited { pid, exit, .. }, _) if *pid == server => Some(Err(format!(
            "the server ended with {exit} before the point was reached"
        ))),
        (
            Event::StdoutEnded {
                session: Session::A,
                ..
            },
            _,
        ) => Some(Err(
            "the server closed its stdout before the point was reached".to_owned(),
        )),
        (
            Event::SessionFailed {
                session: Session::A,
                fault: SessionFault::Client,
                detail,
                ..
            },
            _,
        ) => Some(Err(detail.clone())),
        _ => None,
    }
}

fn requests_so_far(stage: &Stage) -> String {
    let requests = stage.journal.collect(|entry| match &*entry.event {
        Event::RequestReceived { method, target, .. } => Some(format!("{method} {target}")),
        _ => None,
    });
    if requests.is_empty() {
        "the server made no request".to_owned()
    } else {
        format!("the server made {}", requests.join(", "))
    }
}

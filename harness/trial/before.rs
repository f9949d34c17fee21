//! Up to the crash point: session A, arming, the call, and the evidence while the world is held still.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::gate;
use super::rehearsal::rehearse;
use super::signs::{Sign, Signs};
use super::stage::Stage;
use super::still::stop_readers;
use super::{Surroundings, TrialError, enter};
use crate::journal::{CallRole, Entry, Event, Moment, Phase, Session};
use crate::remote::Hold;
use crate::session::{LiveSession, Write};
use crate::spec::{Boundary, BoundaryEvent, Crash, CrashPoint, Drill};

/// The client does at once what it is asked for, on a loaded machine later.
const OBEYED_WITHIN: Duration = Duration::from_secs(30);

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
    let opened = match crash.at {
        CrashPoint::Startup => stage.start(Session::A).await?,
        _ => stage.open(Session::A, &drill.call.before).await?,
    };
    let Some(mut live) = opened else {
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
    let calls = !matches!(crash.at, CrashPoint::Startup | CrashPoint::Idle);
    if calls {
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
    let reached = match crash.at {
        CrashPoint::Startup => {
            Ok("the server was started, and nothing was written to it".to_owned())
        }
        CrashPoint::Idle => Ok("the session is open and no call was issued".to_owned()),
        _ => call(stage, crash, &mut live).await?,
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
        let instead = format!(
            "{} as soon as it was reached",
            stage.lost(&live).await.told()
        );
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
    if stage.is_gone(&live) {
        // It left while it was looked at: there is nobody to crash.
        stage.lost(&live).await;
        return Ok(None);
    }
    Ok(Some(live))
}

/// Issues the call and waits for the point. The proof, or what happened instead.
async fn call(
    stage: &Stage,
    crash: &Crash,
    live: &mut LiveSession,
) -> Result<Result<String, String>, TrialError> {
    let point = crash.at;
    if point == CrashPoint::CallUnread
        && let Err(instead) = stop_readers(stage, live).await?
    {
        return Ok(Err(instead));
    }
    let write = match point {
        CrashPoint::TornCall => Write::Half,
        CrashPoint::CallUnread => Write::Unread,
        CrashPoint::CallWritten => Write::Taken,
        _ => Write::Cut,
    };
    let (session, role) = (Session::A, CallRole::Main);
    let call_id = stage.identity(session).call.clone();
    stage
        .issue(live, session, role, &stage.drill.call, call_id, write)
        .await?;
    wait_for(stage, crash, live).await
}

/// What the remote holds for this crash point, or why that cannot be known.
async fn hold_for(
    stage: &mut Stage,
    crash: &Crash,
    surroundings: &Surroundings,
) -> Result<Result<Hold, String>, TrialError> {
    Ok(Ok(match crash.at {
        CrashPoint::Startup if !has_later_session(&stage.drill) => {
            prove_start(stage, surroundings).await?;
            Hold::Nothing
        }
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
                    ..
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
        // Nothing is dispatched before the client has gone, however fast the server is.
        CrashPoint::CallWritten if stage.remote.is_some() => Hold::Connection { nth: 1 },
        // Where it has boundaries, it was replaced by them before any trial began.
        CrashPoint::Every => return without_course(stage, surroundings).await,
        CrashPoint::BeforeApproval => Hold::Approval,
        CrashPoint::AfterApproval => Hold::Decision,
        CrashPoint::Sent => Hold::Request,
        CrashPoint::AfterAcceptance => Hold::Reply,
        CrashPoint::TornReply => Hold::HalfReply,
        CrashPoint::AfterReply => Hold::Delivery,
        CrashPoint::Boundary => {
            if is_carrier_unknown(&stage.drill, crash) {
                let folder = stage.rehearsal_folder()?;
                let drill = Arc::clone(&stage.drill);
                let event = rehearse(drill, surroundings.clone(), &folder).await?;
                let is_over = !matches!(event, Event::Rehearsed { .. });
                stage.journal.append(event);
                if is_over {
                    return Ok(Err("a limit was exceeded in the rehearsal".to_owned()));
                }
            }
            hold_for_boundary(crash)
        }
        _ => Hold::Nothing,
    }))
}

fn has_later_session(drill: &Drill) -> bool {
    drill.recover.is_some() || drill.authority.is_some()
}

/// A server that was asked for nothing has shown nothing, not even that it would start. Where no later session does, a
/// clean run does.
async fn prove_start(stage: &mut Stage, surroundings: &Surroundings) -> Result<(), TrialError> {
    let folder = stage.rehearsal_folder()?;
    let event = rehearse(Arc::clone(&stage.drill), surroundings.clone(), &folder).await?;
    stage.journal.append(event);
    Ok(())
}

/// Whether only a clean run can say if this is a crash before the dispatch of the effect.
fn is_carrier_unknown(drill: &Drill, crash: &Crash) -> bool {
    let is_connection = matches!(crash.boundary, Some(b) if b.event == BoundaryEvent::Connection);
    is_connection && crash.connection.is_none() && drill.makes_effects()
}

fn hold_for_boundary(crash: &Crash) -> Hold {
    let Some(Boundary { event, nth }) = crash.boundary else {
        return Hold::Nothing;
    };
    match event {
        BoundaryEvent::Connection => Hold::Connection { nth },
        BoundaryEvent::Request => Hold::NthRequest(nth),
        BoundaryEvent::Reply => Hold::NthReply(nth),
        BoundaryEvent::HalfReply => Hold::NthHalfReply(nth),
        BoundaryEvent::Replied => Hold::NthReplied(nth),
        BoundaryEvent::Line => Hold::Nothing,
    }
}

/// Why the call has no boundaries, as one more rehearsal shows it.
async fn without_course(
    stage: &mut Stage,
    surroundings: &Surroundings,
) -> Result<Result<Hold, String>, TrialError> {
    let folder = stage.rehearsal_folder()?;
    let event = rehearse(Arc::clone(&stage.drill), surroundings.clone(), &folder).await?;
    let instead = match &event {
        Event::Rehearsed { answer, detail, .. } => {
            format!("in the rehearsal the call's answer was {answer:?}: {detail}")
        }
        _ => "a limit was exceeded in the rehearsal".to_owned(),
    };
    stage.journal.append(event);
    Ok(Err(instead))
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

/// Waits for the event that is the crash point. The proof, or what happened instead: as soon as it is certain that the
/// point is not reached any more.
async fn wait_for(
    stage: &Stage,
    crash: &Crash,
    live: &mut LiveSession,
) -> Result<Result<String, String>, TrialError> {
    let within = stage.drill.call.within;
    let deadline = Instant::now() + within.0;
    let mut signs = Signs::of(crash);
    let mut watch = stage.journal.watch();
    let mut answered = None;
    loop {
        // After its answer the server may still be at work, as long as anything comes of it.
        let patience = match answered {
            Some(_) => deadline.min(Instant::now() + stage.idle_for()),
            None => deadline,
        };
        let sign = watch.until(patience, |entry| Some(signs.read(entry))).await;
        match sign {
            Some(Some(Sign::Reached(proof))) => return Ok(Ok(proof)),
            Some(Some(Sign::Missed(instead))) => return Ok(Err(instead)),
            Some(Some(Sign::Answered(instead))) => answered = Some(instead),
            Some(Some(Sign::Ready)) => {
                if let Err(instead) = deliver(stage, live).await? {
                    return Ok(Err(instead));
                }
            }
            // A launcher that has gone has left somebody who serves.
            Some(Some(Sign::Ended)) if stage.is_gone(live) => {
                let ending = stage.lost(live).await.told();
                // Its answer may be told after its end.
                if answered.is_none() {
                    let last = |entry: &Entry| match signs.read(entry) {
                        Some(Sign::Answered(instead)) => Some(instead),
                        _ => None,
                    };
                    answered = watch.until(Instant::now(), last).await;
                }
                let instead = format!("{ending} before the point was reached");
                return Ok(Err(answered.unwrap_or(instead)));
            }
            Some(Some(Sign::Ended) | None) => {}
            None => break,
        }
    }
    Ok(Err(answered.unwrap_or_else(|| {
        let calls = gate::seen_so_far(stage).filter(|_| crash.at == CrashPoint::Syscall);
        let happened = calls.unwrap_or_else(|| requests_so_far(stage));
        format!("the point was not reached within {within}; {happened}")
    })))
}

/// The reply goes out, and its result is not read: the client has stopped reading before.
async fn deliver(stage: &Stage, live: &mut LiveSession) -> Result<Result<(), String>, TrialError> {
    let mut watch = stage.watch_from_here();
    live.stop_reading().await?;
    let stopped =
        |entry: &Entry| matches!(*entry.event, Event::ReadingStopped { .. }).then_some(());
    let deadline = Instant::now() + OBEYED_WITHIN;
    if watch.until(deadline, stopped).await.is_none() {
        return Ok(Err("the client did not stop reading".to_owned()));
    }
    if let Some(remote) = &stage.remote {
        remote.deliver();
    }
    Ok(Ok(()))
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

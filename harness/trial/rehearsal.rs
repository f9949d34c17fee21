//! The rehearsal: a clean run of the call on a stage of its own, to learn which of its connections carries the effect.
//!
//! A held connection shows no byte, so nobody can see from outside whether it is the one that matters.

use std::path::Path;
use std::sync::Arc;

use super::limit::within_limits;
use super::stage::Stage;
use super::{Surroundings, TrialError};
use crate::journal::{
    AnswerShape, CallRole, Event, Journal, Phase, Secrets, Session, Sought, hosts_sought,
};
use crate::remote::Hold;
use crate::session::Write;
use crate::spec::{Crash, Drill};

/// So many things are told that a rehearsal sought besides the remote.
const MOST_SOUGHT: usize = 20;

/// Runs the call once without a crash and returns what it did, as the event that tells of it: `rehearsed`, or
/// `limit-exceeded`. What it leaves goes into `folder`.
pub(super) async fn rehearse(
    drill: Arc<Drill>,
    surroundings: Surroundings,
    folder: &Path,
) -> Result<Event, TrialError> {
    let journal = Journal::create(&folder.join("journal.jsonl"), Secrets::default())?;
    rehearse_into(&journal, drill, None, surroundings, folder).await
}

/// The same, with a journal that the caller reads afterwards. `every`: what divides the call is looked for, as closely as
/// this crash says.
pub(super) async fn rehearse_into(
    journal: &Journal,
    drill: Arc<Drill>,
    every: Option<&Crash>,
    surroundings: Surroundings,
    folder: &Path,
) -> Result<Event, TrialError> {
    if let Some(crash) = every {
        journal.append(Event::TrialStarted {
            trial: format!("{} in rehearsal", drill.drill),
            drill: drill.drill.clone(),
            crash: crash.clone(),
            tool: super::TOOL.to_owned(),
            drill_sha256: None,
        });
    }
    let mut stage = Stage::prepare(drill, surroundings, folder, journal.clone()).await?;
    stage.is_gated = every.is_some_and(|crash| stage.drill.is_gated(crash));
    let cell = stage.cell.line().clone();
    let event = within_limits(journal, &cell, call(&mut stage)).await?;
    if let Some(remote) = stage.remote.take() {
        remote.stop().await;
    }
    stage.cell.end();
    Ok(event
        .or_else(|| exceeded(journal))
        .unwrap_or_else(|| rehearsed(journal, AnswerShape::Nothing, None)))
}

/// Where calls were made and none of them brought a request that makes an effect, a clean run of the call tells whether the
/// server knows the remote at all: one that does has lost a request, one that does not was never tested.
pub(super) async fn prove_reach(
    stage: &Stage,
    surroundings: &Surroundings,
) -> Result<(), TrialError> {
    let remote = stage.drill.remote.as_ref();
    let makes_effects =
        remote.is_some_and(|remote| remote.routes.iter().any(|route| route.effect.is_some()));
    let has = |is: fn(&Event) -> bool| {
        let found = stage.journal.latest(|entry| is(&entry.event).then_some(()));
        found.is_some()
    };
    let is_called = has(|e| {
        matches!(
            e,
            Event::CallIssued {
                role: CallRole::Main,
                ..
            }
        )
    });
    let is_known = has(|e| match e {
        Event::RequestReceived { effect, .. } => effect.is_some(),
        Event::Rehearsed { .. } => true,
        _ => false,
    });
    if !makes_effects || !is_called || is_known {
        return Ok(());
    }
    let folder = stage.rehearsal_folder()?;
    let event = rehearse(Arc::clone(&stage.drill), surroundings.clone(), &folder).await?;
    // A limit that it exceeded is none of this trial's sessions.
    if matches!(event, Event::Rehearsed { .. }) {
        stage.journal.append(event);
    }
    Ok(())
}

fn exceeded(journal: &Journal) -> Option<Event> {
    journal.latest(|entry| match (*entry.event).clone() {
        Event::LimitExceeded {
            limit,
            most,
            used,
            by,
            ..
        } => Some(Event::LimitExceeded {
            limit,
            most,
            used,
            by,
            rehearsal: true,
        }),
        _ => None,
    })
}

async fn call(stage: &mut Stage) -> Result<Event, TrialError> {
    let (drill, journal) = (Arc::clone(&stage.drill), stage.journal.clone());
    let Some(mut live) = stage.open(Session::A, &drill.call.before).await? else {
        return Ok(rehearsed(
            &journal,
            AnswerShape::Nothing,
            Some("the server did not start"),
        ));
    };
    if let Some(remote) = &stage.remote {
        remote.arm(Hold::Nothing, None).await?;
    }
    journal.append(Event::PhaseStarted { phase: Phase::Arm });
    if let Some(gate) = &stage.gate {
        gate.count(None);
    }
    let call_id = stage.identity(Session::A).call.clone();
    stage
        .issue(
            &mut live,
            Session::A,
            CallRole::Main,
            &drill.call,
            call_id.clone(),
            Write::Whole,
        )
        .await?;
    let answer = stage
        .answered(&live, CallRole::Main, &call_id, drill.call.within)
        .await;
    let event = rehearsed(&journal, answer, None);
    if matches!(
        event,
        Event::Rehearsed {
            connection: None,
            ..
        }
    ) && answer == AnswerShape::Result
    {
        // It may answer first, and write afterwards.
        stage.idle(drill.call.within.0).await;
        return Ok(rehearsed(&journal, answer, None));
    }
    Ok(event)
}

fn rehearsed(journal: &Journal, answer: AnswerShape, failure: Option<&str>) -> Event {
    let mut armed = false;
    let mut sought = Vec::new();
    let mut requests = Vec::new();
    let mut effect_on = None;
    let mut detail = failure.unwrap_or_default().to_owned();
    let mut hosts = Vec::new();
    journal.collect::<()>(|entry| {
        match &*entry.event {
            Event::PhaseStarted { phase: Phase::Arm } => armed = true,
            Event::ConnectionSought { connection, .. } if armed => sought.push(*connection),
            Event::RequestReceived {
                connection,
                method,
                target,
                effect,
                ..
            } if armed => {
                requests.push(format!("{method} {target}"));
                if effect.is_some() {
                    effect_on.get_or_insert(*connection);
                }
            }
            Event::CallAnswered {
                role: CallRole::Main,
                text,
                ..
            } => detail.clone_from(text),
            Event::HostSought { .. } => hosts.push(Arc::clone(&entry.event)),
            _ => {}
        }
        None
    });
    let connection = effect_on
        .and_then(|effect_on| {
            sought
                .iter()
                .position(|connection| *connection == effect_on)
        })
        .and_then(|index| u32::try_from(index + 1).ok());
    let hosts = hosts_sought(hosts.iter().map(|event| (0, &**event)));
    let sought = hosts
        .into_iter()
        .take(MOST_SOUGHT)
        .map(|sought| Sought {
            evidence: Vec::new(),
            ..sought
        })
        .collect();
    Event::Rehearsed {
        connection,
        requests,
        answer,
        detail: crate::journal::excerpt(&detail, 500),
        sought,
    }
}

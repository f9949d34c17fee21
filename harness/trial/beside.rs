//! The session beside: another one of the same command, opened before session A. It must not notice that session A is
//! crashed.
//!
//! It stays open while session B recovers, since a machine on which sessions live side by side is what the drill asks for;
//! its own call comes after that, so that session B finds what session A left and nothing else.

use std::sync::Arc;

use super::after::{end_politely, sweep};
use super::crash::Aftermath;
use super::stage::Stage;
use super::{TrialError, enter};
use crate::journal::{CallRole, Moment, Phase, Session, SessionFault};
use crate::session::{LiveSession, Write};

/// Opens it where the drill wants one. Whoever lives when it is open belongs to it.
pub(super) async fn open(stage: &mut Stage) -> Result<Option<LiveSession>, TrialError> {
    if !stage.drill.client.beside {
        return Ok(None);
    }
    let drill = Arc::clone(&stage.drill);
    stage.mint_beside()?;
    let live = stage.open(Session::Beside, &drill.call.before).await?;
    if let Some(live) = &live {
        stage
            .look(Moment::Beside, None, Session::Beside, live)
            .await?;
        let present = stage.cell.line().census()?;
        stage.bystanders = present.iter().map(|present| present.pid).collect();
    }
    Ok(live)
}

/// Session A is gone with all that it left. Where the server of the session beside has gone as well, that is noted now,
/// before another session could be blamed for it.
pub(super) async fn still_open(
    stage: &mut Stage,
    live: Option<LiveSession>,
) -> Result<Option<LiveSession>, TrialError> {
    let Some(live) = live else {
        return Ok(None);
    };
    if !stage.is_gone(&live) {
        return Ok(Some(live));
    }
    lost(stage, live, "while session A was there").await?;
    Ok(None)
}

async fn lost(stage: &mut Stage, live: LiveSession, when: &str) -> Result<(), TrialError> {
    let ending = stage.lost(&live).await.told();
    live.failed(SessionFault::Lost, format!("{ending} {when}"));
    live.leave().await?;
    stage.bystanders.clear();
    sweep(stage).await
}

/// When session B is over as well, the session beside makes its call, as if nothing had happened, and ends.
pub(super) async fn call(
    stage: &mut Stage,
    live: Option<LiveSession>,
    aftermath: &Aftermath,
) -> Result<(), TrialError> {
    let Some(mut live) = live else {
        return Ok(());
    };
    let drill = Arc::clone(&stage.drill);
    enter(&stage.journal, Phase::Beside);
    if stage.is_gone(&live) {
        return lost(stage, live, "while session B was there").await;
    }
    let call_id = stage.identity(Session::Beside).call.clone();
    let (session, role) = (Session::Beside, CallRole::Main);
    stage
        .issue(
            &mut live,
            session,
            role,
            &drill.call,
            call_id.clone(),
            Write::Whole,
        )
        .await?;
    stage
        .answered(&live, role, &call_id, drill.call.within)
        .await;
    end_politely(stage, live, aftermath).await?;
    stage.bystanders.clear();
    sweep(stage).await?;
    stage.read_record(Moment::AfterBeside);
    stage.search_logs(session)
}

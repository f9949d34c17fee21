//! After the crash: revoke, verify, stop; the session that recovers; the session that comes with a revoked credential.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::crash::{Aftermath, survivors};
use super::settled::outcome_noted;
use super::stage::Stage;
use super::{TrialError, enter};
use crate::journal::{AnswerShape, CallRole, Event, Moment, Phase, Session};
use crate::session::{LiveSession, Write};
use crate::spec::{Call, Crash, Recovery, Revocable, Signal, Stream};

/// Who revokes.
pub(super) const OPERATOR: &str = "the drill, as the operator";

/// Between SIGTERM and SIGKILL.
const TERM_WITHIN: Duration = Duration::from_secs(2);

/// A killed process has ended by then.
const KILL_WITHIN: Duration = Duration::from_secs(5);

/// A server that has already shown that it does not end at EOF is not waited for again as long.
const IMPATIENT: Duration = Duration::from_millis(500);

/// Requests for the tools, of which session A makes one: so session B's ids are not session A's.
const SHIFTS: u32 = 3;

/// Revokes run A, watches the survivors' attempts, and stops them: SIGTERM, a look, SIGKILL.
pub(super) async fn revoke_and_stop(
    stage: &mut Stage,
    live: &LiveSession,
    aftermath: &Aftermath,
) -> Result<(), TrialError> {
    if let Some(within) = revocation_within(stage) {
        enter(&stage.journal, Phase::Revoke);
        revoke(stage).await?;
        wait_until_empty(stage, aftermath, Instant::now() + within).await?;
    }
    enter(&stage.journal, Phase::Stop);
    let survivors_of_term = signal_survivors(stage, aftermath, Signal::Term)?;
    if survivors_of_term {
        wait_until_empty(stage, aftermath, Instant::now() + TERM_WITHIN).await?;
        stage
            .look(Moment::AfterTerm, None, Session::A, live)
            .await?;
        if signal_survivors(stage, aftermath, Signal::Kill)? {
            wait_until_empty(stage, aftermath, Instant::now() + KILL_WITHIN).await?;
        }
        stage
            .look(Moment::AfterStop, None, Session::A, live)
            .await?;
    }
    outcome_noted(stage).await?;
    stage.read_record(Moment::AfterStop);
    sweep(stage).await
}

/// Revokes what the drill says, in the order of the lives: the credential, and then the run. Each is tried afterwards.
async fn revoke(stage: &mut Stage) -> Result<(), TrialError> {
    let drill = Arc::clone(&stage.drill);
    let asked = |of| {
        drill
            .expect
            .revocation
            .ask()
            .is_some_and(|asked| asked.of.contains(&of))
    };
    let (run, by) = (Session::A, OPERATOR.to_owned());
    if asked(Revocable::Credential) {
        stage.authority.revoke_credential(run);
        let of = Revocable::Credential;
        stage.journal.append(Event::Revoked {
            run,
            of,
            by: by.clone(),
        });
        probe(stage).await;
    }
    if asked(Revocable::Run) {
        // Where the authority stands outside, only its own word counts.
        if stage.revoke_by_command().await? == Some(false) {
            return Ok(());
        }
        stage.authority.revoke(run);
        let of = Revocable::Run;
        stage.journal.append(Event::Revoked { run, of, by });
        probe(stage).await;
    }
    if let Some(remote) = &stage.remote {
        remote.give_decisions();
    }
    Ok(())
}

/// With the credential that the server was given, where it was given one.
async fn probe(stage: &Stage) {
    let authority = stage.drill.authority.as_ref();
    let is_outside = authority.is_some_and(|authority| authority.commands().is_some());
    let holds_none = is_outside && !stage.operator.hands_tokens;
    if let Some(remote) = stage.remote.as_ref().filter(|_| !holds_none) {
        remote.probe(&stage.identity(Session::A).token).await;
    }
}

/// `revocation.within`, where there is something to revoke and the question is asked.
fn revocation_within(stage: &Stage) -> Option<Duration> {
    stage.drill.authority.as_ref()?;
    Some(stage.drill.expect.revocation.ask()?.within.0)
}

/// Signals every survivor by its pid; true when there was one.
fn signal_survivors(
    stage: &Stage,
    aftermath: &Aftermath,
    signal: Signal,
) -> Result<bool, TrialError> {
    let survivors = survivors(stage, &aftermath.clients)?;
    for survivor in &survivors {
        stage.journal.append(Event::SignalSent {
            pid: survivor.pid,
            signal,
            comm: survivor.comm.clone(),
        });
        stage.cell.line().signal(survivor.pid, signal)?;
    }
    Ok(!survivors.is_empty())
}

async fn wait_until_empty(
    stage: &Stage,
    aftermath: &Aftermath,
    deadline: Instant,
) -> Result<(), TrialError> {
    let mut watch = stage.watch_from_here();
    while !survivors(stage, &aftermath.clients)?.is_empty() {
        let exited = watch
            .until(deadline, |entry| {
                matches!(*entry.event, Event::ProcessExited { .. }).then_some(())
            })
            .await;
        if exited.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

/// Ends whoever is left of a session, the client's side too: the next one finds nobody but the session beside.
pub(super) async fn sweep(stage: &Stage) -> Result<(), TrialError> {
    let deadline = Instant::now() + KILL_WITHIN;
    let mut watch = stage.watch_from_here();
    loop {
        let mut present = stage.cell.line().census()?;
        stage.leave_out_bystanders(&mut present);
        if present.is_empty() {
            // What this session had sent is this session's, also where the remote gets to it late.
            if let Some(remote) = &stage.remote {
                remote.settle().await;
            }
            return Ok(());
        }
        for process in present {
            stage.cell.line().signal(process.pid, Signal::Kill)?;
        }
        let exited = watch
            .until(deadline, |entry| {
                matches!(*entry.event, Event::ProcessExited { .. }).then_some(())
            })
            .await;
        if exited.is_none() {
            return Err(TrialError::Prepare(
                "a process did not end by SIGKILL".to_owned(),
            ));
        }
    }
}

/// Session B: a new client, server and credential, and what the drill says recovers.
pub(super) async fn recover(
    stage: &mut Stage,
    crash: &Crash,
    aftermath: &Aftermath,
) -> Result<(), TrialError> {
    let drill = Arc::clone(&stage.drill);
    let Some(recover) = &drill.recover else {
        return Ok(());
    };
    let call = match &recover.how {
        Recovery::Retry(_) | Recovery::Operator(_) => drill.call.clone(),
        Recovery::Tool {
            tool,
            arguments,
            correlation,
        } => Call {
            tool: tool.clone(),
            arguments: arguments.clone(),
            correlation: correlation.clone(),
            within: drill.call.within,
            before: Vec::new(),
        },
    };
    let before = recover.before.as_ref().unwrap_or(&drill.call.before);
    enter(&stage.journal, Phase::SessionB);
    stage.mint_recovery()?;
    if let Some(mut live) = stage.open(Session::B, before).await? {
        stage.list_tools(&mut live, SHIFTS).await?;
        let (session, role) = (Session::B, CallRole::Main);
        if !drill.only_looks_back(crash) {
            let call_id = stage.identity(session).call.clone();
            let (id, whole) = (call_id.clone(), Write::Whole);
            stage
                .issue(&mut live, session, role, &call, id, whole)
                .await?;
            stage.answered(&live, role, &call_id, call.within).await;
        }
        stage.look(Moment::Recovered, None, session, &live).await?;
        end_politely(stage, live, aftermath).await?;
    }
    sweep(stage).await?;
    stage.read_record(Moment::AfterSessionB);
    stage.search_logs(Session::B)
}

/// A session with run A's credential and run id, after both were revoked: its call must be refused. Whether there was one.
pub(super) async fn try_revoked_session(
    stage: &mut Stage,
    aftermath: &Aftermath,
) -> Result<bool, TrialError> {
    if revocation_within(stage).is_none() {
        return Ok(false);
    }
    let drill = Arc::clone(&stage.drill);
    let call = drill
        .expect
        .revocation
        .ask()
        .and_then(|asked| asked.call.as_ref());
    let call = call.unwrap_or(&drill.call);
    enter(&stage.journal, Phase::RevokedSession);
    stage.read_record(Moment::BeforeRevokedSession);
    stage.read_refusals(Moment::BeforeRevokedSession).await?;
    stage.mint_revoked();
    if let Some(mut live) = stage.open(Session::Revoked, &call.before).await? {
        let call_id = stage.identity(Session::Revoked).call.clone();
        let (session, role) = (Session::Revoked, CallRole::Main);
        stage
            .issue(
                &mut live,
                session,
                role,
                call,
                call_id.clone(),
                Write::Whole,
            )
            .await?;
        let first = stage.answered(&live, role, &call_id, call.within).await;
        if first != AnswerShape::Nothing {
            try_again(stage, &mut live, call).await?;
        }
        end_politely(stage, live, aftermath).await?;
    }
    sweep(stage).await?;
    stage.read_record(Moment::AfterRevokedSession);
    stage.read_refusals(Moment::AfterRevokedSession).await?;
    stage.search_logs(Session::Revoked)?;
    Ok(true)
}

/// Refused once is not refused for good, and recorded once is not recorded always: the call is made a second time.
async fn try_again(stage: &Stage, live: &mut LiveSession, call: &Call) -> Result<(), TrialError> {
    let (session, role) = (Session::Revoked, CallRole::Again);
    let call_id = super::stage::name("call");
    stage
        .issue(live, session, role, call, call_id.clone(), Write::Whole)
        .await?;
    stage.answered(live, role, &call_id, call.within).await;
    Ok(())
}

/// As a client does that is done: closes stdin and lets the server end.
pub(super) async fn end_politely(
    stage: &Stage,
    mut live: LiveSession,
    aftermath: &Aftermath,
) -> Result<(), TrialError> {
    let within = stage
        .drill
        .expect
        .eof
        .ask()
        .map_or(IMPATIENT, |eof| eof.within.0);
    let within = if aftermath.in_time {
        within
    } else {
        within.min(IMPATIENT)
    };
    let server = stage.serving(&live);
    // A client that has already gone cannot be asked; the sweep that follows ends what is left.
    if live.close(Stream::Stdin).await.is_ok() {
        stage
            .journal
            .watch()
            .until(Instant::now() + within, |entry| match &*entry.event {
                Event::ProcessExited { pid, .. } if *pid == server => Some(()),
                _ => None,
            })
            .await;
    }
    Ok(live.leave().await?)
}

//! Doing what the crash says: to the client, to the server, or to what the client holds.

use std::time::Duration;

use tokio::time::Instant;

use super::stage::Stage;
use super::{TrialError, still};
use crate::journal::{Event, Pid, Stamp, Watch};
use crate::session::LiveSession;
use crate::spec::{Crash, Kill, Sdk, Signal};

/// A process that was sent a deadly signal has ended by then, or the machine is at fault.
const DEAD_WITHIN: Duration = Duration::from_secs(10);

/// Whether the client lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientIs {
    Gone,
    /// It holds what it held, but for what it has closed.
    There,
    /// It shuts the server down, and goes when that has ended.
    Leaving,
}

/// Does what the crash says.
pub(super) async fn fire(
    stage: &Stage,
    crash: &Crash,
    live: &mut LiveSession,
) -> Result<ClientIs, TrialError> {
    if !crash.close.is_empty() {
        return close(stage, crash, live).await;
    }
    match crash.kill {
        Kill::Client => kill_client(stage, crash.signal, live, false).await,
        Kill::Group => kill_client(stage, crash.signal, live, true).await,
        Kill::Server => {
            kill_server(stage, crash.signal, live, Also::Nobody).await?;
            live.read_on().await?;
            Ok(ClientIs::There)
        }
        Kill::Both => {
            kill_server(stage, crash.signal, live, Also::Client).await?;
            await_client(stage, crash.signal, live).await
        }
        Kill::Polite(sdk) => shut_down(stage, sdk, live).await,
    }
}

async fn close(
    stage: &Stage,
    crash: &Crash,
    live: &mut LiveSession,
) -> Result<ClientIs, TrialError> {
    let names: Vec<String> = crash
        .close
        .iter()
        .map(|stream| format!("{stream:?}").to_lowercase())
        .collect();
    let mut watch = stage.watch_from_here();
    fired(
        stage,
        Stamp::now(),
        format!("the client closes {}", names.join(", ")),
        live.client(),
    );
    for (stream, name) in crash.close.iter().zip(names) {
        live.close(*stream).await?;
        closed(&mut watch, &name).await?;
    }
    // It had stopped for the sake of the point. Now that it is reached, a client that lives reads what comes.
    live.read_on().await?;
    Ok(ClientIs::There)
}

async fn closed(watch: &mut Watch, name: &str) -> Result<(), TrialError> {
    let closed = watch
        .until(Instant::now() + DEAD_WITHIN, |entry| match &*entry.event {
            Event::ClientClosed { stream, .. } if *stream == name => Some(()),
            _ => None,
        })
        .await;
    closed.ok_or_else(|| TrialError::Prepare(format!("the client did not close {name}")))
}

async fn kill_client(
    stage: &Stage,
    signal: Signal,
    live: &mut LiveSession,
    group: bool,
) -> Result<ClientIs, TrialError> {
    let (client, cell) = (live.client(), stage.cell.line());
    let whom = if group {
        "the client's process group"
    } else {
        "the client"
    };
    let sent = if group {
        cell.signal_group(client, signal)?
    } else {
        cell.signal(client, signal)?
    };
    let Some(sent) = sent else {
        return Err(TrialError::Prepare(
            "the client had ended before the crash".to_owned(),
        ));
    };
    fired(
        stage,
        sent,
        format!("{} to {whom}", name_of(signal)),
        client,
    );
    await_client(stage, signal, live).await
}

/// Who is killed with the server.
#[derive(PartialEq, Eq)]
enum Also {
    Nobody,
    /// In the same moment, so that it cannot act on the server's end.
    Client,
}

async fn kill_server(
    stage: &Stage,
    signal: Signal,
    live: &LiveSession,
    also: Also,
) -> Result<(), TrialError> {
    let (server, cell) = (stage.serving(live), stage.cell.line());
    let whom = match also {
        Also::Nobody => "the server",
        Also::Client => "the server and to the client",
    };
    let mut watch = stage.watch_from_here();
    if also == Also::Client && signal == Signal::Kill {
        // A client that runs could reap the server and die before it tells how that ended.
        stop(stage, live.client()).await?;
    }
    let Some(sent) = cell.signal(server, signal)? else {
        return Err(TrialError::Prepare(
            "the server had ended before the crash".to_owned(),
        ));
    };
    fired(
        stage,
        sent,
        format!("{} to {whom}", name_of(signal)),
        server,
    );
    if also == Also::Client {
        cell.signal(live.client(), signal)?;
    }
    if signal == Signal::Kill {
        exit_of(&mut watch, server)
            .await
            .ok_or_else(|| TrialError::Prepare("the server did not end by SIGKILL".to_owned()))?;
    }
    Ok(())
}

async fn stop(stage: &Stage, pid: Pid) -> Result<(), TrialError> {
    let cell = stage.cell.line();
    cell.signal(pid, Signal::Stop)?;
    if still::stopped_in_time(stage, &[pid]).await? {
        Ok(())
    } else {
        let because = "the client did not stop".to_owned();
        Err(TrialError::Prepare(because))
    }
}

/// Waits for the client's end, where this signal ends it, and for all that it had told.
async fn await_client(
    stage: &Stage,
    signal: Signal,
    live: &mut LiveSession,
) -> Result<ClientIs, TrialError> {
    if signal == Signal::Stop {
        return Ok(ClientIs::There);
    }
    let name = name_of(signal);
    let gone = client_gone(stage, live, Instant::now() + DEAD_WITHIN).await;
    if gone {
        Ok(ClientIs::Gone)
    } else {
        let because = format!("the client did not end by {name}");
        Err(TrialError::Prepare(because))
    }
}

/// Waits until the client has ended and all that it told is in the journal, and notes it. False when the deadline came.
pub(super) async fn client_gone(stage: &Stage, live: &mut LiveSession, deadline: Instant) -> bool {
    let client = live.client();
    let mut watch = stage.journal.watch();
    let exit = watch
        .until(deadline, |entry| match &*entry.event {
            Event::ProcessExited { pid, exit, .. } if *pid == client => Some((entry.at, *exit)),
            _ => None,
        })
        .await;
    let Some((at, exit)) = exit else { return false };
    live.drained().await;
    let gone = Event::ClientGone { pid: client, exit };
    stage.journal.append_at(at, gone);
    true
}

async fn exit_of(watch: &mut Watch, of: Pid) -> Option<()> {
    let is_exit = |event: &Event| matches!(event, Event::ProcessExited { pid, .. } if *pid == of);
    watch
        .until(Instant::now() + DEAD_WITHIN, |entry| {
            is_exit(&entry.event).then_some(())
        })
        .await
}

async fn shut_down(
    stage: &Stage,
    sdk: Sdk,
    live: &mut LiveSession,
) -> Result<ClientIs, TrialError> {
    let whose = match sdk {
        Sdk::Typescript => "TypeScript",
        Sdk::Python => "Python",
        Sdk::Rust => "Rust",
    };
    let action = format!("the client shuts the server down as the {whose} SDK does");
    let mut watch = stage.watch_from_here();
    fired(stage, Stamp::now(), action, live.client());
    live.shut_down(sdk).await?;
    closed(&mut watch, "stdin").await?;
    Ok(ClientIs::Leaving)
}

/// A signal is on its way before the cell can tell of it, and what comes of it may be told first.
fn fired(stage: &Stage, when: Stamp, action: String, pid: Pid) {
    let crash = Event::CrashFired { action, pid };
    stage.journal.append_at(when, crash);
}

fn name_of(signal: Signal) -> &'static str {
    nix::sys::signal::Signal::from(signal).as_str()
}

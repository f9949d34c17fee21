//! Ctrl-C: the first one ends the trials in order, the second one ends the program at once.
//!
//! Either way nothing is left behind: a cell ends itself when the harness has gone.

use std::io::{self, Write as _};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::exit::Ended;

/// Listens for SIGINT, SIGTERM and SIGHUP for the rest of the program.
pub fn listen() -> io::Result<watch::Receiver<bool>> {
    let (interrupt, interrupted) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = {
        let _inside = runtime.enter();
        [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ]
        .map(signal)
        .into_iter()
        .collect::<io::Result<Vec<_>>>()?
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                next(&mut signals).await;
                interrupt.send_replace(true);
                // Not `eprintln!`: it panics where the terminal has gone, which is just what SIGHUP says.
                let _ = writeln!(
                    io::stderr(),
                    "cargo-drill: interrupted; ending the trials (once more to stop at once)"
                );
                next(&mut signals).await;
                std::process::exit(Ended::Interrupted as i32);
            });
        })?;
    Ok(interrupted)
}

async fn next(signals: &mut [tokio::signal::unix::Signal]) {
    let [interrupt, terminate, hangup] = signals else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

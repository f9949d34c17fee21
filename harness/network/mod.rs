//! The network of a cell besides the remote: a resolver that knows no name, and addresses at which nobody listens.
//!
//! ```text
//!   server ── a name? ──> resolver ── no such name ──> server
//!      │                     └────────> notes ──> journal: what was sought, and by which process
//!      └── SYN, UDP ─────> contacts ── refused ──────> server
//! ```
//!
//! A server that is written for one host cannot reach the drill's remote. This tells what it sought instead. It has a
//! thread of its own: what a server asks is answered however busy the trial is, and no crash point waits for it.
//!
//! Nothing that arrives is trusted: messages, names and their number are bounded.
#![forbid(unsafe_code)]

mod contacts;
mod dns;
mod frame;
mod notes;
mod packets;
mod resolver;
mod tally;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::cell::{Line, NetworkDoor};
use crate::journal::Journal;

pub(crate) use frame::{Packet, set_tcp_checksum};
pub(crate) use packets::PacketSocket;

use notes::Notes;

/// Serves until it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    /// `None` where there is nothing to serve.
    pub fn start(door: NetworkDoor, line: &Line, journal: &Journal) -> io::Result<Option<Self>> {
        if door.is_shut() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let notes = Arc::new(Notes::new(line.clone(), journal.clone()));
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || runtime.block_on(serve(door, notes, stopped)))?;
        Ok(Some(Self {
            stop: Some(stop),
            thread: Some(thread),
        }))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves until `stopped`, and then writes down what was only counted.
async fn serve(door: NetworkDoor, notes: Arc<Notes>, stopped: oneshot::Receiver<()>) {
    tokio::select! {
        _ = stopped => {}
        Err(error) = serve_all(door, &notes) => {
            notes.fail(format!("the network of the cell failed: {error}"));
        }
    }
    notes.close();
}

/// Ends only where something fails, or where there is nothing to serve.
async fn serve_all(door: NetworkDoor, notes: &Arc<Notes>) -> io::Result<()> {
    let NetworkDoor { resolver, contacts } = door;
    let names = async {
        let Some((datagrams, connections)) = resolver else {
            return Ok(());
        };
        tokio::try_join!(
            resolver::datagrams(datagrams, Arc::clone(notes)),
            resolver::connections(connections, Arc::clone(notes)),
        )?;
        Ok(())
    };
    let watching = async {
        match contacts {
            Some(socket) => contacts::watch(socket, Arc::clone(notes)).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(names, watching)?;
    Ok(())
}

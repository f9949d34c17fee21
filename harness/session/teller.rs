//! How the client tells the harness what happens: in order, and never more than the harness can take.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::message::Told;

/// Of what a server writes, this much may be on its way to the harness. A server that floods is read at the speed at which
/// the harness keeps what comes, and the client does not grow.
const ON_ITS_WAY: usize = 4 * 1024 * 1024;

/// Tells the harness. Cheap to clone.
#[derive(Clone)]
pub(super) struct Teller {
    things: mpsc::UnboundedSender<Thing>,
    room: Arc<Semaphore>,
}

struct Thing {
    told: Told,
    /// The room that it takes up until it is passed on.
    _room: Option<OwnedSemaphorePermit>,
}

/// What is told and not yet passed on.
pub(super) struct Things(mpsc::UnboundedReceiver<Thing>);

pub(super) fn teller() -> (Teller, Things) {
    let (things, told) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ON_ITS_WAY));
    (Teller { things, room }, Things(told))
}

impl Teller {
    /// Tells something of the client's own.
    pub fn tell(&self, told: Told) {
        self.send(told, None);
    }

    /// Tells what a server wrote, once there is room for it.
    pub async fn tell_bulk(&self, told: Told, bytes: usize) {
        let room = u32::try_from(bytes.min(ON_ITS_WAY)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let room = Arc::clone(&self.room).acquire_many_owned(room).await.ok();
        self.send(told, room);
    }

    fn send(&self, told: Told, room: Option<OwnedSemaphorePermit>) {
        // Without a harness there is nobody to tell.
        let _ = self.things.send(Thing { told, _room: room });
    }
}

impl Things {
    /// Writes each thing as a line, until the harness has gone, or the last thing is written.
    pub async fn pass_on(mut self, mut harness: impl AsyncWrite + Unpin) -> io::Result<()> {
        while let Some(thing) = self.0.recv().await {
            let mut line = serde_json::to_vec(&thing.told)?;
            line.push(b'\n');
            harness.write_all(&line).await?;
            if matches!(thing.told, Told::ShutDown) {
                break;
            }
        }
        Ok(())
    }
}

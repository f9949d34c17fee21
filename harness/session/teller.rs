//! How the client tells the harness what happens: in order, and never more than the harness can take.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::message::{Timed, Told};
use crate::journal::Stamp;

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
    timed: Timed,
    /// The room that it takes up until it is passed on.
    _room: Option<OwnedSemaphorePermit>,
    /// Whose other end shows that it is passed on.
    _passing: Option<oneshot::Sender<()>>,
}

/// What is told and not yet passed on.
pub(super) struct Things(mpsc::UnboundedReceiver<Thing>);

pub(super) fn teller() -> (Teller, Things) {
    let (things, told) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ON_ITS_WAY));
    (Teller { things, room }, Things(told))
}

impl Teller {
    /// Tells something of the client's own that happens now.
    pub fn tell(&self, told: Told) {
        self.tell_at(Stamp::now(), told);
    }

    /// The same of something that has happened.
    pub fn tell_at(&self, at: Stamp, told: Told) {
        self.send(Timed { at, told }, None, None);
    }

    /// The same, and returns when it is passed on: from then on it is told, whatever becomes of the client.
    pub async fn tell_surely(&self, at: Stamp, told: Told) {
        let (passing, passed) = oneshot::channel();
        self.send(Timed { at, told }, None, Some(passing));
        // An error says that the other end is gone, which is what is waited for.
        let _ = passed.await;
    }

    /// Tells what a server wrote and the client has read at `at`, once there is room for it.
    pub async fn tell_bulk(&self, at: Stamp, told: Told, bytes: usize) {
        let room = u32::try_from(bytes.min(ON_ITS_WAY)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let room = Arc::clone(&self.room).acquire_many_owned(room).await.ok();
        self.send(Timed { at, told }, room, None);
    }

    fn send(
        &self,
        timed: Timed,
        room: Option<OwnedSemaphorePermit>,
        passing: Option<oneshot::Sender<()>>,
    ) {
        // Without a harness there is nobody to tell.
        let _ = self.things.send(Thing {
            timed,
            _room: room,
            _passing: passing,
        });
    }
}

impl Things {
    /// Writes each thing as a line, until the harness has gone, or the last thing is written.
    pub async fn pass_on(mut self, mut harness: impl AsyncWrite + Unpin) -> io::Result<()> {
        while let Some(thing) = self.0.recv().await {
            let mut line = serde_json::to_vec(&thing.timed)?;
            line.push(b'\n');
            harness.write_all(&line).await?;
            if matches!(thing.timed.told, Told::ShutDown) {
                break;
            }
        }
        Ok(())
    }
}

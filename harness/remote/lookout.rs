//! The lookout: notices who reaches for the remote while its queue is full. The listener itself is told nothing of a
//! SYN that the kernel drops.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::packet::{Packets, Seen};
use super::queue::{OwnPorts, blocking};

/// How often `/proc/net/tcp` is read where there is no packet socket.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The same once somebody waits: when that one gives up is not urgent, and the table is the whole machine's.
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(10);

/// The local ports in the cell that are in `SYN_SENT` towards the remote.
pub(super) type Connecting = Arc<dyn Fn() -> io::Result<Vec<u16>> + Send + Sync>;

/// Somebody reached for the remote and is kept waiting by the kernel.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Its local port.
    pub port: u16,
    /// The SYN, where it was seen; where not, the kernel's own repetition is waited for.
    frame: Option<Vec<u8>>,
}

impl Attempt {
    /// Whether its SYN can be sent once more.
    pub fn can_be_repeated(&self) -> bool {
        self.frame.is_some()
    }
}

/// Sees attempts, in the order in which they are made.
pub(super) struct Lookout {
    sight: Sight,
    own: OwnPorts,
    /// Seen while something else was looked for.
    waiting: VecDeque<Attempt>,
}

enum Sight {
    Packets(Packets),
    Table(Table),
}

/// `/proc/net/tcp`, read again and again.
struct Table {
    connecting: Connecting,
    known: HashSet<u16>,
    news: VecDeque<Seen>,
}

impl Lookout {
    pub fn new(
        packets: Option<OwnedFd>,
        connecting: Connecting,
        port: u16,
        own: OwnPorts,
    ) -> io::Result<Self> {
        let sight = match packets {
            Some(socket) => Sight::Packets(Packets::new(socket, port)?),
            None => Sight::Table(Table {
                connecting,
                known: HashSet::new(),
                news: VecDeque::new(),
            }),
        };
        Ok(Self {
            sight,
            own,
            waiting: VecDeque::new(),
        })
    }

    /// Forgets what was before.
    pub fn start(&mut self) -> io::Result<()> {
        self.waiting.clear();
        match &mut self.sight {
            Sight::Packets(packets) => packets.drain(),
            Sight::Table(table) => {
                table.known.clear();
                table.news.clear();
                Ok(())
            }
        }
    }

    /// The next attempt. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> io::Result<Attempt> {
        loop {
            if let Some(attempt) = self.waiting.pop_front() {
                return Ok(attempt);
            }
            self.look(None).await?;
        }
    }

    /// Returns when whoever reached for the remote from this port is not reaching any more: given up, or let in.
    pub async fn ended(&mut self, port: u16) -> io::Result<()> {
        while !self.look(Some(port)).await? {}
        Ok(())
    }

    /// Lets the kernel see the attempt once more. There is room in the queue now.
    pub fn send_again(&self, attempt: &Attempt) -> io::Result<()> {
        match (&self.sight, &attempt.frame) {
            (Sight::Packets(packets), Some(frame)) => packets.send_again(frame),
            _ => Ok(()),
        }
    }

    /// Whether the port asked for has ended.
    async fn look(&mut self, ended: Option<u16>) -> io::Result<bool> {
        let seen = match &mut self.sight {
            Sight::Packets(packets) => packets.next().await?,
            Sight::Table(table) => table.next().await?,
        };
        match seen {
            Seen::Reset { port } => return Ok(ended == Some(port)),
            Seen::Attempt { port, frame } if !self.own.contains(port) => {
                let frame = (!frame.is_empty()).then_some(frame);
                self.waiting.push_back(Attempt { port, frame });
            }
            Seen::Attempt { .. } => {}
        }
        Ok(false)
    }
}

impl Table {
    async fn next(&mut self) -> io::Result<Seen> {
        loop {
            if let Some(seen) = self.news.pop_front() {
                return Ok(seen);
            }
            // The kernel tells nobody of a socket that enters SYN_SENT.
            let pause = if self.known.is_empty() {
                LOOK_EVERY
            } else {
                LOOK_AGAIN_EVERY
            };
            tokio::time::sleep(pause).await;
            let connecting = Arc::clone(&self.connecting);
            let now: HashSet<u16> = blocking(move || connecting()).await?.into_iter().collect();
            for &port in self.known.difference(&now) {
                self.news.push_back(Seen::Reset { port });
            }
            for &port in now.difference(&self.known) {
                let frame = Vec::new();
                self.news.push_back(Seen::Attempt { port, frame });
            }
            self.known = now;
        }
    }
}

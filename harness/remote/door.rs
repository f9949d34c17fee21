//! The door: accepts connections, or keeps them waiting at the kernel's.
//!
//! ```text
//!   open      accept ──> serve
//!
//!   watched   the filler stands in the queue, nobody else gets in
//!             attempt seen ──> sought ──> at_dispatch ──┬──> let through: filler out, SYN again, accept,
//!                                                       │      new filler, serve
//!                                                       └──> held, with all that come later, until the release
//! ```
//!
//! One task owns the listener, so all of this happens one thing after another.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{Backlog, listen};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::journal::{Event, Journal};

use super::connection::serve;
use super::front::Front;
use super::lookout::{Attempt, Filler, Lookout, OwnPorts, Sockets, blocking};
use super::{AtDispatch, Hold, Inlet};

/// A connection that is let through arrives at once, or at the kernel's next repetition of its SYN (1 s, 3 s, 7 s after
/// the first).
const LET_THROUGH_WITHIN: Duration = Duration::from_secs(10);

/// Between a connecting socket's end and its place in the queue, if it got one, there is no more than a wake-up.
const QUEUED_WITHIN: Duration = Duration::from_millis(20);

/// How often the filler is placed again where others are quicker.
const PLACINGS: usize = 100;

/// Out of descriptors or memory: the next accept would fail at once as well.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(10);

enum Command {
    Arm {
        hold: Hold,
        at_dispatch: Option<AtDispatch>,
        done: oneshot::Sender<io::Result<()>>,
    },
    Release {
        done: oneshot::Sender<()>,
    },
}

/// The way to the task that owns the listener. Dropping it ends the task and all connections.
#[derive(Debug)]
pub(super) struct Door {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
    own: OwnPorts,
}

impl Door {
    pub fn open(inlet: Inlet, front: Arc<Front>, journal: Journal) -> io::Result<Self> {
        inlet.listener.set_nonblocking(true)?;
        let direct = inlet.listener.try_clone()?;
        let listener = TcpListener::from_std(inlet.listener)?;
        let own = OwnPorts::default();
        let keeper = Keeper {
            listener,
            direct,
            port: inlet.port,
            sockets: inlet.sockets,
            lookout: Lookout::new(inlet.packets, inlet.connecting, inlet.port, own.clone())?,
            own: own.clone(),
            front,
            journal,
            connections: 0,
            reaching: HashMap::new(),
            slipped: HashSet::new(),
            serving: JoinSet::new(),
        };
        keeper.set_backlog(Backlog::MAXCONN)?;
        let (commands, received) = mpsc::channel(1);
        Ok(Self {
            commands,
            task: tokio::spawn(keeper.keep(received)),
            own,
        })
    }

    pub async fn arm(&self, hold: Hold, at_dispatch: Option<AtDispatch>) -> io::Result<()> {
        let (done, armed) = oneshot::channel();
        let command = Command::Arm {
            hold,
            at_dispatch,
            done,
        };
        let gone = || io::Error::other("the remote was stopped");
        self.commands.send(command).await.map_err(|_| gone())?;
        armed.await.map_err(|_| gone())?
    }

    pub async fn release(&self) {
        let (done, released) = oneshot::channel();
        // Fails only where the task has ended, and then nothing is held.
        if self.commands.send(Command::Release { done }).await.is_ok() {
            let _ = released.await;
        }
    }

    pub fn own_ports(&self) -> Vec<u16> {
        self.own.list()
    }

    pub async fn stop(mut self) {
        self.task.abort();
        // Cancelled, as was asked.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Keeper {
    listener: TcpListener,
    /// The same socket: asks the kernel what is in the queue now, not tokio what it knows of it.
    direct: StdTcpListener,
    port: u16,
    sockets: Sockets,
    lookout: Lookout,
    own: OwnPorts,
    front: Arc<Front>,
    journal: Journal,
    /// Connections so far.
    connections: u32,
    /// Sought and not accepted yet, by local port.
    reaching: HashMap<u16, u32>,
    /// Accepted before the lookout spoke of them.
    slipped: HashSet<u16>,
    serving: JoinSet<()>,
}

/// What is done with attempts while the door is watched.
struct Watching {
    filler: Filler,
    /// The nth from now on is held, and all that come after it.
    nth: Option<u32>,
    at_dispatch: Option<AtDispatch>,
    attempts: u32,
    held: Vec<(u32, Attempt)>,
}

impl Keeper {
    async fn keep(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    None => return,
                    Some(Command::Release { done }) => {
                        self.front.gate.release();
                        let _ = done.send(());
                    }
                    Some(Command::Arm { hold, at_dispatch, done }) => {
                        self.front.gate.arm(hold);
                        let nth = match hold {
                            Hold::Connection { nth } => Some(nth),
                            Hold::Nothing | Hold::Request | Hold::Reply => None,
                        };
                        if nth.is_none() && at_dispatch.is_none() {
                            let _ = done.send(Ok(()));
                            continue;
                        }
                        match self.close().await {
                            Err(error) => {
                                let _ = self.set_backlog(Backlog::MAXCONN);
                                let _ = done.send(Err(error));
                            }
                            Ok(filler) => {
                                let _ = done.send(Ok(()));
                                let watching = Watching {
                                    filler,
                                    nth,
                                    at_dispatch,
                                    attempts: 0,
                                    held: Vec::new(),
                                };
                                if let Err(error) = self.watch(watching, &mut commands).await {
                                    self.journal.append(Event::TrialFailed {
                                        because: format!("failed to watch the remote's door: {error}"),
                                    });
                                    let _ = self.set_backlog(Backlog::MAXCONN);
                                }
                            }
                        }
                    }
                },
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer.port()),
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN_AFTER).await,
                },
            }
        }
    }

    /// Watches until the release.
    async fn watch(
        &mut self,
        mut watching: Watching,
        commands: &mut mpsc::Receiver<Command>,
    ) -> io::Result<()> {
        loop {
            let attempt = tokio::select! {
                command = commands.recv() => match command {
                    None => return Ok(()),
                    Some(Command::Release { done }) => {
                        self.front.gate.release();
                        let opened = self.open_all(watching);
                        let _ = done.send(());
                        return opened;
                    }
                    Some(Command::Arm { hold, at_dispatch, done }) => {
                        self.front.gate.arm(hold);
                        watching.nth = match hold {
                            Hold::Connection { nth } => Some(nth),
                            Hold::Nothing | Hold::Request | Hold::Reply => None,
                        };
                        watching.at_dispatch = at_dispatch;
                        watching.attempts = 0;
                        let _ = done.send(Ok(()));
                        continue;
                    }
                },
                attempt = self.lookout.next() => attempt?,
            };
            if self.slipped.remove(&attempt.port) {
                continue;
            }
            let connection = self.meet(attempt.port, &mut watching).await?;
            let reached = watching.nth.is_some_and(|nth| watching.attempts >= nth);
            if reached || !watching.held.is_empty() {
                self.journal.append(Event::ConnectionHeld { connection });
                watching.held.push((connection, attempt));
            } else {
                watching = self.let_through(watching, connection, &attempt).await?;
            }
        }
    }

    /// Numbers an attempt, and has what is to be looked at at the moment of dispatch looked at.
    async fn meet(&mut self, port: u16, watching: &mut Watching) -> io::Result<u32> {
        let connection = self.sought(port);
        watching.attempts += 1;
        if let Some(look) = watching.at_dispatch.clone() {
            blocking(move || {
                look(connection);
                Ok(())
            })
            .await?;
        }
        Ok(connection)
    }

    /// Lets one in and closes the door behind it.
    async fn let_through(
        &mut self,
        watching: Watching,
        connection: u32,
        attempt: &Attempt,
    ) -> io::Result<Watching> {
        let Watching { filler, .. } = watching;
        self.clear(filler)?;
        self.reaching.insert(attempt.port, connection);
        self.lookout.send_again(attempt)?;
        let mut others = Vec::new();
        let limit = tokio::time::sleep(LET_THROUGH_WITHIN);
        tokio::pin!(limit);
        let stream = loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, peer) = accepted?;
                    if peer.port() == attempt.port {
                        break Some(stream);
                    }
                    others.push((stream, peer.port()));
                }
                ended = self.lookout.ended(attempt.port) => {
                    ended?;
                    let wait = tokio::time::timeout(QUEUED_WITHIN, self.listener.accept());
                    match wait.await {
                        Ok(Ok((stream, peer))) if peer.port() == attempt.port => break Some(stream),
                        Ok(Ok((stream, peer))) => others.push((stream, peer.port())),
                        Ok(Err(error)) => return Err(error),
                        Err(_) => {}
                    }
                    break None;
                }
                () = &mut limit => break None,
            }
        };
        // The next connection of a server that has its reply must find the door closed: so the filler comes first.
        let accepted = stream.map(|stream| (self.accepted(attempt.port), stream));
        let filler = self.close_again(&mut others).await?;
        let mut watching = Watching { filler, ..watching };
        if let Some((connection, stream)) = accepted {
            self.serve(stream, connection);
        }
        // Nothing that these sent has been read: it is still the moment before their dispatch, and only holding them
        // is too late.
        for (stream, port) in others {
            self.slipped.insert(port);
            let connection = self.meet(port, &mut watching).await?;
            self.reaching.insert(port, connection);
            self.admit(stream, port);
        }
        Ok(watching)
    }

    /// Lets everything go; the door is open from here on.
    fn open_all(&mut self, watching: Watching) -> io::Result<()> {
        self.set_backlog(Backlog::MAXCONN)?;
        self.clear(watching.filler)?;
        for (connection, attempt) in watching.held {
            self.reaching.insert(attempt.port, connection);
            self.journal
                .append(Event::ConnectionReleased { connection });
            self.lookout.send_again(&attempt)?;
        }
        self.slipped.clear();
        Ok(())
    }

    /// Closes the door. Whoever stands in the queue came before.
    async fn close(&mut self) -> io::Result<Filler> {
        self.lookout.start()?;
        self.set_backlog(Backlog::new(0).map_err(io::Error::from)?)?;
        let mut queued = Vec::new();
        let filler = self.close_again(&mut queued).await;
        for (stream, port) in queued {
            self.slipped.insert(port);
            self.admit(stream, port);
        }
        filler
    }

    /// Places a filler; those who were quicker are put into `others`.
    async fn close_again(&mut self, others: &mut Vec<(TcpStream, u16)>) -> io::Result<Filler> {
        for _ in 0..PLACINGS {
            while let Some((stream, peer)) = self.in_queue()? {
                others.push((stream, peer.port()));
            }
            if let Some(filler) = Filler::place(&self.sockets, self.port, &self.own).await? {
                return Ok(filler);
            }
        }
        Err(io::Error::other(
            "connections kept coming while the door was being closed",
        ))
    }

    /// Takes the filler out of the queue, where it stands first.
    fn clear(&mut self, filler: Filler) -> io::Result<()> {
        let port = filler.port;
        // The accepted end is dropped after the filler itself, which resets the connection.
        let accepted = self.in_queue()?;
        drop(filler);
        match accepted {
            Some((stream, peer)) if peer.port() != port => {
                self.slipped.insert(peer.port());
                self.admit(stream, peer.port());
            }
            _ => {}
        }
        Ok(())
    }

    /// The first connection in the queue, without waiting for one.
    fn in_queue(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        match self.direct.accept() {
            Ok((stream, peer)) => {
                stream.set_nonblocking(true)?;
                Ok(Some((TcpStream::from_std(stream)?, peer)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn admit(&mut self, stream: TcpStream, port: u16) {
        let connection = self.accepted(port);
        self.serve(stream, connection);
    }

    fn sought(&mut self, port: u16) -> u32 {
        self.connections += 1;
        let connection = self.connections;
        self.journal
            .append(Event::ConnectionSought { connection, port });
        connection
    }

    /// Where nobody saw it coming, it is sought and accepted in one.
    fn accepted(&mut self, port: u16) -> u32 {
        let connection = match self.reaching.remove(&port) {
            Some(connection) => connection,
            None => self.sought(port),
        };
        self.journal
            .append(Event::ConnectionAccepted { connection });
        connection
    }

    fn serve(&mut self, stream: TcpStream, connection: u32) {
        // Fails only on a socket that is gone, and serving it will show that.
        let _ = stream.set_nodelay(true);
        while self.serving.try_join_next().is_some() {}
        let front = Arc::clone(&self.front);
        self.serving.spawn(serve(front, stream, connection));
    }

    /// On a socket that listens already, listen(2) sets the length of its queue.
    fn set_backlog(&self, backlog: Backlog) -> io::Result<()> {
        listen(&self.listener, backlog).map_err(io::Error::from)
    }
}

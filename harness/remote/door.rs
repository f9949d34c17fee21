//! The door: accepts connections, or keeps them waiting at the kernel's.
//!
//! ```text
//!   open      accept ──> serve
//!
//!   watched   the queue is full, nobody gets in
//!             attempt seen ──> sought ──> at_dispatch ──┬──> let through: its SYN again, accept, serve
//!                                                       └──> held, with all that come later, until the release
//! ```
//!
//! One task owns the listener, so all of this happens one thing after another.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::journal::{Event, Journal};

use super::connection::serve;
use super::front::Front;
use super::lookout::{Attempt, Lookout};
use super::queue::{Filler, OwnPorts, Passed, Queue, Taken, blocking};
use super::{AtDispatch, Hold, Inlet};

/// A connection that is let through arrives at once, or at the kernel's next repetition of its SYN (1 s, 3 s, 7 s after
/// the first).
const LET_THROUGH_WITHIN: Duration = Duration::from_secs(10);

/// A repeated SYN is answered in microseconds. One that found no room is sent again after this.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Out of descriptors or memory: the next accept would fail at once as well.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// A request whose peer has gone is at work for milliseconds, on a busy machine for longer.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);

enum Command {
    Arm {
        hold: Hold,
        at_dispatch: Option<AtDispatch>,
        done: oneshot::Sender<io::Result<()>>,
    },
    Release {
        done: oneshot::Sender<()>,
    },
    LetConnectionsGo {
        done: oneshot::Sender<()>,
    },
    Settle {
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
        let own = OwnPorts::default();
        let keeper = Keeper {
            queue: Queue::new(inlet.listener, inlet.port, inlet.sockets, own.clone())?,
            lookout: Lookout::new(inlet.packets, inlet.connecting, inlet.port, own.clone())?,
            front,
            journal,
            connections: 0,
            reaching: HashMap::new(),
            slipped: HashSet::new(),
            serving: JoinSet::new(),
        };
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

    /// Connections that are held go on, and none is held any more; all else stays as it is.
    pub async fn let_connections_go(&self) {
        let (done, gone) = oneshot::channel();
        let command = Command::LetConnectionsGo { done };
        // As above.
        if self.commands.send(command).await.is_ok() {
            let _ = gone.await;
        }
    }

    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        // As above.
        if self.commands.send(Command::Settle { done }).await.is_ok() {
            let _ = settled.await;
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
    queue: Queue,
    lookout: Lookout,
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
                    Some(Command::LetConnectionsGo { done }) => {
                        let _ = done.send(());
                    }
                    Some(Command::Settle { done }) => {
                        // One that does not end is not ours: its peer lives.
                        let _ = tokio::time::timeout(SETTLED_WITHIN, self.settle()).await;
                        let _ = done.send(());
                    }
                    Some(Command::Arm { hold, at_dispatch, done }) => {
                        self.front.gate.arm(hold);
                        let nth = hold.nth();
                        if nth.is_none() && at_dispatch.is_none() {
                            let _ = done.send(Ok(()));
                            continue;
                        }
                        match self.close().await {
                            Err(error) => {
                                let _ = self.queue.open();
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
                                    let _ = self.queue.open();
                                }
                            }
                        }
                    }
                },
                accepted = self.queue.accept() => match accepted {
                    Ok((stream, port)) => self.admit(stream, port),
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
                    Some(Command::LetConnectionsGo { done }) => {
                        watching = self.let_held_go(watching).await?;
                        let _ = done.send(());
                        continue;
                    }
                    // What is held has not come to anything, and is not to.
                    Some(Command::Settle { done }) => {
                        let _ = done.send(());
                        continue;
                    }
                    Some(Command::Arm { hold, at_dispatch, done }) => {
                        self.front.gate.arm(hold);
                        watching.nth = hold.nth();
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

    /// Lets all in that are held, in their order, and holds none of those that come.
    async fn let_held_go(&mut self, mut watching: Watching) -> io::Result<Watching> {
        watching.nth = None;
        for (connection, attempt) in std::mem::take(&mut watching.held) {
            self.journal
                .append(Event::ConnectionReleased { connection });
            watching = self.let_through(watching, connection, &attempt).await?;
        }
        Ok(watching)
    }

    /// Lets one in; the queue is full again when its serving begins.
    async fn let_through(
        &mut self,
        watching: Watching,
        connection: u32,
        attempt: &Attempt,
    ) -> io::Result<Watching> {
        self.reaching.insert(attempt.port, connection);
        let Watching { filler, .. } = watching;
        let (stream, filler, others) = if attempt.can_be_repeated() {
            self.pass_at_once(filler, attempt).await?
        } else {
            self.pass_in_time(filler, attempt).await?
        };
        let mut watching = Watching { filler, ..watching };
        match stream {
            Some(stream) => self.admit(stream, attempt.port),
            None => {
                self.reaching.remove(&attempt.port);
            }
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

    /// Sends its SYN once more, and again where that found no room.
    async fn pass_at_once(
        &mut self,
        mut filler: Filler,
        attempt: &Attempt,
    ) -> io::Result<(Option<TcpStream>, Filler, Vec<Taken>)> {
        let deadline = Instant::now() + LET_THROUGH_WITHIN;
        let mut others = Vec::new();
        loop {
            let knock = || self.lookout.send_again(attempt);
            let passed = self.queue.pass(filler, attempt.port, knock).await?;
            let Passed { mut stream, .. } = passed;
            others.extend(passed.others);
            filler = match passed.filler {
                Some(filler) => filler,
                None => self.queue.close(&mut others).await?,
            };
            if let Some(late) = others.iter().position(|(_, port)| *port == attempt.port) {
                stream = Some(others.swap_remove(late).0);
            }
            if stream.is_some() || Instant::now() > deadline {
                return Ok((stream, filler, others));
            }
            let ended = self.lookout.ended(attempt.port);
            if let Ok(ended) = tokio::time::timeout(AGAIN_AFTER, ended).await {
                ended?;
                return Ok((None, filler, others));
            }
        }
    }

    /// Leaves the queue open until the kernel repeats the SYN.
    async fn pass_in_time(
        &mut self,
        filler: Filler,
        attempt: &Attempt,
    ) -> io::Result<(Option<TcpStream>, Filler, Vec<Taken>)> {
        let mut others: Vec<Taken> = self.queue.clear(filler)?.into_iter().collect();
        let deadline = tokio::time::sleep(LET_THROUGH_WITHIN);
        tokio::pin!(deadline);
        let mut stream = None;
        loop {
            tokio::select! {
                accepted = self.queue.accept() => {
                    let (accepted, port) = accepted?;
                    if port == attempt.port {
                        stream = Some(accepted);
                        break;
                    }
                    others.push((accepted, port));
                }
                // It has given up, or it stands in the queue by now and is found at the closing.
                ended = self.lookout.ended(attempt.port) => break ended?,
                () = &mut deadline => break,
            }
        }
        let filler = self.queue.close(&mut others).await?;
        if let Some(late) = others.iter().position(|(_, port)| *port == attempt.port) {
            stream = Some(others.swap_remove(late).0);
        }
        Ok((stream, filler, others))
    }

    /// Lets everything go; the door is open from here on.
    fn open_all(&mut self, watching: Watching) -> io::Result<()> {
        self.queue.open()?;
        if let Some((stream, port)) = self.queue.clear(watching.filler)? {
            self.slipped.insert(port);
            self.admit(stream, port);
        }
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
        let mut queued = Vec::new();
        let filler = self.queue.close(&mut queued).await;
        for (stream, port) in queued {
            self.slipped.insert(port);
            self.admit(stream, port);
        }
        filler
    }

    /// Serves to its end whatever has come so far.
    async fn settle(&mut self) {
        while let Ok(Some((stream, port))) = self.queue.take() {
            self.admit(stream, port);
        }
        while self.serving.join_next().await.is_some() {}
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
}

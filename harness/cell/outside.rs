//! What runs in the harness: builds a cell, gives it orders, and turns its reports into events.
//!
//! A thread reads the reports and appends the events among them in the order in which the cell saw them, each with the time
//! that the cell read when it did: a look and an exit never change places. Orders wait for their report; each takes well below a millisecond.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::doorway::{Doorway, enter};
use super::message::{Order, Pipe, Plan, Present, Report, Ticket, Wanted, receive, send};
use crate::journal::{
    Asker, Event, Journal, Moment, Pid, PipeEnd, Process, Session, Socket, Stamp, Transport,
};
use crate::roles;

/// An order that is not answered by then never will be: the cell does nothing that waits.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Why the cell did not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    #[error("failed to start the cell: {0}")]
    Start(io::Error),
    #[error("failed to build the cell: {0}")]
    Build(String),
    #[error("failed to talk to the cell: {0}")]
    Talk(io::Error),
    #[error("the cell has ended")]
    Gone,
    #[error("the cell failed: {0}")]
    Failed(String),
}

/// A process to start in the cell: a role of this very program.
pub struct Spawn {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// What a look saw.
pub struct Look {
    pub processes: Vec<Process>,
    pub sockets: Vec<Socket>,
}

/// The room of one trial. Dropping it ends everything in it.
pub struct Cell {
    line: Line,
    outer: Child,
    reader: Option<JoinHandle<()>>,
    /// Second handles on the packet sockets: the last one to close one waits for the kernel.
    packets: Vec<OwnedFd>,
}

/// Orders to a cell; cheap to clone. Outlives the cell, and then every order fails.
#[derive(Clone)]
pub struct Line {
    shared: Arc<Shared>,
}

struct Shared {
    socket: UnixStream,
    /// Frames must not interleave.
    sending: Mutex<()>,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
}

type Waiting = Option<HashMap<Ticket, mpsc::SyncSender<(Report, Vec<OwnedFd>)>>>;

impl Cell {
    /// Builds a cell and appends `cell-ready`.
    pub fn build(plan: &Plan, journal: &Journal) -> Result<(Self, Doorway), CellError> {
        match Self::try_build(plan, journal, None) {
            Err(CellError::Build(because)) if plan.wanted == Wanted::Best => {
                let plan = Plan {
                    wanted: Wanted::Subreaper,
                    ..plan.clone()
                };
                match Self::try_build(&plan, journal, Some(&because)) {
                    Err(CellError::Build(neither)) => {
                        Err(CellError::Build(format!("{because}; {neither}")))
                    }
                    other => other,
                }
            }
            other => other,
        }
    }

    fn try_build(
        plan: &Plan,
        journal: &Journal,
        fallback: Option<&str>,
    ) -> Result<(Self, Doorway), CellError> {
        let (socket, theirs) = UnixStream::pair().map_err(CellError::Start)?;
        let mut outer = roles::command(roles::Role::Cell)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(CellError::Start)?;
        let ready = greet(&socket, plan).and_then(|room| {
            let doorway = enter(room, plan, journal, fallback)?;
            let shared = Arc::new(Shared {
                socket,
                sending: Mutex::new(()),
                waiting: Mutex::new(Some(HashMap::new())),
                next: AtomicU64::new(1),
            });
            let reader = {
                let (shared, journal) = (Arc::clone(&shared), journal.clone());
                std::thread::Builder::new()
                    .name("cell reports".to_owned())
                    .spawn(move || read_reports(&shared, &journal))
                    .map_err(CellError::Start)?
            };
            Ok((shared, reader, doorway))
        });
        match ready {
            Ok((shared, reader, doorway)) => {
                let packets = [&doorway.packets, &doorway.network.contacts];
                let packets = packets.into_iter().flatten();
                let packets = packets
                    .filter_map(|socket| socket.try_clone().ok())
                    .collect();
                let line = Line { shared };
                Ok((
                    Self {
                        line,
                        outer,
                        reader: Some(reader),
                        packets,
                    },
                    doorway,
                ))
            }
            // The socket has gone with the closure, so the cell ends.
            Err(error) => {
                let _ = outer.wait();
                Err(error)
            }
        }
    }

    /// Orders can be given through this from anywhere.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Ends everything in the cell and waits until it has ended.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.line.shared.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.outer.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        // Closing a packet socket waits until no processor looks at it any more, some 20 ms; nobody else needs to.
        let packets = std::mem::take(&mut self.packets);
        if !packets.is_empty() {
            std::thread::spawn(move || drop(packets));
        }
    }
}

impl Line {
    /// Starts a process and returns its pid inside the cell.
    pub fn spawn(&self, spawn: Spawn) -> Result<Pid, CellError> {
        let Spawn {
            argv,
            env,
            cwd,
            stdin,
            stdout,
            stderr,
        } = spawn;
        let descriptors = [stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()];
        match self
            .order(
                |ticket| Order::Spawn {
                    ticket,
                    argv,
                    env,
                    cwd,
                },
                &descriptors,
            )?
            .0
        {
            Report::Spawned { pid, .. } => Ok(pid),
            other => Err(unexpected(other)),
        }
    }

    /// Sends a signal to one process. When it was sent; `None` where the process has gone.
    pub fn signal(
        &self,
        pid: Pid,
        signal: crate::spec::Signal,
    ) -> Result<Option<Stamp>, CellError> {
        self.send_signal(pid, signal.into(), false)
    }

    /// Continues a process that is stopped (SIGCONT).
    pub fn go_on(&self, pid: Pid) -> Result<Option<Stamp>, CellError> {
        self.send_signal(pid, nix::sys::signal::Signal::SIGCONT, false)
    }

    /// Sends a signal to the process group that this process leads. When it was sent; `None` where nobody is left in it.
    pub fn signal_group(
        &self,
        pid: Pid,
        signal: crate::spec::Signal,
    ) -> Result<Option<Stamp>, CellError> {
        self.send_signal(pid, signal.into(), true)
    }

    fn send_signal(
        &self,
        pid: Pid,
        signal: nix::sys::signal::Signal,
        group: bool,
    ) -> Result<Option<Stamp>, CellError> {
        let signal = signal as i32;
        match self
            .order(
                |ticket| Order::Signal {
                    ticket,
                    pid,
                    signal,
                    group,
                },
                &[],
            )?
            .0
        {
            Report::Signalled { sent, .. } => Ok(sent),
            other => Err(unexpected(other)),
        }
    }

    /// Whether every thread of each of these is stopped now.
    pub fn are_stopped(&self, pids: &[Pid]) -> Result<bool, CellError> {
        let pids = pids.to_vec();
        match self
            .order(|ticket| Order::AreStopped { ticket, pids }, &[])?
            .0
        {
            Report::Stopped { all, .. } => Ok(all),
            other => Err(unexpected(other)),
        }
    }

    /// Looks at every process of the cell and appends `looked`.
    pub fn look(
        &self,
        moment: Moment,
        session: Session,
        pipes: &[Pipe],
        secrets: &crate::journal::Secrets,
    ) -> Result<Look, CellError> {
        let pipes = pipes.to_vec();
        let secrets = secrets
            .all()
            .into_iter()
            .map(|secret| (secret.name, secret.forms))
            .collect();
        let order = |ticket| Order::Look {
            ticket,
            moment,
            session,
            pipes,
            secrets,
        };
        match self.order(order, &[])?.0 {
            Report::Seen {
                processes, sockets, ..
            } => Ok(Look { processes, sockets }),
            other => Err(unexpected(other)),
        }
    }

    /// Who lives in the cell now. Appends nothing.
    pub fn census(&self) -> Result<Vec<Present>, CellError> {
        match self.order(|ticket| Order::Census { ticket }, &[])?.0 {
            Report::Counted { present, .. } => Ok(present),
            other => Err(unexpected(other)),
        }
    }

    /// Who holds one end of a session's pipes, and when that was looked for. Appends nothing.
    pub fn holders(&self, pipes: &[Pipe], end: PipeEnd) -> Result<(Vec<Pid>, Stamp), CellError> {
        let pipes = pipes.to_vec();
        match self
            .order(|ticket| Order::Holders { ticket, pipes, end }, &[])?
            .0
        {
            Report::Holding { pids, at, .. } => Ok((pids, at)),
            other => Err(unexpected(other)),
        }
    }

    /// A TCP socket of the cell's network.
    pub fn tcp_socket(&self) -> Result<OwnedFd, CellError> {
        let (report, descriptors) = self.order(|ticket| Order::TcpSocket { ticket }, &[])?;
        match (report, descriptors.into_iter().next()) {
            (Report::TcpSocket { .. }, Some(socket)) => Ok(socket),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// The TCP ports on which processes of the cell listen.
    pub fn listening(&self) -> Result<Vec<u16>, CellError> {
        match self.order(|ticket| Order::Listening { ticket }, &[])?.0 {
            Report::Listening { ports, .. } => Ok(ports),
            other => Err(unexpected(other)),
        }
    }

    /// The local ports that are in `SYN_SENT` towards the remote.
    pub fn connecting(&self) -> Result<Vec<u16>, CellError> {
        match self.order(|ticket| Order::Connecting { ticket }, &[])?.0 {
            Report::Connecting { ports, .. } => Ok(ports),
            other => Err(unexpected(other)),
        }
    }

    /// Whose socket has this port; `None` where it has gone.
    pub fn owner(&self, transport: Transport, port: u16) -> Result<Option<Asker>, CellError> {
        let order = |ticket| Order::Owner {
            ticket,
            transport,
            port,
        };
        match self.order(order, &[])?.0 {
            Report::Owner { owner, .. } => Ok(owner),
            other => Err(unexpected(other)),
        }
    }

    fn order(
        &self,
        order: impl FnOnce(Ticket) -> Order,
        descriptors: &[RawFd],
    ) -> Result<(Report, Vec<OwnedFd>), CellError> {
        let ticket = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = mpsc::sync_channel(1);
        lock(&self.shared.waiting)
            .as_mut()
            .ok_or(CellError::Gone)?
            .insert(ticket, answer);
        {
            let _turn = lock(&self.shared.sending);
            send(&self.shared.socket, &order(ticket), descriptors).map_err(CellError::Talk)?;
        }
        answered
            .recv_timeout(ANSWERED_WITHIN)
            .map_err(|_| CellError::Gone)
    }
}

/// Gives the first order and waits for the room.
fn greet(socket: &UnixStream, plan: &Plan) -> Result<(Report, Vec<OwnedFd>), CellError> {
    socket
        .set_read_timeout(Some(ANSWERED_WITHIN))
        .map_err(CellError::Talk)?;
    send(socket, &Order::Build(plan.clone()), &[]).map_err(CellError::Talk)?;
    let answer = receive(socket)
        .map_err(CellError::Talk)?
        .ok_or(CellError::Gone)?;
    socket.set_read_timeout(None).map_err(CellError::Talk)?;
    match answer {
        (Report::NotReady { because }, _) => Err(CellError::Build(because)),
        other => Ok(other),
    }
}

fn read_reports(shared: &Shared, journal: &Journal) {
    while let Ok(Some((report, descriptors))) = receive::<Report>(&shared.socket) {
        let ticket = match &report {
            Report::Exited {
                at,
                pid,
                exit,
                comm,
            } => {
                journal.append_exit(*at, *pid, *exit, comm.clone());
                continue;
            }
            Report::Exceeded {
                at,
                limit,
                most,
                used,
                by,
            } => {
                let exceeded = Event::LimitExceeded {
                    limit: *limit,
                    most: *most,
                    used: *used,
                    by: by.clone(),
                    rehearsal: false,
                };
                journal.append_at(*at, exceeded);
                continue;
            }
            Report::Cleared { at, ended } => {
                journal.append_at(*at, Event::CellCleared { ended: *ended });
                continue;
            }
            Report::Seen {
                ticket,
                at,
                moment,
                session,
                processes,
                sockets,
            } => {
                let looked = Event::Looked {
                    moment: *moment,
                    session: *session,
                    processes: processes.clone(),
                    sockets: sockets.clone(),
                };
                journal.append_at(*at, looked);
                *ticket
            }
            Report::Spawned { ticket, .. }
            | Report::NotSpawned { ticket, .. }
            | Report::Signalled { ticket, .. }
            | Report::Stopped { ticket, .. }
            | Report::Counted { ticket, .. }
            | Report::Holding { ticket, .. }
            | Report::TcpSocket { ticket }
            | Report::Listening { ticket, .. }
            | Report::Connecting { ticket, .. }
            | Report::Owner { ticket, .. }
            | Report::Failed { ticket, .. } => *ticket,
            Report::Ready { .. } | Report::NotReady { .. } => continue,
        };
        let waiting = lock(&shared.waiting)
            .as_mut()
            .and_then(|waiting| waiting.remove(&ticket));
        if let Some(answer) = waiting {
            let _ = answer.send((report, descriptors));
        }
    }
    // Whoever waits now, or asks later, hears that the cell has gone.
    lock(&shared.waiting).take();
}

fn unexpected(report: Report) -> CellError {
    match report {
        Report::NotSpawned { because, .. } | Report::Failed { because, .. } => {
            CellError::Failed(because)
        }
        _ => CellError::Failed("it answered another order".to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

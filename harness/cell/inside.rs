//! What runs inside: the ancestor of client and server. It spawns what it is told, reaps everything, reports each spawn
//! and exit, and ends all when the harness goes away, however that happens.
//!
//! One loop over two descriptors, the socket to the harness and a signalfd for SIGCHLD, and beside it the thread of the
//! [`Guard`]. It decides nothing but that a limit is a limit.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid as NixPid, UnlinkatFlags, unlinkat};

use super::bounds::Bounds;
use super::ended::{Children, ended};
use super::fence::{self, Fence};
use super::guard::Guard;
use super::kill::kill_all;
use super::message::{Order, Report, Wanted, receive, send};
use super::mounts::Survey;
use super::owner::owner;
use super::proc::Sought;
use super::room::{self, Room};
use super::{listening, proc, sys};
use crate::journal::{CellKind, Moment, Pid, Secret, Stamp};

/// The process `cargo-drill __cell`; its stdin is the socket to the harness.
pub(crate) fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // The harness has gone while we had something to report.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(nix::libc::EPIPE | nix::libc::ECONNRESET)
            ) =>
        {
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "cargo-drill: the cell failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Out of the terminal's foreground group: Ctrl-C is for the harness, which then ends us in order. Client and server
    // will share this session, so that no process group of theirs is orphaned by the client's death.
    let _ = nix::unistd::setsid();
    let Some((Order::Build(plan), _)) = receive::<Order>(&socket)? else {
        return Ok(());
    };
    let scratch = match Scratch::make(&plan.scratch) {
        Ok(scratch) => scratch,
        Err(error) => {
            let folder = plan.scratch.display();
            return not_ready(
                &socket,
                format!("failed to make the folder {folder}: {error}"),
            );
        }
    };
    if plan.wanted == Wanted::Subreaper {
        if !plan.open_network
            && let Err(because) = fence::check()
        {
            drop(scratch);
            return not_ready(&socket, because);
        }
        prctl::set_child_subreaper(true)?;
        let subreaper = NixPid::this().as_raw();
        let room = match room::open_room().and_then(|room| with_otlp(room, plan.otlp)) {
            Ok(room) => room,
            Err(error) => {
                drop(scratch);
                return not_ready(&socket, error.to_string());
            }
        };
        plan.bounds.harden_user();
        let init = Init::new(socket, subreaper, room.port, plan.bounds);
        let fence = (!plan.open_network).then(|| Fence::around(room.ports()));
        let served = init.serve(room, CellKind::Subreaper, false, fence);
        end_all()?;
        return served;
    }
    let user_namespace = match room::leave_host(plan.open_network) {
        Ok(user_namespace) => user_namespace,
        Err(error) => {
            drop(scratch);
            return not_ready(&socket, format!("namespaces are not allowed here: {error}"));
        }
    };
    match sys::fork_single_threaded()? {
        sys::Fork::Parent(init) => outlive(&socket, init),
        sys::Fork::Child => {
            // The outer process removes the folder, when we and all others in the room have ended.
            std::mem::forget(scratch);
            // The outer process kills us when the socket closes; should it be killed itself, the kernel does.
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            let temporary = Survey::take(&plan.needs, &plan.scratch);
            let furnished = room::furnish(
                plan.open_network,
                user_namespace,
                plan.bounds,
                temporary,
                &plan.scratch,
            );
            match furnished.and_then(|room| with_otlp(room, plan.otlp)) {
                Ok(room) => {
                    let init = Init::new(socket, 1, room.port, plan.bounds);
                    // When we return, the kernel ends the rest.
                    init.serve(room, CellKind::Namespaces, user_namespace, None)
                }
                Err(error) => not_ready(&socket, error.to_string()),
            }
        }
    }
}

fn with_otlp(room: Room, wanted: bool) -> io::Result<Room> {
    if wanted { room.with_otlp() } else { Ok(room) }
}

fn not_ready(socket: &UnixStream, because: String) -> io::Result<()> {
    send(socket, &Report::NotReady { because }, &[])
}

/// The trial's folder, with its credentials in it. Made by the cell and not by the harness, since the cell removes it: a
/// harness that is killed at any moment has then made no folder that nobody knows of.
struct Scratch<'a> {
    path: &'a Path,
    /// The folder that holds it, as the host has it. Later mounts of the cell hide it from its own path, and make a mount
    /// point of ours, which rmdir(2) does not remove.
    holder: OwnedFd,
}

impl<'a> Scratch<'a> {
    fn make(path: &'a Path) -> io::Result<Self> {
        let holder = path
            .parent()
            .ok_or_else(|| io::Error::other("it has no folder above it"))?;
        let holder = nix::fcntl::open(
            holder,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )?;
        std::fs::DirBuilder::new().mode(0o700).create(path)?;
        Ok(Self { path, holder })
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(self.path).is_err()
            && let Some(name) = self.path.file_name()
        {
            // What is in it is gone; what is left is the mount point.
            let _ = unlinkat(&self.holder, name, UnlinkatFlags::RemoveDir);
        }
    }
}

/// The outer process: waits until init has ended, and ends it when the harness has gone. When PID 1 of a pid namespace
/// ends, the kernel kills all that is left in it and only then lets its parent know (`pid_namespaces(7)`).
fn outlive(socket: &UnixStream, init: i32) -> io::Result<()> {
    let pidfd = sys::pidfd(init)?;
    let init = NixPid::from_raw(init);
    loop {
        // No POLLIN: the frames are init's to read. A closed peer shows without being asked for.
        let mut watched = [
            PollFd::new(socket.as_fd(), PollFlags::empty()),
            PollFd::new(pidfd.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut watched, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            other => other?,
        };
        let [peer, ended] = watched.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
        if peer {
            let _ = kill(init, Signal::SIGKILL);
        }
        if peer || ended {
            waitpid(init, None)?;
            return Ok(());
        }
    }
}

/// The socket to the harness, for two threads.
pub(super) struct Teller {
    socket: UnixStream,
    /// Frames must not interleave.
    turn: Mutex<()>,
}

impl Teller {
    pub fn tell(&self, report: &Report) -> io::Result<()> {
        self.hand_over(report, &[])
    }

    fn hand_over(&self, report: &Report, descriptors: &[RawFd]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        send(&self.socket, report, descriptors)
    }
}

struct Init {
    teller: Arc<Teller>,
    guard: Arc<Guard>,
    /// Whose descendants are the cell: 1 in a namespace, our own pid under a subreaper.
    root: Pid,
    port: u16,
    /// How many were waited for after a limit was exceeded; absent when that was told.
    ended: std::cell::Cell<Option<u64>>,
}

impl Init {
    fn new(socket: UnixStream, root: Pid, port: u16, bounds: Bounds) -> Self {
        let teller = Arc::new(Teller {
            socket,
            turn: Mutex::new(()),
        });
        Self {
            guard: Arc::new(Guard::new(root, bounds, Arc::clone(&teller))),
            teller,
            root,
            port,
            ended: std::cell::Cell::new(Some(0)),
        }
    }

    fn serve(
        &self,
        room: Room,
        kind: CellKind,
        user_namespace: bool,
        fence: Option<Fence>,
    ) -> io::Result<()> {
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        children.thread_block()?;
        let exits =
            SignalFd::with_flags(&children, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let mut descriptors = vec![room.listener.as_raw_fd()];
        descriptors.extend(room.packets.as_ref().map(std::os::fd::AsRawFd::as_raw_fd));
        let network = &room.network;
        if let Some((datagrams, connections)) = &network.resolver {
            descriptors.extend([datagrams.as_raw_fd(), connections.as_raw_fd()]);
        }
        descriptors.extend(
            network
                .contacts
                .as_ref()
                .map(std::os::fd::AsRawFd::as_raw_fd),
        );
        let otlp = room.otlp.iter().flatten();
        descriptors.extend(otlp.map(std::os::fd::AsRawFd::as_raw_fd));
        let ready = Report::Ready {
            kind,
            user_namespace,
            packet_socket: room.packets.is_some(),
            resolver: network.resolver.is_some(),
            contacts: network.contacts.is_some(),
            otlp: room.otlp.is_some(),
            port: room.port,
            shared: room.shared.clone(),
            fence,
            weakens: room.weakens.clone(),
        };
        self.teller.hand_over(&ready, &descriptors)?;
        // The harness alone holds the listeners now: when it goes, nobody listens.
        drop(room);
        loop {
            let mut watched = [
                PollFd::new(self.teller.socket.as_fd(), PollFlags::POLLIN),
                PollFd::new(exits.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                other => other?,
            };
            let [order, exited] = watched.map(|fd| fd.revents().is_some_and(|e| !e.is_empty()));
            if exited {
                while exits.read_signal()?.is_some() {}
                self.reap()?;
            }
            if order {
                match receive::<Order>(&self.teller.socket) {
                    Ok(Some((order, descriptors))) => {
                        if self.guard.is_exceeded() {
                            // Who asks because the client has gone hears the reason first.
                            self.guard.has_told();
                        }
                        self.obey(order, descriptors)?;
                    }
                    Ok(None) | Err(_) => return Ok(()),
                }
            }
        }
    }

    fn obey(&self, order: Order, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        match order {
            Order::Build(_) => Ok(()),
            Order::Spawn {
                ticket,
                argv,
                env,
                cwd,
            } => {
                let started = self.guard.admit(|| spawn(&argv, env, &cwd, descriptors));
                let report = match started {
                    Ok(pid) => Report::Spawned { ticket, pid },
                    Err(error) => Report::NotSpawned {
                        ticket,
                        because: error.to_string(),
                    },
                };
                self.report(&report)
            }
            Order::Signal {
                ticket,
                pid,
                signal,
                group,
            } => {
                // A pid that is not positive, and the group 1, mean more than anybody asks for to kill(2).
                let to = NixPid::from_raw(pid);
                let send = if group { killpg } else { kill };
                let now = Stamp::now();
                let delivered = pid > 1
                    && Signal::try_from(signal).is_ok_and(|signal| send(to, signal).is_ok());
                self.report(&Report::Signalled {
                    ticket,
                    sent: delivered.then_some(now),
                })
            }
            Order::AreStopped { ticket, pids } => {
                let all = pids.iter().all(|pid| proc::is_stopped(*pid));
                self.report(&Report::Stopped { ticket, all })
            }
            Order::Look {
                ticket,
                moment,
                session,
                pipes,
                secrets,
            } => {
                // What has ended and waits for us is not a zombie of the server.
                self.reap()?;
                let secrets: Vec<Secret> = secrets
                    .into_iter()
                    .map(|(name, forms)| Secret { name, forms })
                    .collect();
                let sought = Sought {
                    pipes: &pipes,
                    secrets: &secrets,
                    remote: shows_connections(moment).then_some(self.port),
                };
                let report = match proc::look(self.root, sought) {
                    Ok(seen) => Report::Seen {
                        ticket,
                        at: Stamp::now(),
                        moment,
                        session,
                        processes: seen.processes,
                        sockets: seen.sockets,
                    },
                    Err(error) => Report::Failed {
                        ticket,
                        because: error.to_string(),
                    },
                };
                self.report(&report)
            }
            Order::Census { ticket } => {
                self.reap()?;
                let report = match proc::census(self.root) {
                    Ok(present) => Report::Counted { ticket, present },
                    Err(error) => Report::Failed {
                        ticket,
                        because: error.to_string(),
                    },
                };
                self.report(&report)
            }
            Order::Holders { ticket, pipes, end } => {
                let at = Stamp::now();
                let report = match proc::look(
                    self.root,
                    Sought {
                        pipes: &pipes,
                        ..Sought::default()
                    },
                ) {
                    Ok(mut seen) => {
                        seen.processes
                            .retain(|process| process.holds.contains(&end));
                        let pids = seen
                            .processes
                            .into_iter()
                            .map(|process| process.pid)
                            .collect();
                        Report::Holding { ticket, pids, at }
                    }
                    Err(error) => Report::Failed {
                        ticket,
                        because: error.to_string(),
                    },
                };
                self.report(&report)
            }
            Order::TcpSocket { ticket } => match sys::tcp_socket() {
                Ok(socket) => self
                    .teller
                    .hand_over(&Report::TcpSocket { ticket }, &[socket.as_raw_fd()]),
                Err(error) => self.report(&Report::Failed {
                    ticket,
                    because: error.to_string(),
                }),
            },
            Order::Listening { ticket } => {
                let report = match listening::ports(self.root) {
                    Ok(ports) => Report::Listening { ticket, ports },
                    Err(error) => Report::Failed {
                        ticket,
                        because: error.to_string(),
                    },
                };
                self.report(&report)
            }
            Order::Connecting { ticket } => {
                let ports = proc::connecting(self.port);
                self.report(&Report::Connecting { ticket, ports })
            }
            Order::Owner {
                ticket,
                transport,
                port,
            } => {
                let owner = owner(self.root, transport, port);
                self.report(&Report::Owner { ticket, owner })
            }
        }
    }

    /// Reaps every child that has ended and reports it. Its name is read first, while it is a zombie.
    fn reap(&self) -> io::Result<()> {
        loop {
            let (pid, exit) = match ended(Children::Ended) {
                Ok(Some(ended)) => ended,
                Ok(None) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(Errno::ECHILD as i32) => {
                    if self.guard.is_exceeded() {
                        self.tell_of_the_end()?;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            if self.guard.is_exceeded() {
                // The guard still counts the dead.
                self.guard.has_told();
                reap_one(pid)?;
                self.ended.set(self.ended.get().map(|ended| ended + 1));
                continue;
            }
            let comm = proc::comm(pid);
            reap_one(pid)?;
            self.report(&Report::Exited {
                at: Stamp::now(),
                pid,
                exit,
                comm,
            })?;
        }
    }

    /// Once, when nobody is left of those that the guard has killed.
    fn tell_of_the_end(&self) -> io::Result<()> {
        self.guard.has_told();
        match self.ended.take() {
            Some(ended) => self.report(&Report::Cleared {
                at: Stamp::now(),
                ended,
            }),
            None => Ok(()),
        }
    }

    fn report(&self, report: &Report) -> io::Result<()> {
        self.teller.tell(report)
    }
}

/// Reaps a child that has ended.
fn reap_one(pid: i32) -> io::Result<()> {
    match waitpid(nix::unistd::Pid::from_raw(pid), None) {
        // It was reaped, and its status has no name here: that of a real-time signal.
        Ok(_) | Err(Errno::EINVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What the kernel does for a namespace, by hand.
fn end_all() -> io::Result<()> {
    kill_all(&[])?;
    loop {
        match waitpid(None, None) {
            Err(Errno::ECHILD) => return Ok(()),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The moments at which a half-closed connection matters.
fn shows_connections(moment: Moment) -> bool {
    matches!(
        moment,
        Moment::Point | Moment::PointAgain | Moment::End | Moment::EndAgain
    )
}

fn spawn(
    argv: &[String],
    env: Vec<(String, String)>,
    cwd: &Path,
    descriptors: Vec<OwnedFd>,
) -> io::Result<Pid> {
    let Ok([stdin, stdout, stderr]) = <[_; 3]>::try_from(descriptors) else {
        return Err(io::Error::other("three descriptors belong to a spawn"));
    };
    let [_, arguments @ ..] = argv else {
        return Err(io::Error::other("no command"));
    };
    let child = Command::new("/proc/self/exe")
        .arg0(&argv[0])
        .args(arguments)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr))
        // A group of its own, which the server will share, as with most clients.
        .process_group(0)
        .spawn()?;
    Pid::try_from(child.id()).map_err(io::Error::other)
}

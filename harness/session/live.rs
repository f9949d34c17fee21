//! A session as the harness sees it: starts the client in the cell, asks it for things, and turns what it tells into
//! events.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::keep::{Keep, tail_of};
use super::message::{Ask, Call, Leading, Listing, Start, Timed, Told, Write};
use super::notes::Noting;
use super::pump::{Pump, Shared, lock};
use super::shim::Light;
use crate::cell::gate::{Handed, take_over};
use crate::cell::{CellError, Fence, Gate, Line, Pipe, Scene, Spawn};
use crate::journal::{
    CallRole, Event, Journal, Pid, PipeEnd, Session, SessionFault, Stamp, excerpt,
};
use crate::roles::Role;
use crate::spec::{Protocol, Sdk, Span, StdinKind, Stream};

/// Starting the client and the shim is ours: it takes milliseconds, on a loaded machine more.
const STARTED_WITHIN: Duration = Duration::from_secs(30);

/// After the server has gone, what it wrote to stderr is still on its way through the client.
const STDERR_WITHIN: Duration = Duration::from_secs(2);

/// Why a session could not be made: ours or the machine's.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("failed to start the client: {0}")]
    Cell(#[from] CellError),
    #[error("failed to talk to the client: {0}")]
    Io(#[from] io::Error),
    #[error("the client ended before the crash")]
    ClientGone,
    #[error("the client did not start the server within {} s", STARTED_WITHIN.as_secs())]
    TooSlow,
}

/// Everything that a session needs to start.
pub struct Opening {
    pub session: Session,
    pub argv: Vec<String>,
    /// Where the drill says so, as `drills/deploy.yaml:10`.
    pub command_place: String,
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub stdin: StdinKind,
    pub group: Leading,
    pub leak_stdin_to: Vec<String>,
    /// Where transcript and stderr go.
    pub bundle: PathBuf,
    /// A folder for the shim's socket; its path must be short (unix(7): 108 bytes).
    pub scratch: PathBuf,
    /// What the server must enter before it runs.
    pub fence: Option<Fence>,
    /// The system calls of the server's processes are seen.
    pub gated: Option<Gated>,
    /// A file that the server's stderr goes to, in place of a pipe to the client.
    pub stderr: Option<PathBuf>,
    /// The server's notifications of log messages are kept.
    pub noting: Option<Noting>,
    /// What the client says that it is.
    pub declared: String,
}

/// What a session whose system calls are seen has besides.
#[derive(Debug, Clone)]
pub struct Gated {
    /// The ownership log, where the drill names one.
    pub record: Option<PathBuf>,
}

/// A call as the trial issues it.
pub struct Issue {
    pub role: CallRole,
    pub tool: String,
    pub arguments: serde_json::Map<String, serde_json::Value>,
    pub call_id: String,
    pub traceparent: String,
    pub write: Write,
}

/// A running session. Dropping it kills nothing: the cell does.
pub struct LiveSession {
    session: Session,
    journal: Journal,
    cell: Line,
    client: Pid,
    server: Pid,
    pipes: Vec<Pipe>,
    asks: OwnedWriteHalf,
    told: mpsc::UnboundedReceiver<Timed>,
    pump: JoinHandle<()>,
    shared: Arc<Mutex<Shared>>,
    gate: Option<Gate>,
    stderr: Option<PathBuf>,
    tap: Option<StdUnixStream>,
}

impl LiveSession {
    /// Starts client and server. `Ok(None)` when the server could not be executed; the journal says why.
    pub async fn open(
        cell: &Line,
        opening: Opening,
        journal: &Journal,
    ) -> Result<Option<Self>, SessionError> {
        let Opening {
            session,
            argv,
            command_place,
            env,
            cwd,
            stdin,
            group,
            leak_stdin_to,
            bundle,
            scratch,
            fence,
            gated,
            stderr,
            noting,
            declared,
        } = opening;
        let deadline = Instant::now() + STARTED_WITHIN;
        let stem = super::keep::file_stem(session);
        let shim = scratch.join(format!("shim-{stem}"));
        let listener = UnixListener::bind(&shim)?;
        let tap = noting
            .as_ref()
            .map(|noting| StdUnixListener::bind(&noting.tap));
        let tap = tap.transpose()?;
        let (ours, theirs) = StdUnixStream::pair()?;
        let client = cell.spawn(Spawn {
            argv: vec!["cargo-drill".to_owned(), Role::Client.argument().to_owned()],
            env: env
                .iter()
                .filter(|(name, _)| name == "PATH")
                .cloned()
                .collect(),
            cwd: scratch.clone(),
            stdin: OwnedFd::from(theirs),
            stdout: OwnedFd::from(std::fs::File::create("/dev/null")?),
            stderr: OwnedFd::from(std::fs::File::create(
                scratch.join(format!("client-{stem}.log")),
            )?),
        })?;
        journal.append(Event::ClientStarted {
            session,
            pid: client,
        });

        ours.set_nonblocking(true)?;
        let (reads, asks) = UnixStream::from_std(ours)?.into_split();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let keep = Keep::open(session, &bundle, stderr.is_some(), journal)?;
        let (pass, told) = mpsc::unbounded_channel();
        let pump = Pump {
            session,
            journal: journal.clone(),
            keep,
            shared: Arc::clone(&shared),
            pass,
        };
        let mut live = Self {
            session,
            journal: journal.clone(),
            cell: cell.clone(),
            client,
            server: 0,
            pipes: Vec::new(),
            asks,
            told,
            pump: tokio::spawn(pump.run(reads)),
            shared,
            gate: None,
            stderr: stderr.clone(),
            tap: None,
        };
        let start = Start {
            shim: shim.clone(),
            argv: argv.clone(),
            env,
            cwd,
            stdin,
            group,
            leak_stdin_to,
            stderr,
            noting,
            declared,
        };
        live.ask(&Ask::Start(start)).await?;
        let executed = live
            .wait_for_server(&listener, argv, &command_place, (fence, gated), deadline)
            .await;
        let _ = std::fs::remove_file(&shim);
        if executed? {
            // The client has connected before it told that the server was started.
            live.tap = tap.map(|tap| tap.accept()).transpose()?.map(|(tap, _)| tap);
            return Ok(Some(live));
        }
        live.leave().await?;
        Ok(None)
    }

    /// Meets the shim; true when it became the server.
    async fn wait_for_server(
        &mut self,
        listener: &UnixListener,
        argv: Vec<String>,
        command_place: &str,
        (fence, gated): (Option<Fence>, Option<Gated>),
        deadline: Instant,
    ) -> Result<bool, SessionError> {
        loop {
            let heard = timeout_at(deadline, self.told.recv()).await;
            match heard.map_err(|_| SessionError::TooSlow)?.map(|it| it.told) {
                Some(Told::Started { pid, pipes }) => {
                    (self.server, self.pipes) = (pid, pipes);
                    break;
                }
                Some(Told::NotStarted { because }) => {
                    self.failed(SessionFault::NotExecuted, because);
                    return Ok(false);
                }
                Some(_) => {}
                None => return Err(SessionError::ClientGone),
            }
        }
        lock(&self.shared).server = Some(self.server);
        let meet = async {
            let (mut shim, _) = listener.accept().await?;
            let mut pid = String::new();
            while !pid.ends_with('\n') {
                let byte = shim.read_u8().await?;
                pid.push(char::from(byte));
            }
            let light = Light {
                is_gated: gated.is_some(),
                fence,
            };
            shim.write_all(light.line()?.as_bytes()).await?;
            let gate = match gated {
                Some(gated) => self.open_gate(&mut shim, gated).await?,
                None => None,
            };
            let mut last = String::new();
            shim.read_to_string(&mut last).await?;
            io::Result::Ok((last, gate))
        };
        let (last, gate) = timeout_at(deadline, meet)
            .await
            .map_err(|_| SessionError::TooSlow)??;
        self.gate = gate;
        let (at, refusal) = last_of_shim(&last)?;
        if refusal.is_empty() {
            let started = Event::ServerStarted {
                session: self.session,
                pid: self.server,
                argv,
            };
            self.journal.append_at(at, started);
            return Ok(true);
        }
        let command = argv.first().cloned().unwrap_or_default();
        self.failed(
            SessionFault::NotExecuted,
            format!("failed to execute `{command}` ({command_place}): {refusal}"),
        );
        Ok(false)
    }

    /// Takes over from the shim what tells of its system calls, and serves it before the shim makes one that is asked
    /// about. `None` where the kernel does not allow it; the journal says why.
    async fn open_gate(&self, shim: &mut UnixStream, gated: Gated) -> io::Result<Option<Gate>> {
        let handed = shim
            .async_io(tokio::io::Interest::READABLE, || take_over(&*shim))
            .await?;
        match handed {
            Handed::Listener(listener) => {
                let stdout = self
                    .pipes
                    .iter()
                    .find(|pipe| pipe.end == PipeEnd::StdoutWrite);
                let scene = Scene {
                    stdout: stdout.map(|pipe| pipe.inode),
                    record: gated.record,
                };
                Gate::open(listener, scene, &self.journal).map(Some)
            }
            Handed::Nothing => {
                let mut because = Vec::new();
                loop {
                    match shim.read_u8().await? {
                        b'\n' => break,
                        byte => because.push(byte),
                    }
                }
                self.journal.append(Event::GateUnavailable {
                    because: excerpt(&String::from_utf8_lossy(&because), 200),
                });
                Ok(None)
            }
        }
    }

    /// What sees the system calls of the server's processes, if anything does. It must outlive them.
    pub fn take_gate(&mut self) -> Option<Gate> {
        self.gate.take()
    }

    /// Where the client can be asked whether it has received all that the server had written, once it keeps notifications.
    pub fn take_tap(&mut self) -> Option<StdUnixStream> {
        self.tap.take()
    }

    /// Opens the protocol session; false, with the reason in the journal, when the server did not.
    pub async fn handshake(
        &mut self,
        protocol: Protocol,
        within: Span,
    ) -> Result<bool, SessionError> {
        let deadline = Instant::now() + within.0;
        self.ask(&Ask::Handshake { protocol }).await?;
        let mut ended = None;
        loop {
            let heard = timeout_at(deadline, self.told.recv()).await;
            let at = match &heard {
                Ok(Some(timed)) => timed.at,
                _ => Stamp::now(),
            };
            match heard.map(|timed| timed.map(|it| it.told)) {
                Err(_) => {
                    let detail = format!("no answer came within {within}");
                    self.failed(SessionFault::TimedOut, detail);
                    return Ok(false);
                }
                Ok(None) => return Err(SessionError::ClientGone),
                Ok(Some(Told::Handshaken {
                    protocol,
                    name,
                    version,
                })) => {
                    let handshaken = Event::Handshaken {
                        session: self.session,
                        protocol,
                        server_name: excerpt(&name, 200),
                        server_version: excerpt(&version, 200),
                    };
                    self.journal.append_at(at, handshaken);
                    return Ok(true);
                }
                Ok(Some(Told::NotHandshaken { because })) => {
                    // The library says "connection closed"; whether the server has exited is told beside it.
                    let exit = match ended {
                        Some(exit) => Some(exit),
                        None => self.exit_soon().await,
                    };
                    match exit {
                        Some(exit) => self.failed(
                            SessionFault::Exited,
                            format!(
                                "the server ended with {exit} before the handshake was answered"
                            ),
                        ),
                        None => self.failed(SessionFault::Refused, because),
                    }
                    return Ok(false);
                }
                Ok(Some(Told::ServerExited { exit, .. })) => ended = Some(exit),
                Ok(Some(_)) => {}
            }
        }
    }

    async fn exit_soon(&mut self) -> Option<crate::journal::Exit> {
        let deadline = Instant::now() + STDERR_WITHIN;
        loop {
            let heard = timeout_at(deadline, self.told.recv()).await;
            match heard.map(|timed| timed.map(|it| it.told)) {
                Ok(Some(Told::ServerExited { exit, .. })) => return Some(exit),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Asks for the tools, and writes down what the first answer has. It changes nothing, so that more than one request
    /// makes the ids of this session other than those of the session before.
    pub async fn list_tools(
        &mut self,
        times: u32,
        deadline: Instant,
    ) -> Result<Listing, SessionError> {
        self.ask(&Ask::ListTools { times }).await?;
        loop {
            let heard = timeout_at(deadline, self.told.recv()).await;
            match heard.map(|timed| timed.map(|it| it.told)) {
                Ok(Some(Told::ToolsListed { tools, listing })) => {
                    if matches!(listing, Listing::Whole | Listing::Part) {
                        self.journal.append(Event::ToolsListed {
                            session: self.session,
                            tools,
                            whole: listing == Listing::Whole,
                        });
                    }
                    return Ok(listing);
                }
                Err(_) => return Ok(Listing::Unanswered),
                Ok(Some(_)) => {}
                Ok(None) => return Err(SessionError::ClientGone),
            }
        }
    }

    /// Sends a call. `call-issued` follows when its last byte was written.
    pub async fn call(&mut self, issue: Issue) -> Result<(), SessionError> {
        let Issue {
            role,
            tool,
            arguments,
            call_id,
            traceparent,
            write,
        } = issue;
        self.journal.append(Event::CallAsked {
            session: self.session,
            role,
            tool: tool.clone(),
            call: call_id.clone(),
        });
        lock(&self.shared)
            .asked
            .push_back((role, tool.clone(), call_id.clone()));
        self.ask(&Ask::Call(Call {
            tool,
            arguments,
            id: call_id,
            traceparent,
            write,
        }))
        .await
    }

    /// The client, alive, reads nothing more from the server's stdout. `reading-stopped` follows.
    pub async fn stop_reading(&mut self) -> Result<(), SessionError> {
        self.ask(&Ask::StopReading).await
    }

    /// The client, alive, reads on from the server's stdout. `reading-resumed` follows where it had stopped.
    pub async fn read_on(&mut self) -> Result<(), SessionError> {
        self.ask(&Ask::ReadOn).await
    }

    /// The client shuts the server down as this SDK does, and exits.
    pub async fn shut_down(&mut self, sdk: Sdk) -> Result<(), SessionError> {
        self.ask(&Ask::ShutDown { sdk }).await
    }

    /// The client, alive, closes one of its ends.
    pub async fn close(&mut self, stream: Stream) -> Result<(), SessionError> {
        self.ask(&Ask::Close { stream }).await
    }

    /// Everything that the client told before it died is in the journal when this returns.
    pub async fn drained(&mut self) {
        let _ = (&mut self.pump).await;
    }

    /// Ends the client and returns when all that it told is in the journal. What becomes of the server is not waited for.
    pub async fn leave(mut self) -> Result<(), SessionError> {
        self.cell.signal(self.client, crate::spec::Signal::Kill)?;
        self.drained().await;
        Ok(())
    }

    pub fn session(&self) -> Session {
        self.session
    }

    /// Whether the server's stderr goes through the client, which tells of its end.
    pub fn reads_stderr(&self) -> bool {
        self.stderr.is_none()
    }

    /// The end of the server's stderr, as far as it has come.
    pub fn stderr_tail(&self) -> String {
        match &self.stderr {
            Some(file) => tail_of(file, &self.journal),
            None => lock(&self.shared).stderr_tail.clone(),
        }
    }

    /// Bytes that the server left unread in its stdin when it closed its stdout, or ended.
    pub fn left_unread(&self) -> Option<u64> {
        lock(&self.shared).unread
    }

    pub fn client(&self) -> Pid {
        self.client
    }

    pub fn server(&self) -> Pid {
        self.server
    }

    pub fn pipes(&self) -> &[Pipe] {
        &self.pipes
    }

    /// Appends `session-failed` with the end of stderr.
    pub fn failed(&self, fault: SessionFault, detail: impl Into<String>) {
        self.journal.append(Event::SessionFailed {
            session: self.session,
            fault,
            detail: detail.into(),
            stderr_tail: self.stderr_tail(),
        });
    }

    async fn ask(&mut self, ask: &Ask) -> Result<(), SessionError> {
        let mut line = serde_json::to_vec(ask).map_err(io::Error::from)?;
        line.push(b'\n');
        match self.asks.write_all(&line).await {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Err(SessionError::ClientGone)
            }
            other => Ok(other?),
        }
    }
}

/// A session that is not brought to its end has written all the same.
impl Drop for LiveSession {
    fn drop(&mut self) {
        let tail = lock(&self.shared).stderr_tail.clone();
        if !self.pump.is_finished() && !tail.is_empty() {
            let session = self.session;
            self.journal.append(Event::StderrKept { session, tail });
        }
    }
}

/// What the shim told last: when it was about to become the server, and why it did not, if it did not.
fn last_of_shim(told: &str) -> io::Result<(Stamp, &str)> {
    let ended = || io::Error::other("the shim ended before it became the server");
    let (at, refusal) = told.split_once('\n').ok_or_else(ended)?;
    Ok((serde_json::from_str(at)?, refusal))
}

/// Whether a path is short enough for the shim's socket.
pub fn fits_a_socket(scratch: &Path) -> bool {
    /// `sun_path` of unix(7), less the longest name that goes below the folder.
    const LONGEST: usize = 107 - "/shim-revoked".len();
    scratch.as_os_str().len() <= LONGEST
}

//! The client process: starts the server, speaks MCP with it, tells the harness all that passes, and is killed.
//!
//! It holds the client's ends of the pipes alone, so its death closes them as a real client's would. It never cleans up:
//! what is left when it has gone is what the drill looks at. Its stdin is the socket to the harness.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, InitializeRequestParams,
    ProtocolVersion, RequestMetaObject,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, PeerRequestOptions, RunningService,
};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::message::{Ask, Call, Listing, Start, Told};
use super::notes::Notes;
use super::shutdown::shut_down;
use super::stdin::{OurStdin, Stdin, inode, left_unread, stdin_of};
use super::teller::{Teller, teller};
use super::tools;
use super::transport::{Pipes, Reading, Writing};
use crate::cell::{Children, Pipe, ended};
use crate::journal::{Exit, Pid, PipeEnd, Stamp};
use crate::roles::{self, Role};
use crate::spec::{Protocol, Sdk, Stream};

/// `_meta` key of the correlation: a reverse-DNS prefix of our own, as the specification asks (2025-06-18, basic, `_meta`).
const CORRELATION: &str = "dev.cargo-drill/correlationId";

/// `_meta` key of the log level (2026-07-28).
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The process `cargo-drill __client`.
pub(crate) fn main() -> ExitCode {
    let _ = nix::sys::prctl::set_name(c"drill-client");
    let run = || -> io::Result<()> {
        let harness = StdUnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        harness.set_nonblocking(true)?;
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(run(harness))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "cargo-drill: the client failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(harness: StdUnixStream) -> io::Result<()> {
    let (asks, told) = UnixStream::from_std(harness)?.into_split();
    let (tell, things) = teller();
    let passing = tokio::spawn(things.pass_on(told));
    let mut client = Client::new(tell);
    let mut asks = BufReader::new(asks).lines();
    // Without a harness there is nobody to be a client for.
    while let Some(line) = asks.next_line().await? {
        let ask = serde_json::from_str(&line)?;
        if client.obey(ask).await? == Next::Exit {
            // What was told last is on its way before the process ends.
            return passing.await?;
        }
    }
    Ok(())
}

/// What comes after an ask.
#[derive(PartialEq, Eq)]
enum Next {
    Ask,
    Exit,
}

struct Client {
    tell: Teller,
    stdin: Stdin,
    pipes: Option<Pipes>,
    stdout_reader: Option<AbortHandle>,
    stderr_reader: Option<AbortHandle>,
    /// How the next call is written.
    writing: Arc<Writing>,
    reading: Reading,
    server: Pid,
    exited: watch::Receiver<bool>,
    service: Option<Arc<RunningService<RoleClient, InitializeRequestParams>>>,
    /// What it says that it is.
    declared: String,
    /// Notifications of log messages are kept.
    is_noting: bool,
    /// And each call asks for them.
    asks_for_logs: bool,
}

impl Client {
    fn new(tell: Teller) -> Self {
        Self {
            tell,
            stdin: Stdin::default(),
            pipes: None,
            stdout_reader: None,
            stderr_reader: None,
            writing: Arc::default(),
            reading: Reading::default(),
            server: 0,
            exited: watch::channel(false).1,
            service: None,
            declared: String::new(),
            is_noting: false,
            asks_for_logs: false,
        }
    }

    async fn obey(&mut self, ask: Ask) -> io::Result<Next> {
        match ask {
            Ask::Start(start) => match self.start(start).await {
                Ok(()) => {}
                Err(error) => self.tell(Told::NotStarted {
                    because: error.to_string(),
                }),
            },
            Ask::Handshake { protocol } => self.handshake(protocol).await,
            Ask::ListTools { times } => self.list_tools(times).await,
            Ask::Call(call) => self.call(call).await,
            Ask::Close { stream } => self.close(stream).await,
            Ask::StopReading => {
                self.reading.stop();
                self.tell(Told::ReadingStopped);
            }
            Ask::ReadOn => self.read_on(),
            Ask::ShutDown { sdk } => {
                self.shut_down(sdk).await;
                return Ok(Next::Exit);
            }
        }
        Ok(Next::Ask)
    }

    /// Ends the session as this SDK's client does.
    async fn shut_down(&mut self, sdk: Sdk) {
        self.close(Stream::Stdin).await;
        // Whoever waits for a server to end reads what it still has to say.
        self.read_on();
        shut_down(sdk, self.server, self.exited.clone(), &self.tell).await;
        self.tell(Told::ShutDown);
    }

    /// Reads from the server again, where it had stopped.
    fn read_on(&self) {
        if self.reading.go_on() {
            self.tell(Told::ReadingResumed);
        }
    }

    async fn start(&mut self, start: Start) -> io::Result<()> {
        let (server_stdin, our_stdin, mut pipes) = stdin_of(start.stdin)?;
        let (our_stdout, server_stdout) = io::pipe()?;
        let mut ends = vec![
            (PipeEnd::StdoutRead, inode(our_stdout.as_fd())?),
            (PipeEnd::StdoutWrite, inode(server_stdout.as_fd())?),
        ];
        let (our_stderr, server_stderr) = if let Some(file) = &start.stderr {
            // As where a service manager keeps it: whoever writes to it needs nobody who reads.
            (None, Stdio::from(collector(file)?))
        } else {
            let (ours, theirs) = io::pipe()?;
            ends.push((PipeEnd::StderrRead, inode(ours.as_fd())?));
            ends.push((PipeEnd::StderrWrite, inode(theirs.as_fd())?));
            (Some(ours), Stdio::from(theirs))
        };
        let ends = ends.into_iter().map(|(end, inode)| Pipe { end, inode });
        pipes.extend(ends);
        let notes = match &start.noting {
            Some(noting) => Notes::open(noting).await?,
            None => Notes::default(),
        };
        self.is_noting = start.noting.is_some();
        self.declared.clone_from(&start.declared);

        let mut command = tokio::process::Command::from(roles::command(Role::Shim));
        command
            .arg(&start.shim)
            .arg(start.group.argument())
            .args(&start.argv)
            .env_clear()
            .envs(start.env.iter().cloned().collect::<BTreeMap<_, _>>())
            .current_dir(&start.cwd)
            .stdin(Stdio::from(server_stdin))
            .stdout(Stdio::from(server_stdout))
            .stderr(server_stderr);
        let now = Stamp::now();
        let mut server = command.spawn()?;
        // The command holds the server's ends of the pipes; with it gone, the server alone has them.
        drop(command);
        let pid = server
            .id()
            .and_then(|pid| Pid::try_from(pid).ok())
            .unwrap_or_default();
        self.tell.tell_at(now, Told::Started { pid, pipes });

        self.server = pid;
        let (has_exited, exited) = watch::channel(false);
        self.exited = exited;
        let (tell, stdin) = (self.tell.clone(), Arc::clone(&self.stdin));
        tokio::spawn(async move {
            // Who reaps a process is the only one who learns how it ended, and this client can be killed at any moment. So
            // the harness is told first: the zombie of a client that died before goes to the cell's init, which tells it.
            if let Some((now, exit)) = end_of(pid).await {
                let unread = left_unread(&stdin);
                tell.tell_surely(now, Told::ServerExited { exit, unread })
                    .await;
            }
            let _ = server.wait().await;
            has_exited.send_replace(true);
        });
        if let Some(stderr) = our_stderr {
            let stderr = pipe::Receiver::from_owned_fd(stderr.into())?;
            let reader = tokio::spawn(read_stderr(stderr, self.tell.clone()));
            self.stderr_reader = Some(reader.abort_handle());
        }
        if !start.leak_stdin_to.is_empty() {
            self.start_sibling(&start, &our_stdin)?;
        }

        *self.stdin.lock().await = Some(our_stdin.into_writer()?);
        let stdout = pipe::Receiver::from_owned_fd(our_stdout.into())?;
        let (pipes, reader) = Pipes::open(
            Arc::clone(&self.stdin),
            stdout,
            Arc::clone(&self.writing),
            self.reading.clone(),
            notes,
            self.tell.clone(),
        );
        self.pipes = Some(pipes);
        self.stdout_reader = Some(reader);
        Ok(())
    }

    /// The careless client: the write end of the server's stdin becomes the sibling's stdin.
    fn start_sibling(&self, start: &Start, stdin: &OurStdin) -> io::Result<()> {
        let [program, arguments @ ..] = start.leak_stdin_to.as_slice() else {
            return Ok(());
        };
        let sibling = std::process::Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::from(stdin.duplicate()?))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pid = Pid::try_from(sibling.id()).unwrap_or_default();
        self.tell(Told::SiblingStarted {
            pid,
            argv: start.leak_stdin_to.clone(),
        });
        Ok(())
    }

    async fn handshake(&mut self, protocol: Protocol) {
        let Some(pipes) = self.pipes.take() else {
            return self.tell(Told::NotHandshaken {
                because: "the server was not started".to_owned(),
            });
        };
        let (lifecycle, version) = lifecycle(protocol);
        let mut info = InitializeRequestParams::default();
        info.protocol_version = version;
        // It says that it is another run. Whatever a client says of itself, a server must not take for the owner.
        info.client_info =
            rmcp::model::Implementation::new(self.declared.as_str(), env!("CARGO_PKG_VERSION"))
                .with_title(self.declared.as_str());
        match info.serve_with_lifecycle(pipes, lifecycle).await {
            Ok(service) => {
                let peer = service.peer_info();
                let can_log = peer
                    .as_ref()
                    .is_some_and(|peer| peer.capabilities.logging.is_some());
                let by_call = peer
                    .as_ref()
                    .is_some_and(|peer| peer.protocol_version == ProtocolVersion::V_2026_07_28);
                self.asks_for_logs = self.is_noting && can_log && by_call;
                if self.is_noting && can_log && !by_call {
                    ask_for_logs(&service).await;
                }
                let server = peer.as_ref().and_then(|peer| peer.server_info.clone());
                self.tell(Told::Handshaken {
                    protocol: peer
                        .map(|peer| peer.protocol_version.to_string())
                        .unwrap_or_default(),
                    name: server
                        .as_ref()
                        .map(|server| server.name.clone())
                        .unwrap_or_default(),
                    version: server.map(|server| server.version).unwrap_or_default(),
                });
                self.service = Some(Arc::new(service));
            }
            Err(error) => {
                let because = error.to_string();
                // The library names its types; what matters is who closed what.
                let because = if because.contains("Broken pipe") {
                    "the server had closed its stdin".to_owned()
                } else {
                    because
                };
                self.tell(Told::NotHandshaken { because });
            }
        }
    }

    async fn list_tools(&self, times: u32) {
        let (tools, listing) = match &self.service {
            Some(service) => tools::list(service, times).await,
            None => (Vec::new(), Listing::Refused),
        };
        self.tell(Told::ToolsListed { tools, listing });
    }

    /// Sends the call and does not wait: the transport tells when it was written, and when it was answered.
    async fn call(&self, call: Call) {
        let Some(service) = self.service.clone() else {
            return;
        };
        self.writing.next(call.write);
        let mut meta = RequestMetaObject::new();
        meta.set_traceparent(&call.traceparent);
        meta.0.insert(CORRELATION.to_owned(), call.id.into());
        if self.asks_for_logs {
            // Since 2026-07-28 each request says what is to be logged of it, and without a word nothing is.
            meta.0.insert(LOG_LEVEL.to_owned(), "debug".into());
        }
        let params = CallToolRequestParams::new(call.tool).with_arguments(call.arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options().with_meta(meta);
        if let Ok(handle) = service.send_request_with_option(request, options).await {
            tokio::spawn(async move {
                let _ = handle.await_response().await;
            });
        }
    }

    async fn close(&mut self, stream: Stream) {
        match stream {
            Stream::Stdin => {
                // What the server does on EOF comes after this.
                let mut stdin = self.stdin.lock().await;
                let now = Stamp::now();
                stdin.take();
                return self.tell.tell_at(now, Told::Closed { stream });
            }
            Stream::Stdout => end(self.stdout_reader.take()).await,
            Stream::Stderr => end(self.stderr_reader.take()).await,
        }
        self.tell(Told::Closed { stream });
    }

    fn tell(&self, thing: Told) {
        self.tell.tell(thing);
    }
}

/// Up to 2025-11-25 a session has a log level.
#[expect(
    deprecated,
    reason = "as the protocol has it since 2026-07-28; the servers that are asked are of before"
)]
async fn ask_for_logs(service: &RunningService<RoleClient, InitializeRequestParams>) {
    use rmcp::model::{LoggingLevel, SetLevelRequestParams};
    let level = SetLevelRequestParams::new(LoggingLevel::Debug);
    // A server that declares it and refuses it may log all the same.
    let _ = service.set_level(level).await;
}

/// The file that a server's stderr goes to. Appending, so that whoever inherits it writes behind the others.
fn collector(file: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
}

/// When and how a child ended. It remains a zombie.
async fn end_of(pid: Pid) -> Option<(Stamp, Exit)> {
    let (tell, told) = oneshot::channel();
    // Not one of the runtime's threads: the client would wait for it when it ends itself.
    std::thread::spawn(move || {
        let ended = ended(Children::Awaited(pid)).ok().flatten();
        let _ = tell.send(ended.map(|(_, exit)| (Stamp::now(), exit)));
    });
    told.await.ok().flatten()
}

/// Ends a reader, and so closes the pipe that it owns.
async fn end(reader: Option<AbortHandle>) {
    if let Some(reader) = reader {
        reader.abort();
        while !reader.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}

async fn read_stderr(mut stderr: impl AsyncRead + Unpin, tell: Teller) {
    let mut chunk = vec![0; 64 * 1024];
    let mut bytes = 0;
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        bytes += read as u64;
        let now = Stamp::now();
        let text = String::from_utf8_lossy(&chunk[..read]).into_owned();
        tell.tell_bulk(now, Told::Stderr { text }, read).await;
    }
    tell.tell(Told::StderrEnded { bytes });
}

fn lifecycle(protocol: Protocol) -> (ClientLifecycleMode, ProtocolVersion) {
    let older = match protocol {
        Protocol::Auto => {
            let mode = ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            };
            return (mode, ProtocolVersion::V_2025_11_25);
        }
        Protocol::V2026_07_28 => {
            let mode = ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            };
            return (mode, ProtocolVersion::V_2026_07_28);
        }
        Protocol::V2024_11_05 => ProtocolVersion::V_2024_11_05,
        Protocol::V2025_03_26 => ProtocolVersion::V_2025_03_26,
        Protocol::V2025_06_18 => ProtocolVersion::V_2025_06_18,
        Protocol::V2025_11_25 => ProtocolVersion::V_2025_11_25,
    };
    (ClientLifecycleMode::Initialize, older)
}

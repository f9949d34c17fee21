//! The place in which a gateway is driven: a folder, a gateway process, callers, and listeners that play the upstream
//! and whoever approves.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, kill},
        socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, socket},
    },
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far more than anything here takes; a test that waits this long has failed.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Between two looks at what has no event.
const GLANCE: Duration = Duration::from_millis(2);

/// The key that must turn up nowhere but at the upstream.
pub const KEY: &str = "canary-8d1f77c0";

/// The script that checks a log without this program.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gateway/verify.sh");

pub struct Place {
    folder: TempDir,
    pub upstream: Http,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            upstream: Http::listen(),
        }
    }

    /// With an upstream that takes no connection before it is released, and what keeps it so.
    pub fn unreachable() -> (Self, TcpStream) {
        let folder = tempfile::tempdir().unwrap();
        let (upstream, filler) = Http::unreachable();
        (Self { folder, upstream }, filler)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> PathBuf {
        self.path("gateway.jsonl")
    }

    /// What serves on this socket, with these flags besides.
    pub fn command(&self, socket: &str, flags: &[&str]) -> Command {
        let mut command = gateway(&["serve", "--socket"]);
        command.arg(self.path(socket));
        command.args(["--upstream", &self.upstream.url()]);
        command.arg("--log").arg(self.log()).args(flags);
        command.env("GATEWAY_KEY", KEY);
        command
    }

    /// A gateway that listens.
    pub fn serve(&self, flags: &[&str]) -> Gateway {
        self.serve_at("gateway.sock", flags)
    }

    pub fn serve_at(&self, socket: &str, flags: &[&str]) -> Gateway {
        Gateway::started(self.command(socket, flags), self.path(socket))
    }

    /// A gateway, with `run-1` open.
    pub fn serve_run(&self, flags: &[&str]) -> Gateway {
        let gateway = self.serve(flags);
        gateway.open("run-1");
        gateway
    }

    /// The log as it stands on disk now.
    pub fn rows(&self) -> Vec<Value> {
        let bytes = fs::read(self.log()).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    pub fn activity(&self) -> Vec<Value> {
        let mut rows = self.rows();
        rows.retain(|row| row["kind"] == "activity");
        rows
    }

    pub fn outcomes(&self) -> Vec<String> {
        let word = |row: &Value| row["outcome"].as_str().unwrap().to_owned();
        self.activity().iter().map(word).collect()
    }

    /// Waits for a row that no answer tells of.
    pub fn until_outcomes(&self, outcomes: &[&str]) {
        eventually(&format!("the outcomes {outcomes:?}"), || {
            self.outcomes() == outcomes
        });
    }

    /// What `verify` says, and whether it is content. The script must be of the same opinion.
    pub fn verify(&self) -> (bool, String) {
        let log = self.log();
        let ours = gateway(&["verify"]).arg(&log).output().unwrap();
        let script = Command::new("sh").arg(SCRIPT).arg(&log).output().unwrap();
        assert_eq!(ours.status.success(), script.status.success(), "{script:?}");
        let said = text(&ours.stdout);
        if ours.status.success() {
            let last = said.lines().last().unwrap();
            assert_eq!(last, text(&script.stdout).trim_end());
        }
        (ours.status.success(), said)
    }

    pub fn is_whole(&self) {
        let (whole, said) = self.verify();
        assert!(whole, "{said}");
    }

    pub fn refusals(&self, run: &str) -> Vec<Value> {
        let mut command = gateway(&["refusals", run, "--log"]);
        let output = command.arg(self.log()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let lines = text(&output.stdout);
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

pub fn gateway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drill-fixture"));
    command.arg("gateway").args(arguments).env_clear();
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A gateway process.
pub struct Gateway {
    pub child: Child,
    pub socket: PathBuf,
    /// What it said when it was ready.
    pub ready: String,
    _stdout: BufReader<ChildStdout>,
}

impl Gateway {
    pub fn started(mut command: Command, socket: PathBuf) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        assert!(ready.starts_with("gateway: listening on "), "{ready:?}");
        Self {
            child,
            socket,
            ready,
            _stdout: stdout,
        }
    }

    pub fn order(&self, order: &[&str]) -> Output {
        let mut command = gateway(&["session"]);
        command.args(order).arg("--socket").arg(&self.socket);
        command.output().unwrap()
    }

    pub fn open(&self, run: &str) {
        let output = self.order(&["open", run, "--approval", "CHG-7", "--by", "ops"]);
        assert!(output.status.success(), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }

    pub fn revoke(&self, run: &str) {
        let output = self.order(&["revoke", run, "--by", "ops"]);
        assert!(output.status.success(), "{output:?}");
    }

    /// A write of `run-1` that is on its way.
    pub fn call(&self, call: &str) -> Caller {
        self.call_of("run-1", call)
    }

    pub fn call_of(&self, run: &str, call: &str) -> Caller {
        let key = format!("Idempotency-Key: key-{call}\r\n");
        self.ask("POST /builds", run, call, &key)
    }

    pub fn ask(&self, line: &str, run: &str, call: &str, headers: &str) -> Caller {
        let stream = UnixStream::connect(&self.socket).unwrap();
        Caller::ask(stream, line, run, call, headers)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and what it left on stderr.
    pub fn end(mut self) -> (ExitStatus, String) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (status, said)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails if it has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request on a socket of the gateway.
pub struct Caller<S = UnixStream>(S);

impl<S: Read + Write> Caller<S> {
    pub fn ask(mut stream: S, line: &str, run: &str, call: &str, headers: &str) -> Self {
        let body = r#"{"app":"shop","ref":"v1"}"#;
        let request = format!(
            "{line} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nGateway-Run: {run}\r\n\
             Gateway-Call: {call}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        Self(stream)
    }

    /// The status and the whole reply, as it came.
    pub fn answer(mut self) -> (u16, String) {
        let mut reply = String::new();
        self.0.read_to_string(&mut reply).unwrap();
        let status = reply
            .split(' ')
            .nth(1)
            .map(|status| status.parse().unwrap());
        (status.unwrap_or(0), reply)
    }
}

/// A listener that plays an HTTP server.
pub struct Http(TcpListener);

impl Http {
    pub fn listen() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// One whose queue is full: a connect stays in `SYN_SENT` until [`Self::release`].
    pub fn unreachable() -> (Self, TcpStream) {
        let kind = (AddressFamily::Inet, SockType::Stream);
        let fd = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        listen(&fd, Backlog::new(0).unwrap()).unwrap();
        let http = Self(fd.into());
        let filler = TcpStream::connect(http.0.local_addr().unwrap()).unwrap();
        (http, filler)
    }

    /// Waits until somebody's connect is pending. The kernel has no event for it.
    pub fn until_pending(&self) {
        let port = self.0.local_addr().unwrap().port();
        let pending = format!("0100007F:{port:04X} 02 ");
        eventually("a pending connect", || {
            let connections = fs::read_to_string("/proc/net/tcp").unwrap();
            connections.contains(&pending)
        });
    }

    /// Lets the pending connect through. The kernel tries again by itself, within about a second.
    pub fn release(&self) {
        drop(self.0.accept().unwrap());
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    fn arrives_within(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(limit).unwrap();
        poll(&mut fds, limit).unwrap() == 1
    }

    pub fn connection(&self) -> TcpStream {
        assert!(self.arrives_within(LIMIT), "no connection");
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// The next request, read to its end.
    pub fn request(&self) -> Request {
        Request::read(self.connection())
    }

    /// The connections that wait now.
    pub fn waiting(&self) -> Vec<TcpStream> {
        std::iter::from_fn(|| {
            self.arrives_within(Duration::ZERO)
                .then(|| self.connection())
        })
        .collect()
    }

    /// Asserts that not a byte has come, on whatever connection. Whoever could send one must have given up.
    pub fn nothing_came(&self) {
        for mut stream in self.waiting() {
            let mut bytes = Vec::new();
            let read = stream.read_to_end(&mut bytes);
            assert!(bytes.is_empty(), "{}", text(&bytes));
            let reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
            assert!(
                read.as_ref().is_ok() || read.as_ref().is_err_and(reset),
                "{read:?}"
            );
        }
    }
}

/// A request that was read and not answered.
pub struct Request {
    stream: TcpStream,
    pub line: String,
    pub headers: String,
    pub body: Value,
}

impl Request {
    pub fn read(stream: TcpStream) -> Self {
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        assert!(!head.is_empty(), "a connection without a request");
        let line = head.remove(0).trim_end_matches(" HTTP/1.1").to_owned();
        let length = head.iter().find_map(|header| {
            let (name, value) = header.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        lines.read_exact(&mut body).unwrap();
        Self {
            stream,
            line,
            headers: head.join("\n").to_ascii_lowercase(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        }
    }

    pub fn reply(mut self, status: u16, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        // The gateway may have given it up.
        let _ = self.stream.write_all(format!("{head}{body}").as_bytes());
    }

    pub fn accept(self) {
        self.reply(201, &json!({ "id": "b-1", "state": "queued" }));
    }

    pub fn approve(self) {
        self.reply(200, &json!({ "approved": true, "approval": "A-1" }));
    }

    /// Closes without an answer.
    pub fn lose(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Waits until the other end has closed.
    pub fn until_given_up(mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}

/// An MCP server on stdio, and our ends of its pipes.
pub struct Server {
    pub child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    pub fn started(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            stdout,
        }
    }

    /// The model deploy server, behind the gateway that has this socket.
    pub fn deploy(gateway: &Gateway, log: &Path, fault: Option<&str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drill-fixture"));
        command.arg("deploy").env_clear();
        command.env("BUILD_API", format!("unix:{}", gateway.socket.display()));
        command.env("ACTIVITY_LOG", log).env("RUN_ID", "run-1");
        if let Some(fault) = fault {
            command.args(["--fault", fault]);
        }
        command
    }

    pub fn call(&mut self, call: &str) {
        let message = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": "deploy_build",
                "arguments": { "app": "shop", "ref": "v1" },
                "_meta": {
                    "dev.cargo-drill/correlationId": call,
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub fn result(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        answer["result"].clone()
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits for a clean exit, and says how long it took.
    pub fn exits(&mut self) -> Duration {
        let begun = Instant::now();
        eventually_mut("the exit", || {
            self.child.try_wait().unwrap().is_some_and(|status| {
                assert!(status.success(), "{status}");
                true
            })
        });
        begun.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for what has no event.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    eventually_mut(what, is_so);
}

fn eventually_mut(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(GLANCE);
    }
}

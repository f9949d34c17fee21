//! The room in which a server is driven: a work folder, a listener that plays the build API, and the sessions.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        socket::{
            AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen,
            socket,
        },
    },
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Far more than anything here takes; a test that waits this long has failed.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A server that has ended its helper and is still there after this long does not mean to go.
const STAYING: Duration = Duration::from_millis(50);

/// The credential that must turn up nowhere.
pub const TOKEN: &str = "canary-3f9c2b";

pub struct Room {
    folder: TempDir,
    listener: TcpListener,
    filler: Option<TcpStream>,
}

impl Room {
    /// A build API that takes connections.
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            filler: None,
        }
    }

    /// A build API whose queue is full: a connect stays in `SYN_SENT`.
    pub fn unreachable() -> Self {
        let fd = socket(
            AddressFamily::Inet,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        listen(&fd, Backlog::new(0).unwrap()).unwrap();
        let port = getsockname::<SockaddrIn>(fd.as_raw_fd()).unwrap().port();
        let filler = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            listener: fd.into(),
            filler: Some(filler),
        }
    }

    /// The same folder, with a build API that takes connections after all.
    pub fn reachable(self) -> Self {
        drop(self.filler);
        Self {
            folder: self.folder,
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            filler: None,
        }
    }

    /// Lets the pending connect through. The kernel tries again by itself, within about a second.
    pub fn release(&self) {
        drop(self.listener.accept().unwrap());
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("activity.jsonl")
    }

    /// The log as it stands on disk now.
    pub fn rows(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Its words for what became of the calls.
    pub fn outcomes(&self) -> Vec<String> {
        let word = |row: &Value| row["outcome"].as_str().unwrap().to_owned();
        self.rows().iter().map(word).collect()
    }

    /// The next request that reaches the build API, read to its end.
    pub fn request(&self) -> Request {
        let (stream, _) = self.listener.accept().unwrap();
        Request::read(stream)
    }

    /// Asserts that no connection is waiting. Whoever could have made one must have exited.
    pub fn nothing_arrived(&self) {
        self.listener.set_nonblocking(true).unwrap();
        let arrived = self.listener.accept();
        assert!(arrived.is_err(), "a request arrived: {arrived:?}");
        self.listener.set_nonblocking(false).unwrap();
    }

    /// Waits until somebody's connect to the build API is pending. The kernel has no event for it.
    pub fn connect_pending(&self) {
        let port = self.address().port();
        let pending = format!("0100007F:{port:04X} 02 ");
        eventually("a pending connect", || {
            fs::read_to_string("/proc/net/tcp")
                .unwrap()
                .contains(&pending)
        });
    }

    pub fn command(&self, fault: Option<&str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drill-fixture"));
        command.arg("deploy").env_clear();
        command.env("BUILD_API", format!("http://{}", self.address()));
        command.env("BUILD_TOKEN", TOKEN);
        command.env("ACTIVITY_LOG", self.log_path());
        command.env("RUN_ID", "run-1").env("APPROVAL_ID", "CHG-7");
        if let Some(fault) = fault {
            command.args(["--fault", fault]);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A server that has answered `server/discover`.
    pub fn server(&self) -> Server {
        Server::discovered(self.command(None))
    }

    pub fn faulty(&self, fault: &str) -> Server {
        Server::discovered(self.command(Some(fault)))
    }
}

/// A request that the build API has read and not answered.
pub struct Request {
    stream: TcpStream,
    pub line: String,
    headers: Vec<String>,
}

impl Request {
    fn read(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let mut line = || {
            let mut text = String::new();
            lines.read_line(&mut text).unwrap();
            text.trim_end().to_owned()
        };
        let first = line();
        let headers: Vec<_> = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()))
            .map(|header| header.to_ascii_lowercase())
            .collect();
        let request = Self {
            stream,
            line: first.trim_end_matches(" HTTP/1.1").to_owned(),
            headers,
        };
        let length = request
            .header("content-length")
            .map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        lines.read_exact(&mut body).unwrap();
        request
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let value = |header: &'_ String| header.starts_with(&format!("{name}: "));
        let header = self.headers.iter().find(|header| value(header))?;
        Some(&header[name.len() + 2..])
    }

    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }

    pub fn reply(mut self, status: u16, body: &Value) {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.stream
            .write_all(format!("{head}{body}").as_bytes())
            .unwrap();
    }

    /// Sends half of a reply and closes.
    pub fn cut(mut self) {
        let half = b"HTTP/1.1 201 Created\r\nContent-Length: 40\r\n\r\n{\"id\":";
        self.stream.write_all(half).unwrap();
    }

    pub fn accept(self) {
        self.reply(201, &json!({ "id": "b-1", "state": "queued" }));
    }
}

/// One session: the server's process and our ends of its pipes.
pub struct Server {
    pub child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Server {
    pub fn started(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Self {
            child,
            stdin,
            stdout,
            next_id: 0,
        }
    }

    fn discovered(command: Command) -> Self {
        let mut server = Self::started(command);
        let versions =
            server.ask("server/discover", json!({}))["result"]["supportedVersions"].clone();
        assert!(versions.as_array().unwrap().contains(&json!("2026-07-28")));
        server
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line.
    pub fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
    }

    /// Reads one line as it is; empty at EOF.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line
    }

    /// Reads one message; `None` is EOF.
    pub fn read(&mut self) -> Option<Value> {
        let line = self.line();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Sends a request of revision 2026-07-28 without waiting for the answer.
    pub fn send(&mut self, method: &str, mut params: Value) {
        self.next_id += 1;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let id = self.next_id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params);
        let answer = self.read().expect("an answer");
        assert_eq!(answer["id"], self.next_id, "{answer}");
        answer
    }

    /// Sends `deploy_build` under a call id.
    pub fn call(&mut self, call_id: &str) {
        self.call_ref(call_id, "v1.2.3");
    }

    pub fn call_ref(&mut self, call_id: &str, git_ref: &str) {
        self.send(
            "tools/call",
            json!({
                "name": "deploy_build",
                "arguments": { "app": "shop", "ref": git_ref },
                "_meta": { "dev.cargo-drill/correlationId": call_id },
            }),
        );
    }

    /// The result of the call that was sent last.
    pub fn result(&mut self) -> Value {
        self.read().expect("an answer")["result"].clone()
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// What a killed client leaves: all our ends are closed.
    pub fn abandon(&mut self) {
        self.stdin = None;
        self.stdout = None;
        self.child.stderr = None;
    }

    pub fn signal(&self, signal: Signal) {
        kill(pid(self.pid()), signal).unwrap();
    }

    /// Waits for the exit and says how long it took from now on.
    pub fn exit(&mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        let alarm = Alarm::set(self.pid());
        let status = self.child.wait().unwrap();
        drop(alarm);
        (status, begun.elapsed())
    }

    /// Asserts a clean exit, in good time.
    pub fn exits_cleanly(&mut self) {
        let (status, took) = self.exit();
        assert_eq!(status.code(), Some(0), "{status}");
        // The drain, the last words and a loaded machine. A stock server would take 5 s.
        assert!(took < Duration::from_secs(3), "took {took:?}");
    }

    /// Asserts that EOF alone does not end it; SIGTERM does.
    pub fn outstays_eof_until_sigterm(&mut self) {
        assert!(self.stdin.is_none());
        eventually("the helper's end", || self.helpers().is_empty());
        // There is no event for staying.
        thread::sleep(STAYING);
        assert!(is_alive(self.pid()));
        self.signal(Signal::SIGTERM);
        self.exits_cleanly();
    }

    /// The processes that this one started and that are alive.
    pub fn helpers(&self) -> Vec<u32> {
        processes()
            .into_iter()
            .filter(|process| process.parent == self.pid() && process.alive)
            .map(|process| process.pid)
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has exited, which is what should be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process that outstays the limit, so that a test fails instead of hanging.
struct Alarm(#[expect(dead_code, reason = "dropping it calls the alarm off")] mpsc::Sender<()>);

impl Alarm {
    fn set(process: u32) -> Self {
        let (off, called_off) = mpsc::channel();
        thread::spawn(move || {
            if called_off.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill(pid(process), Signal::SIGKILL);
            }
        });
        Self(off)
    }
}

pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// A zombie is dead.
    pub alive: bool,
}

pub fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name, in parentheses, may hold anything; what counts follows the last one (proc_pid_stat(5)).
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
            let alive = !matches!(fields.next()?, "Z" | "X");
            let parent = fields.next()?.parse().ok()?;
            Some(Process { pid, parent, alive })
        })
        .collect()
}

pub fn is_alive(pid: u32) -> bool {
    processes().iter().any(|p| p.pid == pid && p.alive)
}

pub fn pid(raw: u32) -> Pid {
    Pid::from_raw(raw.try_into().unwrap())
}

pub fn argv(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap()
}

pub fn environ(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/environ")).unwrap()
}

/// Waits until a new process shows its own arguments. The parent goes on as soon as `execve` can no longer fail, and
/// that is before the kernel has filled in arguments and environment: both read as empty for a moment.
pub fn until_executed(process: u32) {
    eventually("arguments", || !argv(process).is_empty());
}

/// Ends what a server has left behind.
pub fn end_it(left: u32) {
    kill(pid(left), Signal::SIGTERM).unwrap();
    eventually("its end", || !is_alive(left));
}

/// Looks again and again until it is so. For what has no event to wait for.
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LIMIT, "never came: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A connected pair of sockets: stdin as some clients make it.
pub fn socketpair() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    (ours.into(), theirs.into())
}

//! The place in which a gateway is driven: a folder, an upstream, gateway processes and their callers.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::http::Http;

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

/// Waits for what has no event.
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    eventually_mut(what, is_so);
}

/// The same, for a look that changes something.
pub fn eventually_mut(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what} did not come");
        thread::sleep(GLANCE);
    }
}

//! An MCP server in a session that the test has.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::place::{Gateway, eventually_mut};

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

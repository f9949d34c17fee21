//! The server, the client's leak, and what the work folder gets.

use std::path::Component;
use std::time::Duration;

use super::super::path::Path;
use super::Check;

impl Check<'_, '_> {
    pub(super) fn server(&mut self) {
        let server = &self.drill.server;
        let at = Path::of(["server"]);
        if server.command.first().is_some_and(String::is_empty) {
            self.value(
                &at.key("command").index(0),
                "there is no program of this name",
            );
        }
        self.arguments(&at.key("command"), &server.command);
        self.arguments(
            &Path::of(["client", "leak_stdin_to"]),
            &self.drill.client.leak_stdin_to,
        );
        for (name, value) in &server.env {
            let at = at.key("env").key(name);
            if name.is_empty() || name.contains(['=', '\0']) {
                self.key(&at, "a variable's name is not empty and has no `=` in it");
            }
            if value.contains('\0') {
                self.value(&at, NUL);
            }
        }
        for name in server.files.keys() {
            if !stays_inside(name) {
                self.key(
                    &at.key("files").key(name),
                    "a file is written inside the work folder",
                )
                .help("a relative path without `..`, such as `config/settings.json`");
            }
        }
        self.limits(&at.key("limits"));
    }

    fn limits(&mut self, at: &Path) {
        let limits = self.drill.server.limits;
        if limits.memory.is_some_and(|size| size.0 < LEAST_MEMORY) {
            self.value(&at.key("memory"), "no server runs in less than 1 MiB")
                .help("a plain number is bytes: write `256MiB`");
        }
        if limits.cpu.is_some_and(|time| time.0 < LEAST_CPU_TIME) {
            self.value(
                &at.key("cpu"),
                "no server starts in less than 10 ms of CPU time",
            )
            .help("a plain number is seconds: write `10s`");
        }
    }

    fn arguments(&mut self, at: &Path, arguments: &[String]) {
        for (n, argument) in arguments.iter().enumerate() {
            if argument.contains('\0') {
                self.value(&at.index(n), NUL);
            }
        }
    }
}

/// What is less is a unit that was forgotten.
const LEAST_MEMORY: u64 = 1024 * 1024;

/// The kernel's clock for it has no finer ticks (proc(5), `utime`).
const LEAST_CPU_TIME: Duration = Duration::from_millis(10);

/// execve(2) takes C strings.
const NUL: &str = "a NUL character cannot be passed to a process";

fn stays_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.ends_with('/')
        && !name.contains('\0')
        && std::path::Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

//! An authority that stands outside of the remote, driven by the commands that the drill names.
//!
//! ```text
//!   serve ──ready──────────────────────────────────────────────────────> to the end of the trial
//!             issue A ── session A ── crash ── revoke A ── issue B ── session B ── verify
//!                                   refusals ── the revoked session ── refusals ── verify
//! ```
//!
//! All of them run inside the cell, as the operator's, not as the server's: none is a helper of a session, none outlives
//! the trial. Whatever one says is text from outside: bounded, and without secrets when it is written down.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::TrialError;
use super::serving::leave_out;
use super::stage::Stage;
use crate::cell::Spawn;
use crate::journal::{Event, Exit, Moment, Pid, Refusal, Session, excerpt};
use crate::roles::Role;
use crate::spec::Commands;

/// Bytes of what a command writes that are read: a credential and a page of refusals fit.
const LARGEST: u64 = 1024 * 1024;

/// Bytes of a credential: what fits into a header.
const LONGEST_CREDENTIAL: usize = 8 * 1024;
const SHORTEST_CREDENTIAL: usize = 8;

/// Characters of it that are written down.
const EXCERPT: usize = 2000;

/// Refusals that are written down.
const MOST_REFUSALS: usize = 100;

/// What a command came to.
struct Ended {
    /// Absent where it did not end in time.
    exit: Option<Exit>,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn is_success(&self) -> bool {
        self.exit == Some(Exit::Code(0))
    }

    /// What went wrong, for a message.
    fn complaint(&self, within: Duration) -> String {
        let how = match self.exit {
            Some(exit) => format!("it ended with {exit}"),
            None => format!("it did not end within {} s", within.as_secs_f64()),
        };
        match self.stderr.trim() {
            "" => how,
            said => format!("{how}: {}", excerpt(said, 300)),
        }
    }
}

impl Stage {
    /// Starts the authority, where it is not there yet, and has it issue what this session is to have.
    pub(super) async fn authorise(&mut self, session: Session) -> Result<(), TrialError> {
        let Some(commands) = self.commands() else {
            return Ok(());
        };
        self.issue_for(session, &commands).await?;
        self.note_daemons()
    }

    async fn issue_for(&mut self, session: Session, commands: &Commands) -> Result<(), TrialError> {
        if !commands.serve.is_empty() && self.operator.pid.is_none() {
            self.serve(commands).await?;
        }
        // The revoked session claims the run that was revoked.
        if commands.issue.is_empty()
            || session == Session::Revoked
            || !self.operator.issued.insert(session)
        {
            return Ok(());
        }
        let issued = self
            .run_command("issue", commands, &commands.issue, session)
            .await?;
        if !issued.is_success() {
            return Err(TrialError::Prepare(format!(
                "the authority issued nothing for {session}: {}",
                issued.complaint(commands.within.0)
            )));
        }
        let token = issued.stdout.trim();
        if let Some(fault) = fault_of_credential(token) {
            return Err(TrialError::Prepare(format!(
                "what the authority's `issue` printed for {session} is no credential: {fault}"
            )));
        }
        self.operator.hands_tokens = !token.is_empty();
        if !token.is_empty() {
            self.authority.take_issued(session, token);
            self.hand_token(session, token);
        }
        Ok(())
    }

    /// Whoever is here before a session begins, and is not of the session beside, is the authority's: it may have left a
    /// daemon that no parent tells of.
    fn note_daemons(&mut self) -> Result<(), TrialError> {
        let Some(pid) = self.operator.pid else {
            return Ok(());
        };
        let mut here = self.cell.line().census()?;
        leave_out(&mut here, self.bystanders.clone());
        let others: Vec<Pid> = here
            .iter()
            .map(|process| process.pid)
            .filter(|other| *other != pid)
            .collect();
        if others != self.operator.others {
            self.operator.others.clone_from(&others);
            let argv = Vec::new();
            self.journal
                .append(Event::AuthorityServes { pid, argv, others });
        }
        Ok(())
    }

    /// Has the authority revoke run A. `None`: there is no such authority; false: it did not.
    pub(super) async fn revoke_by_command(&mut self) -> Result<Option<bool>, TrialError> {
        let Some(commands) = self.commands() else {
            return Ok(None);
        };
        let revoked = self
            .run_command("revoke", &commands, &commands.revoke, Session::A)
            .await?;
        Ok(Some(revoked.is_success()))
    }

    /// What the authority says that it refused to run A.
    pub(super) async fn read_refusals(&mut self, moment: Moment) -> Result<(), TrialError> {
        let Some(commands) = self.commands().filter(|known| !known.refusals.is_empty()) else {
            return Ok(());
        };
        let listed = self
            .run_command("refusals", &commands, &commands.refusals, Session::A)
            .await?;
        if listed.is_success() {
            let refusals = listed
                .stdout
                .lines()
                .filter_map(refusal)
                .take(MOST_REFUSALS)
                .collect();
            self.journal
                .append(Event::RefusalsRead { moment, refusals });
        }
        Ok(())
    }

    /// Has the authority check its own journal.
    pub(super) async fn verify_authority(&mut self) -> Result<(), TrialError> {
        if let Some(commands) = self.commands().filter(|known| !known.verify.is_empty()) {
            self.run_command("verify", &commands, &commands.verify, Session::A)
                .await?;
        }
        Ok(())
    }

    fn commands(&self) -> Option<Commands> {
        self.drill.authority.as_ref()?.commands()
    }

    /// Starts the authority and returns when it has written its first line.
    async fn serve(&mut self, commands: &Commands) -> Result<(), TrialError> {
        let argv = self.operator_texts(&commands.serve, Session::A)?;
        let said = self.scratch().join("authority.err");
        let (stdout, ours) = pipe_out()?;
        let pid = self.spawn_operator(
            commands,
            &argv,
            Session::A,
            stdout,
            File::create(&said)?.into(),
        )?;
        self.operator.pid = Some(pid);
        let mut lines = BufReader::new(ours);
        let mut first = String::new();
        let mut bounded = (&mut lines).take(LARGEST);
        let ready = bounded.read_line(&mut first);
        let read = tokio::time::timeout(commands.within.0, ready).await;
        let fault = match read {
            Ok(Ok(0)) => {
                Some("it ended, or closed its stdout, before it had written a line".to_owned())
            }
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!(
                "it wrote no line within {} s",
                commands.within.0.as_secs_f64()
            )),
        };
        if let Some(fault) = fault {
            let said = read_bounded(&said)?;
            return Err(TrialError::Prepare(format!(
                "the authority is not ready: {fault}{}{}",
                if said.trim().is_empty() { "" } else { ": " },
                excerpt(said.trim(), 300)
            )));
        }
        self.journal.append(Event::AuthorityServes {
            pid,
            argv,
            others: Vec::new(),
        });
        // Whatever else it writes is read, so that it never waits for us.
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut lines, &mut tokio::io::sink()).await;
        });
        Ok(())
    }

    /// Runs a command of the authority to its end.
    async fn run_command(
        &mut self,
        what: &str,
        commands: &Commands,
        templates: &[String],
        run: Session,
    ) -> Result<Ended, TrialError> {
        let argv = self.operator_texts(templates, run)?;
        self.operator.commands += 1;
        let file = |end: &str| {
            self.scratch()
                .join(format!("operator-{}.{end}", self.operator.commands))
        };
        let (out, err) = (file("out"), file("err"));
        let mut watch = self.watch_from_here();
        let (stdout, stderr) = (File::create(&out)?.into(), File::create(&err)?.into());
        let pid = self.spawn_operator(commands, &argv, run, stdout, stderr)?;
        let deadline = Instant::now() + commands.within.0;
        let exit = watch
            .until(deadline, |entry| match &*entry.event {
                Event::ProcessExited { pid: of, exit, .. } if *of == pid => Some(*exit),
                _ => None,
            })
            .await;
        if exit.is_none() {
            self.cell.line().signal(pid, crate::spec::Signal::Kill)?;
        }
        let ended = Ended {
            exit,
            stdout: read_bounded(&out)?,
            stderr: read_bounded(&err)?,
        };
        // What `issue` writes is a credential, and not yet known as one.
        let shown = if what == "issue" {
            ""
        } else {
            ended.stdout.trim_end()
        };
        self.journal.append(Event::AuthorityCommand {
            what: what.to_owned(),
            run,
            argv,
            exit,
            stdout: excerpt(shown, EXCERPT),
            stderr: excerpt(ended.stderr.trim_end(), EXCERPT),
        });
        Ok(ended)
    }

    fn spawn_operator(
        &self,
        commands: &Commands,
        argv: &[String],
        run: Session,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> Result<Pid, TrialError> {
        let mut env = self.surroundings_env();
        for (name, value) in &commands.env {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), self.operator_text(value, run)?));
        }
        let fence = serde_json::to_string(&self.fence()?).map_err(io::Error::from)?;
        let role = ["cargo-drill", Role::Operator.argument(), &fence];
        Ok(self.cell.line().spawn(Spawn {
            argv: role
                .into_iter()
                .map(str::to_owned)
                .chain(argv.iter().cloned())
                .collect(),
            env,
            cwd: self.work.clone(),
            stdin: File::open("/dev/null")?.into(),
            stdout,
            stderr,
        })?)
    }

    fn operator_texts(
        &self,
        templates: &[String],
        run: Session,
    ) -> Result<Vec<String>, TrialError> {
        templates
            .iter()
            .map(|template| self.operator_text(template, run))
            .collect()
    }
}

/// Why this cannot be a credential. What is not one line of printable text would be written down in forms that nobody
/// recognises as the secret, and what is short stands everywhere.
fn fault_of_credential(token: &str) -> Option<String> {
    if token.len() > LONGEST_CREDENTIAL {
        return Some(format!(
            "it has {} bytes, and {LONGEST_CREDENTIAL} are the most",
            token.len()
        ));
    }
    if token.contains(|c: char| !c.is_ascii_graphic()) {
        return Some("it is not one word of printable ASCII on one line".to_owned());
    }
    let is_short = !token.is_empty() && token.len() < SHORTEST_CREDENTIAL;
    is_short.then(|| {
        format!(
            "it has {} bytes; a secret of less than {SHORTEST_CREDENTIAL} could not be told from other text",
            token.len()
        )
    })
}

/// A line of `refusals`: an object with `call` and `target`, and whatever else.
fn refusal(line: &str) -> Option<Refusal> {
    let row: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| {
        let value = row.as_object()?.get(key)?.as_str()?;
        Some(excerpt(value, 300))
    };
    row.is_object().then(|| Refusal {
        call: text("call"),
        target: text("target"),
    })
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(LARGEST)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A pipe: the end for the process, and ours.
fn pipe_out() -> io::Result<(OwnedFd, pipe::Receiver)> {
    let (sender, receiver) = pipe::pipe()?;
    Ok((sender.into_blocking_fd()?, receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_an_object_on_a_line() {
        let row = refusal(r#"{"call":"c1","target":"POST /builds","at":"x"}"#).unwrap();
        assert_eq!(row.call.as_deref(), Some("c1"));
        assert_eq!(row.target.as_deref(), Some("POST /builds"));
        assert_eq!(refusal("{}").unwrap().call, None);
        assert!(refusal("no refusals").is_none() && refusal("[1]").is_none());
    }

    #[test]
    fn what_is_no_credential_is_not_taken_for_one() {
        let fault = |token: &str| fault_of_credential(token);
        assert!(fault("").is_none() && fault("sp-3f9a1c77").is_none());
        assert!(fault("x").unwrap().contains("1 bytes"));
        for token in [
            "-----BEGIN KEY-----\nMIIB",
            "a token of words",
            "nul\0nul\0",
        ] {
            assert!(fault(token).unwrap().contains("one word"), "{token:?}");
        }
        let long = "x".repeat(LONGEST_CREDENTIAL + 1);
        assert!(fault(&long).unwrap().contains("are the most"));
    }

    #[test]
    fn a_command_that_failed_is_told_with_what_it_said() {
        let ended = |exit, stderr: &str| Ended {
            exit,
            stdout: String::new(),
            stderr: stderr.to_owned(),
        };
        let within = Duration::from_secs(2);
        let told = ended(Some(Exit::Code(3)), "no such run\n").complaint(within);
        assert_eq!(told, "it ended with status 3: no such run");
        assert_eq!(
            ended(None, "").complaint(within),
            "it did not end within 2 s"
        );
    }
}

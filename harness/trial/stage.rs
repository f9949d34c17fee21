//! The stage of a trial: work folder, cell, remote, authority and journal, and how a session is opened on it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;
use uuid::Uuid;

use super::needs::needs;
use super::operator::Operator;
use super::place::{place, url};
use super::record::{Collected, Collector, Record, Source, trace_of};
use super::redact;
use super::{Surroundings, TrialError};
use crate::cell::{Bounds, Cell, CellError, Fence, Gate, Plan};
use crate::journal::{AnswerShape, CallRole, Event, Journal, Pid, Session, SessionFault, Watch};
use crate::network;
use crate::otlp::Receiver;
use crate::remote::{Authority, Inlet, Issued, Remote};
use crate::session::{Gated, Issue, Leading, Listing, LiveSession, Opening, Write, fits_a_socket};
use crate::spec::{
    self, Call, Correlation, Crash, Drill, Group, Kill, Network, Ownership, Protocol, RecordPlace,
    Sdk, Span, Templates,
};

/// The identity of a session, made by the harness.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub run: String,
    pub call: String,
    pub approval: String,
    pub token: String,
    pub refresh: String,
    /// The run that the client says it is: another one. No other session has it, so whoever names it has believed the
    /// client.
    pub declared: String,
}

pub(super) struct Stage {
    pub drill: Arc<Drill>,
    pub journal: Journal,
    pub cell: Cell,
    /// Sees the system calls of session A, where the drill asks for it. Behind the cell, since it must outlive all in it.
    pub gate: Option<Gate>,
    /// Session A is to be opened with its system calls seen.
    pub is_gated: bool,
    pub remote: Option<Remote>,
    pub authority: Authority,
    pub operator: Operator,
    pub record: Option<Record>,
    /// Takes what the server exports, where the drill asks for it.
    pub otlp: Option<Receiver>,
    /// Answers what the server seeks besides the remote; absent where the network is the host's.
    pub network: Option<network::Network>,
    pub bundle: PathBuf,
    /// The processes of the session beside, as long as it is open.
    pub bystanders: HashSet<Pid>,
    pub(super) templates: Templates,
    identities: HashMap<Session, Identity>,
    pub(super) surroundings: Surroundings,
    pub work: PathBuf,
    pub(super) port: u16,
    /// Made by the cell, and gone with it.
    scratch: PathBuf,
    fence: Option<Fence>,
}

impl Stage {
    /// Prepares a trial up to the point where a session can be opened.
    pub async fn prepare(
        drill: Arc<Drill>,
        surroundings: Surroundings,
        bundle: &Path,
        journal: Journal,
    ) -> Result<Self, TrialError> {
        let scratch = scratch_path()?;
        if !fits_a_socket(&scratch) {
            return Err(TrialError::Prepare(format!(
                "the temporary folder {} is too long for a Unix socket; set TMPDIR to a shorter one",
                scratch.display()
            )));
        }
        let plan = Plan {
            wanted: surroundings.cell,
            open_network: drill.server.network == Network::Open,
            bounds: Bounds::of(
                drill.server.limits,
                u32::from(!drill.client.leak_stdin_to.is_empty()),
            ),
            otlp: drill.receives_otlp(),
            scratch: scratch.clone(),
            needs: needs(&drill, &surroundings),
        };
        let (cell, doorway) = Cell::build(&plan, &journal)?;
        let work = scratch.join("work");
        for folder in [&work, &work.join("home"), &work.join("tmp")] {
            fs::create_dir(folder)?;
        }
        let port = doorway.port;
        let authority = Authority::new(
            drill.authority.as_ref(),
            journal.secrets().clone(),
            &url(port),
        );
        let otlp = doorway.otlp.map(Receiver::start).transpose()?;
        let network = network::Network::start(doorway.network, cell.line(), &journal)?;
        let remote = match &drill.remote {
            None => None,
            Some(spec) => {
                let (sockets, connecting) = (cell.line().clone(), cell.line().clone());
                let inlet = Inlet {
                    listener: doorway.listener,
                    port,
                    packets: doorway.packets,
                    sockets: Arc::new(move || sockets.tcp_socket().map_err(io::Error::other)),
                    connecting: Arc::new(move || connecting.connecting().map_err(io::Error::other)),
                };
                let known = place(&surroundings, &drill, &work, port);
                Some(Remote::start(spec, authority.clone(), inlet, journal.clone(), known).await?)
            }
        };
        let mut stage = Self {
            drill,
            journal,
            cell,
            gate: None,
            is_gated: false,
            remote,
            authority,
            operator: Operator::default(),
            record: None,
            otlp,
            network,
            bundle: bundle.to_owned(),
            bystanders: HashSet::new(),
            templates: Templates::default(),
            identities: HashMap::new(),
            surroundings,
            work,
            port,
            scratch,
            fence: doorway.fence,
        };
        stage.mint(Session::A, name("run"), name("call"), name("approval"))?;
        if let Some(ownership) = stage
            .drill
            .expect
            .ownership
            .as_ref()
            .and_then(|asked| asked.ask())
        {
            let source = stage.source_of(ownership)?;
            stage.record = Some(Record::new(ownership, source, &stage.journal));
        }
        Ok(stage)
    }

    /// Where the rows of the record come from.
    fn source_of(&self, ownership: &Ownership) -> Result<Source, TrialError> {
        let collected = |what| Source::Collected(Collector::new(what, self.scratch.clone()));
        Ok(match &ownership.place {
            RecordPlace::Log(log) => Source::Log {
                path: self.work.join(self.text(log, Session::A, None)?),
                work: self.work.clone(),
            },
            RecordPlace::From(spec::Source::Stderr) => collected(Collected::Stderr),
            RecordPlace::From(spec::Source::Logging) => collected(Collected::Notifications),
            RecordPlace::From(spec::Source::Otlp) => {
                let received = self.otlp.as_ref().map(|otlp| otlp.received.clone());
                Source::Otlp(received.unwrap_or_default())
            }
        })
    }

    /// A folder for what a rehearsal leaves: within ours, so that it goes when our cell goes.
    pub fn rehearsal_folder(&self) -> io::Result<PathBuf> {
        let folder = self.scratch.join("rehearsal");
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Gives the session beside all of its own, also the call.
    pub fn mint_beside(&mut self) -> Result<(), TrialError> {
        self.mint(Session::Beside, name("run"), name("call"), name("approval"))
    }

    /// Gives session B a run, an approval and a credential of its own; the call stays the same.
    pub fn mint_recovery(&mut self) -> Result<(), TrialError> {
        let call = self.identity(Session::A).call.clone();
        self.mint(Session::B, name("run"), call, name("approval"))
    }

    /// The revoked session comes with all that run A had, and a call of its own.
    pub fn mint_revoked(&mut self) {
        let revenant = Identity {
            call: name("call"),
            declared: name("run"),
            ..self.identity(Session::A).clone()
        };
        self.note_minted(Session::Revoked, revenant);
    }

    fn mint(
        &mut self,
        session: Session,
        run: String,
        call: String,
        approval: String,
    ) -> Result<(), TrialError> {
        let Issued { token, refresh, .. } = self.authority.mint(session)?;
        self.note_minted(
            session,
            Identity {
                run,
                call,
                approval,
                token,
                refresh,
                declared: name("run"),
            },
        );
        Ok(())
    }

    /// The authority has issued this token for the run.
    pub fn hand_token(&mut self, session: Session, token: &str) {
        if let Some(identity) = self.identities.get_mut(&session) {
            token.clone_into(&mut identity.token);
        }
    }

    fn note_minted(&mut self, session: Session, identity: Identity) {
        self.journal.append(Event::Minted {
            session,
            run: identity.run.clone(),
            call: identity.call.clone(),
            approval: identity.approval.clone(),
            declared: identity.declared.clone(),
        });
        self.identities.insert(session, identity);
    }

    pub fn call_beside(&self) -> Option<String> {
        let beside = self.identities.get(&Session::Beside)?;
        Some(beside.call.clone())
    }

    pub fn identity(&self, session: Session) -> &Identity {
        // Minted before the session is opened, by each caller.
        &self.identities[&session]
    }

    /// Starts client and server, and no more. `None` when the server could not be executed; the journal says why.
    pub async fn start(&mut self, session: Session) -> Result<Option<LiveSession>, TrialError> {
        self.authorise(session).await?;
        let opening = self.opening(session)?;
        let mut live = LiveSession::open(self.cell.line(), opening, &self.journal).await?;
        if let (Some(collector), Some(tap)) = (
            self.collector(),
            live.as_mut().and_then(LiveSession::take_tap),
        ) {
            collector.listen(session, tap);
        }
        Ok(live)
    }

    fn collector(&self) -> Option<&Collector> {
        self.record.as_ref()?.collector()
    }

    /// Starts client and server and opens the protocol session, with the calls that come first. `None` when the server
    /// did not get there; the journal says why.
    pub async fn open(
        &mut self,
        session: Session,
        before: &[Call],
    ) -> Result<Option<LiveSession>, TrialError> {
        let Some(mut live) = self.start(session).await? else {
            return Ok(None);
        };
        if session == Session::A {
            self.gate = live.take_gate();
        }
        let protocol = match self.drill.server.protocol {
            Protocol::Auto => {
                let spoken = self.surroundings.spoken.protocol(&self.drill.drill);
                spoken.unwrap_or(Protocol::Auto)
            }
            pinned => pinned,
        };
        let within = self.drill.server.handshake.within;
        if !live.handshake(protocol, within).await? {
            live.leave().await?;
            return Ok(None);
        }
        self.remember_protocol(session);
        // The revoked session's server may ask the remote for its tools, and be refused before the call is made. Session B
        // lists them before its call.
        if matches!(session, Session::A | Session::Beside) {
            self.list_tools(&mut live, 1).await?;
        }
        for call in before {
            let call_id = name("call");
            self.issue(
                &mut live,
                session,
                CallRole::Before,
                call,
                call_id.clone(),
                Write::Whole,
            )
            .await?;
            self.answered(&live, CallRole::Before, &call_id, call.within)
                .await;
        }
        if self.is_gone(&live) {
            let ending = self.lost(&live).await;
            let detail = format!("{} before the call was issued", ending.told());
            live.failed(SessionFault::Lost, detail);
            live.leave().await?;
            return Ok(None);
        }
        Ok(Some(live))
    }

    /// Has the client ask for the tools this often, and writes down what there are. A server that does not say so in time
    /// is asked by no later session, unless the ids of that are to be shifted.
    pub async fn list_tools(&self, live: &mut LiveSession, times: u32) -> Result<(), TrialError> {
        let (spoken, drill) = (&self.surroundings.spoken, &self.drill.drill);
        if times == 1 && spoken.hides_tools(drill) {
            return Ok(());
        }
        let deadline = Instant::now() + self.drill.call.within.0;
        if live.list_tools(times, deadline).await? == Listing::Unanswered {
            spoken.note_hidden_tools(drill);
        }
        Ok(())
    }

    /// What befalls this session.
    fn crash_of(&self, session: Session) -> Option<Crash> {
        (session == Session::A).then(|| {
            self.journal.latest(|entry| match &*entry.event {
                Event::TrialStarted { crash, .. } => Some(crash.clone()),
                _ => None,
            })
        })?
    }

    fn remember_protocol(&self, session: Session) {
        let spoken = self.journal.latest(|entry| match &*entry.event {
            Event::Handshaken {
                session: of,
                protocol,
                ..
            } if *of == session => Some(protocol.clone()),
            _ => None,
        });
        if let Some(spoken) = spoken
            && let Ok(protocol) = serde_json::from_value(Value::String(spoken))
        {
            let spoken = &self.surroundings.spoken;
            spoken.note_protocol(&self.drill.drill, protocol);
        }
    }

    fn opening(&self, session: Session) -> Result<Opening, TrialError> {
        let server = &self.drill.server;
        for (file, content) in &server.files {
            self.write_file(file, &self.text(content, session, None)?)?;
        }
        let text = |template: &String| self.text(template, session, None);
        let mut env = self.surroundings_env();
        env.extend(self.otlp_env(session)?);
        for (name, value) in &server.env {
            env.retain(|(known, _)| known != name);
            let value = text(value)?;
            if self.drill.redact.contains(name) {
                redact::keep_out(self.journal.secrets(), name, &value)?;
            }
            env.push((name.clone(), value));
        }
        Ok(Opening {
            session,
            argv: server.command.iter().map(text).collect::<Result<_, _>>()?,
            env,
            cwd: match &server.cwd {
                None => self.work.clone(),
                Some(cwd) => self.surroundings.drill_folder.join(text(cwd)?),
            },
            stdin: server.stdin,
            group: match (
                self.crash_of(session).map(|crash| crash.kill),
                self.drill.client.group,
            ) {
                (Some(Kill::Polite(Sdk::Python)), _) => Leading::Session,
                (_, Group::Own) => Leading::Group,
                (_, Group::Shared) => Leading::Nothing,
            },
            leak_stdin_to: match session {
                Session::A => self
                    .drill
                    .client
                    .leak_stdin_to
                    .iter()
                    .map(text)
                    .collect::<Result<_, _>>()?,
                _ => Vec::new(),
            },
            command_place: self.surroundings.places.command(),
            bundle: self.bundle.clone(),
            fence: self.fence()?,
            scratch: self.scratch.clone(),
            gated: (session == Session::A && self.is_gated).then(|| Gated {
                record: self
                    .record
                    .as_ref()
                    .and_then(Record::path)
                    .map(Path::to_owned),
            }),
            stderr: self
                .collector()
                .and_then(|collector| collector.stderr_of(session)),
            noting: self
                .collector()
                .and_then(|collector| collector.noting_of(session)),
            declared: self.identity(session).declared.clone(),
        })
    }

    /// What a process that is started now must enter. It can connect to what listens in the cell, as a gateway does.
    pub fn fence(&self) -> Result<Option<Fence>, CellError> {
        let Some(fence) = &self.fence else {
            return Ok(None);
        };
        let listening = self.cell.line().listening()?;
        Ok(Some(fence.with(listening)))
    }

    /// Where the harness keeps what belongs to this trial's processes and not to their work.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Writes a file of the drill into the work folder, for its owner alone.
    fn write_file(&self, name: &str, content: &str) -> Result<(), TrialError> {
        let path = self.work.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        // Written anew for each session: the server may have replaced it.
        let _ = fs::remove_file(&path);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(file.write_all(content.as_bytes())?)
    }

    /// Issues a call and returns once it is written to the server, or can no longer be.
    pub async fn issue(
        &self,
        live: &mut LiveSession,
        session: Session,
        role: CallRole,
        call: &Call,
        call_id: String,
        write: Write,
    ) -> Result<(), TrialError> {
        let variables = self.variables(session, Some(&call_id));
        let arguments = Value::Object(call.arguments.clone());
        let Value::Object(mut arguments) = self.templates.value(&arguments, &variables)? else {
            unreachable!("a rendered object stays an object");
        };
        if let Correlation::Argument(name) = &call.correlation {
            arguments.insert(name.clone(), Value::String(call_id.clone()));
        }
        live.call(Issue {
            role,
            tool: self.templates.text(&call.tool, &variables)?,
            arguments,
            traceparent: traceparent(&call_id),
            call_id,
            write,
        })
        .await?;
        Ok(())
    }

    /// Waits for the answer to a call. Appends that nothing came, when nothing came.
    pub async fn answered(
        &self,
        live: &LiveSession,
        role: CallRole,
        call_id: &str,
        within: Span,
    ) -> AnswerShape {
        let session = live.session();
        let mut on_the_wire: Option<String> = None;
        let mut watch = self.journal.watch();
        let ended = watch
            .until(Instant::now() + within.0, |entry| match &*entry.event {
                Event::CallIssued {
                    session: of,
                    call,
                    rpc_id,
                    ..
                } if *of == session && call == call_id => {
                    on_the_wire = Some(rpc_id.clone());
                    None
                }
                Event::CallAnswered {
                    session: of,
                    rpc_id,
                    shape,
                    ..
                } if *of == session && on_the_wire.as_ref() == Some(rpc_id) => Some(Some(*shape)),
                Event::StdoutEnded { session: of, .. } if *of == session => Some(None),
                // What still holds its stdout may never let go of it.
                Event::ProcessExited { .. } if self.is_dead(live) => Some(None),
                _ => None,
            })
            .await;
        if let Some(Some(shape)) = ended {
            return shape;
        }
        let text = if ended.is_some() {
            let ending = self.lost(live).await;
            // Its end may be told before the last that it wrote.
            let answer = on_the_wire.as_ref().map(|id| self.answer_to(session, id));
            if let Some(shape) = answer.flatten() {
                return shape;
            }
            format!("{} before an answer came", ending.told())
        } else {
            format!("no answer came within {within}")
        };
        let (shape, rpc_id) = (AnswerShape::Nothing, on_the_wire.unwrap_or_default());
        self.journal.append(Event::CallAnswered {
            session,
            role,
            rpc_id,
            shape,
            text,
        });
        shape
    }

    /// A watch that starts with what comes next.
    pub fn watch_from_here(&self) -> Watch {
        let mut watch = self.journal.watch();
        watch.skip_to_end();
        watch
    }
}

/// Where a cell is to make its folder: `drill-5f0c…`, short enough for a socket below it.
fn scratch_path() -> io::Result<PathBuf> {
    let unique = Uuid::new_v4().simple().to_string();
    std::path::absolute(std::env::temp_dir().join(format!("drill-{}", &unique[..12])))
}

/// A name that has not been used before: `run-5f0c…`.
pub(super) fn name(kind: &str) -> String {
    format!("{kind}-{}", Uuid::new_v4().simple())
}

/// W3C Trace Context: version 00, trace id, parent id, sampled.
fn traceparent(call_id: &str) -> String {
    let span = Uuid::new_v4().simple().to_string();
    format!("00-{}-{}-01", trace_of(call_id), &span[..16])
}

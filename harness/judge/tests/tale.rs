//! Journals for tests: a good server's trial, told event by event, and edits that make it a bad one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::journal::*;
use crate::judge::{Answer, Judgement, Verdict, judge};
use crate::spec::{Crash, CrashPoint, Drill, Question, Signal};

pub const MS: u64 = 1_000_000;
pub const CLIENT: Pid = 2;
pub const SERVER: Pid = 3;
pub const HELPER: Pid = 7;

/// A drill that asks everything; `change` is merged into it, object by object.
pub fn drill(change: Value) -> Drill {
    let mut drill = json!({
        "drill": "deploy",
        "server": { "command": ["deploy"] },
        "remote": { "routes": [
            { "on": "POST /builds", "effect": "build", "key": { "header": "Idempotency-Key" } },
            { "on": "GET /builds", "find": "build", "by": { "query": "key" } },
            { "on": "POST /builds/{id}/cancel", "cancel": "build", "by": { "path": "id" } },
            { "on": "GET /whoami", "identity": true },
        ] },
        "authority": { "bearer": "Authorization" },
        "call": { "tool": "deploy_build" },
        "crash": ["after-acceptance"],
        "recover": { "retry": true },
        "expect": {
            "eof": { "within": "2s" },
            "ownership": { "log": "activity.jsonl", "record": {
                "run": "/run", "call": "/call", "process": "/pid", "approval": "/approval",
                "target": "/target", "key": "/key", "effect": "/effect", "outcome": "/outcome",
            } },
        },
    });
    merge(&mut drill, change);
    serde_json::from_value(drill).unwrap()
}

fn merge(into: &mut Value, change: Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) => *into = change,
    }
}

pub fn crash(form: Value) -> Crash {
    serde_json::from_value(form).unwrap()
}

/// A journal in the making.
#[derive(Clone)]
pub struct Tale {
    events: Vec<(u64, Event)>,
    drill: Drill,
}

impl Tale {
    /// A good server, killed client, at this point: the server notes its intent, gives up at EOF, notes the outcome and
    /// exits; session B asks again with the same key.
    pub fn good(point: CrashPoint) -> Self {
        Self::good_with(crash(json!(point)))
    }

    pub fn good_with(crash: Crash) -> Self {
        let mut teller = Teller::new(crash);
        teller.session_a();
        teller.crash_and_observe();
        teller.revoke_and_stop();
        teller.revoked_session();
        teller.session_b();
        Self {
            events: teller.events,
            drill: drill(json!({})),
        }
    }

    pub fn drilled_with(mut self, change: Value) -> Self {
        self.drill = drill(change);
        self
    }

    pub fn without(mut self, is: impl Fn(&Event) -> bool) -> Self {
        let count = self.events.len();
        self.events.retain(|(_, event)| !is(event));
        assert!(self.events.len() < count, "nothing was taken out");
        self
    }

    /// Puts events right after the first that matches, at its time.
    pub fn after(
        mut self,
        is: impl Fn(&Event) -> bool,
        new: impl IntoIterator<Item = Event>,
    ) -> Self {
        let place = self.place(is);
        let at = self.events[place].0;
        let new: Vec<_> = new.into_iter().map(|event| (at, event)).collect();
        self.events.splice(place + 1..=place, new);
        self
    }

    /// Puts events right before the first that matches, at its time.
    pub fn before(
        mut self,
        is: impl Fn(&Event) -> bool,
        new: impl IntoIterator<Item = Event>,
    ) -> Self {
        let place = self.place(is);
        let at = self.events[place].0;
        let new: Vec<_> = new.into_iter().map(|event| (at, event)).collect();
        self.events.splice(place..place, new);
        self
    }

    /// Changes every event that `change` says it changed; there must be one.
    pub fn change(mut self, change: impl Fn(&mut Event) -> bool) -> Self {
        let changed = self
            .events
            .iter_mut()
            .filter_map(|(_, event)| change(event).then_some(()))
            .count();
        assert!(changed > 0, "nothing was changed");
        self
    }

    /// Lets time pass before the first event that matches.
    pub fn wait(mut self, is: impl Fn(&Event) -> bool, ns: u64) -> Self {
        let place = self.place(is);
        for (at, _) in &mut self.events[place..] {
            *at += ns;
        }
        self
    }

    /// Cuts the journal before the first event that matches.
    pub fn until(mut self, is: impl Fn(&Event) -> bool) -> Self {
        let place = self.place(is);
        self.events.truncate(place);
        self
    }

    /// A process of the server is alive in every look from this one on.
    pub fn alive_from(self, moment: Moment, process: &Process) -> Self {
        self.change(|event| match event {
            Event::Looked {
                moment: at,
                session: Session::A,
                processes,
                ..
            } if *at >= moment => {
                processes.push(process.clone());
                true
            }
            _ => false,
        })
    }

    /// The server itself does not exit before it is killed.
    pub fn never_exiting(self) -> Self {
        let server = Event::ProcessExited {
            pid: SERVER,
            exit: Exit::Signal {
                number: 9,
                core: false,
            },
            comm: None,
        };
        self.without(|e| matches!(e, Event::ProcessExited { pid: SERVER, .. }))
            .wait(|e| matches!(e, Event::ObservationEnded { .. }), 2000 * MS)
            .change(|event| match event {
                Event::ObservationEnded {
                    empty,
                    deadline_passed,
                } => {
                    (*empty, *deadline_passed) = (false, true);
                    true
                }
                _ => false,
            })
            .alive_from(Moment::ClientGone, &process(SERVER))
            .after(phase(Phase::Stop), [term(SERVER), kill(SERVER), server])
    }

    fn place(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.events
            .iter()
            .position(|(_, event)| is(event))
            .expect("no such event in the tale")
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for (seq, (at, event)) in self.events.iter().enumerate() {
            lines.push(Line {
                seq: seq as u64,
                at: *at,
                time: String::new(),
                event: event.clone(),
                prev: String::new(),
                hash: String::new(),
            });
        }
        lines
    }

    pub fn judged(&self) -> Judgement {
        judge(&self.drill, &self.lines())
    }

    /// The judgement of the first `n` events alone.
    pub fn judged_up_to(&self, n: usize) -> Judgement {
        judge(&self.drill, &self.lines()[..n])
    }

    pub fn answer(&self, question: Question) -> Answer {
        self.asked(question)
            .unwrap_or_else(|| panic!("{question} is not asked: {:#?}", self.judged()))
    }

    pub fn asked(&self, question: Question) -> Option<Answer> {
        self.judged()
            .answers
            .into_iter()
            .find(|a| a.question == question)
    }

    #[track_caller]
    pub fn holds(&self, question: Question) -> Answer {
        self.is(question, Verdict::Held, "")
    }

    /// The answer is broken, and its sentence has these words.
    #[track_caller]
    pub fn breaks(&self, question: Question, words: &str) -> Answer {
        self.is(question, Verdict::Broken, words)
    }

    /// The answer is broken, and no other is.
    #[track_caller]
    pub fn breaks_only(&self, question: Question, words: &str) -> Answer {
        let answer = self.breaks(question, words);
        for other in self.judged().answers {
            if other.question != question {
                assert_eq!(
                    other.verdict,
                    Verdict::Held,
                    "{}: {}",
                    other.question,
                    other.because
                );
            }
        }
        answer
    }

    #[track_caller]
    pub fn leaves_open(&self, question: Question, words: &str) -> Answer {
        self.is(question, Verdict::Unproven, words)
    }

    #[track_caller]
    fn is(&self, question: Question, verdict: Verdict, words: &str) -> Answer {
        let answer = self.answer(question);
        assert_eq!(answer.verdict, verdict, "{question}: {}", answer.because);
        assert!(
            answer.because.contains(words),
            "{question}: {}",
            answer.because
        );
        let count = self.events.len() as u64;
        assert!(answer.evidence.iter().all(|seq| *seq < count));
        assert!(verdict == Verdict::Unproven || !answer.evidence.is_empty());
        answer
    }
}

// ---- single events -----------------------------------------------------------------------------------------------

pub fn phase(wanted: Phase) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::PhaseStarted { phase } if *phase == wanted)
}

pub fn looked(at: Moment) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Looked { moment, session: Session::A, .. } if *moment == at)
}

pub fn read_at(at: Moment) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::RecordRead { moment, .. } if *moment == at)
}

pub fn term(pid: Pid) -> Event {
    signal(pid, Signal::Term)
}

pub fn kill(pid: Pid) -> Event {
    signal(pid, Signal::Kill)
}

fn signal(pid: Pid, signal: Signal) -> Event {
    Event::SignalSent {
        pid,
        signal,
        comm: comm(pid).to_owned(),
    }
}

pub fn exited(pid: Pid, code: i32) -> Event {
    Event::ProcessExited {
        pid,
        exit: Exit::Code(code),
        comm: Some(comm(pid).to_owned()),
    }
}

fn comm(pid: Pid) -> &'static str {
    match pid {
        CLIENT | 10 | 20 => "drill-client",
        SERVER | 11 | 21 => "deploy",
        _ => "sleep",
    }
}

/// A process of the tree of session A: a child of the server, unless it is the server or the client.
pub fn process(pid: Pid) -> Process {
    let server = matches!(pid, SERVER | 11 | 21);
    let client = matches!(pid, CLIENT | 10 | 20);
    Process {
        pid,
        ppid: if client {
            1
        } else if server {
            pid - 1
        } else {
            SERVER
        },
        pgid: if server || client { pid } else { SERVER },
        sid: 1,
        state: 'S',
        comm: comm(pid).to_owned(),
        argv: match pid {
            _ if server => vec!["deploy".to_owned()],
            _ if client => vec!["drill-client".to_owned()],
            _ => vec!["sleep".to_owned(), "600".to_owned()],
        },
        started: 1000 + u64::from(pid.unsigned_abs()),
        threads: 1,
        descriptors: Some(8),
        written: Some(if server { 10_000 } else { 0 }),
        wanted: 0,
        holds: if server {
            vec![
                PipeEnd::StdinRead,
                PipeEnd::StdoutWrite,
                PipeEnd::StderrWrite,
            ]
        } else {
            Vec::new()
        },
        secrets_in_argv: Vec::new(),
        secrets_in_environ: if server || client {
            vec!["token of run A".to_owned()]
        } else {
            Vec::new()
        },
        readable: true,
    }
}

pub fn sought(connection: u32) -> Event {
    Event::ConnectionSought {
        connection,
        port: 40000,
    }
}

pub fn request(number: u32, route: &str) -> Event {
    request_by(
        number,
        route,
        Credential::Run {
            run: Session::A,
            derived: false,
            revoked: false,
        },
    )
}

pub fn request_by(number: u32, route: &str, credential: Credential) -> Event {
    let writes = route == "POST /builds";
    let (method, target) = route.split_once(' ').unwrap();
    Event::RequestReceived {
        request: number,
        connection: number,
        method: method.to_owned(),
        target: target.to_owned(),
        credential,
        route: Some(route.to_owned()),
        effect: writes.then(|| "build".to_owned()),
        key: writes.then(|| "key-a".to_owned()),
        body_bytes: 20,
    }
}

pub fn applied(request: u32, effect: &str, key: &str) -> Event {
    Event::EffectApplied {
        request,
        effect: effect.to_owned(),
        of: "build".to_owned(),
        key: Some(key.to_owned()),
    }
}

pub fn replied(request: u32) -> Event {
    Event::ReplySent {
        request,
        status: 201,
    }
}

pub fn line(session: Session, way: Way, shape: LineShape, id: &str) -> Event {
    Event::LinePassed {
        session,
        way,
        shape,
        bytes: 100,
        id: Some(id.to_owned()),
        method: (way == Way::ToServer).then(|| "tools/call".to_owned()),
        excerpt: (shape == LineShape::Noise).then(|| "listening on 8080".to_owned()),
    }
}

/// Rows of the ownership log as the good server writes them, for this call.
pub fn row(call: &str, outcome: &str) -> Row {
    let mut fields = BTreeMap::from(
        [
            ("run", json!("run-a")),
            ("call", json!(call)),
            ("process", json!(SERVER)),
            ("approval", json!("approval-a")),
            ("target", json!("shop")),
            ("key", json!("key-a")),
            ("outcome", json!(outcome)),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    if outcome == "success" {
        fields.insert("effect".to_owned(), json!("build-1"));
    }
    Row { line: 1, fields }
}

/// The rows of the record at one moment.
pub fn rows_at(at: Moment, change: impl Fn(&mut Vec<Row>)) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::RecordRead { moment, rows, .. } if *moment == at => {
            change(rows);
            true
        }
        _ => false,
    }
}

/// The rows of the record at this moment and at all later ones.
pub fn rows_from(from: Moment, change: impl Fn(&mut Vec<Row>)) -> impl Fn(&mut Event) -> bool {
    move |event| match event {
        Event::RecordRead { moment, rows, .. } if *moment >= from => {
            change(rows);
            true
        }
        _ => false,
    }
}

// ---- the good server ---------------------------------------------------------------------------------------------

struct Teller {
    events: Vec<(u64, Event)>,
    crash: Crash,
    rows: Vec<Row>,
}

impl Teller {
    fn new(crash: Crash) -> Self {
        let mut teller = Self {
            events: Vec::new(),
            crash,
            rows: Vec::new(),
        };
        let started = Event::TrialStarted {
            trial: format!("deploy::{}", teller.crash.at),
            drill: "deploy".to_owned(),
            crash: teller.crash.clone(),
            tool: "cargo-drill".to_owned(),
        };
        teller.tell([started]);
        teller.begin(Phase::Prepare);
        teller.tell([Event::CellReady {
            cell: CellKind::Namespaces,
            user_namespace: false,
            packet_socket: true,
            remote_port: 8080,
            weakens: Vec::new(),
        }]);
        teller.minted(Session::A, "a", "call-a");
        teller
    }

    fn tell(&mut self, events: impl IntoIterator<Item = Event>) {
        for event in events {
            let at = self.events.last().map_or(0, |(at, _)| at + MS);
            self.events.push((at, event));
        }
    }

    fn begin(&mut self, phase: Phase) {
        self.tell([Event::PhaseStarted { phase }]);
    }

    fn minted(&mut self, session: Session, run: &str, call: &str) {
        self.tell([Event::Minted {
            session,
            run: format!("run-{run}"),
            call: call.to_owned(),
            approval: format!("approval-{run}"),
        }]);
    }

    fn at(&self) -> CrashPoint {
        self.crash.at
    }

    fn look(&mut self, moment: Moment, session: Session, pids: &[Pid]) {
        self.tell([Event::Looked {
            moment,
            session,
            processes: pids.iter().map(|pid| process(*pid)).collect(),
            sockets: Vec::new(),
        }]);
    }

    fn read(&mut self, moment: Moment, connection: Option<u32>) {
        let rows = self.rows.clone();
        self.tell([Event::RecordRead {
            moment,
            connection,
            present: true,
            bytes: rows.len() as u64 * 100,
            lines: rows.len() as u64,
            rows,
            torn: 0,
            unreadable: None,
        }]);
    }

    fn started(&mut self, session: Session, client: Pid) {
        let server = client + 1;
        self.tell([
            Event::ClientStarted {
                session,
                pid: client,
            },
            Event::ServerStarted {
                session,
                pid: server,
                argv: vec!["deploy".to_owned()],
            },
        ]);
    }

    fn handshaken(&mut self, session: Session) {
        self.tell([
            line(session, Way::ToServer, LineShape::Request, "0"),
            line(session, Way::FromServer, LineShape::Response, "0"),
            Event::Handshaken {
                session,
                protocol: "2025-11-25".to_owned(),
                server_name: "deploy".to_owned(),
                server_version: "1".to_owned(),
            },
        ]);
    }

    fn issued(&mut self, session: Session, call: &str, rpc_id: &str) {
        self.tell([
            line(session, Way::ToServer, LineShape::Request, rpc_id),
            Event::CallIssued {
                session,
                role: CallRole::Main,
                tool: "deploy_build".to_owned(),
                call: call.to_owned(),
                rpc_id: rpc_id.to_owned(),
            },
        ]);
    }

    fn answered(&mut self, session: Session, rpc_id: &str, shape: AnswerShape, text: &str) {
        self.tell([
            line(session, Way::FromServer, LineShape::Response, rpc_id),
            Event::CallAnswered {
                session,
                role: CallRole::Main,
                rpc_id: rpc_id.to_owned(),
                shape,
                text: text.to_owned(),
            },
        ]);
    }

    fn session_a(&mut self) {
        let at = self.at();
        self.begin(Phase::SessionA);
        self.started(Session::A, CLIENT);
        if at != CrashPoint::Startup {
            self.handshaken(Session::A);
        }
        self.begin(Phase::Arm);
        self.tell([Event::Armed { point: at }]);
        if at >= CrashPoint::CallUnread {
            self.issued(Session::A, "call-a", "1");
        }
        if at >= CrashPoint::BeforeDispatch {
            self.rows.push(row("call-a", "intended"));
            self.tell([sought(1), Event::ConnectionHeld { connection: 1 }]);
            self.read(Moment::Dispatch, Some(1));
        }
        if at >= CrashPoint::Sent {
            self.tell([
                Event::ConnectionReleased { connection: 1 },
                Event::ConnectionAccepted { connection: 1 },
                request(1, "POST /builds"),
            ]);
        }
        if at == CrashPoint::Sent {
            self.tell([Event::RequestHeld { request: 1 }]);
        }
        if at >= CrashPoint::AfterAcceptance {
            self.tell([applied(1, "build-1", "key-a")]);
        }
        if matches!(at, CrashPoint::AfterAcceptance | CrashPoint::TornReply) {
            self.tell([Event::ReplyHeld {
                request: 1,
                status: 201,
            }]);
        }
        if at >= CrashPoint::AfterReply {
            self.tell([replied(1)]);
            self.rows.push(row("call-a", "success"));
        }
        if at == CrashPoint::AfterResult {
            self.answered(Session::A, "1", AnswerShape::Result, "build-1");
        }
        self.tell([Event::PointReached {
            point: at,
            proof: "seen".to_owned(),
        }]);
    }

    fn crash_and_observe(&mut self) {
        let at = self.at();
        let killed = self.crash.close.is_empty();
        self.begin(Phase::Evidence);
        self.look(Moment::Point, Session::A, &[CLIENT, SERVER]);
        self.read(Moment::Point, None);
        self.begin(Phase::Crash);
        self.tell([Event::CrashFired {
            action: "SIGKILL to the client".to_owned(),
            pid: CLIENT,
        }]);
        if killed {
            self.tell([Event::ClientGone {
                pid: CLIENT,
                exit: Exit::Signal {
                    number: 9,
                    core: false,
                },
            }]);
        } else {
            self.tell([Event::ClientClosed {
                session: Session::A,
                stream: "stdin".to_owned(),
            }]);
        }
        self.look(Moment::ClientGone, Session::A, &[SERVER]);
        self.tell([Event::EofInPipe {
            session: Session::A,
        }]);
        self.begin(Phase::Observe);
        if matches!(at, CrashPoint::CallUnread | CrashPoint::CallWritten) {
            self.tell([
                sought(1),
                Event::ConnectionAccepted { connection: 1 },
                request(1, "POST /builds"),
                applied(1, "build-1", "key-a"),
                Event::ReplyHeld {
                    request: 1,
                    status: 201,
                },
            ]);
            self.rows.push(row("call-a", "intended"));
        }
        match at {
            CrashPoint::BeforeDispatch => self.rows.push(row("call-a", "failed")),
            CrashPoint::CallUnread
            | CrashPoint::CallWritten
            | CrashPoint::Sent
            | CrashPoint::AfterAcceptance
            | CrashPoint::TornReply => self.rows.push(row("call-a", "unknown")),
            _ => {}
        }
        if !killed && at >= CrashPoint::CallUnread && at < CrashPoint::AfterResult {
            self.tell([line(Session::A, Way::FromServer, LineShape::Response, "1")]);
        }
        self.tell([exited(SERVER, 0)]);
        self.tell([Event::ObservationEnded {
            empty: true,
            deadline_passed: false,
        }]);
        self.begin(Phase::Release);
        if at == CrashPoint::Sent {
            self.tell([applied(1, "build-1", "key-a")]);
        }
        self.tell([Event::RemoteReleased]);
        if matches!(
            at,
            CrashPoint::Sent | CrashPoint::AfterAcceptance | CrashPoint::TornReply
        ) {
            self.tell([Event::ReplyLost {
                request: 1,
                status: 201,
            }]);
        }
        self.begin(Phase::Quiet);
        self.tell([
            Event::QuietStarted,
            Event::QuietEnded {
                empty: true,
                window: 0,
                wanted: BTreeMap::new(),
            },
        ]);
        self.begin(Phase::EvidenceAgain);
        let left: &[Pid] = if killed { &[] } else { &[CLIENT] };
        self.look(Moment::End, Session::A, left);
        self.read(Moment::End, None);
    }

    fn revoke_and_stop(&mut self) {
        self.begin(Phase::Revoke);
        self.tell([
            Event::Revoked { run: Session::A },
            Event::Probed {
                route: "GET /whoami".to_owned(),
                status: 401,
            },
        ]);
        self.begin(Phase::Stop);
        self.look(Moment::AfterTerm, Session::A, &[]);
        self.look(Moment::AfterStop, Session::A, &[]);
        self.read(Moment::AfterStop, None);
        self.tell([Event::SecretsSought {
            session: Session::A,
            places: vec!["stderr".to_owned()],
            bytes: 0,
        }]);
    }

    fn revoked_session(&mut self) {
        let revoked = Credential::Run {
            run: Session::A,
            derived: false,
            revoked: true,
        };
        self.begin(Phase::RevokedSession);
        self.minted(Session::Revoked, "a", "call-r");
        self.started(Session::Revoked, 10);
        self.handshaken(Session::Revoked);
        self.issued(Session::Revoked, "call-r", "1");
        self.tell([
            sought(8),
            request_by(8, "POST /builds", revoked.clone()),
            Event::RequestRefused {
                request: 8,
                credential: revoked,
            },
        ]);
        self.answered(
            Session::Revoked,
            "1",
            AnswerShape::ToolError,
            "refused: 401",
        );
        self.rows.push(row("call-r", "intended"));
        self.rows.push(row("call-r", "refused"));
        self.tell([
            Event::SessionEnded {
                session: Session::Revoked,
            },
            exited(11, 0),
        ]);
        self.read(Moment::AfterRevokedSession, None);
        self.tell([Event::SecretsSought {
            session: Session::Revoked,
            places: Vec::new(),
            bytes: 0,
        }]);
    }

    fn session_b(&mut self) {
        let again = self.at() >= CrashPoint::CallUnread && self.at() != CrashPoint::BeforeDispatch;
        let credential = Credential::Run {
            run: Session::B,
            derived: false,
            revoked: false,
        };
        self.begin(Phase::SessionB);
        self.minted(Session::B, "b", "call-a");
        self.started(Session::B, 20);
        self.handshaken(Session::B);
        self.issued(Session::B, "call-a", "4");
        self.tell([sought(9), request_by(9, "POST /builds", credential)]);
        self.tell([if again {
            Event::EffectRepeated {
                request: 9,
                effect: "build-1".to_owned(),
                key: "key-a".to_owned(),
            }
        } else {
            applied(9, "build-1", "key-a")
        }]);
        self.tell([replied(9)]);
        self.answered(Session::B, "4", AnswerShape::Result, "started build-1");
        self.look(Moment::Recovered, Session::B, &[20, 21]);
        self.tell([
            Event::SessionEnded {
                session: Session::B,
            },
            exited(21, 0),
        ]);
        self.rows.push(row("call-a", "success"));
        self.read(Moment::AfterSessionB, None);
        self.tell([Event::SecretsSought {
            session: Session::B,
            places: Vec::new(),
            bytes: 0,
        }]);
        self.begin(Phase::Close);
        self.tell([Event::TrialEnded]);
    }
}

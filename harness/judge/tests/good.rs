//! A good server's trial, told event by event.

use super::events::*;
use crate::journal::*;
use crate::spec::{Crash, CrashPoint};

/// All events of a trial with this crash, and their times.
pub fn trial(crash: Crash) -> Vec<(u64, Event)> {
    let mut teller = Teller::new(crash);
    teller.session_a();
    teller.crash_and_observe();
    teller.revoke_and_stop();
    teller.session_b();
    teller.revoked_session();
    teller.close();
    teller.events
}

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
            drill_sha256: None,
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
            declared: format!("run-declared-by-{run}"),
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
        if at == CrashPoint::TornReply {
            self.tell([Event::HalfReplySent {
                request: 1,
                status: 201,
                bytes: 50,
                whole: 100,
            }]);
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
                windows: Vec::new(),
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
            Event::Revoked {
                run: Session::A,
                of: crate::spec::Revocable::Run,
                by: "the operator".to_owned(),
            },
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
    }

    fn revoked_session(&mut self) {
        let revoked = Credential::Run {
            run: Session::A,
            derived: false,
            revoked: true,
        };
        self.begin(Phase::RevokedSession);
        self.read(Moment::BeforeRevokedSession, None);
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

    fn close(&mut self) {
        self.begin(Phase::Close);
        self.tell([Event::TrialEnded]);
    }
}

//! Single events, as a small server would cause them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::journal::*;
use crate::spec::Signal;

pub const MS: u64 = 1_000_000;
pub const CLIENT: Pid = 2;
pub const SERVER: Pid = 3;
pub const HELPER: Pid = 7;

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
        reads_from: Vec::new(),
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
    Row {
        line: 1,
        end: None,
        fields,
    }
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

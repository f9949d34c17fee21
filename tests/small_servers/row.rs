//! A row of the table: a server, how it is drilled, and the questions that it breaks at each crash.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

#[expect(clippy::enum_glob_use, reason = "a table is full of them")]
use Point::*;

/// The crashes, each a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    Idle,
    BeforeDispatch,
    /// The same moment, named by what happens and not by its meaning.
    FirstConnection,
    Sent,
    /// After acceptance, the reply withheld to the end of the observation.
    Held,
    /// After acceptance, the reply given once the client is gone.
    Given,
    /// After acceptance; the client lives, closes stdin and reads on.
    StdinClosed,
    AfterResult,
}

const POINTS: [Point; 5] = [Idle, BeforeDispatch, Held, Given, AfterResult];

/// Before a call, in the middle of it, and after it: enough where the call itself makes no difference.
const STAGES: [Point; 3] = [Idle, Held, AfterResult];

/// From these on a call has been dispatched, or is about to be.
pub const FROM_DISPATCH_ON: &[Point] = &[BeforeDispatch, Held, Given, AfterResult];

/// There is an effect, and the client does not know of it.
pub const WITHOUT_RESULT: &[Point] = &[Held, Given];

impl Point {
    fn crash(self) -> Value {
        match self {
            Idle => json!("idle"),
            BeforeDispatch => json!("before-dispatch"),
            FirstConnection => json!({ "boundary": { "event": "connection", "nth": 1 } }),
            Sent => json!("sent"),
            Held => json!("after-acceptance"),
            Given => json!({ "at": "after-acceptance", "name": "reply-given", "reply": "given" }),
            StdinClosed => {
                json!({ "at": "after-acceptance", "name": "stdin-closed", "close": ["stdin"] })
            }
            AfterResult => json!("after-result"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Idle => "idle",
            BeforeDispatch => "before-dispatch",
            FirstConnection => "boundary::connection-1",
            Sent => "sent",
            Held => "after-acceptance",
            Given => "after-acceptance::reply-given",
            StdinClosed => "after-acceptance::stdin-closed",
            AfterResult => "after-result",
        }
    }
}

pub struct Row {
    pub name: String,
    /// Questions that break; with a question mark behind it, one that stays open.
    pub at: BTreeMap<Point, BTreeSet<&'static str>>,
    drill: Value,
}

/// A server of `fixtures/python`, as fast as Python starts.
pub fn python(server: &str) -> Row {
    let file = format!("{server}.py");
    Row::new(server, &["python3", "-S", &format!("@python/{file}")])
}

/// A server of `fixtures/node`.
pub fn node(server: &str) -> Row {
    let file = format!("@node/{server}.mjs");
    Row::new(&format!("node-{server}"), &["node", &file])
}

/// A server of `fixtures/perl`.
pub fn perl(server: &str) -> Row {
    let file = format!("@perl/{server}.pl");
    Row::new(&format!("perl-{server}"), &["perl", &file])
}

/// A server in Python, started by a line of shell.
pub fn shell(name: &str, line: &str) -> Row {
    Row::new(name, &["sh", "-c", line])
}

impl Row {
    fn new(name: &str, command: &[&str]) -> Self {
        let name = name.replace('_', "-");
        Self {
            at: BTreeMap::new(),
            drill: drill(&name, command),
            name,
        }
    }

    /// Another word of the command.
    pub fn argument(mut self, word: &str) -> Self {
        let command = self.drill["server"]["command"].as_array_mut().unwrap();
        command.push(json!(placed(word)));
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self.set("/drill", json!(name))
    }

    /// What reads otherwise in the drill of this row; null takes it out.
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = self.drill.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value,
            _ if value.is_null() => {
                parent.as_object_mut().unwrap().remove(key).unwrap();
            }
            _ => parent[key] = value,
        }
        self
    }

    /// The deadline has to be waited out, so it is short: for a server that is not expected to meet it, or that leaves
    /// something which does not.
    pub fn outlives_eof(self) -> Self {
        self.set("/expect/eof/within", json!("700ms"))
            .set("/expect/revocation/within", json!("1s"))
    }

    /// Nothing is broken, at any of the five crashes.
    pub fn good(self) -> Self {
        self.at(&POINTS, "")
    }

    /// Nothing is broken, and the call is made as any other server makes it.
    pub fn good_at_each_stage(self) -> Self {
        self.at(&STAGES, "")
    }

    /// Whether a call is open or not.
    pub fn with_a_call_and_without(self, questions: &'static str) -> Self {
        self.at(&[Idle, Held], questions)
    }

    pub fn at(mut self, points: &[Point], questions: &'static str) -> Self {
        for point in points {
            let before = self
                .at
                .insert(*point, questions.split_whitespace().collect());
            assert!(before.is_none(), "{} has {point:?} twice", self.name);
        }
        self
    }

    /// At these crashes it cannot be told from a good server, and why.
    pub fn unseen(self, points: &[Point], because: &'static str) -> Self {
        assert!(!because.is_empty());
        self.at(points, "")
    }

    /// The same, for those of the stages that are not named yet.
    pub fn elsewhere_unseen(self, because: &'static str) -> Self {
        let rest: Vec<Point> = STAGES
            .into_iter()
            .filter(|point| !self.at.contains_key(point))
            .collect();
        self.unseen(&rest, because)
    }

    /// JSON is YAML.
    pub fn drill(&self) -> String {
        let mut drill = self.drill.clone();
        drill["crash"] = self.at.keys().map(|point| point.crash()).collect();
        drill.to_string()
    }
}

fn placed(word: &str) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/");
    word.replace('@', fixtures)
}

/// The drill of a server that is started by this command, without its crashes.
pub fn drill(name: &str, command: &[&str]) -> Value {
    json!({
        "drill": name,
        "server": {
            "command": command.iter().map(|word| placed(word)).collect::<Vec<_>>(),
            "env": {
                "API": "{{ remote.url }}",
                "API_TOKEN": "{{ authority.token }}",
                "ACTIVITY_LOG": "{{ workdir }}/activity.jsonl",
                "RUN_ID": "{{ run.id }}",
                "APPROVAL_ID": "{{ approval.id }}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        },
        "remote": { "routes": [
            { "on": "POST /jobs", "effect": "job", "key": { "header": "Idempotency-Key" },
              "reply": { "status": 201, "json": { "id": "{{ effect.id }}", "url": "{{ remote.url }}/jobs/{{ effect.id }}" } } },
            { "on": "GET /jobs", "find": "job", "reply": { "json": "{{ effects }}" } },
            { "on": "POST /notes", "reply": { "json": {} } },
            { "on": "POST /search", "reply": { "json": [] } },
            { "on": "GET /me", "identity": true, "reply": { "json": "{{ authority.user }}" } },
        ] },
        "authority": { "bearer": "Authorization" },
        "call": { "tool": "start_job", "arguments": { "app": "shop" } },
        "recover": { "retry": true },
        "expect": {
            // An interpreter takes its time to end on a loaded machine.
            "eof": { "within": "5s" },
            "revocation": { "within": "10s" },
            "ownership": { "log": "{{ workdir }}/activity.jsonl", "record": {
                "run": "/run_id", "call": "/call_id", "process": "/pid", "approval": "/approval_id",
                "target": "/target", "key": "/key", "effect": "/remote_id", "outcome": "/outcome",
            } },
        },
    })
}

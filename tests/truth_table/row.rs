//! A row of the table: a server, how it is drilled, and what each of its trials must come to.

use std::collections::{BTreeMap, BTreeSet};

use cargo_drill::spec::Question;

use Point::{
    AfterReply, AfterResult, BeforeDispatch, CallUnread, CallWritten, Given, Held, Idle, Sent,
    ServerKilled, Startup, TornCall, TornReply,
};

/// The crash points of `drills/deploy.yaml`, each a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    Startup,
    Idle,
    TornCall,
    CallUnread,
    CallWritten,
    BeforeDispatch,
    Sent,
    /// After acceptance, the reply withheld to the end of the observation.
    Held,
    /// After acceptance, the reply given once the client is gone.
    Given,
    /// After acceptance, the server killed and the client alive.
    ServerKilled,
    TornReply,
    AfterReply,
    AfterResult,
}

pub const POINTS: [Point; 13] = [
    Startup,
    Idle,
    TornCall,
    CallUnread,
    CallWritten,
    BeforeDispatch,
    Sent,
    Held,
    Given,
    ServerKilled,
    TornReply,
    AfterReply,
    AfterResult,
];

impl Point {
    pub fn name(self) -> &'static str {
        match self {
            Startup => "startup",
            Idle => "idle",
            TornCall => "torn-call",
            CallUnread => "call-unread",
            CallWritten => "call-written",
            BeforeDispatch => "before-dispatch",
            Sent => "sent",
            Held => "after-acceptance",
            Given => "after-acceptance::reply-given",
            ServerKilled => "after-acceptance::server-killed",
            TornReply => "torn-reply",
            AfterReply => "after-reply",
            AfterResult => "after-result",
        }
    }

    /// How its line begins in the drill.
    fn crash(self) -> String {
        match self.name().split_once("::") {
            None => format!("{} #", self.name()),
            Some((point, name)) => format!("{{ at: {point}, name: {name},"),
        }
    }

    /// The server is told by EOF that its session is over.
    pub fn sends_eof(self) -> bool {
        self != ServerKilled
    }
}

/// All of them, to be divided.
const ALL: &[Point] = &POINTS;

/// At these no call is dispatched.
pub const UNDISPATCHED: &[Point] = ALL.split_at(BeforeDispatch as usize).0;

/// From these on one is, or is about to be.
pub const FROM_DISPATCH_ON: &[Point] = ALL.split_at(BeforeDispatch as usize).1;

/// At these there is an effect, at the latest when the remote goes on.
pub const WITH_EFFECT: &[Point] = ALL.split_at(Sent as usize).1;

/// From dispatch on, but for where the server is killed.
pub const DISPATCHED_AND_ALIVE: &[Point] = &[
    BeforeDispatch,
    Sent,
    Held,
    Given,
    TornReply,
    AfterReply,
    AfterResult,
];

/// At these the call waits for a reply that does not come.
pub const WAITING: &[Point] = &[Sent, Held, TornReply];

/// What a trial must come to.
#[derive(Debug, Clone)]
pub enum Expected {
    /// Nothing breaks, for a good server.
    Good,
    /// Nothing breaks, although the server is bad, and why.
    Unseen(&'static str),
    /// Nothing breaks, and this is left open, and why.
    LeavesOpen(&'static [Question], &'static str),
    /// The crash point is not reached, and why: all is left open, but for what breaks nevertheless.
    NoCrash(Option<Question>, &'static str),
    /// This breaks, and with it what follows from it.
    Breaks(Question, Vec<(Question, &'static str)>),
}

impl Expected {
    /// What follows, and why it must.
    pub fn so(mut self, question: Question, because: &'static str) -> Self {
        let Self::Breaks(_, follows) = &mut self else {
            panic!("nothing breaks, so nothing follows");
        };
        assert!(!because.is_empty());
        follows.push((question, because));
        self
    }

    pub fn broken(&self) -> BTreeSet<Question> {
        match self {
            Self::Good | Self::Unseen(_) | Self::LeavesOpen(..) => BTreeSet::new(),
            Self::NoCrash(broken, _) => broken.iter().copied().collect(),
            Self::Breaks(first, follows) => std::iter::once(*first)
                .chain(follows.iter().map(|(question, _)| *question))
                .collect(),
        }
    }

    pub fn right(&self, question: Question) -> &'static str {
        if self.broken().contains(&question) {
            return "broken";
        }
        match self {
            Self::LeavesOpen(open, _) if open.contains(&question) => "unproven",
            Self::NoCrash(..) => "unproven",
            _ => "held",
        }
    }

    /// Of the trial as a whole.
    pub fn verdict(&self) -> &'static str {
        match self {
            _ if !self.broken().is_empty() => "broken",
            Self::LeavesOpen(..) | Self::NoCrash(..) => "unproven",
            _ => "held",
        }
    }
}

pub fn breaks(first: Question) -> Expected {
    Expected::Breaks(first, Vec::new())
}

/// A server, how it is drilled, and what each of its trials must come to.
pub struct Row {
    pub name: String,
    /// Lines of `drills/deploy.yaml` that read otherwise in this drill.
    pub edits: Vec<(&'static str, String)>,
    pub at: BTreeMap<Point, Expected>,
}

pub const COMMAND: &str = r#"command: ["{{ fixture }}", deploy]"#;
pub const BEARER: &str = "bearer: Authorization # once the run is revoked, its token gets 401";
pub const BESIDE: &str = "beside: true";
pub const WITHIN: &str = "eof: { within: 2s }";

impl Row {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            edits: Vec::new(),
            at: BTreeMap::new(),
        }
    }

    /// The server that does everything right, in some other surrounding.
    pub fn good(name: impl Into<String>) -> Self {
        let mut row = Self::new(name);
        row.at = POINTS.map(|point| (point, Expected::Good)).into();
        row
    }

    pub fn fault(name: &str) -> Self {
        Self::new(name).started_with("--fault", name)
    }

    pub fn manner(name: &str) -> Self {
        Self::good(name).started_with("--manner", name)
    }

    pub fn started_with(self, flag: &str, value: &str) -> Self {
        let command = format!(r#"command: ["{{{{ fixture }}}}", deploy, {flag}, {value}]"#);
        self.drilled(COMMAND, command)
    }

    pub fn drilled(mut self, line: &'static str, instead: impl Into<String>) -> Self {
        self.edits.push((line, instead.into()));
        self
    }

    pub fn server(self, line: impl AsRef<str>) -> Self {
        let line = line.as_ref();
        self.drilled("\nremote:\n", format!("\n  {line}\n\nremote:\n"))
    }

    pub fn client(self, line: &str) -> Self {
        self.drilled("\ncall:\n", format!("\nclient: {{ {line} }}\n\ncall:\n"))
    }

    /// Started by a shell, as its words `"$@"`.
    pub fn through(self, script: &str) -> Self {
        let command = format!(r#"command: [sh, -c, '{script}', sh, "{{{{ fixture }}}}", deploy]"#);
        self.drilled(COMMAND, command)
    }

    pub fn env(self, line: &str) -> Self {
        self.drilled("  env: #", format!("  env:\n    {line}\n    #"))
    }

    /// With tokens of an authorisation server, which the server refreshes where they are refused.
    pub fn oauth(self, form: &str) -> Self {
        self.drilled(BEARER, format!("oauth: {{ {form} }}"))
            .env("OAUTH_ISSUER: \"{{ authority.issuer }}\"\n    OAUTH_REFRESH_TOKEN: \"{{ authority.refresh }}\"")
    }

    /// The deadline has to be waited out, so it is short. For a server that is not expected to meet it.
    pub fn outlives_eof(self) -> Self {
        self.drilled(WITHIN, "eof: { within: 500ms }")
    }

    /// The server waits long enough for its reply that a busy machine gives it in time.
    pub fn waits_for_its_reply(self) -> Self {
        self.env(r#"DRAIN_MS: "1500""#)
            .drilled(WITHIN, "eof: { within: 4s }")
    }

    pub fn everywhere(self, expected: &Expected) -> Self {
        self.at(&POINTS, expected)
    }

    /// Everywhere but where the server is killed before it could.
    pub fn wherever_it_lives(self, expected: &Expected) -> Self {
        let points = POINTS.iter().filter(|point| **point != ServerKilled);
        let points: Vec<Point> = points.copied().collect();
        self.at(&points, expected)
            .elsewhere_unseen("the server is killed, and does nothing any more")
    }

    pub fn at(mut self, points: &[Point], expected: &Expected) -> Self {
        for point in points {
            let before = self.at.insert(*point, expected.clone());
            assert!(before.is_none(), "{} has {point:?} twice", self.name);
        }
        self
    }

    /// Everywhere else it cannot be told from the good server.
    pub fn elsewhere_unseen(self, because: &'static str) -> Self {
        self.elsewhere(&Expected::Unseen(because))
    }

    pub fn elsewhere_held(self) -> Self {
        self.elsewhere(&Expected::Good)
    }

    /// At every point of which nothing is said yet.
    pub fn elsewhere(mut self, expected: &Expected) -> Self {
        for point in POINTS {
            self.at.entry(point).or_insert_with(|| expected.clone());
        }
        self
    }

    /// The drill file, which is `drills/deploy.yaml` but for the edits, and crashed at these points alone.
    pub fn drill(&self, points: &[Point]) -> String {
        let renamed = ("drill: deploy\n", format!("drill: {}\n", self.name));
        let mut text = include_str!("../../drills/deploy.yaml").to_owned();
        for left_out in POINTS.iter().filter(|point| !points.contains(point)) {
            let line = format!("\n  - {}", left_out.crash());
            let from = text.find(&line).expect("each point stands in the drill");
            let to = from + 1 + text[from + 1..].find('\n').expect("a line ends");
            text.replace_range(from..to, "");
        }
        for (line, instead) in std::iter::once(&renamed).chain(&self.edits) {
            assert_eq!(
                text.matches(line).count(),
                1,
                "{}: {line:?} stands once in the drill",
                self.name
            );
            text = text.replace(line, instead);
        }
        text
    }
}

//! Journals for tests: a good server's trial, and edits that make it a bad one.

use serde_json::{Value, json};

pub use super::events::*;
use super::good;
use crate::journal::*;
pub use crate::judge::Code;
use crate::judge::{Answer, Incident, Judgement, Verdict, incidents, judge};
use crate::spec::{Crash, CrashPoint, Drill, Question};

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
        "recover": { "retry": "always" },
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
        Self {
            events: good::trial(crash),
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

    /// No two events have one time.
    pub fn a_moment_apart(mut self) -> Self {
        for place in 1..self.events.len() {
            let before = self.events[place - 1].0;
            let at = &mut self.events[place].0;
            *at = (*at).max(before + 1);
        }
        self
    }

    /// Everything arrives in the opposite order, with its own time.
    pub fn told_backwards(mut self) -> Self {
        self.events.reverse();
        self
    }

    /// An event keeps its time, and arrives after another.
    pub fn told_after(self, is: impl Fn(&Event) -> bool, other: impl Fn(&Event) -> bool) -> Self {
        self.told_at(is, other, 1)
    }

    /// An event keeps its time, and arrives before another.
    pub fn told_before(self, is: impl Fn(&Event) -> bool, other: impl Fn(&Event) -> bool) -> Self {
        self.told_at(is, other, 0)
    }

    fn told_at(
        mut self,
        is: impl Fn(&Event) -> bool,
        other: impl Fn(&Event) -> bool,
        behind: usize,
    ) -> Self {
        let told = self.events.remove(self.place(is));
        let place = self.place(other);
        self.events.insert(place + behind, told);
        self
    }

    /// Cuts the journal before the first event that matches.
    pub fn until(mut self, is: impl Fn(&Event) -> bool) -> Self {
        let place = self.place(is);
        self.events.truncate(place);
        self
    }

    /// Cuts the journal after the first event that matches.
    pub fn until_after(mut self, is: impl Fn(&Event) -> bool) -> Self {
        let place = self.place(is);
        self.events.truncate(place + 1);
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

    pub fn incidents(&self) -> Vec<Incident> {
        incidents(&self.drill, &self.lines())
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

    #[track_caller]
    pub fn holds_saying(&self, question: Question, words: &str) -> Answer {
        self.is(question, Verdict::Held, words)
    }

    /// The question of this code is answered with it, and the sentence has these words.
    #[track_caller]
    pub fn finds(&self, code: Code, words: &str) -> Answer {
        let question = code.question();
        let question = question.unwrap_or_else(|| panic!("{code} can be found by any question"));
        self.finds_at(question, code, words)
    }

    /// This question is answered with this code, and the sentence has these words.
    #[track_caller]
    pub fn finds_at(&self, question: Question, code: Code, words: &str) -> Answer {
        let answer = self.is(question, code.finding().verdict, words);
        assert!(
            answer.codes.contains(&code),
            "{question}: {:?}: {}",
            answer.codes,
            answer.because
        );
        answer
    }

    /// The question of this code is broken with it, and no other is.
    #[track_caller]
    pub fn finds_only(&self, code: Code, words: &str) -> Answer {
        let answer = self.finds(code, words);
        let question = answer.question;
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
        assert_eq!(verdict == Verdict::Held, answer.codes.is_empty());
        answer
    }
}

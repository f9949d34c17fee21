//! What was sought elsewhere than at the remote, and what can be answered where nothing came to the remote at all.
//!
//! A server that is written for one host, or that speaks TLS to a remote that does not, makes no effect, whatever it does. So
//! an effect that is missing, a retry that brings none and an answer to a revoked call say nothing of it. The rule:
//!
//! - **The call reached the remote** where, in the whole trial with its rehearsal (which is made in the end where no call
//!   brought a request), a request came that makes an effect, or a
//!   connection was held pending for one; or where any request came and no process of the server sought another host while
//!   a call was open. Then each answer is what its question says: a request that is lost after another one came is lost.
//! - Where it did not, `effects`, `reconcile`, `handle`, `ownership` and `revocation` are never broken by a session whose call
//!   had its chance: they are unproven, and say what the server sought instead, how it ended, and what it wrote last.
//! - What holds because nothing came (none is right before a call, and of a call that was never read) stays held, unless the
//!   server sought another host in that call, or the clean run shows that the call brings no request at all.
#![forbid(unsafe_code)]

use crate::journal::{
    AnswerShape, Asker, CallRole, CellKind, Event, Seq, Session, Sought, Transport, hosts_sought,
};
use crate::spec::{Network, Question};

use super::Verdict;
use super::code::Code;
use super::finding::{Findings, unproven};
use super::history::{History, Seen, Window};
use super::sentence::{Sentence, say};

/// So many different things are told; a server that seeks more seeks at random.
const MOST: usize = 100;

/// All of the trial, in the order of the first of each.
pub(super) fn sought(history: &History<'_>) -> Vec<Sought> {
    let mut sought = hosts_sought(history.all().map(|seen| (seen.seq, seen.event)));
    sought.truncate(MOST);
    sought
}

/// That no request of any call reached the remote.
pub(super) struct Elsewhere<'h, 'a> {
    history: &'h History<'a>,
}

impl<'h, 'a> Elsewhere<'h, 'a> {
    /// `None`: the call reached the remote, or there is none.
    pub(super) fn of(history: &'h History<'a>) -> Option<Self> {
        let remote = history.drill.remote.as_ref()?;
        let this = Self { history };
        (!remote.routes.is_empty() && !this.is_reached()).then_some(this)
    }

    fn is_reached(&self) -> bool {
        let history = self.history;
        let ledger = &history.ledger;
        let has = |is: fn(&Event) -> bool| history.first(is).is_some();
        let writes = ledger.requests.iter().any(|request| request.writes)
            || !ledger.effects.is_empty()
            || has(|e| matches!(e, Event::Rehearsed { connection, .. } if connection.is_some()));
        // Of a connection whose bytes were no request nothing shows that it was to bring one.
        let held = ledger.connections.values().any(|c| c.held.is_some())
            && !has(|e| matches!(e, Event::RequestTorn { .. }));
        let requests = !ledger.requests.is_empty()
            || has(|e| matches!(e, Event::Rehearsed { requests, .. } if !requests.is_empty()));
        let sessions = [Session::A, Session::B, Session::Revoked];
        let is_elsewhere = || {
            self.in_rehearsal().next().is_some()
                || sessions.iter().any(|of| self.in_call(*of).next().is_some())
        };
        writes || held || (requests && !is_elsewhere())
    }

    /// The session that a question is about.
    fn session(&self, question: Question) -> Option<Session> {
        let history = self.history;
        match question {
            // Session B makes no call then, and the effects are those of session A.
            Question::Reconcile if history.drill.only_looks_back(history.crash) => Some(Session::A),
            Question::Effects | Question::Ownership | Question::Handle => Some(Session::A),
            Question::Reconcile => Some(Session::B),
            Question::Revocation => Some(Session::Revoked),
            _ => None,
        }
    }

    /// In place of what a question found.
    pub(super) fn amend(&self, question: Question, found: Findings) -> Findings {
        let Some(session) = self.session(question) else {
            return found;
        };
        // A server that ends in the middle of a call, and had sought nobody, has failed by itself.
        let is_answered = self
            .history
            .reply(session)
            .is_some_and(|reply| reply.shape != AnswerShape::Nothing || !self.sees_all());
        let has_sought = self.in_call(session).next().is_some();
        let says_nothing = match found.verdict() {
            Verdict::Held => {
                // These are about a request that was to go out, and the call is over.
                let needs_one = matches!(question, Question::Ownership | Question::Revocation);
                let is_called = self.history.issued(session, CallRole::Main).is_some();
                has_sought || (is_answered && needs_one) || (is_called && self.fails_in_rehearsal())
            }
            // That an effect is missing rests on nothing else than that none came.
            Verdict::Broken => is_answered || has_sought || question == Question::Effects,
            _ => is_answered || has_sought || self.is_sought_in(session),
        };
        if says_nothing { self.told() } else { found }
    }

    /// In place of why the crash did not land, where that tells less.
    pub(super) fn of_unlanded(&self, question: Question) -> Option<Findings> {
        self.session(question)?;
        let history = self.history;
        let has_called = history.reply(Session::A).is_some()
            || history
                .first(|e| matches!(e, Event::Rehearsed { .. }))
                .is_some();
        (has_called || self.is_sought_in(Session::A)).then(|| self.told())
    }

    /// Whether a clean run of the call, which did not reach the remote either, came to its answer.
    fn fails_in_rehearsal(&self) -> bool {
        let answered = |e: &Event| matches!(e, Event::Rehearsed { answer, .. } if *answer != AnswerShape::Nothing);
        self.history.first(answered).is_some()
    }

    // ---- the evidence --------------------------------------------------------------------------------------------

    /// What processes of the server sought in this window. A datagram is no call of an API.
    fn sought_in(&self, window: Window) -> impl Iterator<Item = Seen<'a>> {
        let history = self.history;
        history.within(window).filter(|seen| match seen.event {
            Event::HostSought { by, .. } => {
                let is_ours = |pid| history.cast.is_ours(pid);
                let is_call = hosts_sought([(seen.seq, seen.event)])
                    .iter()
                    .any(|sought| sought.transport != Some(Transport::Udp));
                is_call && !by.as_ref().is_some_and(|by| is_ours(by.pid))
            }
            _ => false,
        })
    }

    /// The same, once a call had been made.
    fn in_call(&self, of: Session) -> impl Iterator<Item = Seen<'a>> {
        let history = self.history;
        let asked = history.first(|e| match e {
            Event::CallAsked { session, .. } | Event::CallIssued { session, .. } => *session == of,
            _ => false,
        });
        let to = history.window_of(of).map(|window| window.to);
        let window = Window {
            from: asked.map_or(usize::MAX, |seen| seen.place),
            to: to.unwrap_or_default(),
        };
        self.sought_in(window)
    }

    fn is_sought_in(&self, of: Session) -> bool {
        let window = match of {
            // From its start: a server that fails there was never asked for anything.
            Session::A => Some(Window {
                from: 0,
                ..self.history.window_a()
            }),
            _ => self.history.window_of(of),
        };
        let in_rehearsal = of == Session::A && self.in_rehearsal().next().is_some();
        in_rehearsal || window.is_some_and(|window| self.sought_in(window).next().is_some())
    }

    fn in_rehearsal(&self) -> impl Iterator<Item = (Seq, &'a Sought)> {
        self.history
            .all()
            .filter_map(|seen| match seen.event {
                Event::Rehearsed { sought, .. } => Some((seen.seq, sought)),
                _ => None,
            })
            .flat_map(|(seq, all)| all.iter().map(move |sought| (seq, sought)))
            .filter(|(_, sought)| sought.transport != Some(Transport::Udp))
    }

    // ---- what is said --------------------------------------------------------------------------------------------

    /// The same of each question, so that a reader is told once.
    fn told(&self) -> Findings {
        let all = Window {
            from: 0,
            to: usize::MAX,
        };
        let events: Vec<(Seq, &Event)> = self
            .history
            .all()
            .filter(|seen| matches!(seen.event, Event::Rehearsed { .. }))
            .chain(self.sought_in(all))
            .map(|seen| (seen.seq, seen.event))
            .collect();
        let sought: Vec<Sought> = hosts_sought(events)
            .into_iter()
            .filter(|sought| sought.transport != Some(Transport::Udp))
            .collect();
        let mut evidence: Vec<Seq> = sought
            .iter()
            .flat_map(|sought| sought.evidence.iter().copied())
            .collect();
        let mut parts = Vec::new();
        if !sought.is_empty() {
            let each = by_host(&sought).iter().map(|host| spelled(host)).collect();
            parts.push(say("the server ").then(Sentence::list(each)));
        } else if self.sees_all() {
            parts.push(say(
                "the server looked up no name and tried to connect to no other address",
            ));
        }
        let further = [self.torn(), self.ended(), self.stderr()];
        for (sentence, seq) in further.into_iter().flatten() {
            parts.push(sentence);
            evidence.push(seq);
        }
        let told = say("no request of the call reached the remote, so this is not decided: ")
            .then(Sentence::join(parts, "; "))
            .text("; point the server at the drill's `remote.url`");
        unproven(Code::TrialRemoteNotReached, told, evidence)
    }

    /// Whether whatever the server sought would be in the journal.
    fn sees_all(&self) -> bool {
        let is_closed = self.history.drill.server.network != Network::Open;
        self.history.all().any(|seen| match seen.event {
            Event::CellReady { cell, weakens, .. } => {
                let is_whole = !weakens.iter().any(|what| what.starts_with("names"));
                is_closed && is_whole && *cell == CellKind::Namespaces
            }
            _ => false,
        })
    }

    /// It connected to the remote, and spoke something else.
    fn torn(&self) -> Option<(Sentence, Seq)> {
        self.history.all().find_map(|seen| match seen.event {
            Event::RequestTorn { because, .. } => Some((
                say("what came over its connection to the remote was no whole request: ")
                    .text(because.as_str()),
                seen.seq,
            )),
            _ => None,
        })
    }

    /// How the first of the servers that were called ended; what the drill did to it tells nothing.
    fn ended(&self) -> Option<(Sentence, Seq)> {
        let history = self.history;
        let called = self.called().next().unwrap_or(Session::A);
        let server = history.cast.server(called)?;
        let (seen, exit) = history.exit(server)?;
        let is_signalled = history
            .all()
            .take(seen.place)
            .any(|seen| matches!(seen.event, Event::SignalSent { pid, .. } if *pid == server));
        let is_by_drill =
            is_signalled || (called == Session::A && history.kills_server().is_some());
        let told = || say(format!("{called}'s server ended with {exit}"));
        (!is_by_drill).then(|| (told(), seen.seq))
    }

    /// What the first of them wrote last that wrote anything: with a client that is killed goes what its server writes.
    fn stderr(&self) -> Option<(Sentence, Seq)> {
        let called = self.called().chain([Session::A]);
        let kept = |of: Session| {
            self.history.all().rev().find_map(|seen| match seen.event {
                Event::StderrKept { session, tail } if *session == of => {
                    let last = tail.lines().rev().find(|line| !line.trim().is_empty())?;
                    Some((of, seen.seq, last))
                }
                _ => None,
            })
        };
        let (of, seq, last) = called.into_iter().find_map(kept)?;
        let told = say(format!("the last line of {of}'s stderr is ")).quote(last, "stderr");
        Some((told, seq))
    }

    /// The sessions that made a call.
    fn called(&self) -> impl Iterator<Item = Session> {
        let sessions = [Session::A, Session::B, Session::Revoked];
        let issued = |of: &Session| self.history.issued(*of, CallRole::Main).is_some();
        sessions.into_iter().filter(issued)
    }
}

/// The same that several processes sought, together.
fn by_host(all: &[Sought]) -> Vec<Vec<&Sought>> {
    let mut hosts: Vec<Vec<&Sought>> = Vec::new();
    for sought in all {
        let same = |other: &&mut Vec<&Sought>| {
            let other = other[0];
            (&other.host, other.transport, other.outcome)
                == (&sought.host, sought.transport, sought.outcome)
        };
        match hosts.iter_mut().find(same) {
            Some(host) => host.push(sought),
            None => hosts.push(vec![sought]),
        }
    }
    hosts
}

/// ``looked up `slack.com` (node, pid 5 and pid 9; no such name in the sandbox)``.
fn spelled(host: &[&Sought]) -> Sentence {
    let one = host[0];
    let askers: Vec<&Asker> = host
        .iter()
        .filter_map(|sought| sought.by.as_ref())
        .collect();
    let mut told = say(one.deed()).text(" (");
    if let Some(first) = askers.first() {
        let pids = askers.iter().map(|by| say("pid ").pid(by.pid)).collect();
        told = told
            .text(first.comm.replace(['\n', '\t'], " "))
            .text(", ")
            .then(Sentence::list(pids))
            .text("; ");
    }
    told.text(one.came_of_it()).text(")")
}

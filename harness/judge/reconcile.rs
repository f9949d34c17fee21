//! `reconcile`: after recovery, is there exactly one effect, and does the server report what the remote holds?
//!
//! An effect that the server cancelled is not held by the remote any more. The revoked session's call is left out.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{AnswerShape, CallRole, Event, Moment, Session};
use crate::spec::{CrashPoint, Reconcile, ReconcileEffects, Recovery};

use super::code::Code;
use super::effects::named;
use super::finding::{Findings, unproven};
use super::history::{History, Reply, Window};
use super::ledger::{Effect, seqs};
use super::lost::stderr_told;
use super::next::by_proxy;
use super::sentence::{Sentence, counted, say};
use super::words::{self, Claim};

pub(super) fn judge(history: &History<'_>, expected: &Reconcile) -> Findings {
    if let Some(failure) = history.failure(Session::B) {
        return unproven(
            Code::ReconcileNotTried,
            say("session B did not get to its call: ")
                .quote(failure.detail, "detail")
                .then(stderr_told(failure.stderr)),
            [failure.seen.seq],
        );
    }
    let right = right_count(expected, history.moment());
    if history.drill.only_looks_back(history.crash) {
        return looked_back(history, right);
    }
    let (Some(reply), Some(counts)) = (history.reply(Session::B), Counts::of(history)) else {
        return unproven(
            Code::TrialNoEvidence,
            say("nothing shows how session B's call ended"),
            [],
        );
    };
    let operator = history
        .drill
        .recover
        .as_ref()
        .is_some_and(|recover| recover.how == Recovery::Operator(true));
    let known = if operator {
        intent(history, &counts)
    } else {
        Intent::Known
    };
    match known {
        Intent::Open => must_refuse(&counts, reply),
        Intent::Either if is_refusal(reply) => must_refuse(&counts, reply),
        Intent::Known | Intent::Either => must_be_one(history, &counts, reply, right),
    }
}

fn right_count(expected: &Reconcile, point: CrashPoint) -> usize {
    let n = match &expected.effects {
        ReconcileEffects::Always(n) => *n,
        ReconcileEffects::ByPoint(by_point) => by_point.get(&point).copied().unwrap_or(1),
    };
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The effects of the call, by the session that made them, without those that were cancelled.
struct Counts<'h, 'a> {
    a: Vec<&'h Effect<'a>>,
    b: Vec<&'h Effect<'a>>,
    cancelled: usize,
    /// The ids of all of them, with the cancelled ones.
    ids: BTreeSet<&'a str>,
    /// All that session B does besides its `before` calls.
    own_b: [Window; 2],
}

impl<'h, 'a> Counts<'h, 'a> {
    fn of(history: &'h History<'a>) -> Option<Self> {
        let b = history.window_of(Session::B)?;
        let main = if history.drill.only_looks_back(history.crash) {
            history
                .answered_before(Session::B)
                .map_or(b.from, |seen| seen.place)
        } else {
            history.issued(Session::B, CallRole::Main)?.place
        };
        let before = history.issued(Session::B, CallRole::Before);
        // A server may replay as it starts; only what its `before` calls do is not of this call.
        let own_b = [
            Window {
                from: b.from,
                to: before.map_or(main, |before| before.place.min(main)),
            },
            Window {
                from: main,
                to: b.to,
            },
        ];
        let cancelled: BTreeSet<&str> = history
            .ledger
            .cancelled
            .iter()
            .map(|cancelled| cancelled.effect)
            .collect();
        let all_a = history.ledger.effects_in(history.window_a());
        let mut all_b = history.ledger.effects_in(own_b[0]);
        all_b.extend(history.ledger.effects_in(own_b[1]));
        let all = all_a.len() + all_b.len();
        let ids = all_a.iter().chain(&all_b).map(|effect| effect.id).collect();
        let standing = |effects: Vec<&'h Effect<'a>>| -> Vec<&'h Effect<'a>> {
            effects
                .into_iter()
                .filter(|effect| !cancelled.contains(effect.id))
                .collect()
        };
        let (a, b) = (standing(all_a), standing(all_b));
        Some(Self {
            cancelled: all - a.len() - b.len(),
            ids,
            a,
            b,
            own_b,
        })
    }

    /// Whether nothing more can be added.
    fn is_over(&self, history: &History<'_>) -> bool {
        self.own_b[1].to < history.all().count()
    }

    fn standing(&self) -> Vec<&'h Effect<'a>> {
        self.a.iter().chain(&self.b).copied().collect()
    }

    fn told(&self) -> Sentence {
        let all = self.standing();
        let by_whom = match (self.a.len(), self.b.len()) {
            (0, 0) => String::new(),
            (_, 0) => ", made by session A".to_owned(),
            (0, _) => ", made by session B".to_owned(),
            (a, b) => format!(", {a} made by session A and {b} by session B"),
        };
        let cancelled = match self.cancelled {
            0 => String::new(),
            n => format!(", {n} more cancelled"),
        };
        say(format!(
            "after recovery the remote holds {}{by_whom}{cancelled}",
            counted(all.len(), "effect", "effects")
        ))
        .then(named(&all))
    }
}

/// What is known of the call before session B begins: this decides what an operator's recovery must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    /// Nothing was intended, or the outcome is known.
    Known,
    /// An intent without a known outcome.
    Open,
    /// The evidence allows both.
    Either,
}

fn intent(history: &History<'_>, counts: &Counts<'_, '_>) -> Intent {
    let call = history.identity(Session::A).map(|identity| identity.call);
    if let (Some(log), Some(call)) = (words::log(history.drill), call) {
        let record = history
            .records()
            .filter(|record| record.seen.place < counts.own_b[0].to)
            .rfind(|record| record.unreadable.is_none() && record.moment > Moment::Dispatch);
        if let Some(record) = record {
            let rows = record.rows_of(call);
            return match words::outcome(&rows, &log.outcomes) {
                Some((_, Claim::Unknown)) => Intent::Open,
                Some(_) => Intent::Known,
                None if rows.is_empty() => Intent::Known,
                None => Intent::Open,
            };
        }
    }
    without_log(history, counts)
}

/// Without a record, the ledger tells what the server can have known.
fn without_log(history: &History<'_>, counts: &Counts<'_, '_>) -> Intent {
    let exited = history
        .cast
        .server(Session::A)
        .and_then(|pid| history.exit(pid))
        .map_or(usize::MAX, |(seen, _)| seen.place);
    let window = history.window_a();
    let writes: Vec<_> = history
        .ledger
        .requests_in(window)
        .filter(|request| request.writes)
        .collect();
    let unanswered = |number: u32| history.reply_before(number, exited).is_none();
    if counts.a.iter().any(|effect| unanswered(effect.request)) {
        return Intent::Open;
    }
    let reached_out = history
        .ledger
        .connections
        .values()
        .filter_map(|connection| connection.sought)
        .any(|sought| window.contains(sought.place));
    if writes.is_empty() && !reached_out {
        Intent::Known
    } else {
        Intent::Either
    }
}

fn is_refusal(reply: Reply<'_>) -> bool {
    matches!(reply.shape, AnswerShape::ToolError | AnswerShape::Error)
}

/// An intent has no known outcome: the server must say so, and leave the remote alone.
fn must_refuse(counts: &Counts<'_, '_>, reply: Reply<'_>) -> Findings {
    let mut findings = Findings::default();
    if !counts.b.is_empty() {
        findings.broken(
            Code::ReconcileReplayed,
            say(format!(
                "session B made {} although the outcome of session A's call is not known",
                counted(counts.b.len(), "effect", "effects")
            ))
            .then(named(&counts.b)),
            seqs(&counts.b),
        );
    }
    if !is_refusal(reply) {
        let what = match reply.shape {
            AnswerShape::Nothing => "did not answer",
            _ => "answered with a result",
        };
        findings.broken(
            Code::ReconcileNotRefused,
            say(format!(
                "session B {what}, where an operator must be told that the outcome of session A's call is not known"
            )),
            [reply.seen.seq],
        );
    } else if reply.text.trim().is_empty() {
        findings.broken(
            Code::ReconcileNoReason,
            say("session B refused without saying why"),
            [reply.seen.seq],
        );
    }
    if findings.is_clean() {
        findings.held(
            say("session B refused to replay, said why, and left the remote unchanged: ")
                .then(counts.told()),
            seqs(&counts.standing()).into_iter().chain([reply.seen.seq]),
        );
    }
    findings
}

/// The client has the result, and session B makes no call: what the remote holds is counted.
fn looked_back(history: &History<'_>, right: usize) -> Findings {
    let started = history.handshaken(Session::B);
    let counts = Counts::of(history).filter(|counts| counts.is_over(history));
    let (Some(started), Some(counts)) = (started, counts) else {
        return unproven(
            Code::TrialNoEvidence,
            say("nothing shows that session B started and ended"),
            started.map(|seen| seen.seq),
        );
    };
    let ended = history.last(|e| {
        matches!(
            e,
            Event::SessionEnded {
                session: Session::B
            }
        )
    });
    let all = counts.standing();
    let evidence = seqs(&all)
        .into_iter()
        .chain([started.seq])
        .chain(ended.map(|seen| seen.seq));
    let told = counts.told();
    let mut findings = Findings::default();
    if !history.makes_effects() || all.len() == right {
        let made_none = "; session B made no call, since the client had the result";
        findings.held(told.text(made_none), evidence);
    } else {
        let code = missing_or_more(all.len(), right);
        let told = told
            .text(format!(", where {right} is right"))
            .then(by_proxy(history, &all));
        findings.broken(code, told, evidence);
    }
    findings
}

fn missing_or_more(seen: usize, right: usize) -> Code {
    if seen > right {
        Code::ReconcileDuplicate
    } else {
        Code::ReconcileMissing
    }
}

fn must_be_one(
    history: &History<'_>,
    counts: &Counts<'_, '_>,
    reply: Reply<'_>,
    right: usize,
) -> Findings {
    let lost = counts
        .own_b
        .iter()
        .flat_map(|window| history.ledger.requests_in(*window))
        .find(|request| request.unmatched);
    if let Some(request) = lost.filter(|_| reply.shape != AnswerShape::Result) {
        return unproven(
            Code::ReconcileUnmatched,
            say("session B answered with an error after a request that matches no route of the drill: ")
                .quote(&format!("{} {}", request.method, request.target), "request"),
            [request.seen.seq, reply.seen.seq],
        );
    }
    let all = counts.standing();
    let evidence = || seqs(&all).into_iter().chain([reply.seen.seq]);
    let mut findings = Findings::default();
    // More can still come in a journal that was cut; fewer cannot be told before the window is over.
    let over = counts.is_over(history);
    let counted_here = history.makes_effects();
    if counted_here && (all.len() > right || (all.len() != right && over)) {
        findings.broken(
            missing_or_more(all.len(), right),
            counts
                .told()
                .text(format!(", where {right} is right"))
                .then(by_proxy(history, &all)),
            evidence(),
        );
    }
    let foreign = history.ledger.repeats.iter().find(|repeat| {
        counts.own_b.iter().any(|w| w.contains(repeat.seen.place))
            && !counts.ids.contains(repeat.effect)
    });
    if let Some(repeat) = foreign {
        findings.broken(
            Code::ReconcileKeyCollision,
            say("session B's request was answered with ")
                .id(repeat.effect)
                .text(", the effect of another call: their keys collide"),
            [repeat.seen.seq],
        );
    }
    let nothing_to_report = counted_here && right == 0 && all.is_empty();
    match reply.shape {
        AnswerShape::Result => {}
        AnswerShape::Nothing => {
            findings.broken(
                Code::ReconcileNoAnswer,
                counts
                    .told()
                    .text(", and session B did not answer")
                    .then(history.why_nothing(Session::B, reply)),
                evidence(),
            );
        }
        AnswerShape::ToolError | AnswerShape::Error if nothing_to_report => {}
        AnswerShape::ToolError | AnswerShape::Error => {
            findings.broken(
                Code::ReconcileError,
                counts
                    .told()
                    .text(", but session B answered with an error: ")
                    .quote(reply.text, "answer"),
                evidence(),
            );
        }
    }
    if findings.is_clean() {
        let named = all.iter().any(|effect| reply.text.contains(effect.id));
        let report = match (all.is_empty(), named) {
            (true, _) => "",
            (false, true) => ", and the answer names it",
            (false, false) => "; the answer does not name it",
        };
        findings.held(counts.told().text(report), evidence());
    }
    findings
}

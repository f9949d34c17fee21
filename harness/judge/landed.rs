//! Did the crash land? A drill whose crash never came, or whose server was dead before it, proves nothing: every question
//! of it stays open.
#![forbid(unsafe_code)]

use crate::journal::{AnswerShape, Event, Exit, Seq, Session, SessionFault};
use crate::spec::CrashPoint;

use super::code::Code;
use super::effects::{named, right_count};
use super::ending::SIGKILL;
use super::history::{Failure, History, Reply, Window};
use super::ledger::seqs;
use super::lost::stderr_told;
use super::sentence::{Sentence, counted, say};

/// Why nothing can be answered, and the events that show it. None: the crash landed.
pub(super) fn why_not(history: &History<'_>) -> Option<(Code, Sentence, Vec<Seq>)> {
    let crash = history.crash_fired();
    let before_crash = |place: usize| crash.is_none_or(|crash| place < crash.place);
    let point = history.crash.point();

    if let Some(failure) = early_failure(history) {
        let what = match failure.fault {
            SessionFault::Exited => "the server ended before its handshake was answered",
            SessionFault::TimedOut => "the server did not answer the handshake in time",
            SessionFault::Refused => "the handshake with the server failed",
            SessionFault::Lost => "the server ended, or closed stdout, before the call",
            SessionFault::NotExecuted | SessionFault::Client => "session A could not be started",
        };
        let told = say(format!("{what}, so there was nothing to crash: "));
        let told = told.quote(failure.detail, "detail");
        return Some((
            Code::TrialNoHandshake,
            told.then(stderr_told(failure.stderr)),
            vec![failure.seen.seq],
        ));
    }
    if let Some(missed) = history.first(|e| matches!(e, Event::PointMissed { .. }))
        && let Event::PointMissed { instead, .. } = missed.event
    {
        let told = say(format!("the crash point {point} was not reached: "));
        let told = told.quote(instead, "instead");
        return Some(with_stderr(
            history,
            Code::TrialNotReached,
            told,
            missed.seq,
        ));
    }
    if let Some(pid) = history.cast.server(Session::A)
        && let Some((seen, exit)) = history.exit(pid)
        && before_crash(seen.place)
        && !is_by_crash(history, exit)
    {
        let told = say("the server ")
            .then(history.cast.called(pid))
            .text(format!(" had already ended, with {exit}, before the crash"));
        return Some(with_stderr(history, Code::TrialEndedEarly, told, seen.seq));
    }
    if let Some(ended) = history.first(|e| {
        matches!(
            e,
            Event::StdoutEnded {
                session: Session::A,
                ..
            }
        )
    }) && before_crash(ended.place)
        && history.kills_server().is_none()
    {
        let told =
            say("the server had already closed its stdout, and had not exited, before the crash");
        return Some(with_stderr(history, Code::TrialEndedEarly, told, ended.seq));
    }
    if history
        .first(|e| matches!(e, Event::PointReached { .. }))
        .is_none()
    {
        return Some((
            Code::TrialNotReached,
            say(format!("the crash point {point} was not reached")),
            Vec::new(),
        ));
    }
    if crash.is_none() {
        return Some((
            Code::TrialNoEvidence,
            say("the crash did not happen"),
            Vec::new(),
        ));
    }
    if let Some(lost) = history.first(|e| matches!(e, Event::PointLost { .. }))
        && let Event::PointLost { instead, .. } = lost.event
    {
        return Some((
            Code::TrialPointLost,
            say(format!("the crash missed its point {point}: ")).quote(instead, "instead"),
            vec![lost.seq],
        ));
    }
    if let Some((told, evidence)) = dispatched_early(history) {
        return Some((Code::TrialDispatchedEarly, told, evidence));
    }
    if point_is_vacuous(history) {
        let told =
            "no session with this server was opened, so nothing shows that it would have started";
        return Some((Code::TrialStartUnproven, say(told), Vec::new()));
    }
    failed_call(history).map(|reply| {
        let told = say("the call was answered with an error and made no effect, so there was no result to crash after: ");
        (
            Code::TrialCallFailed,
            told.quote(reply.text, "answer"),
            vec![reply.seen.seq],
        )
    })
}

/// What the server wrote last, where it had left its client by itself.
fn with_stderr(
    history: &History<'_>,
    code: Code,
    told: Sentence,
    seq: Seq,
) -> (Code, Sentence, Vec<Seq>) {
    match history.lost(Session::A) {
        Some(lost) => (
            code,
            told.then(lost.stderr_told()),
            vec![seq, lost.seen.seq],
        ),
        None => (code, told, vec![seq]),
    }
}

/// Before the dispatch of the effect nothing of it can have been applied, whichever connection was held.
fn dispatched_early(history: &History<'_>) -> Option<(Sentence, Vec<Seq>)> {
    if history.moment() != CrashPoint::BeforeDispatch {
        return None;
    }
    let before = Window {
        from: history.window_a().from,
        to: history.crash_fired()?.place,
    };
    let effects = history.ledger.effects_in(before);
    if effects.is_empty() {
        return None;
    }
    let told = say("the remote had applied ")
        .text(counted(effects.len(), "effect", "effects"))
        .then(named(&effects))
        .text(
            " when the client died, so the held connection is not the one that carries the effect",
        );
    Some((told, seqs(&effects)))
}

/// At `startup` the server is asked for nothing. That it can start at all, a later session or a rehearsal has to show; a
/// command that ends at once would hold otherwise. Where the journal ends before them, nothing is known yet.
fn point_is_vacuous(history: &History<'_>) -> bool {
    let has_started = history.first(|e| match e {
        Event::Handshaken { .. } => true,
        Event::Rehearsed { answer, .. } => *answer != AnswerShape::Nothing,
        _ => false,
    });
    history.crash.at == CrashPoint::Startup && history.is_whole() && has_started.is_none()
}

/// A call that did nothing is not what the control is about, and may be the drill's own mistake: a wrong argument, a route
/// that is missing.
fn failed_call<'a>(history: &History<'a>) -> Option<Reply<'a>> {
    let is_control = history.crash.at == CrashPoint::AfterResult && history.makes_effects();
    let effects = history.ledger.effects_in(history.window_a());
    let none_is_right = history
        .drill
        .expect
        .effects
        .ask()
        .is_some_and(|expected| right_count(history, expected).allows(0));
    let is_error =
        |reply: &Reply<'_>| matches!(reply.shape, AnswerShape::ToolError | AnswerShape::Error);
    history
        .reply(Session::A)
        .filter(is_error)
        .filter(|_| is_control && effects.is_empty() && !none_is_right)
}

/// The failure of session A, where it came before the crash.
pub(super) fn early_failure<'a>(history: &History<'a>) -> Option<Failure<'a>> {
    let crash = history.crash_fired();
    history
        .failure(Session::A)
        .filter(|failure| crash.is_none_or(|crash| failure.seen.place < crash.place))
}

/// A server that the crash itself kills may be reaped before the crash is written down.
fn is_by_crash(history: &History<'_>, exit: Exit) -> bool {
    match (history.kills_server(), exit) {
        (Some(signal), Exit::Signal { number, .. }) => number == number_of(signal),
        _ => false,
    }
}

/// The number of a signal on Linux (signal(7)).
fn number_of(signal: crate::spec::Signal) -> i32 {
    use crate::spec::Signal;
    match signal {
        Signal::Hup => 1,
        Signal::Int => 2,
        Signal::Kill => SIGKILL,
        Signal::Term => 15,
        Signal::Stop => 19,
    }
}

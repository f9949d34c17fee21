//! `ownership`: at the moment of dispatch, did a record that another process can read name the run, the process, the
//! approval and the external operation? And is the outcome recorded, as it was?
//!
//! Readable is what is proven here. Whether the row would survive a power cut no reader can see; where the drill opens the
//! gate, [`durable`] tells.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{Moment, Pid, Row, Seq, Session};
use crate::spec::{CrashPoint, Kill, Ownership, Signal, Source, Stream};

use super::authority::torn_before_revoked_session;
use super::beside;
use super::code::Code;
use super::durable::{self, Durability};
use super::finding::{Findings, unproven};
use super::history::{History, Identity, Record, Seen};
use super::ledger::Request;
use super::sentence::{Sentence, counted, say};
use super::truth::Truth;
use super::words::{self, Claim};

pub(super) fn judge(history: &History<'_>, log: &Ownership) -> Findings {
    let Some(owner) = history.identity(Session::A) else {
        return unproven(
            Code::TrialNoEvidence,
            say("the journal does not say who owns session A"),
            [],
        );
    };
    let mut findings = Findings::default();
    if let Some((seen, how)) = torn_before_revoked_session(history) {
        let told = say("the authority's own journal does not verify: ").then(how);
        findings.broken(Code::OwnershipAuthorityJournal, told, [seen.seq]);
    }
    let mut of_intent = Findings::default();
    let writer = intent(history, log, owner, &mut of_intent);
    // At a system call of its own choosing the server may have been on its way to the intent. What holds, holds.
    if is_dispatched(history) || of_intent.is_clean() {
        findings.absorb(of_intent);
    }
    if is_due(history) {
        outcome(history, log, owner, writer, &mut findings);
    }
    beside::own_record(history, log, &mut findings);
    findings
}

/// Whether there is anything to own: at a system call, where neither was anything dispatched nor does the record name the
/// call, there is not.
pub(super) fn is_due(history: &History<'_>) -> bool {
    is_dispatched(history)
        || history
            .identity(Session::A)
            .is_some_and(|owner| names_call(history, owner))
        || history.record_left().is_some_and(|record| record.torn > 0)
}

/// At the other points this is asked at, the server has reached for the remote.
fn is_dispatched(history: &History<'_>) -> bool {
    !history.is_anywhere() || first_write(history).is_some()
}

fn names_call(history: &History<'_>, owner: Identity<'_>) -> bool {
    let window = history.window_a();
    history
        .records()
        .filter(|record| window.contains(record.seen.place))
        .any(|record| !record.rows_of(owner.call).is_empty())
}

// ---- the intent --------------------------------------------------------------------------------------------------

/// The row that must stand when the request goes out. Returns the process that the row names, if it is one of the tree.
fn intent(
    history: &History<'_>,
    log: &Ownership,
    owner: Identity<'_>,
    findings: &mut Findings,
) -> Option<Pid> {
    let Some((record, when)) = at_dispatch(history) else {
        if history.is_anywhere() && !history.sees_dispatch() && !log.durable {
            // This cell does not see a dispatch that comes after the crash. The outcome is asked all the same.
            return None;
        }
        findings.unproven(
            Code::TrialNoEvidence,
            say("the record was not read at the moment of dispatch"),
            [],
        );
        return None;
    };
    let evidence = [record.seen.seq];
    if let Some(reason) = record.unreadable {
        findings.unproven(
            Code::TrialRecordUnreadable,
            say("the record could not be read: ").text(reason),
            evidence,
        );
        return None;
    }
    if !record.present {
        findings.broken(
            Code::OwnershipNoRecord,
            begin(when).text(" the record did not exist"),
            evidence,
        );
        return None;
    }
    let rows = record.rows_of(owner.call);
    let intents: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| words::claim(row, &log.outcomes) == Some(Claim::Intended))
        .collect();
    let checked: Vec<(&Row, Vec<(Code, Sentence)>)> = intents
        .iter()
        .map(|row| (*row, faults(history, log, owner, row)))
        .collect();
    let Some((row, faults)) = checked.iter().min_by_key(|(_, faults)| faults.len()) else {
        let (code, sentence) = match rows.last().and_then(|row| row.text("outcome")) {
            Some(word) => (
                Code::OwnershipNoIntent,
                begin(when)
                    .text(" no row of the call said that it was intended: the last one says ")
                    .word(&word),
            ),
            None if rows.is_empty() => (
                Code::OwnershipNoRow,
                begin(when).text(" no row of the record named the call"),
            ),
            None => (
                Code::OwnershipNoIntent,
                begin(when).text(" the row of the call had no outcome word"),
            ),
        };
        findings.broken(code, sentence, evidence);
        return None;
    };
    if faults.is_empty() {
        let named = begin(when).text(format!(" the record named {}", what_is_named(log)));
        durability(history, log, row, record, named, findings);
    } else {
        // One sentence for all of them, and a code for each.
        let (codes, faults): (Vec<Code>, Vec<Sentence>) = faults.iter().cloned().unzip();
        findings.broken_by(
            codes,
            begin(when)
                .text(" the row of the intent ")
                .then(Sentence::join(faults, " and ")),
            evidence,
        );
    }
    process_of(row).filter(|pid| history.cast.is_in_tree(*pid))
}

/// The intent is as it must be; what is known of it and the disk is added.
fn durability(
    history: &History<'_>,
    log: &Ownership,
    row: &Row,
    record: Record<'_>,
    named: Sentence,
    findings: &mut Findings,
) {
    let own = [record.seen.seq];
    let carrier = carrier(history);
    // What is no file of the server's own, no sync of the server's brings to the disk.
    let is_file = log.source().is_none();
    match is_file
        .then(|| durable::of(history, row, carrier))
        .flatten()
    {
        None if log.durable => {
            findings.unproven(
                Code::OwnershipSyncUnseen,
                say("whether the intent was on the disk before dispatch cannot be told: the drill has no `gate` here"),
                own,
            );
        }
        None => {
            findings.held(named, own);
        }
        Some(Durability::Synced { evidence }) => {
            findings.held(
                named.text(", synced to the disk before dispatch"),
                own.into_iter().chain(evidence),
            );
        }
        Some(Durability::NotSynced { evidence }) => {
            let told = named.text(", not synced before dispatch: a power cut could lose it");
            let evidence = own.into_iter().chain(evidence);
            if log.durable {
                findings.broken(Code::OwnershipNotDurable, told, evidence);
            } else {
                findings.held(told, evidence);
            }
        }
        Some(Durability::Unseen { because, evidence }) => {
            let told = named
                .text("; whether that was synced cannot be told: ")
                .text(because);
            let evidence = own.into_iter().chain(evidence);
            if log.durable {
                findings.unproven(Code::OwnershipSyncUnseen, told, evidence);
            } else {
                findings.held(told, evidence);
            }
        }
    }
}

/// When the record was read depends on the cell, not on the server: the same in every snapshot.
fn begin(when: &'static str) -> Sentence {
    Sentence::default().varies(when, "<when>")
}

/// The record at the moment of dispatch: read while the connection was pending, or else at the crash point.
fn at_dispatch<'a>(history: &History<'a>) -> Option<(Record<'a>, &'static str)> {
    let window = history.window_a();
    let crash = history.crash_fired().map_or(usize::MAX, |seen| seen.place);
    let carrier = carrier(history);
    let pending: Vec<Record<'a>> = history
        .records()
        .filter(|record| record.moment == Moment::Dispatch && window.contains(record.seen.place))
        .collect();
    // A call may make other requests first; their dispatch needs no intent.
    let found = pending.iter().rfind(|record| match carrier {
        Some(_) => record.connection == carrier,
        None => record.seen.place < crash,
    });
    if let Some(record) = found {
        return Some((*record, "at the moment of dispatch"));
    }
    // Held in a connect to the remote, the server has written what it writes before.
    let is_before_intent =
        history.crash.at == CrashPoint::Syscall && durable::held_connect(history).is_none();
    let is_sought = carrier
        .and_then(|carrier| history.ledger.connections.get(&carrier)?.sought)
        .is_some_and(|sought| sought.place < crash);
    if is_before_intent && !is_sought {
        return None;
    }
    let when = if history.is_at_approval() {
        "when the decision was asked for"
    } else {
        "at the crash point (the dispatch itself could not be held)"
    };
    history.record(Moment::Point).map(|record| (record, when))
}

/// The connection that carries the effect, or is held to carry it.
fn carrier(history: &History<'_>) -> Option<u32> {
    let crash = history.crash_fired().map_or(usize::MAX, |seen| seen.place);
    first_write(history)
        .map(|request| request.connection)
        .or_else(|| {
            let held = history
                .ledger
                .connections
                .iter()
                .filter(|(_, c)| c.is_held_at(crash));
            held.map(|(number, _)| *number).next_back()
        })
}

fn first_write<'h, 'a>(history: &'h History<'a>) -> Option<&'h Request<'a>> {
    history
        .ledger
        .requests_in(history.window_a())
        .find(|request| request.writes)
}

/// What is wrong with a row, as predicates of it.
fn faults(
    history: &History<'_>,
    log: &Ownership,
    owner: Identity<'_>,
    row: &Row,
) -> Vec<(Code, Sentence)> {
    let incomplete = |what: &str| {
        (
            Code::OwnershipIncomplete,
            say(format!("does not name the {what}")),
        )
    };
    let named = &log.record;
    let mut faults = Vec::new();
    let mut must_be = |what: &str, asked: bool, field: &str, right: &str| {
        if !asked {
            return;
        }
        match row.text(field).filter(|text| !text.is_empty()) {
            None => faults.push(incomplete(what)),
            Some(text) if text != right => {
                faults.push((
                    Code::OwnershipWrongOwner,
                    say(format!("names another {what} (")).id(&text).text(")"),
                ));
            }
            Some(_) => {}
        }
    };
    let believes_client = named.run.is_some()
        && !owner.declared.is_empty()
        && row.text("run").as_deref() == Some(owner.declared);
    must_be(
        "run",
        named.run.is_some() && !believes_client,
        "run",
        owner.run,
    );
    must_be(
        "approval",
        named.approval.is_some(),
        "approval",
        owner.approval,
    );
    if believes_client {
        faults.push((
            Code::OwnershipBelievesClient,
            say("names the run that the client declared about itself, which is no proof of who it is"),
        ));
    }
    if named.process.is_some() {
        match (row.text("process"), process_of(row)) {
            (_, Some(pid)) if history.cast.is_in_tree(pid) => {}
            (Some(text), _) if !text.is_empty() => faults.push((
                Code::OwnershipWrongOwner,
                say("names a process that is not of session A (")
                    .id(&text)
                    .text(")"),
            )),
            _ => faults.push(incomplete("process")),
        }
    }
    let is_empty = |field: &str| row.text(field).is_none_or(|text| text.trim().is_empty());
    if named.target.is_some() && is_empty("target") {
        faults.push(incomplete("target"));
    }
    if named.key.is_some() {
        let sent: BTreeSet<&str> = history
            .ledger
            .requests_in(history.window_a())
            .filter(|request| request.writes)
            .filter_map(|request| request.key)
            .collect();
        match row.text("key").filter(|key| !key.trim().is_empty()) {
            None => faults.push(incomplete("key")),
            Some(key) if !sent.is_empty() && !sent.contains(key.as_str()) => faults.push((
                Code::OwnershipWrongOwner,
                say("names another key (")
                    .id(&key)
                    .text(") than the request carried"),
            )),
            Some(_) => {}
        }
    }
    faults
}

fn process_of(row: &Row) -> Option<Pid> {
    row.text("process")?.trim().parse().ok()
}

/// `run, process and key of the call`, as the drill asks for them.
fn what_is_named(log: &Ownership) -> String {
    let named = &log.record;
    let fields = [
        ("run", named.run.is_some()),
        ("process", named.process.is_some()),
        ("approval", named.approval.is_some()),
        ("target", named.target.is_some()),
        ("key", named.key.is_some()),
    ];
    let words: Vec<&str> = std::iter::once("call")
        .chain(
            fields
                .iter()
                .filter(|(_, asked)| *asked)
                .map(|(word, _)| *word),
        )
        .collect();
    match words.split_last() {
        Some((last, [])) => format!("the {last}"),
        Some((last, rest)) => format!("the {} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

// ---- the outcome -------------------------------------------------------------------------------------------------

/// The row that is due when the server has gone.
fn outcome(
    history: &History<'_>,
    log: &Ownership,
    owner: Identity<'_>,
    writer: Option<Pid>,
    findings: &mut Findings,
) {
    let Some(server) = history.cast.server(Session::A) else {
        return;
    };
    let writer = writer.unwrap_or(server);
    let by_crash = history
        .kills_server()
        .is_some_and(|signal| signal == Signal::Kill || signal == Signal::Stop);
    if by_crash {
        // The drill itself took the chance to write an outcome. But a row is there or not: who writes it at once leaves
        // no half of it.
        let Some(record) = history.record_left() else {
            return;
        };
        if record.torn > 0 {
            findings.broken(
                Code::OwnershipTorn,
                say("SIGKILL of the server left ")
                    .text(counted(
                        usize::try_from(record.torn).unwrap_or(usize::MAX),
                        "line",
                        "lines",
                    ))
                    .text(" of the record that cannot be read as a JSON object"),
                [record.seen.seq],
            );
        } else if !is_dispatched(history) {
            let told = "the server was killed before it dispatched anything; the record names the call, and each of its lines is whole";
            findings.held(say(told), [record.seen.seq]);
        }
        return;
    }
    let killed = history
        .signal(writer, Signal::Kill)
        .filter(|sent| was_alive(history, writer, *sent));
    let left = history.record_left();
    let ended = if history.is_brokered() {
        // Who writes it is the authority, which goes on: what it knows, it knows when it is asked.
        left.map(|record| record.seen)
    } else {
        let exit = history.exit(writer).or_else(|| history.exit(server));
        exit.map(|(seen, _)| seen)
    };
    let (Some(ended), Some(record)) = (ended, left) else {
        findings.unproven(
            Code::TrialNoEvidence,
            say("the record was not read after the server's end"),
            [],
        );
        return;
    };
    let evidence = [ended.seq, record.seen.seq];
    if let Some(reason) = record.unreadable {
        findings.unproven(
            Code::TrialRecordUnreadable,
            say("the record could not be read: ").text(reason),
            evidence,
        );
        return;
    }
    // A server that was killed may have been writing.
    if record.torn > 0 && killed.is_none() {
        findings.broken(
            Code::OwnershipTorn,
            say(format!(
                "{} of the record cannot be read as a JSON object",
                counted(
                    usize::try_from(record.torn).unwrap_or(usize::MAX),
                    "line",
                    "lines"
                )
            )),
            evidence,
        );
    }
    let rows = record.rows_of(owner.call);
    let Some((row, claim)) = words::outcome(&rows, &log.outcomes) else {
        if let Some(killed) = killed {
            findings.unproven(
                Code::OwnershipKilledFirst,
                say("the server had to be ended by SIGKILL, so no outcome was due"),
                [killed.seq],
            );
            return;
        }
        let unheard = unheard(history, log, ended);
        let code = match unheard {
            Some(_) => Code::OwnershipUnheard,
            None => Code::OwnershipNoOutcome,
        };
        let told = match unheard {
            // Whether one was sent, nobody can know any more, and that is what is wrong with it.
            Some((why, _)) => say(format!("when the server ended, its client {why}, and nobody else receives its notifications"))
                .text(": a record that dies with the client is no durable record, and it tells no outcome of the call"),
            None => {
                say("when the server had ended, no row of the record told the outcome of the call")
            }
        };
        findings.broken(
            code,
            told,
            evidence.into_iter().chain(unheard.map(|(_, seq)| seq)),
        );
        return;
    };
    let truth = Truth::of(history, ended);
    let word = row.text("outcome").unwrap_or_default();
    match truth.lie(history, log, row, claim) {
        Some(lie) => findings.broken(
            Code::OwnershipFalseOutcome,
            say("the record says ")
                .word(&word)
                .text(" of the call, ")
                .then(lie),
            evidence.into_iter().chain(truth.evidence()),
        ),
        None => findings.held(
            say("the outcome is recorded as ")
                .word(&word)
                .text(", and ")
                .then(truth.told(history)),
            evidence.into_iter().chain(truth.evidence()),
        ),
    };
}

/// Why nobody could receive a notification of the outcome, where the record is made of those, and the event that shows it.
///
/// Two witnesses tell of the ends of client and server, so the end of the client may stand second; that the crash ended it
/// stands before both.
fn unheard(history: &History<'_>, log: &Ownership, ended: Seen<'_>) -> Option<(&'static str, Seq)> {
    let fired = history
        .crash_fired()
        .filter(|fired| log.source() == Some(Source::Logging) && fired.place < ended.place)?;
    let crash = history.crash;
    match crash.kill {
        _ if crash.close.contains(&Stream::Stdout) => Some(("read nothing more", fired.seq)),
        _ if !crash.close.is_empty() => None,
        // A polite client waits for its server, and reads as long as that lives.
        Kill::Polite(_) | Kill::Server => None,
        Kill::Client | Kill::Both | Kill::Group if crash.signal == Signal::Stop => {
            Some(("hung", fired.seq))
        }
        Kill::Client | Kill::Both | Kill::Group => Some(("had gone", history.client_gone()?.seq)),
    }
}

fn was_alive(history: &History<'_>, pid: Pid, at: Seen<'_>) -> bool {
    history
        .exit(pid)
        .is_none_or(|(exited, _)| exited.place > at.place)
}

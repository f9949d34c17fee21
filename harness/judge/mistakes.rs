//! The drill's own mistakes: a tool that the server does not have, a credential in a form that the drill does not declare.
//! They are said to be that, with the line of the drill, and break nothing of the server's.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{AnswerShape, CallRole, Carrier, Credential, Event, Seq, Session, Way};
use crate::spec::{Authority, CrashPoint, DrillPlaces, Question, Recovery, nearest};

use super::code::Code;
use super::history::{History, Seen, Window};
use super::ledger::Request;
use super::sentence::{Sentence, say};

/// What is said, and the events that show it.
type Told = (Code, Sentence, Vec<Seq>);

/// Said in front of each.
const MISTAKE: &str = "the drill's mistake: ";

/// Schemes of the header that `authority.bearer` names.
const SCHEMES: [&str; 2] = ["bearer", "token"];

// ---- tools -------------------------------------------------------------------------------------------------------

const SESSIONS: [Session; 4] = [Session::Beside, Session::A, Session::Revoked, Session::B];

/// A tool of session A's call, or of one before it, that the server does not have: then nothing of this trial shows what
/// the server does in the middle of a call.
pub(super) fn in_call(history: &History<'_>) -> Option<Told> {
    let is_in_call = !matches!(history.crash.at, CrashPoint::Startup | CrashPoint::Idle);
    let mut calls = calls_of(history, Session::A);
    calls.extend(given_up(history));
    is_in_call.then(|| unknown_tool(history, calls))?
}

/// A call that was not made, since a rehearsal of it led nowhere.
fn given_up<'a>(history: &History<'a>) -> Option<Asked<'a>> {
    let seen = history.first(|e| matches!(e, Event::PointMissed { .. }))?;
    let tool = history.drill.call.tool.as_str();
    let is_known = !tool.contains("{{");
    is_known.then(|| Asked {
        seen,
        tool,
        call: "",
        path: "call.tool".to_owned(),
    })
}

/// A tool of a later session's call that the server does not have, where this question is about that session.
pub(super) fn in_later_call(history: &History<'_>, question: Question) -> Option<Told> {
    let sessions: &[Session] = match question {
        Question::Reconcile => &[Session::B],
        Question::Revocation => &[Session::Revoked],
        Question::Effects | Question::Ownership => &[Session::Beside],
        _ => &[],
    };
    sessions
        .iter()
        .find_map(|session| unknown_tool(history, calls_of(history, *session)))
}

/// A call that a session was asked to make.
struct Asked<'a> {
    seen: Seen<'a>,
    tool: &'a str,
    call: &'a str,
    /// Where its tool stands in the drill.
    path: String,
}

fn unknown_tool(history: &History<'_>, calls: Vec<Asked<'_>>) -> Option<Told> {
    let mut listed = None;
    let mut tools = BTreeSet::new();
    for seen in history.all() {
        match seen.event {
            Event::ToolsListed {
                tools: some, whole, ..
            } => {
                tools.extend(some.iter().map(String::as_str));
                if *whole {
                    listed = Some(seen);
                }
            }
            // What there is now is not what there was when it was listed.
            Event::LinePassed {
                way: Way::FromServer,
                method: Some(method),
                ..
            } if method == "notifications/tools/list_changed" => return None,
            _ => {}
        }
    }
    let listed = listed?;
    let unknown = calls
        .into_iter()
        .find(|asked| !tools.contains(asked.tool) && !works(history, asked.tool))?;
    let place = places(history).of(&unknown.path);
    let told = say(MISTAKE)
        .text("the server has no tool ")
        .text(format!("`{}` (", unknown.tool))
        .varies(place, "<line>")
        .text(")")
        .then(instead(unknown.tool, &tools));
    let evidence = vec![listed.seq, unknown.seen.seq];
    Some((Code::TrialUnknownTool, told, evidence))
}

/// What may have been meant.
fn instead(tool: &str, tools: &BTreeSet<&str>) -> Sentence {
    if let Some(nearest) = nearest(tool, tools.iter().copied()) {
        return say(format!("; nearest: `{nearest}`"));
    }
    if tools.is_empty() {
        return say("; it lists no tool");
    }
    let names = tools.iter().map(|name| say(format!("`{name}`"))).collect();
    say("; it lists ").then(Sentence::list(names))
}

/// The calls of a session, with where the drill names their tools.
fn calls_of<'a>(history: &History<'a>, of: Session) -> Vec<Asked<'a>> {
    let drill = history.drill;
    let revocation = drill.expect.revocation.ask();
    let has_own = revocation.is_some_and(|asked| asked.call.is_some());
    let recover = drill.recover.as_ref();
    let (main, before) = match (of, recover) {
        (Session::Revoked, _) if has_own => {
            let call = "expect.revocation.call";
            (call, call)
        }
        (Session::B, Some(recover)) => {
            let has_tool = matches!(recover.how, Recovery::Tool { .. });
            let has_before = recover.before.is_some();
            (
                if has_tool { "recover" } else { "call" },
                if has_before { "recover" } else { "call" },
            )
        }
        _ => ("call", "call"),
    };
    let mut befores = 0;
    let mut known = BTreeSet::new();
    let asked = history.all().filter_map(|seen| match seen.event {
        Event::CallAsked {
            session,
            role,
            tool,
            call,
        }
        | Event::CallIssued {
            session,
            role,
            tool,
            call,
            ..
        } if *session == of && known.insert(call) => {
            let path = match role {
                CallRole::Before => {
                    befores += 1;
                    format!("{before}.before[{}].tool", befores - 1)
                }
                CallRole::Main | CallRole::Again => format!("{main}.tool"),
            };
            Some(Asked {
                seen,
                tool,
                call,
                path,
            })
        }
        _ => None,
    });
    asked.collect()
}

/// Whether a tool does something although it is not listed: a server may hide what it can do.
fn works(history: &History<'_>, tool: &str) -> bool {
    SESSIONS.into_iter().any(|session| {
        let calls = calls_of(history, session);
        let window = history.window_of(session);
        calls.iter().enumerate().any(|(n, asked)| {
            // What comes after the next call may be of that.
            let next = calls.get(n + 1).map(|next| next.seen.place);
            let to = next.or(window.map(|window| window.to)).unwrap_or_default();
            let from = asked.seen.place;
            asked.tool == tool && has_worked(history, session, asked, Window { from, to })
        })
    })
}

fn has_worked(history: &History<'_>, of: Session, asked: &Asked<'_>, window: Window) -> bool {
    let later = |seen: &Seen<'_>| window.contains(seen.place);
    if history
        .ledger
        .effects
        .iter()
        .any(|effect| later(&effect.seen))
    {
        return true;
    }
    let is_answered = history.all().any(|seen| match seen.event {
        Event::CallAnswered {
            session,
            rpc_id,
            shape: AnswerShape::Result,
            ..
        } => *session == of && history.call_of(of, rpc_id) == Some(asked.call),
        _ => false,
    });
    // Some servers answer with a result that they know no such tool.
    let asks_remote = !history.makes_effects()
        || history
            .ledger
            .requests
            .iter()
            .any(|request| later(&request.seen));
    is_answered && asks_remote
}

// ---- the credential ----------------------------------------------------------------------------------------------

/// A credential that the drill minted came in a form that the drill does not declare, and was refused for that.
pub(super) fn in_credential(history: &History<'_>, question: Question) -> Option<Told> {
    let depends = matches!(
        question,
        Question::Effects
            | Question::Reconcile
            | Question::Handle
            | Question::Ownership
            | Question::Revocation
    );
    let b = history.window_of(Session::B);
    let of_b = |place| b.is_some_and(|window| window.contains(place));
    depends.then(|| {
        misplaced(history, |place| match question {
            // It tells as well of a run that had been revoked by then.
            Question::Revocation => true,
            Question::Reconcile => of_a(history, place) || of_b(place),
            _ => of_a(history, place),
        })
    })?
}

/// The same, where it is why the crash did not land.
pub(super) fn before_crash(history: &History<'_>) -> Option<Told> {
    misplaced(history, |place| of_a(history, place))
}

/// Whether this is of session A, and before its run was revoked.
fn of_a(history: &History<'_>, place: usize) -> bool {
    let revoked = history.revoked().map_or(usize::MAX, |seen| seen.place);
    place < history.window_a().to.min(revoked)
}

fn misplaced(history: &History<'_>, counts: impl Fn(usize) -> bool) -> Option<Told> {
    history.all().find_map(|seen| {
        let Event::CredentialMisplaced {
            request,
            carrier,
            scheme,
            encoded,
            ..
        } = seen.event
        else {
            return None;
        };
        let request = history.ledger.request(*request)?;
        if !counts(request.seen.place) || came_as_declared(history, request) {
            return None;
        }
        let told = say(MISTAKE)
            .text("the server sends its credential ")
            .text(form(carrier, scheme.as_deref(), *encoded))
            .text(", and ")
            .then(declared(history))
            .text(format!(", so the remote refused {}; ", request.name()))
            .text(remedy(history, carrier, scheme.as_deref(), *encoded));
        let evidence = vec![request.seen.seq, seen.seq];
        Some((Code::TrialCredentialForm, told, evidence))
    })
}

/// Whether the server knows the declared form as well, on the same route.
fn came_as_declared(history: &History<'_>, request: &Request<'_>) -> bool {
    let mut all = history.ledger.requests.iter();
    all.any(|other| {
        matches!(other.credential, Credential::Run { .. }) && other.name() == request.name()
    })
}

fn form(carrier: &Carrier, scheme: Option<&str>, is_encoded: bool) -> String {
    match (carrier, scheme) {
        (Carrier::Header(_), Some(scheme)) => format!("as `{scheme} …` in {carrier}"),
        (Carrier::Header(_), None) if !is_encoded => format!("without a scheme in {carrier}"),
        (_, _) if is_encoded => format!("encoded in {carrier}"),
        (_, _) => format!("in {carrier}"),
    }
}

fn header<'a>(history: &History<'a>) -> &'a str {
    let authority = history.drill.authority.as_ref();
    authority.map_or("Authorization", Authority::header)
}

/// What the drill says of the form.
fn declared(history: &History<'_>) -> Sentence {
    let header = header(history);
    if matches!(history.drill.authority, Some(Authority::Bearer(_))) {
        let place = places(history).of("authority.bearer");
        say(format!("`authority.bearer: {header}` ("))
            .varies(place, "<line>")
            .text(format!(") declares `Bearer …` in the header `{header}`"))
    } else {
        say(format!(
            "the authority's is `Bearer …` in the header `{header}`"
        ))
    }
}

fn remedy(
    history: &History<'_>,
    carrier: &Carrier,
    scheme: Option<&str>,
    is_encoded: bool,
) -> String {
    if let Carrier::Header(name) = carrier
        && !name.eq_ignore_ascii_case(header(history))
        && !is_encoded
        && matches!(history.drill.authority, Some(Authority::Bearer(_)))
    {
        let is_known = match scheme {
            Some(scheme) => SCHEMES
                .iter()
                .any(|known| known.eq_ignore_ascii_case(scheme)),
            None => !name.eq_ignore_ascii_case("authorization"),
        };
        if is_known {
            return format!("write `bearer: {name}`");
        }
    }
    "a drill cannot declare that form: leave `authority` out, and the remote takes each request"
        .to_owned()
}

// ---- the file ----------------------------------------------------------------------------------------------------

fn places(history: &History<'_>) -> DrillPlaces {
    let read = history.all().find_map(|seen| match seen.event {
        Event::DrillRead { file, lines } => Some(DrillPlaces {
            file: file.clone(),
            lines: lines.clone(),
        }),
        _ => None,
    });
    read.unwrap_or_else(|| DrillPlaces::of_file("the drill"))
}

//! What goes between client, server and remote, in words.

use super::cast::{Cast, Lane};
use super::names::{count, credential_name};
use super::tell::{Drawn, EXCERPT, Mark, Told, arrow, lost, reaching, told};
use crate::journal::{AnswerShape, Event, Line, LineShape, Way, excerpt};

pub(super) fn about_the_session(event: &Event) -> Option<Told> {
    let to_server = arrow(Lane::Client, Lane::Server);
    let from_server = arrow(Lane::Server, Lane::Client);
    Some(match event {
        Event::Handshaken {
            protocol,
            server_name,
            server_version,
            ..
        } => told(
            from_server,
            format!("handshake: {server_name} {server_version}"),
        )
        .more(format!("protocol {protocol}")),
        Event::SessionFailed {
            session,
            detail,
            stderr_tail,
            ..
        } => told(
            Drawn::At(Lane::Client, Mark::Trouble),
            format!("{session} failed: {detail}"),
        )
        .more(excerpt(stderr_tail, EXCERPT)),
        Event::LinePassed {
            way,
            shape,
            method,
            bytes,
            excerpt,
            ..
        } => {
            let drawn = match way {
                Way::ToServer => to_server,
                Way::FromServer => from_server,
            };
            let name = method.as_deref().unwrap_or("");
            match shape {
                LineShape::Noise => told(drawn, "a line that is not JSON-RPC")
                    .more(excerpt.clone().unwrap_or_default()),
                // The calls themselves are told by events of their own.
                LineShape::Request if name == "tools/call" => {
                    told(drawn, name).more(format!("{bytes} bytes")).minor()
                }
                LineShape::Request => told(drawn, name).more(format!("{bytes} bytes")),
                LineShape::Notification => told(drawn, name).more(format!("{bytes} bytes")).minor(),
                LineShape::Response => told(drawn, "a response")
                    .more(format!("{bytes} bytes"))
                    .minor(),
            }
        }
        Event::CallAsked { tool, .. } => told(
            Drawn::At(Lane::Client, Mark::Note),
            format!("is to call {tool}"),
        )
        .minor(),
        Event::CallIssued { tool, call, .. } => {
            told(to_server, format!("tools/call {tool}")).more(format!("call {call}"))
        }
        Event::ToolsListed { tools, whole, .. } => {
            let more = if *whole { "" } else { ", and more" };
            let tools_found = count(tools.len(), "tool", "tools");
            told(from_server, format!("lists {tools_found}{more}"))
                .more(excerpt(&tools.join(", "), EXCERPT))
                .minor()
        }
        Event::CallTorn { bytes, of, .. } => told(
            lost(Lane::Client, Lane::Server),
            format!("{bytes} of {of} bytes of the call"),
        ),
        Event::CallUnread { bytes, .. } => told(
            Drawn::At(Lane::Server, Mark::Note),
            format!("has {bytes} bytes of the call before it, unread"),
        ),
        Event::CallTaken { .. } => told(
            Drawn::At(Lane::Server, Mark::Note),
            "has read the whole call",
        ),
        Event::ReadingStopped { .. } => told(
            Drawn::At(Lane::Client, Mark::Note),
            "stops reading from the server",
        ),
        Event::ReadingResumed { .. } => told(
            Drawn::At(Lane::Client, Mark::Note),
            "reads on from the server",
        ),
        Event::ServerLost {
            session,
            exit,
            stderr_tail,
            ..
        } => {
            let how = match exit {
                Some(exit) => format!("ended with {exit}"),
                None => "closed its stdout".to_owned(),
            };
            told(
                Drawn::At(Lane::Server, Mark::Trouble),
                format!("{how} while the client of {session} lived"),
            )
            .more(excerpt(stderr_tail, EXCERPT))
        }
        Event::CallAnswered {
            shape: AnswerShape::Nothing,
            text,
            ..
        } => told(
            Drawn::At(Lane::Client, Mark::Trouble),
            "no answer to the call",
        )
        .more(excerpt(text, EXCERPT)),
        Event::CallAnswered { shape, text, .. } => {
            let word = match shape {
                AnswerShape::Result => "result",
                AnswerShape::ToolError => "tool error",
                AnswerShape::Error | AnswerShape::Nothing => "error",
            };
            told(from_server, format!("{word}: {}", excerpt(text, EXCERPT)))
        }
        Event::StdoutEnded { torn: 0, .. } => told(
            Drawn::At(Lane::Client, Mark::Note),
            "the server's stdout ended",
        )
        .minor(),
        Event::StdoutEnded { torn, .. } => told(
            Drawn::At(Lane::Client, Mark::Trouble),
            format!("the server's stdout ended after {torn} bytes of a line"),
        ),
        Event::StderrEnded { bytes, .. } => told(
            Drawn::At(Lane::Client, Mark::Note),
            format!("stderr ended after {bytes} bytes"),
        )
        .minor(),
        Event::StderrKept { tail, .. } => told(
            Drawn::At(Lane::Server, Mark::Note),
            format!("the end of its stderr: {}", excerpt(tail, EXCERPT)),
        )
        .minor(),
        Event::ClientClosed { stream, .. } => told(
            Drawn::At(Lane::Client, Mark::Note),
            format!("closes the server's {stream}"),
        ),
        Event::SessionEnded { session } => told(
            Drawn::At(Lane::Client, Mark::Note),
            format!("{session} is over"),
        )
        .minor(),
        _ => return None,
    })
}

pub(super) fn about_requests(event: &Event, line: &Line, cast: &Cast) -> Option<Told> {
    // The journal does not say which process asks. Where no server is left, it is not the server.
    let now = line.place();
    let asker = if !cast.is_alive(Lane::Server, now) && cast.is_alive(Lane::Helpers, now) {
        Lane::Helpers
    } else {
        Lane::Server
    };
    let to_remote = arrow(asker, Lane::Remote);
    let from_remote = arrow(Lane::Remote, asker);
    let at = |mark| Drawn::At(Lane::Remote, mark);
    Some(match event {
        Event::ConnectionSought { .. } => {
            told(reaching(asker, Lane::Remote), "reaches for the remote")
        }
        Event::ConnectionHeld { .. } => told(at(Mark::Note), "the connection is held pending"),
        Event::ConnectionReleased { .. } => told(at(Mark::Note), "the connection is let go"),
        Event::ConnectionAccepted { .. } => {
            told(at(Mark::Note), "a connection is accepted").minor()
        }
        Event::RequestReceived {
            method,
            target,
            credential,
            key,
            body_bytes,
            ..
        } => {
            let key = key
                .as_ref()
                .map_or_else(String::new, |key| format!(", key {key}"));
            told(to_remote, format!("{method} {}", excerpt(target, EXCERPT))).more(format!(
                "{}{key}, {body_bytes} bytes",
                credential_name(credential)
            ))
        }
        Event::RequestTorn { bytes, because, .. } => told(
            lost(asker, Lane::Remote),
            format!("{bytes} bytes of a request"),
        )
        .more(because.clone()),
        Event::RequestHeld { .. } => told(at(Mark::Note), "has the whole request, and holds it"),
        Event::RequestRefused { credential, .. } => {
            told(at(Mark::Refused), "refused: 401").more(credential_name(credential))
        }
        Event::CredentialMisplaced {
            secret, carrier, ..
        } => told(
            at(Mark::Trouble),
            format!("{secret} is in {carrier}, which the drill does not declare"),
        ),
        Event::RequestUnmatched { .. } => {
            told(at(Mark::Trouble), "404: no route of the drill matches")
        }
        Event::RouteFailed { route, because, .. } => told(
            at(Mark::Trouble),
            format!("the drill's reply to {route} could not be made"),
        )
        .more(because.clone()),
        Event::DecisionHeld { made, .. } => {
            let word = if *made {
                "made, and not told"
            } else {
                "not made yet"
            };
            told(at(Mark::Note), format!("the decision is {word}"))
        }
        Event::Decided { approved, .. } => {
            if *approved {
                told(at(Mark::Note), "the call is approved")
            } else {
                told(at(Mark::Refused), "the call is refused")
            }
        }
        Event::EffectApplied {
            effect, of, key, ..
        } => {
            let key = key
                .as_ref()
                .map_or_else(|| "no key".to_owned(), |key| format!("key {key}"));
            told(at(Mark::Effect), format!("applied: {of} {effect}")).more(key)
        }
        Event::EffectRepeated { effect, key, .. } => {
            told(at(Mark::Note), format!("known key: {effect} again")).more(format!("key {key}"))
        }
        Event::KeyConflict { effect, key, .. } => told(
            at(Mark::Refused),
            format!("409: the key of {effect} with another payload"),
        )
        .more(format!("key {key}")),
        Event::EffectCancelled { effect, .. } => {
            told(at(Mark::Note), format!("cancelled: {effect}"))
        }
        Event::ReplyReady { status, .. } => told(
            at(Mark::Note),
            format!("{status}, ready until the client reads no more"),
        )
        .minor(),
        Event::ReplyHeld { status, .. } => told(at(Mark::Note), format!("{status}, withheld")),
        Event::HalfReplySent {
            status,
            bytes,
            whole,
            ..
        } => told(
            lost(Lane::Remote, asker),
            format!("{status}: {bytes} of {whole} bytes"),
        ),
        Event::RequestTurnedAway { status, .. } => told(
            at(Mark::Refused),
            format!("turned away with {status}: nothing is applied"),
        ),
        Event::ReplyReplaced { status, .. } => {
            told(at(Mark::Note), format!("{status} in place of the reply"))
        }
        Event::ConnectionReset { .. } => told(lost(Lane::Remote, asker), "the connection is reset"),
        Event::ReplySlowed { status, .. } => told(from_remote, format!("{status}, byte by byte")),
        Event::RequestReplayed { .. } => {
            told(at(Mark::Trouble), "a proxy sends the request once more")
        }
        Event::ReplySent { status, .. } => told(from_remote, status.to_string()),
        Event::ReplyLost { status, .. } => told(
            lost(Lane::Remote, asker),
            format!("{status}, and nobody is there to take it"),
        ),
        Event::RemoteReleased => told(at(Mark::Note), "everything held is let go"),
        _ => return None,
    })
}

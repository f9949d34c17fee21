//! Attempts after the revocation: what got through, with which credential, and what is told of those that did not.
//!
//! There are four ways to get through, and a reviewer has to do something else about each: the credential *still works*; a
//! *second* credential of the same run works; the server *fell back* to one that is not of the run; or somebody *widened*
//! what may be done, because a run that is not there was taken for one without limits.
#![forbid(unsafe_code)]

use crate::journal::{Credential, Event, Moment, Session};
use crate::spec::{Authority, Decision, Resource};

use super::code::Code;
use super::finding::Findings;
use super::history::{History, Seen, Window};
use super::ledger::Request;
use super::sentence::{Sentence, say};
use super::words;

/// Attempts of somebody after the revocation.
pub(super) struct Attempts<'h, 'a> {
    history: &'h History<'a>,
    pub(super) revoked: Seen<'a>,
    pub(super) whose: Sentence,
    pub(super) requests: Vec<&'h Request<'a>>,
}

impl<'h, 'a> Attempts<'h, 'a> {
    /// All in this window that came after the revocation.
    pub(super) fn new(
        history: &'h History<'a>,
        mut window: Window,
        revoked: Seen<'a>,
        whose: Sentence,
    ) -> Self {
        window.from = window.from.max(revoked.place);
        // What was on its way when the run was revoked is not an attempt after it.
        let is_later = |request: &&Request<'a>| {
            let connection = history.ledger.connections.get(&request.connection);
            let sought = connection.and_then(|connection| connection.sought);
            sought.is_none_or(|sought| sought.place > revoked.place)
        };
        // To ask for a decision is not to make the call.
        let is_protected = |request: &&Request<'a>| !history.asks_for_decision(request);
        Self {
            history,
            revoked,
            whose,
            requests: history
                .ledger
                .requests_in(window)
                .filter(is_protected)
                .filter(is_later)
                .collect(),
        }
    }

    pub(super) fn refused(&self) -> impl Iterator<Item = &'h Request<'a>> + '_ {
        self.requests
            .iter()
            .copied()
            .filter(|request| request.refused.is_some())
    }

    pub(super) fn judge(&self, findings: &mut Findings) {
        self.by_authority(findings);
        self.by_run(findings);
        self.foreign(findings);
        self.bare(findings);
    }

    /// How the attempts went, where none of them got through.
    pub(super) fn told(&self) -> Option<(Sentence, Vec<u64>)> {
        let refusals: Vec<Seen<'_>> = self.refused().filter_map(|r| r.refused).collect();
        let first = refusals.first()?;
        let told = self
            .whose
            .clone()
            .text(" asked the remote ")
            .several(self.requests.len())
            .text(if self.requests.len() == 1 {
                " time"
            } else {
                " times"
            })
            .text(" after revoking; the first refusal came ")
            .time(first.since(self.revoked))
            .text(" after it, and 0 requests got through");
        let evidence =
            std::iter::once(self.revoked.seq).chain(refusals.iter().map(|seen| seen.seq));
        Some((told, evidence.collect()))
    }

    fn let_through(&self, is: impl Fn(&Credential) -> bool) -> Vec<&'h Request<'a>> {
        let through = |r: &&Request<'a>| r.refused.is_none() && !r.unmatched && is(r.credential);
        self.requests.iter().copied().filter(through).collect()
    }

    fn broken(&self, code: Code, through: &[&Request<'a>], how: Sentence, findings: &mut Findings) {
        let Some(first) = through.first() else { return };
        findings.broken(
            code,
            self.whose
                .clone()
                .text(" got ")
                .several(through.len())
                .text(if through.len() == 1 {
                    " request"
                } else {
                    " requests"
                })
                .text(" through ")
                .then(how)
                .text(format!(", the first {} ", first.name()))
                .time(first.seen.since(self.revoked))
                .text(" after revoking"),
            std::iter::once(self.revoked.seq).chain(through.iter().map(|r| r.seen.seq)),
        );
    }

    /// Calls that the authority itself made for a run that it had revoked.
    fn by_authority(&self, findings: &mut Findings) {
        let still = self.let_through(|c| matches!(c, Credential::Authority { wider: false }));
        let how = say("by way of the authority, which still made its calls");
        self.broken(Code::RevocationAuthorityCalls, &still, how, findings);
        let wider = self.let_through(|c| matches!(c, Credential::Authority { wider: true }));
        let how = say(
            "by way of the authority with a wider key than that of the run, which is more than it could do before",
        );
        self.broken(Code::RevocationWidened, &wider, how, findings);
    }

    /// Credentials of the revoked run.
    fn by_run(&self, findings: &mut Findings) {
        let of_run = |wanted: bool| move |c: &Credential| matches!(c, Credential::Run { run: Session::A, derived, .. } if *derived == wanted);
        let of_another =
            |c: &Credential| matches!(c, Credential::Run { run, .. } if *run != Session::A);
        let another = self.let_through(of_another);
        self.broken(
            Code::RevocationFellBack,
            &another,
            say("with the credential of another run"),
            findings,
        );
        let oauth = self
            .history
            .drill
            .authority
            .as_ref()
            .and_then(Authority::oauth);
        let signature_alone =
            oauth.is_some_and(|oauth| oauth.resource == Resource::ChecksSignature);
        let second = self.let_through(of_run(true));
        let (code, how) = match oauth {
            Some(_) => (
                Code::RevocationRefreshed,
                "with a token that it had refreshed, although the run's refresh token was revoked",
            ),
            None => (
                Code::RevocationSecondCredential,
                "with a second credential of the revoked run",
            ),
        };
        self.broken(code, &second, say(how), findings);
        let first = self.let_through(of_run(false));
        // At the authorisation server the first credential is a refresh token.
        let (refreshes, first): (Vec<_>, Vec<_>) =
            first.into_iter().partition(|request| is_refresh(request));
        self.broken(
            Code::RevocationRefreshed,
            &refreshes,
            say("with its refresh token, which was revoked"),
            findings,
        );
        if signature_alone {
            let how = "with the revoked token: the remote checks signature and expiry alone";
            self.broken(Code::RevocationStillWorks, &first, say(how), findings);
        } else if !first.is_empty() {
            findings.unproven(
                Code::RevocationMockAccepts,
                say("the mock itself took the revoked credential of run A"),
                first.iter().map(|r| r.seen.seq),
            );
        }
    }

    fn earlier(&self, to: usize) -> impl Iterator<Item = &'h Request<'a>> {
        self.history.ledger.requests_in(Window { from: 0, to })
    }

    /// Another credential where that of the revoked run had been shown before: the server fell back to it.
    fn foreign(&self, findings: &mut Findings) {
        let is_foreign = |request: &Request<'_>| matches!(request.credential, Credential::Foreign);
        let is_of_run = |request: &Request<'_>| {
            matches!(
                request.credential,
                Credential::Run { .. } | Credential::Authority { .. }
            )
        };
        let foreign = self.requests.iter().find(|request| is_foreign(request));
        let Some(first) = foreign.filter(|_| !self.earlier(self.revoked.place).any(is_foreign))
        else {
            return;
        };
        let evidence = [self.revoked.seq, first.seen.seq];
        if self.earlier(first.seen.place).any(is_of_run) {
            findings.broken(
                Code::RevocationFellBack,
                self.whose.clone().text(format!(
                    " fell back to a credential that is not of the revoked run ({})",
                    first.name()
                )),
                evidence,
            );
        } else {
            findings.unproven(
                Code::RevocationForeignCredential,
                self.whose.clone().text(format!(
                    " showed a credential that the drill did not mint, and the run's own was never shown ({})",
                    first.name()
                )),
                evidence,
            );
        }
    }

    /// To ask without a credential where one is not needed is no fault: what the same route was shown before tells.
    fn bare(&self, findings: &mut Findings) {
        let is_of_run =
            |request: &Request<'_>| matches!(request.credential, Credential::Run { .. });
        let bare = self.requests.iter().find(|request| {
            let is_same = |other: &Request<'_>| other.name() == request.name();
            matches!(request.credential, Credential::Absent)
                && self
                    .earlier(request.seen.place)
                    .any(|other| is_of_run(other) && is_same(other))
                && !self
                    .earlier(self.revoked.place)
                    .any(|other| matches!(other.credential, Credential::Absent) && is_same(other))
        });
        if let Some(first) = bare {
            findings.broken(
                Code::RevocationWithoutCredential,
                self.whose.clone().text(format!(
                    " asked without any credential where that of the run is refused ({})",
                    first.name()
                )),
                [self.revoked.seq, first.seen.seq],
            );
        }
    }

    /// An approval that was given when the run was no more.
    pub(super) fn late_approval(&self, findings: &mut Findings) {
        // A server whose session goes on has heard of no revocation: it asks the remote, and is refused.
        let told = self.history.ends_session();
        if self.history.crash.decision != Decision::AfterRevocation || !told {
            return;
        }
        let is_late = |request: &&&Request<'a>| request.writes && request.refused.is_some();
        let late: Vec<_> = self.requests.iter().filter(is_late).collect();
        if let Some(first) = late.first() {
            findings.broken(
                Code::RevocationLateDispatch,
                self.whose
                    .clone()
                    .text(" dispatched the approved call ")
                    .time(first.seen.since(self.revoked))
                    .text(" after its run was revoked; only the remote refused it"),
                std::iter::once(self.revoked.seq).chain(late.iter().map(|r| r.seen.seq)),
            );
        }
    }

    /// Attempts without a call id need at least one row together. Rows of other calls are only counted in the journal, so
    /// what can be proven is that not a byte was written.
    pub(super) fn unrecorded(&self, findings: &mut Findings) {
        let refused: Vec<&Request<'_>> = self.refused().collect();
        if refused.is_empty() || words::log(self.history.drill).is_none() {
            return;
        }
        let (Some(before), Some(after)) = (
            self.history.record(Moment::End),
            self.history.record(Moment::AfterStop),
        ) else {
            return;
        };
        let readable = before.unreadable.is_none() && after.unreadable.is_none();
        if readable && (before.bytes, before.lines) == (after.bytes, after.lines) {
            let what = if refused.len() == 1 {
                "attempt was"
            } else {
                "attempts were"
            };
            findings.broken(
                Code::RevocationUnrecorded,
                Sentence::default().several(refused.len()).text(format!(
                    " {what} refused after revoking, and the record did not get a single row for it"
                )),
                refused
                    .iter()
                    .map(|r| r.seen.seq)
                    .chain([before.seen.seq, after.seen.seq]),
            );
        }
    }
}

fn is_refresh(request: &Request<'_>) -> bool {
    request.route == Some("POST /oauth/token")
}

/// Calls of a run that still counts, with a key that is for no run.
pub(super) fn wider_key(history: &History<'_>, revoked: Seen<'_>, findings: &mut Findings) {
    let b = history.window_of(Session::B);
    let counts = |request: &&Request<'_>| {
        let place = request.seen.place;
        place < revoked.place || b.is_some_and(|window| window.contains(place))
    };
    let all = Window {
        from: 0,
        to: usize::MAX,
    };
    let wider: Vec<&Request<'_>> = history
        .ledger
        .requests_in(all)
        .filter(counts)
        .filter(|request| matches!(request.credential, Credential::Authority { wider: true }))
        .collect();
    if let Some(first) = wider.first() {
        findings.broken(
            Code::RevocationWidened,
            say("the authority made ")
                .several(wider.len())
                .text(format!(
                    " {} of a run with its wider key, which is for no run, the first {}",
                    if wider.len() == 1 { "call" } else { "calls" },
                    first.name()
                )),
            wider.iter().map(|request| request.seen.seq),
        );
    }
}

/// What survived session A, by name where only helpers did.
pub(super) fn survivors(history: &History<'_>) -> Sentence {
    let survived = say("what survived session A");
    let server = history.cast.server(Session::A);
    let Some(look) = history.look(Moment::End) else {
        return survived;
    };
    let alive: Vec<i32> = history
        .cast
        .of_server(&look)
        .filter(|process| !process.is_zombie())
        .map(|process| process.pid)
        .collect();
    if alive.is_empty() || alive.iter().any(|pid| Some(*pid) == server) {
        return survived;
    }
    say(if alive.len() == 1 {
        "the helper that survived session A, "
    } else {
        "the helpers that survived session A, "
    })
    .then(history.cast.all_called(alive))
    .text(",")
}

/// A command of the authority that did not do what it was to do.
pub(super) fn failed_command<'a>(
    history: &History<'a>,
    wanted: &str,
) -> Option<(Seen<'a>, Sentence)> {
    let all = Window {
        from: 0,
        to: usize::MAX,
    };
    failed_command_in(history, wanted, all)
}

/// The same, of those that ended in this window.
pub(super) fn failed_command_in<'a>(
    history: &History<'a>,
    wanted: &str,
    window: Window,
) -> Option<(Seen<'a>, Sentence)> {
    history.within(window).find_map(|seen| match seen.event {
        Event::AuthorityCommand {
            what,
            exit,
            stdout,
            stderr,
            ..
        } if what == wanted && *exit != Some(crate::journal::Exit::Code(0)) => {
            let how = match exit {
                Some(exit) => format!("it ended with {exit}"),
                None => "it did not end in time".to_owned(),
            };
            let told = say(how);
            let said = [stderr, stdout]
                .into_iter()
                .find(|said| !said.trim().is_empty());
            Some((
                seen,
                match said {
                    Some(said) => told.text(": ").quote(said, "what it said"),
                    None => told,
                },
            ))
        }
        _ => None,
    })
}

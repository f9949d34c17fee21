//! The authority: mints the credentials of a run, judges what a request presents, and revokes.
//!
//! It judges and revokes under one lock, and whoever asks writes down the verdict inside it. So a journal never shows
//! a credential accepted after the moment at which [`Authority::revoke`] returned.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;
use wiremock::http::{HeaderMap, HeaderName};

use super::RemoteError;
use super::oauth::{self, Issuer};
use crate::journal::{Credential, Secrets, Session};
use crate::spec::{self, Resource};

/// The header that is looked at for the variables of templates where the drill names no authority.
const DEFAULT_HEADER: &str = "authorization";

/// The scheme of RFC 6750, and the one that Django, Gitea and others have for the same thing. Names of schemes are compared
/// without regard to case (RFC 9110, section 11.1).
const SCHEMES: [&str; 2] = ["bearer", "token"];

/// Who issues and revokes the credential of a run. Cheap to clone; all clones are one authority.
#[derive(Debug, Clone)]
pub struct Authority {
    pub(super) inner: Arc<Inner>,
}

/// The credentials of a run. Which of them the server gets, the drill says.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// Given to the server when it is started.
    pub token: String,
    /// Given to the bearer of the first by the exchange route.
    pub derived: String,
    /// Gives new access tokens at the authorisation server.
    pub refresh: String,
}

impl fmt::Debug for Issued {
    /// A credential is never shown, not even by accident.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

/// What an authority that performs the calls itself shows to the remote, which takes both.
pub struct Keys {
    /// For the calls of runs.
    pub key: String,
    /// May do more, and is for no run.
    pub wider: String,
}

impl Keys {
    fn contains(&self, token: &str) -> bool {
        [&*self.key, &*self.wider].contains(&token)
    }
}

pub(super) struct Inner {
    /// Absent where the drill names no authority: then nothing is checked.
    pub(super) spec: Option<spec::Authority>,
    pub(super) issuer: Option<Issuer>,
    pub(super) secrets: Secrets,
    pub(super) keys: Keys,
    pub(super) runs: Mutex<Vec<Run>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

pub(super) struct Run {
    pub(super) session: Session,
    pub(super) issued: Issued,
    /// Access tokens that came of a refresh.
    pub(super) refreshed: Vec<Access>,
    /// When the first access token ends, in seconds since 1970.
    pub(super) expires: i64,
    pub(super) revoked: bool,
    /// Its first credential was revoked, and with it what came of it.
    pub(super) credential_revoked: bool,
}

pub(super) struct Access {
    pub(super) token: String,
    pub(super) expires: i64,
}

/// What the authority says about one request.
#[derive(Debug)]
pub(super) struct Judged {
    pub credential: Credential,
    pub accepted: bool,
    pub bearer: Bearer,
}

/// The bearer as templates see it; of empty strings where the credential is not known.
#[derive(Debug, Default)]
pub(super) struct Bearer {
    pub user: String,
    pub token: String,
    pub derived: String,
    /// It presented the second credential.
    pub by_derived: bool,
}

/// A credential of a run, found by its text.
struct Found<'r> {
    run: &'r Run,
    /// Not the first one.
    derived: bool,
    expires: i64,
}

impl Authority {
    /// `remote_url`: where the remote is, and the authorisation server with it.
    pub fn new(spec: Option<&spec::Authority>, secrets: Secrets, remote_url: &str) -> Self {
        let issuer = spec
            .and_then(spec::Authority::oauth)
            .map(|_| Issuer::new(remote_url));
        let keys = Keys {
            key: random(),
            wider: random(),
        };
        if spec.is_some_and(|spec| spec.commands().is_some()) {
            secrets.mint("key of the authority", &keys.key);
            secrets.mint("wider key of the authority", &keys.wider);
        }
        Self {
            inner: Arc::new(Inner {
                spec: spec.cloned(),
                issuer,
                secrets,
                keys,
                runs: Mutex::default(),
            }),
        }
    }

    /// The credentials of this run: made and registered as secrets the first time, the same ones from then on. The
    /// revoked session has those of run A.
    pub fn mint(&self, run: Session) -> Result<Issued, RemoteError> {
        let session = owner(run);
        let mut runs = self.runs();
        if let Some(known) = runs.iter().find(|run| run.session == session) {
            return Ok(known.issued.clone());
        }
        let (token, expires) = self.access_token(session)?;
        let issued = Issued {
            token,
            derived: random(),
            refresh: random(),
        };
        let name = letter(session).to_uppercase();
        for (what, value) in [
            ("token", &issued.token),
            ("derived token", &issued.derived),
            ("refresh token", &issued.refresh),
        ] {
            self.inner
                .secrets
                .mint(&format!("{what} of run {name}"), value);
        }
        runs.push(Run {
            session,
            issued: issued.clone(),
            refreshed: Vec::new(),
            expires,
            revoked: false,
            credential_revoked: false,
        });
        Ok(issued)
    }

    /// A credential that somebody else has issued for this run.
    pub fn take_issued(&self, run: Session, token: &str) {
        // The key of the authority is no run's, also where it hands it out.
        if self.inner.keys.contains(token) {
            return;
        }
        let session = owner(run);
        let name = letter(session).to_uppercase();
        self.inner
            .secrets
            .mint(&format!("issued token of run {name}"), token);
        for run in self.runs().iter_mut().filter(|run| run.session == session) {
            token.clone_into(&mut run.issued.token);
        }
    }

    /// From the return of this call on, no credential of the run is accepted, unless the drill says that the second one
    /// outlives it.
    pub fn revoke(&self, run: Session) {
        let session = owner(run);
        for run in self.runs().iter_mut().filter(|run| run.session == session) {
            run.revoked = true;
        }
    }

    /// As [`Authority::revoke`], of the first credential alone, and of what was refreshed with it.
    pub fn revoke_credential(&self, run: Session) {
        let session = owner(run);
        for run in self.runs().iter_mut().filter(|run| run.session == session) {
            run.credential_revoked = true;
        }
    }

    /// What an authority that performs the calls itself shows to the remote.
    pub fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Where the authorisation server answers.
    pub fn issuer(&self) -> Option<&str> {
        self.inner.issuer.as_ref().map(Issuer::url)
    }

    /// The header that carries the credential; `None` where the drill names one that HTTP does not know.
    pub(super) fn header(&self) -> Option<HeaderName> {
        self.header_name().parse().ok()
    }

    fn header_name(&self) -> &str {
        let spec = self.inner.spec.as_ref();
        spec.map_or(DEFAULT_HEADER, spec::Authority::header)
    }

    /// The exchange route, if the drill has one.
    pub(super) fn exchange(&self) -> Option<&spec::Exchange> {
        self.inner.spec.as_ref()?.exchange()
    }

    pub(super) fn has_issuer(&self) -> bool {
        self.inner.issuer.is_some()
    }

    /// Judges what these headers present; `then` runs before anybody can revoke.
    pub(super) fn judge<T>(&self, headers: &HeaderMap, then: impl FnOnce(Judged) -> T) -> T {
        let name = self.header_name();
        let presented = headers.get(name).map(|value| {
            let text = value.to_str().unwrap_or_default().trim();
            token_in(name, text)
        });
        self.judge_token(presented, then)
    }

    /// As [`Authority::judge`], for a token that has already been taken out of its header.
    pub(super) fn judge_token<T>(
        &self,
        presented: Option<&str>,
        then: impl FnOnce(Judged) -> T,
    ) -> T {
        let runs = self.runs();
        let known = presented.and_then(|token| find(&runs, token));
        let bearer = known.as_ref().map_or_else(Bearer::default, |found| Bearer {
            user: user(found.run.session),
            token: found.run.issued.token.clone(),
            derived: found.run.issued.derived.clone(),
            by_derived: found.derived,
        });
        let Some(spec) = &self.inner.spec else {
            return then(Judged {
                credential: Credential::Absent,
                accepted: true,
                bearer,
            });
        };
        let (credential, accepted) = match (presented, known) {
            (None, _) => (Credential::Absent, false),
            (Some(token), None) if spec.commands().is_some() && self.inner.keys.contains(token) => {
                let wider = token == self.inner.keys.wider;
                (Credential::Authority { wider }, true)
            }
            (Some(_), None) => (Credential::Foreign, false),
            (Some(_), Some(found)) => {
                let revoked = is_revoked(spec, &found);
                let credential = Credential::Run {
                    run: found.run.session,
                    derived: found.derived,
                    revoked,
                };
                let is_taken = !revoked || takes_revoked(spec, &found);
                (credential, is_taken && oauth::now() < found.expires)
            }
        };
        then(Judged {
            credential,
            accepted,
            bearer,
        })
    }

    pub(super) fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.inner
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'r>(runs: &'r [Run], token: &str) -> Option<Found<'r>> {
    runs.iter().find_map(|run| {
        let found = |derived, expires| Found {
            run,
            derived,
            expires,
        };
        if run.issued.token == token {
            return Some(found(false, run.expires));
        }
        if run.issued.derived == token {
            return Some(found(true, i64::MAX));
        }
        let refreshed = run.refreshed.iter().find(|access| access.token == token)?;
        Some(found(true, refreshed.expires))
    })
}

/// Whether the run, or this credential of it, was revoked.
fn is_revoked(spec: &spec::Authority, found: &Found<'_>) -> bool {
    // What was refreshed goes with the token that it was refreshed by; what was exchanged is another credential.
    let is_of_chain = !found.derived || spec.oauth().is_some();
    found.run.revoked || (found.run.credential_revoked && is_of_chain)
}

/// Whether the remote takes this credential although it was revoked, as the drill says.
fn takes_revoked(spec: &spec::Authority, found: &Found<'_>) -> bool {
    let outlives = spec
        .exchange()
        .is_some_and(|exchange| exchange.outlives_run);
    let by_oauth = spec.oauth().is_some_and(|oauth| {
        oauth.resource == Resource::ChecksSignature || (oauth.refresh_outlives_run && found.derived)
    });
    (outlives && found.derived) || by_oauth
}

/// The token without its scheme. Headers of an API's own (`X-Api-Key`) mostly carry none, so there it may be absent;
/// in `Authorization` a token without a scheme is not a credential, and is left to be found foreign.
fn token_in<'a>(header: &str, value: &'a str) -> &'a str {
    match value.split_once(' ') {
        Some((scheme, token)) if SCHEMES.iter().any(|s| scheme.eq_ignore_ascii_case(s)) => {
            token.trim()
        }
        _ if header.eq_ignore_ascii_case(DEFAULT_HEADER) => "",
        _ => value,
    }
}

/// Whose credential a session presents.
fn owner(run: Session) -> Session {
    match run {
        Session::A | Session::Revoked => Session::A,
        other => other,
    }
}

/// By what name the remote knows the run.
pub(super) fn user(session: Session) -> String {
    format!("run-{}", letter(session))
}

pub(super) fn letter(session: Session) -> &'static str {
    match session {
        Session::Beside => "beside",
        Session::A | Session::Revoked => "a",
        Session::B => "b",
    }
}

/// 122 random bits, in characters that need no escaping anywhere.
pub(super) fn random() -> String {
    format!("drill-{}", Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: &str = "http://127.0.0.1:1";

    fn authority(outlives_run: bool) -> Authority {
        let spec = spec::Authority::Bearer(spec::Bearer {
            bearer: "Authorization".to_owned(),
            exchange: Some(spec::Exchange {
                on: "POST /token".to_owned(),
                outlives_run,
                reply: spec::Reply::default(),
            }),
        });
        Authority::new(Some(&spec), Secrets::default(), REMOTE)
    }

    fn minted(authority: &Authority, run: Session) -> Issued {
        authority.mint(run).unwrap()
    }

    fn judge(authority: &Authority, header: Option<&str>) -> (Credential, bool) {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert("authorization", value.parse().unwrap());
        }
        authority.judge(&headers, |judged| (judged.credential, judged.accepted))
    }

    #[test]
    fn what_was_minted_is_a_secret_from_then_on() {
        let secrets = Secrets::default();
        let issued = Authority::new(None, secrets.clone(), REMOTE)
            .mint(Session::A)
            .unwrap();
        assert!(issued.token.starts_with("drill-"));
        assert_eq!(secrets.conceal(&issued.token), "<token of run A>");
        assert_eq!(secrets.conceal(&issued.derived), "<derived token of run A>");
    }

    #[test]
    fn the_revoked_session_has_the_credential_of_run_a() {
        let authority = authority(false);
        assert_eq!(
            minted(&authority, Session::A),
            minted(&authority, Session::Revoked)
        );
        assert_ne!(
            minted(&authority, Session::A),
            minted(&authority, Session::B)
        );
    }

    #[test]
    fn a_request_without_a_credential_of_this_drill_is_refused() {
        let authority = authority(false);
        let token = minted(&authority, Session::A).token;
        assert_eq!(judge(&authority, None), (Credential::Absent, false));
        for foreign in [
            "Bearer drill-0",
            &token,
            &format!("Basic {token}"),
            "Bearer",
            "",
        ] {
            assert_eq!(
                judge(&authority, Some(foreign)),
                (Credential::Foreign, false)
            );
        }
        assert!(judge(&authority, Some(&format!("bearer  {token} "))).1);
        assert!(judge(&authority, Some(&format!("Token {token}"))).1);
    }

    #[test]
    fn revoking_a_run_revokes_both_of_its_credentials_and_no_other() {
        let authority = authority(false);
        let (a, b) = (
            minted(&authority, Session::A),
            minted(&authority, Session::B),
        );
        authority.revoke(Session::A);
        for (token, derived) in [(a.token, false), (a.derived, true)] {
            let expected = Credential::Run {
                run: Session::A,
                derived,
                revoked: true,
            };
            assert_eq!(
                judge(&authority, Some(&format!("Bearer {token}"))),
                (expected, false)
            );
        }
        assert!(judge(&authority, Some(&format!("Bearer {}", b.token))).1);
    }

    #[test]
    fn a_derived_credential_may_outlive_its_run() {
        let authority = authority(true);
        let a = minted(&authority, Session::A);
        authority.revoke(Session::A);
        assert!(!judge(&authority, Some(&format!("Bearer {}", a.token))).1);
        let (credential, accepted) = judge(&authority, Some(&format!("Bearer {}", a.derived)));
        assert!(accepted);
        assert_eq!(
            credential,
            Credential::Run {
                run: Session::A,
                derived: true,
                revoked: true
            }
        );
    }

    #[test]
    fn without_an_authority_nothing_is_checked_and_the_user_is_still_known() {
        let authority = Authority::new(None, Secrets::default(), REMOTE);
        let token = minted(&authority, Session::B).token;
        assert_eq!(judge(&authority, None), (Credential::Absent, true));
        let user =
            authority.judge_token(Some(&token), |judged| (judged.accepted, judged.bearer.user));
        assert_eq!(user, (true, "run-b".to_owned()));
    }
}

//! The authority: mints the credentials of a run, judges what a request presents, and revokes.
//!
//! It judges and revokes under one lock, and whoever asks writes down the verdict inside it. So a journal never shows
//! a credential accepted after the moment at which [`Authority::revoke`] returned.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;
use wiremock::http::{HeaderMap, HeaderName};

use crate::journal::{Credential, Secrets, Session};
use crate::spec;

/// The header that is looked at for the variables of templates where the drill names no authority.
const DEFAULT_HEADER: &str = "authorization";

/// The scheme of RFC 6750, and the one that Django, Gitea and others have for the same thing. Names of schemes are compared
/// without regard to case (RFC 9110, section 11.1).
const SCHEMES: [&str; 2] = ["bearer", "token"];

/// Who issues and revokes the credential of a run. Cheap to clone; all clones are one authority.
#[derive(Debug, Clone)]
pub struct Authority {
    inner: Arc<Inner>,
}

/// The two credentials of a run.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// Given to the server when it is started.
    pub token: String,
    /// Given to the bearer of the first by the exchange route.
    pub derived: String,
}

impl fmt::Debug for Issued {
    /// A credential is never shown, not even by accident.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Inner {
    /// Absent where the drill names no authority: then nothing is checked.
    spec: Option<spec::Authority>,
    secrets: Secrets,
    runs: Mutex<Vec<Run>>,
}

#[derive(Debug)]
struct Run {
    session: Session,
    issued: Issued,
    revoked: bool,
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

impl Authority {
    pub fn new(spec: Option<&spec::Authority>, secrets: Secrets) -> Self {
        Self {
            inner: Arc::new(Inner {
                spec: spec.cloned(),
                secrets,
                runs: Mutex::default(),
            }),
        }
    }

    /// The credentials of this run: made and registered as secrets the first time, the same ones from then on. The
    /// revoked session has those of run A.
    pub fn mint(&self, run: Session) -> Issued {
        let session = owner(run);
        let mut runs = self.runs();
        if let Some(known) = runs.iter().find(|run| run.session == session) {
            return known.issued.clone();
        }
        let issued = Issued {
            token: random(),
            derived: random(),
        };
        let name = letter(session).to_uppercase();
        self.inner
            .secrets
            .mint(&format!("token of run {name}"), &issued.token);
        self.inner
            .secrets
            .mint(&format!("derived token of run {name}"), &issued.derived);
        runs.push(Run {
            session,
            issued: issued.clone(),
            revoked: false,
        });
        issued
    }

    /// From the return of this call on, no credential of the run is accepted, unless the drill says that the second one
    /// outlives it.
    pub fn revoke(&self, run: Session) {
        let session = owner(run);
        for run in self.runs().iter_mut() {
            if run.session == session {
                run.revoked = true;
            }
        }
    }

    /// The header that carries the credential; `None` where the drill names one that HTTP does not know.
    pub(super) fn header(&self) -> Option<HeaderName> {
        let spec = self.inner.spec.as_ref();
        spec.map_or(DEFAULT_HEADER, |spec| spec.bearer.as_str())
            .parse()
            .ok()
    }

    /// The exchange route, if the drill has one.
    pub(super) fn exchange(&self) -> Option<&spec::Exchange> {
        self.inner.spec.as_ref()?.exchange.as_ref()
    }

    /// Judges what these headers present; `then` runs before anybody can revoke.
    pub(super) fn judge<T>(&self, headers: &HeaderMap, then: impl FnOnce(Judged) -> T) -> T {
        let spec = self.inner.spec.as_ref();
        let name = spec.map_or(DEFAULT_HEADER, |spec| spec.bearer.as_str());
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
        let known = presented.and_then(|token| {
            runs.iter().find_map(|run| {
                let derived = run.issued.derived == token;
                (derived || run.issued.token == token).then_some((run, derived))
            })
        });
        let bearer = known.map_or_else(Bearer::default, |(run, derived)| Bearer {
            user: format!("run-{}", letter(run.session)),
            token: run.issued.token.clone(),
            derived: run.issued.derived.clone(),
            by_derived: derived,
        });
        let Some(spec) = &self.inner.spec else {
            return then(Judged {
                credential: Credential::Absent,
                accepted: true,
                bearer,
            });
        };
        let credential = match (presented, known) {
            (None, _) => Credential::Absent,
            (Some(_), None) => Credential::Foreign,
            (Some(_), Some((run, derived))) => Credential::Run {
                run: run.session,
                derived,
                revoked: run.revoked,
            },
        };
        let outlives = spec.exchange.as_ref().is_some_and(|e| e.outlives_run);
        let accepted = match credential {
            Credential::Run {
                derived, revoked, ..
            } => !revoked || (derived && outlives),
            Credential::Absent | Credential::Foreign => false,
        };
        then(Judged {
            credential,
            accepted,
            bearer,
        })
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.inner
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
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

fn letter(session: Session) -> &'static str {
    match session {
        Session::Beside => "beside",
        Session::A | Session::Revoked => "a",
        Session::B => "b",
    }
}

/// 122 random bits, in characters that need no escaping anywhere.
fn random() -> String {
    format!("drill-{}", Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(outlives_run: bool) -> Authority {
        let spec = spec::Authority {
            bearer: "Authorization".to_owned(),
            exchange: Some(spec::Exchange {
                on: "POST /token".to_owned(),
                outlives_run,
                reply: spec::Reply::default(),
            }),
        };
        Authority::new(Some(&spec), Secrets::default())
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
        let issued = Authority::new(None, secrets.clone()).mint(Session::A);
        assert!(issued.token.starts_with("drill-"));
        assert_eq!(secrets.conceal(&issued.token), "<token of run A>");
        assert_eq!(secrets.conceal(&issued.derived), "<derived token of run A>");
    }

    #[test]
    fn the_revoked_session_has_the_credential_of_run_a() {
        let authority = authority(false);
        assert_eq!(authority.mint(Session::A), authority.mint(Session::Revoked));
        assert_ne!(authority.mint(Session::A), authority.mint(Session::B));
    }

    #[test]
    fn a_request_without_a_credential_of_this_drill_is_refused() {
        let authority = authority(false);
        let token = authority.mint(Session::A).token;
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
        let (a, b) = (authority.mint(Session::A), authority.mint(Session::B));
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
        let a = authority.mint(Session::A);
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
        let authority = Authority::new(None, Secrets::default());
        let token = authority.mint(Session::B).token;
        assert_eq!(judge(&authority, None), (Credential::Absent, true));
        let user =
            authority.judge_token(Some(&token), |judged| (judged.accepted, judged.bearer.user));
        assert_eq!(user, (true, "run-b".to_owned()));
    }
}

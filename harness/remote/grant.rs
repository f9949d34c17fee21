//! The part of the authority that grants tokens: who may have another one, what it is, and what is told of one.

use crate::journal::{Credential, Session};
use crate::spec::{self, Tokens};

use super::RemoteError;
use super::authority::{Access, Authority, Bearer, Judged, letter, random, user};
use super::oauth::{self, Active, Endpoint, Grant, Issuer};
use super::reply::Reply;
use super::request::Request;

impl Authority {
    pub(super) fn oauth(&self) -> Option<(&spec::Oauth, &Issuer)> {
        Some((
            self.inner.spec.as_ref()?.oauth()?,
            self.inner.issuer.as_ref()?,
        ))
    }

    /// A new access token of a run, and when it ends.
    pub(super) fn access_token(&self, session: Session) -> Result<(String, i64), RemoteError> {
        let Some((oauth, issuer)) = self.oauth() else {
            return Ok((random(), i64::MAX));
        };
        let lifetime = oauth.lifetime.0.as_secs().max(1);
        let token = match oauth.tokens {
            Tokens::Opaque => random(),
            Tokens::Jwt => issuer
                .jwt(Grant {
                    user: &user(session),
                    lifetime,
                })
                .map_err(RemoteError::Issuer)?,
        };
        Ok((token, oauth::now().saturating_add_unsigned(lifetime)))
    }

    /// Judges what a request to the authorisation server presents. A refresh token that does not count is refused; whatever
    /// else is wrong with the request, the endpoint says itself.
    pub(super) fn judge_grant<T>(
        &self,
        endpoint: Endpoint,
        body: &[u8],
        then: impl FnOnce(Judged) -> T,
    ) -> T {
        let runs = self.runs();
        let refresh = (endpoint == Endpoint::Token)
            .then(|| oauth::field_of(body, "refresh_token"))
            .flatten();
        let known = runs
            .iter()
            .find(|run| refresh.as_deref() == Some(&*run.issued.refresh));
        let (credential, accepted) = match (known, refresh.is_some()) {
            (Some(run), _) => {
                let revoked = run.revoked || run.credential_revoked;
                let outlives = self
                    .oauth()
                    .is_some_and(|(oauth, _)| oauth.refresh_outlives_run);
                let credential = Credential::Run {
                    run: run.session,
                    derived: false,
                    revoked,
                };
                (credential, !revoked || outlives)
            }
            (None, true) => (Credential::Foreign, false),
            (None, false) => (Credential::Absent, true),
        };
        then(Judged {
            credential,
            accepted,
            bearer: Bearer::default(),
        })
    }

    /// Answers a request to the authorisation server that was not refused. An error is ours.
    pub(super) fn grant(&self, endpoint: Endpoint, request: &Request) -> Result<Reply, String> {
        let Some((oauth, issuer)) = self.oauth() else {
            return Err("there is no authorisation server".to_owned());
        };
        let token = || oauth::field_of(&request.body, "token").unwrap_or_default();
        match endpoint {
            Endpoint::Keys => issuer.keys(),
            Endpoint::Metadata => issuer.metadata(),
            Endpoint::Introspect => self.judge_token(Some(&token()), |judged| {
                let counts = judged.accepted
                    && !matches!(judged.credential, Credential::Run { revoked: true, .. });
                let active = counts.then(|| Active {
                    user: judged.bearer.user,
                    expires: oauth::now().saturating_add_unsigned(oauth.lifetime.0.as_secs()),
                });
                oauth::introspected(active.as_ref())
            }),
            Endpoint::Revoke => {
                let token = token();
                for run in self.runs().iter_mut() {
                    let first = &run.issued;
                    let is_first = [&first.token, &first.refresh].contains(&&token);
                    if is_first || run.refreshed.iter().any(|access| access.token == token) {
                        run.credential_revoked = true;
                    }
                }
                oauth::revoked()
            }
            Endpoint::Token => {
                let Some(refresh) = oauth::field_of(&request.body, "refresh_token") else {
                    return Ok(oauth::unsupported_grant());
                };
                if oauth::field_of(&request.body, "grant_type").as_deref() != Some("refresh_token")
                {
                    return Ok(oauth::unsupported_grant());
                }
                let mut runs = self.runs();
                let Some(run) = runs.iter_mut().find(|run| run.issued.refresh == refresh) else {
                    return Ok(oauth::invalid_grant());
                };
                let (token, expires) = self
                    .access_token(run.session)
                    .map_err(|error| error.to_string())?;
                let name = letter(run.session).to_uppercase();
                self.inner
                    .secrets
                    .mint(&format!("refreshed token of run {name}"), &token);
                run.refreshed.push(Access {
                    token: token.clone(),
                    expires,
                });
                oauth::refreshed(&token, &refresh, oauth.lifetime.0.as_secs())
            }
        }
    }
}

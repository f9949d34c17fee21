//! The authorisation server of an `oauth` drill: what its endpoints take and answer.
//!
//! It stands at the remote, below `/oauth`, so that a request for a token can be held as any other. Messages are those of
//! the `oauth2` crate, which clients use to read them; tokens that are JWTs are made by `jsonwebtoken`. Whom a token belongs
//! to and whether it still counts, the [`Authority`](super::Authority) decides.
//!
//! | endpoint | standard |
//! |---|---|
//! | `POST /oauth/token` | RFC 6749, section 6: refresh, for a public client |
//! | `POST /oauth/revoke` | RFC 7009: an unknown token is no error |
//! | `POST /oauth/introspect` | RFC 7662; whoever is in the cell may ask |
//! | `GET /oauth/jwks.json` | RFC 7517 |
//! | `GET /.well-known/oauth-authorization-server/oauth` | RFC 8414 |

use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicTokenIntrospectionResponse,
    BasicTokenResponse, BasicTokenType,
};
use oauth2::{AccessToken, EmptyExtraTokenFields, RefreshToken};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use wiremock::http::{HeaderName, HeaderValue, Url};

use super::reply::Reply;

/// Below this path of the remote it answers.
pub(super) const PATH: &str = "/oauth";

/// The name of its one key.
const KEY: &str = "drill";

/// The public client that a server under drill is.
const CLIENT: &str = "drill";

/// What stands before the 32 bytes of a private key (RFC 8410, section 7): the form that every library reads. Any 32 bytes
/// are a key.
const PKCS8_ED25519: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// What a request to the authorisation server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Token,
    Revoke,
    Introspect,
    Keys,
    Metadata,
}

impl Endpoint {
    pub const ALL: [Self; 5] = [
        Self::Token,
        Self::Revoke,
        Self::Introspect,
        Self::Keys,
        Self::Metadata,
    ];

    /// As a drill would write its route.
    pub fn on(self) -> String {
        match self {
            Self::Token => format!("POST {PATH}/token"),
            Self::Revoke => format!("POST {PATH}/revoke"),
            Self::Introspect => format!("POST {PATH}/introspect"),
            Self::Keys => format!("GET {PATH}/jwks.json"),
            Self::Metadata => format!("GET /.well-known/oauth-authorization-server{PATH}"),
        }
    }
}

/// The issuer: its name and its key, made anew for each trial.
pub(super) struct Issuer {
    url: String,
    key: EncodingKey,
}

impl std::fmt::Debug for Issuer {
    /// The key is not shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Whose a JWT is, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant<'a> {
    pub user: &'a str,
    /// Seconds.
    pub lifetime: u64,
}

/// A token that counts, as introspection tells of it.
#[derive(Debug, Clone)]
pub(super) struct Active {
    pub user: String,
    /// Seconds since 1970.
    pub expires: i64,
}

impl Issuer {
    pub fn new(remote_url: &str) -> Self {
        // 244 random bits, spread over the 256 of the key.
        let seed = Sha256::new()
            .chain_update(Uuid::new_v4())
            .chain_update(Uuid::new_v4())
            .finalize();
        let key = [&PKCS8_ED25519, seed.as_slice()].concat();
        Self {
            url: format!("{remote_url}{PATH}"),
            key: EncodingKey::from_ed_der(&key),
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// An access token as RFC 9068 has it.
    pub fn jwt(&self, Grant { user, lifetime }: Grant<'_>) -> Result<String, String> {
        let now = now();
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some("at+jwt".to_owned());
        header.kid = Some(KEY.to_owned());
        let claims = json!({
            "iss": self.url,
            "sub": user,
            "aud": self.url.strip_suffix(PATH).unwrap_or(&self.url),
            "client_id": CLIENT,
            "iat": now,
            "exp": now.saturating_add_unsigned(lifetime),
            "jti": Uuid::new_v4().to_string(),
        });
        jsonwebtoken::encode(&header, &claims, &self.key).map_err(|error| error.to_string())
    }

    pub fn keys(&self) -> Result<Reply, String> {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::EdDSA)
            .map_err(|error| error.to_string())?;
        jwk.common.key_id = Some(KEY.to_owned());
        answer(200, &JwkSet { keys: vec![jwk] })
    }

    pub fn metadata(&self) -> Result<Reply, String> {
        let at = |path: &str| format!("{}/{path}", self.url);
        answer(
            200,
            &json!({
                "issuer": self.url,
                "token_endpoint": at("token"),
                "revocation_endpoint": at("revoke"),
                "introspection_endpoint": at("introspect"),
                "jwks_uri": at("jwks.json"),
                "grant_types_supported": ["refresh_token"],
                "token_endpoint_auth_methods_supported": ["none"],
                "response_types_supported": [],
            }),
        )
    }
}

/// A field of a body in the form `application/x-www-form-urlencoded`.
pub(super) fn field_of(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    // A form is written as a query is.
    let form = Url::parse(&format!("http://form/?{text}")).ok()?;
    form.query_pairs()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// The answer to a refresh that counts.
pub(super) fn refreshed(access: &str, refresh: &str, lifetime: u64) -> Result<Reply, String> {
    let mut response = BasicTokenResponse::new(
        AccessToken::new(access.to_owned()),
        BasicTokenType::Bearer,
        EmptyExtraTokenFields {},
    );
    response.set_refresh_token(Some(RefreshToken::new(refresh.to_owned())));
    response.set_expires_in(Some(&std::time::Duration::from_secs(lifetime)));
    let mut reply = answer(200, &response)?;
    // RFC 6749, section 5.1.
    reply.headers.push((
        HeaderName::from_static("cache-control"),
        HeaderValue::from_static("no-store"),
    ));
    Ok(reply)
}

/// The answer to a refresh token that does not count (any more): RFC 6749, section 5.2.
pub(super) fn invalid_grant() -> Reply {
    refused(
        BasicErrorResponseType::InvalidGrant,
        "the refresh token is unknown, expired or revoked",
    )
}

pub(super) fn unsupported_grant() -> Reply {
    refused(
        BasicErrorResponseType::UnsupportedGrantType,
        "only a refresh token is taken here",
    )
}

fn refused(error: BasicErrorResponseType, because: &str) -> Reply {
    let response = BasicErrorResponse::new(error, Some(because.to_owned()), None);
    answer(400, &response).unwrap_or_else(|because| Reply::error(400, "invalid_request", &because))
}

/// The answer to an introspection, read by the library before it goes out.
pub(super) fn introspected(active: Option<&Active>) -> Result<Reply, String> {
    let told = match active {
        // RFC 7662, section 2.2: of a token that does not count nothing else is told.
        None => json!({ "active": false }),
        Some(Active { user, expires }) => json!({
            "active": true, "sub": user, "username": user, "client_id": CLIENT, "token_type": "bearer", "exp": expires,
        }),
    };
    let response: BasicTokenIntrospectionResponse =
        serde_json::from_value(told).map_err(|error| error.to_string())?;
    answer(200, &response)
}

/// RFC 7009, section 2.2: also for a token that it does not know.
pub(super) fn revoked() -> Result<Reply, String> {
    answer(200, &json!({}))
}

fn answer(status: u16, body: &impl serde::Serialize) -> Result<Reply, String> {
    let json: Value = serde_json::to_value(body).map_err(|error| error.to_string())?;
    Ok(Reply {
        status,
        headers: vec![(
            HeaderName::from_static("content-type"),
            HeaderValue::from_static("application/json"),
        )],
        body: json.to_string().into_bytes(),
        json: Some(json),
    })
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{DecodingKey, Validation};

    use super::*;

    #[test]
    fn a_jwt_is_signed_by_the_key_that_is_published() {
        let issuer = Issuer::new("http://127.0.0.1:1");
        let grant = Grant {
            user: "run-a",
            lifetime: 60,
        };
        let token = issuer.jwt(grant).unwrap();
        let keys: JwkSet = serde_json::from_value(issuer.keys().unwrap().json.unwrap()).unwrap();
        let header = jsonwebtoken::decode_header(&token).unwrap();
        let key = keys.find(header.kid.as_deref().unwrap()).unwrap();
        let mut right = Validation::new(Algorithm::EdDSA);
        right.set_audience(&["http://127.0.0.1:1"]);
        right.set_issuer(&[issuer.url()]);
        let key = DecodingKey::from_jwk(key).unwrap();
        let claims = jsonwebtoken::decode::<Value>(&token, &key, &right)
            .unwrap()
            .claims;
        assert_eq!(claims["sub"], "run-a");
        let other = Issuer::new("http://127.0.0.1:1").jwt(grant).unwrap();
        assert!(jsonwebtoken::decode::<Value>(&other, &key, &right).is_err());
    }

    #[test]
    fn a_form_is_read_as_forms_are_written() {
        let body = b"grant_type=refresh_token&refresh_token=a%2Bb+c";
        assert_eq!(field_of(body, "refresh_token").as_deref(), Some("a+b c"));
        assert_eq!(field_of(body, "token"), None);
        assert_eq!(field_of(b"\xff=1", "token"), None);
    }

    #[test]
    fn of_a_token_that_does_not_count_nothing_is_told() {
        assert_eq!(
            introspected(None).unwrap().json.unwrap()["active"],
            json!(false)
        );
        let active = Active {
            user: "run-a".to_owned(),
            expires: 1,
        };
        let told = introspected(Some(&active)).unwrap().json.unwrap();
        assert_eq!(
            (&told["active"], &told["sub"]),
            (&json!(true), &json!("run-a"))
        );
    }
}

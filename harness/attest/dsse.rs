//! DSSE, the Dead Simple Signing Envelope v1: a payload, its type, and signatures over both.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde::{Deserialize, Serialize};

use super::key::{PrivateKey, PublicKey};
use super::statement::Statement;

/// The type of an in-toto Statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A payload that was signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// In base64.
    pub payload: String,
    pub payload_type: String,
    pub signatures: Vec<Signature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Which key may have made it.
    #[serde(default)]
    pub keyid: String,
    /// In base64.
    pub sig: String,
}

/// Why an envelope says nothing.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    #[error("its payload is no base64")]
    NotBase64,
    #[error("its payload is `{}`, not an in-toto Statement", crate::journal::printable(.0))]
    OtherType(String),
    #[error("its payload cannot be read as an in-toto Statement: {0}")]
    NotAStatement(#[from] serde_json::Error),
}

impl Envelope {
    /// Signs a statement.
    pub fn sign(statement: &Statement, key: &PrivateKey) -> Result<Self, serde_json::Error> {
        let payload = serde_json::to_vec(statement)?;
        let signature = key.sign(&pre_authentication_encoding(PAYLOAD_TYPE, &payload));
        Ok(Self {
            payload: STANDARD.encode(&payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![Signature {
                keyid: key.public().id(),
                sig: STANDARD.encode(signature),
            }],
        })
    }

    /// Those of `keys` that signed it. A key counts once, whatever the `keyid`s say.
    pub fn signers<'k>(&self, keys: &'k [PublicKey]) -> Result<Vec<&'k PublicKey>, EnvelopeError> {
        let payload = decoded(&self.payload).ok_or(EnvelopeError::NotBase64)?;
        let message = pre_authentication_encoding(&self.payload_type, &payload);
        let signed = |key: &&PublicKey| {
            let mut signatures = self.signatures.iter().filter_map(|s| decoded(&s.sig));
            signatures.any(|signature| key.is_signature(&message, &signature))
        };
        Ok(keys.iter().filter(signed).collect())
    }

    /// What it says. Worth nothing before [`Envelope::signers`] has named somebody.
    pub fn statement(&self) -> Result<Statement, EnvelopeError> {
        if self.payload_type != PAYLOAD_TYPE {
            return Err(EnvelopeError::OtherType(self.payload_type.clone()));
        }
        let payload = decoded(&self.payload).ok_or(EnvelopeError::NotBase64)?;
        Ok(serde_json::from_slice(&payload)?)
    }
}

/// Either alphabet is allowed.
fn decoded(text: &str) -> Option<Vec<u8>> {
    STANDARD
        .decode(text)
        .or_else(|_| URL_SAFE.decode(text))
        .ok()
}

/// What is signed: lengths and texts, so that no two pairs of type and payload give the same bytes.
fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!(
        "DSSEv1 {} {payload_type} {} ",
        payload_type.len(),
        payload.len()
    );
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [PrivateKey; 2] {
        [1, 2].map(|n| {
            let key = ed25519_dalek::SigningKey::from_bytes(&[n; 32]);
            PrivateKey::Ed25519(Box::new(key))
        })
    }

    fn statement() -> Statement {
        Statement::new(
            "https://example.org/x/v1",
            Vec::new(),
            serde_json::json!({ "a": 1 }),
        )
    }

    #[test]
    fn the_encoding_is_that_of_the_specification() {
        // The example of the DSSE protocol.
        let encoded = pre_authentication_encoding("http://example.com/HelloWorld", b"hello world");
        assert_eq!(
            String::from_utf8(encoded).unwrap(),
            "DSSEv1 29 http://example.com/HelloWorld 11 hello world"
        );
    }

    #[test]
    fn only_the_key_that_signed_is_a_signer() {
        let [signer, other] = keys();
        let envelope = Envelope::sign(&statement(), &signer).unwrap();
        let known = [other.public(), signer.public()];
        assert_eq!(envelope.signers(&known).unwrap(), [&signer.public()]);
        assert_eq!(envelope.statement().unwrap(), statement());
        // A hint that points at another key makes it no signer.
        let mut hinted = envelope.clone();
        hinted.signatures[0].keyid = other.public().id();
        assert!(hinted.signers(&known[..1]).unwrap().is_empty());
    }

    #[test]
    fn a_changed_payload_or_type_or_signature_has_no_signer() {
        let [signer, _] = keys();
        let good = Envelope::sign(&statement(), &signer).unwrap();
        let keys = [signer.public()];
        let mut payload = good.clone();
        payload.payload = STANDARD.encode(r#"{"a":2}"#);
        let mut kind = good.clone();
        kind.payload_type = "application/json".to_owned();
        let mut signature = good.clone();
        signature.signatures[0].sig = STANDARD.encode([0; 64]);
        for changed in [payload, kind.clone(), signature] {
            assert!(changed.signers(&keys).unwrap().is_empty());
        }
        assert!(matches!(kind.statement(), Err(EnvelopeError::OtherType(_))));
        let mut garbled = good;
        garbled.payload = "not base64!".to_owned();
        assert!(garbled.signers(&keys).is_err());
    }
}

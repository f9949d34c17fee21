//! Keys as `openssl genpkey` and `ssh-keygen` make them.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _};
use ed25519_dalek::{Signer as _, Verifier as _};
use sha2::{Digest as _, Sha256};

use crate::journal::hex;

/// The largest key file that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// How a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 8032.
    Ed25519,
    /// ECDSA with P-256 and SHA-256, signatures in DER.
    EcdsaP256,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ed25519 => "ed25519",
            Self::EcdsaP256 => "ecdsa-p256-sha256",
        })
    }
}

/// Why a file is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("failed to read the key {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the key {} is encrypted: make a copy without passphrase, such as with `ssh-keygen -p` or `openssl pkey`", .0.display())]
    Encrypted(PathBuf),
    #[error(
        "{} is no private key that can sign: give an ed25519 or P-256 key in PKCS#8 PEM (`openssl genpkey -algorithm \
         ed25519`), or an OpenSSH ed25519 key (`ssh-keygen -t ed25519`)",
        .0.display()
    )]
    NotPrivate(PathBuf),
    #[error("{} is a public key: it is the private one, which belongs to it, that signs", .0.display())]
    IsPublic(PathBuf),
    #[error(
        "{} is no public key of ed25519 or P-256: give one in PEM (`openssl pkey -in KEY -pubout`) or as ssh-keygen writes it to KEY.pub",
        .0.display()
    )]
    NotPublic(PathBuf),
}

/// A key that signs.
pub enum PrivateKey {
    Ed25519(Box<ed25519_dalek::SigningKey>),
    EcdsaP256(Box<p256::ecdsa::SigningKey>),
}

// The secret is no part of it.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrivateKey")
            .field(&self.public().id())
            .finish()
    }
}

/// A key that signatures are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublicKey {
    Ed25519(ed25519_dalek::VerifyingKey),
    EcdsaP256(p256::ecdsa::VerifyingKey),
}

impl PrivateKey {
    /// Reads PKCS#8 in PEM, or an OpenSSH key file.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let text = text_of(path)?;
        if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
            return Err(KeyError::Encrypted(path.to_owned()));
        }
        if text.contains("-----BEGIN PUBLIC KEY-----") || text.starts_with("ssh-") {
            return Err(KeyError::IsPublic(path.to_owned()));
        }
        if text.contains("-----BEGIN OPENSSH PRIVATE KEY-----") {
            return Self::from_openssh(&text, path);
        }
        let ed25519 = ed25519_dalek::SigningKey::from_pkcs8_pem(&text);
        let p256 = || p256::ecdsa::SigningKey::from_pkcs8_pem(&text);
        ed25519
            .map(|key| Self::Ed25519(Box::new(key)))
            .or_else(|_| p256().map(|key| Self::EcdsaP256(Box::new(key))))
            .map_err(|_| KeyError::NotPrivate(path.to_owned()))
    }

    fn from_openssh(text: &str, path: &Path) -> Result<Self, KeyError> {
        let not_private = || KeyError::NotPrivate(path.to_owned());
        let key = ssh_key::PrivateKey::from_openssh(text).map_err(|_| not_private())?;
        if key.is_encrypted() {
            return Err(KeyError::Encrypted(path.to_owned()));
        }
        let pair = key.key_data().ed25519().ok_or_else(not_private)?;
        let key = ed25519_dalek::SigningKey::from_bytes(&pair.private.to_bytes());
        Ok(Self::Ed25519(Box::new(key)))
    }

    pub fn public(&self) -> PublicKey {
        match self {
            Self::Ed25519(key) => PublicKey::Ed25519(key.verifying_key()),
            Self::EcdsaP256(key) => PublicKey::EcdsaP256(*key.verifying_key()),
        }
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519(key) => key.sign(message).to_vec(),
            Self::EcdsaP256(key) => {
                let signature: p256::ecdsa::DerSignature = key.sign(message);
                signature.as_bytes().to_vec()
            }
        }
    }
}

impl PublicKey {
    /// Reads a key in PEM, or a line as in `authorized_keys`.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::parse(&text_of(path)?).ok_or_else(|| KeyError::NotPublic(path.to_owned()))
    }

    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(key) = ed25519_dalek::VerifyingKey::from_public_key_pem(text) {
            return Some(Self::Ed25519(key));
        }
        if let Ok(key) = p256::ecdsa::VerifyingKey::from_public_key_pem(text) {
            return Some(Self::EcdsaP256(key));
        }
        let key = ssh_key::PublicKey::from_openssh(text.trim()).ok()?;
        let bytes = key.key_data().ed25519()?.0;
        let key = ed25519_dalek::VerifyingKey::from_bytes(&bytes).ok()?;
        Some(Self::Ed25519(key))
    }

    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ed25519(_) => Algorithm::Ed25519,
            Self::EcdsaP256(_) => Algorithm::EcdsaP256,
        }
    }

    /// The SHA-256 of the key's `SubjectPublicKeyInfo` in DER, as `openssl pkey -pubout -outform DER | sha256sum` has it.
    pub fn id(&self) -> String {
        let der = match self {
            Self::Ed25519(key) => key.to_public_key_der(),
            Self::EcdsaP256(key) => key.to_public_key_der(),
        };
        // Both keys have an encoding, always.
        let der = der.map(|der| der.as_bytes().to_vec());
        hex(&Sha256::digest(der.unwrap_or_default()))
    }

    /// As PEM, which openssl reads.
    pub fn to_pem(&self) -> String {
        let pem = match self {
            Self::Ed25519(key) => key.to_public_key_pem(LineEnding::LF),
            Self::EcdsaP256(key) => key.to_public_key_pem(LineEnding::LF),
        };
        pem.unwrap_or_default()
    }

    pub fn is_signature(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => ed25519_dalek::Signature::from_slice(signature)
                // A signature that is not made as it should be can be valid for several messages.
                .is_ok_and(|signature| key.verify_strict(message, &signature).is_ok()),
            Self::EcdsaP256(key) => p256::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

fn text_of(path: &Path) -> Result<String, KeyError> {
    let unreadable = |source| KeyError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // A secret may be mounted as a link, so links are followed.
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("it is no file")));
    }
    let size = metadata.len();
    if size > LARGEST {
        let too_large = io::Error::other(format!("it has {size} bytes, which no key has"));
        return Err(unreadable(too_large));
    }
    fs::read_to_string(path).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_said_with_what_would_be_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("empty"), "").unwrap();
        let said = |name: &str| PrivateKey::read(&at(name)).unwrap_err().to_string();
        assert!(said("absent").contains("failed to read the key"));
        assert!(said("empty").contains("is no private key"));
        let public = PublicKey::read(&at("empty")).unwrap_err().to_string();
        assert!(public.contains("is no public key"), "{public}");
    }
}

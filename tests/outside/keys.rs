//! Keys to sign with.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _};

/// A private ed25519 key in PEM, as `openssl genpkey` writes it, and its public half.
pub fn key_pair(private: &Path, public: &Path) {
    let mut seed = [0; 32];
    let mut random = File::open("/dev/urandom").unwrap();
    random.read_exact(&mut seed).unwrap();
    let key = SigningKey::from_bytes(&seed);
    let text = key.to_pkcs8_pem(LineEnding::LF).unwrap();
    fs::write(private, text.as_bytes()).unwrap();
    let text = key.verifying_key().to_public_key_pem(LineEnding::LF);
    fs::write(public, text.unwrap()).unwrap();
}

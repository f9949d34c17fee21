//! Key files as other tools write them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_drill::attest::{Algorithm, KeyError, PrivateKey, PublicKey};

fn made_by(program: &str, arguments: &[&str], folder: &Path) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

fn key_of(kind: &[&str], folder: &Path) -> PathBuf {
    let mut arguments = vec!["genpkey", "-out", "key.pem", "-algorithm"];
    arguments.extend(kind);
    made_by("openssl", &arguments, folder);
    folder.join("key.pem")
}

pub fn keys_of_openssl_sign_and_openssl_says_the_same_of_them() {
    let kinds: [(&[&str], Algorithm); 2] = [
        (&["ed25519"], Algorithm::Ed25519),
        (
            &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
            Algorithm::EcdsaP256,
        ),
    ];
    for (kind, algorithm) in kinds {
        let folder = tempfile::tempdir().unwrap();
        let key = PrivateKey::read(&key_of(kind, folder.path())).unwrap();
        assert_eq!(key.public().algorithm(), algorithm);
        let signature = key.sign(b"message");
        assert!(key.public().is_signature(b"message", &signature));
        assert!(!key.public().is_signature(b"Message", &signature));

        let at = |name: &str| folder.path().join(name);
        fs::write(at("message"), "message").unwrap();
        fs::write(at("signature"), &signature).unwrap();
        fs::write(at("public.pem"), key.public().to_pem()).unwrap();
        let verify = match algorithm {
            Algorithm::Ed25519 => {
                "openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in message -sigfile signature"
            }
            Algorithm::EcdsaP256 => {
                "openssl dgst -sha256 -verify public.pem -signature signature message"
            }
        };
        made_by("sh", &["-c", verify], folder.path());
        assert_eq!(PublicKey::read(&at("public.pem")).unwrap(), key.public());
    }
}

pub fn a_key_of_ssh_keygen_signs_and_its_public_half_checks() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-C", "ci", "-f", "key"];
    made_by("ssh-keygen", &arguments, folder.path());
    let key = PrivateKey::read(&folder.path().join("key")).unwrap();
    let public = PublicKey::read(&folder.path().join("key.pub")).unwrap();
    assert!(public.is_signature(b"message", &key.sign(b"message")));
    assert_eq!(public.id(), key.public().id());
    assert_eq!(public.id().len(), 64);
}

pub fn what_is_no_key_that_can_sign_is_said_with_what_would_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let arguments = ["-q", "-t", "ed25519", "-N", "passphrase", "-f", "locked"];
    made_by("ssh-keygen", &arguments, folder.path());
    let said = |name: &str| PrivateKey::read(&at(name)).unwrap_err().to_string();
    assert!(said("locked").contains("is encrypted"));
    assert!(said("locked.pub").contains("is a public key"));
    let rsa = key_of(&["RSA", "-pkeyopt", "rsa_keygen_bits:1024"], folder.path());
    assert!(matches!(
        PrivateKey::read(&rsa),
        Err(KeyError::NotPrivate(_))
    ));
}

//! Signatures, as verifiers see them that are not ours.

use std::fs;
use std::process::Command;

use cargo_drill::attest::PublicKey;
use cargo_drill::bundle::{Signature, verify};
use serde_json::Value;

use crate::bundle::{SIGNED, make_key};
use crate::drills::deploy_at;
use crate::ground::Ground;
use crate::said::say;

/// Verifies both envelopes with securesystemslib, and prints their predicate types.
const VERIFIES: &str = r#"
import json, sys
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
key = SSlibKey.from_crypto(load_pem_public_key(open(sys.argv[2], "rb").read()))
for line in open(sys.argv[1]):
    envelope = json.loads(line)
    for signature in envelope["signatures"]:
        signature["keyid"] = key.keyid
    envelope = Envelope.from_dict(envelope)
    assert key.keyid in envelope.verify([key], 1)
    print(json.loads(envelope.payload)["predicateType"])
"#;

fn python() -> String {
    let here = env!("CARGO_MANIFEST_DIR");
    format!("{here}/fixtures/python/.venv/bin/python3")
}

fn is_verified_elsewhere(ground: &Ground, public: &str) {
    let attestation = ground.run().join("attestation.intoto.jsonl");
    let output = Command::new(python())
        .args(["-c", VERIFIES])
        .arg(&attestation)
        .arg(ground.path().join(public))
        .output()
        .expect("the Python of fixtures/python/.venv");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "https://in-toto.io/attestation/test-result/v0.1\nhttps://cargo-drill.dev/run/v0.1\n"
    );
}

fn statements(ground: &Ground) -> Vec<Value> {
    let text = fs::read_to_string(ground.run().join("attestation.intoto.jsonl")).unwrap();
    text.lines()
        .map(|line| {
            let envelope: cargo_drill::attest::Envelope = serde_json::from_str(line).unwrap();
            serde_json::to_value(envelope.statement().unwrap()).unwrap()
        })
        .collect()
}

fn subject<'s>(statement: &'s Value, name: &str) -> &'s Value {
    let subjects = statement["subject"].as_array().unwrap();
    let found = subjects
        .iter()
        .find(|subject| subject["name"].as_str().unwrap().ends_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {statement:#}"))
}

pub fn the_statements_say_what_was_drilled_and_what_came_of_it() {
    let statements = statements(&SIGNED.ground);
    let [result, run] = statements.as_slice() else {
        panic!("{statements:#?}");
    };
    let manifest: Value =
        serde_json::from_slice(&fs::read(SIGNED.run.join("manifest.json")).unwrap()).unwrap();
    for statement in [result, run] {
        assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
        let journal = subject(statement, "deploy__idle/journal.jsonl");
        let end = &manifest["journals"]["deploy__idle/journal.jsonl"];
        assert_eq!(journal["annotations"]["events"], end["events"]);
        assert_eq!(journal["annotations"]["head"], end["head"]);
        let server = subject(statement, "drill-fixture");
        assert_eq!(
            server["annotations"]["drills"],
            serde_json::json!(["deploy", "twice"])
        );
        assert_eq!(server["digest"]["sha256"].as_str().unwrap().len(), 64);
    }
    let passed = &result["predicate"];
    assert_eq!(passed["result"], "PASSED");
    assert_eq!(passed["passedTests"].as_array().unwrap().len(), 4);
    assert_eq!(passed["configuration"][0]["name"], "drills/deploy.yaml");
    let run = &run["predicate"];
    assert_eq!(run["complete"], true);
    assert_eq!(run["not_run"][0]["trial"], "deploy::startup");
    assert_eq!(run["not_run"][0]["reason"], "filtered out");
    assert_eq!(run["trials"][0]["answers"]["eof"], "held");
}

pub fn keys_of_openssl_and_of_ssh_keygen_sign_and_another_verifier_agrees() {
    for (make, private, public, algorithm) in [
        (
            "openssl genpkey -algorithm ed25519 -out key.pem && openssl pkey -in key.pem -pubout -out key.pem.pub",
            "key.pem",
            "key.pem.pub",
            "ed25519",
        ),
        (
            "ssh-keygen -q -t ed25519 -N '' -f key",
            "key",
            "key.pub",
            "ed25519",
        ),
        (
            "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key 2>/dev/null \
             && openssl pkey -in key -pubout -out key.pub",
            "key",
            "key.pub",
            "ecdsa-p256-sha256",
        ),
    ] {
        let ground = Ground::new();
        ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
        let made = Command::new("sh")
            .args(["-c", make])
            .current_dir(ground.path())
            .status();
        assert!(made.unwrap().success());
        let said = say(&mut ground.command(["--sign", private]));
        assert_eq!(said.code, Some(0), "{said}");
        let key = PublicKey::read(&ground.path().join(public)).unwrap();
        assert_eq!(key.algorithm().to_string(), algorithm);
        let verification = verify(&ground.run(), std::slice::from_ref(&key)).unwrap();
        assert!(verification.is_good(), "{:?}", verification.findings);
        // As the bundle brings it along.
        fs::copy(
            ground.run().join("signer.pem"),
            ground.path().join("signer"),
        )
        .unwrap();
        is_verified_elsewhere(&ground, "signer");
    }
}

pub fn another_key_than_the_one_that_is_trusted_is_none() {
    let other = SIGNED.ground.path().join("other.pem");
    make_key(&other);
    let key = PublicKey::read(&other.with_extension("pem.pub")).unwrap();
    let verification = verify(&SIGNED.run, std::slice::from_ref(&key)).unwrap();
    assert_eq!(verification.signature, Signature::Invalid);
    assert!(
        verification.findings[0]
            .what
            .contains("no key that was named")
    );
}

pub fn a_key_that_cannot_sign_is_refused_before_anything_runs() {
    let ground = Ground::new();
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    for (name, text, words) in [
        ("none.pem", "x", "is no private key that can sign"),
        (
            "locked.pem",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
            "is encrypted",
        ),
    ] {
        fs::write(ground.path().join(name), text).unwrap();
        let said = say(&mut ground.command(["--sign", name]));
        assert_eq!(said.code, Some(2), "{said}");
        assert!(said.err.contains(words), "{said}");
    }
    assert!(ground.runs().is_empty());
}

pub fn a_run_that_failed_is_signed_as_one_that_failed() {
    let ground = Ground::new();
    let server = "command: [\"{{ fixture }}\", deploy, --fault, abort-at-exit]";
    ground.drill(
        "deploy",
        &deploy_at("deploy", "idle", &[(crate::drills::GOOD_SERVER, server)]),
    );
    make_key(&ground.path().join("key.pem"));
    let said = say(&mut ground.command(["--sign", "key.pem"]));
    assert_eq!(said.code, Some(1), "{said}");
    let statements = statements(&ground);
    assert_eq!(statements[0]["predicate"]["result"], "FAILED");
    assert_eq!(statements[0]["predicate"]["failedTests"][0], "deploy::idle");
    let verification = verify(&ground.run(), &[]).unwrap();
    assert!(verification.is_good(), "{:?}", verification.findings);
}

//! Who signed the evidence, and the decision that is signed.

#[expect(clippy::wildcard_imports, reason = "what these tests share")]
use super::*;
use cargo_drill::attest::{Envelope, PublicKey};
use std::process::Command;

pub fn only_the_named_keys_count() {
    let ground = Ground::new();
    for name in ["ci", "other"] {
        key(&ground, name);
    }
    ground.drill("deploy", &deploy_at("deploy", "idle", &[]));
    let rules = "rules: [{ servers: ['*'], questions: [eof] }]\n";
    policy(
        &ground,
        &format!("{rules}evidence: {{ signed_by: [ci.pub] }}\n"),
    );

    let unsigned = run(&ground, &[]);
    let said = gate(&ground, &[&unsigned]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.starts_with("NO-GO: 1 reason\n"), "{said}");
    assert!(
        said.out
            .contains("is signed by none of ci.pub: it is not signed"),
        "{said}"
    );

    let foreign = run(&ground, &["--sign", "other.pem"]);
    let said = gate(&ground, &[&foreign]);
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.out.contains("is signed by none of ci.pub"), "{said}");

    let signed = run(&ground, &["--sign", "ci.pem"]);
    let said = gate(&ground, &[&signed]);
    assert_eq!(said.code, Some(0), "{said}");
    assert!(said.out.contains("signed by ci.pub"), "{said}");
    // Every bundle that is given must be signed, also one that counts for nothing.
    assert_eq!(gate(&ground, &[&signed, &unsigned]).code, Some(1));
}

pub fn the_signed_decision_names_policy_and_bundles_by_digest() {
    let ground = drilled();
    key(&ground, "release");
    policy(&ground, "");
    let said = gate(&ground, &["--sign", "release.pem"]);
    assert_eq!(said.code, Some(0), "{said}");
    let run = ground.run();
    let name = format!(
        "{}.gate.intoto.jsonl",
        run.file_name().unwrap().to_str().unwrap()
    );
    let out = run.with_file_name(&name);
    assert!(said.err.contains(&format!("reports/runs/{name}")), "{said}");

    let text = fs::read_to_string(&out).unwrap();
    assert_eq!(text.lines().count(), 1);
    let envelope: Envelope = serde_json::from_str(&text).unwrap();
    let public = PublicKey::read(&ground.path().join("release.pub")).unwrap();
    let keys = [public];
    assert_eq!(envelope.signers(&keys).unwrap(), [&keys[0]]);

    let statement = envelope.statement().unwrap();
    assert_eq!(
        statement.predicate_type,
        "https://cargo-drill.dev/gate/v0.1"
    );
    assert_eq!(statement.predicate["decision"], "go");
    let digest = |path: PathBuf| {
        let said = Command::new("sha256sum").arg(path).output().unwrap();
        String::from_utf8(said.stdout).unwrap()[..64].to_owned()
    };
    let subjects: Vec<Option<&str>> = statement.subject.iter().map(|s| s.sha256()).collect();
    let (of_policy, of_manifest) = (
        digest(ground.path().join("release.yaml")),
        digest(run.join("manifest.json")),
    );
    assert_eq!(
        subjects,
        [Some(of_policy.as_str()), Some(of_manifest.as_str())]
    );

    // The bundle is what it was, and the gate opens again.
    assert_eq!(gate(&ground, &[]).code, Some(0));
}

pub fn openssl_checks_the_signature_and_a_refusal_is_signed_as_well() {
    let ground = drilled();
    key(&ground, "release");
    policy(&ground, "rules: [{ servers: [notes] }]");
    let said = gate(
        &ground,
        &["--sign", "release.pem", "--out", "decision.jsonl"],
    );
    assert_eq!(said.code, Some(1), "{said}");
    let at = |name: &str| ground.path().join(name);
    let envelope: Envelope =
        serde_json::from_str(&fs::read_to_string(at("decision.jsonl")).unwrap()).unwrap();
    let statement = envelope.statement().unwrap();
    assert_eq!(statement.predicate["decision"], "no-go");

    // DSSE's pre-authentication encoding, written down once more.
    let script = r#"
        set -e
        jq -r .payload decision.jsonl | base64 -d > payload
        jq -r '.signatures[0].sig' decision.jsonl | base64 -d > signature
        type=$(jq -r .payloadType decision.jsonl)
        printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$(wc -c < payload)" > message
        cat payload >> message
        openssl pkeyutl -verify -pubin -inkey release.pub -rawin -in message -sigfile signature
    "#;
    let checked = Command::new("bash")
        .args(["-c", script])
        .current_dir(ground.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

pub fn a_place_for_the_statement_needs_a_key() {
    let ground = drilled();
    policy(&ground, "");
    let said = gate(&ground, &["--out", "decision.jsonl"]);
    assert_eq!(said.code, Some(2), "{said}");
    assert!(said.err.contains("--sign"), "{said}");
}

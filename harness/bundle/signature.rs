//! Checks who signed a bundle, and that what was signed is this bundle.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::Findings;
use super::sign::{RUN, TEST_RESULT, TestResult, Told, overall};
use crate::attest::{Algorithm, Envelope, PublicKey, Statement};
use crate::journal::regular;
use crate::report::{ATTESTATION, JournalEnd, MANIFEST, SIGNER};

/// Who signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// Nobody: whoever could write to the folder could have written all of it.
    Unsigned,
    /// Statements are there, and no key that is known made their signatures.
    Invalid,
    Signed {
        /// The key's id.
        key: String,
        algorithm: Algorithm,
        /// The reader trusts this key. Otherwise it is the one that the bundle brings along.
        is_trusted: bool,
    },
}

/// What the bundle holds, as it was found.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub run: String,
    pub manifest_sha256: String,
    /// The key that the manifest says will sign it.
    pub signer: Option<String>,
    pub is_complete: bool,
    pub journals: BTreeMap<String, JournalEnd>,
    /// How each trial would be told, by name.
    pub told: BTreeMap<String, Told>,
}

/// Checks the statements that lie beside the bundle against what it holds.
pub(super) fn check(
    folder: &Path,
    trusted: &[PublicKey],
    held: &Held,
    findings: &Findings,
) -> Signature {
    let text = match regular::read_text(&folder.join(ATTESTATION)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if let Some(key) = &held.signer {
                let what = format!("it is missing: the manifest says that the key {key} signs it");
                findings.add(ATTESTATION, what);
            } else if !trusted.is_empty() {
                findings.add(ATTESTATION, "the bundle is not signed, and a key was named");
            }
            return Signature::Unsigned;
        }
        Err(error) => {
            findings.add(ATTESTATION, format!("it cannot be read: {error}"));
            return Signature::Invalid;
        }
    };
    let brought = regular::read_text(&folder.join(SIGNER)).ok();
    let brought = brought.and_then(|pem| PublicKey::parse(&pem));
    if brought.is_none() && folder.join(SIGNER).symlink_metadata().is_ok() {
        findings.add(SIGNER, "it is no public key");
    }
    let mut signature = None;
    let mut kinds = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{ATTESTATION} line {number}");
        let envelope: Envelope = match serde_json::from_str(line) {
            Ok(envelope) => envelope,
            Err(error) => {
                findings.add(place, format!("it is no DSSE envelope: {error}"));
                return Signature::Invalid;
            }
        };
        let by = match signer(&envelope, trusted, brought.as_ref()) {
            Ok(by) => by,
            Err(because) => {
                findings.add(place, because);
                return Signature::Invalid;
            }
        };
        match envelope.statement() {
            Ok(statement) => {
                is_of_this(&statement, held, &place, findings);
                kinds.push(statement.predicate_type);
            }
            Err(error) => findings.add(place, error.to_string()),
        }
        signature = signature.or(Some(by));
    }
    for kind in [TEST_RESULT, RUN] {
        if kinds.iter().filter(|found| *found == kind).count() != 1 {
            findings.add(
                ATTESTATION,
                format!("it does not hold one statement of {kind}"),
            );
        }
    }
    signature.unwrap_or(Signature::Invalid)
}

/// Checks the statements that were kept of a bundle which was joined with others. Of its results nothing is left here, but
/// its journals are, and their ends were signed.
pub(super) fn check_kept(
    folder: &Path,
    place: &str,
    trusted: &[PublicKey],
    held: &Held,
    findings: &Findings,
) {
    let own = Findings::default();
    let text = regular::read_text(&folder.join(ATTESTATION));
    match text {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && trusted.is_empty() => return,
        Err(error) => own.add(ATTESTATION, format!("it cannot be read: {error}")),
        Ok(text) => {
            let brought = regular::read_text(&folder.join(SIGNER)).ok();
            let brought = brought.and_then(|pem| PublicKey::parse(&pem));
            for line in text.lines() {
                let envelope = serde_json::from_str::<Envelope>(line).map_err(|e| e.to_string());
                let signed = envelope.and_then(|envelope| {
                    signer(&envelope, trusted, brought.as_ref())?;
                    envelope.statement().map_err(|error| error.to_string())
                });
                match signed {
                    Ok(statement) => subjects_are(&statement, held, ATTESTATION, &own),
                    Err(because) => own.add(ATTESTATION, because),
                }
            }
        }
    }
    for finding in own.into_sorted().0 {
        findings.add(format!("{place}/{}", finding.place), finding.what);
    }
}

/// The key that made an envelope's signature: one that is trusted, or else the one that the bundle brings along.
fn signer(
    envelope: &Envelope,
    trusted: &[PublicKey],
    brought: Option<&PublicKey>,
) -> Result<Signature, String> {
    let signed = |key: &PublicKey, is_trusted| Signature::Signed {
        key: key.id(),
        algorithm: key.algorithm(),
        is_trusted,
    };
    let signers = |keys: &[PublicKey]| -> Result<Option<PublicKey>, String> {
        let signers = envelope.signers(keys).map_err(|error| error.to_string())?;
        Ok(signers.first().map(|key| (*key).clone()))
    };
    if let Some(key) = signers(trusted)? {
        return Ok(signed(&key, true));
    }
    if !trusted.is_empty() {
        let by = brought.map(|key| (key, signers(std::slice::from_ref(key))));
        return Err(match by {
            Some((key, Ok(Some(_)))) => format!(
                "no key that was named made its signature: it is by the key in {SIGNER}, {}",
                key.id()
            ),
            _ => "no key that was named made its signature".to_owned(),
        });
    }
    let Some(brought) = brought else {
        return Err(format!(
            "{SIGNER} is missing or no key: name the signer's key with --key"
        ));
    };
    match signers(std::slice::from_ref(brought))? {
        Some(key) => Ok(signed(&key, false)),
        None => Err(format!("its signature is not by the key in {SIGNER}")),
    }
}

fn is_of_this(statement: &Statement, held: &Held, place: &str, findings: &Findings) {
    subjects_are(statement, held, place, findings);
    match statement.predicate_type.as_str() {
        TEST_RESULT => says_the_same(statement, held, place, findings),
        RUN if statement.predicate["run"] != held.run.as_str() => {
            findings.add(place, "it is of another run");
        }
        _ => {}
    }
}

fn subjects_are(statement: &Statement, held: &Held, place: &str, findings: &Findings) {
    if !statement.is_known() {
        findings.add(place, "it is no in-toto Statement v1");
    }
    let named = |name: &str| {
        let mut subjects = statement.subject.iter();
        subjects.find(|subject| subject.name == name)
    };
    if named(MANIFEST).and_then(|subject| subject.sha256()) != Some(&held.manifest_sha256) {
        findings.add(
            place,
            format!("what was signed is another {MANIFEST} than the one that is here"),
        );
    }
    for (path, end) in &held.journals {
        let signed = named(path).map(|subject| &subject.annotations);
        let is_equal = signed.is_some_and(|signed| {
            signed.get("events").and_then(serde_json::Value::as_u64) == Some(end.events)
                && signed.get("head").and_then(serde_json::Value::as_str) == end.head.as_deref()
        });
        if !is_equal {
            findings.add(place, format!("it does not name the end of {path}"));
        }
    }
}

/// A signer can also sign what does not follow from the bundle.
fn says_the_same(statement: &Statement, held: &Held, place: &str, findings: &Findings) {
    let result: TestResult = match serde_json::from_value(statement.predicate.clone()) {
        Ok(result) => result,
        Err(error) => return findings.add(place, format!("it is no test-result: {error}")),
    };
    let expected = |what: Told| {
        let told = held.told.iter().filter(|(_, told)| **told == what);
        told.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let (passed, warned, failed) = (
        expected(Told::Passed),
        expected(Told::Warned),
        expected(Told::Failed),
    );
    let overall = overall(passed.len(), warned.len(), failed.len(), held.is_complete);
    let is_equal = result.result == overall
        && sorted(result.passed_tests) == passed
        && sorted(result.warned_tests) == warned
        && sorted(result.failed_tests) == failed;
    if !is_equal {
        findings.add(
            place,
            "what it says passed and failed is not what the results say",
        );
    }
}

//! The decision as an in-toto Statement: about these bundles, by this policy.
//!
//! Its subjects are the policy file and the manifest of each bundle, by digest; a manifest has the digests of all else. The
//! predicate is the [`Decision`], whose names are a contract.

use super::decision::Decision;
use super::file::PolicyFile;
use crate::attest::{ResourceDescriptor, Statement};
use crate::report::MANIFEST;

/// The type of the predicate.
pub const PREDICATE_TYPE: &str = "https://cargo-drill.dev/gate/v0.1";

/// States what was decided.
pub fn statement(policy: &PolicyFile, decision: &Decision) -> Result<Statement, serde_json::Error> {
    let name = policy.path.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let mut subjects = vec![ResourceDescriptor::of_sha256(&name, &policy.sha256)];
    subjects.extend(decision.evidence.iter().map(|bundle| {
        let name = format!("{}/{MANIFEST}", bundle.run);
        ResourceDescriptor::of_sha256(&name, &bundle.manifest_sha256)
    }));
    let predicate = serde_json::to_value(decision)?;
    Ok(Statement::new(PREDICATE_TYPE, subjects, predicate))
}

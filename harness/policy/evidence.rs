//! A bundle, as far as a decision depends on it.

use jiff::Timestamp;

use crate::report::{Results, RunFacts};

/// What one bundle says, and how far it can be believed.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// The run's name.
    pub run: String,
    /// Where the bundle is, as the user would type it.
    pub folder: String,
    /// When the first of it was seen: of a bundle that was joined, when the first of its runs began.
    pub started: Option<Timestamp>,
    /// Absent for a run that did not end.
    pub finished: Option<Timestamp>,
    /// Of `manifest.json`, in hex: it has the digests of everything else.
    pub manifest_sha256: String,
    /// What is wrong with the bundle, a sentence each: files that were changed, a signature that does not fit.
    pub findings: Vec<String>,
    /// Why it is not of a run that came to its end.
    pub incomplete: Option<String>,
    /// Whether there is a signature that fits, by whatever key.
    pub is_signed: bool,
    /// Those of the policy's keys that signed it, as the policy names them.
    pub signers: Vec<String>,
    /// Where none did: what there is in place of such a signature.
    pub unsigned: String,
    pub results: Results,
    pub facts: RunFacts,
}

impl Evidence {
    /// Whether it is the same bundle, named twice. A copy that was changed is another one.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.run == other.run
            && self.manifest_sha256 == other.manifest_sha256
            && self.findings == other.findings
            && self.signers == other.signers
            && self.results == other.results
    }

    /// What tells which of two bundles is newer. One that did not end is older than any that did.
    pub(super) fn age_order(&self) -> (Option<Timestamp>, &str) {
        (self.finished, &self.run)
    }
}

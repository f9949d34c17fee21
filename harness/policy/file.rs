//! From the policy file to a policy, with the keys that it trusts.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::model::Policy;
use crate::attest::PublicKey;
use crate::journal::hex;
use crate::spec::{At, Kind, Mistakes, schema_of, text_of};

const POLICY: Kind = Kind {
    whole: "the policy",
    noun: "policy",
    begins: "policy: NAME",
};

/// A policy and the file it came from.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    pub policy: Policy,
    pub path: PathBuf,
    /// Of the file, in hex.
    pub sha256: String,
    /// Those of `evidence.signed_by`.
    pub signers: Vec<Signer>,
}

/// A key that the policy trusts.
#[derive(Debug, Clone)]
pub struct Signer {
    /// As the policy names its file.
    pub name: String,
    pub key: PublicKey,
}

/// The JSON Schema of the policy file, as `cargo drill schema --policy` prints it.
pub fn schema() -> Value {
    SCHEMA.clone()
}

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| schema_of::<Policy>("A cargo-drill release policy"));

/// Reads a policy file and the keys that it names.
pub fn load(path: &Path) -> Result<PolicyFile, Mistakes> {
    let bytes = POLICY.bytes(path)?;
    let sha256 = hex(&Sha256::digest(&bytes));
    let source = text_of(path, bytes)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut signers = Vec::new();
    let policy = POLICY.parse::<Policy>(path, &source, &SCHEMA, |policy, tree, found| {
        let keys = At::of(["evidence", "signed_by"]);
        for (n, name) in policy.evidence.signed_by.iter().enumerate() {
            match PublicKey::read(&folder.join(name)) {
                Ok(key) => signers.push(Signer {
                    name: name.clone(),
                    key,
                }),
                Err(error) => {
                    let at = keys.index(n);
                    found
                        .add(&at.place(tree), format!("{at}: {error}"))
                        .help("a key's path is relative to the policy file");
                }
            }
        }
        for (n, waiver) in policy.waivers.iter().enumerate() {
            let waivers = At::of(["waivers"]).index(n);
            let owed = [
                (
                    "reason",
                    &waiver.reason,
                    "say why it may be released all the same",
                ),
                ("owner", &waiver.owner, "name whoever answers for it"),
            ];
            for (key, text, help) in owed {
                if text.trim().is_empty() {
                    let at = waivers.key(key);
                    found
                        .add(&at.place(tree), format!("{at} is blank"))
                        .help(help);
                }
            }
        }
    })?;
    Ok(PolicyFile {
        policy,
        path: path.to_owned(),
        sha256,
        signers,
    })
}

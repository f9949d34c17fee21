//! What was drilled: each drill's file, its controls, and its server by the digest of its files and its package.
//!
//! A bundle that says "held" must say of which build. The digests are of what the command named when the run began; what
//! the server loads besides, such as its libraries, is not among them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spec::Question;

/// A drill as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrillFacts {
    pub drill: String,
    /// Its file, relative to the folder that holds `drills/`.
    pub file: String,
    /// Of the file, in hex.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What it is evidence for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<String>,
    /// The questions that it lists as known to be broken, each with its reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<Question, String>,
    pub server: ServerFacts,
}

/// A server under drill.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerFacts {
    /// As the drill has it.
    pub command: Vec<String>,
    /// The SHA-256, in hex, of each file that the command names. Absent where no trial of the drill was run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The packages that these files belong to, or that the command names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
}

/// A released package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    pub ecosystem: Ecosystem,
    pub name: String,
    pub version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecosystem {
    Npm,
    PyPi,
}

impl Package {
    /// As a package URL (ECMA-427), such as `pkg:npm/%40scope/name@1.2.3`.
    pub fn url(&self) -> String {
        use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
        const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
            .remove(b'-')
            .remove(b'.')
            .remove(b'_')
            .remove(b'/');
        let (kind, name) = match self.ecosystem {
            Ecosystem::Npm => ("npm", self.name.clone()),
            Ecosystem::PyPi => ("pypi", self.name.to_lowercase().replace('_', "-")),
        };
        let name = utf8_percent_encode(&name, PLAIN);
        let version = utf8_percent_encode(&self.version, PLAIN);
        format!("pkg:{kind}/{name}@{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_named_by_its_url() {
        let url = |ecosystem, name: &str| {
            let (name, version) = (name.to_owned(), "1.2.3+x".to_owned());
            Package {
                ecosystem,
                name,
                version,
            }
            .url()
        };
        assert_eq!(
            url(Ecosystem::Npm, "@scope/some.pkg"),
            "pkg:npm/%40scope/some.pkg@1.2.3%2Bx"
        );
        assert_eq!(
            url(Ecosystem::PyPi, "Mcp_Outline"),
            "pkg:pypi/mcp-outline@1.2.3%2Bx"
        );
    }
}

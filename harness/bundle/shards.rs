//! What is kept of bundles that were joined: their manifests, and who signed them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::MapAccess;
use serde_json::Value;

use super::finding::Findings;
use super::signature::{self, Held};
use super::stream::{self, Entries, Fields};
use super::trial::is_plain;
use crate::attest::PublicKey;
use crate::journal::regular;
use crate::report::{FileEntry, JournalEnd, MANIFEST, SEAL, Shard, digest};

/// Where a bundle that was joined from others keeps their manifests.
pub(super) const SHARDS: &str = "shards";

/// A run whose bundle was joined: its manifest is the one that is named, and each trial's seal that it lists is here.
pub(super) fn check_shard(
    folder: &Path,
    shard: &Shard,
    trusted: &[PublicKey],
    findings: &Findings,
) {
    let Some(expected) = &shard.manifest_sha256 else {
        return;
    };
    let place = format!("{SHARDS}/{}/{MANIFEST}", shard.run);
    if !is_plain(&shard.run) {
        return findings.add(place, "its name leads out of the bundle");
    }
    let kept = folder.join(SHARDS).join(&shard.run);
    let found = regular::open(&kept.join(MANIFEST)).and_then(|file| digest(file, |_| {}));
    let found = found.map(|entry| entry.sha256).unwrap_or_default();
    if found != *expected {
        findings.add(&place, "it is not the manifest that was joined");
    }
    let mut seals = Seals {
        folder,
        findings,
        ends: BTreeMap::new(),
    };
    let head = match stream::read(&kept.join(MANIFEST), &mut seals) {
        Ok(head) => head,
        Err(because) => return findings.add(place, because),
    };
    let of_bundle = Held {
        run: head
            .get("run")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        manifest_sha256: found,
        journals: seals.ends,
        ..Held::default()
    };
    let kept_at = format!("{SHARDS}/{}", shard.run);
    signature::check_kept(&kept, &kept_at, trusted, &of_bundle, findings);
}

/// The seals that a joined bundle's manifest lists.
struct Seals<'v> {
    folder: &'v Path,
    findings: &'v Findings,
    ends: BTreeMap<String, JournalEnd>,
}

impl<'de> Fields<'de> for Seals<'_> {
    fn take<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error> {
        match name {
            "files" => map.next_value_seed(Entries::to(|path: String, entry: FileEntry| {
                let is_seal = path.split_once('/').is_some_and(|(_, name)| name == SEAL);
                if !is_seal || path.starts_with("..") {
                    return;
                }
                let found = regular::open(&self.folder.join(&path)).and_then(|f| digest(f, |_| {}));
                if found.ok().as_ref() != Some(&entry) {
                    let what = "it is not the seal that the bundle had from which it was joined";
                    self.findings.add(path, what);
                }
            }))?,
            "journals" => self.ends = map.next_value()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

//! Bundles to look at, made by the real command.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use cargo_drill::attest::PublicKey;
use cargo_drill::bundle::{Verification, verify};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::drills::deploy_at;
use crate::ground::Ground;
use crate::keys::key_pair;
use crate::said::{json_in, say};

/// Three trials of one drill and one of another, signed, in a run that left one trial out.
pub struct Made {
    pub ground: Ground,
    pub run: PathBuf,
}

pub static SIGNED: LazyLock<Made> = LazyLock::new(|| {
    let ground = Ground::new();
    ground.drill(
        "deploy",
        &deploy_at(
            "deploy",
            "startup, idle, before-dispatch, after-acceptance",
            &[],
        ),
    );
    ground.drill(
        "twice",
        &format!("{}\nrepeat: 2\n", deploy_at("twice", "idle", &[])),
    );
    make_key(&ground.path().join("key.pem"));
    let said = say(&mut ground.command(["--skip", "startup", "--sign", "key.pem"]));
    assert_eq!(said.code, Some(0), "{said}");
    let run = ground.run();
    Made { ground, run }
});

/// A private key; its public half beside it, with `.pub` after its name.
pub fn make_key(path: &Path) {
    key_pair(path, &path.with_extension("pem.pub"));
}

/// A copy of a bundle, to be tampered with.
pub struct Copy {
    folder: TempDir,
}

impl Copy {
    pub fn of(run: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(run, folder.path());
        Self { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub fn json(&self, path: &str) -> Value {
        json_in(self.path(), path)
    }

    /// Changes a JSON file.
    pub fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut value = self.json(path);
        change(&mut value);
        fs::write(self.at(path), serde_json::to_vec_pretty(&value).unwrap()).unwrap();
    }

    /// Takes signatures away.
    pub fn unsign(&self) {
        for name in ["attestation.intoto.jsonl", "signer.pem"] {
            fs::remove_file(self.at(name)).unwrap();
        }
    }

    /// Makes seals and manifest fit what is there now, as a forger would who knows the formats, and takes the signature
    /// away, which he cannot make.
    pub fn forge(&self) {
        if self.at("signer.pem").exists() {
            self.unsign();
        }
        for folder in crate::ground::folders_in(self.path()) {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            let seal = format!("{name}/seal.json");
            if self.at(&seal).exists() {
                self.edit(&seal, |seal| {
                    relist(seal, &folder, "", &["seal.json"]);
                });
            }
        }
        let root = self.path().to_owned();
        self.edit("manifest.json", |manifest| {
            relist(manifest, &root, "", &["manifest.json"]);
            manifest.as_object_mut().unwrap().remove("signer");
        });
    }

    pub fn verify(&self, keys: &[PublicKey]) -> Verification {
        verify(self.path(), keys).unwrap()
    }

    /// What is found, a line each.
    pub fn findings(&self) -> Vec<String> {
        let verification = self.verify(&[]);
        verification
            .findings
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

/// Lists the files below a folder anew, and where its journals end.
fn relist(list: &mut Value, folder: &Path, prefix: &str, besides: &[&str]) {
    let (mut files, mut journals) = (serde_json::Map::new(), serde_json::Map::new());
    for path in files_in(folder) {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
        if besides.contains(&name) {
            continue;
        }
        let content = fs::read(&path).unwrap();
        let sha256 = cargo_drill::journal::hex(&Sha256::digest(&content));
        let entry = serde_json::json!({ "size": content.len(), "sha256": sha256 });
        files.insert(format!("{prefix}{name}"), entry);
        if name.ends_with("journal.jsonl") {
            let text = String::from_utf8(content).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            let final_line: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
            let end = serde_json::json!({ "events": lines.len(), "head": final_line["hash"] });
            journals.insert(format!("{prefix}{name}"), end);
        }
    }
    list["files"] = Value::Object(files);
    list["journals"] = Value::Object(journals);
}

/// All files below a folder, sorted by path.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_in(&path));
        } else {
            files.push(path);
        }
    }
    files.sort_by_key(|path| path.to_str().unwrap().to_owned());
    files
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

//! Finds out what is drilled: the files that a server's command names, their digests, and the packages they belong to.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::journal::hex;
use crate::report::{DrillFacts, Ecosystem, Package, ServerFacts, digest};
use crate::spec::{DrillFile, Known, Question, Templates};

/// How many folders above a file its `package.json` is looked for.
const HIGHEST: usize = 8;

/// The words of a server's command, as far as they are known before there is a work folder.
pub fn command(file: &DrillFile, fixture: Option<&Path>) -> Vec<String> {
    let templates = Templates::default();
    let shown = |path: &Path| path.display().to_string();
    let variables = serde_json::json!({
        "root": shown(&file.root),
        "fixture": fixture.map(shown).unwrap_or_default(),
    });
    let command = &file.drill.server.command;
    command
        .iter()
        .map(|part| {
            let rendered = templates.text(part, &variables);
            rendered.unwrap_or_else(|_| part.clone())
        })
        .collect()
}

/// The file that a part of a command names, if it names one.
pub fn find(part: &str, folder: &Path) -> Option<PathBuf> {
    let beside = folder.join(part);
    if beside.is_file() {
        return Some(beside);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(part))
        .find(|file| file.is_file())
}

/// Why each of these questions is known to be broken.
fn because(known: &BTreeMap<Question, Known>) -> BTreeMap<Question, String> {
    let reasons = known.iter();
    reasons
        .map(|(question, known)| (*question, known.because.clone()))
        .collect()
}

/// Describes drills. A file that several servers share, such as an interpreter, is read once.
#[derive(Debug, Default)]
pub struct Subjects {
    digests: Mutex<HashMap<PathBuf, Option<String>>>,
}

impl Subjects {
    /// What the file of a drill says, and with `read_server` what its server is made of.
    pub fn of(&self, file: &DrillFile, fixture: Option<&Path>, read_server: bool) -> DrillFacts {
        let relative = file.path.strip_prefix(&file.root).unwrap_or(&file.path);
        let mut server = ServerFacts {
            command: file.drill.server.command.clone(),
            ..ServerFacts::default()
        };
        if read_server {
            self.read(file, fixture, &mut server);
        }
        DrillFacts {
            drill: file.drill.drill.clone(),
            file: relative.display().to_string(),
            sha256: hex(&Sha256::digest(&file.source)),
            about: file.drill.about.clone(),
            controls: file.drill.controls.clone(),
            known: because(&file.drill.known),
            server,
        }
    }

    fn read(&self, file: &DrillFile, fixture: Option<&Path>, server: &mut ServerFacts) {
        let folder = file.path.parent().unwrap_or(&file.root);
        for part in command(file, fixture) {
            if let Some(named) = find(&part, folder) {
                server.packages.extend(package_of(&named));
                if let Some(digest) = self.digest(&named) {
                    let shown = named.strip_prefix(&file.root).unwrap_or(&named);
                    server.files.insert(shown.display().to_string(), digest);
                }
            }
        }
        server.packages.sort();
        server.packages.dedup();
    }

    fn digest(&self, file: &Path) -> Option<String> {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let known = digests.entry(file.to_owned()).or_insert_with(|| {
            let read = digest(File::open(file).ok()?, |_| {});
            Some(read.ok()?.sha256)
        });
        known.clone()
    }
}

/// The package that a file belongs to, as its installer left it. What cannot be read is no package.
fn package_of(file: &Path) -> Option<Package> {
    let real = fs::canonicalize(file).ok()?;
    npm(&real).or_else(|| pypi(file))
}

/// The nearest `package.json` with a name and a version, for a file below a `node_modules`.
fn npm(file: &Path) -> Option<Package> {
    #[derive(Deserialize)]
    struct Manifest {
        name: String,
        version: String,
    }
    file.components()
        .any(|part| part.as_os_str() == "node_modules")
        .then_some(())?;
    file.ancestors().skip(1).take(HIGHEST).find_map(|folder| {
        let text = fs::read(folder.join("package.json")).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        Some(Package {
            ecosystem: Ecosystem::Npm,
            name: manifest.name,
            version: manifest.version,
        })
    })
}

/// The distribution whose `entry_points.txt` has this script of a virtual environment.
fn pypi(script: &Path) -> Option<Package> {
    let name = script.file_name()?.to_str()?;
    let libraries = script.parent()?.parent()?.join("lib");
    let of_python = fs::read_dir(libraries).ok()?.flatten();
    of_python
        .filter_map(|python| fs::read_dir(python.path().join("site-packages")).ok())
        .flat_map(|packages| packages.flatten().map(|entry| entry.path()))
        .filter(|folder| folder.extension().is_some_and(|kind| kind == "dist-info"))
        .find(|folder| {
            let points = fs::read_to_string(folder.join("entry_points.txt"));
            points.is_ok_and(|points| {
                points.lines().any(|line| {
                    line.split_once('=')
                        .is_some_and(|(script, _)| script.trim() == name)
                })
            })
        })
        .and_then(|folder| {
            let metadata = fs::read_to_string(folder.join("METADATA")).ok()?;
            let field = |key: &str| {
                let mut lines = metadata.lines().take_while(|line| !line.is_empty());
                lines.find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()))
            };
            Some(Package {
                ecosystem: Ecosystem::PyPi,
                name: field("Name:")?,
                version: field("Version:")?,
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_file_of_npm_belongs_to_the_nearest_package() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("node_modules/@scope/name");
        let program = package.join("dist/index.js");
        write(&program, "");
        let manifest = r#"{ "name": "@scope/name", "version": "1.2.3" }"#;
        write(&package.join("package.json"), manifest);
        // It says how the files are to be read, and names no package.
        write(
            &package.join("dist/package.json"),
            r#"{ "type": "module" }"#,
        );
        let found = package_of(&program).unwrap();
        assert_eq!(found.url(), "pkg:npm/%40scope/name@1.2.3");
        let own = folder.path().join("server/index.js");
        write(&own, "");
        assert_eq!(package_of(&own), None);
    }

    #[test]
    fn a_script_of_a_virtual_environment_belongs_to_its_distribution() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("bin/mcp-outline");
        write(&script, "#!python");
        let packages = folder.path().join("lib/python3.11/site-packages");
        for (name, script) in [
            ("other-2.0", "outline"),
            ("mcp_outline-1.10.1", "mcp-outline"),
        ] {
            let info = packages.join(format!("{name}.dist-info"));
            let (package, version) = name.split_once('-').unwrap();
            let points = format!("[console_scripts]\n{script} = x:main\n");
            write(&info.join("entry_points.txt"), &points);
            let metadata = format!("Name: {package}\nVersion: {version}\n\nName: text\n");
            write(&info.join("METADATA"), &metadata);
        }
        let found = package_of(&script).unwrap();
        assert_eq!(found.url(), "pkg:pypi/mcp-outline@1.10.1");
    }
}

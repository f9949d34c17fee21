//! What the manifest lists, compared with what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::iter::Peekable;
use std::path::Path;

use serde::de::MapAccess;
use serde_json::Value;

use super::finding::Findings;
use super::stream::{Entries, Fields, Items};
use crate::report::{
    BESIDES, FileEntry, JournalEnd, Kind, MANIFEST, NotAFile, Population, Walk, read_file, walk,
};

/// What the manifest lists, compared with what is there as it is read: both are sorted by path.
pub(super) struct Listed<'v> {
    folder: &'v Path,
    found: Peekable<Walk>,
    findings: &'v Findings,
    /// The path that was listed last.
    last: String,
    pub files: u64,
    /// Where journals should end.
    ends: BTreeMap<String, JournalEnd>,
    /// Where they do.
    pub journals: BTreeMap<String, JournalEnd>,
    others: BTreeMap<String, NotAFile>,
    other_found: BTreeMap<String, NotAFile>,
    pub population: BTreeMap<String, Population>,
}

impl<'de> Fields<'de> for Listed<'_> {
    fn take<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<bool, M::Error> {
        match name {
            "files" => {
                map.next_value_seed(Entries::to(|path: String, entry| self.file(&path, &entry)))?;
            }
            "journals" => self.ends = map.next_value()?,
            "others" => self.others = map.next_value()?,
            "population" => {
                map.next_value_seed(Items::to(|entry: Population| self.member(entry)))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl<'v> Listed<'v> {
    pub fn in_folder(folder: &'v Path, findings: &'v Findings) -> io::Result<Self> {
        Ok(Self {
            folder,
            found: walk(folder)?.peekable(),
            findings,
            last: String::new(),
            files: 0,
            ends: BTreeMap::new(),
            journals: BTreeMap::new(),
            others: BTreeMap::new(),
            other_found: BTreeMap::new(),
            population: BTreeMap::new(),
        })
    }

    fn member(&mut self, entry: Population) {
        let name = entry.trial.clone().unwrap_or_else(|| entry.drill.clone());
        if self.population.insert(name.clone(), entry).is_some() {
            self.findings
                .add(MANIFEST, format!("its population names {name} twice"));
        }
    }

    fn file(&mut self, path: &str, entry: &FileEntry) {
        if *path <= *self.last {
            self.findings
                .add(MANIFEST, format!("its files are not in order at {path}"));
            return;
        }
        path.clone_into(&mut self.last);
        self.files += 1;
        if self.pass(Some(path)) {
            let file = self.folder.join(path);
            let size = file.symlink_metadata().map(|metadata| metadata.len());
            if size.as_ref().is_ok_and(|size| *size != entry.size) {
                // However large it has become, it need not be read.
                self.findings
                    .add(path, "it was changed: its size is another");
                return;
            }
            match read_file(&file, path) {
                Ok((found, end)) => {
                    if found != *entry {
                        self.findings.add(path, "it was changed");
                    }
                    self.journals.extend(end.map(|end| (path.to_owned(), end)));
                }
                Err(error) => self
                    .findings
                    .add(path, format!("it cannot be read: {error}")),
            }
        } else {
            self.findings.add(path, "it is missing");
        }
    }

    /// Goes on to the file of this path, or to the end; whether it is there. What is passed on the way is not listed.
    fn pass(&mut self, path: Option<&str>) -> bool {
        while let Some(found) = self.found.next_if(|found| match (found, path) {
            (Ok(found), Some(path)) => found.path.as_str() <= path,
            _ => true,
        }) {
            match found {
                Ok(found) => match found.kind {
                    Kind::File if Some(found.path.as_str()) == path => return true,
                    Kind::File if BESIDES.contains(&found.path.as_str()) => {}
                    Kind::File => {
                        let what = "it was added: the manifest does not know it";
                        self.findings.add(found.path, what);
                    }
                    Kind::Other(what) => {
                        self.other_found.insert(found.path, what);
                    }
                },
                Err(error) => {
                    self.findings
                        .add("", format!("a folder cannot be read: {error}"));
                }
            }
        }
        false
    }

    /// Every drill that was found has trials, and every trial is of a drill that was found.
    pub fn check_drills(&self, drills: Option<&Value>) {
        let Some(Value::Array(drills)) = drills else {
            return;
        };
        let names: BTreeSet<&str> = drills
            .iter()
            .filter_map(|drill| drill.get("drill")?.as_str())
            .collect();
        let of_trials: BTreeSet<&str> = self
            .population
            .values()
            .map(|entry| entry.drill.as_str())
            .collect();
        for name in names.difference(&of_trials) {
            let what = format!("the drill {name} was found, and none of its trials is named");
            self.findings.add(MANIFEST, what);
        }
        for name in of_trials.difference(&names) {
            let what = format!("trials of {name} are named, and no such drill");
            self.findings.add(MANIFEST, what);
        }
    }

    /// After the last file that is listed.
    pub fn finish(&mut self) {
        self.pass(None);
        if self.others != self.other_found {
            let what = "the links and special files in the folder are not those that it names";
            self.findings.add(MANIFEST, what);
        }
        for (path, end) in &self.ends {
            match self.journals.get(path) {
                None if self.folder.join(path).symlink_metadata().is_ok() => {}
                None => self.findings.add(path.as_str(), "it is missing"),
                Some(found) if found != end => {
                    let what = "the manifest names another end of it: lines were cut off or added";
                    self.findings.add(path.as_str(), what);
                }
                Some(_) => {}
            }
        }
        for path in self
            .journals
            .keys()
            .filter(|path| !self.ends.contains_key(*path))
        {
            self.findings
                .add(path.as_str(), "the manifest does not say where it ends");
        }
    }
}

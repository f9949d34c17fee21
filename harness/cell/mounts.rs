//! The mounts that make the temporary folders of a trial its own.
//!
//! Programs leave files of fixed names in `/tmp`: a lock, a socket, the performance data of a JVM by its pid. In a pid
//! namespace the pids of all trials are alike, so that one trial would find the files of another and take them for its own.
//!
//! ```text
//!   survey: /tmp/project ── needed, opened      mount: /tmp (empty, in memory)
//!           /tmp/link ───── leads to it                ├─ project   bound back in
//!           /tmp/other ──── nobody's                   └─ link      made again
//! ```
//!
//! What the trial needs of the host's folders comes back at its own path: the entry of the folder as a whole, since
//! interpreters look for packages in the folders above their script. All processes of a trial share what they write there,
//! and it is gone when they are.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

/// The folders that hold every program's temporary files.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Bytes that a trial may write into each of them. They lie in memory; TMPDIR, which lies on the disk, has room for more.
const LARGEST: u64 = 1 << 30;

/// Files and folders in each of them. Each takes about a kilobyte of the kernel's memory.
const MOST_FILES: u64 = 1 << 18;

/// Links that are followed in one path, as the kernel does (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// Entries of a tree that are looked at for links, and the levels below it: `.venv/bin/python` and
/// `node_modules/@scope/package` are links often.
const MOST_ENTRIES: usize = 1000;
const DEEPEST: usize = 2;

/// What a trial needs that may lie below a temporary folder. All paths are absolute.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Needs {
    /// Folders of which everything is needed, also what links in them lead to.
    pub trees: Vec<PathBuf>,
    /// Files and folders, which need not exist.
    pub paths: Vec<PathBuf>,
}

/// The temporary folders of the host and what is needed of them.
pub(super) struct Survey {
    /// A folder stands behind the one that holds it.
    folders: Vec<Folder>,
}

struct Folder {
    /// Without links in it.
    path: PathBuf,
    kept: BTreeMap<OsString, Kept>,
    /// All of it is needed.
    is_shared: bool,
}

/// An entry of the host's folder.
enum Kept {
    Link(PathBuf),
    Entry { source: OwnedFd, is_folder: bool },
}

impl Survey {
    /// Finds what the trial needs. `scratch` is its own folder; the folder that holds it holds those of other trials too.
    pub fn take(needs: &Needs, scratch: &Path) -> Self {
        Self::of(&TEMPORARY.map(Path::new), needs, scratch)
    }

    fn of(folders: &[&Path], needs: &Needs, scratch: &Path) -> Self {
        let trees: Vec<PathBuf> = needs.trees.iter().filter_map(canonical).collect();
        let mut paths: Vec<PathBuf> = folders.iter().filter_map(canonical).collect();
        let temporary = scratch.parent().and_then(canonical).filter(|temporary| {
            let is_below = |path: &PathBuf| temporary.starts_with(path);
            paths.iter().any(is_below) && !trees.contains(temporary)
        });
        paths.extend(temporary);
        paths.sort_by_key(|path| path.components().count());
        let mut survey = Self {
            folders: Vec::new(),
        };
        for path in paths {
            if survey.folders.iter().all(|folder| folder.path != path) {
                let is_shared = trees.contains(&path);
                survey.folders.push(Folder {
                    path,
                    kept: BTreeMap::new(),
                    is_shared,
                });
            }
        }
        survey.keep(scratch);
        for tree in &needs.trees {
            survey.keep(tree);
            survey.keep_links_of(tree);
        }
        for path in &needs.paths {
            survey.keep(path);
        }
        survey
    }

    /// Puts an empty folder over each of the host's and brings back what is needed. Returns those that stay the host's,
    /// because all of them is needed.
    pub fn mount(self) -> io::Result<Vec<PathBuf>> {
        let mut shared = Vec::new();
        for folder in self.folders {
            if folder.is_shared {
                shared.push(folder.path);
            } else {
                folder.mount()?;
            }
        }
        Ok(shared)
    }

    /// Walks along a path as the kernel does, and keeps whatever it leads through.
    fn keep(&mut self, path: &Path) {
        let mut at = PathBuf::new();
        let mut rest = steps(path);
        let mut links = 0;
        while let Some(step) = rest.pop_front() {
            match step.as_bytes() {
                b"/" => at = PathBuf::from("/"),
                b"." => {}
                b".." => {
                    at.pop();
                }
                _ => {
                    let next = at.join(&step);
                    let Ok(metadata) = fs::symlink_metadata(&next) else {
                        // What does not exist yet may be made there.
                        break;
                    };
                    if !metadata.is_symlink() {
                        at = next;
                        continue;
                    }
                    self.keep_entry(&next);
                    links += 1;
                    let Ok(target) = fs::read_link(&next) else {
                        break;
                    };
                    if links > MOST_LINKS {
                        break;
                    }
                    for step in steps(&target).into_iter().rev() {
                        rest.push_front(step);
                    }
                }
            }
        }
        self.keep_entry(&at);
    }

    /// Follows the links in a folder that lead out of it.
    fn keep_links_of(&mut self, tree: &Path) {
        let mut folders = VecDeque::from([(tree.to_owned(), 0)]);
        let mut left = MOST_ENTRIES;
        while let Some((folder, depth)) = folders.pop_front() {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                let Some(less) = left.checked_sub(1) else {
                    return;
                };
                left = less;
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_symlink() {
                    self.keep(&entry.path());
                } else if kind.is_dir() && depth < DEEPEST && !self.has(&entry.path()) {
                    folders.push_back((entry.path(), depth + 1));
                }
            }
        }
    }

    /// Other trials' folders may lie in there.
    fn has(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| folder.path == path)
    }

    /// Keeps the entry of a temporary folder in which this path lies. No link stands in the path but at its end.
    fn keep_entry(&mut self, path: &Path) {
        for folder in self.folders.iter_mut().rev() {
            let below = path.strip_prefix(&folder.path).ok();
            if let Some(name) = below.and_then(|below| below.components().next()) {
                return folder.keep(name.as_os_str());
            }
        }
    }
}

impl Folder {
    fn keep(&mut self, name: &OsStr) {
        if self.is_shared || self.kept.contains_key(name) {
            return;
        }
        let place = self.path.join(name);
        let kept = match fs::symlink_metadata(&place) {
            Ok(metadata) if metadata.is_symlink() => fs::read_link(&place).ok().map(Kept::Link),
            Ok(metadata) => {
                let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let source = open(&place, flags, Mode::empty()).ok();
                source.map(|source| Kept::Entry {
                    source,
                    is_folder: metadata.is_dir(),
                })
            }
            Err(_) => None,
        };
        if let Some(kept) = kept {
            self.kept.insert(name.to_owned(), kept);
        }
    }

    fn mount(self) -> io::Result<()> {
        // It may lie below a folder that was covered before.
        fs::create_dir_all(&self.path)?;
        // Interpreters load native code from here, so it can be executed.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let options = format!("mode=1777,size={LARGEST},nr_inodes={MOST_FILES}");
        mount(
            Some("tmpfs"),
            &self.path,
            Some("tmpfs"),
            flags,
            Some(options.as_str()),
        )?;
        for (name, kept) in self.kept {
            let place = self.path.join(name);
            match kept {
                Kept::Link(target) => std::os::unix::fs::symlink(target, place)?,
                Kept::Entry { source, is_folder } => {
                    if is_folder {
                        fs::create_dir(&place)?;
                    } else {
                        fs::File::create(&place)?;
                    }
                    let source = format!("/proc/self/fd/{}", source.as_raw_fd());
                    // With the mounts that it holds: in a user namespace none of them may be uncovered.
                    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
                    mount(
                        Some(source.as_str()),
                        &place,
                        None::<&str>,
                        flags,
                        None::<&str>,
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn canonical(path: impl AsRef<Path>) -> Option<PathBuf> {
    path.as_ref().canonicalize().ok()
}

fn steps(path: &Path) -> VecDeque<OsString> {
    path.components()
        .map(Component::as_os_str)
        .map(OsStr::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder that stands for `/tmp`, with these folders and links in it.
    fn temporary(folders: &[&str], links: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let made = tempfile::tempdir().unwrap();
        let path = made.path().canonicalize().unwrap();
        for folder in folders {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        for (link, target) in links {
            symlink(path.join(target), path.join(link)).unwrap();
        }
        (made, path)
    }

    fn needs(tree: &Path, paths: &[PathBuf]) -> Needs {
        Needs {
            trees: vec![tree.to_owned()],
            paths: paths.to_vec(),
        }
    }

    fn names(folder: &Folder) -> Vec<&str> {
        folder
            .kept
            .keys()
            .map(|name| name.to_str().unwrap())
            .collect()
    }

    #[test]
    fn an_entry_is_kept_as_a_whole_with_whatever_links_lead_to() {
        let links = [
            ("project/node_modules", "second"),
            ("second", "third/modules"),
        ];
        let folders = ["project/drills", "third/modules", "unrelated", "drill-1"];
        let (_made, path) = temporary(&folders, &links);
        let needs = needs(
            &path.join("project/drills/.."),
            &[path.join("missing/file")],
        );
        let survey = Survey::of(&[&path], &needs, &path.join("drill-1"));
        let [folder] = &survey.folders[..] else {
            panic!("one folder")
        };
        assert_eq!(names(folder), ["drill-1", "project", "second", "third"]);
        assert!(matches!(folder.kept[OsStr::new("second")], Kept::Link(_)));
    }

    #[test]
    fn the_folder_in_which_trials_make_theirs_is_a_temporary_one_too() {
        let folders = ["ci/project", "ci/tmp/drill-1", "ci/tmp/drill-2"];
        let (_made, path) = temporary(&folders, &[("ci/tmp/drill-2/link", "unrelated")]);
        let needs = needs(&path.join("ci"), &[path.join("ci/project/new")]);
        let survey = Survey::of(&[&path], &needs, &path.join("ci/tmp/drill-1"));
        let kept: Vec<_> = survey.folders.iter().map(names).collect();
        assert_eq!(kept, [["ci"], ["drill-1"]]);
    }

    #[test]
    fn a_folder_that_is_the_drills_own_stays_the_hosts() {
        let (_made, path) = temporary(&["drills", "drill-1"], &[]);
        let needs = needs(&path, &[]);
        let survey = Survey::of(&[&path], &needs, &path.join("drill-1"));
        assert_eq!(survey.folders.len(), 1);
        assert_eq!(survey.mount().unwrap(), [path]);
    }
}

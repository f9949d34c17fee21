//! Where a run's evidence comes from: the tool, the commit, the machine and who started it.
//!
//! What cannot be found out is absent, never guessed: a reviewer must be able to rely on what stands there.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// The program that ran the drills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// The commit of the repository that holds the drills.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub id: String,
    /// Files differ from the commit, or are not in it. Absent where git could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    /// Where the folder that holds `drills/` is in the repository, with a `/` at its end. Absent at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// The machine on which the drills ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub os: String,
    /// The release of the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    pub arch: String,
    /// How many this process could use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
}

/// Who started the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The user of the operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whom the CI system names. Its word, not ours: any process can set a variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<CiActor>,
}

/// Whom a CI system says it acts for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CiActor {
    /// The variable that says it.
    pub variable: String,
    pub name: String,
}

/// Where CI systems name the person.
const CI_ACTORS: [&str; 6] = [
    "GITHUB_ACTOR",
    "GITLAB_USER_LOGIN",
    "BUILDKITE_BUILD_CREATOR",
    "CIRCLE_USERNAME",
    "BUILD_REQUESTEDFOR",
    "BUILD_USER_ID",
];

impl Tool {
    pub fn this() -> Self {
        Self {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl Commit {
    /// The commit checked out at `folder`; `None` without git, a repository or a first commit.
    pub fn at(folder: &Path) -> Option<Self> {
        let id = git(folder, &["rev-parse", "--verify", "HEAD"])?;
        let status = git(folder, &["status", "--porcelain"]);
        let prefix = git(folder, &["rev-parse", "--show-prefix"]).unwrap_or_default();
        let prefix = prefix.trim_end_matches('\n');
        Some(Self {
            id: id.trim().to_owned(),
            dirty: status.map(|status| !status.is_empty()),
            folder: (!prefix.is_empty()).then(|| prefix.to_owned()),
        })
    }
}

impl Machine {
    pub fn this() -> Self {
        let host = nix::unistd::gethostname().ok();
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
        Self {
            host: host.and_then(|name| name.into_string().ok()),
            os: env::consts::OS.to_owned(),
            kernel: kernel.map(|release| release.trim().to_owned()),
            arch: env::consts::ARCH.to_owned(),
            cpus: std::thread::available_parallelism().ok().map(usize::from),
        }
    }
}

impl Actor {
    pub fn this() -> Self {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid());
        Self {
            user: user.ok().flatten().map(|user| user.name),
            ci: CiActor::from(|name| env::var(name).ok()),
        }
    }
}

impl CiActor {
    fn from(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        CI_ACTORS.into_iter().find_map(|variable| {
            let name = lookup(variable).filter(|name| !name.is_empty())?;
            Some(Self {
                variable: variable.to_owned(),
                name,
            })
        })
    }
}

/// Asks git, which must not take locks or start a monitor for it; `None` where it is absent or refuses.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["--no-optional-locks", "-c", "core.fsmonitor=false"])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(())?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_says_whether_files_differ_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        assert_eq!(Commit::at(at), None);
        let run = |arguments: &[&str]| {
            git(at, arguments).unwrap_or_else(|| panic!("git {arguments:?} failed"))
        };
        run(&["init", "--quiet"]);
        assert_eq!(Commit::at(at), None, "there is no commit yet");
        run(&[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@example.org",
            "-c",
            "commit.gpgsign=false",
            "commit",
            "--quiet",
            "--allow-empty",
            "--no-verify",
            "-m",
            "Begin",
        ]);
        let clean = Commit::at(at).unwrap();
        assert_eq!((clean.id.len(), clean.dirty), (40, Some(false)));
        std::fs::write(at.join("drill.yaml"), "").unwrap();
        assert_eq!(Commit::at(at).unwrap().dirty, Some(true));
        assert_eq!(clean.folder, None);
        let below = at.join("a b/c");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(
            Commit::at(&below).unwrap().folder.as_deref(),
            Some("a b/c/")
        );
    }

    #[test]
    fn the_actor_is_whom_the_ci_system_names() {
        let github = |name: &str| (name == "GITHUB_ACTOR").then(|| "octocat".to_owned());
        assert_eq!(
            CiActor::from(github),
            Some(CiActor {
                variable: "GITHUB_ACTOR".to_owned(),
                name: "octocat".to_owned()
            })
        );
        assert_eq!(CiActor::from(|_| Some(String::new())), None);
    }

    #[test]
    fn the_machine_is_described() {
        let machine = Machine::this();
        assert!(machine.cpus.is_some_and(|cpus| cpus > 0));
        assert_eq!(machine.os, env::consts::OS);
    }
}

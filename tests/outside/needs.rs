//! What a test needs besides Rust, and how one gets it.
//!
//! ```text
//!   list of a binary ──> what each test needs ──> is it here? ──> run, or ignored with the hint
//! ```
//!
//! Rust's own harness decides while it compiles which tests are ignored. Whether `node` is installed shows only when they
//! run, so a binary of which any test needs something lists its tests in `main` and has `harness = false`.
//!
//! `--ignored` runs the tests that need something which can be installed: those that a machine with Rust alone ignores.
//! `--list --ignored` lists those that are ignored here, as nextest asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Trial};
use nix::unistd::geteuid;

/// An ordinary user that root can become: `nobody`, by the convention of every Linux distribution.
pub const NOBODY: u32 = 65534;

/// Something that not every machine has.
struct Need {
    name: &'static str,
    probe: Probe,
    /// How one gets it.
    hint: &'static str,
}

enum Probe {
    /// A tool or its packages: a line of shell, in the folder of the package, which succeeds where they are installed.
    Installed(&'static str),
    /// A right that the machine gives, found out in the same way.
    Right(&'static str),
    /// The same, found out here.
    RightOfTests(fn() -> bool),
}

/// Runs its arguments in a network namespace of their own; none succeed there.
///
/// A frame that comes from a device, as a repeated SYN does, is taken for 127.0.0.1 only with `route_localnet`, and from an
/// address of the machine's own only with `accept_local` (ip-sysctl).
pub const NETWORK: &str = r#"
if [ $(id -u) = 0 ]; then user=; else user=--map-root-user; fi
exec unshare --net $user sh -c '
    ip link set lo up &&
    echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet &&
    echo 1 >/proc/sys/net/ipv4/conf/all/accept_local &&
    if [ $# != 0 ]; then exec "$@"; fi' sh "$@""#;

const NEEDS: [Need; 16] = [
    Need::tool("python3", "python3 --version", "apt-get install python3"),
    Need::tool("node", "node --version", "apt-get install nodejs"),
    Need::tool("perl", "perl -v", "apt-get install perl"),
    Need::tool("bash", "bash --version", "apt-get install bash"),
    // It must be allowed to look, too.
    Need::tool(
        "strace",
        "strace -o /dev/null true",
        "apt-get install strace",
    ),
    Need::tool("jq", "jq --version", "apt-get install jq"),
    Need::tool("openssl", "openssl version", "apt-get install openssl"),
    Need::tool(
        "ssh-keygen",
        "command -v ssh-keygen",
        "apt-get install openssh-client",
    ),
    Need::tool(
        "chromium",
        "command -v chromium",
        "apt-get install chromium",
    ),
    // What `fixtures/node/package.json` asks for.
    Need::tool(
        "packages of node",
        "node --version && test -d fixtures/node/node_modules",
        "npm ci --prefix fixtures/node",
    ),
    // What `fixtures/python/requirements.txt` asks for, of which the tests use these.
    Need::tool(
        "packages of python3",
        r#"fixtures/python/.venv/bin/python -c '
import importlib.util
for name in "trestle jsonschema xmlschema cmarkgfm opentelemetry.sdk securesystemslib jwt kubernetes_validate".split():
    assert importlib.util.find_spec(name), name
'"#,
        "python3 -m venv fixtures/python/.venv && fixtures/python/.venv/bin/pip install -r fixtures/python/requirements.txt",
    ),
    Need {
        name: "namespaces",
        probe: Probe::Right(
            "if [ $(id -u) = 0 ]; then set --; else set -- --user --map-root-user; fi; \
             unshare \"$@\" --pid --fork --mount --net true",
        ),
        hint: "as root, or with user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    },
    Need {
        name: "network",
        probe: Probe::Installed(NETWORK),
        hint: "apt-get install util-linux iproute2",
    },
    Need {
        name: "mount",
        probe: Probe::Right("unshare --mount mount -t tmpfs none /mnt"),
        hint: "as root, with the right to mount a tmpfs",
    },
    Need {
        name: "root",
        probe: Probe::RightOfTests(|| geteuid().is_root()),
        hint: "as root",
    },
    Need {
        name: "nobody",
        probe: Probe::RightOfTests(can_become_nobody),
        hint: "as root, built in a folder that the user `nobody` may enter",
    },
];

impl Need {
    const fn tool(name: &'static str, probe: &'static str, hint: &'static str) -> Self {
        Self {
            name,
            probe: Probe::Installed(probe),
            hint,
        }
    }

    fn named(name: &str) -> &'static Self {
        const ALL: &[Need] = &NEEDS;
        let found = ALL.iter().find(|need| need.name == name);
        found.unwrap_or_else(|| panic!("there is no need `{name}` in the list"))
    }

    fn can_be_installed(&self) -> bool {
        matches!(self.probe, Probe::Installed(_))
    }

    /// Asked once.
    fn is_met(&self) -> bool {
        static MET: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());
        let mut met = MET.lock().unwrap_or_else(PoisonError::into_inner);
        *met.entry(self.name).or_insert_with(|| match self.probe {
            Probe::Installed(script) | Probe::Right(script) => succeeds(script),
            Probe::RightOfTests(is_met) => is_met(),
        })
    }
}

fn succeeds(script: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", script])
        .current_dir(package())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Whether a test can run the command as an ordinary user.
fn can_become_nobody() -> bool {
    let probe = Command::new(env!("CARGO_BIN_EXE_cargo-drill"))
        .arg("--version")
        .uid(NOBODY)
        .gid(NOBODY)
        .output();
    geteuid().is_root() && probe.is_ok_and(|output| output.status.success())
}

/// Where the package is now, which is not where it was built if it comes from an archive of nextest.
fn package() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into())
        .into()
}

/// A test and what it needs.
pub struct Test {
    name: &'static str,
    run: fn(),
    needs: Vec<&'static Need>,
}

impl Test {
    pub fn new(name: &'static str, run: fn(), needs: &[&str]) -> Self {
        Self {
            name,
            run,
            needs: needs.iter().map(|need| Need::named(need)).collect(),
        }
    }

    /// The hints of what is missing here, with one for all that apt has.
    fn missing(needs: &[&Need]) -> Option<String> {
        const APT: &str = "apt-get install ";
        let missing = needs.iter().filter(|need| !need.is_met());
        let (packages, mut hints): (Vec<&str>, Vec<&str>) = missing
            .map(|need| need.hint)
            .partition(|hint| hint.starts_with(APT));
        let packages: Vec<&str> = packages.iter().map(|hint| &hint[APT.len()..]).collect();
        let packages = format!("{APT}{}", packages.join(" "));
        if packages != APT {
            hints.insert(0, &packages);
        }
        (!hints.is_empty()).then(|| hints.join("; "))
    }

    fn into_trial(self, arguments: &Arguments) -> Trial {
        let Self { name, run, needs } = self;
        let is_ignored = match (arguments.list, arguments.ignored) {
            (_, false) => false,
            (true, true) => Self::missing(&needs).is_some(),
            (false, true) => needs.iter().any(|need| need.can_be_installed()),
        };
        let trial = Trial::ignorable_test(name, move || {
            if let Some(hints) = Self::missing(&needs) {
                return Ok(Completion::ignored_with(hints));
            }
            run();
            Ok(Completion::Completed)
        });
        trial.with_ignored_flag(is_ignored)
    }
}

/// A line of a binary's list: `test!(a_function)` or `test!(a_function, "node", "perl")`; with `as` under another name.
macro_rules! test {
    ($path:path $(, $need:literal)*) => {
        $crate::needs::test!($path as stringify!($path) $(, $need)*)
    };
    ($path:path as $name:expr $(, $need:literal)*) => {
        $crate::needs::Test::new($name, $path, &[$($need),*])
    };
}
pub(crate) use test;

/// The `main` of a binary with these tests, of which `file` is the root: `file!()`.
pub fn main(file: &str, tests: Vec<Test>) -> ExitCode {
    let unlisted = marked(&package().join(file));
    assert!(
        unlisted.is_empty(),
        "this binary runs the tests that its list in {file} names, and these are marked with an attribute instead: {}",
        unlisted.join(", ")
    );
    let names: BTreeSet<&str> = tests.iter().map(|test| test.name).collect();
    assert_eq!(names.len(), tests.len(), "a test is listed twice");
    let arguments = Arguments::from_args();
    let trials = tests.into_iter();
    let trials = trials.map(|test| test.into_trial(&arguments)).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The places of attributes that Rust's harness would find, and this one does not; none where the source is not here.
fn marked(root: &Path) -> Vec<String> {
    let files: Vec<PathBuf> = match root.file_name() {
        Some(name) if name == "main.rs" => {
            let folder = root.parent().and_then(|folder| fs::read_dir(folder).ok());
            let entries = folder.into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        }
        _ => vec![root.to_owned()],
    };
    let sources = files
        .iter()
        .filter_map(|file| Some((file, fs::read_to_string(file).ok()?)));
    sources
        .flat_map(|(file, text)| {
            let lines = (1..).zip(text.lines());
            let is_mark =
                |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let marks = lines.filter(|(_, line)| is_mark(line));
            marks
                .map(|(line, _)| format!("{}:{line}", file.display()))
                .collect::<Vec<_>>()
        })
        .collect()
}

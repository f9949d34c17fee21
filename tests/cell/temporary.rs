//! `/tmp`, `/var/tmp` and `/dev/shm` are a trial's own, and what the trial needs of the host's is there all the same.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::ground::Ground;
use crate::said::say;
use crate::server::{SERVERS, drill, python, python_that};
use crate::{assert_all_held, verdicts, weakens};

const TOOL: &str = env!("CARGO_BIN_EXE_cargo-drill");

const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Names what it finds in each folder, and leaves a file there for whoever comes after it.
const LISTS: &str = "
for folder in '/tmp', '/var/tmp', '/dev/shm':
    print('found', folder, *sorted(os.listdir(folder)), file=sys.stderr)
    mode = os.stat(folder).st_mode
    print('mode', folder, oct(mode & 0o7777), file=sys.stderr)
    open(f'{folder}/left-by-a-drill', 'a').close()
sys.stderr.flush()
";

/// What the server of a session found in a folder.
fn found(bundle: &Path, session: &str, folder: &str) -> Vec<String> {
    let stderr = fs::read_to_string(bundle.join(format!("stderr-{session}.txt"))).unwrap();
    let line = stderr
        .lines()
        .find_map(|line| line.strip_prefix(&format!("found {folder}")));
    let names = line.unwrap_or_else(|| panic!("{folder} in {stderr}"));
    names.split_whitespace().map(str::to_owned).collect()
}

pub fn folders_of_temporary_files_are_the_trials_own_and_gone_with_it() {
    let ground = Ground::new();
    fs::write(ground.path().join("server.py"), python_that(LISTS)).unwrap();
    let command = "[python3, -S, \"{{ root }}/server.py\"]";
    ground.drill("lists", &drill("lists", command, "idle, after-result"));
    let said = say(&mut ground.command(["--test-threads", "1"]));
    assert_all_held(&ground, &said);
    for trial in ["lists__idle", "lists__after-result"] {
        let bundle = ground.run().join(trial);
        assert!(weakens(&bundle).is_empty(), "{:?}", weakens(&bundle));
        for folder in TEMPORARY {
            // What the trial needs is there, and nothing else.
            let needed = [ground.path(), Path::new(SERVERS), Path::new(TOOL)];
            let mut names = found(&bundle, "a", folder);
            names.retain(|name| {
                let entry = Path::new(folder).join(name);
                !needed.iter().any(|needed| needed.starts_with(&entry))
            });
            assert!(names.is_empty(), "{folder} has {names:?}");
            // The sessions of a trial have one and the same.
            assert!(found(&bundle, "b", folder).contains(&"left-by-a-drill".to_owned()));
            let stderr = fs::read_to_string(bundle.join("stderr-a.txt")).unwrap();
            assert!(
                stderr.contains(&format!("mode {folder} 0o1777")),
                "{stderr}"
            );
        }
    }
    for folder in TEMPORARY {
        assert!(
            !Path::new(folder).join("left-by-a-drill").exists(),
            "{folder}"
        );
    }
}

pub fn other_trials_folders_are_not_seen_where_they_lie_beside_the_trials_own() {
    let ground = Ground::new();
    let temporary = ground.path().join("tmp");
    fs::create_dir(temporary.join("drill-of-another")).unwrap();
    let lists = "print('others', *os.listdir(os.environ['TMPDIR'] + '/../../..'), file=sys.stderr, flush=True)";
    fs::write(ground.path().join("server.py"), python_that(lists)).unwrap();
    let command = "[python3, -S, \"{{ root }}/server.py\"]";
    ground.drill("others", &drill("others", command, "idle"));
    let said = say(&mut ground.command([]));
    assert_all_held(&ground, &said);
    let stderr = ground.run().join("others__idle/stderr-a.txt");
    let stderr = fs::read_to_string(stderr).unwrap();
    let names: Vec<&str> = stderr.split_whitespace().skip(1).collect();
    assert!(
        matches!(names[..], [own] if own.starts_with("drill-") && own != "drill-of-another"),
        "{stderr}"
    );
}

pub fn trials_at_once_answer_as_trials_one_after_another() {
    let command = format!("[python3, -S, {:?}]", python("perfdata"));
    let at = |threads: &str| {
        let ground = Ground::new();
        for name in ["one", "two", "three", "four"] {
            let crash = "idle, after-acceptance, after-result";
            ground.drill(name, &drill(name, &command, crash));
        }
        let said = say(&mut ground.command(["--test-threads", threads]));
        assert_all_held(&ground, &said);
        verdicts(&ground)
    };
    let at_once = at("12");
    assert_eq!(at_once.len(), 12);
    assert_eq!(at_once, at("1"));
}

pub fn what_the_drill_needs_is_found_through_links_and_in_other_temporary_folders() {
    let ground = Ground::new();
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::create_dir(elsewhere.path().join("bin")).unwrap();
    fs::create_dir(elsewhere.path().join("lib")).unwrap();
    let looks = "
for path in sys.argv[1:]:
    if not os.path.exists(path):
        sys.exit(path + ' is missing')
if os.getcwd() != os.path.realpath(sys.argv[1]):
    sys.exit('started in ' + os.getcwd())
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + '/lib')
import beside
";
    fs::write(elsewhere.path().join("bin/server.py"), python_that(looks)).unwrap();
    fs::write(elsewhere.path().join("lib/beside.py"), "").unwrap();
    // A link of the drill's folder leads to a link in /tmp, and that one out of it.
    let middle = tempfile::Builder::new().tempfile_in("/tmp").unwrap();
    let middle = middle.into_temp_path();
    fs::remove_file(&middle).unwrap();
    symlink(elsewhere.path(), &middle).unwrap();
    symlink(&middle, ground.path().join("linked")).unwrap();
    let data = tempfile::tempdir_in("/tmp").unwrap();
    fs::write(data.path().join("data.json"), "{}").unwrap();
    let named = data.path().join("data.json");
    let command = format!(
        "[python3, -S, \"{{{{ root }}}}/linked/bin/server.py\", {}/lib, {}]\n  cwd: ../linked/lib",
        middle.display(),
        named.display()
    );
    ground.drill("linked", &drill("linked", &command, "after-result"));
    let said = say(&mut ground.command([]));
    assert_all_held(&ground, &said);
}

pub fn without_mounts_the_folders_are_the_hosts_and_that_is_said() {
    let ground = Ground::new();
    fs::write(ground.path().join("server.py"), python_that("")).unwrap();
    let command = "[python3, -S, \"{{ root }}/server.py\"]";
    ground.drill("plain", &drill("plain", command, "idle"));
    let said = say(ground.command([]).env("CARGO_DRILL_CELL", "subreaper"));
    assert_all_held(&ground, &said);
    let weakens = weakens(&ground.run().join("plain__idle"));
    let shared = "/tmp, /var/tmp, /dev/shm are the host's";
    assert!(
        weakens.iter().any(|sentence| sentence.contains(shared)),
        "{weakens:?}"
    );
}

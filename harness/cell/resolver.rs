//! The files by which a process finds out whom to ask for a host: in a cell they know of this machine alone, and of the
//! resolver on its loopback. They are mounted over the host's, on which nothing is ever written.
//!
//! A file that does not exist, or is a link that leads nowhere, is no place to mount anything at. Where a link leads into a
//! folder that the cell has covered (systemd-resolved's, below `/run`), its end is made there; else an overlay takes the
//! place of `/etc`.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::gethostname;

const ETC: &str = "/etc";

/// As much of `nsswitch.conf` is read; real ones have less than a thousand bytes.
const MOST: usize = 64 * 1024;

/// More links in a row than these the kernel does not follow (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// Mounts the files. `empty` is a folder to prepare them in, and `covered` are the folders that this cell has put empty
/// file systems over. An error is a sentence on what is weaker for it.
pub(super) fn mount_files(empty: &Path, covered: &[&str]) -> Result<(), String> {
    let done = Stand::put_up(empty).and_then(|stand| {
        let files = files();
        stand.write("", &files)?;
        let covered = devices_of(covered);
        let has_place = |(name, _): &(&str, String)| {
            mount_point(&Path::new(ETC).join(name), &covered)
                .is_some_and(|place| bind(&stand.0.join(name), &place).is_ok())
        };
        if files.iter().all(has_place) {
            stand.seal()
        } else {
            stand.overlay(&files)
        }
    });
    done.map_err(|error| {
        format!("names: the files in {ETC} that tell a process how to find a host could not all be replaced ({error})")
    })
}

/// The files and what they say.
fn files() -> [(&'static str, String); 3] {
    let switch = read_beginning(&Path::new(ETC).join("nsswitch.conf")).unwrap_or_default();
    let name = gethostname().ok().and_then(|name| name.into_string().ok());
    [
        ("hosts", hosts(name.as_deref().unwrap_or_default())),
        (
            "resolv.conf",
            "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n".to_owned(),
        ),
        ("nsswitch.conf", hosts_by_files_and_dns(&switch)),
    ]
}

/// The machine knows its own name, as it does outside (Java asks for it); at an address of its own, since c-ares gives all
/// names of a line's address the addresses of each other.
fn hosts(machine: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let own = if machine.is_empty() || machine == "localhost" || !machine.chars().all(is_name) {
        String::new()
    } else {
        format!("127.0.1.1 {machine}\n")
    };
    format!("127.0.0.1 localhost\n{own}")
}

/// As the host has it, but for hosts: the modules that others have there ask daemons, or answer for the DNS.
fn hosts_by_files_and_dns(switch: &str) -> String {
    let is_kept = |line: &&str| !line.trim_start().starts_with("hosts:");
    let kept = switch.lines().filter(is_kept);
    kept.chain(["hosts: files dns", ""])
        .collect::<Vec<_>>()
        .join("\n")
}

fn read_beginning(path: &Path) -> io::Result<String> {
    use io::Read as _;
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MOST as u64)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file systems that have been put over these folders.
fn devices_of(covered: &[&str]) -> Vec<u64> {
    let folders = covered.iter().filter_map(|folder| {
        let metadata = fs::symlink_metadata(folder).ok()?;
        metadata.is_dir().then(|| metadata.dev())
    });
    folders.collect()
}

/// Where a file can be mounted so that it is found as `path`.
fn mount_point(path: &Path, covered: &[u64]) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let end = end_of_links(path)?;
    let there = end.ancestors().find_map(|above| fs::metadata(above).ok())?;
    if !covered.contains(&there.dev()) {
        return None;
    }
    fs::create_dir_all(end.parent()?).ok()?;
    fs::File::create_new(&end).ok()?;
    Some(end)
}

/// The file that a link leads to, whether it exists or not; `None` for what is no link.
fn end_of_links(path: &Path) -> Option<PathBuf> {
    let mut end = path.parent()?.join(fs::read_link(path).ok()?);
    for _ in 0..MOST_LINKS {
        match fs::read_link(&end) {
            Ok(next) => end = end.parent()?.join(next),
            Err(_) => return Some(end),
        }
    }
    None
}

fn bind(file: &Path, place: &Path) -> io::Result<()> {
    let none = None::<&str>;
    Ok(mount(Some(file), place, none, MsFlags::MS_BIND, none)?)
}

/// A file system of its own, in which the files are prepared. It stays as long as something of it is mounted elsewhere.
struct Stand<'a>(&'a Path);

impl<'a> Stand<'a> {
    fn put_up(folder: &'a Path) -> io::Result<Self> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let size = Some("mode=0755,size=1m");
        mount(Some("tmpfs"), folder, Some("tmpfs"), flags, size)?;
        Ok(Self(folder))
    }

    fn write(&self, folder: &str, files: &[(&str, String)]) -> io::Result<()> {
        for (name, text) in files {
            let path = self.0.join(folder).join(name);
            fs::write(&path, text)?;
            // Whatever the umask of the one who runs the drill is.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        Ok(())
    }

    /// Nobody writes to the files any more.
    fn seal(&self) -> io::Result<()> {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        let none = None::<&str>;
        Ok(mount(none, self.0, none, flags, none)?)
    }

    /// All of `/etc`, with the files in place of those that it has.
    fn overlay(&self, files: &[(&str, String)]) -> io::Result<()> {
        for folder in ["upper", "work"] {
            fs::create_dir(self.0.join(folder))?;
        }
        self.write("upper", files)?;
        let stand = self.0.display();
        let options = format!("lowerdir={ETC},upperdir={stand}/upper,workdir={stand}/work");
        let options = Some(options.as_str());
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        Ok(mount(
            Some("overlay"),
            ETC,
            Some("overlay"),
            flags,
            options,
        )?)
    }
}

impl Drop for Stand<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_hosts_switch_the_line_about_hosts_alone_is_changed() {
        let host = "passwd: files systemd\nhosts:          files mdns4_minimal [NOTFOUND=return] dns\nnetworks: files";
        assert_eq!(
            hosts_by_files_and_dns(host),
            "passwd: files systemd\nnetworks: files\nhosts: files dns\n"
        );
        assert_eq!(hosts_by_files_and_dns(""), "hosts: files dns\n");
    }

    #[test]
    fn the_machine_knows_its_own_name_where_it_is_one() {
        assert_eq!(
            hosts("build-7.example"),
            "127.0.0.1 localhost\n127.0.1.1 build-7.example\n"
        );
        for name in ["", "localhost", "two words", "a\n1.2.3.4 b"] {
            assert_eq!(hosts(name), "127.0.0.1 localhost\n", "{name}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_no_place_and_a_link_into_a_covered_folder_is_made_one() {
        let folder = tempfile::tempdir().unwrap();
        let (etc, run) = (folder.path().join("etc"), folder.path().join("run"));
        fs::create_dir(&etc).unwrap();
        fs::create_dir(&run).unwrap();
        let link = etc.join("resolv.conf");
        std::os::unix::fs::symlink("../run/resolve/stub.conf", &link).unwrap();
        let ours = [fs::metadata(&run).unwrap().dev()];
        assert_eq!(mount_point(&etc.join("hosts"), &ours), None);
        assert_eq!(mount_point(&link, &[]), None);
        assert!(!run.join("resolve").exists());
        let place = mount_point(&link, &ours).unwrap();
        assert_eq!(
            place.canonicalize().unwrap(),
            run.canonicalize().unwrap().join("resolve/stub.conf")
        );
        assert_eq!(mount_point(&link, &[]), Some(link.clone()));
        fs::write(etc.join("hosts"), "").unwrap();
        assert!(mount_point(&etc.join("hosts"), &[]).is_some());
    }
}

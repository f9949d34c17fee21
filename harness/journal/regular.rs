//! Reads files of a bundle that somebody else may have written: a name may lead elsewhere, or to what never ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// The largest file that is read as a whole, in bytes; a run of ten thousand trials has less.
const LARGEST: u64 = 256 * 1024 * 1024;

/// Opens a regular file; what is a link, a fifo or a device is refused and not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK)
        .open(path);
    let no_file = || io::Error::other("it is no regular file");
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ELOOP | nix::libc::ENXIO) => no_file(),
        _ => error,
    })?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(no_file())
    }
}

/// The content of a regular file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    if size > LARGEST {
        return Err(io::Error::other(format!(
            "it has {size} bytes, which is too much to be read"
        )));
    }
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content)?;
    Ok(content)
}

/// The same, of a file that is text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::other("it is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_regular_files_of_a_measured_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "abc").unwrap();
        assert_eq!(read_text(&at("file")).unwrap(), "abc");
        mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        for name in ["fifo", "zero", "link", "."] {
            let said = read(&at(name)).unwrap_err().to_string();
            assert_eq!(said, "it is no regular file", "{name}");
        }
        File::create(at("sparse"))
            .unwrap()
            .set_len(LARGEST + 1)
            .unwrap();
        assert!(
            read(&at("sparse"))
                .unwrap_err()
                .to_string()
                .contains("too much")
        );
        let absent = read(&at("absent")).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }
}

//! Reading a file that a server under drill can write to.
//!
//! Nothing about it is trusted: it may be a FIFO that never answers, a link that leads out of its folder, or larger than
//! memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A log that is larger is not read.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The content of a regular file inside `work`. Never blocks, never follows a link.
pub(in crate::trial) fn read_regular(path: &Path, work: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path, work)?;
    if file.metadata()?.len() > LARGEST {
        return Err(io::Error::other(format!(
            "it is larger than {} MiB",
            LARGEST >> 20
        )));
    }
    read(file)
}

/// The same, and of a larger one its beginning.
pub(in crate::trial) fn read_beginning(path: &Path, work: &Path) -> io::Result<Vec<u8>> {
    read(open_regular(path, work)?)
}

fn read(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_regular(path: &Path, work: &Path) -> io::Result<File> {
    let folder = path.parent().unwrap_or(work).canonicalize()?;
    if !folder.starts_with(work.canonicalize()?) {
        return Err(io::Error::other("it is outside the work folder"));
    }
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
    {
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(io::Error::other("it is a symbolic link"));
        }
        other => other?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

//! Reading a file that a server under drill can write to.
//!
//! Nothing about it is trusted: it may be a FIFO that never answers, a link that leads out of its folder, or larger than
//! memory.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A log that is larger is not read.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The content of a regular file inside `work`. Never blocks, never follows a link.
pub(in crate::trial) fn read_regular(path: &Path, work: &Path) -> io::Result<Vec<u8>> {
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
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > LARGEST {
        return Err(io::Error::other(format!(
            "it is larger than {} MiB",
            LARGEST >> 20
        )));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

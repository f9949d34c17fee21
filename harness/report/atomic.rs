//! Files that are there as a whole or not at all.
//!
//! A harness can be killed at any moment, and then nobody may find half of a `results.json`. So a file is written beside
//! its place and renamed onto it. This guards against a killed process, not against a lost machine: only journals and the
//! manifest are fsynced, since a trial takes tens of milliseconds and so may one fsync.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What a file gets before the umask, as from `File::create`. A temporary file is private by default, and a bundle is
/// made to be handed on.
const MODE: u32 = 0o666;

/// Writes `content` to `path`, replacing what was there.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    beside(path, content)?.persist(path)?;
    Ok(())
}

/// Writes `content` to the disk and then to `path`: what vouches for a whole folder is not to be there sooner than it is.
pub(super) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = beside(path, content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Replaces `path` by what `write` writes.
pub(crate) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut std::fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = beside(path, &[])?;
    write(file.as_file_mut())?;
    file.persist(path)?;
    Ok(())
}

/// Writes `content` to `path` unless a file is there; says whether it did.
pub(super) fn write_if_absent(path: &Path, content: &[u8]) -> io::Result<bool> {
    match beside(path, content)?.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}

fn beside(path: &Path, content: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".writing-")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder)?;
    file.write_all(content)?;
    Ok(file)
}

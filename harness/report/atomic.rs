//! Files that are there as a whole or not at all.
//!
//! A harness can be killed at any moment, and then nobody may find half of a `results.json`. So a file is written beside
//! its place and renamed onto it. This guards against a killed process, not against a lost machine: nothing is fsynced,
//! since a trial takes tens of milliseconds and so may one fsync.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What a file gets before the umask, as from `File::create`. A temporary file is private by default, and a bundle is
/// made to be handed on.
const MODE: u32 = 0o666;

/// Writes `content` to `path`, replacing what was there.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(content))
}

/// Writes to `path` whatever `write` writes, a part at a time.
pub(crate) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut tempfile::NamedTempFile>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = empty_beside(path)?;
    let mut out = BufWriter::new(&mut file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
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
    let mut file = empty_beside(path)?;
    file.write_all(content)?;
    Ok(file)
}

fn empty_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(".writing-")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder)
}

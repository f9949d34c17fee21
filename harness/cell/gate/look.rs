//! What a waiting call is about: read from the memory and the `/proc` folder of its thread.
//!
//! Everything here is the server's to choose, and may change while it is read: it is told, never trusted.

use std::fs;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};

use nix::libc;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid as NixPid;

use super::calls::{About, At, Flags, WRITES};
use super::notify::Call;
use crate::journal::{Pid, excerpt};
use crate::spec::SyscallName;

/// The longest path that the kernel takes (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;

/// Memory is read up to the end of a page: the next one may not be there.
const PAGE: u64 = 4096;

/// More of a path is not told.
const MOST_TOLD: usize = 300;

/// What cannot be read.
const UNREADABLE: &str = "?";

/// What a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub name: SyscallName,
    /// A path, an address, or how much is written.
    pub detail: String,
    /// The path of what is opened.
    pub path: Option<PathBuf>,
    /// Each write is on the disk when it returns (`O_SYNC`, `O_DSYNC`).
    pub synchronous: bool,
    /// The inode of the socket that is connected.
    pub socket: Option<u64>,
}

impl Subject {
    fn new(name: SyscallName, detail: impl Into<String>) -> Self {
        Self {
            name,
            detail: detail.into(),
            path: None,
            synchronous: false,
            socket: None,
        }
    }
}

/// What this call is about; none where it is not one that counts: a connect within the machine, a write to something else
/// than the session's stdout, an open that only reads.
pub(super) fn subject(call: &Call, about: About, stdout: Option<u64>) -> Option<Subject> {
    let thread = call.thread;
    match about {
        About::Address => {
            let length = usize::try_from(call.arguments[2]).ok()?.min(28);
            let address = memory(thread, call.arguments[1], length)?;
            let mut subject = Subject::new(SyscallName::Connect, address_of(&address)?);
            subject.socket = inode(thread, call.arguments[0], "socket:[");
            Some(subject)
        }
        About::Path { name, at } => {
            let path = path_of(call, at);
            Some(Subject::new(name, shown(path.as_deref())))
        }
        About::Open { at, flags } => {
            let flags = match flags {
                Flags::Argument(nth) => low_half(call.arguments[nth]),
                Flags::Creates => libc::O_CREAT.cast_unsigned(),
                Flags::InMemory(nth) => {
                    let how = memory(thread, call.arguments[nth], 8)?;
                    low_half(u64::from_ne_bytes(how.try_into().ok()?))
                }
            };
            if flags & WRITES == 0 {
                return None;
            }
            let path = path_of(call, at);
            let mut subject = Subject::new(SyscallName::Openat, shown(path.as_deref()));
            subject.path = path;
            // O_SYNC has the bit of O_DSYNC in it.
            subject.synchronous = flags & libc::O_DSYNC.cast_unsigned() != 0;
            Some(subject)
        }
        About::Rename { from, to } => {
            let (from, to) = (path_of(call, from), path_of(call, to));
            let detail = format!("{} to {}", shown(from.as_deref()), shown(to.as_deref()));
            Some(Subject::new(SyscallName::Rename, detail))
        }
        About::Sync { name } => {
            let path = link(thread, &format!("fd/{}", low_half(call.arguments[0])));
            Some(Subject::new(name, shown(path.as_deref())))
        }
        About::Write => {
            let written = inode(thread, call.arguments[0], "pipe:[")?;
            (Some(written) == stdout)
                .then(|| Subject::new(SyscallName::Write, "the session's stdout"))
        }
        About::SyncAll | About::Ring => None,
    }
}

/// A descriptor, and flags, are the lower half of an argument: the upper half is whatever the register held.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
pub(super) fn low_half(argument: u64) -> u32 {
    argument as u32
}

/// The process of a thread, as it is called inside its own pid namespace.
pub(super) fn process_of(thread: i32) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NStgid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}

/// Whether a thread is in this system call now; none where that cannot be told.
pub(super) fn is_in(thread: i32, number: i32) -> Option<bool> {
    /// A thread that is on the processor shows as `running`, and nobody is told when it leaves it.
    const LOOKS: usize = 1000;
    for _ in 0..LOOKS {
        match fs::read_to_string(format!("/proc/{thread}/syscall")) {
            Ok(text) if text.trim() == "running" => std::thread::yield_now(),
            Ok(text) => {
                let current = text.split_whitespace().next()?.parse::<i32>().ok()?;
                return Some(current == number);
            }
            // The thread has ended.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(false),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Some(false),
            Err(_) => return None,
        }
    }
    Some(true)
}

/// The inode of a descriptor, where it is of this kind (`pipe:[`, `socket:[`).
fn inode(thread: i32, descriptor: u64, kind: &str) -> Option<u64> {
    let target = link(thread, &format!("fd/{}", low_half(descriptor)))?;
    let number = target.to_str()?.strip_prefix(kind)?.strip_suffix(']')?;
    number.parse().ok()
}

fn link(thread: i32, name: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{thread}/{name}")).ok()
}

/// A path, made absolute through the folder that the call names, or else the current one.
fn path_of(call: &Call, at: At) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = text(call.thread, call.arguments[at.path])?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    if path.is_absolute() {
        return Some(tidy(&path));
    }
    let folder = at
        .folder
        .map(|nth| low_half(call.arguments[nth]).cast_signed());
    let folder = match folder {
        None | Some(libc::AT_FDCWD) => link(call.thread, "cwd")?,
        Some(descriptor) => link(call.thread, &format!("fd/{descriptor}"))?,
    };
    Some(tidy(&folder.join(path)))
}

/// Without `.` in it. What `..` leads to depends on links, so it stays.
fn tidy(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != Component::CurDir)
        .collect()
}

fn shown(path: Option<&Path>) -> String {
    path.map_or(UNREADABLE.to_owned(), |path| {
        excerpt(&path.to_string_lossy(), MOST_TOLD)
    })
}

/// A text that ends with a zero byte.
fn text(thread: i32, mut at: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < LONGEST_PATH {
        let part = memory(thread, at, usize::try_from(PAGE - at % PAGE).ok()?)?;
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..end]);
            return Some(text);
        }
        at = at.checked_add(part.len() as u64)?;
        text.extend(part);
    }
    None
}

/// Memory of another process. Needs what ptrace(2) needs: the same user, or a user namespace that this one has made.
fn memory(thread: i32, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    let theirs = RemoteIoVec {
        base: usize::try_from(at).ok()?,
        len: length,
    };
    let read = process_vm_readv(
        NixPid::from_raw(thread),
        &mut [IoSliceMut::new(&mut bytes)],
        &[theirs],
    );
    bytes.truncate(read.ok()?);
    (!bytes.is_empty()).then_some(bytes)
}

/// `127.0.0.1:7411`; none for another family than the internet's.
fn address_of(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    let address = match i32::from(family) {
        libc::AF_INET => {
            let address: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            SocketAddr::from((Ipv4Addr::from(address), port))
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            SocketAddr::from((Ipv6Addr::from(address), port))
        }
        _ => return None,
    };
    Some(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_as_people_write_it_and_a_unix_socket_is_none() {
        let mut four = vec![2, 0, 0x1c, 0xf3, 127, 0, 0, 1];
        four.extend([0; 8]);
        assert_eq!(address_of(&four).as_deref(), Some("127.0.0.1:7411"));
        let mut six = vec![10, 0, 0x1c, 0xf3, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.extend([1, 0, 0, 0, 0]);
        assert_eq!(address_of(&six).as_deref(), Some("[::1]:7411"));
        assert_eq!(address_of(b"\x01\x00/run/x"), None);
        assert_eq!(address_of(&[2, 0, 1]), None);
    }

    #[test]
    fn a_process_reads_its_own_memory_up_to_the_zero() {
        let here = i32::try_from(std::process::id()).unwrap();
        let path = c"/a/rather/ordinary/path";
        let read = text(here, path.as_ptr() as u64).unwrap();
        assert_eq!(read, path.to_bytes());
        assert_eq!(text(here, 8), None);
        assert!(process_of(here).is_some());
    }
}

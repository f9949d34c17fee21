//! A look at the processes of the cell through `/proc` (proc(5)), and at its sockets.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::unistd::geteuid;

use super::counters::{passed, slept, wanted, written};
use super::message::{Pipe, Present};
use super::{sys, usage};
use crate::journal::{Pid, PipeEnd, Process, Secret, Socket, names_in};

/// Two lists of pids must agree, or a process forked while we looked; more tries than this is a fork bomb.
const TRIES: usize = 5;

/// What a look saw.
pub(super) struct Seen {
    pub processes: Vec<Process>,
    /// The connections to the remote that some process holds; empty unless asked for.
    pub sockets: Vec<Socket>,
}

/// What to look for.
#[derive(Clone, Copy, Default)]
pub(super) struct Sought<'a> {
    pub pipes: &'a [Pipe],
    pub secrets: &'a [Secret],
    /// The remote's port, where its connections matter.
    pub remote: Option<u16>,
}

/// Every process below `root`: its whole pid namespace where `root` is 1, its descendants otherwise.
pub(super) fn look(root: Pid, sought: Sought<'_>) -> io::Result<Seen> {
    let mut processes = Vec::new();
    let mut before = below(root)?;
    for _ in 0..TRIES {
        processes = before
            .iter()
            .filter_map(|pid| process(*pid, sought))
            .collect();
        let after = below(root)?;
        if after == before {
            break;
        }
        before = after;
    }
    join(&mut processes);
    let sockets = processes
        .iter_mut()
        .flat_map(|(_, own)| std::mem::take(&mut own.connections))
        .collect();
    let mut processes: Vec<Process> = processes.into_iter().map(|(process, _)| process).collect();
    processes.sort_by_key(|process| process.pid);
    Ok(Seen { processes, sockets })
}

/// Who reads what whom writes. A forked child may hold both ends of its parent's pipes and use neither: only an end that
/// is held alone tells.
fn join(processes: &mut [(Process, Own)]) {
    let ends: Vec<(Pid, HashSet<u64>, HashSet<u64>)> = processes
        .iter()
        .map(|(process, own)| {
            let of = |write: bool| {
                own.pipes
                    .iter()
                    .filter(|(_, writes)| *writes == write)
                    .map(|(inode, _)| *inode)
                    .collect::<HashSet<u64>>()
            };
            let (read, written) = (of(false), of(true));
            (process.pid, &read - &written, &written - &read)
        })
        .collect();
    for (process, (pid, read, _)) in processes.iter_mut().zip(&ends) {
        process.0.reads_from = ends
            .iter()
            .filter(|(other, _, written)| other != pid && !read.is_disjoint(written))
            .map(|(other, _, _)| *other)
            .collect();
        process.0.reads_from.sort_unstable();
    }
}

/// Who lives below `root`. Zombies have ended.
pub(super) fn census(root: Pid) -> io::Result<Vec<Present>> {
    let mut present: Vec<Present> = below(root)?
        .into_iter()
        .filter_map(|pid| {
            let folder = Path::new("/proc").join(pid.to_string());
            let stat = Stat::read(&folder)?;
            if stat.is_ending() {
                return None;
            }
            let cmdline = fs::read(folder.join("cmdline")).unwrap_or_default();
            Some(Present {
                pid,
                parent: stat.ppid,
                comm: stat.comm,
                command: argv(&cmdline).join(" "),
                started: stat.started,
                wanted: wanted(&folder),
                slept: (stat.state == 'R').then(|| slept(&folder)).flatten(),
                passed: passed(&folder),
            })
        })
        .collect();
    present.sort_by_key(|present| present.pid);
    Ok(present)
}

/// The pids below `root`, zombies included.
pub(super) fn below(root: Pid) -> io::Result<HashSet<Pid>> {
    if root == 1 {
        return Ok(pids()?.filter(|pid| *pid != root).collect());
    }
    if sys::lists_children() {
        let walk = || HashSet::from_iter(usage::descendants(root, usize::MAX));
        let mut seen = walk();
        // Who loses its parent in the middle of a walk is missing in it, and found in the next. While a child ends, the list
        // may be cut short (proc(5)).
        for _ in 0..TRIES {
            let again = walk();
            if again == seen {
                break;
            }
            seen = again;
        }
        // That nobody is left is worth a look at everybody.
        if !seen.is_empty() {
            return Ok(seen);
        }
    }
    let mut parents = HashMap::new();
    for pid in pids()? {
        if let Some(stat) = Stat::read(Path::new("/proc").join(pid.to_string()).as_path()) {
            parents.insert(pid, stat.ppid);
        }
    }
    let is_below = |mut pid: Pid| {
        // No chain is longer than the table.
        for _ in 0..=parents.len() {
            match parents.get(&pid) {
                Some(&ppid) if ppid == root => return true,
                Some(&ppid) if ppid > 0 => pid = ppid,
                _ => return false,
            }
        }
        false
    };
    Ok(parents
        .keys()
        .copied()
        .filter(|pid| *pid != root && is_below(*pid))
        .collect())
}

/// All pids that `/proc` shows, by rising number.
pub(super) fn pids() -> io::Result<impl Iterator<Item = Pid>> {
    Ok(fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The threads of all processes of the user that this process runs as.
pub(super) fn threads_of_user() -> io::Result<u64> {
    let user = geteuid().as_raw();
    let of_user = pids()?.filter_map(|pid| {
        let folder = Path::new("/proc").join(pid.to_string());
        let metadata = fs::metadata(&folder).ok()?;
        (metadata.uid() == user).then(|| Stat::read(&folder))?
    });
    Ok(of_user.map(|stat| stat.threads).sum())
}

/// Whether every thread of a process is stopped.
pub(super) fn is_stopped(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads
        .flatten()
        .all(|thread| Stat::read(&thread.path()).is_none_or(|stat| matches!(stat.state, 'T' | 't')))
}

/// The name of a process, also of a zombie.
pub(super) fn comm(pid: Pid) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(
        String::from_utf8_lossy(&text)
            .trim_end_matches('\n')
            .to_owned(),
    )
}

/// The fields of `/proc/PID/stat` that are looked at.
pub(super) struct Stat {
    pub comm: String,
    state: char,
    pub ppid: Pid,
    pgid: Pid,
    sid: Pid,
    pub threads: u64,
    /// In clock ticks since boot.
    pub started: u64,
    flags: u64,
    /// CPU time in clock ticks: its own, and that of the processes that it has waited for.
    pub ran: u64,
    pub ran_waited: u64,
    /// Bytes of its address space.
    pub size: u64,
    /// In pages.
    pub resident: u64,
}

impl Stat {
    /// A zombie, or on its way to become one (`PF_EXITING` of the kernel's `sched.h`): it runs no more of its program.
    fn is_ending(&self) -> bool {
        const PF_EXITING: u64 = 4;
        matches!(self.state, 'Z' | 'X') || self.flags & PF_EXITING != 0
    }

    pub fn read(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join("stat")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        // The name stands in parentheses and may itself hold any of `) (`: the last one closes it.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text[close + 1..].split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            comm: text[open + 1..close].to_owned(),
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            pgid: fields.get(2)?.parse().ok()?,
            sid: fields.get(3)?.parse().ok()?,
            threads: number(20)?,
            started: number(22)?,
            flags: number(9)?,
            ran: number(14)? + number(15)?,
            ran_waited: number(16)? + number(17)?,
            size: number(23)?,
            resident: number(24)?,
        })
    }
}

/// A process, and what it holds beside the session's pipes. `None` when it has gone meanwhile.
fn process(pid: Pid, sought: Sought<'_>) -> Option<(Process, Own)> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = Stat::read(&folder)?;
    let cmdline = fs::read(folder.join("cmdline")).unwrap_or_default();
    let environ = fs::read(folder.join("environ"));
    let held = held(&folder, sought.pipes);
    let readable = (held.is_ok() && environ.is_ok()) || {
        // What could not be read may have ended while we read it.
        let now = Stat::read(&folder)?;
        if now.started != stat.started {
            return None;
        }
        now.is_ending()
    };
    let held = held.unwrap_or_default();
    let process = Process {
        pid,
        ppid: stat.ppid,
        pgid: stat.pgid,
        sid: stat.sid,
        state: if stat.is_ending() && stat.state != 'Z' {
            'X'
        } else {
            stat.state
        },
        comm: stat.comm,
        argv: argv(&cmdline),
        started: stat.started,
        threads: stat.threads,
        descriptors: held.descriptors,
        written: written(&folder),
        wanted: wanted(&folder),
        readable,
        holds: held.ends,
        reads_from: Vec::new(),
        secrets_in_argv: names_in(sought.secrets, &cmdline),
        secrets_in_environ: names_in(sought.secrets, &environ.unwrap_or_default()),
    };
    let mut own = held.own;
    if let Some(port) = sought.remote {
        own.connections = connections(pid, &own.sockets, port);
    }
    Some((process, own))
}

fn argv(cmdline: &[u8]) -> Vec<String> {
    /// A command line may be megabytes long; what identifies a process stands at its beginning.
    const MOST_ARGUMENTS: usize = 64;
    const MOST_BYTES: usize = 512;
    let trimmed = cmdline.strip_suffix(b"\0").unwrap_or(cmdline);
    if trimmed.is_empty() {
        return Vec::new();
    }
    trimmed
        .split(|byte| *byte == 0)
        .take(MOST_ARGUMENTS)
        .map(|argument| crate::journal::excerpt(&String::from_utf8_lossy(argument), MOST_BYTES))
        .collect()
}

/// What the descriptors of a process say.
#[derive(Default)]
struct Held {
    ends: Vec<PipeEnd>,
    /// Absent where they could not be read.
    descriptors: Option<u64>,
    own: Own,
}

/// Descriptors of a process that are none of the session's pipes.
#[derive(Default)]
struct Own {
    /// Descriptor numbers.
    sockets: Vec<RawFd>,
    /// Those of the sockets that are connected to the remote; empty unless asked for.
    connections: Vec<Socket>,
    /// Inodes, and whether it is the end that is written to.
    pipes: Vec<(u64, bool)>,
}

fn held(folder: &Path, pipes: &[Pipe]) -> io::Result<Held> {
    let mut ends = HashSet::new();
    let mut count = 0;
    let mut own = Own::default();
    for entry in fs::read_dir(folder.join("fd"))? {
        let Ok(entry) = entry else { continue };
        count += 1;
        let Ok(link) = fs::read_link(entry.path()) else {
            continue;
        };
        let Some(inode) = inode(link.as_os_str().as_bytes()) else {
            continue;
        };
        let of_this: Vec<PipeEnd> = pipes
            .iter()
            .filter(|pipe| pipe.inode == inode)
            .map(|pipe| pipe.end)
            .collect();
        match of_this.as_slice() {
            [] if link.as_os_str().as_bytes().starts_with(b"socket:") => {
                let fd = entry.file_name();
                own.sockets
                    .extend(fd.to_str().and_then(|fd| fd.parse::<RawFd>().ok()));
            }
            [] => own.pipes.push((inode, writes(folder, &entry.file_name()))),
            // One end, one inode: a socketpair.
            [end] => {
                ends.insert(*end);
            }
            // Two ends share the inode of a pipe: the access mode of this descriptor tells which one it is.
            both => {
                let writes = writes(folder, &entry.file_name());
                ends.extend(both.iter().filter(|end| is_write(**end) == writes));
            }
        }
    }
    let mut ends: Vec<PipeEnd> = ends.into_iter().collect();
    ends.sort_unstable();
    Ok(Held {
        ends,
        descriptors: Some(count),
        own,
    })
}

fn is_write(end: PipeEnd) -> bool {
    matches!(
        end,
        PipeEnd::StdinWrite | PipeEnd::StdoutWrite | PipeEnd::StderrWrite
    )
}

/// Whether this descriptor was opened for writing.
fn writes(folder: &Path, descriptor: &OsStr) -> bool {
    let info = fs::read_to_string(folder.join("fdinfo").join(descriptor)).unwrap_or_default();
    opened_for_writing(&info)
}

/// `flags:` of fdinfo is octal; its last two bits are the access mode.
fn opened_for_writing(info: &str) -> bool {
    info.lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & 3 != 0)
}

/// The inode of `pipe:[123]` or `socket:[123]`.
pub(super) fn inode(link: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(link).ok()?;
    let number = text
        .strip_prefix("pipe:[")
        .or_else(|| text.strip_prefix("socket:["))?;
    number.strip_suffix(']')?.parse().ok()
}

/// Those of a process's sockets that are connected to `port`.
///
/// They are asked one by one: reading `/proc/net/tcp` makes the kernel walk the connections of the whole machine, ten
/// milliseconds on a large one.
fn connections(pid: Pid, sockets: &[RawFd], port: u16) -> Vec<Socket> {
    /// A server with more sockets than this has other troubles.
    const MOST: usize = 256;
    if sockets.is_empty() {
        return Vec::new();
    }
    let Ok(pidfd) = sys::pidfd(pid) else {
        return Vec::new();
    };
    sockets
        .iter()
        .take(MOST)
        .filter_map(|fd| sys::tcp_of(&pidfd, *fd))
        .filter(|(_, peer, _)| *peer == port)
        .map(|(local_port, remote_port, state)| Socket {
            local_port,
            remote_port,
            state: state_name(state).to_owned(),
        })
        .collect()
}

fn state_name(state: u8) -> &'static str {
    match state {
        1 => "ESTABLISHED",
        2 => "SYN_SENT",
        3 => "SYN_RECV",
        4 => "FIN_WAIT1",
        5 => "FIN_WAIT2",
        6 => "TIME_WAIT",
        7 => "CLOSE",
        8 => "CLOSE_WAIT",
        9 => "LAST_ACK",
        10 => "LISTEN",
        11 => "CLOSING",
        _ => "UNKNOWN",
    }
}

/// The local ports of the network that are in `SYN_SENT` towards `port` on the loopback.
pub(super) fn connecting(port: u16) -> Vec<u16> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| {
            let text = fs::read_to_string(table).unwrap_or_default();
            text.lines()
                .skip(1)
                .filter_map(|line| syn_sent(line, port))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// `sl local_address rem_address st …`, addresses and state in hex.
fn syn_sent(line: &str, port: u16) -> Option<u16> {
    const SYN_SENT: &str = "02";
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = port_of(fields.next()?)?;
    let remote = port_of(fields.next()?)?;
    (remote == port && fields.next()? == SYN_SENT).then_some(local)
}

pub(super) fn port_of(address: &str) -> Option<u16> {
    u16::from_str_radix(address.rsplit(':').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_attempt_is_read_from_its_line() {
        let line = "   0: 0100007F:9C40 0100007F:1CF3 02 00000000:00000001 01:00000020 00000002     0        0 0 2";
        assert_eq!(syn_sent(line, 7411), Some(40000));
        assert_eq!(syn_sent(line, 80), None);
        assert_eq!(syn_sent(&line.replace(" 02 0", " 01 0"), 7411), None);
    }

    #[test]
    fn a_half_closed_connection_of_a_child_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ours = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        drop(listener.accept().unwrap());
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .stdin(std::os::fd::OwnedFd::from(ours.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let pid = Pid::try_from(child.id()).unwrap();
        let seen = connections(pid, &[0], port);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].state, "CLOSE_WAIT");
    }

    #[test]
    fn the_access_mode_tells_the_ends_of_a_pipe_apart() {
        assert!(opened_for_writing(
            "pos:\t0\nflags:\t02000001\nmnt_id:\t15\n"
        ));
        assert!(!opened_for_writing(
            "pos:\t0\nflags:\t02000000\nmnt_id:\t15\n"
        ));
    }

    #[test]
    fn a_look_sees_a_child_of_this_process_and_what_it_holds() {
        use std::os::fd::AsFd as _;
        let (reader, writer) = std::io::pipe().unwrap();
        let inode = nix::sys::stat::fstat(reader.as_fd()).unwrap().st_ino;
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env_clear()
            .env("TOKEN", "drill-5ec2e7")
            .stdin(reader)
            .spawn()
            .unwrap();
        let pipes = [
            Pipe {
                end: PipeEnd::StdinRead,
                inode,
            },
            Pipe {
                end: PipeEnd::StdinWrite,
                inode,
            },
        ];
        let secret = Secret {
            name: "token".to_owned(),
            forms: vec!["drill-5ec2e7".to_owned()],
        };
        let me = Pid::try_from(std::process::id()).unwrap();
        let seen = look(
            me,
            Sought {
                pipes: &pipes,
                secrets: &[secret],
                remote: None,
            },
        )
        .unwrap();
        let sleep = seen
            .processes
            .iter()
            .find(|process| process.pid.cast_unsigned() == child.id())
            .unwrap();
        assert_eq!(sleep.holds, [PipeEnd::StdinRead]);
        assert_eq!(sleep.secrets_in_environ, ["token"]);
        drop(writer);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

//! A look at the processes of the cell through `/proc` (proc(5)), and at its sockets.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::message::{Pipe, Present};
use crate::journal::{Pid, PipeEnd, Process, Secret, Socket, names_in};

/// Two lists of pids must agree, or a process forked while we looked; more tries than this is a fork bomb.
const TRIES: usize = 5;

/// What a look saw.
pub(super) struct Seen {
    pub processes: Vec<Process>,
    /// The inodes of sockets that some process holds and that are none of the session's pipes.
    pub sockets: HashSet<u64>,
}

/// Every process below `root`: its whole pid namespace where `root` is 1, its descendants otherwise.
pub(super) fn look(root: Pid, pipes: &[Pipe], secrets: &[Secret]) -> io::Result<Seen> {
    let mut processes = Vec::new();
    let mut before = below(root)?;
    for _ in 0..TRIES {
        processes = before
            .iter()
            .filter_map(|pid| process(*pid, pipes, secrets))
            .collect();
        let after = below(root)?;
        if after == before {
            break;
        }
        before = after;
    }
    let sockets = processes
        .iter()
        .flat_map(|(_, own)| &own.sockets)
        .copied()
        .collect();
    join(&mut processes);
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
                comm: stat.comm,
                command: argv(&cmdline).join(" "),
                started: stat.started,
                wanted: wanted(&folder),
            })
        })
        .collect();
    present.sort_by_key(|present| present.pid);
    Ok(present)
}

/// The pids below `root`, zombies included.
pub(super) fn below(root: Pid) -> io::Result<HashSet<Pid>> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<Pid>().ok())
        else {
            continue;
        };
        if let Some(stat) = Stat::read(Path::new("/proc").join(pid.to_string()).as_path()) {
            parents.insert(pid, stat.ppid);
        }
    }
    if root == 1 {
        parents.remove(&1);
        return Ok(parents.into_keys().collect());
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
struct Stat {
    comm: String,
    state: char,
    ppid: Pid,
    pgid: Pid,
    sid: Pid,
    threads: u64,
    started: u64,
    flags: u64,
}

impl Stat {
    /// A zombie, or on its way to become one (`PF_EXITING` of the kernel's `sched.h`): it runs no more of its program.
    fn is_ending(&self) -> bool {
        const PF_EXITING: u64 = 4;
        matches!(self.state, 'Z' | 'X') || self.flags & PF_EXITING != 0
    }

    fn read(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join("stat")).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        // The name stands in parentheses and may itself hold any of `) (`: the last one closes it.
        let (open, close) = (text.find('(')?, text.rfind(')')?);
        let fields: Vec<&str> = text[close + 1..].split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        Some(Self {
            comm: text[open + 1..close].to_owned(),
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            pgid: fields.get(2)?.parse().ok()?,
            sid: fields.get(3)?.parse().ok()?,
            threads: number(20)?,
            started: number(22)?,
            flags: number(9)?,
        })
    }
}

/// A process, and what it holds beside the session's pipes. `None` when it has gone meanwhile.
fn process(pid: Pid, pipes: &[Pipe], secrets: &[Secret]) -> Option<(Process, Own)> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = Stat::read(&folder)?;
    let cmdline = fs::read(folder.join("cmdline")).unwrap_or_default();
    let environ = fs::read(folder.join("environ"));
    let held = held(&folder, pipes);
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
        secrets_in_argv: names_in(secrets, &cmdline),
        secrets_in_environ: names_in(secrets, &environ.unwrap_or_default()),
    };
    Some((process, held.own))
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
    /// Inodes.
    sockets: Vec<u64>,
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
            [] if link.as_os_str().as_bytes().starts_with(b"socket:") => own.sockets.push(inode),
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
fn inode(link: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(link).ok()?;
    let number = text
        .strip_prefix("pipe:[")
        .or_else(|| text.strip_prefix("socket:["))?;
    number.strip_suffix(']')?.parse().ok()
}

/// `wchar` of `/proc/PID/io`.
fn written(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("io")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("wchar:"))?
        .trim()
        .parse()
        .ok()
}

/// Time on the CPU plus time waiting for it, ns, over all threads: `/proc/PID/schedstat` is the leader's alone.
fn wanted(folder: &Path) -> u64 {
    let Ok(tasks) = fs::read_dir(folder.join("task")) else {
        return 0;
    };
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .map(|text| {
            text.split_ascii_whitespace()
                .take(2)
                .filter_map(|n| n.parse::<u64>().ok())
                .sum::<u64>()
        })
        .sum()
}

/// The sockets of the cell's network whose peer is `port` on the loopback, by their inodes.
///
/// Slow: the kernel walks the hash table of the whole machine for it, ten milliseconds on a large one.
pub(super) fn sockets(port: u16) -> Vec<(u64, Socket)> {
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        sockets.extend(text.lines().skip(1).filter_map(|line| socket(line, port)));
    }
    sockets
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`, addresses in hex.
fn socket(line: &str, port: u16) -> Option<(u64, Socket)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local_port = port_of(fields.next()?)?;
    let remote_port = port_of(fields.next()?)?;
    let state = match fields.next()? {
        "01" => "ESTABLISHED",
        "02" => "SYN_SENT",
        "03" => "SYN_RECV",
        "04" => "FIN_WAIT1",
        "05" => "FIN_WAIT2",
        "06" => "TIME_WAIT",
        "07" => "CLOSE",
        "08" => "CLOSE_WAIT",
        "09" => "LAST_ACK",
        "0A" => "LISTEN",
        "0B" => "CLOSING",
        other => other,
    };
    let inode = fields.nth(5)?.parse().ok()?;
    let socket = Socket {
        local_port,
        remote_port,
        state: state.to_owned(),
    };
    (remote_port == port).then_some((inode, socket))
}

fn port_of(address: &str) -> Option<u16> {
    u16::from_str_radix(address.rsplit(':').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_line_gives_ports_and_state() {
        let line = "   0: 0100007F:9C40 0100007F:1CF3 08 00000000:00000000 00:00000000 00000000     0        0 1234 1";
        let (inode, seen) = socket(line, 7411).unwrap();
        assert_eq!(inode, 1234);
        assert_eq!(
            (seen.local_port, seen.state.as_str()),
            (40000, "CLOSE_WAIT")
        );
        assert!(socket(line, 80).is_none());
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
        let seen = look(me, &pipes, &[secret]).unwrap();
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

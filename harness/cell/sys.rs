//! The system calls that need `unsafe`: the smallest blocks, each with the reason why it is sound.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::LazyLock;

use nix::libc;
use nix::sys::socket::{
    SockType, SockaddrIn, SockaddrIn6, SockaddrStorage, getpeername, getsockname, getsockopt,
    sockopt,
};
use nix::sys::utsname::uname;
use nix::unistd::{SysconfVar, sysconf};

/// Takes ownership of a descriptor that the kernel has just installed in this process.
pub(super) fn own(raw: RawFd) -> OwnedFd {
    // SAFETY: `recvmsg` with SCM_RIGHTS has made this descriptor for us, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// What `fork` returned, in a process that has one thread.
pub(super) enum Fork {
    Parent(i32),
    Child,
}

/// Forks. The caller must have one thread: the child may then do whatever the parent could.
pub(super) fn fork_single_threaded() -> nix::Result<Fork> {
    // SAFETY: the process has a single thread (a cell starts none before this), so no lock can be held by a thread that
    // does not exist in the child.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(Fork::Parent(child.as_raw())),
        nix::unistd::ForkResult::Child => Ok(Fork::Child),
    }
}

/// The kernel counts CPU time in these towards programs (`USER_HZ` of proc(5)).
pub(super) fn ticks_to_ns(ticks: u64) -> u64 {
    static PER_SECOND: LazyLock<u64> = LazyLock::new(|| configured(SysconfVar::CLK_TCK, 100));
    ticks.saturating_mul(1_000_000_000 / *PER_SECOND)
}

pub(super) fn pages_to_bytes(pages: u64) -> u64 {
    static SIZE: LazyLock<u64> = LazyLock::new(|| configured(SysconfVar::PAGE_SIZE, 4096));
    pages.saturating_mul(*SIZE)
}

fn configured(what: SysconfVar, usual: u64) -> u64 {
    let value = sysconf(what).ok().flatten();
    value
        .and_then(|value| u64::try_from(value).ok())
        .filter(|value| *value > 0)
        .unwrap_or(usual)
}

/// Whether the kernel lists the children of a process (`CONFIG_PROC_CHILDREN`).
pub(super) fn lists_children() -> bool {
    static LISTS: LazyLock<bool> =
        LazyLock::new(|| Path::new("/proc/thread-self/children").exists());
    *LISTS
}

/// Whether the kernel is at least this one.
pub(super) fn kernel_is_at_least(wanted: (u32, u32)) -> bool {
    let Ok(name) = uname() else { return false };
    let release = name.release().to_string_lossy();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse::<u32>().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    version.is_some_and(|version| version >= wanted)
}

/// Whether two processes have one and the same memory, as a child has between vfork(2) and execve(2). `None` where the
/// kernel does not tell (kcmp(2)).
pub(super) fn have_one_memory(one: i32, other: i32) -> Option<bool> {
    const KCMP_VM: i32 = 1;
    // SAFETY: the call takes five integers, of which the last two mean nothing here.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) } {
        -1 => None,
        order => Some(order == 0),
    }
}

/// Lets the calling thread run before all others that want to, where that is allowed, and more than they otherwise.
pub(super) fn run_first() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads a `sched_param`, which outlives it. The C library's own function may refuse to speak of one
    // thread alone, so it is not used.
    let is_first = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_RR | libc::SCHED_RESET_ON_FORK,
            &raw const lowest,
        )
    } == 0;
    if !is_first {
        const MOST: i32 = -20;
        // SAFETY: the call takes three integers. On Linux it is about the calling thread (setpriority(2)).
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, MOST) };
    }
}

/// A descriptor that becomes readable when the process ends (Linux 5.3).
pub(super) fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two integers and returns a new descriptor or -1.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let raw = RawFd::try_from(raw).map_err(io::Error::other)?;
    if raw < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(own(raw))
    }
}

/// The version of Landlock, where it is switched on (`landlock_create_ruleset(2)`).
pub(super) fn landlock_version() -> Option<u32> {
    const OF_VERSION: u32 = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call reads no memory, and returns a number or -1.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, OF_VERSION) };
    u32::try_from(version).ok()
}

/// Brings the loopback interface of the current network namespace up and returns its index.
pub(super) fn loopback_up() -> io::Result<i32> {
    let socket = tcp_socket()?;
    // SAFETY: an all-zero `ifreq` is valid: an empty name and a zero union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = (*from).cast_signed();
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`, which outlives the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFINDEX writes the index into the `ifreq`, which outlives the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just written this field of the union.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// A packet socket on `interface` that receives the first packet of each TCP connection attempt over IPv4 (SYN without
/// ACK), resets, and nothing else.
pub(super) fn syn_socket(interface: i32) -> io::Result<OwnedFd> {
    // Ethernet type IPv4; protocol TCP; not a later fragment; flags RST, or SYN and not ACK.
    packet_socket(
        interface,
        &mut [
            instruction(LOAD_16, 0, 0, 12),
            instruction(IS_EQUAL, 0, 10, 0x0800),
            instruction(LOAD_8, 0, 0, 23),
            instruction(IS_EQUAL, 0, 8, 6),
            instruction(LOAD_16, 0, 0, 20),
            instruction(HAS_BITS, 6, 0, 0x1fff),
            instruction(SKIP_IP, 0, 0, 14),
            instruction(LOAD_8_BEHIND_IP, 0, 0, 27),
            instruction(HAS_BITS, 2, 0, 0x04),
            instruction(AND, 0, 0, 0x12),
            instruction(IS_EQUAL, 0, 1, 0x02),
            instruction(RETURN, 0, 0, 0xffff),
            instruction(RETURN, 0, 0, 0),
        ],
    )
}

/// A packet socket on `interface` that receives what a process sends over IPv4 to reach somebody, once and on its way out:
/// the first packet of each TCP connection attempt, the kernel's refusals of those, and UDP besides the DNS and the loopback.
/// Attempts at the port `remote` of the loopback are left out: others see them.
#[expect(
    clippy::cast_sign_loss,
    reason = "the kernel takes these offsets as the two's complement that they are"
)]
pub(super) fn contact_socket(interface: i32, remote: u16) -> io::Result<OwnedFd> {
    const OUTGOING: u32 = 4;
    let remote = u32::from(remote);
    packet_socket(
        interface,
        &mut [
            instruction(
                LOAD_32,
                0,
                0,
                (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32,
            ),
            instruction(IS_EQUAL, 0, 25, OUTGOING),
            instruction(LOAD_16, 0, 0, 12),
            instruction(IS_EQUAL, 0, 23, 0x0800),
            instruction(LOAD_16, 0, 0, 20),
            instruction(HAS_BITS, 21, 0, 0x1fff),
            instruction(SKIP_IP, 0, 0, 14),
            instruction(LOAD_8, 0, 0, 23),
            instruction(IS_EQUAL, 1, 0, 6),
            instruction(IS_EQUAL, 10, 17, 17),
            // TCP: SYN alone, or RST and ACK, which is how the kernel refuses; on the loopback not from or to the remote.
            instruction(LOAD_8_BEHIND_IP, 0, 0, 27),
            instruction(AND, 0, 0, 0x16),
            instruction(IS_EQUAL, 1, 0, 0x02),
            instruction(IS_EQUAL, 0, 13, 0x14),
            instruction(LOAD_8, 0, 0, 30),
            instruction(IS_EQUAL, 0, 8, 127),
            instruction(LOAD_16_BEHIND_IP, 0, 0, 14),
            instruction(IS_EQUAL, 9, 0, remote),
            instruction(LOAD_16_BEHIND_IP, 0, 0, 16),
            instruction(IS_EQUAL, 7, 6, remote),
            // UDP, but for the loopback; neither to port 53, which the resolver has.
            instruction(LOAD_8, 0, 0, 30),
            instruction(IS_EQUAL, 5, 0, 127),
            instruction(LOAD_16_BEHIND_IP, 0, 0, 14),
            instruction(IS_EQUAL, 3, 0, 53),
            instruction(LOAD_16_BEHIND_IP, 0, 0, 16),
            instruction(IS_EQUAL, 1, 0, 53),
            instruction(RETURN, 0, 0, 128),
            instruction(RETURN, 0, 0, 0),
        ],
    )
}

const LOAD_8: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_16: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_32: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
/// Four times the low half of a byte, which is the length of an IPv4 header, into the index.
const SKIP_IP: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const LOAD_8_BEHIND_IP: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
const LOAD_16_BEHIND_IP: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const IS_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const HAS_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// `yes` and `no`: how many instructions are skipped.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the kernel's codes fit the narrower field that it gives them"
)]
fn instruction(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}

/// A packet socket that receives what the filter lets through.
#[expect(
    clippy::cast_possible_truncation,
    reason = "constants and sizes of the kernel's interface, which fit the narrower fields that it gives them"
)]
fn packet_socket(interface: i32, program: &mut [libc::sock_filter]) -> io::Result<OwnedFd> {
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the call takes three integers and returns a new descriptor or -1.
    let raw = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            // Nothing is received before the filter and the interface are set.
            0,
        )
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    let socket = own(raw);
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: SO_ATTACH_FILTER reads a `sock_fprog` and the program it points to; both outlive the call.
    let attached = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if attached < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an all-zero `sockaddr_ll` is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
    address.sll_ifindex = interface;
    // SAFETY: `bind` reads a `sockaddr_ll` of the given length, which outlives the call.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(socket)
    }
}

/// A TCP socket over IPv4, neither bound nor connected.
pub(super) fn tcp_socket() -> io::Result<OwnedFd> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    Ok(socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?)
}

/// Listens on 127.0.0.1 with a queue of one: while one connection waits in it, the kernel drops further SYNs, and a
/// connecting server stays in `SYN_SENT`. `port` 0 takes any.
pub(super) fn listen_with_short_queue(port: u16) -> io::Result<TcpListener> {
    use nix::sys::socket::{Backlog, SockaddrIn, bind, listen, setsockopt, sockopt::ReuseAddr};
    let socket = tcp_socket()?;
    setsockopt(&socket, ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port))?;
    // `listen(fd, 0)`: the kernel accepts one connection more than the backlog.
    listen(&socket, Backlog::new(0)?)?;
    Ok(TcpListener::from(socket))
}

/// A descriptor of another process, once more in this one; `None` where that may not be (`pidfd_getfd(2)`).
fn taken_from(pidfd: &OwnedFd, fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: the call takes three integers and returns a new descriptor or -1.
    let raw = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0) };
    RawFd::try_from(raw).ok().filter(|raw| *raw >= 0).map(own)
}

fn port_of(address: &SockaddrStorage) -> Option<u16> {
    let v4 = address.as_sockaddr_in().map(SockaddrIn::port);
    v4.or_else(|| address.as_sockaddr_in6().map(SockaddrIn6::port))
}

/// A socket of another process: its kind and its own port. `None` for one without a port.
pub(super) fn kind_and_port(pidfd: &OwnedFd, fd: RawFd) -> Option<(SockType, u16)> {
    let socket = taken_from(pidfd, fd)?;
    let port = port_of(&getsockname(socket.as_raw_fd()).ok()?)?;
    Some((getsockopt(&socket, sockopt::SockType).ok()?, port))
}

/// A TCP socket of another process: the ports of both ends and the state by its number in the kernel's `tcp_states.h`.
/// `None` for a socket of another kind, one without a peer, or one that this process may not see.
pub(super) fn tcp_of(pidfd: &OwnedFd, fd: RawFd) -> Option<(u16, u16, u8)> {
    let socket = taken_from(pidfd, fd)?;
    let local = port_of(&getsockname(socket.as_raw_fd()).ok()?)?;
    let peer = port_of(&getpeername(socket.as_raw_fd()).ok()?)?;
    let mut state = 0_u8;
    let mut length: libc::socklen_t = 1;
    // SAFETY: TCP_INFO writes at most `length` bytes of its structure, whose first byte is the state, into `state`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut state).cast(),
            &raw mut length,
        )
    };
    (got == 0).then_some((local, peer, state))
}

/// How many bytes in a pipe nobody has read, whichever end this is (pipe(7)).
pub(crate) fn unread_in_pipe(pipe: BorrowedFd<'_>) -> io::Result<u64> {
    ask_int(pipe, libc::FIONREAD)
}

/// How much of what was written to this end of a socket pair its peer has not read, with the kernel's own overhead
/// (unix(7)).
pub(crate) fn unread_in_socket(socket: BorrowedFd<'_>) -> io::Result<u64> {
    ask_int(socket, libc::TIOCOUTQ)
}

/// An ioctl(2) that answers with an int.
fn ask_int(fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<u64> {
    let mut answer: libc::c_int = 0;
    // SAFETY: both requests that come here write one int, into one that outlives the call.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut answer) };
    if asked < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(answer).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_as_old_as_it_is() {
        // pidfd_getfd(2), which the cell needs, came with 5.6.
        assert!(kernel_is_at_least((5, 6)));
        assert!(!kernel_is_at_least((1000, 0)));
    }
}

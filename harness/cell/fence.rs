//! The fence around the server where the network is the host's: it can connect to the remote, and to nothing else.
//!
//! ```text
//!   shim ── Landlock: TCP to these ports ── seccomp: no other kind of socket ── execve ──► server ──► its children
//! ```
//!
//! Each closes what the other leaves open. Landlock knows the ports of TCP; multipath TCP, and a connection that is opened
//! by its first data (`MSG_FASTOPEN`), pass it by. The filter of system calls sees no addresses, so it refuses a kind of
//! socket as a whole, and with it `io_uring`, which makes sockets that no filter sees.
//!
//! What stays open: Unix sockets of the host, sockets of netlink, which a resolver asks for the machine's addresses, and
//! listening. The process cannot gain privileges by a setuid program any more, and can trace nobody outside.

use std::io;

use landlock::{
    AccessNet, CompatLevel, Compatible as _, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use nix::errno::Errno;
use nix::libc;
use serde::{Deserialize, Serialize};

use super::seccomp::{Filter, Rule, Verdict, can_filter};
use super::sys::landlock_version;

/// Rules for TCP ports came with this version of Landlock, in Linux 6.7 (landlock(7)).
const WITH_PORTS: u32 = 4;

/// How to do without a fence.
const REMEDY: &str = "Allow namespaces (`sysctl -w kernel.unprivileged_userns_clone=1` or `sysctl -w \
     kernel.apparmor_restrict_unprivileged_userns=0`; in Docker `--security-opt seccomp=unconfined --cap-add SYS_ADMIN`), \
     or, where the server may reach the host's network, say `server: { network: open }` in the drill";

/// The ports that a process may connect to, on whatever host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    ports: Vec<u16>,
}

/// What the kernel has for a fence.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    /// Absent where there is no Landlock, or it is not switched on.
    landlock: Option<u32>,
    can_filter: bool,
}

impl Kernel {
    fn of_this_machine() -> Self {
        Self {
            landlock: landlock_version(),
            can_filter: can_filter(),
        }
    }

    /// Why there can be no fence.
    fn lacks(self) -> Option<String> {
        match self {
            Self { landlock: None, .. } => Some("this kernel has no Landlock".to_owned()),
            Self {
                landlock: Some(version),
                ..
            } if version < WITH_PORTS => Some(format!(
                "this kernel's Landlock has version {version}, and rules for TCP ports need {WITH_PORTS} (Linux 6.7)"
            )),
            Self {
                can_filter: false, ..
            } => Some("no filter of system calls can be installed here".to_owned()),
            Self { .. } => None,
        }
    }
}

/// Fails where this machine can make no fence. The sentence says what to do.
pub(super) fn check() -> Result<(), String> {
    checked(Kernel::of_this_machine())
}

fn checked(kernel: Kernel) -> Result<(), String> {
    match kernel.lacks() {
        None => Ok(()),
        Some(because) => Err(format!(
            "without namespaces nothing keeps the server from the host's network: {because}. {REMEDY}"
        )),
    }
}

impl Fence {
    pub fn around(ports: impl IntoIterator<Item = u16>) -> Self {
        let mut ports: Vec<u16> = ports.into_iter().collect();
        ports.sort_unstable();
        ports.dedup();
        Self { ports }
    }

    /// The same, with these ports besides.
    #[must_use]
    pub fn with(&self, ports: impl IntoIterator<Item = u16>) -> Self {
        Self::around(self.ports.iter().copied().chain(ports))
    }

    /// Puts this process, which has one thread, and all that it starts behind the fence. Nothing takes it away.
    pub fn enter(&self) -> io::Result<()> {
        let failed = |error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("the server could not be kept from the host's network: {error}. {REMEDY}"),
            )
        };
        self.restrict_ports().map_err(failed)?;
        let filter = Filter::new(FOREIGN).and_then(only_tcp).map_err(failed)?;
        filter.install().map_err(failed)
    }

    fn restrict_ports(&self) -> io::Result<()> {
        let rules = self
            .ports
            .iter()
            .map(|port| Ok(NetPort::new(*port, AccessNet::ConnectTcp)));
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessNet::ConnectTcp)
            .and_then(Ruleset::create)
            .and_then(|ruleset| ruleset.add_rules(rules))
            .and_then(landlock::RulesetCreated::restrict_self)
            .map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::FullyEnforced {
            Ok(())
        } else {
            Err(io::Error::other("Landlock was not enforced"))
        }
    }
}

/// A 32-bit program has other numbers for the same calls, and one call for all of sockets.
const FOREIGN: Verdict = Verdict::Fail(Errno::ENOSYS);

/// As a kernel answers that does not have it: runtimes look for these to do without.
const NO_FAMILY: Verdict = Verdict::Fail(Errno::EAFNOSUPPORT);
const NO_PROTOCOL: Verdict = Verdict::Fail(Errno::EPROTONOSUPPORT);
const NO_FAST_OPEN: Verdict = Verdict::Fail(Errno::EOPNOTSUPP);
const NO_RING: Verdict = Verdict::Fail(Errno::ENOSYS);

/// Of the internet TCP alone, as one connects or listens with it.
fn only_tcp(filter: Filter) -> io::Result<Filter> {
    /// The type of a socket without `SOCK_NONBLOCK` and `SOCK_CLOEXEC` (`SOCK_TYPE_MASK` of the kernel's net.h).
    const TYPE: u32 = 0xf;
    let word = i32::cast_unsigned;
    let socket = Rule::default()
        .argument(0)
        .if_equal(word(libc::AF_UNIX), Verdict::Pass)
        .if_equal(word(libc::AF_NETLINK), Verdict::Pass)
        .unless_either([word(libc::AF_INET), word(libc::AF_INET6)], NO_FAMILY)
        .argument(1)
        .mask(TYPE)
        .unless_either([word(libc::SOCK_STREAM); 2], NO_PROTOCOL)
        .argument(2)
        .unless_either([0, word(libc::IPPROTO_TCP)], NO_PROTOCOL);
    let without_fast_open = |flags| {
        Rule::default()
            .argument(flags)
            .if_any_bit(word(libc::MSG_FASTOPEN), NO_FAST_OPEN)
    };
    filter
        .on(libc::SYS_socket, socket)?
        .on(libc::SYS_sendto, without_fast_open(3))?
        .on(libc::SYS_sendmsg, without_fast_open(2))?
        .on(libc::SYS_sendmmsg, without_fast_open(3))?
        .on(libc::SYS_io_uring_setup, Rule::always(NO_RING))?
        .on(libc::SYS_io_uring_enter, Rule::always(NO_RING))?
        .on(libc::SYS_io_uring_register, Rule::always(NO_RING))
}

#[cfg(test)]
mod tests {
    use super::super::seccomp::tests::{ARCH, I386};
    use super::*;

    fn decides(number: i64, arguments: [i32; 4]) -> u32 {
        let [a, b, c, d] = arguments.map(|argument| u64::from(argument.cast_unsigned()));
        let filter = only_tcp(Filter::for_test(FOREIGN)).unwrap();
        filter.decides(ARCH, number, [a, b, c, d, 0, 0])
    }

    fn socket(family: i32, kind: i32, protocol: i32) -> u32 {
        decides(libc::SYS_socket, [family, kind, protocol, 0])
    }

    #[test]
    fn tcp_and_what_a_runtime_needs_besides_pass() {
        let passes = Verdict::Pass.as_told();
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert_eq!(socket(family, libc::SOCK_STREAM, 0), passes);
            let named = socket(family, libc::SOCK_STREAM | flags, libc::IPPROTO_TCP);
            assert_eq!(named, passes);
        }
        assert_eq!(socket(libc::AF_UNIX, libc::SOCK_DGRAM | flags, 0), passes);
        assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW, 0), passes);
        let no_signal = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        assert_eq!(decides(libc::SYS_sendto, [3, 0, 9, no_signal]), passes);
        assert_eq!(decides(libc::SYS_sendmsg, [3, 0, no_signal, 0]), passes);
        assert_eq!(decides(libc::SYS_connect, [3, 0, 16, 0]), passes);
    }

    #[test]
    fn every_other_kind_of_socket_is_refused() {
        for family in [libc::AF_INET, libc::AF_INET6] {
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET] {
                let flags = libc::SOCK_CLOEXEC;
                assert_eq!(socket(family, kind | flags, 0), NO_PROTOCOL.as_told());
            }
            for protocol in [libc::IPPROTO_MPTCP, libc::IPPROTO_SCTP, 256] {
                let refused = socket(family, libc::SOCK_STREAM, protocol);
                assert_eq!(refused, NO_PROTOCOL.as_told());
            }
        }
        for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, 43, 44, -1] {
            let refused = socket(family, libc::SOCK_STREAM, 0);
            assert_eq!(refused, NO_FAMILY.as_told(), "{family}");
        }
    }

    #[test]
    fn the_ways_past_connect_are_closed() {
        let refused = NO_FAST_OPEN.as_told();
        let fast = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL;
        assert_eq!(decides(libc::SYS_sendto, [3, 0, 9, fast]), refused);
        assert_eq!(decides(libc::SYS_sendmsg, [3, 0, fast, 0]), refused);
        assert_eq!(decides(libc::SYS_sendmmsg, [3, 0, 1, fast]), refused);
        assert_eq!(
            decides(libc::SYS_io_uring_setup, [8, 0, 0, 0]),
            NO_RING.as_told()
        );
        let filter = only_tcp(Filter::for_test(FOREIGN)).unwrap();
        assert_eq!(
            filter.decides(I386, libc::SYS_read, [0; 6]),
            FOREIGN.as_told()
        );
    }

    #[test]
    fn a_fence_needs_rules_for_ports_and_a_filter() {
        let kernel = |landlock, can_filter| {
            checked(Kernel {
                landlock,
                can_filter,
            })
        };
        assert_eq!(kernel(Some(4), true), Ok(()));
        assert_eq!(kernel(Some(10), true), Ok(()));
        for (landlock, can_filter, because) in [
            (None, true, "no Landlock"),
            (Some(3), true, "version 3"),
            (Some(7), false, "no filter"),
        ] {
            let refused = kernel(landlock, can_filter).unwrap_err();
            for words in [
                because,
                "kernel.unprivileged_userns_clone=1",
                "kernel.apparmor_restrict_unprivileged_userns=0",
                "--security-opt seccomp=unconfined",
                "network: open",
            ] {
                assert!(refused.contains(words), "{words}: {refused}");
            }
        }
    }
}

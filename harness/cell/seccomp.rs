//! Programs for the kernel's filter of system calls (seccomp(2)): what a process may call, and about what somebody is asked.
//!
//! A filter sees numbers alone, never what a pointer leads to. It is inherited by all that the process starts, and never
//! taken away.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc::{self, c_long, c_ulong, sock_filter};

use super::sys::own;

/// `AUDIT_ARCH_…` of linux/audit.h, where the numbers of the system calls are known here.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};

/// Numbers from here on are those of x32, which has calls of its own on an x86-64 kernel.
const X32: u32 = 0x4000_0000;

/// Where `struct seccomp_data` has the number, the architecture, and the lower half of the first argument.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const MASK: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const HAS_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Whether a filter that refuses calls can be made here.
pub(super) fn can_filter() -> bool {
    let refusal = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call reads one u32, which outlives it.
    let is_known = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const refusal,
        )
    } == 0;
    ARCHITECTURE.is_some() && is_known
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// The process waits until whoever serves the listener has answered.
    Ask,
    Fail(Errno),
}

impl Verdict {
    fn value(self) -> u32 {
        match self {
            Self::Pass => libc::SECCOMP_RET_ALLOW,
            Self::Ask => libc::SECCOMP_RET_USER_NOTIF,
            Self::Fail(errno) => libc::SECCOMP_RET_ERRNO | (errno as i32).cast_unsigned(),
        }
    }
}

/// A program. What it does not name passes.
pub(super) struct Filter {
    steps: Vec<sock_filter>,
}

/// The part of a program that is about one call. What it does not decide passes.
#[derive(Default)]
pub(super) struct Rule {
    steps: Vec<(u32, u8, u8, u32)>,
}

impl Rule {
    /// About the call as such, whatever its arguments.
    pub fn always(verdict: Verdict) -> Self {
        Self::default().step(RETURN, 0, 0, verdict.value())
    }

    /// Turns to this argument, from 0: the lower half of it, which is all of an int.
    pub fn argument(self, nth: u32) -> Self {
        self.step(LOAD, 0, 0, ARGUMENTS_AT + 8 * nth)
    }

    /// Forgets all other bits of the argument.
    pub fn mask(self, bits: u32) -> Self {
        self.step(MASK, 0, 0, bits)
    }

    /// Decides where the argument is this.
    pub fn if_equal(self, value: u32, verdict: Verdict) -> Self {
        self.step(EQUAL, 0, 1, value)
            .step(RETURN, 0, 0, verdict.value())
    }

    /// Decides where the argument is neither of these.
    pub fn unless_either(self, [one, other]: [u32; 2], verdict: Verdict) -> Self {
        self.step(EQUAL, 2, 0, one)
            .step(EQUAL, 1, 0, other)
            .step(RETURN, 0, 0, verdict.value())
    }

    /// Decides where the argument has any of these bits.
    pub fn if_any_bit(self, bits: u32, verdict: Verdict) -> Self {
        self.step(HAS_BITS, 0, 1, bits)
            .step(RETURN, 0, 0, verdict.value())
    }

    fn step(mut self, code: u32, jt: u8, jf: u8, k: u32) -> Self {
        self.steps.push((code, jt, jf, k));
        self
    }
}

impl Filter {
    /// For this machine. `foreign`: what becomes of calls of another architecture, whose numbers mean something else.
    pub fn new(foreign: Verdict) -> io::Result<Self> {
        let architecture = ARCHITECTURE.ok_or_else(|| {
            io::Error::other("the numbers of this architecture's system calls are not known here")
        })?;
        Self::of(architecture, foreign)
    }

    fn of(architecture: u32, foreign: Verdict) -> io::Result<Self> {
        let steps = vec![
            instruction(LOAD, 0, 0, ARCHITECTURE_AT)?,
            instruction(EQUAL, 1, 0, architecture)?,
            instruction(RETURN, 0, 0, foreign.value())?,
            instruction(LOAD, 0, 0, NUMBER_AT)?,
            instruction(AT_LEAST, 0, 1, X32)?,
            instruction(RETURN, 0, 0, foreign.value())?,
        ];
        Ok(Self { steps })
    }

    /// Adds what becomes of the call with this number.
    pub fn on(mut self, number: c_long, rule: Rule) -> io::Result<Self> {
        let number = u32::try_from(number).map_err(io::Error::other)?;
        let beyond = u8::try_from(rule.steps.len() + 1).map_err(io::Error::other)?;
        self.steps.push(instruction(EQUAL, 0, beyond, number)?);
        for (code, jt, jf, k) in rule.steps {
            self.steps.push(instruction(code, jt, jf, k)?);
        }
        // An argument may have been loaded, so the number is not compared any more.
        self.steps.push(pass()?);
        Ok(self)
    }

    /// From now on the filter holds for this process and its children.
    pub fn install(self) -> io::Result<()> {
        self.install_with(0).map(drop)
    }

    /// The same, and returns the descriptor on which its calls are told. Everything that is asked about waits until that
    /// is served.
    pub fn install_with_listener(self, flags: c_ulong) -> io::Result<OwnedFd> {
        let raw = self.install_with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | flags)?;
        let raw = RawFd::try_from(raw).map_err(io::Error::other)?;
        Ok(own(raw))
    }

    fn install_with(mut self, flags: c_ulong) -> io::Result<c_long> {
        self.steps.push(pass()?);
        // An ordinary user may install a filter only where no program that is started can gain privileges (seccomp(2)).
        nix::sys::prctl::set_no_new_privs()?;
        let filter = libc::sock_fprog {
            len: u16::try_from(self.steps.len()).map_err(io::Error::other)?,
            filter: self.steps.as_mut_ptr(),
        };
        // SAFETY: the call reads a `sock_fprog` and the program it points to, which both outlive it, and returns 0, a new
        // descriptor, or -1.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const filter,
            )
        };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(answer)
        }
    }
}

fn pass() -> io::Result<sock_filter> {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW)
}

fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> io::Result<sock_filter> {
    Ok(sock_filter {
        code: u16::try_from(code).map_err(io::Error::other)?,
        jt,
        jf,
        k,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub const ARCH: u32 = 0xC000_003E;
    pub const I386: u32 = 0x4000_0003;

    impl Filter {
        /// For x86-64, whatever this machine is.
        pub fn for_test(foreign: Verdict) -> Self {
            Self::of(ARCH, foreign).unwrap()
        }

        /// What the kernel does with the program, as far as it uses the machine
        /// (Documentation/networking/filter.rst).
        pub fn decides(&self, architecture: u32, number: c_long, arguments: [u64; 6]) -> u32 {
            let word = |at: u32| match at {
                NUMBER_AT => u32::try_from(number).unwrap(),
                ARCHITECTURE_AT => architecture,
                at => {
                    let nth = ((at - ARGUMENTS_AT) / 8) as usize;
                    u32::try_from(arguments[nth] & 0xffff_ffff).unwrap()
                }
            };
            let (mut place, mut value) = (0, 0);
            while let Some(step) = self.steps.get(place) {
                let jump = |is: bool| usize::from(if is { step.jt } else { step.jf });
                place += 1;
                match u32::from(step.code) {
                    LOAD => value = word(step.k),
                    MASK => value &= step.k,
                    EQUAL => place += jump(value == step.k),
                    AT_LEAST => place += jump(value >= step.k),
                    HAS_BITS => place += jump(value & step.k != 0),
                    RETURN => return step.k,
                    other => panic!("no such instruction: {other:#x}"),
                }
            }
            Verdict::Pass.value()
        }
    }

    impl Verdict {
        pub fn as_told(self) -> u32 {
            self.value()
        }
    }

    #[test]
    fn a_rule_is_about_its_own_call() {
        let refused = Verdict::Fail(Errno::EPERM);
        let rule = Rule::default()
            .argument(1)
            .mask(0xf)
            .unless_either([1, 2], refused)
            .argument(0)
            .if_equal(7, refused)
            .if_any_bit(0x100, refused);
        let filter = Filter::for_test(Verdict::Pass)
            .on(libc::SYS_socket, rule)
            .unwrap()
            .on(libc::SYS_sendto, Rule::always(refused))
            .unwrap();
        let of = |number, first, second| filter.decides(ARCH, number, [first, second, 0, 0, 0, 0]);
        let (passes, fails) = (Verdict::Pass.value(), refused.value());
        assert_eq!(of(libc::SYS_socket, 0, 1), passes);
        assert_eq!(of(libc::SYS_socket, 0, 0xff2), passes);
        assert_eq!(of(libc::SYS_socket, 0, 3), fails);
        assert_eq!(of(libc::SYS_socket, 7, 1), fails);
        assert_eq!(of(libc::SYS_socket, 0x101, 1), fails);
        // The number of the next rule, in an argument.
        let sendto = u64::try_from(libc::SYS_sendto).unwrap();
        assert_eq!(of(libc::SYS_socket, sendto, 1), passes);
        assert_eq!(of(libc::SYS_sendto, 0, 0), fails);
        assert_eq!(of(libc::SYS_read, 7, 3), passes);
    }

    #[test]
    fn calls_of_another_architecture_have_a_verdict_of_their_own() {
        let foreign = Verdict::Fail(Errno::ENOSYS);
        let filter = Filter::for_test(foreign);
        let x32 = i64::from(X32) + libc::SYS_connect;
        assert_eq!(
            filter.decides(I386, libc::SYS_connect, [0; 6]),
            foreign.value()
        );
        assert_eq!(filter.decides(ARCH, x32, [0; 6]), foreign.value());
        assert_eq!(
            filter.decides(ARCH, libc::SYS_connect, [0; 6]),
            Verdict::Pass.value()
        );
    }
}

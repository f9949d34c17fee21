//! The filter that the shim installs: which system calls the kernel asks the harness about.
//!
//! It sees numbers alone, never what a pointer leads to. So it asks about every `connect`, but of the opens only about
//! those whose flags say that something is to be written: a program opens a thousand files to read them.

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc::{self, sock_filter};

use super::super::sys::own;
use super::calls::{self, About, Flags, WRITES};

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
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const AT_LEAST: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
const HAS_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Installs the filter in this process and returns the descriptor on which its system calls are told. Everything that this
/// process and its children call from now on, and the filter asks about, waits until that descriptor is served.
pub(crate) fn install() -> io::Result<OwnedFd> {
    let Some(architecture) = ARCHITECTURE else {
        return Err(io::Error::other(
            "the numbers of this architecture's system calls are not known here",
        ));
    };
    // An ordinary user may install a filter only where no program that is started can gain privileges (seccomp(2)).
    nix::sys::prctl::set_no_new_privs()?;
    let mut program = program(architecture)?;
    let waits_for_death_only =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match install_with(&mut program, waits_for_death_only) {
        // Before Linux 5.19 the kernel does not know the second flag, and a signal interrupts a call that is held.
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {
            install_with(&mut program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
        }
        other => other,
    }
}

/// As a kernel before Linux 5.19 has it.
#[cfg(test)]
pub(super) fn install_for_every_signal() -> io::Result<OwnedFd> {
    nix::sys::prctl::set_no_new_privs()?;
    let architecture = ARCHITECTURE.ok_or_else(|| io::Error::other("no such architecture"))?;
    install_with(
        &mut program(architecture)?,
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
    )
}

fn install_with(program: &mut [sock_filter], flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the call reads a `sock_fprog` and the program it points to, which both outlive it, and returns a new
    // descriptor or -1.
    let raw = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const filter,
        )
    };
    let raw = RawFd::try_from(raw).map_err(io::Error::other)?;
    if raw < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(own(raw))
    }
}

/// The program: what is not of this architecture passes, and so does what nobody asks about.
fn program(architecture: u32) -> io::Result<Vec<sock_filter>> {
    let mut program = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE_AT)?,
        instruction(EQUAL, 1, 0, architecture)?,
        pass()?,
        instruction(LOAD, 0, 0, NUMBER_AT)?,
        instruction(AT_LEAST, 0, 1, X32)?,
        pass()?,
    ];
    for asked in calls::all() {
        let number = u32::try_from(asked.number).map_err(io::Error::other)?;
        if let About::Open {
            flags: Flags::Argument(nth),
            ..
        } = asked.about
        {
            let flags = ARGUMENTS_AT + 8 * u32::try_from(nth).map_err(io::Error::other)?;
            program.extend([
                instruction(EQUAL, 0, 4, number)?,
                instruction(LOAD, 0, 0, flags)?,
                instruction(HAS_BITS, 0, 1, WRITES)?,
                ask()?,
                pass()?,
            ]);
        } else {
            program.extend([instruction(EQUAL, 0, 1, number)?, ask()?]);
        }
    }
    program.push(pass()?);
    Ok(program)
}

fn ask() -> io::Result<sock_filter> {
    instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF)
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
mod tests {
    use super::*;

    /// What the kernel does with the program, as far as it uses the machine (Documentation/networking/filter.rst).
    fn runs(program: &[sock_filter], architecture: u32, number: i64, arguments: [u64; 6]) -> u32 {
        let word = |at: u32| match at {
            NUMBER_AT => u32::try_from(number).unwrap(),
            ARCHITECTURE_AT => architecture,
            at => {
                let nth = ((at - ARGUMENTS_AT) / 8) as usize;
                u32::try_from(arguments[nth] & 0xffff_ffff).unwrap()
            }
        };
        let (mut place, mut value) = (0, 0);
        loop {
            let step = program[place];
            let jump = |is: bool| usize::from(if is { step.jt } else { step.jf });
            place += 1;
            match u32::from(step.code) {
                LOAD => value = word(step.k),
                EQUAL => place += jump(value == step.k),
                AT_LEAST => place += jump(value >= step.k),
                HAS_BITS => place += jump(value & step.k != 0),
                RETURN => return step.k,
                other => panic!("no such instruction: {other:#x}"),
            }
        }
    }

    const ARCH: u32 = 0xC000_003E;
    const ASKS: u32 = libc::SECCOMP_RET_USER_NOTIF;
    const PASSES: u32 = libc::SECCOMP_RET_ALLOW;

    #[test]
    fn a_file_that_is_opened_to_be_read_passes_and_one_to_be_written_is_asked_about() {
        let program = program(ARCH).unwrap();
        let open = |flags: i32| {
            let arguments = [0, 0, u64::from(flags.cast_unsigned()), 0, 0, 0];
            runs(&program, ARCH, libc::SYS_openat, arguments)
        };
        assert_eq!(open(libc::O_RDONLY | libc::O_CLOEXEC), PASSES);
        assert_eq!(open(libc::O_WRONLY), ASKS);
        assert_eq!(open(libc::O_RDWR | libc::O_APPEND), ASKS);
        assert_eq!(open(libc::O_RDONLY | libc::O_CREAT), ASKS);
    }

    #[test]
    fn every_call_of_the_list_is_asked_about_and_no_other() {
        let program = program(ARCH).unwrap();
        for asked in calls::all() {
            let arguments = [u64::from(WRITES); 6];
            assert_eq!(
                runs(&program, ARCH, asked.number, arguments),
                ASKS,
                "{asked:?}"
            );
        }
        for number in [libc::SYS_read, libc::SYS_close, libc::SYS_sendmsg] {
            assert_eq!(runs(&program, ARCH, number, [0; 6]), PASSES);
        }
    }

    #[test]
    fn calls_of_another_architecture_pass() {
        let program = program(ARCH).unwrap();
        let i386 = 0x4000_0003;
        assert_eq!(runs(&program, i386, libc::SYS_connect, [0; 6]), PASSES);
        let x32 = i64::from(X32) + libc::SYS_connect;
        assert_eq!(runs(&program, ARCH, x32, [0; 6]), PASSES);
    }
}

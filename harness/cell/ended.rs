//! How a child ended, asked of the kernel without reaping it.

use std::io;
use std::mem::MaybeUninit;

use nix::libc::{self, c_int};

use crate::journal::{Exit, Pid};

/// Which child, and whether to wait for one that has not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Children {
    /// Any that has ended already.
    Ended,
    /// This one, which is waited for.
    Awaited(Pid),
}

/// How a child ended; it remains a zombie. `None`: none has. `ECHILD` where there is no such child.
///
/// By hand, as [`nix::sys::wait::waitid`] knows no real-time signals, and anything can be killed by one.
pub(crate) fn ended(children: Children) -> io::Result<Option<(Pid, Exit)>> {
    let (kind, id, hang) = match children {
        Children::Ended => (libc::P_ALL, 0, libc::WNOHANG),
        Children::Awaited(pid) => (libc::P_PID, pid.cast_unsigned(), 0),
    };
    let mut told = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        let flags = libc::WEXITED | libc::WNOWAIT | hang;
        // SAFETY: the pointer is to memory of the right size, which outlives the call.
        match unsafe { libc::waitid(kind, id, told.as_mut_ptr(), flags) } {
            0 => break,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
    // SAFETY: all bytes are zero or written by the kernel, and each field of it is an integer or a pointer; those of a
    // child's end are the ones that waitid(2) fills in, or zero where no child has ended.
    let (pid, status, code) = unsafe {
        let told = told.assume_init();
        (told.si_pid(), told.si_status(), told.si_code)
    };
    Ok((pid != 0).then(|| (pid, exit(code, status))))
}

fn exit(code: c_int, status: c_int) -> Exit {
    match code {
        libc::CLD_EXITED => Exit::Code(status),
        code => Exit::Signal {
            number: status,
            core: code == libc::CLD_DUMPED,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_has_ended_is_told_and_can_still_be_reaped() {
        for (script, exit) in [
            ("exit 7", Exit::Code(7)),
            (
                "kill -KILL $$",
                Exit::Signal {
                    number: 9,
                    core: false,
                },
            ),
            // SIGRTMIN+1.
            (
                "kill -35 $$",
                Exit::Signal {
                    number: 35,
                    core: false,
                },
            ),
        ] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pid = Pid::try_from(child.id()).unwrap();
            assert_eq!(ended(Children::Awaited(pid)).unwrap(), Some((pid, exit)));
            assert!(child.wait().is_ok(), "{script}");
        }
    }

    #[test]
    fn of_a_child_that_is_not_there_nothing_can_be_told() {
        let error = ended(Children::Awaited(Pid::MAX)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    }
}

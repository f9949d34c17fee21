//! The filter that the shim installs: which system calls the kernel asks the harness about.
//!
//! It asks about every `connect`, but of the opens only about those whose flags say that something is to be written: a
//! program opens a thousand files to read them. Calls of another architecture pass.

use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::libc;

use super::super::seccomp::{Filter, Rule, Verdict};
use super::calls::{self, About, Flags, WRITES};

/// Installs the filter in this process and returns the descriptor on which its system calls are told. Everything that this
/// process and its children call from now on, and the filter asks about, waits until that descriptor is served.
pub(crate) fn install() -> io::Result<OwnedFd> {
    let waits_for_death_only = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match filter()?.install_with_listener(waits_for_death_only) {
        // Before Linux 5.19 the kernel does not know the flag, and a signal interrupts a call that is held.
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {
            filter()?.install_with_listener(0)
        }
        other => other,
    }
}

/// As a kernel before Linux 5.19 has it.
#[cfg(test)]
pub(super) fn install_for_every_signal() -> io::Result<OwnedFd> {
    filter()?.install_with_listener(0)
}

fn filter() -> io::Result<Filter> {
    ask_in(Filter::new(Verdict::Pass)?)
}

fn ask_in(filter: Filter) -> io::Result<Filter> {
    calls::all().try_fold(filter, |filter, asked| {
        let rule = match asked.about {
            About::Open {
                flags: Flags::Argument(nth),
                ..
            } => {
                let nth = u32::try_from(nth).map_err(io::Error::other)?;
                Rule::default()
                    .argument(nth)
                    .if_any_bit(WRITES, Verdict::Ask)
            }
            _ => Rule::always(Verdict::Ask),
        };
        filter.on(asked.number, rule)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::seccomp::tests::{ARCH, I386};
    use super::*;

    fn decides(number: i64, arguments: [u64; 6]) -> u32 {
        let filter = ask_in(Filter::for_test(Verdict::Pass)).unwrap();
        filter.decides(ARCH, number, arguments)
    }

    #[test]
    fn a_file_that_is_opened_to_be_read_passes_and_one_to_be_written_is_asked_about() {
        let open = |flags: i32| {
            let arguments = [0, 0, u64::from(flags.cast_unsigned()), 0, 0, 0];
            decides(libc::SYS_openat, arguments)
        };
        let (asks, passes) = (Verdict::Ask.as_told(), Verdict::Pass.as_told());
        assert_eq!(open(libc::O_RDONLY | libc::O_CLOEXEC), passes);
        assert_eq!(open(libc::O_WRONLY), asks);
        assert_eq!(open(libc::O_RDWR | libc::O_APPEND), asks);
        assert_eq!(open(libc::O_RDONLY | libc::O_CREAT), asks);
    }

    #[test]
    fn every_call_of_the_list_is_asked_about_and_no_other() {
        for asked in calls::all() {
            let arguments = [u64::from(WRITES); 6];
            let verdict = decides(asked.number, arguments);
            assert_eq!(verdict, Verdict::Ask.as_told(), "{asked:?}");
        }
        for number in [libc::SYS_read, libc::SYS_close, libc::SYS_sendmsg] {
            assert_eq!(decides(number, [0; 6]), Verdict::Pass.as_told());
        }
    }

    #[test]
    fn calls_of_another_architecture_pass() {
        let filter = ask_in(Filter::for_test(Verdict::Pass)).unwrap();
        let verdict = filter.decides(I386, libc::SYS_connect, [0; 6]);
        assert_eq!(verdict, Verdict::Pass.as_told());
    }
}

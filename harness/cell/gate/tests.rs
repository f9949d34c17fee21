//! The gate with a real program and a real kernel, as kernels before Linux 5.19 have it: every signal interrupts a call
//! that is held.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;

use super::filter::install_for_every_signal;
use super::hand::{Handed, hand_over, take_over};
use super::thread::{Gate, Scene};
use crate::journal::{Event, Journal, Secrets};
use crate::spec::{Errno, Syscall, SyscallName};

/// Far more than anything here takes.
const LIMIT: Duration = Duration::from_secs(30);

const FIRST_CONNECT: Syscall = Syscall {
    name: SyscallName::Connect,
    nth: 1,
};

/// Fails with status 0 where the connect was refused.
const INTERRUPTED: &str = "
import errno, os, signal, socket
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
try:
    socket.socket().connect(('127.0.0.1', 9))
except ConnectionRefusedError:
    os._exit(0)
os._exit(1)
";

/// Starts a program whose system calls come to the listener. Its start waits for somebody to serve them.
fn start(program: &'static str) -> io::Result<(OwnedFd, JoinHandle<io::Result<ExitStatus>>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let thread = std::thread::spawn(move || {
        let mut command = Command::new("python3");
        command.args(["-S", "-c", program]);
        // SAFETY: the child makes system calls, and allocates a few bytes: the C library sees to it that its allocator
        // can be used after fork(2).
        unsafe {
            command.pre_exec(move || {
                // The parent has the other end of this one as well.
                libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC);
                hand_over(&theirs, &install_for_every_signal())
            });
        }
        command.spawn()?.wait()
    });
    match take_over(&ours)? {
        Handed::Listener(listener) => Ok((listener, thread)),
        Handed::Nothing => Err(io::Error::other("no listener was handed over")),
    }
}

/// Nobody is told when a call is told again.
fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "it took too long");
        std::thread::yield_now();
    }
}

#[test]
fn a_connect_that_a_timer_interrupts_again_and_again_is_one_call() {
    let has_python = Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !has_python {
        println!("skipped: there is no python3 here");
        return;
    }
    let (listener, program) = match start(INTERRUPTED) {
        Ok(started) => started,
        Err(error) => {
            println!("skipped: no filter can be installed here: {error}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let journal =
        Journal::create(&folder.path().join("journal.jsonl"), Secrets::default()).unwrap();
    let gate = Gate::open(listener, Scene::default(), &journal).unwrap();
    gate.count(Some(FIRST_CONNECT));

    let mut seen = Vec::new();
    until(|| {
        let waiting = gate.held_as()?;
        if seen.last() != Some(&waiting) {
            seen.push(waiting);
        }
        (seen.len() > 3).then_some(())
    });
    gate.release(Some(Errno::Econnrefused));
    let status = program.join().unwrap().unwrap();

    assert!(status.success(), "{status}");
    let connects = journal.collect(|entry| match &*entry.event {
        Event::SyscallEntered {
            name: SyscallName::Connect,
            nth,
            ..
        } => Some(*nth),
        _ => None,
    });
    assert_eq!(connects, [1]);
}

//! The gate with a real program and a real kernel, as kernels before Linux 5.19 have it: every signal interrupts a call
//! that is held.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

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

/// Set in the program that is held, which is this one, started once more for the same test.
const HELD: &str = "DRILL_TEST_IS_HELD";

/// Between two signals.
const SIGNAL_EVERY: Duration = Duration::from_millis(5);

/// Connects to where nobody listens, while a signal interrupts it again and again, and the kernel starts it anew.
fn connect_under_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler = SigHandler::Handler(nothing);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGALRM, &action) }.unwrap();
    // SAFETY: it has no precondition.
    let connecting = unsafe { libc::pthread_self() };
    let is_over = AtomicBool::new(false);
    let connected = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(SIGNAL_EVERY);
                // SAFETY: the thread lives as long as this scope, which it waits for.
                unsafe { libc::pthread_kill(connecting, libc::SIGALRM) };
            }
        });
        let connected = TcpStream::connect(("127.0.0.1", 9));
        is_over.store(true, Ordering::Relaxed);
        connected
    });
    let refused = connected.unwrap_err().kind();
    assert_eq!(refused, io::ErrorKind::ConnectionRefused);
}

/// Starts this program for this test, so that its system calls come to the listener. Its start waits for somebody to serve them.
fn start(test: &'static str) -> io::Result<(OwnedFd, JoinHandle<io::Result<ExitStatus>>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let thread = std::thread::spawn(move || {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(HELD, "")
            .stdout(Stdio::null());
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
fn a_connect_that_a_signal_interrupts_again_and_again_is_one_call() {
    if std::env::var_os(HELD).is_some() {
        return connect_under_signals();
    }
    let name = concat!(
        module_path!(),
        "::a_connect_that_a_signal_interrupts_again_and_again_is_one_call"
    );
    let (_, name) = name.split_once("::").unwrap();
    let (listener, program) = start(name).unwrap();
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

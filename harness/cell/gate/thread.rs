//! The thread of the harness that serves the listener, and what the trial asks of it.
//!
//! Each waiting call is answered at once, but for the one at which the server is to be held. An event stands in the journal
//! before the call that it tells of goes on, so whatever comes of the call stands after it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno as SystemError;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::calls::{About, about};
use super::count::Count;
use super::disk::Disk;
use super::look::{Subject, process_of, subject};
use super::notify::{Answer, Notification, answer, is_waiting, receive};
use crate::journal::{Event, Journal, Pid};
use crate::spec::{Errno, Syscall, SyscallName};

/// Of a server that makes more calls of a kind than this, the rest is counted and not told: a journal must not grow without
/// an end.
const MOST_TOLD: u32 = 10_000;

/// What the gate must know of the session.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// The inode of the pipe that is the session's stdout.
    pub stdout: Option<u64>,
    /// The ownership log, where the drill names one.
    pub record: Option<PathBuf>,
}

/// Sees the system calls of one session. Dropping it lets go whatever is held; it must live as long as the processes do,
/// since without it their calls fail with ENOSYS.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    /// Closing it ends the thread.
    stop: Option<io::PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    listener: OwnedFd,
    journal: Journal,
    stdout: Option<u64>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The call was issued: from here on calls are counted.
    counting: bool,
    /// Where the server is to be held.
    at: Option<Syscall>,
    held: Option<Held>,
    count: Count,
    disk: Option<Disk>,
    told_of_ring: bool,
    /// A thread's process does not change.
    processes: HashMap<i32, Pid>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    waiting: Notification,
    pid: Pid,
    call: Syscall,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy)]
enum Next {
    GoesOn,
    IsHeld,
    /// Nobody waits any more.
    IsGone,
}

impl Gate {
    /// Serves the listener from now on. Nothing is counted yet.
    pub fn open(listener: OwnedFd, scene: Scene, journal: &Journal) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            listener,
            journal: journal.clone(),
            stdout: scene.stdout,
            state: Mutex::new(State {
                disk: scene.record.map(|record| Disk::new(record, journal)),
                ..State::default()
            }),
        });
        let (stopped, stop) = io::pipe()?;
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("gate".to_owned())
                .spawn(move || shared.serve(&stopped))?
        };
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Counts from now on, and holds the server at this call if there is one.
    pub fn count(&self, at: Option<Syscall>) {
        let mut state = self.shared.state();
        state.counting = true;
        state.at = at;
    }

    /// Under which id the kernel tells of the call that is held: another one each time that it is told anew.
    #[cfg(test)]
    pub(super) fn held_as(&self) -> Option<u64> {
        self.shared.state().held.map(|held| held.waiting.id)
    }

    /// Lets the call that is held go on, or fail; nothing is held from here on.
    pub fn release(&self, errno: Option<Errno>) {
        self.shared.release(errno);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.shared.release(None);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Until the gate is dropped, or nobody is left whose calls could be told.
    fn serve(&self, stopped: &io::PipeReader) {
        loop {
            let mut watched = [
                PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
                PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, PollTimeout::NONE) {
                Err(SystemError::EINTR) => continue,
                Err(error) => return self.fail(&error.into()),
                Ok(_) => {}
            }
            let [told, stop] = watched.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
            if told.contains(PollFlags::POLLIN) {
                match receive(&self.listener) {
                    Ok(Some(waiting)) => self.take(waiting),
                    Ok(None) => {}
                    Err(error) => return self.fail(&error),
                }
            } else if !told.is_empty() || !stop.is_empty() {
                return;
            }
        }
    }

    /// The server would be stopped at its next call without anybody knowing why.
    fn fail(&self, error: &io::Error) {
        self.journal.append(Event::TrialFailed {
            because: format!("failed to serve the system calls of the server: {error}"),
        });
    }

    fn take(&self, waiting: Notification) {
        let mut state = self.state();
        let call = waiting.call;
        if let Some(before) = state.count.answered(&call) {
            return self.answer(&mut state, waiting, before);
        }
        if let Some(held) = &mut state.held
            && held.waiting.call == call
        {
            // Interrupted, and started anew: it is still held.
            held.waiting = waiting;
            return;
        }
        match self.note(&mut state, waiting) {
            Next::GoesOn => self.answer(&mut state, waiting, Answer::GoOn),
            Next::IsHeld | Next::IsGone => {}
        }
    }

    /// Notes what this call is, and decides what becomes of it.
    fn note(&self, state: &mut State, waiting: Notification) -> Next {
        let call = waiting.call;
        let Some(about) = about(call.number) else {
            return Next::GoesOn;
        };
        if about == About::Ring && !std::mem::replace(&mut state.told_of_ring, true) {
            self.journal.append(Event::GateUnavailable {
                because: "the server uses io_uring, whose operations the gate does not see"
                    .to_owned(),
            });
        }
        // Before the call was issued, only what comes to the disk matters.
        let is_of_disk = matches!(
            about,
            About::SyncAll | About::Sync { .. } | About::Open { .. }
        );
        let is_asked = state.counting || (is_of_disk && state.disk.is_some());
        if !is_asked {
            return Next::GoesOn;
        }
        let subject = subject(&call, about, self.stdout);
        if !is_waiting(&self.listener, waiting.id) {
            // Interrupted while it was read: what was read may be of another call. If it comes again, it is told again.
            return Next::IsGone;
        }
        let Some(pid) = state.process(call.thread) else {
            return Next::IsGone;
        };
        if let Some(disk) = &mut state.disk {
            match (about, &subject) {
                (About::SyncAll, _) => disk.sync(&call, pid, true),
                (About::Sync { .. }, _) => disk.sync(&call, pid, false),
                (
                    About::Open { .. },
                    Some(Subject {
                        path: Some(path),
                        synchronous,
                        ..
                    }),
                ) => {
                    disk.open(pid, path, *synchronous);
                }
                (About::Address, Some(_)) => disk.settle(&call),
                _ => {}
            }
        }
        match subject {
            Some(subject) if state.counting => self.count(state, waiting, pid, subject),
            _ => Next::GoesOn,
        }
    }

    /// Counts a call and tells of it.
    fn count(&self, state: &mut State, waiting: Notification, pid: Pid, subject: Subject) -> Next {
        let Subject {
            name,
            detail,
            socket,
            ..
        } = subject;
        if name == SyscallName::Connect && state.count.is_connecting(waiting.call, socket) {
            return Next::GoesOn;
        }
        let nth = state.count.next(name);
        if nth <= MOST_TOLD {
            self.journal.append(Event::SyscallEntered {
                pid,
                name,
                nth,
                detail,
            });
        }
        let call = Syscall { name, nth };
        if state.at != Some(call) {
            return Next::GoesOn;
        }
        state.at = None;
        state.held = Some(Held { waiting, pid, call });
        self.journal.append(Event::SyscallHeld { pid, name, nth });
        Next::IsHeld
    }

    fn release(&self, errno: Option<Errno>) {
        let mut state = self.state();
        state.at = None;
        let Some(Held { waiting, pid, call }) = state.held.take() else {
            return;
        };
        if errno.is_some()
            && let Some(disk) = &mut state.disk
        {
            disk.fail(&waiting.call);
        }
        self.journal.append(Event::SyscallReleased {
            pid,
            name: call.name,
            nth: call.nth,
            errno,
        });
        self.answer(
            &mut state,
            waiting,
            errno.map_or(Answer::GoOn, Answer::Fail),
        );
    }

    fn answer(&self, state: &mut State, waiting: Notification, how: Answer) {
        if !answer(&self.listener, waiting.id, how) {
            state.count.miss(waiting.call, how);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn process(&mut self, thread: i32) -> Option<Pid> {
        if let Some(pid) = self.processes.get(&thread) {
            return Some(*pid);
        }
        let pid = process_of(thread)?;
        self.processes.insert(thread, pid);
        Some(pid)
    }
}

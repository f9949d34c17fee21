//! Which call is which: calls are counted, not notifications.
//!
//! A call that a signal interrupts is told again when the kernel starts it anew, under another id. Since Linux 5.19 only
//! death interrupts a call once it was received, so this is about the moment before that, and about older kernels. It is
//! the same call when the same thread makes it, at the same place of the program, with the same arguments, after its last
//! notification became invalid. A `connect` that was let go on may be started anew by the kernel as well; then it is about
//! the same socket.

use std::collections::{BTreeMap, HashMap};

use super::notify::{Answer, Call};
use crate::spec::SyscallName;

/// What was counted so far, and what may come again.
#[derive(Debug, Default)]
pub(super) struct Count {
    times: BTreeMap<SyscallName, u32>,
    /// The answer did not reach these calls: they were interrupted, and may be told again. By thread.
    missed: HashMap<i32, (Call, Answer)>,
    /// The last connect of each thread, with its socket.
    connects: HashMap<i32, (Call, u64)>,
}

impl Count {
    /// The number of a call that was not seen before, from 1.
    pub fn next(&mut self, name: SyscallName) -> u32 {
        let times = self.times.entry(name).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// The answer did not reach this call.
    pub fn miss(&mut self, call: Call, answer: Answer) {
        self.missed.insert(call.thread, (call, answer));
    }

    /// What this call was answered before, if it is one whose answer did not reach it. A signal handler may make calls of
    /// its own before the interrupted one comes again.
    pub fn answered(&mut self, call: &Call) -> Option<Answer> {
        let (_, answer) = self
            .missed
            .get(&call.thread)
            .copied()
            .filter(|(missed, _)| missed == call)?;
        self.missed.remove(&call.thread);
        Some(answer)
    }

    /// Whether this connect is the thread's last one, started anew on the same socket.
    pub fn is_connecting(&mut self, call: Call, socket: Option<u64>) -> bool {
        let Some(socket) = socket else { return false };
        let last = self.connects.insert(call.thread, (call, socket));
        last == Some((call, socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(thread: i32, argument: u64) -> Call {
        Call {
            thread,
            number: 42,
            instruction: 0x1000,
            arguments: [argument, 0, 0, 0, 0, 0],
        }
    }

    #[test]
    fn a_call_whose_answer_was_missed_gets_it_when_it_comes_again_and_only_once() {
        let mut count = Count::default();
        count.miss(call(7, 1), Answer::GoOn);
        assert_eq!(count.answered(&call(8, 1)), None);
        // A signal handler's own call comes in between.
        assert_eq!(count.answered(&call(7, 2)), None);
        assert_eq!(count.answered(&call(7, 1)), Some(Answer::GoOn));
        assert_eq!(count.answered(&call(7, 1)), None);
    }

    #[test]
    fn a_connect_on_the_same_socket_is_the_same_and_one_on_another_is_not() {
        let mut count = Count::default();
        assert!(!count.is_connecting(call(7, 1), Some(100)));
        assert!(count.is_connecting(call(7, 1), Some(100)));
        assert!(!count.is_connecting(call(7, 1), Some(101)));
        assert!(!count.is_connecting(call(8, 1), Some(101)));
    }

    #[test]
    fn each_name_is_counted_for_itself() {
        let mut count = Count::default();
        assert_eq!(count.next(SyscallName::Fsync), 1);
        assert_eq!(count.next(SyscallName::Connect), 1);
        assert_eq!(count.next(SyscallName::Fsync), 2);
    }
}

//! What the questions ask, in words for readers of a file that stands alone.

use crate::spec::Question;

/// What the question asks, as one sentence.
#[must_use]
pub fn asks(question: Question) -> &'static str {
    match question {
        Question::Eof => {
            "Did closing stdin reach the server, and did it exit within the deadline, with a truthful status?"
        }
        Question::Helpers => "Is any process that it started still alive?",
        Question::Quiet => {
            "After the session was gone, did it start anything new, spin, or ignore SIGTERM?"
        }
        Question::Effects => "How many effects did the remote apply for this one call?",
        Question::Reconcile => {
            "After recovery, is there exactly one effect, and does the server report what the remote holds?"
        }
        Question::Handle => {
            "Can an effect of unknown outcome be found, and cancelled, with what the record holds?"
        }
        Question::Ownership => {
            "Did a record name the run, the process, the approval and the operation before dispatch, and the outcome after?"
        }
        Question::Revocation => "After revoking, is every call refused, and each refusal recorded?",
        Question::Protocol => "Is every byte on stdout JSON-RPC, and no answer lost?",
        Question::Secrets => {
            "Did the credential appear in arguments, in a log, in a process that should not hold it?"
        }
        Question::Resources => {
            "Is the next session as good as the first, without zombies, half-closed sockets and stale locks, and did it keep its limits?"
        }
    }
}

/// What a server does that breaks it.
#[must_use]
pub fn broken_looks_like(question: Question) -> &'static str {
    match question {
        Question::Eof => {
            "It ignores EOF, another process still holds the write end of its stdin, or it ends by a signal or a panic."
        }
        Question::Helpers => "A browser, a tunnel, a watcher stays behind.",
        Question::Quiet => {
            "It retries or polls with live credentials, or takes all of a processor on a closed pipe."
        }
        Question::Effects => {
            "There are two effects, or one although nothing had been dispatched when the client died."
        }
        Question::Reconcile => {
            "A blind replay makes a second effect, because the key died with the process or there is none."
        }
        Question::Handle => "The record holds neither a key nor the remote's id.",
        Question::Ownership => {
            "It records only success, or after sending, or for no session or the wrong one."
        }
        Question::Revocation => {
            "A cached credential is still taken, or a refusal is recorded as a success."
        }
        Question::Protocol => "A log line is on stdout, or an answer is lost with exit status 0.",
        Question::Secrets => {
            "The token is in the process list, on stderr, in a helper's environment."
        }
        Question::Resources => "A lock is left, or something grows with each session.",
    }
}

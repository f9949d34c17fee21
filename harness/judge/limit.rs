//! A limit of the cell was exceeded: `resources` is broken, or, where the revoked session did it, `revocation`, for which
//! alone that session is made. What had been decided by then stays decided, and nobody can know the rest.
//!
//! All that comes after is the cell's doing, so the other questions are answered from the journal up to there.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::journal::{Eater, Event, Limit, Phase, Seq, Session};
use crate::spec::Question;

use super::finding::Ending;
use super::history::{History, Seen};
use super::sentence::{Sentence, duration};

/// That a limit was exceeded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Breach<'a> {
    seen: Seen<'a>,
    /// Where the cell told that all have ended.
    cleared: Option<Seen<'a>>,
}

impl<'a> Breach<'a> {
    /// The first one of a journal.
    pub(super) fn of(mut all: impl Iterator<Item = Seen<'a>>) -> Option<Self> {
        let seen = all.find(|seen| matches!(seen.event, Event::LimitExceeded { .. }))?;
        let cleared = all.find(|seen| matches!(seen.event, Event::CellCleared { .. }));
        Some(Self { seen, cleared })
    }

    /// Everything from here on is the cell's doing.
    pub(super) fn place(&self) -> usize {
        self.seen.place
    }

    pub(super) fn evidence(&self) -> impl Iterator<Item = Seq> + use<> {
        [self.seen.seq]
            .into_iter()
            .chain(self.cleared.map(|seen| seen.seq))
    }

    pub(super) fn told(&self, history: &History<'_>) -> Sentence {
        let Event::LimitExceeded {
            limit,
            most,
            used,
            by,
            rehearsal,
        } = self.seen.event
        else {
            return Sentence::default();
        };
        let whose = whose(history, *rehearsal);
        let had = match limit {
            Limit::Cpu => " had used ",
            Limit::Processes | Limit::Threads | Limit::Memory => " had ",
        };
        let ended = match self.cleared {
            Some(_) => ": the cell ended them all",
            None if *rehearsal => ": its cell ended them all",
            None => ": the cell killed them all",
        };
        Sentence::default()
            // A point is reached a little earlier or later.
            .varies(whose, "<when> its session")
            .text(had)
            .varies(
                amount(*limit, *used),
                format!("<too much> {}", noun(*limit)),
            )
            .varies(eaters(*limit, by), "")
            .text("; the limit is ")
            .text(bound(*limit, *most))
            .varies(ended, ": the cell ended them all")
    }
}

/// How the answer to this question ends in a trial in which a limit was exceeded.
pub(super) fn ending(history: &History<'_>, breach: Breach<'_>, question: Question) -> Ending {
    let decided = match question {
        // It is broken by it, or decided when the session comes that is not its own.
        Question::Resources => true,
        Question::Eof
        | Question::Helpers
        | Question::Quiet
        | Question::Effects
        | Question::Handle
        | Question::Ownership => history.is_past(Phase::Stop),
        Question::Reconcile => history.is_past(Phase::SessionB),
        // The job is cancelled at the very end.
        Question::Revocation => is_of_revocation(history),
        // Asked of all sessions.
        Question::Protocol | Question::Secrets => false,
    };
    if decided {
        Ending::Whole
    } else {
        Ending::Exceeded {
            told: breach.told(history),
            evidence: breach.evidence().collect(),
        }
    }
}

/// Whether it was exceeded in what is done for `revocation` alone.
pub(super) fn is_of_revocation(history: &History<'_>) -> bool {
    history.breach.is_some() && history.phase(Phase::RevokedSession).is_some()
}

fn whose(history: &History<'_>, rehearsal: bool) -> &'static str {
    if rehearsal {
        return "in the rehearsal of the call its session";
    }
    let begun = |phase| history.phase(phase).is_some();
    if begun(Phase::RevokedSession) {
        return "the revoked session";
    }
    if begun(Phase::Beside) {
        return "the session beside";
    }
    if begun(Phase::SessionB) {
        return "session B";
    }
    if history.crash_fired().is_some() {
        return "after the crash its session";
    }
    let is_reached = history.first(|e| matches!(e, Event::PointReached { .. }));
    if is_reached.is_some() {
        "at the crash point its session"
    } else if history.phase(Phase::Arm).is_some() {
        "on the way to the crash point its session"
    } else if history.handshaken(Session::A).is_some() {
        "before its call its session"
    } else {
        "before the handshake was answered its session"
    }
}

fn noun(limit: Limit) -> &'static str {
    match limit {
        Limit::Processes => "processes",
        Limit::Threads => "threads",
        Limit::Memory => "of memory",
        Limit::Cpu => "of CPU time",
    }
}

/// There are always several: the limit is one at least.
fn amount(limit: Limit, n: u64) -> String {
    format!("{} {}", bound(limit, n), noun(limit))
}

fn bound(limit: Limit, n: u64) -> String {
    match limit {
        Limit::Processes | Limit::Threads => n.to_string(),
        Limit::Memory => size(n),
        Limit::Cpu => duration(Duration::from_nanos(n)),
    }
}

/// ` (60 `worker`, 4 `sh`)`: what each name had of it.
fn eaters(limit: Limit, by: &[Eater]) -> String {
    // What would be told as nothing is left out.
    let least = match limit {
        Limit::Processes | Limit::Threads => 1,
        Limit::Memory => 1 << 20,
        Limit::Cpu => 1_000_000,
    };
    let each: Vec<String> = by
        .iter()
        .filter(|eater| eater.uses >= least)
        .map(|eater| {
            let comm = crate::journal::excerpt(&eater.comm, 40);
            match limit {
                Limit::Processes => format!("{} `{comm}`", eater.processes),
                _ => format!("`{comm}` {}", bound(limit, eater.uses)),
            }
        })
        .collect();
    if each.is_empty() {
        String::new()
    } else {
        format!(" ({})", each.join(", "))
    }
}

/// Whole MiB; GiB with a digit where there are some.
fn size(bytes: u64) -> String {
    let mib = bytes >> 20;
    if mib < 1024 {
        format!("{mib} MiB")
    } else if mib.is_multiple_of(1024) {
        format!("{} GiB", mib / 1024)
    } else {
        // Rounded down, as the eye compares it with the limit beside it.
        format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_as_they_are_written_in_a_drill() {
        assert_eq!(size(256 << 20), "256 MiB");
        assert_eq!(size((256 << 20) + 1), "256 MiB");
        assert_eq!(size(4 << 30), "4 GiB");
        assert_eq!(size((3 << 30) / 2), "1.5 GiB");
    }
}

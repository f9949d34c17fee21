//! The clock of a trial: `CLOCK_MONOTONIC`, read in whatever process sees a thing happen.
//!
//! The processes of a trial share it, whatever their pid namespace is: only a time namespace would shift it
//! (`time_namespaces(7)`), and none is made. So what the client saw and what the cell saw can be put into one order, although
//! each tells the harness of it in its own time.

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment: nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp(u64);

impl Stamp {
    #[must_use]
    pub fn now() -> Self {
        // The clock is there on every Linux, so this does not fail (clock_gettime(2)).
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
        let ns = now.map(|now| now.as_nanos()).unwrap_or_default();
        Self(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// This, where it lies between `start` and `latest`; otherwise the nearer of the two.
    pub(super) fn within(self, start: Self, latest: Self) -> Self {
        self.min(latest).max(start)
    }

    /// Nanoseconds.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_and_never_back() {
        let first = Stamp::now();
        assert!(Stamp::now() >= first);
    }

    #[test]
    fn a_moment_before_the_start_or_in_the_future_is_taken_for_the_nearest_that_can_be() {
        let (start, latest) = (Stamp(100), Stamp(200));
        assert_eq!(Stamp(150).within(start, latest), Stamp(150));
        assert_eq!(Stamp(99).within(start, latest), start);
        assert_eq!(Stamp(201).within(start, latest), latest);
    }
}

//! Waiting for an event instead of sleeping.

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Entry, Journal};

/// Reads a journal from its first event on, and waits for those to come.
#[derive(Debug, Clone)]
pub struct Watch {
    journal: Journal,
    count: watch::Receiver<usize>,
    cursor: usize,
}

impl Watch {
    pub(super) fn new(journal: Journal, count: watch::Receiver<usize>) -> Self {
        Self {
            journal,
            count,
            cursor: 0,
        }
    }

    /// Passes over everything so far.
    pub fn skip_to_end(&mut self) {
        self.cursor = *self.count.borrow();
    }

    /// The next event. Pending for ever when none comes; no event is lost when the future is dropped.
    pub async fn next(&mut self) -> Entry {
        loop {
            if let Some(entry) = self.journal.entry(self.cursor) {
                self.cursor += 1;
                return entry;
            }
            // The sender lives in the journal that we hold, so this cannot fail.
            let _ = self.count.changed().await;
        }
    }

    /// The next event for which `pick` returns something, or `None` when the deadline has passed. Events that were
    /// passed over are behind the watch.
    pub async fn until<T>(
        &mut self,
        deadline: Instant,
        mut pick: impl FnMut(&Entry) -> Option<T>,
    ) -> Option<T> {
        tokio::time::timeout_at(deadline, async {
            loop {
                let entry = self.next().await;
                if let Some(found) = pick(&entry) {
                    return found;
                }
            }
        })
        .await
        .ok()
    }
}

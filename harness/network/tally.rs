//! What was sought so far. A server that tries for ever must not fill the journal: the first few times of each host are
//! told one by one, and all others are counted.

use std::collections::HashMap;

use crate::journal::{Event, Host, HostOutcome};

/// Each is told so often.
const MOST_OF_EACH: u64 = 10;

/// Of so many hosts is told.
const MOST_HOSTS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Tally {
    of_each: HashMap<(Host, HostOutcome), u64>,
    left_out: u64,
}

impl Tally {
    /// Counts this, and says whether it is told.
    pub fn count(&mut self, host: &Host, outcome: HostOutcome) -> bool {
        let key = (host.clone(), outcome);
        if !self.of_each.contains_key(&key) && self.of_each.len() >= MOST_HOSTS {
            self.left_out += 1;
            return false;
        }
        let times = self.of_each.entry(key).or_default();
        *times += 1;
        *times <= MOST_OF_EACH
    }

    /// What was counted and not told, in the order of the hosts.
    pub fn untold(&self) -> Vec<Event> {
        let more = |times: &u64| times.saturating_sub(MOST_OF_EACH);
        let mut counted: Vec<_> = self
            .of_each
            .iter()
            .filter(|(_, times)| more(times) > 0)
            .collect();
        counted.sort();
        let each = counted
            .into_iter()
            .map(|((host, outcome), times)| Event::HostSought {
                host: host.clone(),
                outcome: *outcome,
                by: None,
                times: more(times),
            });
        let times = self.left_out;
        let others = (times > 0).then_some(Event::HostsLeftOut { times });
        each.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_told_and_the_others_counted() {
        let mut tally = Tally::default();
        let host = Host::name("a.example", "A");
        let told = (0..1000).filter(|_| tally.count(&host, HostOutcome::NoSuchName));
        assert_eq!(told.count(), 10);
        let untold = Event::HostSought {
            host,
            outcome: HostOutcome::NoSuchName,
            by: None,
            times: 990,
        };
        assert_eq!(tally.untold(), [untold]);
    }

    #[test]
    fn a_name_of_its_own_for_each_question_fills_nothing() {
        let mut tally = Tally::default();
        let told = (0..5000).filter(|n| {
            let host = Host::name(&format!("{n}.example"), "A");
            tally.count(&host, HostOutcome::NoSuchName)
        });
        assert_eq!(told.count(), 100);
        assert_eq!(tally.untold(), [Event::HostsLeftOut { times: 4900 }]);
        assert_eq!(tally.of_each.len(), MOST_HOSTS);
    }
}

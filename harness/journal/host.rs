//! What processes of a cell look up or reach for besides the remote, and how that is told.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::printable::excerpt;
use super::seen::{Pid, Seq};

/// A name has at most 253 characters (RFC 1035); escaped it may be longer.
const LONGEST_NAME: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    Tcp,
    Udp,
}

/// The process whose socket it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asker {
    pub pid: Pid,
    pub comm: String,
}

/// What was sought.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Host {
    /// A question to the resolver.
    Name {
        name: String,
        /// The type of the record, as `A`.
        record: String,
    },
    /// A connection or a datagram.
    Address {
        /// Address and port.
        address: String,
        transport: Transport,
    },
}

impl Host {
    pub fn name(name: &str, record: &str) -> Self {
        Self::Name {
            name: excerpt(&name.replace(['\n', '\t'], " "), LONGEST_NAME),
            record: excerpt(record, LONGEST_NAME),
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostOutcome {
    /// The resolver said that there is no such name.
    NoSuchName,
    /// The connection was refused.
    Refused,
    /// A datagram was sent, which reached nobody outside.
    Stayed,
}

pub(super) fn once() -> u64 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(super) fn is_once(times: &u64) -> bool {
    *times == 1
}

/// What was sought alike by one process, together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sought {
    /// The name, or address and port.
    pub host: String,
    /// Absent for a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Asker>,
    pub outcome: HostOutcome,
    pub times: u64,
    /// The first events that tell of it.
    pub evidence: Vec<Seq>,
}

/// So many events are named for one thing that was sought.
const MOST_EVIDENCE: usize = 4;

/// All that was sought in these events, in the order of the first of each.
pub fn hosts_sought<'a>(events: impl IntoIterator<Item = (Seq, &'a Event)>) -> Vec<Sought> {
    let mut all = Collected::default();
    for (seq, event) in events {
        match event {
            Event::HostSought {
                host,
                outcome,
                by,
                times,
            } => {
                let (label, transport, record) = match host {
                    Host::Name { name, record } => (name, None, record.as_str()),
                    Host::Address { address, transport } => (address, Some(*transport), ""),
                };
                let sought = Sought {
                    host: label.clone(),
                    transport,
                    by: by.clone(),
                    outcome: *outcome,
                    times: *times,
                    evidence: Vec::new(),
                };
                all.add(seq, sought, record);
            }
            Event::Rehearsed { sought, .. } => {
                for sought in sought {
                    all.add(seq, sought.clone(), "");
                }
            }
            _ => {}
        }
    }
    all.0.into_iter().map(|(sought, _)| sought).collect()
}

/// Each with how often it was asked for each kind of record: a look-up asks for the addresses of IPv4 and of IPv6, and is
/// one.
#[derive(Default)]
struct Collected<'a>(Vec<(Sought, BTreeMap<&'a str, u64>)>);

impl<'a> Collected<'a> {
    fn add(&mut self, seq: Seq, mut this: Sought, record: &'a str) {
        let times = this.times;
        this.evidence.clear();
        let place = self.0.iter().position(|(sought, _)| sought.is_like(&this));
        let place = place.unwrap_or_else(|| {
            self.0.push((this, BTreeMap::new()));
            self.0.len() - 1
        });
        let (sought, asked) = &mut self.0[place];
        *asked.entry(record).or_default() += times;
        sought.times = asked.values().copied().max().unwrap_or_default();
        if sought.evidence.len() < MOST_EVIDENCE {
            sought.evidence.push(seq);
        }
    }
}

impl Sought {
    fn is_like(&self, other: &Self) -> bool {
        (&self.host, self.transport, self.outcome, &self.by)
            == (&other.host, other.transport, other.outcome, &other.by)
    }

    /// ``looked up `slack.com` ``.
    pub fn deed(&self) -> String {
        let verb = match self.transport {
            None => "looked up",
            Some(Transport::Tcp) => "tried to connect to",
            Some(Transport::Udp) => "sent a datagram to",
        };
        format!("{verb} `{}`", self.host)
    }

    /// `no such name in the sandbox`.
    pub fn came_of_it(&self) -> &'static str {
        match self.outcome {
            HostOutcome::NoSuchName => "no such name in the sandbox",
            HostOutcome::Refused => "nobody listens there in the sandbox",
            HostOutcome::Stayed => "it did not leave the sandbox",
        }
    }
}

/// ``looked up `slack.com` (node, pid 5, 2 times): no such name in the sandbox``.
impl fmt::Display for Sought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asker = self
            .by
            .as_ref()
            .map(|Asker { pid, comm }| format!("{}, pid {pid}", comm.replace(['\n', '\t'], " ")));
        let times = (self.times > 1).then(|| format!("{} times", self.times));
        let remarks: Vec<String> = asker.into_iter().chain(times).collect();
        f.write_str(&self.deed())?;
        if !remarks.is_empty() {
            write!(f, " ({})", remarks.join(", "))?;
        }
        write!(f, ": {}", self.came_of_it())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(record: &str, pid: Pid) -> Event {
        Event::HostSought {
            host: Host::name("slack.com", record),
            outcome: HostOutcome::NoSuchName,
            by: Some(Asker {
                pid,
                comm: "node".to_owned(),
            }),
            times: 1,
        }
    }

    #[test]
    fn questions_for_both_kinds_of_address_are_one_look_up() {
        let events = [
            asked("A", 5),
            asked("AAAA", 5),
            asked("AAAA", 5),
            asked("A", 5),
        ];
        let sought = hosts_sought((0..).zip(&events));
        let told: Vec<String> = sought.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            ["looked up `slack.com` (node, pid 5, 2 times): no such name in the sandbox"]
        );
        assert_eq!(sought[0].evidence, [0, 1, 2, 3]);
    }

    #[test]
    fn what_two_processes_sought_is_told_of_each() {
        let refused = Event::HostSought {
            host: Host::Address {
                address: "93.184.216.34:443".to_owned(),
                transport: Transport::Tcp,
            },
            outcome: HostOutcome::Refused,
            by: None,
            times: 1,
        };
        let events = [asked("A", 5), refused, asked("A", 6)];
        let told: Vec<String> = hosts_sought((0..).zip(&events))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(told.len(), 3);
        assert_eq!(
            told[1],
            "tried to connect to `93.184.216.34:443`: nobody listens there in the sandbox"
        );
    }
}

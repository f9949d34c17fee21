//! Who serves a session, and who in the cell has nothing to do with it.

use std::collections::HashSet;

use super::stage::Stage;
use crate::cell::Present;
use crate::journal::{Event, Exit, Pid, PipeEnd};
use crate::session::LiveSession;

impl Stage {
    /// Leaves out the processes of the session beside, the authority, and what they have started.
    pub fn leave_out_bystanders(&self, present: &mut Vec<Present>) {
        let mut bystanders = self.bystanders.clone();
        bystanders.extend(self.operator.pid);
        bystanders.extend(&self.operator.others);
        leave_out(present, bystanders);
    }

    /// Whether nobody serves the session any more, as far as anybody has told.
    pub fn is_dead(&self, live: &LiveSession) -> bool {
        self.exit_of(self.serving(live))
    }

    /// The process that the client started; where that was a launcher which has gone, the one that it left: who holds
    /// both of the session's pipes.
    pub fn serving(&self, live: &LiveSession) -> Pid {
        let started = live.server();
        if self.status_of(started) != Some(Exit::Code(0)) {
            return started;
        }
        let holders = |end| {
            let holders = self.cell.line().holders(live.pipes(), end);
            holders.map(|(pids, _)| pids).unwrap_or_default()
        };
        let writers = holders(PipeEnd::StdoutWrite);
        let mut readers = holders(PipeEnd::StdinRead).into_iter();
        readers
            .find(|reader| writers.contains(reader))
            .unwrap_or(started)
    }

    pub fn exit_of(&self, pid: Pid) -> bool {
        self.status_of(pid).is_some()
    }

    pub fn status_of(&self, pid: Pid) -> Option<Exit> {
        self.journal.latest(|entry| match &*entry.event {
            Event::ProcessExited { pid: of, exit, .. } if *of == pid => Some(*exit),
            _ => None,
        })
    }
}

/// Leaves out these processes and all that they have started.
pub(super) fn leave_out(present: &mut Vec<Present>, mut these: HashSet<Pid>) {
    // A child can have a lower pid than its parent, so once through is not enough.
    while !these.is_empty() {
        let known = these.len();
        let children = present.iter().filter(|p| these.contains(&p.parent));
        let children: Vec<Pid> = children.map(|child| child.pid).collect();
        these.extend(children);
        if these.len() == known {
            break;
        }
    }
    present.retain(|present| !these.contains(&present.pid));
}

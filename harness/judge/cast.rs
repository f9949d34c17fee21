//! Who is who in the cell: what is ours (clients and their siblings), what the server started, and what to call it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Event, Moment, Pid, Process, Seq, Session};
use crate::spec::AllowedHelper;

use super::history::{Look, Seen};
use super::sentence::{Sentence, say};

#[derive(Debug, Clone, Default)]
struct Name {
    argv: String,
    comm: String,
}

/// The processes of a trial.
#[derive(Debug, Clone, Default)]
pub(super) struct Cast<'a> {
    clients: BTreeSet<Pid>,
    siblings: BTreeSet<Pid>,
    /// Whoever lived when the session beside was open and session A was not.
    bystanders: BTreeSet<Pid>,
    servers: BTreeMap<Session, (Seq, Pid)>,
    names: BTreeMap<Pid, Name>,
    /// Every process of session A that is not ours.
    tree: BTreeSet<Pid>,
    looks: Vec<Look<'a>>,
}

impl<'a> Cast<'a> {
    pub(super) fn of(all: impl Iterator<Item = Seen<'a>>) -> Self {
        let mut cast = Self::default();
        for seen in all {
            match seen.event {
                Event::ClientStarted { pid, .. } => {
                    cast.clients.insert(*pid);
                }
                Event::SiblingStarted { pid, argv, .. } => {
                    cast.siblings.insert(*pid);
                    cast.name(*pid, argv, None);
                }
                Event::ServerStarted { session, pid, argv } => {
                    cast.servers.entry(*session).or_insert((seen.seq, *pid));
                    cast.name(*pid, argv, None);
                }
                Event::ServerHandedOver { session, pid } => {
                    cast.servers.insert(*session, (seen.seq, *pid));
                }
                Event::ProcessExited { pid, comm, .. } => {
                    cast.name(*pid, &[], comm.as_deref());
                }
                Event::SignalSent { pid, comm, .. } => cast.name(*pid, &[], Some(comm)),
                Event::Looked {
                    moment,
                    session,
                    processes,
                    sockets,
                } => {
                    if *moment == Moment::Beside {
                        cast.bystanders
                            .extend(processes.iter().map(|process| process.pid));
                    }
                    for process in processes {
                        cast.name(process.pid, &process.argv, Some(&process.comm));
                    }
                    cast.looks.push(Look {
                        seen,
                        moment: *moment,
                        session: *session,
                        processes,
                        sockets,
                    });
                }
                _ => {}
            }
        }
        cast.tree = cast.tree_of_a();
        cast
    }

    fn tree_of_a(&self) -> BTreeSet<Pid> {
        let mut tree: BTreeSet<Pid> = self.server(Session::A).into_iter().collect();
        for look in self.looks.iter().filter(|look| look.session == Session::A) {
            tree.extend(self.of_server(look).map(|process| process.pid));
        }
        tree
    }

    fn name(&mut self, pid: Pid, argv: &[String], comm: Option<&str>) {
        let name = self.names.entry(pid).or_default();
        if !argv.is_empty() {
            name.argv = argv.join(" ");
        }
        if let Some(comm) = comm.filter(|comm| !comm.is_empty()) {
            comm.clone_into(&mut name.comm);
        }
    }

    /// The process that became the server's command, or the one that it handed the session's pipes to before it ended.
    pub(super) fn server(&self, session: Session) -> Option<Pid> {
        self.servers.get(&session).map(|(_, pid)| *pid)
    }

    /// The event that says so.
    pub(super) fn server_started(&self, session: Session) -> Option<Seq> {
        self.servers.get(&session).map(|(seq, _)| *seq)
    }

    pub(super) fn is_ours(&self, pid: Pid) -> bool {
        self.clients.contains(&pid) || self.is_beside(pid)
    }

    /// Whether this pid was seen in the tree of session A's server.
    pub(super) fn is_in_tree(&self, pid: Pid) -> bool {
        self.tree.contains(&pid)
    }

    /// The processes of a look that the server started, with the server itself.
    pub(super) fn of_server<'l>(
        &self,
        look: &Look<'l>,
    ) -> impl Iterator<Item = &'l Process> + use<'_, 'l, 'a> {
        let look = *look;
        look.processes.iter().filter(move |process| {
            !self.is_ours(process.pid)
                && !chain(&look, process).any(|above| self.is_beside(above.pid))
        })
    }

    /// Whoever is there beside session A, and what it starts: a careless client's sibling, or the session beside.
    fn is_beside(&self, pid: Pid) -> bool {
        self.siblings.contains(&pid) || self.bystanders.contains(&pid)
    }

    /// A process with its command, for a reader; its short name alone, for the snapshot.
    pub(super) fn called(&self, pid: Pid) -> Sentence {
        let name = self.names.get(&pid).cloned().unwrap_or_default();
        let long = if name.argv.is_empty() {
            &name.comm
        } else {
            &name.argv
        };
        if long.is_empty() {
            return say("pid ").pid(pid);
        }
        let long = crate::journal::excerpt(long, 80).replace(['\n', '\t'], " ");
        // A process may rename itself at any time, so the name that it was started by is the stable one.
        let short = match name.argv.split(' ').next().unwrap_or_default() {
            "" => name.comm.as_str(),
            path => path.rsplit('/').next().unwrap_or(path),
        };
        Sentence::default()
            .varies(format!("`{long}`"), format!("`{short}`"))
            .text(" (pid ")
            .pid(pid)
            .text(")")
    }

    pub(super) fn all_called(&self, pids: impl IntoIterator<Item = Pid>) -> Sentence {
        Sentence::list(pids.into_iter().map(|pid| self.called(pid)).collect())
    }

    /// Whether the drill declares this process durable.
    pub(super) fn is_allowed(&self, allowed: &[AllowedHelper], pid: Pid) -> bool {
        let command = self.names.get(&pid).map_or("", |name| name.argv.as_str());
        !command.is_empty()
            && allowed
                .iter()
                // A pattern that is none was refused when the drill was read.
                .filter_map(|helper| regex::Regex::new(&helper.command).ok())
                .any(|pattern| pattern.is_match(command))
    }
}

/// The ancestors of a process within one look, nearest first.
pub(super) fn chain<'l>(
    look: &Look<'l>,
    process: &'l Process,
) -> impl Iterator<Item = &'l Process> + use<'l> {
    let processes = look.processes;
    // A journal may say anything, also that two processes are each other's parent.
    std::iter::successors(Some(process), move |below| {
        processes
            .iter()
            .find(|above| above.pid == below.ppid && above.pid != below.pid)
    })
    .skip(1)
    .take(processes.len())
}

//! Who is who in the cell: what is ours (clients and their siblings), what the server started, and what to call it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Event, Exit, Moment, Pid, PipeEnd, Process, Seq, Session};
use crate::spec::AllowedHelper;

use super::history::{Look, Seen};
use super::sentence::{Sentence, say};

#[derive(Debug, Clone, Default)]
struct Name {
    argv: String,
    /// The program that it was started as, where that was told.
    program: Option<String>,
    comm: String,
}

/// The processes of a trial.
#[derive(Debug, Clone, Default)]
pub(super) struct Cast<'a> {
    clients: BTreeSet<Pid>,
    siblings: BTreeSet<Pid>,
    /// Whoever lived when the session beside was open and session A was not.
    bystanders: BTreeSet<Pid>,
    /// The authority, where it is a process of its own.
    authority: BTreeSet<Pid>,
    servers: BTreeMap<Session, (Seq, Pid)>,
    /// Those of the servers that only launched another one and went.
    heirs: BTreeMap<Session, Pid>,
    names: BTreeMap<Pid, Name>,
    /// Every process of session A that is not ours.
    tree: BTreeSet<Pid>,
    looks: Vec<Look<'a>>,
}

impl<'a> Cast<'a> {
    pub(super) fn of(all: impl Iterator<Item = Seen<'a>>) -> Self {
        let mut cast = Self::default();
        let mut exits = BTreeMap::new();
        let mut crash = usize::MAX;
        for seen in all {
            match seen.event {
                Event::ClientStarted { pid, .. } => {
                    cast.clients.insert(*pid);
                }
                Event::SiblingStarted { pid, argv, .. } => {
                    cast.siblings.insert(*pid);
                    cast.name(*pid, argv, None);
                }
                Event::AuthorityServes { pid, argv, others } => {
                    cast.authority.insert(*pid);
                    cast.authority.extend(others);
                    cast.name(*pid, argv, None);
                }
                Event::ServerStarted { session, pid, argv } => {
                    cast.servers.entry(*session).or_insert((seen.seq, *pid));
                    cast.name(*pid, argv, None);
                    cast.names.entry(*pid).or_default().program = argv.first().cloned();
                }
                Event::ProcessExited { pid, comm, exit } => {
                    cast.name(*pid, &[], comm.as_deref());
                    exits.entry(*pid).or_insert((seen.place, *exit));
                }
                Event::CrashFired { .. } => crash = crash.min(seen.place),
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
        for session in [Session::A, Session::B, Session::Revoked] {
            let until = if session == Session::A {
                crash
            } else {
                usize::MAX
            };
            if let Some(heir) = cast.heir(session, &exits, until) {
                cast.heirs.insert(session, heir);
            }
        }
        cast.tree = cast.tree_of_a();
        cast
    }

    /// A launcher may start the server and go: then who holds both of the session's pipes is the server.
    fn heir(&self, of: Session, exits: &BTreeMap<Pid, (usize, Exit)>, until: usize) -> Option<Pid> {
        let (_, started) = *self.servers.get(&of)?;
        let (exited, Exit::Code(0)) = *exits.get(&started)? else {
            return None;
        };
        let mut after_it = self.looks.iter().filter(|look| look.session == of);
        let look = after_it.find(|look| (exited..until).contains(&look.seen.place))?;
        let serves = |process: &&Process| {
            process.pid != started && !process.is_zombie() && holds_session(process)
        };
        let able: Vec<&Process> = self.of_server(look).filter(serves).collect();
        let is_child = |process: &&&Process| able.iter().any(|p| p.pid == process.ppid);
        let first = able.iter().find(|process| !is_child(process))?;
        Some(first.pid)
    }

    fn tree_of_a(&self) -> BTreeSet<Pid> {
        let started = self.servers.get(&Session::A).map(|(_, pid)| *pid);
        let mut tree: BTreeSet<Pid> = started.into_iter().chain(self.server(Session::A)).collect();
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

    /// The process that became the server's command; where that was a launcher which has gone, the one that it left.
    pub(super) fn server(&self, session: Session) -> Option<Pid> {
        let started = self.servers.get(&session).map(|(_, pid)| *pid);
        self.heirs.get(&session).copied().or(started)
    }

    /// Whether the server is one that its launcher has left.
    pub(super) fn has_lost_launcher(&self, session: Session) -> bool {
        self.heirs.contains_key(&session)
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

    /// Whoever is there beside session A, and what it starts: a careless client's sibling, the session beside, or the
    /// authority.
    fn is_beside(&self, pid: Pid) -> bool {
        self.siblings.contains(&pid)
            || self.bystanders.contains(&pid)
            || self.authority.contains(&pid)
    }

    /// The command of a process, as far as anybody has seen it.
    pub(super) fn command(&self, pid: Pid) -> Option<String> {
        let name = self.names.get(&pid)?;
        let long = if name.argv.is_empty() {
            &name.comm
        } else {
            &name.argv
        };
        (!long.is_empty()).then(|| crate::journal::excerpt(long.trim_end(), 300))
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
        // A title that a process gives itself is padded to the length of the arguments that it writes over.
        let long = crate::journal::excerpt(long.trim_end(), 80).replace(['\n', '\t'], " ");
        // A process may rename itself at any time, so the name that it was started by is the stable one.
        let program = name.program.as_deref();
        let short = match program
            .or_else(|| name.argv.split(' ').next())
            .unwrap_or_default()
        {
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

/// Whether this process could serve a session: it reads what the client writes and writes what the client reads.
pub(super) fn holds_session(process: &Process) -> bool {
    process.holds.contains(&PipeEnd::StdinRead) && process.holds.contains(&PipeEnd::StdoutWrite)
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

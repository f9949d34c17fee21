//! Crashes: can each point be reached, and do the names tell the trials apart?

use std::collections::BTreeMap;

use super::super::file::trial_name;
use super::super::model::{Crash, CrashPoint};
use super::super::path::Path;
use super::Check;

impl CrashPoint {
    /// Whether the moment exists only where the remote has an effect to apply.
    pub fn needs_effect(self) -> bool {
        match self {
            Self::BeforeDispatch
            | Self::Sent
            | Self::AfterAcceptance
            | Self::TornReply
            | Self::AfterReply => true,
            Self::Startup
            | Self::Idle
            | Self::TornCall
            | Self::CallUnread
            | Self::CallWritten
            | Self::AfterResult => false,
        }
    }
}

impl Check<'_, '_> {
    pub(super) fn crashes(&mut self) {
        let crashes = Path::of(["crash"]);
        let mut trials: BTreeMap<String, usize> = BTreeMap::new();
        for (n, crash) in self.drill.crash.iter().enumerate() {
            let at = crashes.index(n);
            self.crash(&at, crash);
            let trial = trial_name(&self.drill.drill, crash);
            if let Some(first) = trials.get(&trial) {
                let place = point(self.tree, &crashes.index(*first));
                let here = point(self.tree, &at);
                self.found
                    .add(&here, format!("{at}: there is a trial `{trial}` already"))
                    .also(&place, "this one")
                    .help(format!("tell them apart: {{ at: {}, name: … }}", crash.at));
            } else {
                trials.insert(trial, n);
            }
        }
    }

    fn crash(&mut self, at: &Path, crash: &Crash) {
        let is_full = self.says(&at.key("at"));
        if crash.at.needs_effect() && !self.has_effect() {
            let point = if is_full { at.key("at") } else { at.clone() };
            let why = if self.drill.remote.is_some() {
                "no route of the remote has an `effect`"
            } else {
                "there is no `remote`"
            };
            self.value(&point, format!("`{}` is never reached: {why}", crash.at));
        }
        if !crash.close.is_empty() {
            for key in ["kill", "signal"] {
                if self.says(&at.key(key)) {
                    self.key(
                        &at.key(key),
                        "does not go together with `close`: the client lives on",
                    );
                }
            }
            for (n, stream) in crash.close.iter().enumerate() {
                if crash.close[..n].contains(stream) {
                    self.value(&at.key("close").index(n), "this stream is closed already");
                }
            }
        }
        if crash.connection.is_some() && !self.has_effect() {
            self.key(
                &at.key("connection"),
                "there is no effect that a connection could carry",
            );
        }
    }
}

/// The crash point of a crash, in either form.
fn point(tree: &super::super::yaml::Node, at: &Path) -> std::ops::Range<usize> {
    let full = at.key("at");
    if full.is_in(tree) {
        full.place(tree)
    } else {
        at.place(tree)
    }
}

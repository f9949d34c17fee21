//! Crashes: can each point be reached, and do the names tell the trials apart?

use std::collections::BTreeMap;

use super::super::file::trial_name;
use super::super::model::{Crash, CrashPoint, Decision, Kill, Signal, Then};
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
            Self::BeforeApproval
            | Self::AfterApproval
            | Self::Startup
            | Self::Idle
            | Self::TornCall
            | Self::CallUnread
            | Self::CallWritten
            | Self::AfterResult
            // Whether these are ever reached shows in their trials.
            | Self::Syscall
            | Self::Boundary
            | Self::Every => false,
        }
    }
}

impl Check<'_, '_> {
    pub(super) fn crashes(&mut self) {
        let mut trials: BTreeMap<String, usize> = BTreeMap::new();
        for (n, crash) in self.drill.crash.iter().enumerate() {
            let at = self.crash_path(n);
            self.moment(&at, crash);
            self.crash(&at, crash);
            let trial = trial_name(&self.drill.drill, crash);
            if let Some(first) = trials.get(&trial) {
                let place = point(self.tree, &self.crash_path(*first));
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

    /// The path of the nth crash; `crash: every` stands where else a list would.
    fn crash_path(&self, n: usize) -> Path {
        let crashes = Path::of(["crash"]);
        let listed = crashes.index(n);
        if self.says(&listed) { listed } else { crashes }
    }

    /// Is the moment said, and said once?
    fn moment(&mut self, at: &Path, crash: &Crash) {
        let named = [
            ("syscall", CrashPoint::Syscall, crash.syscall.is_some()),
            ("boundary", CrashPoint::Boundary, crash.boundary.is_some()),
        ];
        if !named.iter().any(|(.., is_there)| *is_there)
            && matches!(crash.at, CrashPoint::Syscall | CrashPoint::Boundary)
        {
            let message =
                "the crash does not say at which moment: write `at`, `syscall` or `boundary`";
            self.value(at, message)
                .help("as in { at: after-acceptance } or { syscall: { name: connect, nth: 1 } }");
        }
        for (key, point, is_there) in named {
            if is_there && crash.at != point {
                let message = format!("does not go together with `at: {}`", crash.at);
                self.key(&at.key(key), message);
            }
        }
        if crash.errno.is_some() && crash.syscall.is_none() {
            self.key(&at.key("errno"), "there is no `syscall` that could fail");
        }
    }

    fn crash(&mut self, at: &Path, crash: &Crash) {
        let is_full = self.says(&at.key("at"));
        if crash.at.needs_effect() && !self.has_effect() {
            let point = if is_full { at.key("at") } else { at.clone() };
            self.value(
                &point,
                format!("`{}` is never reached: {}", crash.at, self.no_effect()),
            );
        }
        let is_at_approval = matches!(
            crash.at,
            CrashPoint::BeforeApproval | CrashPoint::AfterApproval
        );
        let has_approval = self.routes().iter().any(|route| route.approval);
        if is_at_approval && !has_approval {
            let point = if is_full { at.key("at") } else { at.clone() };
            let message = format!(
                "`{}` is never reached: no route of the remote has `approval: true`",
                crash.at
            );
            self.value(&point, message);
        }
        if self.says(&at.key("decision")) {
            if !is_at_approval {
                let message = "only `before-approval` and `after-approval` hold a decision";
                self.key(&at.key("decision"), message);
            } else if crash.decision == Decision::AfterRevocation && self.drill.authority.is_none()
            {
                let message = "nothing is revoked: this drill has no `authority`";
                self.value(&at.key("decision"), message);
            }
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
        if crash.close.is_empty() && self.says(&at.key("close")) {
            self.key(
                &at.key("close"),
                "closes nothing: name stdin, stdout or stderr",
            );
        }
        if crash.signal == Signal::Stop && crash.kill != Kill::Client {
            let message = "a server that is stopped can show nothing: STOP is for the client";
            self.value(&at.key("signal"), message);
        }
        if matches!(crash.kill, Kill::Polite(_)) && self.says(&at.key("signal")) {
            self.key(
                &at.key("signal"),
                "does not go together with a polite shutdown, which has signals of its own",
            );
        }
        if crash.connection.is_some() && !self.has_effect() {
            self.key(
                &at.key("connection"),
                "there is no effect that a connection could carry",
            );
        }
        if crash.then.is_some() {
            if !self.has_effect() {
                let message = format!("never happens: {}", self.no_effect());
                self.key(&at.key("then"), message);
            } else if self.says(&at.key("reply")) {
                self.key(&at.key("reply"), "does not go together with `then`");
            }
        }
        if let Some(then) = crash.then
            && then.is_before_commit()
            && matches!(
                crash.at,
                CrashPoint::AfterAcceptance
                    | CrashPoint::TornReply
                    | CrashPoint::AfterReply
                    | CrashPoint::AfterResult
            )
        {
            let message = format!("at {} the effect has been applied already", crash.at);
            self.value(&at.key("then"), message);
        }
        if matches!(crash.then, Some(Then::Error500 | Then::Replayed))
            && crash.at == CrashPoint::TornReply
        {
            let message = "half of the reply has been delivered already, and with it the status";
            self.value(&at.key("then"), message);
        }
    }

    fn no_effect(&self) -> &'static str {
        if self.drill.remote.is_some() {
            "no route of the remote has an `effect`"
        } else {
            "there is no `remote`"
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

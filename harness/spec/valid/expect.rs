//! Expectations and known answers: can they be asked at all?

use std::collections::BTreeMap;

use super::super::mistake::{did_you_mean, nearest, one_of};
use super::super::model::{
    Asked, Authority, Crash, CrashPoint, Expect, Ownership, Question, Revocable, Source, Status,
    Stream,
};
use super::super::path::Path;
use super::Check;

impl Expect {
    /// The reason why a question is left out.
    pub fn skipped(&self, question: Question) -> Option<&str> {
        match question {
            Question::Eof => self.eof.skipped(),
            Question::Helpers => self.helpers.skipped(),
            Question::Quiet => self.quiet.skipped(),
            Question::Effects => self.effects.skipped(),
            Question::Reconcile => self.reconcile.skipped(),
            Question::Handle => self.handle.skipped(),
            Question::Ownership => self.ownership.as_ref().and_then(Asked::skipped),
            Question::Revocation => self.revocation.skipped(),
            Question::Protocol => self.protocol.skipped(),
            Question::Secrets => self.secrets.skipped(),
            Question::Resources => self.resources.skipped(),
        }
    }
}

impl Check<'_, '_> {
    pub(super) fn expectations(&mut self) {
        let at = Path::of(["expect"]);
        for question in [
            Question::Effects,
            Question::Reconcile,
            Question::Handle,
            Question::Revocation,
        ] {
            let at = at.key(&question.to_string());
            if self.says(&at)
                && self.drill.expect.skipped(question).is_none()
                && let Some(why) = self.never_asked(question)
            {
                self.key(&at, format!("is never asked: {why}"));
            }
        }
        self.eof(&at.key("eof"));
        self.helpers(&at.key("helpers"));
        if let Some(Asked::Ask(ownership)) = &self.drill.expect.ownership {
            self.ownership(&at.key("ownership"), ownership);
        }
        if let Some(revocation) = self.drill.expect.revocation.ask() {
            self.revocable(&at.key("revocation").key("of"), &revocation.of);
        }
    }

    /// Is there what is to be revoked, and a way to do it?
    fn revocable(&mut self, at: &Path, of: &[Revocable]) {
        let hands_none = match &self.drill.authority {
            Some(Authority::Gateway(_)) => true,
            Some(Authority::Command(form)) => form.command.issue.is_empty(),
            _ => false,
        };
        if hands_none && of.contains(&Revocable::Credential) {
            let message = "the server has no credential of its own: its authority keeps it";
            self.value(at, message).help("revoke the `run`");
        }
        if !of.is_empty() && of.iter().all(|of| *of == Revocable::Job) {
            let message = "a job alone leaves its run what it was";
            self.value(at, message).help("add `run`");
        } else if of.contains(&Revocable::Job) {
            let cancels = |route: &super::Route| route.cancel.is_some() && route.by.is_some();
            let log = self.drill.expect.ownership.as_ref().and_then(Asked::ask);
            if !self.routes().iter().any(cancels) {
                self.value(at, "no route of the remote cancels a `job`");
            } else if log.is_none_or(|log| log.record.effect.is_none()) {
                let message = "a `job` is cancelled by its id in the record, and no `expect.ownership.record.effect` says \
                               where that is";
                self.value(at, message);
            }
        }
    }

    /// Why this question cannot be asked of this drill.
    fn never_asked(&self, question: Question) -> Option<&'static str> {
        let drill = self.drill;
        match question {
            Question::Effects if drill.remote.is_none() => Some("there is no `remote`"),
            Question::Effects if !self.has_effect() => {
                Some("no route of the remote has an `effect`")
            }
            Question::Reconcile if drill.recover.is_none() => Some("there is no `recover`"),
            Question::Revocation if drill.authority.is_none() => Some("there is no `authority`"),
            Question::Ownership if drill.expect.ownership.is_none() => {
                Some("`expect.ownership` does not name a log, or another source")
            }
            Question::Handle => {
                let looks_up =
                    |route: &super::Route| route.find.is_some() || route.cancel.is_some();
                let log = drill.expect.ownership.as_ref().and_then(Asked::ask);
                if !self.routes().iter().any(looks_up) {
                    Some("no route of the remote has `find` or `cancel`")
                } else if log.is_none() {
                    Some("`expect.ownership` does not name a log, or another source")
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    fn eof(&mut self, at: &Path) {
        let Some(Status::Codes(codes)) = self.drill.expect.eof.ask().map(|eof| &eof.status) else {
            return;
        };
        let at = at.key("status");
        if codes.is_empty() {
            self.value(&at, "no exit would be right")
                .help("`any`, or a list of exit codes such as `[0]`");
        }
        for (n, code) in codes.iter().enumerate() {
            if !(0..=255).contains(code) {
                self.value(
                    &at.index(n),
                    format!("`{code}` is not an exit code, 0 to 255"),
                );
            }
        }
    }

    fn helpers(&mut self, at: &Path) {
        let Some(helpers) = self.drill.expect.helpers.ask() else {
            return;
        };
        for (n, helper) in helpers.allow.iter().enumerate() {
            if let Err(error) = regex::Regex::new(&helper.command) {
                let at = at.key("allow").index(n).key("command");
                let because = match &error {
                    regex::Error::CompiledTooBig(_) => "it is too big".to_owned(),
                    // The last line says what is wrong; those before draw the expression again.
                    other => {
                        let text = other.to_string();
                        let last = text.lines().last().unwrap_or_default();
                        last.trim_start_matches("error: ").to_owned()
                    }
                };
                self.value(&at, format!("not a regular expression: {because}"));
            }
        }
    }

    fn ownership(&mut self, at: &Path, ownership: &Ownership) {
        let drill = self.drill;
        let needs_record = matches!(ownership.source(), Some(Source::Stderr | Source::Logging));
        if needs_record && !self.says(&at.key("record")) {
            let message = "needs a `record`: where in a row each thing stands";
            self.key(&at.key("from"), message)
                .help("such as `record: { run: /run_id, call: /call_id, outcome: /outcome }`; only `otlp` has one of its own");
        }
        let closes_stderr = |crash: &Crash| crash.close.contains(&Stream::Stderr);
        if ownership.source() == Some(Source::Stderr) && drill.crash.iter().any(closes_stderr) {
            let message = "a crash closes stderr, which the client does not hold then";
            self.key(&at.key("from"), message);
        }
        if ownership.durable && !drill.crash.iter().any(|crash| drill.is_gated(crash)) {
            let message = "can be seen through the gate alone, and no crash has it";
            self.key(&at.key("durable"), message)
                .help("write `gate: true` at the drill, or at a crash");
        }
        let says_effect = self.says(&at.key("record").key("effect"));
        if says_effect && !self.has_effect() {
            let at = at.key("record").key("effect");
            self.key(&at, "the remote makes no effect whose id could be recorded");
        }
        // A word that means two things would make every row of the log ambiguous.
        let outcomes = &ownership.outcomes;
        let mut meanings: BTreeMap<&str, &str> = BTreeMap::new();
        for (meaning, words) in [
            ("intended", &outcomes.intended),
            ("success", &outcomes.success),
            ("failed", &outcomes.failed),
            ("refused", &outcomes.refused),
            ("unknown", &outcomes.unknown),
        ] {
            for (n, word) in words.iter().enumerate() {
                match meanings.insert(word, meaning) {
                    Some(other) if other != meaning => {
                        let at = at.key("outcomes").key(meaning);
                        let message = format!("`{word}` means `{other}` already");
                        self.value(&at.index(n), message);
                    }
                    _ => {}
                }
            }
        }
    }

    pub(super) fn known(&mut self) {
        let crashes = &self.drill.crash;
        let mut names: Vec<String> = Vec::new();
        for crash in crashes {
            let point = crash.point();
            for name in std::iter::once(&point).chain(&crash.name) {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let has_every = crashes.iter().any(|crash| crash.at == CrashPoint::Every);
        for (question, known) in &self.drill.known {
            let at = Path::of(["known"]).key(&question.to_string());
            if self.drill.expect.skipped(*question).is_some() {
                self.key(&at, "is never asked: `expect` skips it");
            } else if let Some(why) = self.never_asked(*question) {
                self.key(&at, format!("is never asked: {why}"));
            }
            for (n, name) in known.at.iter().enumerate() {
                // Which boundaries there are is found when they are rehearsed.
                if !has_every && !names.contains(&name.as_str()) {
                    let guess = did_you_mean(nearest(name, names.iter().copied()));
                    let message = format!("the drill does not crash at `{name}`{guess}");
                    self.value(&at.key("at").index(n), message)
                        .help(format!("it crashes at {}", one_of(names.iter().copied())));
                }
            }
        }
    }
}

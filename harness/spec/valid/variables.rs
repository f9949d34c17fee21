//! Templates: does each parse, and does every name in it exist where it stands?

use serde_json::Value;

use super::super::mistake::{did_you_mean, nearest, one_of};
use super::super::model::{
    Asked, Authority, Call, CommandForm, RecordPlace, Recovery, Reply, Route,
};
use super::super::path::Path;
use super::super::template::Templates;
use super::Check;
use super::route::On;

/// What a session's templates know.
const OF_A_SESSION: [&str; 14] = [
    "workdir",
    "root",
    "fixture",
    "run.id",
    "call.id",
    "approval.id",
    "remote.url",
    "authority.token",
    "authority.refresh",
    "authority.issuer",
    "authority.socket",
    "authority.log",
    "otlp.http",
    "otlp.grpc",
];
/// What the commands of an authority know besides.
const OF_A_COMMAND: [&str; 2] = ["authority.key", "authority.wider_key"];
/// What the reply of a route knows that asks for a decision.
const DECISION: &str = "decision.approved";
/// What every reply knows.
const OF_A_REPLY: [&str; 14] = [
    "workdir",
    "root",
    "fixture",
    "remote.url",
    "request",
    "request.method",
    "request.path",
    "request.query",
    "request.headers",
    "request.json",
    "effects",
    "authority.user",
    "authority.token",
    "authority.derived",
];
/// What the reply of a route knows that makes, finds or cancels an effect.
const EFFECT: &str = "effect";
/// Names below which anything may stand.
const OPEN: [&str; 5] = [
    "request.query",
    "request.headers",
    "request.json",
    "effects",
    EFFECT,
];

/// Where a template stands, for the names that it knows.
#[derive(Clone)]
struct Scope {
    names: Vec<String>,
    /// What to call it.
    place: &'static str,
    templates: Templates,
}

impl Check<'_, '_> {
    pub(super) fn variables(&mut self) {
        let drill = self.drill;
        let mut names = OF_A_SESSION.map(str::to_owned).to_vec();
        names.extend(drill.redact.iter().map(|name| format!("env.{name}")));
        self.redacted();
        let session = Scope {
            names,
            place: "here",
            templates: Templates::default(),
        };
        for (n, requirement) in drill.requires.iter().enumerate() {
            let at = Path::of(["requires"]).index(n).key("file");
            self.template(&session, &at, &requirement.file);
        }
        let server = Path::of(["server"]);
        let arguments = [
            (server.key("command"), &drill.server.command),
            (
                Path::of(["client", "leak_stdin_to"]),
                &drill.client.leak_stdin_to,
            ),
        ];
        for (at, arguments) in arguments {
            for (n, argument) in arguments.iter().enumerate() {
                self.template(&session, &at.index(n), argument);
            }
        }
        for (key, texts) in [("env", &drill.server.env), ("files", &drill.server.files)] {
            for (name, text) in texts {
                self.template(&session, &server.key(key).key(name), text);
            }
        }
        if let Some(cwd) = &drill.server.cwd {
            self.template(&session, &server.key("cwd"), cwd);
        }
        self.calls(&session);
        self.commands(session.clone());
        let expect = Path::of(["expect"]);
        let asked = drill.expect.ownership.as_ref().and_then(Asked::ask);
        if let Some(RecordPlace::Log(log)) = asked.map(|ownership| &ownership.place) {
            let at = expect.key("ownership").key("log");
            self.template(&session, &at, log);
        }
        self.replies();
    }

    /// A name that nothing uses is a typing error, and the value that was meant would be in the bundle.
    fn redacted(&mut self) {
        let text = serde_json::to_string(self.drill).unwrap_or_default();
        let env = &self.drill.server.env;
        for (n, name) in self.drill.redact.iter().enumerate() {
            if !env.contains_key(name) && !text.contains(&format!("env.{name}")) {
                let guess = did_you_mean(nearest(name, env.keys().map(String::as_str)));
                self.value(
                    &Path::of(["redact"]).index(n),
                    format!(
                        "`server.env` has no `{name}`, and no template uses `env.{name}`{guess}"
                    ),
                );
            }
        }
    }

    /// The commands of an authority know its key besides.
    fn commands(&mut self, mut scope: Scope) {
        let Some(Authority::Command(CommandForm { command })) = &self.drill.authority else {
            return;
        };
        scope.names.extend(OF_A_COMMAND.map(str::to_owned));
        let at = Path::of(["authority", "command"]);
        let lists = [
            ("serve", &command.serve),
            ("issue", &command.issue),
            ("revoke", &command.revoke),
            ("refusals", &command.refusals),
            ("verify", &command.verify),
        ];
        for (key, arguments) in lists {
            for (n, argument) in arguments.iter().enumerate() {
                self.template(&scope, &at.key(key).index(n), argument);
            }
        }
        for (name, text) in &command.env {
            self.template(&scope, &at.key("env").key(name), text);
        }
    }

    fn calls(&mut self, session: &Scope) {
        let drill = self.drill;
        self.call(session, &Path::of(["call"]), &drill.call);
        if let Some(recover) = &drill.recover {
            let at = Path::of(["recover"]);
            if let Recovery::Tool { arguments, .. } = &recover.how {
                self.object(session, &at.key("arguments"), arguments);
            }
            for (n, call) in recover.before.iter().flatten().enumerate() {
                self.call(session, &at.key("before").index(n), call);
            }
        }
        let revoked = drill.expect.revocation.ask();
        if let Some(call) = revoked.and_then(|revocation| revocation.call.as_ref()) {
            self.call(session, &Path::of(["expect", "revocation", "call"]), call);
        }
    }

    fn call(&mut self, session: &Scope, at: &Path, call: &Call) {
        self.object(session, &at.key("arguments"), &call.arguments);
        for (n, earlier) in call.before.iter().enumerate() {
            self.call(session, &at.key("before").index(n), earlier);
        }
    }

    fn replies(&mut self) {
        let routes = Path::of(["remote", "routes"]);
        for (n, route) in self.routes().iter().enumerate() {
            let on = On::parse(&route.on);
            let captures = on.map(|on| on.captures).unwrap_or_default();
            let mut scope = Scope::of_reply(&captures, has_effect(route));
            if route.approval {
                scope.names.push(DECISION.to_owned());
            }
            self.reply_templates(&scope, &routes.index(n).key("reply"), &route.reply);
        }
        let exchange = self
            .drill
            .authority
            .as_ref()
            .and_then(|authority| authority.exchange());
        if let Some(exchange) = exchange {
            let on = On::parse(&exchange.on);
            let captures = on.map(|on| on.captures).unwrap_or_default();
            let scope = Scope::of_reply(&captures, false);
            let at = Path::of(["authority", "exchange", "reply"]);
            self.reply_templates(&scope, &at, &exchange.reply);
        }
    }

    fn reply_templates(&mut self, scope: &Scope, at: &Path, reply: &Reply) {
        for (name, text) in &reply.headers {
            self.template(scope, &at.key("headers").key(name), text);
        }
        if let Some(json) = &reply.json {
            self.json(scope, &at.key("json"), json);
        }
        if let Some(text) = &reply.text {
            self.template(scope, &at.key("text"), text);
        }
    }

    fn object(&mut self, scope: &Scope, at: &Path, fields: &serde_json::Map<String, Value>) {
        for (key, field) in fields {
            self.json(scope, &at.key(key), field);
        }
    }

    fn json(&mut self, scope: &Scope, at: &Path, value: &Value) {
        match value {
            Value::String(text) => self.template(scope, at, text),
            Value::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    self.json(scope, &at.index(n), item);
                }
            }
            Value::Object(fields) => self.object(scope, at, fields),
            _ => {}
        }
    }

    fn template(&mut self, scope: &Scope, at: &Path, text: &str) {
        match scope.templates.names(text) {
            Ok(names) => {
                for name in names {
                    self.name_in_template(scope, at, &name);
                }
            }
            Err(error) => {
                self.value(
                    at,
                    format!("this template cannot be read: {}", error.because),
                );
            }
        }
    }

    /// What an authority would have to be for this name to be there.
    fn authority_lacks(&self, name: &str) -> Option<&'static str> {
        let authority = self.drill.authority.as_ref()?;
        let is_gateway = matches!(authority, Authority::Gateway(_));
        match name {
            "authority.refresh" | "authority.issuer" if authority.oauth().is_none() => {
                Some("an `authority` with `oauth`")
            }
            "authority.socket" | "authority.log" if !is_gateway => {
                Some("an `authority` with `gateway`")
            }
            "authority.token" if is_gateway => Some(
                "an `authority` that gives the server a credential, which a `gateway` never does",
            ),
            _ => None,
        }
    }

    fn name_in_template(&mut self, scope: &Scope, at: &Path, name: &str) {
        let place = self.found.inside(&at.place(self.tree), name);
        if scope.knows(name) {
            let needs = match name.split('.').next() {
                Some("remote") if self.drill.remote.is_none() => "a `remote`",
                // The remote knows every run by a name, whether or not it asks for a credential.
                Some("authority") if name == "authority.user" => return,
                Some("authority") if self.drill.authority.is_none() => "an `authority`",
                Some("authority") => match self.authority_lacks(name) {
                    Some(needs) => needs,
                    None => return,
                },
                Some("otlp") if !self.drill.receives_otlp() => {
                    "an `expect.ownership` with `from: otlp`"
                }
                _ => return,
            };
            let message = format!("{at}: `{name}` needs {needs}, and this drill has none");
            self.found.add(&place, message);
            return;
        }
        let elsewhere = OF_A_SESSION.contains(&name)
            || OF_A_REPLY.contains(&name)
            || OF_A_COMMAND.contains(&name)
            || name == DECISION
            || name.split('.').next() == Some(EFFECT);
        let known = scope.names.iter().map(String::as_str);
        let message = if elsewhere {
            format!("{at}: `{name}` is not known {}", scope.place)
        } else {
            let guess = did_you_mean(nearest(name, known.clone()));
            format!("{at}: there is no `{name}`{guess}")
        };
        self.found
            .add(&place, message)
            .help(format!("known {}: {}", scope.place, one_of(known)));
    }
}

impl Scope {
    fn of_reply(captures: &[&str], effect: bool) -> Self {
        let mut names: Vec<String> = OF_A_REPLY.map(str::to_owned).to_vec();
        names.extend(captures.iter().map(ToString::to_string));
        if effect {
            names.push(EFFECT.to_owned());
        }
        Self {
            names,
            place: "in this reply",
            templates: Templates::default(),
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.names.iter().any(|known| {
            name == known
                || OPEN.contains(&known.as_str())
                    && name
                        .strip_prefix(known.as_str())
                        .is_some_and(|field| field.starts_with('.'))
        })
    }
}

fn has_effect(route: &Route) -> bool {
    route.effect.is_some() || route.find.is_some() || route.cancel.is_some()
}

//! Routes and the authority: do the parts of the remote fit together?

use super::super::mistake::{did_you_mean, nearest, one_of};
use super::super::model::{
    Authority, GatewayForm, Lookup, OauthForm, Reply, Resource, Route, Tokens,
};
use super::super::path::Path;
use super::Check;
use super::route::{On, is_header_name};

impl Check<'_, '_> {
    pub(super) fn remote(&mut self) {
        let routes = Path::of(["remote", "routes"]);
        for (n, route) in self.routes().iter().enumerate() {
            let at = routes.index(n);
            self.route(&at, route);
        }
        if let Some(authority) = &self.drill.authority {
            let at = Path::of(["authority"]);
            self.authority(&at, authority);
        }
    }

    fn authority(&mut self, at: &Path, authority: &Authority) {
        let header = match authority {
            Authority::Bearer(_) => at.key("bearer"),
            Authority::Oauth(_) => at.key("oauth").key("header"),
            Authority::Command(_) => at.key("command").key("header"),
            Authority::Gateway(_) => at.clone(),
        };
        if !is_header_name(authority.header()) {
            let message = format!("`{}` is not a header's name", authority.header());
            self.value(&header, message).help("such as `Authorization`");
        }
        if self.drill.remote.is_none() {
            let kind = match authority {
                // What a server without a remote does with its credential, only its record tells.
                Authority::Bearer(_) | Authority::Command(_) => None,
                Authority::Oauth(_) => Some("oauth"),
                Authority::Gateway(_) => Some("gateway"),
            };
            if let Some(kind) = kind {
                let message = format!("`{kind}` needs a `remote`, and this drill has none");
                self.key(&at.key(kind), message);
            }
        }
        if let Some(exchange) = authority.exchange() {
            let at = at.key("exchange");
            self.on(&at, &exchange.on);
            self.reply(&at.key("reply"), &exchange.reply);
        }
        if let Authority::Oauth(OauthForm { oauth }) = authority
            && oauth.resource == Resource::ChecksSignature
            && oauth.tokens == Tokens::Opaque
        {
            let message = "an opaque token has no signature that could be checked";
            self.value(&at.key("oauth").key("resource"), message)
                .help("add `tokens: jwt`");
        }
        if let Authority::Oauth(OauthForm { oauth }) = authority
            && oauth.lifetime.0.as_secs() < 1
        {
            let message = "a token lives for whole seconds, and for one at least";
            self.value(&at.key("oauth").key("lifetime"), message);
        }
        if let Authority::Gateway(GatewayForm { gateway }) = authority
            && let Some(path) = &gateway.approvals
        {
            let asks = |route: &Route| {
                let to = route.on.split_once(' ');
                route.approval && to.is_some_and(|(_, on)| on == path)
            };
            if !self.routes().iter().any(asks) {
                let message = format!("no route with `approval: true` is on `{path}`");
                self.value(&at.key("gateway").key("approvals"), message)
                    .help(format!("add `{{ on: POST {path}, approval: true, … }}`"));
            }
        }
    }

    fn route(&mut self, at: &Path, route: &Route) {
        let captures = self.on(at, &route.on);
        let does: Vec<&str> = [
            ("effect", route.effect.is_some()),
            ("find", route.find.is_some()),
            ("cancel", route.cancel.is_some()),
            ("identity", route.identity),
            ("approval", route.approval),
        ]
        .into_iter()
        .filter_map(|(key, named)| named.then_some(key))
        .collect();
        if let [first, second, ..] = does.as_slice() {
            let message = format!("a route has one meaning, and this one has `{first}` too");
            self.key(&at.key(second), message)
                .help("at most one of `effect`, `find`, `cancel`, `identity` and `approval`");
        }
        if let Some(key) = &route.key {
            let at = at.key("key");
            if route.effect.is_none() {
                self.key(&at, "only a route with an `effect` has a key");
            }
            self.lookup(&at, key, captures.as_deref());
        }
        if let Some(by) = &route.by {
            let at = at.key("by");
            if route.find.is_none() && route.cancel.is_none() {
                self.key(
                    &at,
                    "only a route with `find` or `cancel` looks something up",
                );
            }
            self.lookup(&at, by, captures.as_deref());
        } else if route.cancel.is_some() {
            self.key(&at.key("cancel"), "nothing says which effect is cancelled")
                .help("add `by`, such as `by: { path: id }`");
        }
        for (key, kind) in [("find", &route.find), ("cancel", &route.cancel)] {
            if let Some(kind) = kind {
                self.kind(&at.key(key), kind);
            }
        }
        self.reply(&at.key("reply"), &route.reply);
    }

    /// The captures, if the route could be read.
    fn on<'o>(&mut self, at: &Path, on: &'o str) -> Option<Vec<&'o str>> {
        match On::parse(on) {
            Ok(on) => Some(on.captures),
            Err((message, right)) => {
                self.value(&at.key("on"), message).help(right);
                None
            }
        }
    }

    fn kind(&mut self, at: &Path, kind: &str) {
        let kinds: Vec<&str> = self
            .routes()
            .iter()
            .filter_map(|route| route.effect.as_deref())
            .collect();
        if kinds.contains(&kind) {
            return;
        }
        let guess = did_you_mean(nearest(kind, kinds.iter().copied()));
        let added = self.value(
            at,
            format!("no route makes an effect of the kind `{kind}`{guess}"),
        );
        if !kinds.is_empty() {
            added.help(format!("kinds that are made: {}", one_of(kinds)));
        }
    }

    fn lookup(&mut self, at: &Path, lookup: &Lookup, captures: Option<&[&str]>) {
        match lookup {
            Lookup::Path(name) => {
                let Some(captures) = captures else { return };
                if !captures.contains(&name.as_str()) {
                    let guess = did_you_mean(nearest(name, captures.iter().copied()));
                    let message = format!("the path of this route captures no `{name}`{guess}");
                    self.value(&at.key("path"), message);
                }
            }
            Lookup::Header(name) => {
                if !is_header_name(name) {
                    self.value(
                        &at.key("header"),
                        format!("`{name}` is not a header's name"),
                    );
                }
            }
            Lookup::Json(_) | Lookup::Query(_) => {}
        }
    }

    fn reply(&mut self, at: &Path, reply: &Reply) {
        if reply.json.is_some() && reply.text.is_some() {
            self.key(
                &at.key("text"),
                "a reply has one body, and this one has `json` too",
            );
        }
        for name in reply.headers.keys() {
            if !is_header_name(name) {
                let message = format!("`{name}` is not a header's name");
                self.key(&at.key("headers").key(name), message);
            }
        }
    }
}

//! What templates and environments of a trial know: its place, the session, the authority, and where telemetry goes.

use serde_json::{Value, json};

use super::TrialError;
use super::place::{place, url};
use super::stage::{Identity, Stage};
use crate::journal::Session;
use crate::spec;

impl Stage {
    pub(super) fn text(
        &self,
        template: &str,
        session: Session,
        call: Option<&str>,
    ) -> Result<String, TrialError> {
        Ok(self
            .templates
            .text(template, self.variables(session, call))?)
    }

    pub(super) fn variables(&self, session: Session, call: Option<&str>) -> Value {
        let identity = self.identity(session);
        let mut variables = place(&self.surroundings, &self.drill, &self.work, self.port);
        variables.insert("run".to_owned(), json!({ "id": identity.run }));
        variables.insert(
            "call".to_owned(),
            json!({ "id": call.unwrap_or(&identity.call) }),
        );
        variables.insert("approval".to_owned(), json!({ "id": identity.approval }));
        variables.insert("authority".to_owned(), self.authority_variables(identity));
        if let Some(otlp) = &self.otlp {
            let urls = json!({ "http": url(otlp.http_port), "grpc": url(otlp.grpc_port) });
            variables.insert("otlp".to_owned(), urls);
        }
        Value::Object(variables)
    }

    /// What templates know of the authority.
    fn authority_variables(&self, identity: &Identity) -> Value {
        let mut known = json!({ "token": identity.token });
        match &self.drill.authority {
            Some(spec::Authority::Oauth(_)) => {
                known["refresh"] = json!(identity.refresh);
                known["issuer"] = json!(self.authority.issuer());
            }
            Some(spec::Authority::Gateway(_)) => {
                let below = |template: &str| {
                    let work = self.work.display().to_string();
                    json!(template.replace("{{ workdir }}", &work))
                };
                known["socket"] = below(spec::Gateway::SOCKET);
                known["log"] = below(spec::Gateway::LOG);
            }
            _ => {}
        }
        known
    }

    /// A template of the operator's, who knows the key of the authority besides.
    pub fn operator_text(&self, template: &str, run: Session) -> Result<String, TrialError> {
        let mut variables = self.variables(run, None);
        if let Some(Value::Object(authority)) = variables.get_mut("authority") {
            let keys = self.authority.keys();
            authority.insert("key".to_owned(), json!(keys.key));
            authority.insert("wider_key".to_owned(), json!(keys.wider));
        }
        Ok(self.templates.text(template, variables)?)
    }

    /// What every process of the drill has in its environment.
    pub fn surroundings_env(&self) -> Vec<(String, String)> {
        let inherited = |name: &str, otherwise: &str| {
            let value = std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
            (name.to_owned(), value)
        };
        let folder = |name: &str, folder: &str| {
            let path = self.work.join(folder).display().to_string();
            (name.to_owned(), path)
        };
        vec![
            inherited("PATH", "/usr/bin:/bin"),
            inherited("LANG", "C.UTF-8"),
            folder("HOME", "home"),
            folder("TMPDIR", "tmp"),
        ]
    }

    /// How a server is told where its telemetry goes, in the words of OpenTelemetry. The drill's own words win, and where
    /// they name the protocol, the endpoint is the one that speaks it.
    pub(super) fn otlp_env(&self, session: Session) -> Result<Vec<(String, String)>, TrialError> {
        const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
        let Some(otlp) = &self.otlp else {
            return Ok(Vec::new());
        };
        let protocol = match self.drill.server.env.get(PROTOCOL) {
            Some(template) => self.text(template, session, None)?,
            None => "http/protobuf".to_owned(),
        };
        let port = if protocol == "grpc" {
            otlp.grpc_port
        } else {
            otlp.http_port
        };
        Ok(vec![
            (PROTOCOL.to_owned(), protocol),
            ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), url(port)),
        ])
    }
}

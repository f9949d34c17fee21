//! The servers of these tests: good ones that do something more when they start.

pub const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/python");

/// A server of `fixtures/python`.
pub fn python(server: &str) -> String {
    format!("{SERVERS}/{server}.py")
}

/// The good one, with this done first.
pub fn python_that(first: &str) -> String {
    let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/python");
    format!(
        "import os, sys\nsys.path.insert(0, {servers:?})\n{first}\nfrom mcp import Server\nServer().run()\n"
    )
}

/// The drill of a server that is started by this command, at these crashes.
pub fn drill(name: &str, command: &str, crash: &str) -> String {
    format!(
        "drill: {name}
server:
  command: {command}
  env:
    API: \"{{{{ remote.url }}}}\"
    API_TOKEN: \"{{{{ authority.token }}}}\"
    ACTIVITY_LOG: \"{{{{ workdir }}}}/activity.jsonl\"
    RUN_ID: \"{{{{ run.id }}}}\"
    APPROVAL_ID: \"{{{{ approval.id }}}}\"
    PYTHONPATH: \"{SERVERS}\"
    PYTHONDONTWRITEBYTECODE: \"1\"
remote:
  routes:
    - {{ on: POST /jobs, effect: job, key: {{ header: Idempotency-Key }}, reply: {{ status: 201, json: {{ id: \"{{{{ effect.id }}}}\" }} }} }}
authority: {{ bearer: Authorization }}
call: {{ tool: start_job, arguments: {{ app: shop }} }}
crash: [{crash}]
recover: {{ retry: true }}
"
    )
}

/// A server of `fixtures/node`.
pub fn node(server: &str) -> String {
    format!("{}/fixtures/node/{server}.mjs", env!("CARGO_MANIFEST_DIR"))
}

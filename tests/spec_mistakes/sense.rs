//! Mistakes of sense: a drill that is well written and cannot mean what it says.

use super::*;

#[test]
fn a_name_in_a_template_must_exist() {
    each_with_is_shown(&[
        (
            "server: { command: ['{{ «remote.ulr }}'] }",
            "`server.command[0]`: there is no `remote.ulr`; did you mean `remote.url`?",
        ),
        (
            "server: { command: [x], env: { A: 'a {{ «runid }}' } }",
            "did you mean `run.id`?",
        ),
        (
            "server: { command: [x], files: { a.yaml: '{{ «effect.id }}' } }",
            "`effect.id` is not known here",
        ),
        (
            "server: { command: [x], cwd: '{{ «fixtures }}' }",
            "did you mean `fixture`?",
        ),
        (
            "server: { command: ['{{ run.id'] }"
                .replace("['{{", "[«'{{")
                .leak(),
            "this template cannot be read",
        ),
        (
            "server: { command: [«'{{ run.id | shout }}'] }",
            "filter shout is unknown",
        ),
        (
            "call: { tool: x, arguments: { a: [{ b: '{{ «workdri }}' }] } }",
            "`call.arguments.a[0].b`",
        ),
        (
            "call: { tool: x, before: [{ tool: y, arguments: { a: '{{ «call.idd }}' } }] }",
            "`call.before[0].arguments.a`",
        ),
        (
            "recover: { tool: x, arguments: { a: '{{ «call.idd }}' } }",
            "`recover.arguments.a`",
        ),
        (
            "recover: { retry: true, before: [{ tool: y, arguments: { a: '{{ «call.idd }}' } }] }",
            "`recover.before[0]",
        ),
        (
            "expect: { revocation: { call: { tool: x, arguments: { a: '{{ «call.idd }}' } } } }",
            "`expect.revocation.call.arguments.a`",
        ),
        (
            "expect: { ownership: { log: '{{ «wokdir }}/log', record: { call: /c, outcome: /o } } }",
            "did you mean `workdir`?",
        ),
        (
            "requires: [{ file: '{{ «rot }}/x', hint: y }]",
            "did you mean `root`?",
        ),
        (
            "client: { leak_stdin_to: [sleep, '{{ «seconds }}'] }",
            "there is no `seconds`",
        ),
        (
            "authority: { bearer: A, exchange: { on: POST /t, reply: { json: { t: '{{ «authority.derivd }}' } } } }",
            "did you mean `authority.derived`?",
        ),
    ]);
}

#[test]
fn a_reply_knows_the_request_and_what_its_route_captures() {
    let route = |route: &str| {
        drill_with(&format!(
            "remote:\n  routes:\n    - {{ on: POST /builds, effect: build }}\n    - {route}"
        ))
    };
    each_is_shown(&[
        (
            route("{ on: 'GET /a/{id}', reply: { json: '{{ «idd }}' } }"),
            "did you mean `id`?",
        ),
        (
            route("{ on: GET /a, reply: { json: '{{ «effect.id }}' } }"),
            "`effect.id` is not known in this reply",
        ),
        (
            route("{ on: GET /a, reply: { text: '{{ «run.id }}' } }"),
            "`run.id` is not known in this reply",
        ),
        (
            route("{ on: GET /a, reply: { headers: { X: '{{ «request.jsn.a }}' } } }"),
            "there is no `request.jsn.a`; did you mean `request.json`?",
        ),
    ]);
    let good = route(
        "{ on: 'GET /a/{id}', find: build, by: { path: id }, reply: { headers: { X: '{{ id }}', Y: 1 }, json: \
         { a: '{{ effect.id }}', b: '{{ effects | length }}', c: '{{ request.json.a.b }}', d: '{{ request.headers[\"x-y\"] }}', \
         e: '{% for e in effects %}{{ e.id }}{{ loop.index }}{% endfor %}', f: '{{ range(3) }}', g: '{{ authority.user }}', h: '{{ remote.url }}/a', i: '{{ workdir }}' } } }",
    );
    load(good.as_bytes()).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
}

#[test]
fn a_name_of_a_remote_or_an_authority_that_is_not_there_says_so() {
    let minimal = |server: &str| {
        format!("drill: deploy\nserver: {server}\ncall: {{ tool: x }}\ncrash: [idle]\n")
    };
    each_is_shown(&[
        (
            minimal("{ command: ['{{ «remote.url }}'] }"),
            "`remote.url` needs a `remote`, and this drill has none",
        ),
        (
            drill_with("server: { command: ['{{ «otlp.http }}'] }"),
            "`otlp.http` needs an `expect.ownership` with `from: otlp`",
        ),
        (
            minimal("{ command: [x], env: { T: 'a{{ «authority.token }}' } }"),
            "`authority.token` needs an `authority`",
        ),
    ]);
    for good in [
        "remote: { routes: [{ on: GET /, reply: { text: '{{ authority.user }}' } }] }\n",
        // A credential to look for where it must not be, and nobody who takes it.
        "authority: { bearer: Authorization }\n",
        // The first one answers.
        "remote: { routes: [{ on: GET / }, { on: GET / }] }\n",
    ] {
        let good = format!("{}{good}", minimal("{ command: [x] }"));
        load(good.as_bytes()).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
    }
}

#[test]
fn routes_must_fit_together() {
    let route = |route: &str| {
        drill_with(&format!(
            "remote:\n  routes:\n    - {{ on: POST /builds, effect: build }}\n    - {route}"
        ))
    };
    each_is_shown(&[
        (
            route("{ on: «PSOT /a }"),
            "`PSOT` is not a method; did you mean `POST`?",
        ),
        (route("{ on: «get /a }"), "did you mean `GET`?"),
        (route("{ on: «/a }"), "not a method and a path"),
        (route("{ on: «GET a }"), "`a` is not a path"),
        (route("{ on: «GET /a?b=c }"), "leave the query out"),
        (route("{ on: «'GET /a/{b' }"), "braces"),
        (route("{ on: «'GET /a/{effect}' }"), "would hide"),
        (
            route("{ on: POST /a, effect: a, «find: build }"),
            "a route has one meaning, and this one has `effect` too",
        ),
        (
            route("{ on: GET /a, find: build, «identity: true }"),
            "one meaning",
        ),
        (
            route("{ on: GET /a, «key: { header: X } }"),
            "only a route with an `effect` has a key",
        ),
        (
            route("{ on: GET /a, «by: { query: x } }"),
            "only a route with `find` or `cancel`",
        ),
        (
            route("{ on: GET /a, find: «biuld }"),
            "no route makes an effect of the kind `biuld`; did you mean `build`?",
        ),
        (
            route("{ on: GET /a, cancel: «deploy, by: { query: x } }"),
            "kinds that are made: `build`",
        ),
        (
            route("{ on: POST /a, «cancel: build }"),
            "nothing says which effect is cancelled",
        ),
        (
            route("{ on: 'GET /a/{id}', find: build, by: { path: «idd } }"),
            "captures no `idd`; did you mean `id`?",
        ),
        (
            route("{ on: POST /a, effect: a, key: { path: «id } }"),
            "captures no `id`",
        ),
        (
            route("{ on: POST /a, effect: a, key: { json: «request_id } }"),
            "is not a JSON pointer",
        ),
        (
            route("{ on: POST /a, effect: a, key: { header: «'a b' } }"),
            "not a header's name",
        ),
        (
            route("{ on: POST /a, effect: a, key: { header: a, «json: /b } }"),
            "does not go together",
        ),
        (
            route("{ on: GET /a, reply: { json: 1, «text: a } }"),
            "a reply has one body",
        ),
        (
            route("{ on: GET /a, reply: { headers: { «'a b': c } } }"),
            "not a header's name",
        ),
        (
            drill_with("authority: { bearer: «'Authorization:' }"),
            "not a header's name",
        ),
        (
            drill_with("authority: { bearer: A, exchange: { on: «token } }"),
            "not a method and a path",
        ),
    ]);
}

#[test]
fn a_crash_must_be_reachable_and_its_trial_must_have_a_name_of_its_own() {
    let without_effect = |crash: &str| {
        format!("drill: deploy\nserver: {{ command: [x] }}\ncall: {{ tool: x }}\ncrash: {crash}\n")
    };
    each_is_shown(&[
        (
            without_effect("[idle, «after-acceptance]"),
            "`after-acceptance` is never reached: there is no `remote`",
        ),
        (without_effect("[{ at: «sent }]"), "never reached"),
        (
            without_effect("[{ at: idle, «connection: 2 }]"),
            "no effect that a connection could carry",
        ),
        (
            format!(
                "{}remote: {{ routes: [{{ on: GET / }}] }}\n",
                without_effect("[«torn-reply]")
            ),
            "no route of the remote has an `effect`",
        ),
        (
            drill_with("crash: [{ at: torn-reply, then: «error-503 }]"),
            "the effect has been applied already",
        ),
        (
            drill_with("crash: [{ at: torn-reply, then: «error-500 }]"),
            "half of the reply has been delivered already",
        ),
        (
            drill_with("crash: [{ at: torn-reply, then: «replayed }]"),
            "half of the reply has been delivered already",
        ),
        (
            drill_with("crash: [idle, «idle]"),
            "there is a trial `deploy::idle` already",
        ),
        (
            drill_with("crash: [idle, { at: «idle, signal: TERM }]"),
            "tell them apart",
        ),
        (
            drill_with("crash: [{ at: idle, name: a }, { at: «idle, name: a }]"),
            "`deploy::idle::a`",
        ),
        (
            drill_with("crash: [{ at: idle, close: [stdin], «signal: KILL }]"),
            "does not go together with `close`",
        ),
        (
            drill_with("crash: [{ at: idle, close: [stdin], «kill: client }]"),
            "does not go together with `close`",
        ),
        (
            drill_with("crash: [{ at: idle, close: [stdin, «stdin] }]"),
            "closed already",
        ),
        (
            drill_with("crash: [{ at: idle, «errno: EIO }]"),
            "there is no `syscall` that could fail",
        ),
        (
            drill_with("crash: [{ at: idle, «syscall: { name: fsync } }]"),
            "does not go together with `at: idle`",
        ),
        (
            drill_with("crash: [{ at: idle, «boundary: { event: line } }]"),
            "does not go together with `at: idle`",
        ),
        (
            drill_with("crash: [{ at: idle, kill: { polite: rust }, «signal: TERM }]"),
            "does not go together with a polite shutdown",
        ),
        (
            drill_with("crash: [{ at: sent, «reply: held, then: dropped }]"),
            "does not go together with `then`",
        ),
        (
            drill_with("crash: [{ syscall: { name: fsync } }, «{ syscall: { name: fsync } }]"),
            "`deploy::syscall::fsync-1`",
        ),
    ]);
}

#[test]
fn an_expectation_that_can_never_be_asked_is_a_mistake() {
    let minimal = |rest: &str| {
        format!(
            "drill: deploy\nserver: {{ command: [x] }}\ncall: {{ tool: x }}\ncrash: [idle]\n{rest}\n"
        )
    };
    each_is_shown(&[
        (
            minimal("expect: { «effects: { idle: 0 } }"),
            "is never asked: there is no `remote`",
        ),
        (
            minimal("expect: { «reconcile: { effects: 1 } }"),
            "there is no `recover`",
        ),
        (
            minimal("expect: { «revocation: { within: 1s } }"),
            "there is no `authority`",
        ),
        (
            minimal("expect: { «handle: {} }"),
            "no route of the remote has `find` or `cancel`",
        ),
        (
            drill_with("expect: { «handle: {} }"),
            "`expect.ownership` does not name a log",
        ),
        (
            minimal(
                "expect: { ownership: { log: l, record: { call: /c, outcome: /o, «effect: /e } } }",
            ),
            "makes no effect",
        ),
        (
            minimal("expect: { ownership: { «from: logging } }"),
            "needs a `record`",
        ),
        (
            minimal("expect: { ownership: { «from: stderr, record: { call: /c, outcome: /o } } }")
                .replace("[idle]", "[{ at: idle, close: [stderr] }]"),
            "a crash closes stderr, which the client does not hold then",
        ),
        (
            minimal(
                "expect: { ownership: { from: otlp, record: { call: /c, outcome: /o, «effect: /e } } }",
            ),
            "makes no effect",
        ),
        (
            minimal("expect: { «ownership: { record: { call: /c, outcome: /o } } }"),
            "`expect.ownership` has no `log`",
        ),
        (
            minimal("expect: { «ownership: { record: { call: /c, outcome: /o } } }"),
            "in its place, `from: stderr`, `from: logging` or `from: otlp`",
        ),
        (
            minimal("known: { «ownership: { because: x } }"),
            "`known.ownership`: is never asked",
        ),
        (
            minimal("expect: { eof: { skip: x } }\nknown: { «eof: { because: x } }"),
            "`expect` skips it",
        ),
        (
            minimal("known: { eof: { at: [«idel], because: x } }"),
            "the drill does not crash at `idel`; did you mean `idle`?",
        ),
        (
            minimal("known: { eof: { at: [«sent], because: x } }"),
            "it crashes at `idle`",
        ),
    ]);
}

#[test]
fn an_expectation_must_be_possible() {
    each_with_is_shown(&[
        (
            "expect: { «eof: { status: [] } }"
                .replace("«eof: { status", "eof: { «status")
                .leak(),
            "no exit would be right",
        ),
        ("expect: { eof: { status: [0, «256] } }", "not an exit code"),
        (
            "expect: { helpers: { allow: [{ command: «'^a(', because: x }] } }",
            "not a regular expression: unclosed group",
        ),
        (
            "expect: { ownership: { log: l, record: { call: «call, outcome: /o } } }",
            "is not a JSON pointer",
        ),
        (
            "expect: { ownership: { log: l, record: { call: /c, outcome: /o }, outcomes: { success: [ok], failed: [«ok] } } }",
            "`ok` means `success` already",
        ),
        (
            "«expect: { ownership: { log: l } }"
                .replace("«expect: { ", "expect: { «")
                .leak(),
            "`expect.ownership` has no `record`",
        ),
    ]);
}

#[test]
fn a_limit_that_no_server_can_keep_is_a_unit_that_was_forgotten() {
    each_with_is_shown(&[
        (
            "server: { command: [x], limits: { memory: «256 } }",
            "a plain number is bytes: write `256MiB`",
        ),
        (
            "server: { command: [x], limits: { memory: «512K } }",
            "no server runs in less than 1 MiB",
        ),
        (
            "server: { command: [x], limits: { cpu: «0 } }",
            "a plain number is seconds: write `10s`",
        ),
        (
            "server: { command: [x], limits: { cpu: «-0.5 } }",
            "no server starts in less than 10 ms of CPU time",
        ),
        (
            "server: { command: [x], limits: { cpu: «5ms } }",
            "no server starts in less than 10 ms of CPU time",
        ),
    ]);
}

#[test]
fn the_work_folder_is_not_left() {
    each_with_is_shown(&[
        (
            "server: { command: [x], files: { «/etc/passwd: a } }",
            "inside the work folder",
        ),
        (
            "server: { command: [x], files: { «a/../../b: a } }",
            "inside the work folder",
        ),
        (
            "server: { command: [x], files: { «'': a } }",
            "inside the work folder",
        ),
        ("server: { command: [«''] }", "no program of this name"),
        (
            "server: { command: [x], env: { «A=B: a } }",
            "a variable's name",
        ),
        ("server: { command: [x, «\"a\\0\"] }", "NUL"),
    ]);
}

#[test]
fn a_drill_is_named_as_its_file() {
    each_with_is_shown(&[
        (
            "drill: «depoly",
            "`depoly` is not the stem of the file's name, `deploy`",
        ),
        ("drill: «Deploy", "it must match `^[a-z0-9-]+$`"),
    ]);
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_mistake_in_one_file_does_not_hide_those_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    write(&drills.join("deploy.yaml"), GOOD);
    write(&drills.join("a.yaml"), "drill: b\n");
    write(&drills.join("below/c.yml"), "nothing");
    write(&drills.join(".hidden/d.yaml"), "nothing");
    write(&drills.join("drill.schema.json"), "{}");

    let checked = spec::check(&drills);

    assert_eq!(checked.drills.len(), 1);
    let files: Vec<_> = checked
        .mistakes
        .iter()
        .map(|mistakes| mistakes.path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(files, ["a.yaml", "c.yml"]);
}

#[test]
fn two_drills_of_one_name_name_both_files() {
    let folder = tempfile::tempdir().unwrap();
    let drills = folder.path().join("drills");
    write(&drills.join("a/deploy.yaml"), GOOD);
    write(&drills.join("b/deploy.yml"), GOOD);

    let checked = spec::check(&drills);

    assert_eq!(checked.mistakes.len(), 1);
    let said = shown(&checked.mistakes[0]);
    assert!(
        said.contains("a/deploy.yaml and") && said.contains("b/deploy.yml"),
        "{said}"
    );
    assert!(spec::find_named(&drills, "deploy").is_err());
}

#[test]
fn an_absent_drills_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let checked = spec::check(&folder.path().join("drills"));
    let said = shown(&checked.mistakes[0]);
    assert!(
        said.contains("drills") && said.contains("cannot be read"),
        "{said}"
    );
}

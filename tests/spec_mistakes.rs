//! A mistake in a drill file is shown with its place and with what would be right.
//!
//! In the tables, `«` stands where the mistake must point: it is taken out before the file is read.

use std::fs;
use std::path::Path;

use cargo_drill::spec::{self, Mistakes};
use miette::{GraphicalReportHandler, GraphicalTheme};

/// A drill without a mistake. Each case replaces one of its lines.
const GOOD: &str = "\
drill: deploy
server:
  command: [deploy-server]
  env: { API: '{{ remote.url }}', TOKEN: '{{ authority.token }}' }
remote:
  routes:
    - { on: 'POST /builds', effect: build, key: { header: Idempotency-Key } }
    - { on: 'GET /builds', find: build, by: { query: key }, reply: { json: '{{ effects }}' } }
    - { on: 'POST /builds/{id}/cancel', cancel: build, by: { path: id } }
authority: { bearer: Authorization }
call: { tool: deploy }
crash: [idle, after-acceptance]
recover: { retry: true }
expect: {}
";

fn load(text: &[u8]) -> Result<spec::DrillFile, Mistakes> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deploy.yaml");
    fs::write(&path, text).unwrap();
    spec::load(&path)
}

/// The good drill with the line of `with`'s first key replaced.
fn drill_with(with: &str) -> String {
    let key = with.replace('«', "");
    let key = key.split(':').next().unwrap();
    let mut lines = Vec::new();
    let mut replaced = false;
    let mut inside = false;
    for line in GOOD.lines() {
        if !line.starts_with(' ') {
            inside = line.starts_with(&format!("{key}:"));
            if inside {
                replaced = true;
                lines.push(with);
            }
        }
        if !inside {
            lines.push(line);
        }
    }
    if !replaced {
        lines.push(with);
    }
    lines.join("\n") + "\n"
}

fn shown(mistakes: &Mistakes) -> String {
    let mut shown = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::none())
        .with_width(400)
        .render_report(&mut shown, mistakes)
        .unwrap();
    shown
}

/// Each text has one mistake: at the mark, with this in its message or help.
fn each_is_shown(cases: &[(String, &str)]) {
    for (marked, part) in cases {
        let before = marked.split('«').next().unwrap();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
        let text = marked.replace('«', "");

        let Err(mistakes) = load(text.as_bytes()) else {
            panic!("no mistake was found in:\n{text}");
        };

        let all = shown(&mistakes);
        assert_eq!(mistakes.mistakes.len(), 1, "{text}\n{all}");
        let mistake = &mistakes.mistakes[0];
        let said = format!(
            "{mistake} ({})",
            mistake.help.as_deref().unwrap_or_default()
        );
        assert!(said.contains(part), "expected `{part}` in:\n{all}");
        if marked.contains('«') {
            let place = mistake.place.as_ref().unwrap();
            assert_eq!((place.line, place.column), (line, column), "{all}");
            assert!(
                all.contains(&format!("deploy.yaml:{line}:{column}")),
                "{all}"
            );
            let the_line = text.lines().nth(line - 1).unwrap().trim();
            assert!(all.contains(the_line), "{all}");
        }
    }
}

fn each_with_is_shown(cases: &[(&str, &str)]) {
    let cases: Vec<_> = cases
        .iter()
        .map(|(with, part)| (drill_with(with), *part))
        .collect();
    each_is_shown(&cases);
}

#[test]
fn the_good_drill_has_no_mistake() {
    load(GOOD.as_bytes()).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    each_with_is_shown(&[
        (
            "server: { command: [x], «evn: {} }",
            "`server` has no key `evn`; did you mean `env`?",
        ),
        ("call: { «toool: x }", "did you mean `tool`?"),
        (
            "«recovery: { retry: true }",
            "the drill has no key `recovery`; did you mean `recover`?",
        ),
        (
            "crash: [{ at: idle, «sginal: KILL }]",
            "`crash[0]` has no key `sginal`; did you mean `signal`?",
        ),
        (
            "expect: { quiet: { «fro: 1s } }",
            "known here: `for` or `skip`",
        ),
        (
            "expect: { protocol: { «strict: true } }",
            "`expect.protocol` has no key `strict`",
        ),
        (
            "expect: { eof: { skip: because, «within: 1s } }",
            "`within` does not go together with `skip`",
        ),
        (
            "expect: { reconcile: { «skp: because } }",
            "did you mean `skip`?",
        ),
        (
            "expect: { effects: { sent: { «atmost: 1 } } }",
            "did you mean `at_most`?",
        ),
        ("known: { «eoff: { because: x } }", "did you mean `eof`?"),
        (
            "recover: { retry: true, «tool: x }",
            "`tool` does not go together with `retry`",
        ),
        (
            "recover: { retry: true, «operator: true }",
            "does not go together",
        ),
        (
            "recover: { retry: true, «befor: [] }",
            "did you mean `before`?",
        ),
        (
            "call: { tool: x, correlation: { «argumnt: x } }",
            "did you mean `argument`?",
        ),
        (
            "authority: { bearer: A, «expires: 1s }",
            "`authority` has no key `expires`",
        ),
    ]);
}

#[test]
fn an_unknown_word_names_the_nearest_and_all_allowed() {
    each_with_is_shown(&[
        (
            "crash: [idle, «after-acceptence]",
            "`crash[1]`: `after-acceptence` is not a crash point; did you mean `after-acceptance`?",
        ),
        (
            "crash: [{ at: «idel }]",
            "`crash[0].at`: `idel` is not a crash point; did you mean `idle`?",
        ),
        (
            "crash: [«elsewhere]",
            "allowed: `startup`, `idle`, `torn-call`",
        ),
        (
            "crash: [{ at: idle, signal: «kill }]",
            "did you mean `KILL`?",
        ),
        (
            "crash: [{ at: idle, close: [«stdim] }]",
            "`crash[0].close[0]`: `stdim` is not a stream; did you mean `stdin`?",
        ),
        (
            "crash: [{ at: idle, kill: «everything }]",
            "allowed: `client`, `server` or `both`",
        ),
        (
            "server: { command: [x], protocol: «2025-06-19 }",
            "is not a protocol revision; did you mean `2025-06-18`?",
        ),
        ("expect: { helpers: «non }", "did you mean `none`?"),
        ("expect: { eof: { status: «ani } }", "did you mean `any`?"),
        (
            "expect: { effects: { «befor-dispatch: 0 } }",
            "is not a crash point; did you mean `before-dispatch`?",
        ),
        (
            "expect: { reconcile: { effects: { «idel: 0 } } }",
            "is not a crash point",
        ),
        (
            "call: { tool: x, correlation: «mata }",
            "did you mean `meta`?",
        ),
    ]);
}

#[test]
fn a_wrong_kind_says_what_is_expected() {
    each_with_is_shown(&[
        ("about: «7", "in quotes it is text: \"7\""),
        ("«about:", "`about` is empty, expected text"),
        ("«about: [x]", "`about` is a list, expected text"),
        (
            "crash: «idle",
            "`crash` is the text `idle`, expected a list",
        ),
        ("«crash: []", "`crash` is an empty list"),
        ("server: { «command: [] }", "empty list"),
        (
            "server: { command: [sleep, «600] }",
            "`server.command[1]` is the number `600`, expected text",
        ),
        (
            "server: { command: [x], env: { «A: [1] } }",
            "`server.env.A` is a list, expected text",
        ),
        ("call: «deploy", "expected a mapping with `tool`"),
        (
            "recover: { retry: «false }",
            "`recover.retry` is `false`, expected `true`",
        ),
        (
            "expect: { eof: { within: «3 } }",
            "write `250ms`, `2s` or `1m`",
        ),
        ("expect: { eof: { within: «3h } }", "`3h` is not a duration"),
        (
            "expect: { eof: «3s }",
            "expected a mapping with `skip`, `status` or `within`",
        ),
        (
            "expect: { eof: { status: [«ok] } }",
            "expected a whole number",
        ),
        (
            "expect: { effects: { sent: «some } }",
            "expected a whole number or a mapping with `at_most`",
        ),
        ("expect: { effects: { sent: «-1 } }", "from 0 to"),
        (
            "expect: { effects: { sent: «1.5 } }",
            "expected a whole number",
        ),
        (
            "expect: { effects: { sent: «4294967296 } }",
            "a number from 0 to 4294967295",
        ),
        (
            "expect: { effects: { sent: «18446744073709551615 } }",
            "out of range",
        ),
        (
            "expect: { eof: { status: [«99999999999] } }",
            "out of range",
        ),
        (
            "expect: { eof: { within: «9999999999s } }",
            "is not a duration",
        ),
        (
            "crash: [{ at: idle, connection: «0 }]",
            "a number from 1 to",
        ),
        (
            "crash: [{ at: idle, name: «Two Words }]",
            "it must match `^[a-z0-9-]+$`",
        ),
        ("«call: { arguments: {} }", "`call` has no `tool`"),
        ("crash: [«{ name: x }]", "`crash[0]` has no `at`"),
        (
            "known: { «eof: { at: [idle] } }",
            "`known.eof` has no `because`",
        ),
        (
            "remote: { routes: [{ on: GET /, reply: { status: «600 } }] }",
            "a number from 100 to 599",
        ),
    ]);
}

#[test]
fn what_is_not_yaml_is_shown_where_it_ends_to_be() {
    each_is_shown(&[
        (
            "drill: deploy\nserver:\n«\tcommand: [x]\n".to_owned(),
            "no tab",
        ),
        (
            "drill: deploy\nserver: [\n«command: x\n".to_owned(),
            "this is not YAML",
        ),
        (
            "drill: deploy\n«drill: again\n".to_owned(),
            "the key `drill` stands here twice",
        ),
        (
            "drill: deploy\nserver: { command: [x], «command: [y] }\n".to_owned(),
            "twice",
        ),
        (
            "drill: deploy\n«---\ndrill: other\n".to_owned(),
            "one document",
        ),
        (
            "drill: «!secret deploy\n".to_owned(),
            "no use for YAML tags",
        ),
        (
            "drill: deploy\n«[a, b]: 1\n".to_owned(),
            "a key must be a word or a text",
        ),
        (
            "«- a list\n".to_owned(),
            "expected a mapping with `call`, `crash`, `drill` or `server`",
        ),
        (String::new(), "this file is empty"),
        ("# nothing but a comment\n".to_owned(), "this file is empty"),
    ]);
}

#[test]
fn a_missing_key_is_named() {
    let mistakes = load(b"drill: deploy\nserver: { command: [x] }\n").unwrap_err();
    let shown = shown(&mistakes);
    assert!(shown.contains("the drill has no `call`"), "{shown}");
    assert!(shown.contains("the drill has no `crash`"), "{shown}");
}

#[test]
fn text_that_is_not_utf_8_is_shown_where_it_begins() {
    let mistakes = load(b"drill: deploy\nabout: a\xff\n").unwrap_err();
    let place = mistakes.mistakes[0].place.clone().unwrap();
    assert_eq!((place.line, place.column), (2, 9));
    assert!(shown(&mistakes).contains("not UTF-8"));
}

#[test]
fn a_folder_or_an_absent_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = shown(&spec::load(folder.path()).unwrap_err());
    assert!(said.contains("this is a folder"), "{said}");
    let absent = folder.path().join("absent.yaml");
    let said = shown(&spec::load(&absent).unwrap_err());
    assert!(said.contains("absent.yaml"), "{said}");
    assert!(said.contains("cannot be found"), "{said}");
}

#[test]
fn all_mistakes_of_a_file_are_shown_in_its_order() {
    let text = drill_with("server: { command: x, evn: {} }").replace("idle,", "idel,");
    let mistakes = load(text.as_bytes()).unwrap_err();
    let lines: Vec<_> = mistakes
        .mistakes
        .iter()
        .map(|mistake| mistake.place.as_ref().unwrap().line)
        .collect();
    assert_eq!(lines.len(), 3);
    assert!(lines.is_sorted());
    assert!(shown(&mistakes).contains("3 mistakes in"));
}

#[test]
fn control_characters_never_reach_a_terminal() {
    for text in [
        drill_with("about: [\"\u{1b}[31mred\u{7}\u{9b}\"]"),
        drill_with("crash: [\"\\e[31midle\"]"),
        drill_with("server: { command: [x], \"\\e]0;title\\a\": 1 }"),
        drill_with("server: { command: ['{{ \u{1b}[2J }}'] }"),
        drill_with("about: [\u{202e}]"),
    ] {
        let shown = shown(&load(text.as_bytes()).unwrap_err());
        let harmful = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!shown.chars().any(harmful), "{shown:?}");
    }
}

#[test]
fn a_message_stays_on_its_line_and_short() {
    let long = "a".repeat(1000);
    let text = drill_with(&format!(
        "call: {{ tool: x, correlation: \"a\\nb\\t{long}\" }}"
    ));
    let mistakes = load(text.as_bytes()).unwrap_err();
    let message = &mistakes.mistakes[0].message;
    assert!(message.contains("a\u{240a}b\u{2409}aaa"), "{message}");
    assert!(message.chars().count() < 150, "{message}");
}

#[test]
fn a_control_character_does_not_move_the_mark() {
    let text = drill_with("about: \"\u{1b}\u{1b}ü\"\ncrash: [idel]")
        .replace("crash: [idle, after-acceptance]\n", "");
    let mistakes = load(text.as_bytes()).unwrap_err();
    let place = mistakes.mistakes[0].place.clone().unwrap();
    assert_eq!(place.column, 9);
    let shown = shown(&mistakes);
    assert!(
        shown.contains(":9]") && shown.contains("crash: [idel]"),
        "{shown}"
    );
}

#[test]
fn line_ends_of_windows_and_a_byte_order_mark_are_no_mistake() {
    let text = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
    load(text.as_bytes()).unwrap_or_else(|mistakes| panic!("{}", shown(&mistakes)));
    let text = text.replace("idle", "idel");
    let mistakes = load(text.as_bytes()).unwrap_err();
    let place = mistakes.mistakes[0].place.clone().unwrap();
    assert_eq!((place.line, place.column), (12, 9));
}

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

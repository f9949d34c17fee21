//! Mistakes of form: what a key, a word or a value may look like, and what is YAML at all.

use super::*;

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
        (
            "server: { command: [x], limits: { «procs: 4 } }",
            "known here: `cpu`, `memory` or `processes`",
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
            "expect: { ownership: { log: x, «from: stderr, record: { call: /c, outcome: /o } } }",
            "`from` does not go together with `log`",
        ),
        (
            "expect: { ownership: { from: otlp, «log: x } }",
            "`log` does not go together with `from`",
        ),
        (
            "expect: { ownership: { from: otlp, «durable: true } }",
            "`durable` does not go together with `from`",
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
            "crash: [{ at: idle, signal: «CONT }]",
            "allowed: `KILL`, `TERM`, `INT`, `HUP` or `STOP`",
        ),
        ("call: { tool: x, within: «30 }", "`call.within`"),
        (
            "server: { command: [x], handshake: { «whithin: 1s } }",
            "`server.handshake` has no key `whithin`; did you mean `within`?",
        ),
        (
            "crash: [{ at: idle, close: [«stdim] }]",
            "`crash[0].close[0]`: `stdim` is not a stream; did you mean `stdin`?",
        ),
        (
            "crash: [{ at: idle, kill: «everything }]",
            "allowed: `client`, `server`, `both`, `group` or a mapping with `polite`",
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
        (
            "expect: { ownership: { from: «stder } }",
            "`stder` is not a source of records; did you mean `stderr`?",
        ),
        (
            "expect: { ownership: { from: «syslog } }",
            "allowed: `stderr`, `logging` or `otlp`",
        ),
    ]);
}

#[test]
fn a_wrong_kind_says_what_is_expected() {
    each_with_is_shown(&[
        ("about: «7", "in quotes it is text: \"7\""),
        ("«about:", "`about` is empty, expected text"),
        ("«about: [x]", "`about` is a list, expected text"),
        ("crash: «idel", "did you mean `idle`?"),
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
            "server: { command: [x], limits: { processes: «0 } }",
            "a number from 1 to",
        ),
        (
            "server: { command: [x], limits: { processes: «many } }",
            "expected a whole number",
        ),
        (
            "server: { command: [x], limits: { memory: «much } }",
            "`server.limits.memory`: `much` is not a size (write `256MiB` or `1GiB`)",
        ),
        (
            "server: { command: [x], limits: { «memory: [1] } }",
            "expected a whole number or a size",
        ),
        (
            "server: { command: [x], limits: { cpu: «10h } }",
            "`server.limits.cpu`: `10h` is not a duration",
        ),
        (
            "server: { command: [x], limits: { cpu: «-1 } }",
            "a number from 0 to",
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
            "repeat: «0",
            "`0` is out of range, expected a number from 1 to 10000",
        ),
        ("repeat: «10001", "a number from 1 to 10000"),
        ("repeat: «-1", "a number from 1 to 10000"),
        (
            "repeat: «1.5",
            "`repeat` is the number `1.5`, expected a whole number",
        ),
        (
            "repeat: «often",
            "`repeat` is the text `often`, expected a whole number",
        ),
        ("«repeat:", "`repeat` is empty, expected a whole number"),
        ("«repeats: 3", "did you mean `repeat`?"),
        (
            "crash: [{ at: idle, name: «Two Words }]",
            "it must match `^[a-z0-9-]+$`",
        ),
        ("«call: { arguments: {} }", "`call` has no `tool`"),
        (
            "crash: [«{ name: x }]",
            "the crash does not say at which moment",
        ),
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

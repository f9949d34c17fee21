//! A mistake in a drill file is shown with its place and with what would be right.
use cargo_drill::spec;
fn render(yaml: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let p = dir.path().join("deploy.yaml");
    std::fs::write(&p, yaml).unwrap();
    match spec::load(&p) {
        Ok(d) => format!("{:#?}", d.trials()),
        Err(m) => {
            let mut s = String::new();
            miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
                .with_width(120)
                .render_report(&mut s, &m)
                .unwrap();
            s
        }
    }
}
#[test]
fn look() {
    println!("{}", render(include_str!("spec/deploy.yaml")));
    println!(
        "{}",
        render(
            "drill: deploy\nserver: { command: sleep, evn: {} }\ncall: { toool: x }\ncrash:\n  - idel\n  - { at: after-acceptence, signal: KIL, conection: 0, connection: 0 }\n  - foo: bar\nrecover: { retry: true, tool: x }\nexpect:\n  eof: { within: 3 , status: [a] }\n  helpers: non\n  quiet: { fro: 500ms }\n  effects: { befor-dispatch: 0, sent: { atmost: 1 } }\n  reconcile: { skp: a }\n  protocol: { x: 1 }\nremote:\n  routes:\n    - on: POST /x\n      key: { header: X, json: /a }\n      reply: { status: 70000 }\n"
        )
    );
    println!(
        "{}",
        render(
            "drill: deploy\nserver: { command: [sleep, 600, null] }\ncall:\ncrash: [idle]\nrecover: { retry: false }\nexpect: { eof: 3s, quiet: { for: 5 s } }\nknown: { eoff: {because: x} }\nabout:\ncontrols: 7\nclient: true\n"
        )
    );
    println!("{}", render("drill: deploy\nserver:\n\tcommand: x\n"));
    println!("{}", render("drill: deploy\nserver: [\ncommand: x\n"));
    println!("{}", render("drill: deploy\ndrill: \"\x1b[31mx\"\n"));
    println!(
        "{}",
        render("drill: \"\\e[31mx\"\nabout: 7\ncrash: \"\\e[32m\"\n")
    );
}

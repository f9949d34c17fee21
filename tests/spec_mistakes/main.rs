//! A mistake in a drill file is shown with its place and with what would be right.
//!
//! In the tables, `«` stands where the mistake must point: it is taken out before the file is read.

mod authority;
mod form;
mod sense;

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

//! The decision as people and machines meet it.

use super::super::{Decision, PREDICATE_TYPE, PolicyFile, render_decision, render_markdown};
use super::bench::*;
use crate::report::Style;

const HOSTILE: &str =
    "\u{1b}[2J\u{202e}evil\nGO: all held | <script>alert(1)</script> [x](https://e.example) `";

fn hostile() -> Decision {
    let mut answers = [said(Eof, Broken), said(Effects, Held)];
    answers[0].because = HOSTILE.to_owned();
    let mut evidence = good_but(&answers);
    evidence.run = format!("run {HOSTILE}");
    evidence.findings = vec![HOSTILE.to_owned()];
    evidence.results.trials[1].bundle = Some(HOSTILE.to_owned());
    let policy = policy(&format!(
        "waivers: [{{ question: quiet, server: deploy, reason: {0}, owner: {0}, until: 2026-01-01 }}]",
        serde_json::to_string("\u{202e}owner\n| <b>").unwrap()
    ));
    decided(&policy, &[evidence])
}

#[test]
fn the_first_line_is_the_decision() {
    let style = Style::plain(100);
    let go = render_decision(&opens(&policy(""), &[good()]), &style);
    assert_eq!(go.lines().next(), Some("GO: 4 answers held"));
    let no_go = decided(&policy(""), &[good_but(&[said(Eof, Broken)])]);
    let no_go = render_decision(&no_go, &style);
    assert_eq!(no_go.lines().next(), Some("NO-GO: 1 reason"));
    assert!(
        no_go.contains("✗ eof of deploy is broken at sent\n"),
        "{no_go}"
    );
    assert!(
        no_go.contains("    deploy::sent: It is broken.\n"),
        "{no_go}"
    );
    assert!(no_go.contains("/deploy__sent  events 12, 15\n"), "{no_go}");
}

#[test]
fn what_a_bundle_says_acts_on_no_terminal_and_makes_no_line_of_its_own() {
    let text = render_decision(&hostile(), &Style::plain(100));
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert!(!text.contains('\u{202e}'), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("GO")), "{text}");
}

#[test]
fn what_a_bundle_says_is_no_markup() {
    let page = render_markdown(&hostile());
    // A backslash takes the meaning from the sign behind it.
    let meant = page
        .replace("\\<", "")
        .replace("\\[", "")
        .replace("\\|", "");
    assert!(!meant.contains('<') && !meant.contains('['), "{page}");
    assert!(
        !page.contains("://") && !page.contains('\u{202e}'),
        "{page}"
    );
    assert!(!page.lines().any(|line| line.starts_with("GO")), "{page}");
    // Every row has as many cells as its heading.
    let evidence = meant.split("## Evidence").nth(1).unwrap();
    let rows: Vec<usize> = evidence
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.matches('|').count())
        .collect();
    assert_eq!(rows, [6, 6, 6]);
}

#[test]
fn the_json_is_read_back() {
    let decision = hostile();
    let text = serde_json::to_string(&decision).unwrap();
    assert!(
        !text.contains("\\u001b") && !text.contains('\u{202e}'),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["decision"], "no-go");
    assert_eq!(value["reasons"][1]["kind"], "broken");
}

#[test]
fn the_statement_is_about_the_policy_and_each_manifest() {
    let decision = opens(&policy(""), &[good()]);
    let file = PolicyFile {
        policy: policy(""),
        path: "policies/release.yaml".into(),
        sha256: "ef".repeat(32),
        signers: Vec::new(),
    };
    let statement = super::super::statement(&file, &decision).unwrap();
    assert_eq!(statement.predicate_type, PREDICATE_TYPE);
    let subjects: Vec<(&str, Option<&str>)> = statement
        .subject
        .iter()
        .map(|subject| (subject.name.as_str(), subject.sha256()))
        .collect();
    let manifest = format!("{}/manifest.json", good().run);
    let (policy, of_manifest) = ("ef".repeat(32), "ab".repeat(32));
    assert_eq!(
        subjects,
        [
            ("release.yaml", Some(policy.as_str())),
            (manifest.as_str(), Some(of_manifest.as_str()))
        ]
    );
    assert_eq!(statement.predicate["decision"], "go");
}

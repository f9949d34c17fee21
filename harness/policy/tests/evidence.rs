//! What counts as evidence, and which of several bundles.

use super::super::{ReasonKind, decide};
use super::bench::*;
use crate::report::TrialResult;
use crate::report::samples::name;

#[test]
fn evidence_may_be_as_old_as_the_policy_says() {
    let terms = policy("evidence: { max_age: 7d }");
    let held = [said(Eof, Held), said(Effects, Held)];
    opens(&terms, &[run(7 * 24, vec![ran(Idle, &held)])]);
    let old = [run(7 * 24 + 1, vec![ran(Idle, &held)])];
    let because = "run 20270124T110000Z-00a9 began 7 days ago, and the policy takes 7d";
    closes(&terms, &old, ReasonKind::Old, because);
    opens(&policy(""), &old);
}

#[test]
fn a_bundle_that_counts_for_nothing_may_be_of_any_age() {
    let terms = policy("evidence: { max_age: 7d }");
    let held = [said(Eof, Held), said(Effects, Held)];
    let old = run(1000, vec![ran(Idle, &held), ran(Sent, &held)]);
    let decision = opens(&terms, &[old, good()]);
    assert_eq!(decision.evidence[1].trials, 0);
}

#[test]
fn a_run_of_the_future_or_without_an_end_has_no_age() {
    let held = [said(Eof, Held), said(Effects, Held)];
    let future = run(-1, vec![ran(Idle, &held)]);
    let because = "run 20270131T130000Z-0001 is dated 2027-01-31T13:00:00Z, which is in the future";
    closes(&policy(""), &[future], ReasonKind::Old, because);
    let mut dateless = good();
    dateless.started = None;
    let because = format!("run {} does not say when it began", dateless.run);
    closes(&policy(""), &[dateless], ReasonKind::Old, &because);
    let mut endless = good();
    endless.finished = None;
    let because = format!("run {} did not end", endless.run);
    closes(&policy(""), &[endless], ReasonKind::Old, &because);
}

#[test]
fn a_changed_bundle_never_counts() {
    let mut evidence = good();
    evidence.findings = vec!["results.json: it was changed".to_owned()];
    let because = format!("run {}: results.json: it was changed", evidence.run);
    closes(&policy(""), &[evidence], ReasonKind::Altered, &because);
}

#[test]
fn one_of_the_named_keys_must_have_signed() {
    let terms = policy("evidence: { signed_by: [ci.pub, release.pub] }");
    let mut signed = good();
    signed.signers = vec!["release.pub".to_owned()];
    let decision = opens(&terms, &[signed]);
    assert_eq!(decision.evidence[0].signers, ["release.pub"]);
    let because = format!(
        "run {} is signed by none of ci.pub, release.pub: it is not signed",
        good().run
    );
    closes(&terms, &[good()], ReasonKind::Unsigned, &because);
}

#[test]
fn a_run_that_was_cut_short_counts_unless_the_policy_wants_whole_ones() {
    let mut evidence = good();
    evidence.incomplete = Some("it was interrupted".to_owned());
    let evidence = [evidence];
    opens(&policy(""), &evidence);
    let because = format!("run {} is incomplete: it was interrupted", good().run);
    let whole = policy("evidence: { complete: true }");
    closes(&whole, &evidence, ReasonKind::Incomplete, &because);
    opens(&whole, &[good()]);
}

#[test]
fn of_two_bundles_the_newer_counts_and_that_is_told() {
    let held = [said(Eof, Held), said(Effects, Held)];
    let broken = [said(Eof, Broken), said(Effects, Held)];
    let (older, newer) = (
        run(9, vec![ran(Idle, &broken), ran(Sent, &held)]),
        run(1, vec![ran(Idle, &held)]),
    );
    let note = format!(
        "run {}: a newer run counts for 1 trial of it; it was worse in this one: deploy::idle (broken)",
        older.run
    );
    for bundles in [[older.clone(), newer.clone()], [newer, older]] {
        let decision = opens(&policy(""), &bundles);
        assert_eq!(decision.notes, [note.as_str()]);
        let shares: Vec<usize> = decision.evidence.iter().map(|e| e.trials).collect();
        assert_eq!(shares, [1, 1]);
    }
    let better = [
        run(9, vec![ran(Idle, &held), ran(Sent, &held)]),
        run(1, vec![ran(Idle, &held)]),
    ];
    let note = format!(
        "run {}: a newer run counts for 1 trial of it",
        better[0].run
    );
    assert_eq!(opens(&policy(""), &better).notes, [note]);
    // The other way round the newer one closes the gate.
    let bundles = [
        run(9, vec![ran(Idle, &held)]),
        run(1, vec![ran(Idle, &broken)]),
    ];
    let because = "eof of deploy is broken at idle";
    closes(&policy(""), &bundles, ReasonKind::Broken, because);
}

#[test]
fn a_bundle_that_is_named_twice_counts_once() {
    let decision = opens(&policy(""), &[good(), good()]);
    assert_eq!(decision.notes, [""; 0]);
    assert_eq!(decision.evidence.len(), 1);
    assert_eq!(decision.headline(), "GO: 4 answers held");
    // A copy that was changed is another bundle.
    let mut changed = good();
    changed.findings = vec!["results.json: it was changed".to_owned()];
    assert!(!decided(&policy(""), &[good(), changed]).is_go());
}

#[test]
fn a_bundle_without_a_signature_is_told_where_none_is_asked_for() {
    let mut unsigned = good();
    unsigned.is_signed = false;
    let decision = opens(&policy(""), std::slice::from_ref(&unsigned));
    let note = format!(
        "run {} is not signed, and the policy names no key in `signed_by`",
        unsigned.run
    );
    assert_eq!(decision.notes, [note]);
    let terms = policy("evidence: { signed_by: [ci.pub] }");
    assert_eq!(decided(&terms, &[unsigned]).notes, [""; 0]);
}

#[test]
fn a_newer_bundle_that_did_not_run_a_trial_does_not_hide_the_one_that_did() {
    let ignored = TrialResult::ignored(&name("deploy", Idle), "npm is missing");
    let held = [said(Eof, Held), said(Effects, Held)];
    opens(
        &policy(""),
        &[run(9, vec![ran(Idle, &held)]), run(1, vec![ignored])],
    );
}

#[test]
fn a_newer_error_is_not_hidden_by_an_older_success() {
    let mut failed = ran(Idle, &[]);
    failed.verdict = crate::report::TrialVerdict::Error;
    failed.error = Some("no cell".to_owned());
    let held = [said(Eof, Held), said(Effects, Held)];
    let bundles = [run(9, vec![ran(Idle, &held)]), run(1, vec![failed])];
    let because = "deploy at idle: error, no cell";
    closes(&policy(""), &bundles, ReasonKind::Error, because);
}

#[test]
fn bundles_add_up() {
    let held = [said(Eof, Held), said(Effects, Held)];
    let both = policy("rules: [{ servers: [deploy, notes], questions: [eof] }]");
    let (deploy, notes) = (good(), run(2, vec![of("notes", Idle, &held)]));
    opens(&both, &[deploy.clone(), notes]);
    closes(
        &both,
        &[deploy],
        ReasonKind::Missing,
        "no bundle has a drill notes",
    );
}

#[test]
fn two_builds_of_one_server_close_the_gate_or_are_told() {
    let held = [said(Eof, Held), said(Effects, Held)];
    let (mut first, second) = (
        run(9, vec![ran(Idle, &held)]),
        run(1, vec![ran(Sent, &held)]),
    );
    first.facts.drills = vec![facts("deploy", "11")];
    let told = format!(
        "the trials of deploy ran on 2 builds of its server, as the runs {}, {} have it",
        first.run, second.run
    );
    let order = [first.run.clone(), second.run.clone()];
    let bundles = [first, second];
    let lenient = policy("evidence: { same_build: false }");
    let decision = opens(&lenient, &bundles);
    assert_eq!(decision.notes.len(), 1);
    assert!(
        order.iter().all(|run| decision.notes[0].contains(run)),
        "{told}"
    );
    for strict in ["", "evidence: { complete: true }"] {
        let decision = decided(&policy(strict), &bundles);
        assert_eq!(decision.reasons[0].kind, ReasonKind::SeveralBuilds);
        assert_eq!(decision.reasons.len(), 1);
    }
}

#[test]
fn an_older_run_of_another_build_is_told() {
    let mut older = good();
    older.run = "20270101T000000Z-0000".to_owned();
    older.finished = Some("2027-01-01T00:00:00Z".parse().unwrap());
    older.facts.drills = vec![facts("deploy", "11")];
    let decision = opens(&policy("evidence: { same_build: true }"), &[older, good()]);
    let note = "deploy: run 20270101T000000Z-0000 was of another build of its server";
    assert!(
        decision.notes.iter().any(|said| said == note),
        "{decision:#?}"
    );
}

#[test]
fn the_last_release_is_no_evidence() {
    let decision = decide(&policy(""), &[], Some(&good()), now());
    assert!(!decision.is_go());
    assert_eq!(decision.reasons[0].kind, ReasonKind::Missing);
    assert_eq!(decision.baseline.map(|b| b.run), Some(good().run));
}

#[test]
fn the_age_is_that_of_the_first_thing_that_was_seen() {
    // As in a bundle that was joined from an old run and a new one.
    let mut joined = good();
    joined.started = Some("2027-01-01T00:00:00Z".parse().unwrap());
    let because = format!(
        "run {} began 30 days ago, and the policy takes 7d",
        joined.run
    );
    let terms = policy("evidence: { max_age: 7d }");
    closes(&terms, &[joined], ReasonKind::Old, &because);
}

#[test]
fn what_another_version_of_the_drill_asked_does_not_count() {
    let eof = [said(Eof, Held)];
    let (older, mut newer) = (
        run(
            9,
            vec![ran(Sent, &[said(Eof, Held), said(Ownership, Held)])],
        ),
        run(1, vec![ran(Idle, &eof)]),
    );
    let ownership = policy("rules: [{ servers: ['*'], questions: [ownership] }]");
    opens(&ownership, &[older.clone(), newer.clone()]);
    newer.facts.drills[0].sha256 = "ee".repeat(32);
    let decision = decided(&ownership, &[older, newer]);
    assert_eq!(decision.reasons[0].kind, ReasonKind::NotAsked);
    let note = "the trials of deploy ran by several versions of its drill file";
    assert_eq!(decision.notes, [note]);
}

#[test]
fn a_last_release_that_cannot_be_relied_on_is_told() {
    let mut last = good();
    last.findings = vec!["results.json: it was changed".to_owned()];
    let decision = decide(&policy(""), &[good()], Some(&last), now());
    assert!(decision.is_go());
    let told = format!(
        "run {} of the last release is not as it was written: results.json: it was changed",
        last.run
    );
    assert_eq!(decision.notes, [told]);
}

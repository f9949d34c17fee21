//! Which questions must hold, for which servers, at which points.

use std::time::Duration;

use super::super::{Before, Policy, ReasonKind, decide};
use super::bench::*;
use crate::journal::Secrets;
use crate::judge::Tally;
use crate::report::TrialResult;
use crate::report::samples::name;

fn rule(rule: &str) -> Policy {
    policy(&format!("rules: [{{ {rule} }}]\n"))
}

#[test]
fn what_held_opens_the_gate() {
    let decision = opens(&policy(""), &[good()]);
    assert_eq!(decision.headline(), "GO: 4 answers held");
    assert_eq!(decision.rules[0].trials, 2);
}

#[test]
fn one_broken_answer_closes_it_and_names_trial_folder_and_events() {
    let evidence = good_but(&[said(Eof, Broken), said(Effects, Held)]);
    let because = "eof of deploy is broken at sent";
    let reason = closes(&policy(""), &[evidence], ReasonKind::Broken, because);
    let [case] = reason.cases.as_slice() else {
        panic!("{reason:#?}");
    };
    assert_eq!(case.trial, "deploy::sent");
    assert_eq!(case.because, "It is broken.");
    assert_eq!(case.folder.as_deref(), Some("deploy__sent"));
    assert_eq!(case.events, [12, 15]);
    assert_eq!(case.before, None);
}

#[test]
fn unproven_is_not_held() {
    let evidence = good_but(&[said(Eof, Unproven), said(Effects, Held)]);
    let because = "eof of deploy is unproven at sent";
    closes(&policy(""), &[evidence], ReasonKind::Unproven, because);
}

#[test]
fn an_answer_that_differs_between_repeats_counts_with_its_worst_verdict() {
    let mut evidence = good_but(&[said(Eof, Broken), said(Effects, Held)]);
    let tally: Tally = [Held, Held, Broken].into_iter().collect();
    let trial = &mut evidence.results.trials[1];
    trial.answers[0].unstable = Some(tally.clone());
    trial.repeats = Some(tally);
    let because = "eof of deploy is broken at sent";
    let reason = closes(&policy(""), &[evidence], ReasonKind::Broken, because);
    let said = &reason.cases[0].because;
    assert!(said.starts_with("unstable: held in 2 of 3"), "{said}");
}

#[test]
fn a_question_that_no_rule_names_may_be_broken() {
    let evidence = good_but(&[said(Eof, Held), said(Effects, Held), said(Quiet, Broken)]);
    opens(&policy(""), std::slice::from_ref(&evidence));
    let all = rule("servers: [deploy]");
    let because = "quiet of deploy is broken at sent";
    closes(&all, &[evidence], ReasonKind::Broken, because);
}

#[test]
fn a_point_that_no_rule_names_may_be_broken() {
    let evidence = [good_but(&[said(Eof, Broken), said(Effects, Held)])];
    opens(&rule("servers: [deploy], at: [idle]"), &evidence);
    let because = "eof of deploy is broken at sent";
    let sent = rule("servers: [deploy], at: [sent]");
    closes(&sent, &evidence, ReasonKind::Broken, because);
}

#[test]
fn a_variant_belongs_to_its_point_and_can_be_named_alone() {
    let evidence = [run(
        1,
        vec![
            ran(AfterAcceptance, &[said(Eof, Held)]),
            variant(AfterAcceptance, "reply-given", &[said(Eof, Broken)]),
        ],
    )];
    let because = "eof of deploy is broken at after-acceptance::reply-given";
    for at in [
        "after-acceptance",
        "reply-given",
        "after-acceptance::reply-given",
    ] {
        let policy = rule(&format!("servers: [deploy], at: ['{at}']"));
        closes(&policy, &evidence, ReasonKind::Broken, because);
    }
}

#[test]
fn a_rule_that_finds_no_drill_is_not_met() {
    let rule = rule("servers: [deploy, deplyo]");
    let because = "no bundle has a drill deplyo; did you mean `deploy`?";
    closes(&rule, &[good()], ReasonKind::Missing, because);
}

#[test]
fn a_pattern_must_find_a_drill_as_a_name_must() {
    let because = "no bundle has a drill server-*";
    let policy = rule("servers: ['server-*']");
    closes(&policy, &[good()], ReasonKind::Missing, because);
    opens(&rule("servers: ['dep*']"), &[good()]);
}

#[test]
fn a_point_at_which_a_server_was_never_drilled_is_not_met() {
    let because = "deploy has no trial at after-result";
    let policy = rule("servers: ['*'], at: [idle, after-result]");
    closes(&policy, &[good()], ReasonKind::Missing, because);
}

#[test]
fn a_slip_in_a_point_is_told_with_what_was_meant() {
    let because = "deploy has no trial at idel; did you mean `idle`?";
    let policy = rule("servers: ['*'], at: [idel]");
    closes(&policy, &[good()], ReasonKind::Missing, because);
}

#[test]
fn a_trial_that_was_ignored_is_not_met() {
    let ignored = |point| TrialResult::ignored(&name("deploy", point), "npm is missing");
    let evidence = run(1, vec![ran(Idle, &[said(Eof, Held)]), ignored(Sent)]);
    let because = "deploy was not run at sent: npm is missing";
    let eof = rule("servers: ['*'], questions: [eof]");
    closes(&eof, &[evidence], ReasonKind::NotRun, because);
}

#[test]
fn a_trial_that_was_filtered_out_is_not_met() {
    let mut evidence = good();
    evidence.facts.population[1].not_run = Some("filtered out".to_owned());
    evidence.results.trials.pop();
    let because = "deploy was not run at sent: filtered out";
    closes(&policy(""), &[evidence], ReasonKind::NotRun, because);
}

#[test]
fn a_trial_without_a_result_is_not_met() {
    let mut evidence = good();
    evidence.results.trials.pop();
    let because = "deploy was not run at sent: the bundle has no result of it";
    closes(&policy(""), &[evidence], ReasonKind::NotRun, because);
}

#[test]
fn a_drill_without_a_trial_is_not_met() {
    let mut evidence = good();
    evidence.facts.drills.push(facts("notes", "00"));
    let because = "no bundle has a trial of notes";
    closes(&policy(""), &[evidence], ReasonKind::Missing, because);
}

#[test]
fn an_error_is_not_met_whatever_its_answers_say() {
    let failed = TrialResult::failed(
        &name("deploy", Sent),
        "no cell",
        Duration::ZERO,
        &Secrets::default(),
    );
    let failed = TrialResult {
        answers: vec![said(Eof, Held), said(Effects, Held)],
        ..failed
    };
    let held = [said(Eof, Held), said(Effects, Held)];
    let evidence = run(1, vec![ran(Idle, &held), failed]);
    let because = "deploy at sent: error, no cell";
    closes(&policy(""), &[evidence], ReasonKind::Error, because);
}

#[test]
fn a_trial_that_was_asked_nothing_is_not_met() {
    let evidence = [good_but(&[])];
    let because = "deploy at sent: not asked, nothing was asked in it: it was cut short";
    for policy in [policy(""), rule("servers: ['*']")] {
        closes(&policy, &evidence, ReasonKind::NotAsked, because);
    }
}

#[test]
fn a_verdict_that_no_answer_explains_is_not_met() {
    let mut evidence = good();
    evidence.results.trials[1].verdict = crate::report::TrialVerdict::Unproven;
    let because = "deploy at sent: unproven, it is unproven, and no answer says why";
    closes(&policy(""), &[evidence], ReasonKind::Unproven, because);
}

#[test]
fn a_question_that_a_drill_does_not_ask_is_not_met() {
    let ownership = rule("servers: ['*'], questions: [ownership]");
    let because = "ownership of deploy is not asked at idle, sent";
    closes(&ownership, &[good()], ReasonKind::NotAsked, because);
}

#[test]
fn a_question_that_does_not_arise_at_one_moment_is_met_at_another() {
    // `ownership` is asked from dispatch on.
    let evidence = good_but(&[said(Eof, Held), said(Ownership, Held)]);
    let ownership = rule("servers: ['*'], questions: [ownership]");
    let decision = opens(&ownership, std::slice::from_ref(&evidence));
    assert_eq!(decision.rules[0].does_not_arise, 1);
    // Not where the rule asks for that moment alone.
    let idle = rule("servers: ['*'], at: [idle], questions: [ownership]");
    let because = "ownership of deploy is not asked at idle";
    closes(&idle, &[evidence], ReasonKind::NotAsked, because);
}

#[test]
fn a_question_that_a_drill_leaves_out_is_not_met_where_it_is_named() {
    let held = [said(Eof, Held), said(Effects, Held)];
    let evidence = [run(1, vec![left_out(ran(Idle, &held), Ownership)])];
    let decision = opens(&rule("servers: ['*']"), &evidence);
    let note = "the drill of deploy leaves ownership out: it has none";
    assert_eq!(decision.notes, [note]);
    let ownership = rule("servers: ['*'], questions: [ownership]");
    let because = "the drill of deploy leaves ownership out: it has none";
    closes(&ownership, &evidence, ReasonKind::LeftOut, because);
}

#[test]
fn what_is_known_to_be_broken_counts_as_the_rule_says() {
    let mut evidence = good_but(&[known(Eof), said(Effects, Held)]);
    let reported = (Eof, "reported upstream".to_owned());
    evidence.facts.drills[0].known = [reported].into();
    let evidence = [evidence];
    let because = "eof of deploy is known to be broken at sent";
    let default = rule("servers: ['*']");
    let reason = closes(&default, &evidence, ReasonKind::Known, because);
    assert_eq!(
        reason.cases[0].because,
        "It is broken.; known: reported upstream"
    );
    let refusing = rule("servers: ['*'], known: refuse");
    closes(&refusing, &evidence, ReasonKind::Known, because);
    let accepting = rule("servers: ['*'], known: accept");
    let decision = opens(&accepting, &evidence);
    assert_eq!(
        decision.headline(),
        "GO: 3 answers held, 1 known to be broken"
    );
    let note = "eof of deploy is known to be broken at sent: reported upstream";
    assert_eq!(decision.notes, [note]);
}

#[test]
fn accepting_what_is_known_accepts_nothing_else() {
    let evidence = [good_but(&[known(Eof), said(Effects, Broken)])];
    let accepting = rule("servers: ['*'], known: accept");
    let because = "effects of deploy is broken at sent";
    closes(&accepting, &evidence, ReasonKind::Broken, because);
}

#[test]
fn a_known_answer_that_holds_is_in_the_way() {
    let mut evidence = good();
    evidence.results.trials[0].stale_known = vec![Eof];
    evidence.results.trials[0].verdict = crate::report::TrialVerdict::Broken;
    let because =
        "eof of deploy holds at idle, and its drill lists it as known: take it out of `known`";
    for rules in ["servers: ['*']", "servers: ['*'], known: accept"] {
        let evidence = std::slice::from_ref(&evidence);
        closes(&rule(rules), evidence, ReasonKind::Stale, because);
    }
    let effects = rule("servers: ['*'], questions: [effects]");
    opens(&effects, &[evidence]);
}

#[test]
fn two_rules_that_ask_for_the_same_are_one_reason() {
    let evidence = [good_but(&[said(Eof, Broken), said(Effects, Held)])];
    let twice = policy("rules: [{ servers: ['*'] }, { servers: [deploy], questions: [eof] }]");
    let because = "eof of deploy is broken at sent";
    let reason = closes(&twice, &evidence, ReasonKind::Broken, because);
    assert_eq!((reason.rule, reason.cases.len()), (Some(1), 1));
}

#[test]
fn one_reason_names_all_trials_that_show_it() {
    let broken = [said(Eof, Broken)];
    let evidence = [run(1, vec![ran(Idle, &broken), ran(Sent, &broken)])];
    let eof = rule("servers: ['*'], questions: [eof]");
    let because = "eof of deploy is broken at idle, sent";
    let reason = closes(&eof, &evidence, ReasonKind::Broken, because);
    assert_eq!(reason.cases.len(), 2);
}

#[test]
fn the_last_release_says_how_it_stood() {
    let now_broken = [good_but(&[said(Eof, Broken), said(Effects, Held)])];
    let before = |answers: &[_]| {
        let mut last = good_but(answers);
        last.run = "20261201T120000Z-0000".to_owned();
        let decision = decide(&policy(""), &now_broken, Some(&last), now());
        let case = decision.reasons[0].cases[0].clone();
        (case.before, case.change(ReasonKind::Broken))
    };
    let held = before(&[said(Eof, Held), said(Effects, Held)]);
    let as_it_was = "held in the last release, broken now".to_owned();
    assert_eq!(held, (Some(Before::Held), Some(as_it_was)));
    let broken = before(&[said(Eof, Broken)]);
    let as_it_is = "broken in the last release as well".to_owned();
    assert_eq!(broken, (Some(Before::Broken), Some(as_it_is)));
    assert_eq!(before(&[said(Quiet, Held)]).0, Some(Before::NotAsked));
    assert_eq!(before(&[]).0, Some(Before::NotAsked));
}

#[test]
fn what_was_drilled_in_the_last_release_alone_is_told() {
    let last = run(
        900,
        vec![
            ran(Idle, &[said(Eof, Held)]),
            of("notes", Idle, &[said(Eof, Held)]),
        ],
    );
    let decision = decide(&policy(""), &[good()], Some(&last), now());
    assert!(decision.is_go());
    let note = "drilled in the last release, and in none of these bundles: notes::idle";
    assert_eq!(decision.notes, [note]);
}

//! The life of a waiver: told while it lasts, over after its day, and in the way when nothing needs it.

use super::super::{Decision, Evidence, Policy, ReasonKind, decide};
use super::bench::*;
use crate::report::TrialResult;
use crate::report::samples::name;

const BECAUSE: &str = "reason: 'waits for the API', owner: jane@example.org";

/// `eof` of deploy, with this besides.
fn waiving(besides: &str) -> Policy {
    policy(&format!(
        "waivers: [{{ question: eof, server: deploy, {BECAUSE}, {besides} }}]"
    ))
}

fn broken() -> Evidence {
    good_but(&[said(Eof, Broken), said(Effects, Held)])
}

fn on(day: &str, policy: &Policy, evidence: Evidence) -> Decision {
    let noon = format!("{day}T12:00:00Z").parse().unwrap();
    decide(policy, &[evidence], None, noon)
}

#[test]
fn while_it_lasts_it_is_told_with_the_days_that_are_left() {
    let decision = on("2027-02-01", &waiving("until: 2027-02-28"), broken());
    assert!(decision.is_go(), "{decision:#?}");
    let [waived] = decision.waived.as_slice() else {
        panic!("{decision:#?}");
    };
    assert_eq!((waived.days_left, waived.cases.len()), (27, 1));
    assert_eq!(waived.owner, "jane@example.org");
    assert_eq!(waived.cases[0].trial, "deploy::sent");
    assert_eq!(decision.headline(), "GO: 3 answers held, 1 waived");
    assert_eq!(decision.rules[0].waived, 1);
}

#[test]
fn its_last_day_is_the_one_that_it_names() {
    let until = waiving("until: 2027-02-28");
    let late = "2027-02-28T23:59:59Z".parse().unwrap();
    let decision = decide(&until, &[broken()], None, late);
    assert!(decision.is_go(), "{decision:#?}");
    assert_eq!(decision.waived[0].days_left, 0);
    let next = "2027-03-01T00:00:00Z".parse().unwrap();
    assert!(!decide(&until, &[broken()], None, next).is_go());
}

#[test]
fn after_its_day_both_it_and_what_it_excused_are_reasons() {
    let decision = on("2027-03-02", &waiving("until: 2027-02-28"), broken());
    let kinds: Vec<ReasonKind> = decision.reasons.iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [ReasonKind::Broken, ReasonKind::WaiverEnded]);
    assert_eq!(
        decision.reasons[1].because,
        "the waiver of eof of deploy ended on 2027-02-28, 2 days ago (jane@example.org: waits for the API)"
    );
    assert!(decision.waived.is_empty());
}

#[test]
fn after_its_day_it_is_a_reason_though_the_question_holds() {
    let decision = on("2027-03-01", &waiving("until: 2027-02-28"), good());
    only(
        &decision,
        ReasonKind::WaiverEnded,
        "the waiver of eof of deploy ended on 2027-02-28, 1 day ago (jane@example.org: waits for the API)",
    );
}

#[test]
fn a_question_that_holds_now_needs_none() {
    closes(
        &waiving("until: 2027-02-28"),
        &[good()],
        ReasonKind::WaiverUnneeded,
        "the waiver of eof of deploy is not needed: eof holds now; take it out (jane@example.org)",
    );
}

#[test]
fn each_moment_that_it_names_must_need_it() {
    let sent = waiving("at: [sent], until: 2027-02-28");
    opens(&sent, &[broken()]);
    let both = waiving("at: [sent, idle], until: 2027-02-28");
    closes(
        &both,
        &[broken()],
        ReasonKind::WaiverUnneeded,
        "the waiver of eof of deploy at sent, idle is not needed: eof holds now at idle; take it out (jane@example.org)",
    );
}

#[test]
fn it_excuses_its_own_moments_alone() {
    let answers = [said(Eof, Broken), said(Effects, Held)];
    let evidence = [run(1, vec![ran(Idle, &answers), ran(Sent, &answers)])];
    let because = "eof of deploy is broken at idle";
    let sent = waiving("at: [sent], until: 2027-02-28");
    let decision = decided(&sent, &evidence);
    only(&decision, ReasonKind::Broken, because);
    assert_eq!(decision.waived.len(), 1);
}

#[test]
fn it_excuses_its_own_question_alone() {
    let evidence = [good_but(&[said(Eof, Broken), said(Effects, Broken)])];
    let because = "effects of deploy is broken at sent";
    closes(
        &waiving("until: 2027-02-28"),
        &evidence,
        ReasonKind::Broken,
        because,
    );
}

#[test]
fn an_unproven_answer_a_known_one_and_one_not_asked_can_be_waived() {
    let until = waiving("until: 2027-02-28");
    opens(
        &until,
        &[good_but(&[said(Eof, Unproven), said(Effects, Held)])],
    );
    opens(&until, &[good_but(&[known(Eof), said(Effects, Held)])]);
    opens(&until, &[run(1, vec![ran(Idle, &[said(Effects, Held)])])]);
}

#[test]
fn a_server_that_is_not_there_needs_none() {
    let policy = policy(&format!(
        "waivers: [{{ question: eof, server: notes, {BECAUSE}, until: 2027-02-28 }}]"
    ));
    closes(
        &policy,
        &[good()],
        ReasonKind::WaiverUnneeded,
        "the waiver of eof of notes is not needed: no bundle has a drill notes; take it out (jane@example.org)",
    );
}

#[test]
fn a_question_that_no_rule_asks_for_needs_none() {
    let policy = policy(&format!(
        "waivers: [{{ question: quiet, server: deploy, {BECAUSE}, until: 2027-02-28 }}]"
    ));
    let evidence = good_but(&[said(Eof, Held), said(Effects, Held), said(Quiet, Broken)]);
    closes(
        &policy,
        &[evidence],
        ReasonKind::WaiverUnneeded,
        "the waiver of quiet of deploy is not needed: no rule objects; take it out (jane@example.org)",
    );
}

#[test]
fn a_question_that_is_not_asked_at_all_needs_none() {
    let policy = policy(&format!(
        "waivers: [{{ question: quiet, server: deploy, {BECAUSE}, until: 2027-02-28 }}]"
    ));
    closes(
        &policy,
        &[good()],
        ReasonKind::WaiverUnneeded,
        "the waiver of quiet of deploy is not needed: quiet is not asked; take it out (jane@example.org)",
    );
}

#[test]
fn missing_evidence_cannot_be_waived_and_says_nothing_of_the_waiver() {
    let ignored = TrialResult::ignored(&name("deploy", Sent), "npm is missing");
    let held = [said(Eof, Held), said(Effects, Held)];
    let evidence = [run(1, vec![ran(Idle, &held), ignored])];
    let because = "deploy was not run at sent: npm is missing";
    let sent = waiving("at: [sent], until: 2027-02-28");
    closes(&sent, &evidence, ReasonKind::NotRun, because);
}

#[test]
fn of_two_waivers_for_the_same_one_that_lasts_is_enough() {
    let policy = policy(&format!(
        "waivers:\n- {{ question: eof, server: deploy, {BECAUSE}, until: 2027-01-30 }}\n\
         - {{ question: eof, server: 'dep*', {BECAUSE}, until: 2027-02-28 }}\n"
    ));
    // The one that is over must be taken out all the same.
    let decision = decided(&policy, &[broken()]);
    let kinds: Vec<ReasonKind> = decision.reasons.iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [ReasonKind::WaiverEnded]);
    assert_eq!(decision.waived.len(), 1);
}

#[test]
fn of_two_waivers_that_are_the_same_the_second_is_in_the_way() {
    let waiver = format!("{{ question: eof, server: deploy, {BECAUSE}, until: 2027-02-28 }}");
    let decision = decided(
        &policy(&format!("waivers: [{waiver}, {waiver}]")),
        &[broken()],
    );
    only(
        &decision,
        ReasonKind::WaiverUnneeded,
        "the waiver of eof of deploy is not needed: one before it is for the same; take it out (jane@example.org)",
    );
    assert_eq!(decision.waived.len(), 1);
    assert_eq!(decision.rules[0].waived, 1);
}

#[test]
fn an_answer_that_two_waivers_excuse_is_counted_once() {
    let policy = policy(&format!(
        "waivers:\n- {{ question: eof, server: deploy, {BECAUSE}, until: 2027-02-27 }}\n\
         - {{ question: eof, server: 'dep*', {BECAUSE}, until: 2027-02-28 }}\n"
    ));
    let decision = opens(&policy, &[broken()]);
    assert_eq!(decision.headline(), "GO: 3 answers held, 1 waived");
}

#[test]
fn a_drill_that_lists_as_known_what_holds_cannot_be_waived() {
    let mut evidence = good();
    evidence.results.trials[0].stale_known = vec![Eof];
    let decision = decided(&waiving("until: 2027-02-28"), &[evidence]);
    let kinds: Vec<ReasonKind> = decision.reasons.iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [ReasonKind::Stale, ReasonKind::WaiverUnneeded]);
}

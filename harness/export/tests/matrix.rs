//! What counts as evidence for a control.

use super::*;

fn held(point: CrashPoint) -> TrialResult {
    trial(
        &name("deploy", point),
        vec![answer(Question::Eof, Verdict::Held, "It exited.")],
    )
}

fn population(trial: &str, not_run: Option<&str>) -> Population {
    Population {
        drill: "deploy".to_owned(),
        trial: Some(trial.to_owned()),
        line: None,
        not_run: not_run.map(ToOwned::to_owned),
        repeats: Vec::new(),
    }
}

fn facts_with(population: Vec<Population>) -> RunFacts {
    RunFacts {
        drills: vec![drill("deploy", &["C1"])],
        population,
        ..RunFacts::default()
    }
}

/// The only control of a run.
fn control(run: &Results, facts: &RunFacts) -> Control {
    let matrix = Matrix::of(&[EndedRun::new(run, facts, false)]);
    let [control] = matrix.controls.try_into().unwrap();
    control
}

fn cell(control: &Control, question: Question) -> &Cell {
    let mut cells = control.rows[0].cells.iter();
    cells.find(|cell| cell.question == question).unwrap()
}

#[test]
fn a_control_is_held_where_all_of_it_was_run_and_held() {
    let run = results(vec![held(CrashPoint::Sent), held(CrashPoint::Idle)]);
    let control = control(&run, &facts_with(vec![]));
    assert_eq!(control.state, State::Held);
    let proofs = &cell(&control, Question::Eof).proofs;
    assert_eq!(proofs.len(), 2);
    assert_eq!(proofs[0].href.as_deref(), Some("deploy__idle"));
    assert_eq!(proofs[0].events, [12, 15]);
}

#[test]
fn a_control_whose_drill_did_not_run_is_not_evidenced() {
    for facts in [
        facts_with(vec![population("deploy::sent", Some("filtered out"))]),
        facts_with(vec![]),
    ] {
        let control = control(&results(vec![]), &facts);
        assert!(matches!(control.state, State::NotEvidenced(Gap::NotRun(_))));
        assert!(control.notes()[0].starts_with("no trial of deploy was run"));
        let states = control.rows[0].cells.iter().map(|cell| cell.state.word());
        assert!(states.into_iter().all(|word| word == "not evidenced"));
    }
}

#[test]
fn an_ignored_drill_is_no_evidence_and_says_why() {
    let ignored = TrialResult::ignored(&name("deploy", CrashPoint::Sent), "npm is missing");
    let control = control(&results(vec![ignored]), &facts_with(vec![]));
    assert_eq!(
        control.state.reason(),
        "no trial of deploy was run: npm is missing"
    );
}

#[test]
fn a_part_of_a_drill_is_not_the_evidence_of_all_of_it() {
    let run = results(vec![held(CrashPoint::Sent)]);
    let facts = facts_with(vec![
        population("deploy::sent", None),
        population("deploy::idle", Some("filtered out")),
    ]);
    let control = control(&run, &facts);
    assert_eq!(cell(&control, Question::Eof).state, State::Held);
    assert_eq!(
        control.state.reason(),
        "1 of 2 trials of deploy were not run: filtered out"
    );
}

#[test]
fn a_trial_without_a_result_was_not_run() {
    let facts = facts_with(vec![population("deploy::idle", None)]);
    let run = results(vec![held(CrashPoint::Sent)]);
    let control = control(&run, &facts);
    assert_eq!(
        control.state.reason(),
        "1 of 2 trials of deploy were not run: the run ended before"
    );
}

#[test]
fn the_worst_answer_decides_and_what_is_excused_is_still_broken() {
    let of = |answers: Vec<Answer>| {
        let broken = trial(&name("deploy", CrashPoint::Idle), answers);
        let run = results(vec![held(CrashPoint::Sent), broken]);
        control(&run, &facts_with(vec![])).state
    };
    let with = |verdict, known| Answer {
        known,
        ..answer(Question::Eof, verdict, "…")
    };
    assert_eq!(of(vec![with(Verdict::Unproven, false)]), State::Unproven);
    assert_eq!(of(vec![with(Verdict::Broken, false)]), State::Broken);
    assert_eq!(of(vec![with(Verdict::Broken, true)]), State::Known);
}

#[test]
fn an_error_is_an_error_of_every_question_that_was_asked() {
    let failed = TrialResult::failed(
        &name("deploy", CrashPoint::Idle),
        "no cell",
        std::time::Duration::ZERO,
        &crate::journal::Secrets::default(),
    );
    let run = results(vec![held(CrashPoint::Sent), failed]);
    let control = control(&run, &facts_with(vec![]));
    assert_eq!(control.state, State::Error);
    assert_eq!(cell(&control, Question::Eof).state, State::Error);
    let never = cell(&control, Question::Effects);
    assert_eq!(never.state, State::NotEvidenced(Gap::NotAsked));
}

#[test]
fn a_control_is_not_evidenced_where_a_question_is_left_out() {
    let mut without = held(CrashPoint::Sent);
    without.skipped = vec![crate::judge::Skipped {
        question: Question::Quiet,
        reason: "it polls".to_owned(),
    }];
    let (run, facts) = (results(vec![without]), facts_with(vec![]));
    let control = control(&run, &facts);
    let left_out = State::NotEvidenced(Gap::LeftOut("it polls".to_owned()));
    assert_eq!(control.state, left_out);
    assert_eq!(control.rows[0].state, left_out);
    let matrix = Matrix::of(&[EndedRun::new(&run, &facts, false)]);
    assert!(matrix.objects());
    let csv = render_csv(&matrix).unwrap();
    assert!(csv.contains("C1,not evidenced,deploy,"), "{csv}");
    let html = render_html(&matrix).unwrap();
    let heading = "C1: <span class=\"state none\">not evidenced</span>";
    assert!(html.contains(heading), "{html}");
    let finding = &oscal(&run, &facts)["results"][0]["findings"][0];
    assert_eq!(finding["target"]["status"]["state"], "not-satisfied");
    let quiet = cell(&control, Question::Quiet);
    assert_eq!(
        quiet.state,
        State::NotEvidenced(Gap::LeftOut("it polls".to_owned()))
    );
    assert_eq!(control.notes(), ["deploy leaves out quiet: it polls"]);
}

#[test]
fn what_is_left_out_is_no_error_where_nothing_was_answered() {
    let mut failed = held(CrashPoint::Sent);
    failed.verdict = TrialVerdict::Error;
    failed.error = Some("no cell".to_owned());
    failed.answers.clear();
    failed.skipped = vec![crate::judge::Skipped {
        question: Question::Quiet,
        reason: "it polls".to_owned(),
    }];
    let control = control(&results(vec![failed]), &facts_with(vec![]));
    assert_eq!(control.state, State::Error);
    assert_eq!(cell(&control, Question::Eof).state, State::Error);
    let left_out = State::NotEvidenced(Gap::LeftOut("it polls".to_owned()));
    assert_eq!(cell(&control, Question::Quiet).state, left_out);
}

#[test]
fn runs_that_ran_a_part_each_are_evidence_together() {
    let (first, second) = (
        results(vec![held(CrashPoint::Sent)]),
        results(vec![held(CrashPoint::Idle)]),
    );
    let left = |sent: Option<&str>, idle: Option<&str>| {
        facts_with(vec![
            population("deploy::sent", sent),
            population("deploy::idle", idle),
        ])
    };
    let out = Some("filtered out");
    let (facts, other) = (left(None, out), left(out, None));
    let runs = [
        EndedRun::new(&first, &facts, false),
        EndedRun {
            folder: "reports/runs/second/",
            ..EndedRun::new(&second, &other, false)
        },
    ];
    let together = Matrix::of(&runs);
    assert_eq!(together.controls[0].state, State::Held);
    assert!(!together.objects());
    let proofs = &together.controls[0].rows[0].cells[0].proofs;
    assert_eq!(
        proofs[0].href.as_deref(),
        Some("reports/runs/second/deploy__idle")
    );
    assert!(Matrix::of(&runs[..1]).objects());
}

#[test]
fn a_later_run_does_not_hide_what_an_earlier_one_found() {
    let broken = trial(
        &name("deploy", CrashPoint::Sent),
        vec![answer(Question::Eof, Verdict::Broken, "It is alive.")],
    );
    let (earlier, later) = (results(vec![broken]), results(vec![held(CrashPoint::Sent)]));
    let facts = facts_with(vec![]);
    let runs = [
        EndedRun::new(&earlier, &facts, false),
        EndedRun::new(&later, &facts, false),
    ];
    assert_eq!(Matrix::of(&runs).controls[0].state, State::Broken);
}

#[test]
fn a_control_that_a_drill_names_twice_or_on_two_lines_is_one() {
    let run = results(vec![held(CrashPoint::Sent)]);
    let mut facts = facts_with(vec![]);
    facts.drills[0].controls = vec!["C 1".to_owned(), "C\n1".to_owned(), " ".to_owned()];
    let matrix = Matrix::of(&[EndedRun::new(&run, &facts, false)]);
    assert_eq!(matrix.controls.len(), 1);
    assert_eq!(matrix.controls[0].rows.len(), 1);
}

//! Judgements as a whole: order, the worst answer, what is known, and journals that stop anywhere.

use serde_json::json;

use super::tale::*;
use crate::journal::*;
use crate::judge::Verdict;
use crate::spec::{CrashPoint, Question};

pub const POINTS: [CrashPoint; 11] = [
    CrashPoint::Startup,
    CrashPoint::Idle,
    CrashPoint::TornCall,
    CrashPoint::CallUnread,
    CrashPoint::CallWritten,
    CrashPoint::BeforeDispatch,
    CrashPoint::Sent,
    CrashPoint::AfterAcceptance,
    CrashPoint::TornReply,
    CrashPoint::AfterReply,
    CrashPoint::AfterResult,
];

#[test]
fn a_good_server_holds_at_every_point() {
    for point in POINTS {
        let judgement = Tale::good(point).judged();
        for answer in &judgement.answers {
            assert_eq!(
                answer.verdict,
                Verdict::Held,
                "{point} {}: {}",
                answer.question,
                answer.because
            );
            assert!(!answer.evidence.is_empty(), "{point} {}", answer.question);
        }
        assert_eq!(judgement.verdict, Verdict::Held);
    }
}

#[test]
fn a_good_server_holds_when_its_stdin_is_closed_at_every_point() {
    for point in POINTS {
        let judgement = Tale::good_with(crash(json!({ "at": point, "close": ["stdin"] }))).judged();
        for answer in &judgement.answers {
            assert_eq!(
                answer.verdict,
                Verdict::Held,
                "{point} {}: {}",
                answer.question,
                answer.because
            );
        }
    }
}

#[test]
fn answers_stand_in_the_order_of_the_questions() {
    let asked: Vec<Question> = Tale::good(CrashPoint::AfterAcceptance)
        .judged()
        .answers
        .iter()
        .map(|answer| answer.question)
        .collect();
    let mut sorted = asked.clone();
    sorted.sort();
    assert_eq!(asked, sorted);
    assert_eq!(asked.len(), 11, "{asked:?}");
}

#[test]
fn questions_that_cannot_be_asked_are_absent() {
    let bare = Tale::good(CrashPoint::Idle).drilled_with(json!({
        "remote": null, "authority": null, "recover": null, "expect": { "ownership": null },
    }));
    let asked: Vec<Question> = bare.judged().answers.iter().map(|a| a.question).collect();
    assert_eq!(
        asked,
        [
            Question::Eof,
            Question::Helpers,
            Question::Quiet,
            Question::Protocol,
            Question::Secrets,
            Question::Resources
        ]
    );
}

#[test]
fn a_question_left_out_is_listed_with_its_reason_and_not_answered() {
    let tale = Tale::good(CrashPoint::Idle)
        .drilled_with(json!({ "expect": { "eof": null, "quiet": { "skip": "polls by design" } } }));
    let judgement = tale.judged();
    assert_eq!(judgement.skipped.len(), 1);
    assert_eq!(judgement.skipped[0].question, Question::Quiet);
    assert_eq!(judgement.skipped[0].reason, "polls by design");
    assert!(tale.asked(Question::Quiet).is_none());
}

#[test]
fn an_answer_known_to_be_broken_keeps_its_verdict_and_does_not_count() {
    let tale = Tale::good(CrashPoint::Idle)
        .never_exiting()
        .drilled_with(json!({ "known": {
            "eof": { "because": "reported upstream" },
            "quiet": { "at": ["idle"], "because": "so is this" },
            "ownership": { "at": ["sent"], "because": "elsewhere" },
        } }));
    let answer = tale.finds(Code::EofStillRunning, "still running");
    assert!(answer.known);
    assert!(tale.finds(Code::QuietIgnoresSigterm, "SIGTERM").known);
    assert_eq!(tale.judged().verdict, Verdict::Held);
    assert!(tale.judged().stale_known.is_empty());
}

#[test]
fn an_answer_known_to_be_broken_elsewhere_counts_here() {
    let tale = Tale::good(CrashPoint::Idle)
        .never_exiting()
        .drilled_with(json!({
            "known": { "eof": { "at": ["after-acceptance"], "because": "waits for the remote" } },
        }));
    assert!(!tale.answer(Question::Eof).known);
    assert_eq!(tale.judged().verdict, Verdict::Broken);
}

#[test]
fn a_known_answer_is_found_by_the_name_of_the_crash() {
    for at in ["given", "idle::given", "idle"] {
        let tale = Tale::good_with(crash(json!({ "at": "idle", "name": "given" })))
            .never_exiting()
            .drilled_with(json!({ "known": { "eof": { "at": [at], "because": "…" } } }));
        assert!(tale.answer(Question::Eof).known, "{at}");
    }
}

#[test]
fn an_answer_that_holds_although_known_to_be_broken_fails_the_trial_and_stays_true() {
    let tale = Tale::good(CrashPoint::Idle)
        .drilled_with(json!({ "known": { "eof": { "because": "reported upstream" } } }));
    let judgement = tale.judged();
    assert_eq!(judgement.stale_known, [Question::Eof]);
    assert_eq!(judgement.verdict, Verdict::Broken);
    assert!(!tale.holds(Question::Eof).known);
}

#[test]
fn a_known_answer_that_cannot_be_proven_counts() {
    let tale = Tale::good(CrashPoint::Idle)
        .until(phase(Phase::Quiet))
        .drilled_with(json!({ "known": { "eof": { "because": "reported upstream" } } }));
    assert_eq!(tale.judged().verdict, Verdict::Unproven);
    assert!(!tale.answer(Question::Eof).known);
}

#[test]
fn any_beginning_of_a_good_journal_holds_nothing_and_breaks_nothing() {
    let forms = POINTS
        .map(|point| json!(point))
        .into_iter()
        .chain(POINTS.map(|point| json!({ "at": point, "close": ["stdin"] })));
    for form in forms {
        let tale = Tale::good_with(crash(form.clone()));
        for n in 0..tale.len() {
            let judgement = tale.judged_up_to(n);
            assert!(judgement.verdict >= Verdict::Unproven);
            for answer in judgement.answers {
                assert_eq!(
                    answer.verdict,
                    Verdict::Unproven,
                    "{form} up to {n}, {}: {}",
                    answer.question,
                    answer.because
                );
                assert!(answer.because.contains("cut short"), "{}", answer.because);
                assert!(answer.evidence.iter().all(|seq| *seq < n as u64));
            }
        }
    }
}

#[test]
fn what_a_cut_journal_proves_broken_the_whole_one_does_too() {
    let bad = [
        Tale::good(CrashPoint::AfterAcceptance).never_exiting(),
        Tale::good(CrashPoint::AfterAcceptance).alive_from(Moment::Point, &process(HELPER)),
        Tale::good(CrashPoint::AfterAcceptance).change(rows_from(Moment::Dispatch, Vec::clear)),
        Tale::good(CrashPoint::BeforeDispatch).after(
            |e| matches!(e, Event::RemoteReleased),
            [
                Event::ConnectionReleased { connection: 1 },
                request(1, "POST /builds"),
                applied(1, "build-1", "key-a"),
            ],
        ),
    ];
    for tale in bad {
        let whole = tale.judged();
        for n in 0..tale.len() {
            for answer in tale.judged_up_to(n).answers {
                if answer.verdict == Verdict::Broken {
                    let last = whole.answers.iter().find(|a| a.question == answer.question);
                    assert_eq!(
                        last.map(|a| a.verdict),
                        Some(Verdict::Broken),
                        "{}",
                        answer.because
                    );
                }
            }
        }
    }
}

#[test]
fn a_trial_cut_short_keeps_what_is_proven_broken() {
    let tale = Tale::good(CrashPoint::AfterAcceptance)
        .after(
            |e| matches!(e, Event::EofInPipe { .. }),
            [
                sought(2),
                request(2, "POST /builds"),
                applied(2, "build-2", "key-2"),
            ],
        )
        .until(phase(Phase::Release));
    tale.finds(Code::EffectsDuplicate, "2 effects");
    tale.finds_at(
        Question::Eof,
        Code::TrialCutShort,
        "cut short in its phase observe",
    );
}

#[test]
fn an_interrupted_trial_proves_nothing_held() {
    let tale = Tale::good(CrashPoint::Idle)
        .before(|e| matches!(e, Event::TrialEnded), [Event::Interrupted]);
    assert_eq!(tale.judged().verdict, Verdict::Unproven);
    tale.finds_at(Question::Eof, Code::TrialCutShort, "interrupted");
}

#[test]
fn any_single_event_may_be_missing_without_a_panic() {
    for point in [
        CrashPoint::Startup,
        CrashPoint::BeforeDispatch,
        CrashPoint::AfterAcceptance,
    ] {
        let tale = Tale::good(point);
        let lines = tale.lines();
        for gone in 0..lines.len() {
            let mut rest = lines.clone();
            rest.remove(gone);
            assert!(crate::judge::judge(&drill(json!({})), &rest).answers.len() <= 11);
            rest.reverse();
            assert!(crate::judge::judge(&drill(json!({})), &rest).answers.len() <= 11);
        }
    }
}

#[test]
fn an_empty_journal_proves_nothing_and_is_no_error_of_ours() {
    let judgement = crate::judge::judge(&drill(json!({})), &[]);
    assert_eq!(judgement.verdict, Verdict::Unproven);
    assert!(judgement.error.is_none());
}

#[test]
fn snapshots_name_no_pid_time_or_id() {
    let tales = [
        Tale::good(CrashPoint::AfterAcceptance),
        Tale::good(CrashPoint::AfterAcceptance).never_exiting(),
        Tale::good(CrashPoint::AfterAcceptance).alive_from(Moment::End, &process(4711)),
    ];
    for answer in tales.iter().flat_map(|tale| tale.judged().answers) {
        let stable = &answer.stable;
        for run_to_run in ["4711", "build-1", "key-a", "run-a", "(pid 3)"] {
            assert!(
                !stable.contains(run_to_run),
                "{}: {stable}",
                answer.question
            );
        }
    }
}

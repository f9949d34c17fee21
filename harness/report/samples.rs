//! Results as tests need them.

use std::time::Duration;

use super::{Results, RunId, SnapshotState, TrialName, TrialResult};
use crate::journal::Secrets;
use crate::judge::{Answer, FINDINGS, Judgement, Moments, Repeat, Skipped, Verdict, together};
use crate::spec::{CrashPoint, Question};

pub fn name(drill: &str, point: CrashPoint) -> TrialName {
    TrialName {
        drill: drill.to_owned(),
        point,
        variant: None,
    }
}

pub fn answer(question: Question, verdict: Verdict, because: &str) -> Answer {
    Answer {
        question,
        verdict,
        // Any of those that it can be.
        codes: FINDINGS
            .iter()
            .find(|found| found.verdict == verdict && found.code.question() == Some(question))
            .map(|found| vec![found.code])
            .unwrap_or_default(),
        because: because.to_owned(),
        stable: because.to_owned(),
        by_chance: false,
        evidence: vec![12, 15],
        known: false,
        repeat: None,
        unstable: None,
        named: Vec::new(),
    }
}

/// A trial with these answers, its verdict the worst of those that count.
pub fn trial(name: &TrialName, answers: Vec<Answer>) -> TrialResult {
    let verdict = answers
        .iter()
        .filter(|answer| !answer.known)
        .map(|answer| answer.verdict)
        .max()
        .unwrap_or(Verdict::Held);
    let judgement = Judgement {
        verdict,
        answers,
        skipped: Vec::new(),
        stale_known: Vec::new(),
        moments: Moments::default(),
        sought: Vec::new(),
        error: None,
    };
    let bundle = name.file_stem();
    TrialResult::judged(
        name,
        judgement,
        Duration::from_millis(41),
        &Secrets::default(),
    )
    .with(Some(SnapshotState::Same), Some(bundle))
}

/// A trial of 20 repeats, the third of which left a helper.
pub fn unstable() -> TrialResult {
    let judged = |verdict, because| {
        let eof = answer(Question::Eof, Verdict::Held, "It exited.");
        let answers = vec![eof, answer(Question::Helpers, verdict, because)];
        Repeat {
            judgement: Judgement {
                verdict,
                answers,
                skipped: Vec::new(),
                stale_known: Vec::new(),
                moments: Moments::default(),
                sought: Vec::new(),
                error: None,
            },
            cut_short: false,
        }
    };
    let mut repeats = vec![judged(Verdict::Held, "None is left."); 20];
    repeats[2] = judged(Verdict::Broken, "pid 12 is alive.");
    let together = together(&repeats);
    let name = name("deploy", CrashPoint::Sent);
    TrialResult::judged(
        &name,
        together.judgement,
        Duration::from_secs(2),
        &Secrets::default(),
    )
    .with(Some(SnapshotState::Differs), Some(name.file_stem()))
    .repeated(together.repeats, 20)
}

pub fn results(trials: Vec<TrialResult>) -> Results {
    Results {
        schema: 1,
        run: RunId::parse("20261129T234510Z-3f9a").unwrap(),
        started: "2026-11-29T23:45:10.000Z".to_owned(),
        finished: Some("2026-11-29T23:45:10.812Z".to_owned()),
        trials,
    }
}

/// A run in which everything occurs.
pub fn eventful() -> Results {
    let held = |questions: &[Question]| -> Vec<Answer> {
        questions
            .iter()
            .map(|question| answer(*question, Verdict::Held, "It held."))
            .collect()
    };
    let all = [
        Question::Eof,
        Question::Helpers,
        Question::Quiet,
        Question::Effects,
        Question::Reconcile,
        Question::Ownership,
        Question::Revocation,
        Question::Protocol,
        Question::Secrets,
        Question::Resources,
    ];

    let mut replay = held(&all);
    replay[4] = answer(
        Question::Reconcile,
        Verdict::Broken,
        "The retry in session B made a second build: the remote holds 2 builds for call 7c1f, with 2 different \
         idempotency keys.",
    );
    replay[2] = answer(
        Question::Quiet,
        Verdict::Unproven,
        "The quiet period was cut short: the remote's port was taken over after 212 ms.",
    );

    let mut excused = held(&all);
    excused[0] = Answer {
        known: true,
        ..answer(
            Question::Eof,
            Verdict::Broken,
            "pid 12 was alive 10 s after EOF.",
        )
    };

    let mut without_secrets = trial(&name("notes", CrashPoint::Idle), held(&all[..3]));
    without_secrets.skipped = vec![Skipped {
        question: Question::Secrets,
        reason: "the server has no credential".to_owned(),
    }];

    results(vec![
        TrialResult::ignored(
            &name("notes", CrashPoint::Sent),
            "fixtures/node/node_modules is missing: npm ci --prefix fixtures/node",
        ),
        trial(&name("deploy", CrashPoint::AfterAcceptance), replay),
        trial(&name("deploy", CrashPoint::BeforeDispatch), held(&all)),
        trial(&name("deploy", CrashPoint::AfterResult), excused).with(
            Some(SnapshotState::New),
            Some("deploy__after-result".to_owned()),
        ),
        without_secrets.with(Some(SnapshotState::Differs), Some("notes__idle".to_owned())),
        TrialResult::failed(
            &name("notes", CrashPoint::Startup),
            "failed to start the cell: unshare: Operation not permitted",
            Duration::from_millis(3),
            &Secrets::default(),
        ),
    ])
}

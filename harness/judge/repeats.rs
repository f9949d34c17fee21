//! A trial that is carried out several times: what its repeats say together.
//!
//! ```text
//!   Judgement of each repeat ──> together ──> the worst answer to each question, and which repeat gave it;
//!                                             where its verdicts differ, how often each was given
//! ```
//!
//! A server that does the right thing nineteen times out of twenty is not right, and one that is broken at times is not
//! what `known` excuses. So an answer whose verdict differs is unstable, counts with its worst verdict, and nothing
//! excuses it.
//!
//! Repeats are compared by the verdicts that they gave. A question that one of them was not asked (`handle` depends on what
//! the record of a call says) has no verdict there, and that alone makes nothing unstable. Neither does an interruption:
//! what a repeat could not decide because it was cut short says nothing of the server.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::history::is_whole;
use super::{Answer, Judgement, Verdict, judge, weigh};
use crate::journal::Line;
use crate::spec::{Drill, Question};

/// How often each verdict was given. As JSON, `{ "held": 19, "broken": 1 }`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally(BTreeMap<Verdict, u32>);

impl Tally {
    /// The verdicts that were given, the best first, each with its count.
    pub fn counts(&self) -> impl Iterator<Item = (Verdict, u32)> {
        self.0.iter().map(|(verdict, count)| (*verdict, *count))
    }

    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    fn worst(&self) -> Option<Verdict> {
        self.0.last_key_value().map(|(verdict, _)| *verdict)
    }
}

impl FromIterator<Verdict> for Tally {
    fn from_iter<V: IntoIterator<Item = Verdict>>(verdicts: V) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            *tally.0.entry(verdict).or_default() += 1;
        }
        tally
    }
}

/// One time that a trial was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    pub judgement: Judgement,
    /// The user interrupted it, or the harness was killed.
    pub cut_short: bool,
}

impl Repeat {
    /// What the judge says of one journal.
    #[must_use]
    pub fn judged(drill: &Drill, lines: &[Line]) -> Self {
        Self {
            judgement: judge(drill, lines),
            cut_short: !is_whole(lines),
        }
    }
}

/// What the repeats of a trial say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Together {
    /// For each question the first of its worst answers. The verdict is that of the worst repeat.
    pub judgement: Judgement,
    /// The verdicts of the repeats, in which no unstable answer is excused.
    pub repeats: Tally,
}

/// Puts together what the repeats of one trial said, in the order in which they were carried out.
#[must_use]
pub fn together(repeats: &[Repeat]) -> Together {
    let unstable: BTreeMap<Question, Tally> = Question::ALL
        .into_iter()
        .map(|question| (question, verdicts_on(question, repeats).collect::<Tally>()))
        .filter(|(_, tally)| tally.counts().count() > 1)
        .collect();
    let unexcused: Vec<Judgement> = repeats
        .iter()
        .map(|repeat| without_excuse(&repeat.judgement, &unstable))
        .collect();
    let repeats: Tally = unexcused
        .iter()
        .map(|judgement| judgement.verdict)
        .collect();
    let answers: Vec<Answer> = Question::ALL
        .into_iter()
        .filter_map(|question| worst_answer(question, &unexcused))
        .map(|answer| Answer {
            unstable: unstable.get(&answer.question).cloned(),
            ..answer
        })
        .collect();
    let stale_known = answers
        .iter()
        .filter(|answer| answer.verdict == Verdict::Held)
        .map(|answer| answer.question)
        .filter(|question| unexcused.iter().any(|j| j.stale_known.contains(question)))
        .collect();
    let judgement = Judgement {
        verdict: repeats.worst().unwrap_or(Verdict::Unproven),
        answers,
        skipped: unexcused
            .iter()
            .map(|judgement| judgement.skipped.clone())
            .find(|skipped| !skipped.is_empty())
            .unwrap_or_default(),
        stale_known,
        moments: unexcused
            .first()
            .map(|judgement| judgement.moments.clone())
            .unwrap_or_default(),
        sought: unexcused
            .first()
            .map(|judgement| judgement.sought.clone())
            .unwrap_or_default(),
        error: numbered(&unexcused)
            .find_map(|(repeat, judgement)| Some((repeat, judgement.error.as_ref()?)))
            .map(|(repeat, because)| format!("in repeat {repeat}: {because}")),
    };
    Together { judgement, repeats }
}

/// The verdicts that repeats gave on a question of their own accord.
fn verdicts_on(question: Question, repeats: &[Repeat]) -> impl Iterator<Item = Verdict> {
    repeats.iter().filter_map(move |repeat| {
        let answer = answer_to(question, &repeat.judgement)?;
        let is_undecided = repeat.cut_short && answer.verdict == Verdict::Unproven;
        (!is_undecided).then_some(answer.verdict)
    })
}

/// A repeat's judgement as it would be if the drill did not list its unstable answers as `known`.
fn without_excuse(judgement: &Judgement, unstable: &BTreeMap<Question, Tally>) -> Judgement {
    let mut judgement = judgement.clone();
    for answer in &mut judgement.answers {
        answer.known &= !unstable.contains_key(&answer.question);
    }
    judgement
        .stale_known
        .retain(|question| !unstable.contains_key(question));
    if judgement.verdict != Verdict::Error {
        judgement.verdict = weigh(&judgement.answers, &judgement.stale_known);
    }
    judgement
}

/// The first of the worst answers to a question. One that is excused is no worse than one that held.
fn worst_answer(question: Question, repeats: &[Judgement]) -> Option<Answer> {
    let badness = |answer: &Answer| {
        if answer.known {
            Verdict::Held
        } else {
            answer.verdict
        }
    };
    numbered(repeats)
        .filter_map(|(repeat, judgement)| Some((repeat, answer_to(question, judgement)?)))
        // The first of those that are equal is kept.
        .min_by_key(|(_, answer)| Reverse(badness(answer)))
        .map(|(repeat, answer)| Answer {
            repeat: Some(repeat),
            ..answer.clone()
        })
}

fn answer_to(question: Question, judgement: &Judgement) -> Option<&Answer> {
    judgement
        .answers
        .iter()
        .find(|answer| answer.question == question)
}

fn numbered(repeats: &[Judgement]) -> impl Iterator<Item = (u32, &Judgement)> {
    (1..).zip(repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(question: Question, verdict: Verdict) -> Answer {
        Answer {
            question,
            verdict,
            codes: Vec::new(),
            because: verdict.to_string(),
            stable: String::new(),
            by_chance: false,
            evidence: Vec::new(),
            known: false,
            repeat: None,
            unstable: None,
            named: Vec::new(),
        }
    }

    fn judged(answers: &[(Question, Verdict)]) -> Judgement {
        let answers: Vec<Answer> = answers.iter().map(|(q, v)| answer(*q, *v)).collect();
        Judgement {
            verdict: weigh(&answers, &[]),
            answers,
            skipped: Vec::new(),
            stale_known: Vec::new(),
            moments: crate::judge::Moments::default(),
            sought: Vec::new(),
            error: None,
        }
    }

    /// With `eof` listed as known to be broken.
    fn excused(verdict: Verdict) -> Judgement {
        let mut judgement = judged(&[(Question::Eof, verdict)]);
        judgement.answers[0].known = verdict == Verdict::Broken;
        if verdict == Verdict::Held {
            judgement.stale_known.push(Question::Eof);
        }
        judgement.verdict = weigh(&judgement.answers, &judgement.stale_known);
        judgement
    }

    fn whole(judgements: impl IntoIterator<Item = Judgement>) -> Vec<Repeat> {
        judgements
            .into_iter()
            .map(|judgement| Repeat {
                judgement,
                cut_short: false,
            })
            .collect()
    }

    fn tally(verdicts: &[Verdict]) -> Tally {
        verdicts.iter().copied().collect()
    }

    use Question::{Eof, Handle, Helpers};
    use Verdict::{Broken, Error, Held, Unproven};

    #[test]
    fn repeats_that_agree_are_stable() {
        let said = together(&whole([judged(&[(Eof, Held)]), judged(&[(Eof, Held)])]));
        assert_eq!(said.judgement.verdict, Held);
        assert_eq!(said.judgement.answers[0].unstable, None);
        assert_eq!(said.judgement.answers[0].repeat, Some(1));
        assert_eq!(said.repeats, tally(&[Held, Held]));
    }

    #[test]
    fn one_broken_repeat_makes_an_answer_unstable_and_the_trial_broken() {
        let held = judged(&[(Eof, Held), (Helpers, Held)]);
        let broken = judged(&[(Eof, Held), (Helpers, Broken)]);
        let said = together(&whole([held.clone(), broken, held]));
        assert_eq!(said.judgement.verdict, Broken);
        assert_eq!(said.repeats, tally(&[Held, Broken, Held]));
        let [eof, helpers] = said.judgement.answers.as_slice() else {
            panic!("{said:?}");
        };
        assert_eq!((&eof.unstable, eof.repeat), (&None, Some(1)));
        assert_eq!((helpers.verdict, helpers.repeat), (Broken, Some(2)));
        assert_eq!(helpers.unstable, Some(tally(&[Held, Held, Broken])));
    }

    #[test]
    fn the_answer_is_that_of_the_first_of_the_worst_repeats() {
        let of = |verdict, because: &str| {
            let mut judgement = judged(&[(Eof, verdict)]);
            judgement.answers[0].because = because.to_owned();
            judgement
        };
        let said = together(&whole([
            of(Unproven, "one"),
            of(Broken, "two"),
            of(Broken, "three"),
        ]));
        let eof = &said.judgement.answers[0];
        assert_eq!((eof.because.as_str(), eof.repeat), ("two", Some(2)));
    }

    #[test]
    fn what_is_known_to_be_broken_and_always_is_stays_excused() {
        let said = together(&whole([excused(Broken), excused(Broken)]));
        assert_eq!(said.judgement.verdict, Held);
        assert!(said.judgement.answers[0].known);
    }

    #[test]
    fn what_is_known_to_be_broken_and_holds_at_times_is_not_excused() {
        // Where the list is for the point of several crashes, none of the repeats objects by itself.
        let mut held = excused(Held);
        held.stale_known.clear();
        held.verdict = Held;
        for held in [held, excused(Held)] {
            let said = together(&whole([excused(Broken), held]));
            assert_eq!(said.judgement.verdict, Broken);
            assert_eq!(said.repeats, tally(&[Broken, Held]));
            let eof = &said.judgement.answers[0];
            assert!(!eof.known && eof.verdict == Broken);
            assert!(said.judgement.stale_known.is_empty());
        }
    }

    #[test]
    fn what_is_known_to_be_broken_and_always_holds_is_out_of_date() {
        let said = together(&whole([excused(Held), excused(Held)]));
        assert_eq!(said.judgement.verdict, Broken);
        assert_eq!(said.judgement.stale_known, [Eof]);
        assert_eq!(said.judgement.answers[0].unstable, None);
    }

    #[test]
    fn a_question_that_was_not_asked_in_every_repeat_is_compared_where_it_was() {
        let without = judged(&[(Eof, Held)]);
        let with = |verdict| judged(&[(Eof, Held), (Handle, verdict)]);
        let said = together(&whole([without.clone(), with(Held), with(Held)]));
        let handle = &said.judgement.answers[1];
        assert_eq!((&handle.unstable, handle.repeat), (&None, Some(2)));
        let said = together(&whole([without, with(Held), with(Broken)]));
        let unstable = said.judgement.answers[1].unstable.as_ref();
        assert_eq!(unstable.map(Tally::total), Some(2));
    }

    #[test]
    fn a_repeat_that_failed_makes_the_trial_an_error_and_the_others_keep_their_answers() {
        let failed = Judgement::failed("no cell".to_owned());
        let said = together(&whole([judged(&[(Eof, Held)]), failed]));
        assert_eq!(said.judgement.verdict, Error);
        assert_eq!(
            said.judgement.error.as_deref(),
            Some("in repeat 2: no cell")
        );
        assert_eq!(said.judgement.answers[0].unstable, None);
        assert_eq!(said.repeats, tally(&[Held, Error]));
    }

    #[test]
    fn an_interruption_makes_a_trial_unproven_and_nothing_unstable() {
        let mut repeats = whole([judged(&[(Eof, Held)]), judged(&[(Eof, Unproven)])]);
        repeats[1].cut_short = true;
        let said = together(&repeats);
        assert_eq!(said.judgement.verdict, Unproven);
        assert_eq!(said.judgement.answers[0].verdict, Unproven);
        assert_eq!(said.judgement.answers[0].unstable, None);
        // What was proven before is another matter.
        repeats[1].judgement = judged(&[(Eof, Broken)]);
        assert!(together(&repeats).judgement.answers[0].unstable.is_some());
    }

    #[test]
    fn an_interruption_is_not_hidden_behind_what_is_excused() {
        let mut repeats = whole([excused(Broken), judged(&[(Eof, Unproven)])]);
        repeats[1].cut_short = true;
        let said = together(&repeats);
        assert_eq!(said.judgement.verdict, Unproven);
        assert_eq!(said.judgement.answers[0].repeat, Some(2));
    }

    #[test]
    fn a_tally_is_written_by_verdict() {
        let json = serde_json::to_string(&tally(&[Broken, Held, Held])).unwrap();
        assert_eq!(json, r#"{"held":2,"broken":1}"#);
        assert_eq!(
            serde_json::from_str::<Tally>(&json).unwrap(),
            tally(&[Held, Broken, Held])
        );
    }
}

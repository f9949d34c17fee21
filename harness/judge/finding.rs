//! What one question found out, and how findings become an answer.
//!
//! A question looks at several things. Each gives a finding; the worst decides, and the sentences of that verdict stand
//! together in the answer. Nothing is held without an event that shows it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::journal::{Phase, Seq};
use crate::spec::Question;

use super::code::Code;
use super::sentence::{Sentence, say};
use super::{Answer, Verdict};

/// The most events that one answer points at: a server that retries in a loop is proven by the first of them.
const SHOWN: usize = 50;

/// How far the journal goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// To the end of the trial.
    Whole,
    /// Somebody pressed Ctrl-C.
    Interrupted(Phase),
    /// The harness was killed: the journal just stops.
    CutShort(Phase),
    /// A limit of the cell was exceeded before the question was decided.
    Exceeded { told: Sentence, evidence: Vec<Seq> },
}

impl Ending {
    fn sentence(self) -> Option<Sentence> {
        let (what, phase) = match self {
            Self::Whole => return None,
            Self::Exceeded { told, .. } => return Some(told),
            Self::Interrupted(phase) => ("interrupted", phase),
            Self::CutShort(phase) => ("cut short", phase),
        };
        Some(say(format!(
            "the trial was {what} in its phase {}",
            phase_name(phase)
        )))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    verdict: Verdict,
    codes: Vec<Code>,
    sentence: Sentence,
    evidence: Vec<Seq>,
}

/// All that one question found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    found: Vec<Found>,
}

impl Findings {
    pub(super) fn broken(
        &mut self,
        code: Code,
        sentence: Sentence,
        evidence: impl IntoIterator<Item = Seq>,
    ) -> &mut Self {
        self.broken_by(vec![code], sentence, evidence)
    }

    /// One sentence about several findings.
    pub(super) fn broken_by(
        &mut self,
        codes: Vec<Code>,
        sentence: Sentence,
        evidence: impl IntoIterator<Item = Seq>,
    ) -> &mut Self {
        self.add(Verdict::Broken, codes, sentence, evidence)
    }

    pub(super) fn unproven(
        &mut self,
        code: Code,
        sentence: Sentence,
        evidence: impl IntoIterator<Item = Seq>,
    ) -> &mut Self {
        self.add(Verdict::Unproven, vec![code], sentence, evidence)
    }

    /// Without evidence this is unproven: silence proves nothing.
    pub(super) fn held(
        &mut self,
        sentence: Sentence,
        evidence: impl IntoIterator<Item = Seq>,
    ) -> &mut Self {
        let evidence: Vec<Seq> = evidence.into_iter().collect();
        if evidence.is_empty() {
            return self.unproven(
                Code::TrialNoEvidence,
                say("no event in the journal shows it"),
                [],
            );
        }
        self.add(Verdict::Held, Vec::new(), sentence, evidence)
    }

    fn add(
        &mut self,
        verdict: Verdict,
        codes: Vec<Code>,
        sentence: Sentence,
        evidence: impl IntoIterator<Item = Seq>,
    ) -> &mut Self {
        self.found.push(Found {
            verdict,
            codes,
            sentence,
            evidence: evidence.into_iter().collect(),
        });
        self
    }

    /// Takes over what was found elsewhere.
    pub(super) fn absorb(&mut self, other: Self) {
        self.found.extend(other.found);
    }

    /// Nothing is broken and nothing is open so far.
    pub(super) fn is_clean(&self) -> bool {
        self.found.iter().all(|f| f.verdict == Verdict::Held)
    }

    /// The worst of them; nothing found decides nothing.
    pub(super) fn verdict(&self) -> Verdict {
        let found = self.found.iter().map(|f| f.verdict).max();
        found.unwrap_or(Verdict::Unproven)
    }

    /// The worst findings, as one answer.
    pub(super) fn answer(self, question: Question, ending: Ending) -> Answer {
        let found = self.found.iter().map(|f| f.verdict).max();
        let verdict = found.unwrap_or(Verdict::Unproven);
        let mut codes = BTreeSet::new();
        let mut evidence = BTreeSet::new();
        let mut sentences = Vec::new();
        for found in self.found.into_iter().filter(|f| f.verdict == verdict) {
            codes.extend(found.codes);
            evidence.extend(found.evidence);
            sentences.push(found.sentence);
        }
        let evidence: Vec<Seq> = evidence.into_iter().take(SHOWN).collect();
        let mut sentence = Sentence::join(sentences, "; ");
        if found.is_none() {
            sentence = say("no event in the journal decides it");
            codes.insert(Code::TrialNoEvidence);
        }
        // Where the cell has ended everybody, that is the reason for all that is missing.
        if let Ending::Exceeded {
            told,
            evidence: breach,
        } = &ending
            && verdict != Verdict::Broken
        {
            return Answer {
                question,
                verdict: Verdict::Unproven,
                codes: vec![Code::TrialLimitExceeded],
                because: format!("{}, before this was decided", told.said()),
                stable: format!("{}, before this was decided", told.stable()),
                by_chance: false,
                evidence: breach.clone(),
                known: false,
                repeat: None,
                unstable: None,
                named: Vec::new(),
            };
        }
        // A journal that stops early may prove a fault; that nothing more would have come it cannot prove.
        let verdict = match (ending.sentence(), verdict) {
            (Some(short), Verdict::Held) => {
                codes.insert(Code::TrialCutShort);
                sentence = short.text(", before this was decided");
                Verdict::Unproven
            }
            (Some(short), Verdict::Unproven) => {
                codes.insert(Code::TrialCutShort);
                sentence = short.text(": ").then(sentence);
                Verdict::Unproven
            }
            (_, verdict) => verdict,
        };
        Answer {
            question,
            verdict,
            codes: codes.into_iter().collect(),
            because: sentence.said(),
            stable: sentence.stable(),
            by_chance: false,
            evidence,
            known: false,
            repeat: None,
            unstable: None,
            named: Vec::new(),
        }
    }
}

/// Findings with a single one in it.
pub(super) fn unproven(
    code: Code,
    sentence: Sentence,
    evidence: impl IntoIterator<Item = Seq>,
) -> Findings {
    let mut findings = Findings::default();
    findings.unproven(code, sentence, evidence);
    findings
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepare => "prepare",
        Phase::SessionA => "session-a",
        Phase::Arm => "arm",
        Phase::Evidence => "evidence",
        Phase::Crash => "crash",
        Phase::Observe => "observe",
        Phase::Release => "release",
        Phase::Quiet => "quiet",
        Phase::EvidenceAgain => "evidence-again",
        Phase::Revoke => "revoke",
        Phase::Stop => "stop",
        Phase::Beside => "beside",
        Phase::RevokedSession => "revoked-session",
        Phase::SessionB => "session-b",
        Phase::RevokeJob => "revoke-job",
        Phase::Close => "close",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides_and_the_others_are_silent() {
        let mut findings = Findings::default();
        findings
            .held(say("fine"), [1])
            .broken(Code::EffectsDuplicate, say("two builds"), [9])
            .unproven(Code::TrialNoEvidence, say("who knows"), [3])
            .broken(Code::EffectsBeside, say("no key"), [4, 9]);
        let answer = findings.answer(Question::Effects, Ending::Whole);
        assert_eq!(answer.verdict, Verdict::Broken);
        assert_eq!(answer.because, "two builds; no key");
        assert_eq!(answer.codes, [Code::EffectsDuplicate, Code::EffectsBeside]);
        assert_eq!(answer.evidence, [4, 9]);
    }

    #[test]
    fn a_flood_of_evidence_is_cut() {
        let mut findings = Findings::default();
        findings.broken(Code::QuietLateRequest, say("it polls"), 0..10_000);
        let answer = findings.answer(Question::Quiet, Ending::Whole);
        assert_eq!(answer.evidence, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_held_without_evidence() {
        let mut findings = Findings::default();
        findings.held(say("fine"), []);
        let answer = findings.answer(Question::Eof, Ending::Whole);
        assert_eq!(answer.verdict, Verdict::Unproven);
    }

    #[test]
    fn nothing_is_held_by_a_trial_that_was_cut_short() {
        let mut findings = Findings::default();
        findings.held(say("fine"), [1]);
        let answer = findings.answer(Question::Eof, Ending::CutShort(Phase::Quiet));
        assert_eq!(answer.verdict, Verdict::Unproven);
        assert_eq!(
            answer.because,
            "the trial was cut short in its phase quiet, before this was decided"
        );
    }

    #[test]
    fn what_is_proven_broken_stays_broken_in_an_interrupted_trial() {
        let mut findings = Findings::default();
        findings.broken(Code::EffectsDuplicate, say("two builds"), [1]);
        let answer = findings.answer(Question::Eof, Ending::Interrupted(Phase::Quiet));
        assert_eq!(answer.verdict, Verdict::Broken);
    }
}

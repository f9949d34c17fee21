//! A trial that is carried out several times, in words and in folders.

use super::outcome::TrialResult;
use crate::judge::{Answer, Tally};

/// The folder of a repeat of the trial whose first repeat has the folder `bundle`.
///
/// The first has the trial's own, so that a trial that is carried out once has what it always had. No trial's name puts a
/// `~` into its folder's name (see `TrialName::file_stem`), so a repeat's folder is never another trial's.
pub(super) fn folder_of(bundle: &str, repeat: u32) -> String {
    match repeat {
        0 | 1 => bundle.to_owned(),
        _ => format!("{bundle}~{repeat}"),
    }
}

/// `held in 19 of 20, broken in 1`.
pub(super) fn spell(tally: &Tally) -> String {
    let mut of = format!(" of {}", tally.total());
    let counts: Vec<String> = tally
        .counts()
        .map(|(verdict, count)| format!("{verdict} in {count}{}", std::mem::take(&mut of)))
        .collect();
    counts.join(", ")
}

impl TrialResult {
    /// With how its repeats ended, of so many that were asked for.
    #[must_use]
    pub fn repeated(self, repeats: Tally, planned: u32) -> Self {
        Self {
            repeats_planned: (repeats.total() < planned).then_some(planned),
            repeats: Some(repeats),
            ..self
        }
    }

    /// Whether the verdict of an answer differed between repeats.
    pub fn is_unstable(&self) -> bool {
        self.answers.iter().any(|answer| answer.unstable.is_some())
    }

    /// The folder of every repeat that was carried out, relative to the run's; that of the trial where it is not repeated.
    pub fn bundles(&self) -> Vec<String> {
        let repeats = self.repeats.as_ref().map_or(1, Tally::total);
        let of_repeat = |bundle| (1..=repeats).map(move |repeat| folder_of(bundle, repeat));
        self.bundle
            .as_deref()
            .into_iter()
            .flat_map(of_repeat)
            .collect()
    }

    /// The folder in which this answer's evidence is, relative to the run's.
    pub fn bundle_of(&self, answer: &Answer) -> Option<String> {
        let bundle = self.bundle.as_deref()?;
        Some(folder_of(bundle, answer.repeat.unwrap_or(1)))
    }

    /// What stands beside the verdict of a trial that is repeated: `20 of 20` gave it, or how often each was given.
    pub(crate) fn spell_repeats(&self) -> Option<String> {
        let repeats = self.repeats.as_ref()?;
        let total = repeats.total();
        let spelled = match repeats.counts().count() {
            0 | 1 => format!("{total} of {total}"),
            _ => spell(repeats),
        };
        Some(match self.repeats_planned {
            Some(planned) => format!("{spelled}, {planned} planned"),
            None => spelled,
        })
    }

    /// `unstable: held in 19 of 20, broken in 1: ` and the answer's sentence, where it is unstable.
    pub(crate) fn sentence_of(&self, answer: &Answer) -> String {
        let Some(unstable) = &answer.unstable else {
            return answer.because.clone();
        };
        let all = self.repeats.as_ref().map_or(0, Tally::total);
        let silent = match all.saturating_sub(unstable.total()) {
            0 => String::new(),
            without => format!(", without an answer in {without}"),
        };
        format!("unstable: {}{silent}: {}", spell(unstable), answer.because)
    }
}

/// The trial's part of the name of a folder, and the numbers of its repeat (and, under nextest, of its attempt) behind it:
/// together the order in which the folders were made.
pub fn trial_and_numbers(folder: &str) -> (&str, Vec<u32>) {
    let mut parts = folder.split('~');
    let trial = parts.next().unwrap_or_default();
    (trial, parts.filter_map(|part| part.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::report::samples::{name, trial, unstable};
    use crate::spec::CrashPoint;

    fn tally(held: usize, broken: usize) -> Tally {
        let held = std::iter::repeat_n(Verdict::Held, held);
        held.chain(std::iter::repeat_n(Verdict::Broken, broken))
            .collect()
    }

    #[test]
    fn the_first_repeat_has_the_trial_s_own_folder_and_the_others_a_number() {
        let trial = unstable();
        assert_eq!(
            trial.bundles()[..3],
            ["deploy__sent", "deploy__sent~2", "deploy__sent~3"]
        );
        assert_eq!(trial.bundles().len(), 20);
        let answers: Vec<_> = trial.answers.iter().map(|a| trial.bundle_of(a)).collect();
        let named = |bundle: &str| Some(bundle.to_owned());
        assert_eq!(answers, [named("deploy__sent"), named("deploy__sent~3")]);
    }

    #[test]
    fn folders_of_repeats_are_told_apart_and_ordered_by_number() {
        let mut folders = [
            "a__idle~10",
            "a__idle~9",
            "a__idle",
            "a__idle~2~2",
            "a__idle~2",
        ];
        folders.sort_by_key(|folder| trial_and_numbers(folder));
        assert_eq!(
            folders,
            [
                "a__idle",
                "a__idle~2",
                "a__idle~2~2",
                "a__idle~9",
                "a__idle~10"
            ]
        );
        assert_eq!(trial_and_numbers("a__idle~9").0, "a__idle");
    }

    #[test]
    fn repeats_are_counted_in_words() {
        assert_eq!(spell(&tally(19, 1)), "held in 19 of 20, broken in 1");
        let of = |repeats, planned| {
            let once = trial(&name("deploy", CrashPoint::Sent), Vec::new());
            once.repeated(repeats, planned).spell_repeats().unwrap()
        };
        assert_eq!(of(tally(20, 0), 20), "20 of 20");
        assert_eq!(of(tally(3, 0), 20), "3 of 3, 20 planned");
        assert_eq!(of(tally(1, 1), 2), "held in 1 of 2, broken in 1");
    }

    #[test]
    fn an_unstable_answer_says_how_often_it_gave_which_verdict() {
        let mut trial = unstable();
        assert_eq!(
            trial.sentence_of(&trial.answers[1]),
            "unstable: held in 19 of 20, broken in 1: pid 12 is alive."
        );
        trial.answers[1].unstable = Some(tally(17, 1));
        assert_eq!(
            trial.sentence_of(&trial.answers[1]),
            "unstable: held in 17 of 18, broken in 1, without an answer in 2: pid 12 is alive."
        );
    }
}

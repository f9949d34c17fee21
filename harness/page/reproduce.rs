//! The commands that carry a trial out again, and that answer again from what was kept of it.

use crate::report::{RunFacts, TrialResult};

/// Carries out exactly this trial. `flags` name the places of its drills and reports, with what it takes to find them from here; without them
/// it is carried out in the folder that holds the drills' folder.
pub(crate) fn again(trial: &TrialResult, facts: &RunFacts, flags: Option<&str>) -> String {
    let mut words = Vec::new();
    if facts.cell.as_deref() == Some("subreaper") {
        words.push("CARGO_DRILL_CELL=subreaper".to_owned());
    }
    words.extend(["cargo".to_owned(), "drill".to_owned()]);
    words.extend(["--exact".to_owned(), quoted(&trial.name)]);
    if let Some(flags) = flags.filter(|flags| !flags.is_empty()) {
        words.push(flags.trim_start().to_owned());
    }
    let file = facts.drills.iter().find(|drill| drill.drill == trial.drill);
    let folder = file.and_then(|drill| drill.file.split_once('/'));
    if let Some((folder, _)) = folder.filter(|(folder, _)| flags.is_none() && *folder != "drills") {
        words.extend(["--drills".to_owned(), quoted(folder)]);
    }
    if let Some(repeats) = &trial.repeats {
        let planned = trial.repeats_planned.unwrap_or(repeats.total());
        words.extend(["--repeat".to_owned(), planned.to_string()]);
    }
    words.join(" ")
}

/// Answers again from the files of a trial alone; `folder` is the run's.
pub(crate) fn judged_again(folder: &str, bundle: &str) -> String {
    format!(
        "cargo drill judge {}",
        quoted(&format!("{folder}/{bundle}"))
    )
}

/// Shows a trial on a terminal; `folder` is the run's.
pub(crate) fn shown(folder: &str, trial: &str) -> String {
    format!("cargo drill show {} {}", quoted(folder), quoted(trial))
}

/// A word of a command for a shell, whatever is in it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) && !word.starts_with(['-', '~']) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_a_shell_would_act_on_is_quoted() {
        assert_eq!(
            quoted("deploy::after-acceptance"),
            "deploy::after-acceptance"
        );
        assert_eq!(quoted("deploy__sent~2"), "deploy__sent~2");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(rm -rf .)"), "'$(rm -rf .)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("--all"), "'--all'");
        assert_eq!(quoted(""), "''");
    }
}

//! `cargo drill verify`: says whether a bundle can be relied on.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::exit::Ended;
use super::{complain, say};
use crate::attest::{KeyError, PublicKey};
use crate::bundle::{Signature, State, Verification, verify as check};
use crate::journal::printable;
use crate::report::Style;

pub fn verify(bundle: &Path, keys: &[PathBuf]) -> Ended {
    let trusted: Result<Vec<PublicKey>, KeyError> =
        keys.iter().map(|key| PublicKey::read(key)).collect();
    let trusted = match trusted {
        Ok(trusted) => trusted,
        Err(error) => {
            complain(&error.to_string());
            return Ended::Failed;
        }
    };
    match check(bundle, &trusted) {
        Ok(verification) => {
            let said = say(&render(&verification, &Style::detect()));
            let ended = if verification.is_good() {
                Ended::Held
            } else {
                Ended::Objected
            };
            said.max(ended)
        }
        Err(error) => {
            complain(&format!("failed to verify {}: {error}", bundle.display()));
            Ended::Failed
        }
    }
}

fn render(verification: &Verification, style: &Style) -> String {
    let mut text = String::new();
    for finding in &verification.findings {
        let _ = writeln!(text, "{} {finding}", style.red("✗"));
    }
    if verification.more > 0 {
        let _ = writeln!(text, "{} and {} more", style.red("✗"), verification.more);
    }
    if !verification.findings.is_empty() {
        text.push('\n');
    }
    let Verification {
        files,
        trials,
        answers,
        events,
        ..
    } = verification;
    let _ = writeln!(
        text,
        "{trials} trials, {answers} answers judged again from {events} events, {files} files"
    );
    if !verification.verdicts.is_empty() {
        let verdicts = verification.verdicts.iter();
        let counted: Vec<String> = verdicts
            .map(|(verdict, n)| format!("{n} {verdict}"))
            .collect();
        let _ = writeln!(text, "what the results say: {}", counted.join(", "));
    }
    for (reason, count) in &verification.not_run {
        let _ = writeln!(text, "not run: {count}, {}", printable(reason));
    }
    let signed = match &verification.signature {
        Signature::Unsigned => {
            "not signed: whoever could write to this folder could have written all of it".to_owned()
        }
        Signature::Invalid => "its signature counts for nothing here".to_owned(),
        Signature::Signed {
            key,
            algorithm,
            is_trusted: true,
        } => format!("signed with {algorithm} by {key}, a key that you named"),
        Signature::Signed { key, algorithm, .. } => format!(
            "signed with {algorithm} by {key}, the key that the bundle brings along: compare it with the signer's own, or \
             name that with --key"
        ),
    };
    let _ = writeln!(text, "{}", style.sentence(&signed, 0));
    let run = printable(&verification.run);
    let verdict = match (&verification.state, verification.findings.len()) {
        (_, 1..) if run.is_empty() => style.red("this is no whole bundle"),
        (_, 1..) => style.red(&format!(
            "run {run} is not as it was written, or not signed by whom it should be"
        )),
        (State::Incomplete(because), 0) => {
            style.red(&format!("run {run} is incomplete: {}", printable(because)))
        }
        (State::Complete, 0) => style.green(&format!("run {run} is whole")),
    };
    let _ = writeln!(text, "{verdict}");
    text
}

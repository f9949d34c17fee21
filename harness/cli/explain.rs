//! `cargo drill explain`: what a code means, and what to do about it.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};

use super::exit::Ended;
use super::{complain, say};
use crate::export::{asks, broken_looks_like};
use crate::judge::{FINDINGS, Finding, Verdict};
use crate::report::{Shape, Style, TrialVerdict};
use crate::spec::Question;

/// Columns before a text.
const INDENT: usize = 4;

#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// A code such as `eof/still-running`, or a question for all of its codes [default: all]
    #[arg(value_name = "CODE")]
    pub codes: Vec<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = Show::Pretty)]
    pub format: Show,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// For a terminal
    #[default]
    Pretty,
    /// As docs/findings.md has it
    Markdown,
}

pub fn explain(args: &ExplainArgs) -> Ended {
    let mut asked: Vec<&Finding> = Vec::new();
    for code in &args.codes {
        let found = FINDINGS
            .iter()
            .filter(|finding| finding.id == code || group(finding) == code);
        let known = asked.len();
        asked.extend(found);
        if asked.len() == known {
            complain(&unknown(code));
            return Ended::Failed;
        }
    }
    if args.codes.is_empty() {
        asked.extend(FINDINGS);
    }
    say(&match args.format {
        Show::Markdown => markdown(&asked),
        Show::Pretty if args.codes.is_empty() => list(&asked),
        Show::Pretty => pretty(&asked, &Style::detect()),
    })
}

/// What stands before the `/`.
fn group(finding: &Finding) -> &'static str {
    finding.id.split_once('/').map_or("", |(group, _)| group)
}

fn unknown(code: &str) -> String {
    let nearest = FINDINGS
        .iter()
        .min_by_key(|finding| strsim::damerau_levenshtein(finding.id, code));
    let code = crate::journal::excerpt(code, 60);
    match nearest {
        Some(nearest) => format!(
            "no finding has the code `{code}`; the nearest is `{}`. `cargo drill explain` lists all",
            nearest.id
        ),
        None => format!("no finding has the code `{code}`"),
    }
}

/// A line for each.
fn list(findings: &[&Finding]) -> String {
    let width = findings.iter().map(|finding| finding.id.len()).max();
    let width = width.unwrap_or_default();
    findings.iter().fold(String::new(), |mut out, finding| {
        let _ = writeln!(out, "{:width$}  {}", finding.id, finding.found);
        out
    })
}

fn pretty(findings: &[&Finding], style: &Style) -> String {
    let mut out = String::new();
    for finding in findings {
        let verdict = finding.verdict;
        let verdict = style.paint(
            Shape::from(TrialVerdict::from(verdict)),
            &verdict.to_string(),
        );
        let _ = writeln!(out, "{}  {verdict}", style.bold(finding.id));
        for (label, text) in [
            ("", finding.found),
            ("What it means: ", finding.means),
            ("What to do: ", finding.hint),
        ] {
            let text = style.sentence(&format!("{label}{text}"), INDENT);
            let _ = writeln!(out, "{}{text}", " ".repeat(INDENT));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn markdown(findings: &[&Finding]) -> String {
    let mut out = "# Findings\n\n\
        Each thing that a drill can find has a stable code. A snapshot, SARIF and `cargo drill diff` speak of codes; the sentence of \
        an answer says what was seen in that trial. `cargo drill explain CODE` prints a row of this list, and `cargo drill explain \
        --format markdown` this file.\n"
        .to_owned();
    let mut last = "";
    for finding in findings {
        let group = group(finding);
        if std::mem::replace(&mut last, group) != group {
            let question = Question::ALL.into_iter().find(|q| q.to_string() == group);
            let about = question.map_or_else(
                || {
                    "These can stand at every question: they say why the trial does not decide it."
                        .to_owned()
                },
                |question| {
                    let example = broken_looks_like(question);
                    format!("{} Broken looks like this: {example}", asks(question))
                },
            );
            let _ = write!(out, "\n## `{group}`\n\n{about}\n");
        }
        let who = match finding.verdict {
            Verdict::Broken => "What the server's author does",
            _ => "What to do",
        };
        let _ = write!(
            out,
            "\n### `{}`\n\n*{}.* {} {}\n\n{who}: {}\n",
            finding.id,
            capital(finding.verdict),
            finding.found,
            finding.means,
            lower(finding.hint)
        );
    }
    out
}

fn capital(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "Held",
        Verdict::Unproven => "Unproven",
        Verdict::Broken => "Broken",
        Verdict::Error => "Error",
    }
}

/// As it stands behind a colon.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

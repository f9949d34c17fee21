//! `cargo drill merge`: joins the bundles of several machines into one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use super::args::Folders;
use super::args::RunArgs;
use super::census::{Plan, as_run, facts};
use super::exit::Ended;
use super::population::{Places, Population, find_fixture};
use super::{complain, here, places, say, show_mistakes, shown};
use crate::attest::{KeyError, PrivateKey, PublicKey};
use crate::bundle::{Merged, Order, merge as join};
use crate::journal::printable;
use crate::report::{self, Closing, Results, RunFacts, Style, in_ci, render_closing, render_table};

/// What `cargo drill merge` was asked for.
pub struct MergeArgs<'a> {
    pub runs: &'a [PathBuf],
    pub sign: Option<&'a PathBuf>,
    pub keys: &'a [PathBuf],
}

pub fn merge(args: &MergeArgs<'_>, folders: &Folders) -> Ended {
    let begun = Instant::now();
    let keys: Result<_, KeyError> = (|| {
        let sign = args.sign.map(|key| PrivateKey::read(key)).transpose()?;
        let trusted = args.keys.iter().map(|key| PublicKey::read(key));
        Ok((sign, trusted.collect::<Result<Vec<_>, _>>()?))
    })();
    let (sign, trusted) = match keys {
        Ok(keys) => keys,
        Err(error) => {
            complain(&error.to_string());
            return Ended::Failed;
        }
    };
    let places = match places(folders) {
        Ok(places) => places,
        Err(ended) => return ended,
    };
    let order = Order {
        shards: args.runs,
        reports: &places.reports,
        trusted: &trusted,
        key: sign.as_ref(),
        population: &|| population(&places),
        new_fails: in_ci(),
    };
    match join(&order) {
        Ok(merged) => show(&merged, &places, begun, args.runs.len()),
        Err(error) => {
            complain(&error.to_string());
            Ended::Failed
        }
    }
}

/// Every trial there is, as the drill files have them now. What was drilled is for those to say who drilled it.
fn population(places: &Places) -> Result<RunFacts, String> {
    let fixture = find_fixture();
    let found = Population::all(places, fixture.as_deref());
    if !found.mistakes.is_empty() {
        show_mistakes(&found.mistakes);
        return Err("the drill files have mistakes".to_owned());
    }
    let plan = Plan::of(found, &RunArgs::default());
    let facts = facts(&plan, places, fixture.as_deref(), false);
    let none = Results::none();
    Ok(RunFacts {
        population: as_run(facts.population, &none, super::census::FILTERED_OUT),
        ..facts
    })
}

fn show(merged: &Merged, places: &Places, begun: Instant, joined: usize) -> Ended {
    let style = Style::detect();
    let folder = shown(&merged.folder);
    let closing = Closing {
        results: &merged.results,
        folder: &folder,
        reports: &shown(&places.reports),
        flags: &here::flags(places),
        elapsed: begun.elapsed(),
        unmatched: &[],
        weakens: &[],
        courses: &[],
        diffs: &[],
        interrupted: None,
        ci: in_ci(),
    };
    let table = render_table(&merged.results, &style);
    let below = render_closing(&closing, &style);
    let all = merged.manifest.facts.population.len();
    let is_run = |entry: &&report::Population| entry.not_run.is_none();
    let run = merged
        .manifest
        .facts
        .population
        .iter()
        .filter(is_run)
        .count();
    let mut covered = format!(
        "{joined} bundles account for all {all} trials: {run} were run, each in exactly one of them"
    );
    for (reason, count) in &merged.not_run() {
        // Writing to a string cannot fail.
        let _ = write!(covered, "; {count} in none, {}", printable(reason));
    }
    let said = say(&format!("{table}\n{covered}.\n\n{below}"));
    Ended::of(&merged.results, in_ci()).max(said)
}

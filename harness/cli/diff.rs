//! `cargo drill diff`: what changed from one run to another.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::args::Folders;
use super::exit::Ended;
use super::{bundles, complain, say, shown};
use crate::history::{Archive, Side, Sides, compare, render_difference};
use crate::journal::{Line, read};
use crate::report::Style;

#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// The earlier run: its folder, or its name below reports/runs
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The later run
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// How the difference is shown
    #[arg(long, value_enum, default_value_t = Show::Pretty)]
    pub format: Show,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// For a terminal
    #[default]
    Pretty,
    Json,
}

pub fn diff(args: &DiffArgs, folders: &Folders) -> Ended {
    match differ(args, folders) {
        Ok(ended) => ended,
        Err(because) => {
            complain(&because);
            Ended::Failed
        }
    }
}

fn differ(args: &DiffArgs, folders: &Folders) -> Result<Ended, String> {
    let a = bundles::one(&args.a, folders)?;
    let b = bundles::one(&args.b, folders)?;
    let contents = |folder: &Path| {
        bundles::contents(folder)
            .map_err(|error| format!("failed to read the bundle {}: {error}", shown(folder)))
    };
    let ((facts_a, results_a), (facts_b, results_b)) = (contents(&a)?, contents(&b)?);
    let sides = |results, facts| Sides { results, facts };
    let mut bundles = OnDisk { a, b };
    let (a, b) = (sides(&results_a, &facts_a), sides(&results_b, &facts_b));
    let difference = compare(a, b, &mut bundles);
    let said = say(&match args.format {
        Show::Pretty => render_difference(&difference, &Style::detect()),
        Show::Json => {
            let text = serde_json::to_string_pretty(&difference);
            text.map_err(|error| error.to_string())? + "\n"
        }
    });
    let ended = if difference.is_change() {
        Ended::Objected
    } else {
        Ended::Held
    };
    Ok(ended.max(said))
}

/// The two bundles in their folders.
struct OnDisk {
    a: PathBuf,
    b: PathBuf,
}

impl OnDisk {
    /// A folder right below the bundle, and never one that its name leads out to.
    fn folder(&self, side: Side, name: &str) -> Option<PathBuf> {
        let run = match side {
            Side::A => &self.a,
            Side::B => &self.b,
        };
        let is_plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        is_plain.then(|| run.join(name))
    }
}

impl Archive for OnDisk {
    fn journal(&mut self, side: Side, folder: &str) -> Result<Vec<Line>, String> {
        let at = self.folder(side, folder);
        let at = at.ok_or_else(|| "its folder's name leads out of the bundle".to_owned())?;
        let recorded = read(&at.join("journal.jsonl")).map_err(|error| error.to_string())?;
        let mut lines = recorded.lines;
        lines.sort_by_key(Line::place);
        Ok(lines)
    }
}

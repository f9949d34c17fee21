//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::diff::DiffArgs;
use super::explain::ExplainArgs;
use super::gate::GateArgs;
use super::slice::Slice;
use crate::spec::Repeats;

const EXAMPLES: &str = "\
A drill is a YAML file in drills/. It starts your server under a real MCP client, makes one call against a mocked API,
kills the client at a crash point, and asks what became of the call:

  eof         did closing stdin reach the server, and did it exit in time?
  helpers     is any process that it started still alive?
  quiet       did it start anything new, spin, or ignore SIGTERM afterwards?
  effects     how often did the remote apply the call?
  reconcile   after recovery, is there exactly one effect?
  handle      can an effect of unknown outcome be found with what the record holds?
  ownership   did a durable record name the owner before dispatch, and the outcome?
  revocation  after revoking, is every call refused, and the refusal recorded?
  protocol    is every byte on stdout JSON-RPC, and no answer lost?
  secrets     did the credential appear where it must not?
  resources   is the next session as good as the first?

Each answer is held, broken, or unproven: the evidence does not decide it, which gates like broken.

Examples:
  cargo drill                          run every drill below drills/
  cargo drill deploy                   those whose name contains `deploy`
  cargo drill deploy::idle --exact     one trial
  cargo drill deploy --repeat 20       each of them 20 times: does any answer differ?
  cargo drill check                    validate the drill files, run nothing
  cargo drill accept                   approve new and changed snapshots in reports/
  cargo drill show                     the latest run, and the evidence of what did not hold
  cargo drill show deploy::idle        what happened in a trial of it, step by step
  cargo drill open                     the same as a page, in a browser
  cargo drill verify reports/runs/RUN  is the bundle whole, who signed it, do its answers follow?
  cargo drill gate --policy FILE       may what was drilled be released?
  cargo drill diff RUN RUN             which answers changed?
  cargo drill explain eof/still-running  what a finding means, and what to do about it
  cargo drill controls                 what the latest run is evidence for
  cargo drill judge reports/runs/RUN   the answers again, from the journals alone

Exit status: 0 all held, 1 something broken or unproven or a snapshot differs, 2 could not run\n(or every trial was ignored), 130 interrupted.";

/// Crash drills for MCP servers: what does the server do when its client dies in the middle of an external write?
#[derive(Debug, Parser)]
#[command(name = "cargo drill", bin_name = "cargo drill", version, after_long_help = EXAMPLES)]
#[command(after_help = "`cargo drill --help` says what a drill asks, with examples.")]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub folders: Folders,
}

/// Where things are.
#[derive(Debug, Clone, Args, Default)]
pub struct Folders {
    /// The folder with the drill files [default: the nearest `drills` from here upwards]
    #[arg(long, value_name = "DIR", global = true)]
    pub drills: Option<PathBuf>,
    /// The folder for snapshots and, below runs/, bundles [default: `reports` beside the drills]
    #[arg(long, value_name = "DIR", global = true)]
    pub reports: Option<PathBuf>,
}

/// What to run and how to show it; libtest's flags with libtest's meanings.
#[derive(Debug, Clone, Default, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of a command line"
)]
pub struct RunArgs {
    /// Run only trials whose name contains one of these
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Names must match a filter exactly
    #[arg(long)]
    pub exact: bool,
    /// Leave out trials whose name contains this
    #[arg(long, value_name = "FILTER")]
    pub skip: Vec<String>,
    /// List the trials and run none (`crash: every` is rehearsed to find its own)
    #[arg(long)]
    pub list: bool,
    /// Run one part of the trials, as `slice:1/3`; `cargo drill merge` joins the bundles
    #[arg(long, value_name = "slice:K/N")]
    pub partition: Option<Slice>,
    /// Sign the bundle with this private key: PKCS#8 PEM, or an OpenSSH key file
    #[arg(long, value_name = "KEY")]
    pub sign: Option<PathBuf>,
    /// How many trials run at a time [default: twice the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub test_threads: Option<u16>,
    /// Carry out each trial N times, whatever `repeat` in its drill says; a verdict that differs is unstable, and fails
    #[arg(long, value_name = "N")]
    pub repeat: Option<Repeats>,
    /// How results are shown
    #[arg(long, value_enum, default_value_t = Format::Pretty)]
    pub format: Format,
    /// One character a trial: the same as --format terse
    #[arg(long, short)]
    pub quiet: bool,
    /// When to colour
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    pub color: Colour,
    /// Accepted as libtest has it; a drill captures no output
    #[arg(long, hide = true)]
    pub nocapture: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line a trial, then the table and what did not hold
    #[default]
    Pretty,
    /// A character a trial
    Terse,
    /// The object of results.json for each trial, a line each
    Json,
    /// As pretty, and annotations for GitHub at the end
    Github,
}

/// How the matrix of controls is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ControlsFormat {
    /// For a terminal
    #[default]
    Table,
    /// A line for each control, drill and question
    Csv,
    /// OSCAL assessment results
    Oscal,
    /// A page
    Html,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Validate the drill files; run nothing
    Check,
    /// Print the JSON Schema of the drill file
    Schema {
        /// Of the policy file of `cargo drill gate`
        #[arg(long)]
        policy: bool,
    },
    /// Answer the questions again from a trial's bundle
    Judge {
        /// reports/runs/RUN/TRIAL, or reports/runs/RUN for all of its trials
        bundle: PathBuf,
        /// Print the judgement as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a run: the table, and the evidence of each trial that did not hold or that a filter names
    Show {
        /// A run's folder, its name below reports/runs, or a trial's folder [default: the latest run]; then, or instead,
        /// only trials whose name contains one of these
        #[arg(value_name = "RUN] [FILTER")]
        named: Vec<String>,
    },
    /// Open the page of a run in a browser, and print its path
    Open {
        /// A run's folder, or its name below reports/runs [default: the latest run]
        run: Option<String>,
    },
    /// Show which controls the drills are evidence for, and what that evidence says
    Controls {
        /// Runs, each a folder or its name below reports/runs; several are taken together [default: the latest]
        #[arg(value_name = "RUN")]
        runs: Vec<PathBuf>,
        /// How the matrix is printed
        #[arg(long, value_enum, default_value_t = ControlsFormat::Table)]
        format: ControlsFormat,
    },
    /// Check a bundle, offline: is it whole, who signed it, and do its answers follow from its journals?
    Verify {
        /// reports/runs/RUN
        bundle: PathBuf,
        /// A public key whose signature counts; with none, the one that the bundle brings along is used, and named
        #[arg(long = "key", value_name = "KEY")]
        keys: Vec<PathBuf>,
    },
    /// Join the bundles of several machines, and prove that they cover every trial exactly once
    Merge {
        /// The folders of the runs, one for each machine
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// Sign the joined bundle with this private key
        #[arg(long, value_name = "KEY")]
        sign: Option<PathBuf>,
        /// A public key, of which one must have signed each of the bundles
        #[arg(long = "key", value_name = "KEY")]
        keys: Vec<PathBuf>,
    },
    /// Decide whether bundles meet a release policy
    Gate(GateArgs),
    /// Show which answers changed from one run to another, and the events that differ
    Diff(DiffArgs),
    /// Say what a code of a finding means, and what to do about it
    Explain(ExplainArgs),
    /// Approve new and changed snapshots
    Accept {
        /// Only those of trials whose name contains one of these
        filters: Vec<String>,
    },
}

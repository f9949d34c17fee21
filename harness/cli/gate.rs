//! `cargo drill gate`: may this be released, as the policy has it?

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::args::Folders;
use super::bundles;
use super::exit::Ended;
use super::{complain, say, show_mistakes, shown};
use crate::attest::{Envelope, PrivateKey};
use crate::bundle::{Signature, State, verify};
use crate::policy::{
    Decision, Evidence, PolicyFile, decide, load, render_decision, render_markdown, statement,
};
use crate::report::{ATTESTATION, Style, write_whole};

#[derive(Debug, Clone, Args)]
pub struct GateArgs {
    /// What must hold: a policy file (`cargo drill schema --policy` prints its schema)
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// Bundles: their folders, or the names of runs below reports/runs [default: the latest run]
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The bundle of the last release, to say how what is broken stood then
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// Sign the decision with this private key: PKCS#8 PEM, or an OpenSSH key file
    #[arg(long, value_name = "KEY")]
    pub sign: Option<PathBuf>,
    /// Where the signed decision goes [default: beside the first bundle, as RUN.gate.intoto.jsonl]
    #[arg(long, value_name = "FILE", requires = "sign")]
    pub out: Option<PathBuf>,
    /// How the decision is shown
    #[arg(long, value_enum, default_value_t = Show::Pretty)]
    pub format: Show,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// For a terminal
    #[default]
    Pretty,
    /// As it stands in the signed statement
    Json,
    /// For a job's summary
    Markdown,
}

pub fn gate(args: &GateArgs, folders: &Folders) -> Ended {
    let policy = match load(&args.policy) {
        Ok(policy) => policy,
        Err(mistakes) => {
            show_mistakes(&[mistakes]);
            return Ended::Failed;
        }
    };
    match decided(args, folders, &policy) {
        Ok((decision, out)) => {
            let said = show(args.format, &decision, out.as_deref());
            let ended = if decision.is_go() {
                Ended::Held
            } else {
                Ended::Objected
            };
            said.max(ended)
        }
        Err(because) => {
            complain(&because);
            Ended::Failed
        }
    }
}

/// The decision, and where it lies signed.
fn decided(
    args: &GateArgs,
    folders: &Folders,
    policy: &PolicyFile,
) -> Result<(Decision, Option<PathBuf>), String> {
    // A key that does not sign is to be known before anything is decided.
    let key = args.sign.as_deref().map(PrivateKey::read).transpose();
    let key = key.map_err(|error| error.to_string())?;
    let found = bundles::find(&args.runs, folders)?;
    let read_all = found.iter().map(|folder| read(folder, policy));
    let evidence: Vec<Evidence> = read_all.collect::<Result<_, _>>()?;
    let baseline = args.baseline.as_deref();
    let baseline = baseline.map(|run| read(&bundles::one(run, folders)?, policy));
    let baseline = baseline.transpose()?;
    let now = jiff::Timestamp::now();
    let decision = decide(&policy.policy, &evidence, baseline.as_ref(), now);
    let Some(key) = key else {
        return Ok((decision, None));
    };
    let out = match (&args.out, found.first()) {
        (Some(out), _) => out.clone(),
        (None, Some(first)) => beside(first),
        (None, None) => return Err("there is no bundle".to_owned()),
    };
    write(&out, policy, &decision, &key)
        .map_err(|error| format!("failed to write {}: {error}", out.display()))?;
    Ok((decision, Some(out)))
}

/// Beside the bundle, which must stay as it was signed.
fn beside(bundle: &Path) -> PathBuf {
    let bundle = std::path::absolute(bundle).unwrap_or_else(|_| bundle.to_owned());
    let mut name = bundle.file_name().unwrap_or_default().to_owned();
    name.push(".gate.intoto.jsonl");
    bundle.with_file_name(name)
}

fn write(out: &Path, policy: &PolicyFile, decision: &Decision, key: &PrivateKey) -> io::Result<()> {
    let envelope = Envelope::sign(&statement(policy, decision)?, key)?;
    let mut line = serde_json::to_vec(&envelope)?;
    line.push(b'\n');
    write_whole(out, &line)
}

fn show(format: Show, decision: &Decision, out: Option<&Path>) -> Ended {
    let text = match format {
        Show::Pretty => render_decision(decision, &Style::detect()),
        Show::Markdown => render_markdown(decision),
        Show::Json => match serde_json::to_string_pretty(decision) {
            Ok(text) => text + "\n",
            Err(error) => {
                complain(&error.to_string());
                return Ended::Failed;
            }
        },
    };
    let said = say(&text);
    if let Some(out) = out {
        super::note(&format!("the signed decision is {}", shown(out)));
    }
    said
}

/// Verifies a bundle and reads what it says.
pub(super) fn read(folder: &Path, policy: &PolicyFile) -> Result<Evidence, String> {
    let failed = |error: io::Error| format!("failed to read the bundle {}: {error}", shown(folder));
    let keys: Vec<_> = policy
        .signers
        .iter()
        .map(|signer| signer.key.clone())
        .collect();
    let verification = verify(folder, &keys).map_err(failed)?;
    let (facts, results) = bundles::contents(folder).map_err(failed)?;
    let signers: Vec<String> = match &verification.signature {
        Signature::Signed {
            key,
            is_trusted: true,
            ..
        } => {
            let known = policy.signers.iter();
            let known = known.filter(|signer| signer.key.id() == *key);
            known.map(|signer| signer.name.clone()).collect()
        }
        _ => Vec::new(),
    };
    // Where a signature is asked for and there is none that counts, that is one reason and not two.
    let is_unsigned = !keys.is_empty() && signers.is_empty();
    let (about_it, findings): (Vec<_>, Vec<_>) = verification
        .findings
        .iter()
        .partition(|finding| is_unsigned && finding.place.starts_with(ATTESTATION));
    let unsigned = match (&verification.signature, about_it.first()) {
        (Signature::Unsigned, _) | (_, None) => "it is not signed".to_owned(),
        (_, Some(finding)) => finding.what.clone(),
    };
    let mut findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if verification.more > 0 {
        findings.push(format!("and {} findings more", verification.more));
    }
    let finished = verification.finished.as_deref();
    let started = verification.started.parse().ok();
    Ok(Evidence {
        run: verification.run,
        folder: shown(folder),
        started,
        finished: finished.and_then(|finished| finished.parse().ok()),
        manifest_sha256: verification.manifest_sha256,
        findings,
        incomplete: match verification.state {
            State::Complete => None,
            State::Incomplete(because) => Some(because),
        },
        is_signed: matches!(verification.signature, Signature::Signed { .. }),
        signers,
        unsigned,
        results,
        facts,
    })
}

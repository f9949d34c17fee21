//! What describes a run as a whole, written once all of its trials have ended.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::atomic;
use super::check_page;
use super::junit::render_junit;
use super::manifest::{Manifest, RunFacts, write_manifest};
use super::results::Results;
use super::seal::search;
use crate::export::{self, EndedRun};
use crate::journal::Secrets;
use crate::page;

/// A run that has ended.
#[derive(Debug)]
pub struct Whole<'r> {
    pub results: &'r Results,
    pub facts: RunFacts,
    /// A snapshot that nobody has approved fails the run, as it does in CI.
    pub new_fails: bool,
    /// The key that will sign the manifest.
    pub signer: Option<&'r str>,
}

impl Whole<'_> {
    /// Writes the results and their renderings, searches everything for `secrets`, and last of all writes the manifest.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or a secret stands in the folder. Then there is no manifest of the whole, and nobody takes
    /// the folder for a finished bundle.
    pub fn write(mut self, folder: &Path, secrets: &Secrets) -> io::Result<Manifest> {
        self.facts.signer = self.signer.map(str::to_owned);
        let write = |name: &str, text: &str| atomic::write(&folder.join(name), text.as_bytes());
        write("results.json", &self.results.to_text()?)?;
        let run = EndedRun::new(self.results, &self.facts, self.new_fails);
        write("junit.xml", &render_junit(&run).map_err(io::Error::other)?)?;
        for (name, text) in export::files(&run).map_err(io::Error::other)? {
            write(name, &text)?;
        }
        write("README.md", &check_page::render(self.results, self.signer))?;
        atomic::write_with(&folder.join(page::FILE), |file| {
            let mut out = BufWriter::new(file);
            page::render(folder, self.results, &self.facts, &mut out)?;
            out.flush()
        })?;
        if let Some(leak) = search(folder, secrets)?.first() {
            return Err(io::Error::other(format!(
                "the {} stands in {}: the bundle is not sealed, and must not be handed on",
                leak.secret, leak.file
            )));
        }
        write_manifest(folder, self.results, self.facts)
    }
}

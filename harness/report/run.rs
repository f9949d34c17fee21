//! A run's folder, `reports/runs/<run>/`, and the results as they come in.
//!
//! `results.json` is there from the start and is replaced as a whole each time a trial ends. A run that was killed leaves
//! what it had, and no `finished`.
//!
//! Under nextest each trial is a process of its own, and none of them knows when the others are done. All of them share
//! one folder, found through a small file named after nextest's run, and each writes `parts/<trial>.json`: a
//! `results.json` with one trial.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::atomic;
use super::manifest::{MANIFEST, Manifest, RunFacts, open_manifest};
use super::outcome::{TrialName, TrialResult, file_stem};
use super::repeats::folder_of;
use super::results::{Results, RunId, now};
use super::whole::Whole;
use crate::journal::{Secrets, regular};

/// How the files of a run in parts end that say what is known of a drill.
pub(crate) const FACTS: &str = "facts";
/// How many names are tried for a run before giving up; two runs of the same second share one of 65,536 by accident.
const ATTEMPTS: u32 = 16;

/// Writes a run's results.
#[derive(Debug)]
pub struct RunWriter {
    folder: PathBuf,
    /// Each trial goes to a part of its own.
    in_parts: bool,
    results: Mutex<Results>,
}

impl RunWriter {
    /// Makes the folder of a new run below `reports`, or joins the run that `nextest` (`NEXTEST_RUN_ID`) names.
    pub fn begin(reports: &Path, nextest: Option<&str>) -> io::Result<Self> {
        let (run, folder) = match nextest {
            Some(nextest) => join(reports, nextest)?,
            None => new_run(reports)?,
        };
        let writer = Self {
            folder,
            in_parts: nextest.is_some(),
            results: Mutex::new(Results::begun(run)),
        };
        if writer.in_parts {
            fs::create_dir_all(writer.folder.join("parts"))?;
        } else {
            writer.write(&writer.results())?;
        }
        Ok(writer)
    }

    pub fn run(&self) -> RunId {
        self.results().run.clone()
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether this process has only a part of the run, and so writes neither manifest nor `junit.xml`.
    pub fn is_part(&self) -> bool {
        self.in_parts
    }

    /// Makes the trial's folder and returns its name, relative to the run's.
    ///
    /// A trial that nextest tries again gets another folder (`…~2`), so that no attempt hides another.
    pub fn trial_folder(&self, trial: &TrialName) -> io::Result<String> {
        let stem = trial.file_stem();
        let mut name = stem.clone();
        let mut attempt = 1;
        loop {
            match fs::create_dir(self.folder.join(&name)) {
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    attempt += 1;
                    name = format!("{stem}~{attempt}");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the folder of a later repeat of the trial whose first repeat has the folder `bundle`, and returns its name.
    pub fn repeat_folder(&self, bundle: &str, repeat: u32) -> io::Result<String> {
        let name = folder_of(bundle, repeat);
        fs::create_dir(self.folder.join(&name))?;
        Ok(name)
    }

    /// Takes in a trial that has ended, and writes it.
    pub fn record(&self, trial: TrialResult) -> io::Result<()> {
        let mut results = self.results();
        if self.in_parts {
            let part = trial.bundle.clone();
            let part = part.unwrap_or_else(|| file_stem(&trial.name));
            let path = self.folder.join("parts").join(format!("{part}.json"));
            let alone = Results {
                schema: results.schema,
                run: results.run.clone(),
                started: results.started.clone(),
                finished: Some(now()),
                trials: vec![trial.clone()],
            };
            atomic::write(&path, alone.to_text()?.as_bytes())?;
        }
        results.trials.push(trial);
        if self.in_parts {
            return Ok(());
        }
        self.write(&results)
    }

    /// The results as they stand, written or not.
    pub fn so_far(&self) -> Results {
        let mut results = self.results().clone();
        results.sort();
        results
    }

    /// Ends the run: the trials in order, and the time.
    pub fn finish(&self) -> io::Result<Results> {
        let mut results = self.results();
        results.finished = Some(now());
        results.sort();
        if !self.in_parts {
            self.write(&results)?;
        }
        Ok(results.clone())
    }

    /// Writes down what is to be run, before anything is: whoever finds the folder of a run that was killed sees in it
    /// what is missing. Of a run in parts, the first process of each drill does so, since none knows of more than one.
    pub fn open(&self, facts: &RunFacts) -> io::Result<()> {
        if !self.in_parts {
            return open_manifest(&self.folder, &self.results(), facts.clone());
        }
        for drill in &facts.drills {
            let text = serde_json::to_vec(facts)?;
            atomic::write_if_absent(&self.facts_of(&drill.drill), &text)?;
        }
        Ok(())
    }

    /// Whether another process of this run has written down already what there is to know of a drill.
    pub fn knows(&self, drill: &str) -> bool {
        self.in_parts && self.facts_of(drill).exists()
    }

    fn facts_of(&self, drill: &str) -> PathBuf {
        let name = format!("{}.{FACTS}", file_stem(drill));
        self.folder.join("parts").join(name)
    }

    /// Ends the run and writes what describes it as a whole: the exports, the page, and last of all the manifest, which has
    /// the digests of everything else. A part of a run has none of them.
    ///
    /// `new_fails` is whether a snapshot that nobody has approved fails the run, as it does in CI; `signer` the key that will
    /// sign the manifest.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or one of `secrets` stands in the folder. Then there is no manifest of the whole, and
    /// nobody takes the folder for a finished bundle.
    pub fn close(
        &self,
        facts: RunFacts,
        new_fails: bool,
        signer: Option<&str>,
        secrets: &Secrets,
    ) -> io::Result<(Results, Option<Manifest>)> {
        let results = self.finish()?;
        if self.in_parts {
            return Ok((results, None));
        }
        let whole = Whole {
            results: &results,
            facts,
            new_fails,
            signer,
        };
        let manifest = whole.write(&self.folder, secrets)?;
        Ok((results, Some(manifest)))
    }

    fn write(&self, results: &Results) -> io::Result<()> {
        atomic::write(
            &self.folder.join("results.json"),
            results.to_text()?.as_bytes(),
        )
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        // A trial that panicked while it recorded has either pushed its result or not; both are whole.
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the folder of a new run below `reports`.
pub(crate) fn new_run(reports: &Path) -> io::Result<(RunId, PathBuf)> {
    let runs = reports.join("runs");
    fs::create_dir_all(&runs)?;
    let run = found(&runs)?;
    let folder = runs.join(run.as_str());
    Ok((run, folder))
}

/// Makes the folder of a run that nobody else has.
fn found(runs: &Path) -> io::Result<RunId> {
    for _ in 0..ATTEMPTS {
        let run = RunId::propose();
        match fs::create_dir(runs.join(run.as_str())) {
            Ok(()) => return Ok(run),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("failed to find a free name for the run"))
}

/// The folders of all runs, in the order in which they began.
pub(crate) fn runs_in(runs: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut found: Vec<(RunId, PathBuf)> = entries
        .filter_map(|entry| Some((RunId::parse(entry.file_name().to_str()?)?, entry.path())))
        .filter(|(_, folder)| folder.is_dir())
        .collect();
    // The end of a name is by chance: of runs that began in one second, the manifest says which did so first.
    let began = |folder: &Path| {
        let manifest = regular::read(&folder.join(MANIFEST)).ok()?;
        let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
        Some(manifest.started)
    };
    found.sort_by(|(a, folder_a), (b, folder_b)| {
        let second = |run: &RunId| run.as_str().split('-').next().map(str::to_owned);
        second(a)
            .cmp(&second(b))
            .then_with(|| began(folder_a).cmp(&began(folder_b)))
            .then_with(|| a.cmp(b))
    });
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// The run that all processes of one nextest run share. The first to arrive names it; whoever loses the race reads it.
fn join(reports: &Path, nextest: &str) -> io::Result<(RunId, PathBuf)> {
    let runs = reports.join("runs");
    fs::create_dir_all(&runs)?;
    let agreed = runs.join(format!(".nextest-{}", file_stem(nextest)));
    atomic::write_if_absent(&agreed, RunId::propose().as_str().as_bytes())?;
    let name = fs::read_to_string(&agreed)?;
    let run = RunId::parse(name.trim())
        .ok_or_else(|| io::Error::other(format!("{} does not name a run", agreed.display())))?;
    let folder = runs.join(run.as_str());
    fs::create_dir_all(&folder)?;
    Ok((run, folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;
    use crate::report::samples::{answer, name, trial};
    use crate::spec::{CrashPoint, Question};

    fn read(path: &Path) -> Results {
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    fn held(point: CrashPoint) -> TrialResult {
        trial(
            &name("deploy", point),
            vec![answer(Question::Eof, Verdict::Held, "It exited.")],
        )
    }

    #[test]
    fn a_killed_run_leaves_the_results_so_far() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), None).unwrap();
        let file = writer.folder().join("results.json");
        assert!(read(&file).trials.is_empty());
        writer.record(held(CrashPoint::Sent)).unwrap();
        assert_eq!(read(&file).trials.len(), 1);
        assert_eq!(read(&file).finished, None);
    }

    #[test]
    fn a_finished_run_has_its_trials_in_order_and_nothing_else_in_its_folder() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), None).unwrap();
        for point in [CrashPoint::Sent, CrashPoint::Idle] {
            writer.record(held(point)).unwrap();
        }
        let finished = writer.finish().unwrap();
        assert_eq!(finished.trials[0].name, "deploy::idle");
        let written = read(&writer.folder().join("results.json"));
        assert!(written.finished.is_some());
        assert_eq!(written.trials[1].name, "deploy::sent");
        assert_eq!(fs::read_dir(writer.folder()).unwrap().count(), 1);
    }

    #[test]
    fn a_closed_run_is_described_by_its_manifest() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), None).unwrap();
        let bundle = writer.trial_folder(&name("deploy", CrashPoint::Sent));
        fs::write(writer.folder().join(bundle.unwrap()).join("stderr"), "").unwrap();
        writer.record(held(CrashPoint::Sent)).unwrap();
        writer.open(&RunFacts::default()).unwrap();
        let secrets = Secrets::default();
        writer
            .close(RunFacts::default(), false, None, &secrets)
            .unwrap();
        let manifest = fs::read_to_string(writer.folder().join("manifest.json")).unwrap();
        for file in [
            "results.json",
            "junit.xml",
            "report.html",
            "results.sarif",
            "oscal.json",
            "summary.md",
            "controls.csv",
            "deploy__sent/stderr",
        ] {
            assert!(manifest.contains(&format!("\"{file}\"")), "{manifest}");
        }
    }

    #[test]
    fn a_run_with_a_secret_in_its_folder_is_not_sealed() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), None).unwrap();
        writer.open(&RunFacts::default()).unwrap();
        let secrets = Secrets::default();
        secrets.mint("token of run A", "drill-0011223344");
        fs::write(writer.folder().join("extra"), "drill-0011223344").unwrap();
        let close = || writer.close(RunFacts::default(), false, None, &secrets);
        let said = close().unwrap_err().to_string();
        assert!(said.contains("token of run A stands in extra"), "{said}");
        let manifest = fs::read_to_string(writer.folder().join("manifest.json")).unwrap();
        assert!(!manifest.contains("finished"), "{manifest}");
    }

    #[test]
    fn runs_that_start_at_once_have_folders_of_their_own() {
        let reports = tempfile::tempdir().unwrap();
        let runs: std::collections::BTreeSet<RunId> = (0..8)
            .map(|_| RunWriter::begin(reports.path(), None).unwrap().run())
            .collect();
        assert_eq!(runs.len(), 8);
    }

    #[test]
    fn processes_of_one_nextest_run_share_a_folder_and_write_a_part_each() {
        let reports = tempfile::tempdir().unwrap();
        let writers: Vec<RunWriter> = std::thread::scope(|scope| {
            let begin = || RunWriter::begin(reports.path(), Some("6a5c-1")).unwrap();
            let started: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
            started.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for writer in &writers {
            assert_eq!(writer.folder(), writers[0].folder());
        }
        writers[0].record(held(CrashPoint::Sent)).unwrap();
        writers[1].record(held(CrashPoint::Idle)).unwrap();
        writers[1].finish().unwrap();
        let folder = writers[0].folder();
        assert!(!folder.join("results.json").exists());
        assert_eq!(
            read(&folder.join("parts/deploy__sent.json")).trials.len(),
            1
        );
        assert!(
            read(&folder.join("parts/deploy__idle.json"))
                .finished
                .is_some()
        );
        let another = RunWriter::begin(reports.path(), Some("6a5c-2")).unwrap();
        assert_ne!(another.folder(), folder);
    }

    #[test]
    fn a_second_attempt_does_not_hide_the_first() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), Some("6a5c")).unwrap();
        let trial = name("deploy", CrashPoint::Sent);
        assert_eq!(writer.trial_folder(&trial).unwrap(), "deploy__sent");
        assert_eq!(writer.trial_folder(&trial).unwrap(), "deploy__sent~2");
    }

    #[test]
    fn a_second_attempt_keeps_its_repeats_apart_from_those_of_the_first() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), Some("6a5c")).unwrap();
        let trial = name("deploy", CrashPoint::Sent);
        for (first, second) in [
            ("deploy__sent", "deploy__sent~2"),
            ("deploy__sent~3", "deploy__sent~3~2"),
        ] {
            let bundle = writer.trial_folder(&trial).unwrap();
            assert_eq!(bundle, first);
            assert_eq!(writer.repeat_folder(&bundle, 2).unwrap(), second);
        }
    }

    #[test]
    fn runs_of_one_second_come_in_the_order_in_which_they_began() {
        let runs = tempfile::tempdir().unwrap();
        for (run, began) in [
            ("20261130T000000Z-0000", "2026-11-30T00:00:00.700Z"),
            ("20261130T000000Z-ffff", "2026-11-30T00:00:00.200Z"),
            ("20261129T235959Z-8888", "2026-11-29T23:59:59.900Z"),
        ] {
            let folder = runs.path().join(run);
            fs::create_dir(&folder).unwrap();
            let results = Results::of(RunId::parse(run).unwrap(), began.to_owned());
            open_manifest(&folder, &results, RunFacts::default()).unwrap();
        }
        fs::create_dir(runs.path().join(".courses")).unwrap();
        fs::write(runs.path().join("20261201T000000Z-0000"), "").unwrap();
        let found = runs_in(runs.path());
        let ends: Vec<_> = found.iter().map(|run| run.to_str().unwrap()).collect();
        let ends: Vec<_> = ends.iter().map(|run| &run[run.len() - 4..]).collect();
        assert_eq!(ends, ["8888", "ffff", "0000"]);
    }

    #[test]
    fn a_nextest_run_cannot_lead_out_of_the_folder() {
        let reports = tempfile::tempdir().unwrap();
        let writer = RunWriter::begin(reports.path(), Some("../../x")).unwrap();
        assert!(writer.folder().starts_with(reports.path().join("runs")));
    }
}

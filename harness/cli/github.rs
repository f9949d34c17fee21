//! What a run tells GitHub: the page of the job, and annotations. And what no command must tell it: a server's words may
//! look like a command of GitHub's.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use super::exit::Ended;
use super::{complain, say};
use crate::export::{EndedRun, render_annotations, render_summary};

/// Names the file to which a step of a job appends what is to be shown on the job's page.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// `true` in a step of a job.
const ACTIONS: &str = "GITHUB_ACTIONS";

/// While it lasts, GitHub takes no line of this step for a command: what a server wrote may look like one.
pub struct Silence {
    /// Nobody can guess it, so nobody else can end the silence.
    token: String,
    on: Stream,
}

/// GitHub reads both, each in its own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
}

impl Silence {
    pub fn begin() -> Self {
        Self::begin_on(Stream::Stdout)
    }

    /// For the whole of a command in a step of a job; elsewhere, none. What goes to a program or to a file (`for_people` is
    /// false, or stdout is a file) stays free of it, so it is on stderr then.
    pub fn of_command(for_people: bool) -> Option<Self> {
        let is_step = std::env::var_os(ACTIONS).is_some_and(|value| value == "true");
        let on = if for_people && !stdout_is_a_file() {
            Stream::Stdout
        } else {
            Stream::Stderr
        };
        is_step.then(|| Self::begin_on(on))
    }

    fn begin_on(on: Stream) -> Self {
        let token = uuid::Uuid::new_v4().simple().to_string();
        on.write(&format!("::stop-commands::{token}\n"));
        Self { token, on }
    }

    pub fn end(self) {
        self.on.write(&format!("::{}::\n", self.token));
    }
}

impl Stream {
    fn write(self, line: &str) {
        match self {
            Self::Stdout => {
                say(line);
            }
            Self::Stderr => {
                let _ = anstream::stderr().write_all(line.as_bytes());
            }
        }
    }
}

fn stdout_is_a_file() -> bool {
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let stdout = stdout.and_then(|stdout| stdout.metadata());
    stdout.is_ok_and(|stdout| stdout.is_file())
}

/// Appends the summary where GitHub asks for one, and prints the annotations with `--format github`. `folder` is the run's,
/// as the user would type it.
pub fn tell(run: &EndedRun<'_>, folder: &str, silence: Option<Silence>) -> Ended {
    if let Some(page) = std::env::var_os(SUMMARY).filter(|path| !path.is_empty())
        && let Err(error) = append(Path::new(&page), &render_summary(run))
    {
        // The results are in their files; a page that cannot be written changes none of them.
        complain(&format!(
            "failed to write the summary to {}: {error}",
            page.display()
        ));
    }
    match silence {
        Some(silence) => {
            silence.end();
            say(&render_annotations(run, folder))
        }
        None => Ended::Held,
    }
}

fn append(page: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(page)?;
    file.write_all(text.as_bytes())
}

//! What a run tells GitHub: the page of the job, and annotations.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use super::exit::Ended;
use super::{complain, say};
use crate::export::{EndedRun, render_annotations, render_summary};

/// Names the file to which a step of a job appends what is to be shown on the job's page.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// While it lasts, GitHub takes no line of this step for a command: what a server wrote may look like one.
pub struct Silence {
    /// Nobody can guess it, so nobody else can end the silence.
    token: String,
}

impl Silence {
    pub fn begin() -> Self {
        let token = uuid::Uuid::new_v4().simple().to_string();
        say(&format!("::stop-commands::{token}\n"));
        Self { token }
    }

    fn end(self) {
        say(&format!("::{}::\n", self.token));
    }
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

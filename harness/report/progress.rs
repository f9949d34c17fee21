//! Progress on stderr while trials run, for a person at a terminal.
//!
//! Results go to stdout and progress to stderr, and on a terminal both are one screen: a line is printed through
//! [`Progress::around`], which takes the bar away, lets it be written and draws the bar again below it.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::style::{columns_of, one_line};

/// How often the elapsed time is drawn anew.
const TICK: Duration = Duration::from_millis(100);
/// How many of the running trials are named at most.
const NAMED: usize = 3;
/// What stands before the names: counts and time, in columns.
const BEFORE: usize = "100/100  10m  ".len();

/// The trials that run, each with what stands behind its name: the repeat that it is at.
type Running = BTreeMap<String, String>;

/// Which trials run, and how many have ended. Drawing nothing, it still counts.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    running: Mutex<Running>,
    /// Of the terminal, when the run began.
    columns: u16,
}

impl Progress {
    /// Progress over so many trials; drawn only where stderr is a terminal and `wanted` (not in CI, not for JSON).
    pub fn new(trials: usize, wanted: bool) -> Self {
        let trials = u64::try_from(trials).unwrap_or(u64::MAX);
        let drawn = wanted && std::io::stderr().is_terminal();
        let target = if drawn {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let columns = terminal_size::terminal_size_of(std::io::stderr())
            .map_or(u16::MAX, |(width, _)| width.0);
        let bar = ProgressBar::with_draw_target(Some(trials), target);
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len}  {elapsed:.dim}  {wide_msg}") {
            bar.set_style(style);
        }
        if drawn {
            bar.enable_steady_tick(TICK);
        }
        Self {
            bar,
            running: Mutex::default(),
            columns,
        }
    }

    /// A trial has begun.
    pub fn begin(&self, trial: &str) {
        self.change(|running| running.insert(one_line(trial), String::new()));
    }

    /// A trial that is carried out so many times has begun with one of them, counted from 1.
    pub fn repeat(&self, trial: &str, repeat: u32, of: u32) {
        if of > 1 {
            self.change(|running| running.insert(one_line(trial), format!(" {repeat}/{of}")));
        }
    }

    /// A trial has ended.
    pub fn end(&self, trial: &str) {
        self.bar.inc(1);
        self.change(|running| running.remove(&one_line(trial)));
    }

    /// Lets `print` write to the terminal without tearing the bar.
    pub fn around<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the bar away for good.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn change<T>(&self, change: impl FnOnce(&mut Running) -> T) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        let room = usize::from(self.columns).saturating_sub(BEFORE);
        self.bar.set_message(spell(&running, room));
    }
}

impl Drop for Progress {
    /// A run that ends early leaves no half of a bar.
    fn drop(&mut self) {
        self.finish();
    }
}

/// As many names as there is room for, and how many more there are; at least one, which the terminal's edge may cut.
fn spell(running: &Running, room: usize) -> String {
    let with = |count: usize| {
        let named: Vec<String> = running
            .iter()
            .take(count)
            .map(|(name, repeat)| format!("{name}{repeat}"))
            .collect();
        match running.len().saturating_sub(count) {
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        }
    };
    (2..=NAMED)
        .rev()
        .map(with)
        .find(|text| columns_of(text) <= room)
        .unwrap_or_else(|| with(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_running_trials_are_named_and_the_rest_counted() {
        let running = |n: usize| {
            (0..n)
                .map(|i| (format!("deploy::{i}"), String::new()))
                .collect()
        };
        assert_eq!(spell(&running(0), 80), "");
        assert_eq!(spell(&running(2), 80), "deploy::0, deploy::1");
        assert_eq!(
            spell(&running(5), 80),
            "deploy::0, deploy::1, deploy::2 and 2 more"
        );
    }

    #[test]
    fn where_there_is_less_room_fewer_are_named() {
        let running = |n: usize| {
            (0..n)
                .map(|i| (format!("deploy::{i}"), String::new()))
                .collect()
        };
        assert_eq!(spell(&running(5), 32), "deploy::0, deploy::1 and 3 more");
        assert_eq!(spell(&running(5), 31), "deploy::0, deploy::1 and 3 more");
        assert_eq!(spell(&running(5), 30), "deploy::0 and 4 more");
        assert_eq!(spell(&running(2), 5), "deploy::0 and 1 more");
    }

    #[test]
    fn a_trial_that_is_repeated_says_how_far_it_is() {
        let progress = Progress::new(1, false);
        let said = || progress.bar.message();
        progress.begin("deploy::sent");
        progress.repeat("deploy::sent", 1, 1);
        assert_eq!(said(), "deploy::sent");
        progress.repeat("deploy::sent", 3, 20);
        assert_eq!(said(), "deploy::sent 3/20");
        progress.end("deploy::sent");
        assert_eq!(said(), "");
    }

    #[test]
    fn without_a_terminal_nothing_is_drawn_and_all_is_counted() {
        let progress = Progress::new(2, false);
        progress.begin("deploy::sent");
        progress.end("deploy::sent");
        assert_eq!(progress.around(|| 7), 7);
        assert_eq!(progress.bar.position(), 1);
        assert!(progress.bar.is_hidden());
    }
}

//! What is wrong with a bundle.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::journal::printable;

/// So many are told one by one; who needs more knows enough.
const TOLD: usize = 1000;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file or the trial, relative to the bundle.
    pub place: String,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", printable(&self.place), printable(&self.what))
    }
}

/// Where findings are gathered, from several threads.
#[derive(Debug, Default)]
pub struct Findings {
    gathered: Mutex<(Vec<Finding>, usize)>,
}

impl Findings {
    pub fn add(&self, place: impl Into<String>, what: impl Into<String>) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let finding = Finding {
            place: place.into(),
            what: what.into(),
        };
        if gathered.0.len() < TOLD {
            gathered.0.push(finding);
        } else {
            gathered.1 += 1;
        }
    }

    /// All of them, sorted, and how many there are besides.
    pub fn into_sorted(self) -> (Vec<Finding>, usize) {
        let gathered = self.gathered.into_inner();
        let (mut told, more) = gathered.unwrap_or_else(PoisonError::into_inner);
        told.sort();
        told.dedup();
        (told, more)
    }
}

//! `--partition slice:K/N`: one machine's part of the trials, in nextest's words.
//!
//! Dealt out in the order of their names, as nextest does. What a machine lacks must not shift what the others run, so
//! trials that would be ignored here are dealt out as well.

use std::fmt;
use std::str::FromStr;

/// Part `part` of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    part: u32,
    of: u32,
}

impl Slice {
    /// The slice that a trial is in, as the number that it has in the order of all names.
    pub fn of_index(self, index: usize) -> Self {
        let turn = index as u64 % u64::from(self.of);
        Self {
            part: u32::try_from(turn).unwrap_or_default() + 1,
            ..self
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice:{}/{}", self.part, self.of)
    }
}

impl FromStr for Slice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.strip_prefix("slice:").and_then(|numbers| {
            let (part, of) = numbers.split_once('/')?;
            let number = |text: &str| {
                let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
                is_plain.then(|| text.parse::<u32>().ok()).flatten()
            };
            Some((number(part)?, number(of)?))
        });
        match parsed {
            Some((part, of)) if 1 <= part && part <= of => Ok(Self { part, of }),
            Some(_) => Err("slices are counted from 1: `slice:1/3` to `slice:3/3`".to_owned()),
            None => Err("expected `slice:K/N`, such as `slice:1/3`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_is_in_exactly_one_slice() {
        let first: Slice = "slice:1/3".parse().unwrap();
        let dealt: Vec<String> = (0..5)
            .map(|index| first.of_index(index).to_string())
            .collect();
        assert_eq!(
            dealt,
            [
                "slice:1/3",
                "slice:2/3",
                "slice:3/3",
                "slice:1/3",
                "slice:2/3"
            ]
        );
    }

    #[test]
    fn what_is_no_slice_is_refused() {
        for text in ["slice:0/3", "slice:4/3", "slice:1/0"] {
            let said = text.parse::<Slice>().unwrap_err();
            assert!(said.contains("counted from 1"), "{said}");
        }
        for text in ["hash:1/3", "1/3", "slice:1", "slice:+1/3", "slice:a/b", ""] {
            let said = text.parse::<Slice>().unwrap_err();
            assert!(said.contains("expected `slice:K/N`"), "{said}");
        }
    }
}

//! How old evidence may be, and the day on which a waiver ends.

use std::borrow::Cow;
use std::fmt;

use jiff::civil;
use jiff::{SignedDuration, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An age, written `90m`, `12h`, `7d` or `2w`. It is shown as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Age {
    written: String,
    seconds: i64,
}

impl Age {
    pub fn duration(&self) -> SignedDuration {
        SignedDuration::from_secs(self.seconds)
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        let no_age = || format!("`{written}` is not an age: write 12h, 7d or 2w");
        let digits = written.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let number: i64 = digits.parse().map_err(|_| no_age())?;
        let unit = match &written[digits.len()..] {
            "m" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return Err(no_age()),
        };
        let seconds = number.checked_mul(unit).filter(|seconds| *seconds > 0);
        let seconds = seconds.ok_or_else(no_age)?;
        Ok(Self { written, seconds })
    }
}

impl From<Age> for String {
    fn from(age: Age) -> Self {
        age.written
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl JsonSchema for Age {
    fn schema_name() -> Cow<'static, str> {
        "Age".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "age",
            "description": "A whole number and a unit: m, h, d or w.",
            "type": "string",
            "pattern": "^[1-9][0-9]{0,4}[mhdw]$",
            "examples": ["12h", "7d", "2w"],
        })
    }
}

/// A day of the calendar, `2027-01-31`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date(pub civil::Date);

impl Date {
    /// The day, in UTC.
    pub fn of(now: Timestamp) -> Self {
        Self(now.to_zoned_datetime(jiff::tz::TimeZone::UTC).date())
    }

    /// How many days it is from `other` to this one; negative if this one comes first.
    pub fn days_after(self, other: Self) -> i64 {
        self.0.duration_since(other.0).as_hours() / 24
    }
}

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        let date = written.parse();
        date.map(Self)
            .map_err(|_| format!("`{written}` is not a date: write 2027-01-31"))
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        date.to_string()
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Date {
    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "date",
            "description": "A day of the calendar.",
            "type": "string",
            "format": "date",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            "examples": ["2027-01-31"],
        })
    }
}

/// `3 days`, `2 h`, `12 min`: a time as a reader counts it, in one unit, rounded down.
pub(super) fn spell(time: SignedDuration) -> String {
    let minutes = time.as_secs() / 60;
    match (minutes / 1440, minutes / 60) {
        (0, 0) => format!("{minutes} min"),
        (0 | 1, hours) => format!("{hours} h"),
        (days, _) => spell_days(days),
    }
}

/// `1 day`, `2 days`.
pub(super) fn spell_days(days: i64) -> String {
    format!("{days} day{}", if days == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_and_a_unit() {
        let hours =
            |text: &str| Age::try_from(text.to_owned()).map(|age| age.duration().as_secs() / 3_600);
        assert_eq!(hours("120m"), Ok(2));
        assert_eq!(hours("7d"), Ok(168));
        assert_eq!(hours("2w"), Ok(336));
        for wrong in ["", "7", "d", "0d", "-1d", "7 d", "7y", "99999999999999999w"] {
            assert!(hours(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn days_are_counted_over_months() {
        let date = |text: &str| Date::try_from(text.to_owned()).unwrap();
        assert_eq!(date("2027-03-01").days_after(date("2027-02-27")), 2);
        assert_eq!(date("2027-01-31").days_after(date("2027-02-01")), -1);
        assert!(Date::try_from("2027-02-29".to_owned()).is_err());
    }

    #[test]
    fn a_time_is_spelled_in_one_unit() {
        let spelled = |minutes| spell(SignedDuration::from_mins(minutes));
        assert_eq!(spelled(0), "0 min");
        assert_eq!(spelled(130), "2 h");
        assert_eq!(spelled(47 * 60), "47 h");
        assert_eq!(spelled(49 * 60), "2 days");
    }
}

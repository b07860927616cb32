//! Parsers of flag values, for small grammars and for lists of names.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use quorate_types::Choice;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Maximum interval in a spec, in milliseconds: one week.
pub const MAX_INTERVAL_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// Error for a value that does not match its key's grammar.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{given}` is not a valid {kind}{why}; write {forms}")]
pub struct BadValue {
    pub kind: &'static str,
    pub given: String,
    pub why: String,
    pub forms: &'static str,
}

/// Serialises a type as its displayed text, and deserialises it by parsing.
#[macro_export]
macro_rules! as_text {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Duration in whole milliseconds, written `500ms`, `2s` or `1m`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interval {
    milliseconds: u64,
}

impl Interval {
    /// Creates an interval; at most [`MAX_INTERVAL_MS`] milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Interval {
        assert!(milliseconds <= MAX_INTERVAL_MS);
        Interval { milliseconds }
    }

    pub fn as_millis(self) -> u64 {
        self.milliseconds
    }

    pub fn as_secs_f64(self) -> f64 {
        self.milliseconds as f64 / 1000.0
    }
}

impl From<Interval> for Duration {
    fn from(interval: Interval) -> Duration {
        Duration::from_millis(interval.milliseconds)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.milliseconds {
            0 => f.write_str("0s"),
            ms if ms % 60_000 == 0 => write!(f, "{}m", ms / 60_000),
            ms if ms % 1000 == 0 => write!(f, "{}s", ms / 1000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

impl FromStr for Interval {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Interval, BadValue> {
        let bad = |why: String| BadValue {
            kind: "duration",
            given: text.to_string(),
            why,
            forms: "a whole number and its unit, such as 500ms, 2s or 1m",
        };
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let scale = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "" => return Err(bad(" (the unit is missing)".into())),
            _ => return Err(bad(String::new())),
        };
        if number.is_empty() {
            return Err(bad(" (the number is missing)".into()));
        }
        let milliseconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(scale));
        match milliseconds {
            Some(milliseconds) if milliseconds <= MAX_INTERVAL_MS => Ok(Interval { milliseconds }),
            _ => Err(bad(" (the longest is a week)".into())),
        }
    }
}

as_text!(Interval);

/// Parses a [`Choice`] from the command line: clap lists the names in the help and suggests the nearest one.
pub fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::names()).try_map(|name| name.parse::<T>())
}

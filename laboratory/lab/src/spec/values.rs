//! Rates, and paths of recordings with the replica to record.

use quorate_operator::{BadValue, as_text};
use quorate_types::ReplicaId;
use std::fmt;
use std::str::FromStr;

/// Replicas to record, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The only replica to record; `None` for all.
    pub replica: Option<ReplicaId>,
    /// The file, or the directory of the files.
    pub path: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replica {
            Some(replica) => write!(f, "{replica}:{}", self.path),
            None => f.write_str(&self.path),
        }
    }
}

impl FromStr for Record {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Record, BadValue> {
        let one = text.split_once(':').and_then(|(number, path)| Some((number.parse::<u16>().ok()?, path)));
        let (replica, path) = one.map_or((None, text), |(number, path)| (Some(ReplicaId(number)), path));
        if path.is_empty() {
            let forms = "a directory, or R:FILE where R is a replica from 0, as in 2:replica-2.recording";
            return Err(BadValue {
                kind: "place for recordings",
                given: text.to_owned(),
                why: " (where?)".into(),
                forms,
            });
        }
        Ok(Record { replica, path: path.to_owned() })
    }
}

as_text!(Record);

/// Factors of a rate's unit, the largest first.
const RATE_UNITS: [(char, f64); 4] = [('T', 1e12), ('G', 1e9), ('M', 1e6), ('K', 1e3)];

/// A rate in units per second: `10G`, `2.5M`, `80000`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, factor): &&(char, f64)| self.0 >= *factor && self.0 / factor * factor == self.0;
        match RATE_UNITS.iter().find(whole) {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Rate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Rate, BadValue> {
        let trimmed = text.trim();
        let unit = |(unit, factor): &(char, f64)| {
            let digits = trimmed.strip_suffix(|last: char| last.to_ascii_uppercase() == *unit)?;
            Some((digits, *factor))
        };
        let (digits, factor) = RATE_UNITS.iter().find_map(unit).unwrap_or((trimmed, 1.0));
        let number = digits.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(|number| Rate(number * factor)).ok_or_else(|| BadValue {
            kind: "rate",
            given: text.to_owned(),
            why: String::new(),
            forms: "a number, with K, M, G or T, such as 10G",
        })
    }
}

as_text!(Rate);

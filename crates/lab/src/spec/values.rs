//! The keys of a spec whose value has a little grammar of its own: durations, faults and workloads.

use super::choices::nearest;
use quorate_types::ReplicaId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The longest interval a spec may ask for: a week, in milliseconds.
pub const MAX_INTERVAL_MS: u64 = 7 * 24 * 60 * 60 * 1000;

/// A value that its key's grammar does not know.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{given}` is no {kind}{why}; write {forms}")]
pub struct BadValue {
    kind: &'static str,
    given: String,
    why: String,
    forms: &'static str,
}

macro_rules! as_text {
    ($type:ident) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// A length of time, written `500ms`, `2s` or `1m`; whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interval {
    milliseconds: u64,
}

impl Interval {
    /// That many milliseconds, [`MAX_INTERVAL_MS`] at most.
    pub const fn from_millis(milliseconds: u64) -> Interval {
        assert!(milliseconds <= MAX_INTERVAL_MS);
        Interval { milliseconds }
    }

    /// In milliseconds.
    pub fn as_millis(self) -> u64 {
        self.milliseconds
    }

    /// In seconds.
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

/// One thing that goes wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `silent:3`: the replica never sends anything.
    Silent(ReplicaId),
    /// `slow:1`: the replica holds its proposals back for 0.8 of the view timeout, so that its views just do not time out.
    Slow(ReplicaId),
    /// `crash:2@4s`: the replica is killed that long after the measurement began.
    Crash(ReplicaId, Interval),
}

impl Fault {
    /// The replica it happens to.
    pub fn replica(self) -> ReplicaId {
        match self {
            Fault::Silent(replica) | Fault::Slow(replica) | Fault::Crash(replica, _) => replica,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Silent(replica) => write!(f, "silent:{replica}"),
            Fault::Slow(replica) => write!(f, "slow:{replica}"),
            Fault::Crash(replica, at) => write!(f, "crash:{replica}@{at}"),
        }
    }
}

impl FromStr for Fault {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Fault, BadValue> {
        let bad = |why: String| BadValue {
            kind: "fault",
            given: text.to_string(),
            why,
            forms: "silent:R, slow:R or crash:R@TIME, where R is a replica from 0, as in silent:3, slow:1, crash:2@4s",
        };
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad(" (which replica?)".into()))?;
        let (number, at) = match rest.split_once('@') {
            Some((number, at)) => (number, Some(at)),
            None => (rest, None),
        };
        let replica = match number.parse::<u16>() {
            Ok(replica) => ReplicaId(replica),
            Err(_) => return Err(bad(format!(" (`{number}` is no replica)"))),
        };
        match (kind, at) {
            ("silent", None) => Ok(Fault::Silent(replica)),
            ("slow", None) => Ok(Fault::Slow(replica)),
            ("crash", Some(at)) => Ok(Fault::Crash(replica, at.parse().map_err(|e: BadValue| bad(format!(" ({e})")))?)),
            ("crash", None) => Err(bad(" (when?)".into())),
            ("silent" | "slow", Some(_)) => Err(bad(format!(" ({kind} lasts the whole run and takes no time)"))),
            _ => Err(bad(match nearest(kind, &["silent", "slow", "crash"]) {
                Some(name) => format!(" (did you mean `{name}`?)"),
                None => String::new(),
            })),
        }
    }
}

as_text!(Fault);

/// What the clients ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Every command carries `payload` bytes and is only ordered.
    Fixed,
    /// Half reads, half updates of the key-value store, zipfian keys.
    YcsbA,
    /// 95 % reads, 5 % updates.
    YcsbB,
    /// Reads only.
    YcsbC,
    /// Half reads, half read-modify-writes.
    YcsbF,
    /// The commands in that file, one on each line, over and over.
    File(String),
}

/// The workloads that are a bare name.
const WORKLOADS: &[(&str, Workload)] = &[
    ("fixed", Workload::Fixed),
    ("ycsb-a", Workload::YcsbA),
    ("ycsb-b", Workload::YcsbB),
    ("ycsb-c", Workload::YcsbC),
    ("ycsb-f", Workload::YcsbF),
];

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Workload::File(path) = self {
            return write!(f, "file:{path}");
        }
        let named = WORKLOADS.iter().find(|(_, workload)| workload == self);
        f.write_str(named.expect("every workload but a file has a name").0)
    }
}

impl FromStr for Workload {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Workload, BadValue> {
        let bad = |why: String| BadValue {
            kind: "workload",
            given: text.to_string(),
            why,
            forms: "fixed, ycsb-a, ycsb-b, ycsb-c, ycsb-f or file:PATH",
        };
        if let Some(path) = text.strip_prefix("file:") {
            return if path.is_empty() { Err(bad(" (which file?)".into())) } else { Ok(Workload::File(path.into())) };
        }
        if let Some((_, workload)) = WORKLOADS.iter().find(|(name, _)| *name == text) {
            return Ok(workload.clone());
        }
        let names: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).chain(["file:PATH"]).collect();
        Err(bad(match nearest(text, &names) {
            Some(name) => format!(" (did you mean `{name}`?)"),
            None => String::new(),
        }))
    }
}

as_text!(Workload);

//! Faults found in a journal.

use serde::Serialize;
use std::fmt;

/// Defect found in a replica's directory, with its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// Record that reveals the fault, or `None` if a record is missing.
    pub record: Option<u64>,
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            Some(record) => write!(f, "record {record}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

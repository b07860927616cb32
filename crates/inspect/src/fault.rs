//! Something that is wrong in a journal.

use serde::Serialize;
use std::fmt;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// The record by which it shows; none if it shows by what is not there.
    pub record: Option<u64>,
    /// What is wrong.
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

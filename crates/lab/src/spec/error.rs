//! What may be wrong with a spec, where, and the mend.

use std::fmt;
use thiserror::Error;

/// One thing that is wrong with a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The flags or the key at fault.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to write instead.
    pub mend: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; help: {}", self.place, self.what, self.mend)
    }
}

/// Why no spec came of the flags and the file.
#[derive(Debug, Error)]
pub enum SpecError {
    /// The file cannot be read.
    #[error("--spec {path}: cannot be read: {source}; help: give the path of an experiment file")]
    Read {
        /// As given.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is no spec.
    #[error("{path}, line {line}{}: {what}; help: {mend}", .key.as_ref().map(|key| format!(", key `{key}`")).unwrap_or_default())]
    File {
        /// As given.
        path: String,
        /// From 1.
        line: usize,
        /// The key there, where there is one.
        key: Option<String>,
        /// What is wrong.
        what: String,
        /// What to write instead.
        mend: String,
    },
    /// Flags that the command does not take.
    #[error("{0}")]
    Flag(Problem),
    /// Values that are each possible, but not together.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Impossible(Vec<Problem>),
}

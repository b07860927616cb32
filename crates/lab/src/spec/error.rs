//! Why a spec cannot be run.

pub use quorate_types::Fault as Problem;
use thiserror::Error;

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
    /// The file is no spec; the place is its path, the line and the key, where there is one.
    #[error(transparent)]
    File(Problem),
    /// Flags that the command does not take.
    #[error(transparent)]
    Flag(Problem),
    /// Values that are each possible, but not together.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Impossible(Vec<Problem>),
}

//! Errors of specs.

pub use quorate_types::Fault as Problem;
use thiserror::Error;

/// Reason why a spec is invalid.
#[derive(Debug, Error)]
pub enum SpecError {
    #[error("--spec {path}: cannot be read: {source}; help: give the path of an experiment file")]
    Read { path: String, source: std::io::Error },
    /// The file is invalid. The place is its path, the line, and the key if there is one.
    #[error(transparent)]
    File(Problem),
    /// Flags that the command does not accept.
    #[error(transparent)]
    Flag(Problem),
    /// Values that are invalid, alone or together.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Impossible(Vec<Problem>),
}

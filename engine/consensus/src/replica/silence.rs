//! Reasons why a replica does not vote, reported to its operators.

use quorate_types::View;
use std::fmt;

/// Reason why a replica that lost its journal counts as one of the f faulty replicas. It follows the others, executes
/// and answers, but it does not vote, or might not vote after another crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// It lost its journal or part of it, and waits for more replicas to report how far they are.
    Asks {
        /// Number of replicas whose answer is still missing.
        missing: usize,
    },
    /// It lost its journal or part of it, and may have voted in views up to this one. It votes again in the first later
    /// view that the others begin.
    Abstains {
        /// Last view in which it may have voted.
        up_to: View,
    },
    /// It votes again, but a crash could undo this: its journal does not yet hold what it needs to vote after a
    /// restart, or it still lacks blocks that the others have.
    Returns,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::Asks { missing } => {
                write!(
                    f,
                    "does not vote: its journal was lost, and {missing} more replicas must report how far they are"
                )
            }
            Silence::Abstains { up_to } => {
                write!(f, "does not vote: its journal was lost, and it may have voted in views up to {}; ", up_to.0)?;
                write!(f, "it votes again in the first view from {} on that the others begin", up_to.0 + 1)
            }
            Silence::Returns => {
                write!(f, "votes again after it lost its journal, but still fetches or writes what it missed")
            }
        }
    }
}

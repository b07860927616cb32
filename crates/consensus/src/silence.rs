//! Why a replica takes no part in agreement, for those who run it.

use quorate_types::View;
use std::fmt;

/// A replica that follows the others, executes and answers, and does not vote. It counts among the f faulty ones until that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// It has lost its journal, or part of it, and waits for more replicas to say how far they are.
    Asks {
        /// Replicas that have to answer still.
        missing: usize,
    },
    /// It has lost its journal, or part of it, and may have voted in views up to this one. It votes again in the first view that the others
    /// begin after it.
    Abstains {
        /// The last view in which it may have voted.
        up_to: View,
    },
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::Asks { missing } => {
                write!(
                    f,
                    "does not vote: its journal was lost, and {missing} more replicas have to say how far they are"
                )
            }
            Silence::Abstains { up_to } => {
                write!(f, "does not vote: its journal was lost, and it may have voted in views up to {}; ", up_to.0)?;
                write!(f, "it votes again from view {} on, when the others begin one", up_to.0 + 1)
            }
        }
    }
}

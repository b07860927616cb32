//! What a replica tells of itself. Nothing here has to be acted on.

use quorate_types::{Digest, Height, ReplicaId, View};
use std::fmt::{self, Write};

/// Moment in a replica's life, for transcripts, logs and metrics. A host that ignores all of them decides and answers the same (ADR 027).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A view began.
    EnteredView {
        /// The view.
        view: View,
        /// Its leader, where it can be told yet.
        leader: Option<ReplicaId>,
    },
    /// A view was given up.
    TimedOut(View),
    /// A proposal was made.
    Proposed {
        /// Its view.
        view: View,
        /// Its height.
        height: Height,
        /// How many commands it refers to.
        commands: usize,
    },
    /// A slot was decided, in whatever order; it is committed when those before it are.
    Decided {
        /// The view.
        view: View,
        /// The slot.
        height: Height,
        /// The block.
        digest: Digest,
    },
    /// What the journal held was recalled.
    Restarted {
        /// The last view in which this replica has said anything.
        view: View,
        /// Up to where blocks are committed.
        height: Height,
    },
    /// This replica has lost its memory, and says nothing until it has learnt how far the others are.
    Forgot,
    /// It has learnt how far the others are, and says nothing in views in which it may have spoken.
    Abstains {
        /// The last of these views.
        up_to: View,
    },
    /// It has lost its memory once, and takes part again.
    TakesPart {
        /// From this view on.
        view: View,
    },
    /// A quorum vouches for the state at a checkpoint.
    Stable {
        /// Its height.
        height: Height,
    },
    /// The blocks that this replica lacks are no longer to be had, and it fetches the state of a checkpoint.
    Fetches {
        /// The height of the checkpoint.
        height: Height,
    },
    /// It has taken the state of a checkpoint over, without the blocks before it.
    Adopted {
        /// Up to where it had committed.
        from: Height,
        /// The height of the checkpoint.
        height: Height,
    },
    /// A rule of the protocol forbade a vote.
    Refused {
        /// The view of the proposal.
        view: View,
        /// The rule.
        rule: &'static str,
    },
    /// A message was not acted on.
    Dropped {
        /// Its sender.
        from: ReplicaId,
        /// Why.
        why: Drop,
    },
}

/// Why a message is not acted on; counted by kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Drop {
    /// The sender is not in the committee.
    Stranger,
    /// Somebody else's vote or proposal, sent as one's own.
    NotTheSender,
    /// It belongs to a view or height that is over.
    Stale,
    /// A vote beyond the quorum that sufficed.
    Late,
    /// It belongs to a view too far ahead.
    TooFarAhead,
    /// Nothing in it shows that its view has begun.
    ViewNotJustified,
    /// Its parts contradict each other.
    Malformed,
    /// Its block holds more commands or bytes than `batch` and `batch_bytes` allow.
    TooLarge,
    /// Its sender does not lead that view.
    NotTheLeader,
    /// The same was said before.
    Repeated,
    /// It contradicts what the sender said before.
    Contradiction,
    /// A certificate or signature in it is not genuine.
    NotGenuine,
    /// The pool is full.
    PoolFull,
    /// It has expired, or will before it can be ordered.
    Expired,
    /// Nobody asked for it.
    Unasked,
    /// Too much of the sender's is in the works already.
    Overload,
}

/// The key in statuses and reports: `not-the-leader` for [`Drop::NotTheLeader`].
impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, letter) in format!("{self:?}").char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                f.write_char('-')?;
            }
            f.write_char(letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

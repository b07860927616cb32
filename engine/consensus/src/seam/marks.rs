//! Observable events of a replica. No host needs to act on them.

use crate::drops::Drop;
use quorate_types::{Digest, Height, ReplicaId, View};

/// Event of a replica, for transcripts, logs and metrics. A host that ignores all events makes the same decisions and
/// gives the same answers (ADR 027).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    EnteredView {
        view: View,
        /// Leader of the view, if already known.
        leader: Option<ReplicaId>,
    },
    /// This replica timed out of a view.
    TimedOut(View),
    Proposed {
        view: View,
        height: Height,
        /// Number of commands in the block.
        commands: usize,
    },
    /// A slot was decided, in any order. It commits once all earlier slots are decided.
    Decided { view: View, height: Height, digest: Digest },
    /// The journal was restored.
    Restarted {
        /// Last view in which this replica made a statement.
        view: View,
        /// Height of the last committed block.
        height: Height,
    },
    /// This replica lost its journal and abstains until it knows how far the others are.
    Forgot,
    /// This replica knows how far the others are, and abstains in views in which it may have voted.
    Abstains {
        /// Last of these views.
        up_to: View,
    },
    /// This replica had lost its journal and votes again.
    TakesPart {
        /// First view in which it votes again.
        view: View,
    },
    /// A quorum certified the state at a checkpoint.
    Stable {
        /// Height of the checkpoint.
        height: Height,
    },
    /// The blocks that this replica lacks are no longer available; it fetches the state of a checkpoint.
    Fetches {
        /// Height of the checkpoint.
        height: Height,
    },
    /// This replica adopted the state of a checkpoint, without the blocks before it.
    Adopted {
        /// Height of the last block committed before.
        from: Height,
        /// Height of the checkpoint.
        height: Height,
    },
    /// A block was executed without a bundle, because a quorum signed that the bundle is absent.
    Voided {
        /// Height of the block.
        height: Height,
        bundle: Digest,
    },
    /// A rule of the protocol forbade a vote.
    Refused {
        /// View of the proposal.
        view: View,
        /// Rule that was violated.
        rule: &'static str,
    },
    /// A message was ignored.
    Dropped { from: ReplicaId, why: Drop },
}

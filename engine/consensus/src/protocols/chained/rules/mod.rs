//! The differences between chained protocols: the rules for voting, locking and committing, and the contents of a view
//! change.
//!
//! Rules are pure functions of the block tree; the engine acts on their results. To add a protocol, add a file like its
//! neighbours here and a line in [`every_protocol`](crate::every_protocol).

macro_rules! declare {
    ([] chained { $($file:ident: $rules:ident,)+ } $($others:tt)*) => {
        $(pub mod $file;)+
        $(pub use $file::$rules;)+
    };
}
crate::every_protocol!((declare));

use crate::data::block_tree::BlockTree;
use crate::facts::Facts;
use quorate_types::{Block, Certificate, Subject, View};
use std::sync::Arc;

pub use crate::protocols::views::{Candidate, Refusal};

/// Voting, locking and commit rules of a chained protocol.
pub trait Rules: Send + 'static {
    const FACTS: Facts;

    /// Checks whether the rules allow a vote for a block. [`Safety`](crate::voting::safety::Safety) ensures one vote
    /// per view, in ascending views.
    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal>;

    /// Returns the lock of a replica that knows a certificate of `certified`.
    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject>;

    /// Returns the highest block that commits once `certified` is certified.
    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>>;

    /// Returns the certificate that a leader extends, given its highest one and the evidence that its view has begun.
    fn extends<'a>(high: &'a Certificate, _evidence: Option<&'a Certificate>) -> &'a Certificate {
        high
    }

    /// Returns whether a leader of `view` waits for a certificate higher than its highest one, up to
    /// [`awaited_delays`](Facts::awaited_delays) times `max_delay_ms`, the maximum message delay. By default, it does
    /// not wait.
    fn awaits_higher(_view: View, _high: &Certificate) -> bool {
        false
    }
}

/// Returns the parent of `block` if their views are consecutive.
pub(super) fn consecutive_parent<'a>(block: &Block, tree: &'a BlockTree) -> Option<&'a Arc<Block>> {
    tree.parent(block).filter(|parent| parent.view.next() == block.view)
}

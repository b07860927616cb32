//! What the chained protocols differ in: when to vote, what to lock, when to commit, what a view change carries.
//!
//! Rules are pure. They look at the tree and answer; the engine acts. A new protocol is a file like its neighbours here.

pub mod chained_hotstuff;
pub mod fast_hotstuff;
pub mod jolteon;
pub mod simple_hotstuff;

pub use chained_hotstuff::ChainedHotStuff;
pub use fast_hotstuff::FastHotStuff;
pub use jolteon::Jolteon;
pub use simple_hotstuff::SimpleHotStuff;

use crate::block_tree::BlockTree;
use quorate_types::{Block, Certificate, Subject};
use std::sync::Arc;

pub use crate::views::{Candidate, Refusal};

/// A protocol of the chained family.
pub trait Rules: Send + 'static {
    /// Its name.
    const NAME: &'static str;
    /// How many blocks in consecutive views must be certified before the first of them is committed.
    const CHAIN_LENGTH: usize;
    /// Whether a timeout is signed together with the whole highest certificate, and not only with its view.
    const TIMEOUTS_CARRY_CERTIFICATES: bool;

    /// Whether to vote for a block. That a replica votes once a view, in ascending views, is not asked here.
    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal>;

    /// What a replica is locked on when it knows `certified` to be certified.
    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject>;

    /// The highest block that is committed when `certified` is certified.
    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>>;

    /// The certificate on which a leader builds, of the highest it knows and the evidence that its view has begun.
    fn extends<'a>(high: &'a Certificate, _evidence: Option<&'a Certificate>) -> &'a Certificate {
        high
    }
}

/// The block that `block` extends, if both are of consecutive views.
pub(super) fn consecutive_parent<'a>(block: &Block, tree: &'a BlockTree) -> Option<&'a Arc<Block>> {
    tree.parent(block).filter(|parent| parent.view.next() == block.view)
}

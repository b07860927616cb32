//! What the chained protocols differ in: when to vote, what to lock, when to commit, what a view change carries.
//!
//! Rules are pure. They look at the tree and answer; the engine acts. A new protocol is a file like its neighbours here, and a line in
//! [`every_protocol`](crate::every_protocol).

macro_rules! declare {
    ([] chained { $($file:ident: $rules:ident,)+ } $($others:tt)*) => {
        $(pub mod $file;)+
        $(pub use $file::$rules;)+
    };
}
crate::every_protocol!((declare));

use crate::block_tree::BlockTree;
use crate::facts::Facts;
use quorate_types::{Block, Certificate, Subject, View};
use std::sync::Arc;

pub use crate::views::{Candidate, Refusal};

/// A protocol of the chained family.
pub trait Rules: Send + 'static {
    /// What it is.
    const FACTS: Facts;

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

    /// Whether a leader of `view` waits for a certificate higher than the highest that it knows, for as long as a message takes at most
    /// (`max_delay_ms`). Nobody waits unless the paper says so.
    fn awaits_higher(_view: View, _high: &Certificate) -> bool {
        false
    }
}

/// The block that `block` extends, if both are of consecutive views.
pub(super) fn consecutive_parent<'a>(block: &Block, tree: &'a BlockTree) -> Option<&'a Arc<Block>> {
    tree.parent(block).filter(|parent| parent.view.next() == block.view)
}

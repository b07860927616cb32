//! HotStuff-2: Malkhi, Nayak, "HotStuff-2: optimal two-phase responsive BFT", 2023, in its pipelined form. The rank of
//! a certificate in the paper is its view here.
//!
//! Timeouts start a view without proving that no replica holds a higher lock. A leader without a certificate of the
//! previous view therefore waits one message delay: by then it has heard the highest lock of any honest replica, and
//! extends it.

use super::{Candidate, Refusal, Rules, consecutive_parent};
use crate::data::block_tree::BlockTree;
use crate::protocols::facts::{Bond, Facts, Shape};
use quorate_types::{Block, Certificate, Domain, Subject, View};
use std::sync::Arc;

/// Two-chain commit, lock on the highest certificate; the leader waits after a timeout.
pub struct HotStuff2;

impl Rules for HotStuff2 {
    const FACTS: Facts = Facts {
        name: "hotstuff-2",
        title: "HotStuff-2",
        essence: "Two blocks in consecutive views with QCs commit the first of them, and a replica is locked on the \
                  highest QC that it knows. It votes if the proposal's QC is of no earlier view. After a failed view \
                  the leader waits for the highest lock, as long as a message takes (max_delay_ms), unless it has the \
                  QC of that view.",
        shape: Shape::Chain(2),
        bound_by: Bond::LockedView,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        shows_votes: true,
    };

    fn may_vote(candidate: Candidate<'_>, _tree: &BlockTree) -> Result<(), Refusal> {
        // Vote: the certificate in the block ranks no lower than the lock.
        if candidate.block.justify.view() >= candidate.lock.view {
            Ok(())
        } else {
            Err("Vote: the justification ranks below the lock")
        }
    }

    fn lock_after(certified: &Block, _tree: &BlockTree) -> Option<Subject> {
        Some(certified.subject(Domain::Vote)) // Lock: the highest certificate
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        consecutive_parent(certified, tree).cloned() // Commit: certificates of two consecutive views
    }

    fn awaits_higher(view: View, high: &Certificate) -> bool {
        high.view().next() != view // Enter: at once with the certificate of the previous view, else after Δ
    }
}

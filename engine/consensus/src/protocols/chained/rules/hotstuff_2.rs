//! HotStuff-2: Malkhi, Nayak, "HotStuff-2: optimal two-phase responsive BFT", 2023, in its pipelined form. The rank of
//! a certificate in the paper is its view here.
//!
//! **Safety.** If a block B of view v commits, a quorum voted in v+1 for a block on its certificate, and each of these
//! votes raised the voter's lock to view v. Any later quorum shares an honest replica with this one, which votes for no
//! block whose certificate ranks below v. By induction over views, every block certified after v+1 extends B: it
//! contains the certificate of B, the only one of v, or the certificate of a block that extends B. Other ways of
//! raising locks are not needed for safety. Timely certificates, of the current view, raise them too, so that a leader
//! cannot pass over a block that all know to be certified.
//!
//! **Liveness.** Timeouts start a view without proving that no replica holds a higher lock. A leader without a
//! certificate of the previous view therefore waits two message delays, one for timeouts to arrive and one for answers:
//! by then it has received the highest lock of any honest replica, and extends it (the argument is in
//! `engine/locks.rs`). So locks must not rise later. A certificate that a faulty replica withheld and then sends to a
//! single other replica is *late* if that replica has timed out of the certificate's view or is in a later one: it
//! raises the highest known certificate, but no lock.

use super::{Candidate, Refusal, Rules, consecutive_parent};
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use quorate_types::{Block, Certificate, Domain, Subject, View};
use std::sync::Arc;

/// Two-chain commit, lock on the highest certificate; the leader waits after a timeout.
pub struct HotStuff2;

impl Rules for HotStuff2 {
    const FACTS: Facts = Facts {
        name: "hotstuff-2",
        title: "HotStuff-2",
        essence: "Two blocks in consecutive views with QCs commit the first of them, and a replica is locked on the \
                  highest QC that it voted on or learnt in time. It votes if the proposal's QC is of no earlier view. \
                  After a failed view the leader waits for the highest lock, twice as long as a message takes \
                  (max_delay_ms), unless it has the QC of that view.",
        shape: Shape::Chain(2),
        bound_by: Bond::LockedView,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 2, // Enter: for a timeout to arrive and the answer to return
        shows_votes: true,
        repairs_losses: true,
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
        Some(certified.subject(Domain::Vote)) // Lock: the highest certificate, if timely
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        consecutive_parent(certified, tree).cloned() // Commit: certificates of two consecutive views
    }

    fn awaits_higher(view: View, high: &Certificate) -> bool {
        high.view().next() != view // Enter: at once with the certificate of the previous view, else after 2Δ
    }
}

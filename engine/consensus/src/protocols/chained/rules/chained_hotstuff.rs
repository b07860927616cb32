//! Chained HotStuff: Yin, Malkhi, Reiter, Golan-Gueta, Abraham, "HotStuff: BFT consensus with linearity and
//! responsiveness", PODC 2019, algorithm 3 (with safeNode of algorithm 1, lines 25-27).
//!
//! In the paper b'' is the block with a newly formed certificate, b' its parent, b its grandparent.

use super::{Candidate, Refusal, Rules, consecutive_parent};
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use crate::protocols::basic::rules::safe_node;
use quorate_types::{Block, Subject};
use std::sync::Arc;

/// Three-chain commit, lock on the head of a two-chain.
pub struct ChainedHotStuff;

impl Rules for ChainedHotStuff {
    const FACTS: Facts = Facts {
        name: "chained-hotstuff",
        title: "Chained HotStuff",
        essence: "Replicas vote for one block in each view; n-f votes are its QC, which the next block carries. A \
                  block is locked when its child has a QC, and committed when it is the first of three in consecutive \
                  views that all have one.",
        shape: Shape::Chain(3),
        bound_by: Bond::LockedBlock,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: true,
    };

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        safe_node(candidate, tree) // alg. 1, lines 25-27, as in alg. 3, line 11
    }

    fn lock_after(certified: &Block, _tree: &BlockTree) -> Option<Subject> {
        Some(certified.justify.subject) // alg. 3, line 18: b' forms a two-chain under b''
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        let second = consecutive_parent(certified, tree)?; // b''.parent = b', with no dummy node between
        let first = consecutive_parent(second, tree)?; // b'.parent = b, likewise
        Some(first.clone()) // alg. 3, line 20: b is decided
    }
}

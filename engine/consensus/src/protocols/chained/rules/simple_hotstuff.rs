//! Simplified chained HotStuff: Jehl, "Formal verification of HotStuff", FORTE 2021, section 4.
//!
//! The safety rule compares views only, so a replica can vote without knowing a block's ancestors.

use super::{Candidate, Refusal, Rules};
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use quorate_types::{Block, Subject};
use std::sync::Arc;

/// Three-chain commit; vote if the parent is at least as recent as the lock.
pub struct SimpleHotStuff;

impl Rules for SimpleHotStuff {
    const FACTS: Facts = Facts {
        name: "simple-hotstuff",
        title: "Simplified HotStuff",
        essence: "Chained HotStuff without ancestry in the safety rule: a replica votes if the parent's view is at \
                  least its lock's. A block is locked when its child has a QC, and committed when its grandchild, two \
                  views above it, has one.",
        shape: Shape::Chain(3),
        bound_by: Bond::LockedView,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: true,
    };

    fn may_vote(candidate: Candidate<'_>, _tree: &BlockTree) -> Result<(), Refusal> {
        // Rule 1, votes in increasing views, is enforced by `Safety`. Rule 2: the parent's view is at least the locked
        // block's.
        if candidate.block.justify.view() >= candidate.lock.view {
            Ok(())
        } else {
            Err("rule 2: the parent is older than the lock")
        }
    }

    fn lock_after(certified: &Block, _tree: &BlockTree) -> Option<Subject> {
        Some(certified.justify.subject) // the head of the two-chain
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        // Commit rule: the certified block's grandparent, if its view is exactly two lower.
        let first = tree.parent(tree.parent(certified)?)?;
        (first.view.next().next() == certified.view).then(|| first.clone())
    }
}

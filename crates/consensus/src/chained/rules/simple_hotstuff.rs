//! Simplified chained HotStuff: Jehl, "Formal verification of HotStuff", FORTE 2021, section 4.
//!
//! The safety rule compares views only, so that a replica needs no ancestry to decide on a vote.

use super::{Candidate, Refusal, Rules};
use crate::block_tree::BlockTree;
use quorate_types::{Block, Subject};
use std::sync::Arc;

/// Three-chain commit; vote if the parent is not older than the lock.
pub struct SimpleHotStuff;

impl Rules for SimpleHotStuff {
    const NAME: &'static str = "simple-hotstuff";
    const CHAIN_LENGTH: usize = 3;
    const TIMEOUTS_CARRY_CERTIFICATES: bool = false;

    fn may_vote(candidate: Candidate<'_>, _tree: &BlockTree) -> Result<(), Refusal> {
        // Rule 1, votes in increasing views, is the safety object's.
        // Rule 2: the parent's view is at least the locked block's.
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
        // Commit rule: the certified block's grandparent, if its view is exactly two less.
        let first = tree.parent(tree.parent(certified)?)?;
        (first.view.next().next() == certified.view).then(|| first.clone())
    }
}

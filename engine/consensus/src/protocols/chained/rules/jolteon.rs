//! Jolteon: Gelashvili, Kokoris-Kogias, Sonnino, Spiegelman, Xiang, "Jolteon and Ditto: network-adaptive efficient
//! consensus with asynchronous fallback", FC 2022, figure 2. The paper's rounds are views here.

use super::{Candidate, Refusal, Rules, consecutive_parent};
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use quorate_types::{Block, Domain, Subject};
use std::sync::Arc;

/// Two-chain commit; a timeout certificate bounds the age of the extended certificate.
pub struct Jolteon;

impl Rules for Jolteon {
    const FACTS: Facts = Facts {
        name: "jolteon",
        title: "Jolteon",
        essence: "Two blocks in consecutive views with QCs commit the first of them. After a failed view a leader \
                  shows a TC, which says how high the QCs of n-f replicas were; replicas vote if the proposal builds \
                  on a QC at least that high.",
        shape: Shape::Chain(2),
        bound_by: Bond::Timeouts,
        timeouts_carry_certificates: false,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: true,
    };

    fn may_vote(candidate: Candidate<'_>, _tree: &BlockTree) -> Result<(), Refusal> {
        let Candidate { block, evidence, .. } = candidate;
        let parent = block.justify.view();
        if parent.next() == block.view {
            return Ok(()); // Vote, condition 3(a): r = qc.r + 1
        }
        let timeouts = evidence.filter(|evidence| evidence.subject.domain == Domain::Timeout);
        let timeouts = timeouts.ok_or("Vote 3: neither r = qc.r + 1 nor a timeout certificate")?;
        let highest = timeouts.highest_attached_view().ok_or("Vote 3(b): the timeout certificate names no qc_high")?;
        // Vote, condition 3(b): r = tc.r + 1 and qc.r >= max { qc_high.r in tc }
        if timeouts.view().next() == block.view && parent >= highest {
            Ok(())
        } else {
            Err("Vote 3(b): qc.r is below a qc_high.r of the timeout certificate")
        }
    }

    fn lock_after(certified: &Block, _tree: &BlockTree) -> Option<Subject> {
        Some(certified.subject(Domain::Vote)) // Lock: qc_high, a one-chain
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        consecutive_parent(certified, tree).cloned() // Commit: two certified blocks B, B' with r' = r + 1
    }
}

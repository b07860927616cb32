//! Fast-HotStuff: Jalalzai, Niu, Feng, Gai, "Fast-HotStuff: a fast and resilient HotStuff protocol", 2020, algorithms 2
//! and 4.
//!
//! After a timeout the leader sends an aggregate certificate: n-f signed NEW-VIEW messages with the senders' highest
//! certificates. It must extend the highest of these, which replaces the lock.

use super::{Candidate, Refusal, Rules, consecutive_parent};
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use quorate_types::{Block, Certificate, Domain, Subject};
use std::sync::Arc;

/// Two-chain commit, no lock, aggregate certificates.
pub struct FastHotStuff;

impl Rules for FastHotStuff {
    const FACTS: Facts = Facts {
        name: "fast-hotstuff",
        title: "Fast-HotStuff",
        essence: "Two blocks in consecutive views with QCs commit the first of them, and nobody ever locks anything. \
                  After a failed view a leader shows an aggregate (AggQC) of the n-f highest QCs and must build on \
                  the highest: that replaces the lock.",
        shape: Shape::Chain(2),
        bound_by: Bond::Timeouts,
        timeouts_carry_certificates: true,
        optimistic_proposals: false,
        awaited_delays: 0,
        shows_votes: true,
        repairs_losses: true,
    };

    fn may_vote(candidate: Candidate<'_>, _tree: &BlockTree) -> Result<(), Refusal> {
        let Candidate { block, evidence, .. } = candidate;
        if block.justify.view().next() == block.view {
            return Ok(()); // alg. 2, safeBlock: b.viewNumber = qc.viewNumber + 1
        }
        let aggregate = evidence.filter(|evidence| evidence.subject.domain == Domain::Timeout);
        let aggregate = aggregate.ok_or("safeBlock: neither the certificate of the view before nor an aggregate")?;
        let highest =
            aggregate.highest_attached_certificate().ok_or("safeBlock: the aggregate carries no certificate")?;
        // alg. 2, safeBlock: b.viewNumber = aggQC.viewNumber + 1 and b extends highQC of aggQC
        let follows = aggregate.view().next() == block.view && highest.subject == block.justify.subject;
        if follows { Ok(()) } else { Err("safeBlock: does not extend the highest certificate of the aggregate") }
    }

    fn lock_after(_certified: &Block, _tree: &BlockTree) -> Option<Subject> {
        None
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        consecutive_parent(certified, tree).cloned() // alg. 4: a two-chain in consecutive views
    }

    fn extends<'a>(high: &'a Certificate, evidence: Option<&'a Certificate>) -> &'a Certificate {
        evidence.and_then(Certificate::highest_attached_certificate).unwrap_or(high) // alg. 4, line 6
    }
}

//! Simple Moonshot: Doidge, Ramesh, Shrestha, Tobkin, "Moonshot: optimizing chain-based rotating leader BFT via
//! optimistic proposals", DSN 2024 (arXiv 2401.01791). The delays are those of its abstract; our rule labels were not
//! compared with its text. The rank of a certificate in the paper is its view here.
//!
//! The leader of the next view proposes as soon as it has voted in this one, so a block follows its parent after one
//! message delay instead of two, and is committed after three instead of four. The rules are HotStuff-2's, which also
//! waits for the highest lock after a timeout, and one more: the vote for an optimistic block.
//!
//! **Safety.** A replica votes once per view, in ascending views, for an optimistic block or for another one. It votes
//! for an optimistic block only when it is locked on its parent, which a quorum then certified in the previous view. So
//! each vote is for a block whose parent is certified and ranks no lower than the voter's lock, and raises the lock to
//! it, as in HotStuff-2, whose argument applies. It does not matter who sent the certificate, nor that the leader did
//! not have it.
//!
//! **Liveness.** The leader of a view v that began with timeouts waits before it proposes, as in HotStuff-2: by then it
//! has received every certificate on which an honest replica is locked. If this is the certificate of its optimistic
//! block's parent, the optimistic proposal remains valid. The leader then sends the certificate to the others, as their
//! vote needs the lock. Certificates of v-1 that arrive after v-1 timed out are late and do not lock, unless the leader
//! of v sends them: it extends nothing else. No honest replica has voted for another block of v. If the leader receives
//! no such certificate, no honest replica is locked on the parent, so none has voted for the optimistic block, and the
//! leader proposes again, on the highest certificate.
//!
//! Differences from the paper: the leader does not repeat its optimistic block as a normal proposal when its view
//! begins with the certificate of the parent, and replicas do not send each certificate to all. All replicas collect
//! the votes themselves. A replica that lacks some finds the certificate in the next optimistic proposal, or receives
//! it from the others after half of their view, or when it times out.

use super::{Candidate, HotStuff2, Refusal, Rules};
use crate::data::block_tree::BlockTree;
use crate::facts::{Bond, Facts, Shape};
use quorate_types::{Block, Certificate, Subject, View};
use std::sync::Arc;

/// Two-chain commit, lock on the highest certificate; the next leader proposes on an uncertified block.
pub struct SimpleMoonshot;

impl Rules for SimpleMoonshot {
    const FACTS: Facts = Facts {
        name: "simple-moonshot",
        title: "Simple Moonshot",
        essence: "Replicas send their votes to all. The leader of the next view proposes on a block as soon as it has \
                  voted for it, and replicas vote for that proposal once they are locked on its parent. Two blocks in \
                  consecutive views with QCs commit the first of them. After a failed view the leader waits for the \
                  highest lock and proposes again, unless its optimistic proposal stands.",
        shape: Shape::Chain(2),
        bound_by: Bond::LockedView,
        timeouts_carry_certificates: false,
        optimistic_proposals: true,
        awaited_delays: 2, // Propose: 2Δ, for a timeout to arrive and the answer to return
        shows_votes: true,
        repairs_losses: true,
    };

    fn may_vote(candidate: Candidate<'_>, tree: &BlockTree) -> Result<(), Refusal> {
        let Candidate { block, lock, .. } = candidate;
        if !block.is_optimistic() {
            return HotStuff2::may_vote(candidate, tree); // Normal vote: the certificate ranks no lower than the lock
        }
        // Optimistic vote: lock = C_(v-1)(B_(k-1)), and B_k extends B_(k-1).
        if lock == block.justify.subject && lock.view.next() == block.view {
            Ok(())
        } else {
            Err("Optimistic vote: the lock is not on the parent, certified in the previous view")
        }
    }

    fn lock_after(certified: &Block, tree: &BlockTree) -> Option<Subject> {
        HotStuff2::lock_after(certified, tree) // Lock: the highest certificate
    }

    fn commits(certified: &Block, tree: &BlockTree) -> Option<Arc<Block>> {
        HotStuff2::commits(certified, tree) // Commit: certificates of two consecutive views
    }

    fn awaits_higher(view: View, high: &Certificate) -> bool {
        HotStuff2::awaits_higher(view, high) // Propose: immediately with the certificate of the previous view
    }
}

//! PBFT: Castro and Liskov, "Practical Byzantine fault tolerance", OSDI 1999, and "Practical Byzantine fault tolerance
//! and proactive recovery", TOCS 2002. In the variant with signatures a view change contains proofs; in the variant for
//! MACs it contains claims. They differ only in [`view_change_evidence`].
//!
//! A block is proposed for a *slot*, extends no other block, and is agreed on independently. The primary sends
//! PRE-PREPARE, all replicas send PREPARE, and a replica with a quorum of PREPAREs sends COMMIT; a quorum of COMMITs
//! decides. The slots of a window are agreed on in any order and executed in slot order. A primary that delays commands
//! is replaced: replica `v - 1 mod n` leads view `v`.
//!
//! Differences from the paper, and the reasons:
//!
//! - The primary's signed PRE-PREPARE is its PREPARE. A quorum of PREPAREs prepares a slot, whether or not the
//!   primary's is among them: the proof is as strong, since quorums still intersect, and tolerates the loss of one of
//!   the primary's messages.
//! - A COMMIT is not signed: the channel authenticates it, and it is never shown to a third party.
//!   [`Quorum`](quorate_types::Quorum) determines the size of a quorum, so n = 3f+1+x and 5f+1 work.
//! - A NEW-VIEW contains neither the PRE-PREPAREs that follow from its view changes nor proofs that are irrelevant to
//!   the selection: every replica computes the selection ([`selection`], [`sets`]) and sends PREPARE.
//! - Peers inform a lagging replica about decided blocks (`Decided`). It accepts a block reported by f+1 of them, and
//!   fetches it by its digest. This works as long as the peers keep their executed blocks (`retained_blocks`,
//!   `retained_bytes`); a replica that lags further fetches the state of a checkpoint (ADR 013).

mod catch_up;
pub mod claims;
mod early;
pub mod engine;
mod held;
mod inquiry;
pub mod log;
pub mod message;
#[cfg(feature = "laboratory")]
pub mod phases;
mod primary;
mod recall;
mod recovery;
pub mod selection;
pub mod sets;
mod timing;
mod view_change;
pub mod view_change_evidence;

//! PBFT: Castro and Liskov, "Practical Byzantine fault tolerance", OSDI 1999, and "Practical Byzantine fault tolerance and proactive
//! recovery", TOCS 2002; in the variant with signatures, in which a view change carries proofs.
//!
//! A block is proposed for a *slot*, extends no other block, and is agreed on by itself: the primary says PRE-PREPARE, all say
//! PREPARE, and who sees a quorum of these says COMMIT; a quorum of those decides. Slots of a window are agreed on in any order and
//! executed in theirs. A primary that lets commands wait is replaced: view `v` is led by replica `v - 1 mod n`.
//!
//! Where this differs from the paper, and why:
//!
//! - The primary's signed PRE-PREPARE is its PREPARE, and a slot is prepared by a quorum of PREPAREs, its own among them or not: it
//!   proves as much, by the same intersection of quorums, and lets one of the primary's messages get lost.
//! - A COMMIT is not signed (the channel authenticates it; nobody shows it to a third), and one quorum is of whatever size
//!   [`Quorum`](quorate_types::Quorum) says, so that n = 3f+1+x and 5f+1 work.
//! - A NEW-VIEW does not repeat the PRE-PREPAREs that follow from its view changes, nor proofs that decide nothing: everybody
//!   computes the selection ([`selection`]) and says PREPARE.
//! - Who lacks a decided slot is told by others (`Decided`), and believes f+1 who say the same; the block is then fetched by its
//!   digest. This works as long as the others keep their executed blocks (`retained_blocks`, `retained_bytes`); whoever lags
//!   further behind needs a snapshot, and waits until there are any.

mod catch_up;
mod early;
pub mod engine;
pub mod log;
pub mod message;
mod recovery;
pub mod selection;
mod view_change;

use crate::config::Config;
use crate::replica::Replica;
use engine::PbftEngine;
use quorate_types::{ClusterId, Quorum, ReplicaId};

/// A replica of PBFT.
pub type PbftReplica = Replica<PbftEngine>;

/// A replica.
pub fn replica(config: Config, quorum: Quorum, cluster: ClusterId, me: ReplicaId, salt: u64) -> PbftReplica {
    let engine = PbftEngine::new(&config, &cluster);
    Replica::new(engine, config, quorum, cluster, me, salt)
}

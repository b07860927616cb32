//! Basic HotStuff: Yin, Malkhi, Reiter, Golan-Gueta, Abraham, "HotStuff: BFT consensus with linearity and responsiveness",
//! PODC 2019, algorithms 1 and 2. One block a view, in four phases: prepare, pre-commit, commit, decide.
//!
//! What we do otherwise, and why it is sound:
//!
//! - **A view begins with a certificate of the view before**: a commitQC, or n-f timeouts. The paper has the leader wait for n-f
//!   NEW-VIEW messages with each sender's prepareQC, so that among them is one as high as any lock that it may meet.
//!   Whoever enters by commitQC(v-1) needs to ask nobody. No lock is of view v or above, since nothing was prepared there yet; a
//!   lock of view v-1 is on the block of commitQC(v-1), since a view has one prepareQC at most, and the new block extends it
//!   (safeNode, line 26); a lower lock is older than the certificate that the new block carries (line 27).
//!   After a timeout of v-1 the n-f timeouts are the NEW-VIEW messages: each carries the sender's highest prepareQC, and its view
//!   under the signature. Who is locked in view w knows that n-f pre-commit votes were cast in w by replicas with prepareQC(w).
//!   One of them at least is honest and among the n-f timeouts, and as an honest replica signs no vote of any phase in a view
//!   that it gave up, its timeout came later and speaks of w or above.
//! - **A certificate of a later phase stands in for a prepareQC that got lost.** A precommitQC or commitQC of a block shows that its
//!   prepareQC was seen by a quorum; where a replica knows the one and not the other, it builds on what it knows.
//! - **A commitQC locks as its precommitQC would have**, if that one got lost.
//! - **Certificates speak for themselves**, whoever shows them; the paper takes them from the leader only.

pub mod engine;
pub mod message;
pub mod rules;

use crate::config::Config;
use crate::replica::Replica;
use crate::views::ViewEngine;
pub use engine::BasicHotStuff;
use quorate_types::{ClusterId, Quorum, ReplicaId};

/// A replica of basic HotStuff.
pub type BasicReplica = Replica<ViewEngine<BasicHotStuff>>;

/// A replica that has heard nothing yet.
pub fn replica(config: Config, quorum: Quorum, cluster: ClusterId, me: ReplicaId, salt: u64) -> BasicReplica {
    let engine = ViewEngine::new(&config, &cluster);
    Replica::new(engine, config, quorum, cluster, me, salt)
}

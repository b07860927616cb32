//! Missing bundles of waiting blocks: which of them are on their way, and when to request them.

use super::Store;
use quorate_types::{Digest, ReplicaId, Time};
use std::time::Duration;

impl Store {
    /// Chooses a peer by digest, to distribute requests evenly.
    pub(super) fn any_peer(&self, digest: &Digest) -> ReplicaId {
        ReplicaId((digest.prefix() % self.quorum.replicas() as u64) as u16)
    }

    /// Marks a waiting block as rooted, because its parent is in the tree or rooted. Requests its missing bundles and
    /// those of the waiting blocks on top of it: after a while for blocks that arrived at `now`, at once for the
    /// others.
    ///
    /// The bundles of a proposal are probably on their way; those of a block that had to be fetched are not.
    pub(super) fn root(&mut self, now: Option<Time>, digest: Digest) {
        let mut rooted = vec![digest];
        while let Some(digest) = rooted.pop() {
            let Some(waiting) = self.waiting.get_mut(&digest).filter(|waiting| !waiting.is_rooted) else { continue };
            waiting.is_rooted = true;
            let wait = if waiting.is_proposal { self.lateness.wait() } else { self.delay };
            let due = now.map_or(Time(0), |now| now + wait);
            for bundle in waiting.block.payload.iter().filter(|bundle| !self.pool.contains(bundle)) {
                self.wants.add_bundle(due, *bundle, waiting.block.height, waiting.source);
            }
            rooted.extend(self.children.get(&digest).into_iter().flatten());
        }
    }

    /// Records that a bundle arrived unrequested, from a client or from its spreader.
    pub fn on_arrival(&mut self, now: Time, bundle: &Digest) {
        self.lateness.on_arrival(now, bundle);
    }

    /// Returns whether a bundle that was missing when its block arrived has been fetched, and has not arrived
    /// unrequested yet.
    pub fn expects(&self, bundle: &Digest) -> bool {
        self.lateness.expects(bundle) && self.pool.contains(bundle)
    }

    /// Returns how long missing bundles of a proposal may take to arrive before they are requested.
    pub fn fetch_wait(&self) -> Duration {
        self.lateness.wait()
    }
}

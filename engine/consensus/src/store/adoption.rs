//! Start on a committed block whose state comes from a snapshot or from peers.

use super::{Store, Waiting};
use crate::recovery::frontier::Frontier;
use crate::voting::leader::LeaderElection;
use quorate_types::{Block, Digest, Height, Time};
use std::sync::Arc;

impl Store {
    /// Replaces everything committed so far by the committed block `digest`, whose state comes from a snapshot. The
    /// store does not have the block itself.
    pub fn begin_on(&mut self, height: Height, digest: Digest) {
        self.begin_above(height, digest);
        self.pool.begin_again([]);
        self.decide_again(height);
    }

    fn begin_above(&mut self, height: Height, digest: Digest) -> Vec<(Arc<Block>, bool)> {
        self.ledger.begin_at(height);
        self.pool.on_commit(height);
        self.kept.on_commit(height);
        self.absence.on_commit(height);
        self.absence.forget_up_to(height);
        self.tip = digest;
        self.aside.clear();
        self.tree.begin_on(height, digest)
    }

    /// Starts from the frontier of a fetched state, like [`Store::begin_on`], but keeps later blocks. Appends the
    /// blocks that become whole to `whole`.
    pub fn adopt(&mut self, now: Time, frontier: Frontier, leaders: &LeaderElection, whole: &mut Vec<Digest>) {
        let (height, digest) = (frontier.height(), frontier.head().digest());
        let above = self.begin_above(height, digest);
        frontier.into_blocks().into_iter().for_each(|(block, candidates)| self.recall_ancestor(block, candidates));
        let mut waiting: Vec<Waiting> = self.waiting.drain().map(|(_, waiting)| waiting).collect();
        waiting.retain(|waiting| waiting.block.height > height);
        waiting.sort_by_key(|waiting| (waiting.block.height, waiting.block.digest()));
        self.children.clear();
        self.users.clear();
        self.wants.clear_bundles();
        let kept = above.iter().map(|(block, _)| block).chain(waiting.iter().map(|waiting| &waiting.block));
        self.pool.begin_again(kept.flat_map(|block| &block.payload));
        for (block, journaled) in above {
            let digest = block.digest();
            self.offer(now, block, self.me, leaders, whole);
            if journaled {
                self.tree.set_journaled(&digest);
            }
        }
        for Waiting { block, source, is_proposal, .. } in waiting {
            self.take(now, block, source, is_proposal, leaders, whole);
        }
        self.decide_again(height);
        self.forget_overtaken();
    }
}

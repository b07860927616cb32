//! Requests for blocks that a certificate names, and for parents of optimistic proposals, which perhaps no
//! certificate will ever name.

use super::Store;
use quorate_types::{Block, Digest, Height, ReplicaId, Time, View};

impl Store {
    /// Requests a block that a certificate names, after `fetch_delay_ms`, because its proposal may be on the way.
    pub fn want_block(&mut self, now: Time, digest: Digest, height: Height, source: ReplicaId) {
        self.want_block_at(now + self.delay, digest, height, source);
    }

    /// Requests a block at once, because it was proposed long ago and will not arrive unrequested.
    pub fn fetch_block(&mut self, now: Time, digest: Digest, height: Height, source: ReplicaId) {
        self.want_block_at(now, digest, height, source);
    }

    /// A certified block that is waiting has certified ancestors, and those that are missing are requested too.
    fn want_block_at(&mut self, due: Time, mut digest: Digest, mut height: Height, source: ReplicaId) {
        while let Some(waiting) = self.waiting.get_mut(&digest) {
            let news = std::mem::take(&mut waiting.is_proposal);
            if news && self.certifies {
                self.released.push(digest);
            }
            if !news || !waiting.lacks_parent {
                return;
            }
            (digest, height) = (waiting.block.parent(), Height(waiting.block.height.0 - 1));
        }
        if height <= self.committed() || self.tree.contains(&digest) {
            return;
        }
        self.supposed.remove(&digest);
        self.wants.add_block(due, digest, height, source);
    }

    /// Requests a block that view changes claim to be prepared, without a proof. The store treats it as a proposal,
    /// because perhaps only f+1 replicas voted for it and no honest one of them has its bundles.
    pub fn want_claimed_block(&mut self, now: Time, digest: Digest, height: Height, source: ReplicaId) {
        if !self.certifies {
            return self.want_block(now, digest, height, source);
        }
        let known = self.tree.contains(&digest) || self.waiting.contains_key(&digest) || self.wants.has_block(&digest);
        if height > self.committed() && !known {
            self.supposed.insert(digest);
            self.wants.add_block(now + self.delay, digest, height, source);
        }
    }

    /// Requests the missing parent of an optimistic proposal from its proposer, who claims to have voted for it. The
    /// proposer may have invented the parent, so the request ends with the view of the proposal.
    pub(super) fn suppose_parent(&mut self, now: Time, block: &Block, source: ReplicaId) {
        let parent = block.parent();
        self.ahead.insert((block.view, block.digest()), parent);
        if !self.waiting.contains_key(&parent) && !self.wants.has_block(&parent) {
            self.supposed.insert(parent);
            self.wants.add_block(now + self.delay, parent, Height(block.height.0 - 1), source);
        }
    }

    pub(super) fn forget_want(&mut self, digest: &Digest) {
        self.supposed.remove(digest);
        self.wants.remove_block(digest);
    }

    /// Drops the optimistic proposals for views before `view` whose parents are missing and not known to be certified,
    /// together with the requests for these parents. It is too late to vote for these proposals, and their parents may
    /// never arrive.
    pub fn abandon_before(&mut self, view: View) {
        while let Some(first) = self.ahead.first_entry().filter(|first| first.key().0 < view) {
            let ((_, digest), parent) = first.remove_entry();
            if self.waiting.get(&digest).is_some_and(|waiting| waiting.is_proposal && waiting.lacks_parent) {
                self.give_up(&digest);
            }
            self.abandon_parent(&parent);
        }
    }

    /// Ends the request for a block that only optimistic proposals named, once none of them waits for it.
    fn abandon_parent(&mut self, parent: &Digest) {
        if self.children.get(parent).is_some_and(Vec::is_empty) {
            self.children.remove(parent);
        }
        if self.supposed.contains(parent) && !self.children.contains_key(parent) {
            self.forget_want(parent);
        }
    }
}

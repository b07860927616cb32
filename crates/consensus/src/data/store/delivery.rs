//! Blocks that are final before all their bundles are here, which happens only if leaders propose certified bundles.
//!
//! The protocol goes on without the bundles; the committed height follows as they arrive.

use super::Store;
use crate::data::batches::{Batch, Batches, Cover};
use crate::data::block_limits::Load;
use crate::seam::Envelope;
use crate::voting::leader::LeaderElection;
use quorate_types::{Block, Bundle, Digest, Height, Time};
use std::sync::Arc;

/// A missing bundle of a block in the tree is requested after this many times `fetch_delay_ms`. It delays no vote, and
/// is probably on its way from its spreader.
const ABSENT_DELAYS: u32 = 10;
/// Number of sweeps, one per [`SWEEP_INTERVAL`](crate::replica), for which an uncertified bundle is kept.
const MAX_SWEEPS: u64 = 60;

impl Store {
    /// Returns the blocks that are not whole without a bundle.
    pub fn blocks_waiting_for(&self, bundle: &Digest) -> &[Digest] {
        self.users.get(bundle).map_or(&[], Vec::as_slice)
    }

    /// Notes that a block and its ancestors are final. Returns false if that contradicts what was final before.
    pub fn decide(&mut self, digest: &Digest) -> bool {
        let Some(path) = self.tree.path_to(digest) else { return false };
        let Some(block) = path.last() else { return true };
        if let Some((height, last)) = self.decided {
            if block.height <= height {
                let decided = self.tree.get(&last);
                return decided.is_some_and(|decided| self.tree.extends(decided, *digest, block.height));
            }
            if !self.tree.extends(block, last, height) {
                return false;
            }
        }
        self.decided = Some((block.height, *digest));
        self.tree.decide(&path);
        true
    }

    /// Returns the final blocks above the committed one whose bundles are here, up to the first one with a missing
    /// bundle, oldest first.
    pub fn deliverable(&mut self) -> Vec<Arc<Block>> {
        let Some((_, digest)) = self.decided else { return Vec::new() };
        let mut path = self.tree.path_to(&digest).expect("what is final extends the committed block");
        let whole = path.iter().take_while(|block| self.first_absent(block).is_none()).count();
        self.stuck = path.get(whole).and_then(|block| self.first_absent(block));
        if whole == path.len() {
            self.decided = None;
        }
        path.truncate(whole);
        path
    }

    /// Returns whether the bundles of a final block are here. If not, [`Store::take_supplied`] tells when to ask again.
    pub fn is_deliverable(&mut self, block: &Block) -> bool {
        self.stuck = self.first_absent(block);
        self.stuck.is_none()
    }

    fn first_absent(&self, block: &Block) -> Option<Digest> {
        if !self.certifies {
            return None;
        }
        block.payload.iter().find(|bundle| self.pool.is_absent(bundle)).copied()
    }

    /// Returns whether the bundle has arrived for which the execution of final blocks waits. True once.
    pub fn take_supplied(&mut self) -> bool {
        self.stuck.take_if(|bundle| !self.pool.is_absent(bundle)).is_some()
    }

    /// Returns whether final blocks wait for bundles.
    pub fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Adds a batch, all of whose bundles are here. Returns false if its spreader has too many.
    pub fn list(&mut self, now: Time, batch: Arc<Batch>) -> bool {
        self.batches.add(now, batch)
    }

    /// Adds a batch with its verified certificate. Returns the number of commands that become pending. Appends the
    /// blocks that become whole to `whole`.
    pub fn cover(&mut self, now: Time, cover: Cover, leaders: &LeaderElection, whole: &mut Vec<Digest>) -> usize {
        let batch = cover.batch.clone();
        self.batches.cover(now, cover);
        let mut commands = 0;
        for entry in batch.entries() {
            match self.pool.contains(&entry.bundle) {
                true => commands += self.pool.certify(&entry.bundle),
                false => self.vouched_for(&entry.bundle, leaders, whole),
            }
        }
        commands
    }

    /// Lets the waiting blocks that lack a bundle go on without it, if a certificate shows that it can be fetched.
    fn vouched_for(&mut self, bundle: &Digest, leaders: &LeaderElection, whole: &mut Vec<Digest>) {
        let Some(load) = self.batches.vouch(bundle) else { return };
        for user in self.users.remove(bundle).unwrap_or_default() {
            self.supply_user(&user, load, leaders, whole);
        }
    }

    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Lets waiting blocks go on that turned out to be certified. Appends those that become whole to `whole`.
    pub fn release_certified(&mut self, leaders: &LeaderElection, whole: &mut Vec<Digest>) {
        for digest in std::mem::take(&mut self.released) {
            let Some(waiting) = self.waiting.get_mut(&digest) else { continue };
            waiting.lacks_bundles = 0;
            for bundle in &waiting.block.payload {
                if let Some(users) = self.users.get_mut(bundle) {
                    users.retain(|user| *user != digest);
                }
            }
            self.users.retain(|_, users| !users.is_empty());
            if let Some(block) = self.take_whole(&digest) {
                self.admit(block, leaders, whole);
            }
        }
    }

    /// Returns whether a missing bundle of a block need not be here for a vote: a certificate shows that it can be
    /// fetched. The certificate of a certified block is one: n-f replicas had its bundles or saw their certificates.
    fn vouch(&self, bundle: &Digest, is_proposal: bool) -> Option<Load> {
        if !self.certifies {
            return None;
        }
        if is_proposal { self.batches.vouch(bundle) } else { Some(Load::default()) }
    }

    /// Returns whether a bundle is neither here nor vouched for.
    pub(super) fn is_lacking(&self, bundle: &Digest, is_proposal: bool) -> bool {
        !self.pool.contains(bundle) && self.vouch(bundle, is_proposal).is_none()
    }

    /// Returns the bundles of a block that are missing and not vouched for, and the total load of the others.
    pub(super) fn look_at_payload(&self, block: &Block, is_proposal: bool) -> (Vec<Digest>, Load) {
        let (mut lacking, mut load) = (Vec::new(), Load::default());
        self.pool.warm(block.payload.iter().copied());
        for digest in &block.payload {
            match self.pool.load_of(digest).or_else(|| self.vouch(digest, is_proposal)) {
                Some(known) => load.add(known),
                None => lacking.push(*digest),
            }
        }
        (lacking, load)
    }

    /// Requests the missing bundles of blocks in the tree from replicas that hold them.
    pub fn want_absent(&mut self, now: Time) {
        let (me, quorum) = (self.me, self.quorum);
        for (bundle, height) in std::mem::take(&mut self.fresh_absent) {
            if self.pool.is_absent(&bundle) {
                let other = || self.any_peer(&bundle);
                let peer = self.batches.holder(&bundle).filter(|peer| peer.index() < quorum.replicas());
                let peer = peer.filter(|peer| *peer != me).unwrap_or_else(other);
                self.wants.add_bundle(now + self.delay * ABSENT_DELAYS, bundle, height, peer);
            }
        }
    }

    /// Drops batches that are no longer needed, and uncertified bundles after [`MAX_SWEEPS`] calls.
    pub fn sweep(&mut self, now: Time) {
        let pool = &self.pool;
        self.batches.sweep(now, |bundle| pool.is_waiting(bundle) || pool.is_absent(bundle));
        self.pool.sweep(MAX_SWEEPS);
    }

    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Returns the bundles of these blocks that arrived after their blocks were journaled.
    pub fn late_bundles(&self, blocks: &[Arc<Block>]) -> Vec<Bundle> {
        let named = blocks.iter().flat_map(|block| &block.payload).filter(|bundle| self.pool.came_late(bundle));
        named.filter_map(|bundle| self.pool.get(bundle).cloned()).collect()
    }

    /// Notes which bundles of a block in the tree are missing.
    pub(super) fn note_absent(&mut self, block: &Block) {
        if self.certifies {
            let absent = block.payload.iter().filter(|bundle| self.pool.is_absent(bundle));
            self.fresh_absent.extend(absent.map(|bundle| (*bundle, block.height)));
        }
    }

    /// Resumes from an adopted state at `height`: blocks above it that were final still are.
    pub(super) fn decide_again(&mut self, height: Height) {
        self.stuck = None;
        if let Some((_, digest)) = self.decided.take().filter(|(decided, _)| *decided > height)
            && self.tree.get(&digest).is_some()
        {
            self.decide(&digest);
        }
    }
}

/// Returns covers in messages of limited size.
pub fn in_messages<M>(covers: Vec<Cover>, max_covers: usize, max_bytes: usize) -> Vec<Envelope<M>> {
    let (mut messages, mut message, mut bytes) = (Vec::new(), Vec::new(), 0);
    for cover in covers {
        let size = cover.certificate.proof.len() + size_of_val(cover.batch.entries());
        if message.len() == max_covers || !message.is_empty() && bytes + size > max_bytes {
            messages.push(Envelope::Covers(std::mem::take(&mut message)));
            bytes = 0;
        }
        bytes += size;
        message.push(cover);
    }
    if !message.is_empty() {
        messages.push(Envelope::Covers(message));
    }
    messages
}

//! Blocks that become final before all their bundles have arrived, which happens only if leaders propose certified
//! bundles.
//!
//! The protocol continues without the bundles; the committed height follows as they arrive.

use super::Store;
use crate::data::batches::{Batch, Batches, Cover, Entry};
use crate::data::block_limits::Load;
use crate::seam::Envelope;
use crate::voting::leader::LeaderElection;
use quorate_types::{Block, Bundle, Digest, Height, ReplicaId, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Multiple of `fetch_delay_ms` after which a missing bundle of a block in the tree is requested. The bundle delays no
/// vote, and is probably on its way from its spreader.
const ABSENT_DELAYS: u32 = 10;
/// Number of sweeps, one per [`SWEEP_INTERVAL`](crate::replica), for which an uncertified bundle is kept.
const MAX_SWEEPS: u64 = 60;
/// Maximum number of final blocks above the executed one. A replica that is further behind neither proposes nor votes
/// in protocols with views; otherwise blocks that a quorum cannot execute would fill the memory and the journal.
/// Protocols with slots have a window instead.
pub const MAX_UNEXECUTED_BLOCKS: u64 = 512;

/// Final block whose execution waits for a bundle, and the bundle's position.
pub(super) struct Stuck {
    block: Arc<Block>,
    position: usize,
    bundle: Digest,
}

impl Store {
    /// Returns the blocks that are incomplete without a bundle.
    pub fn blocks_waiting_for(&self, bundle: &Digest) -> &[Digest] {
        self.users.get(bundle).map_or(&[], Vec::as_slice)
    }

    /// Records that a block and its ancestors are final. Returns false if that contradicts an earlier final block.
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

    /// Returns the final blocks above the committed one whose bundles are stored, up to the first one with a missing
    /// bundle, oldest first.
    pub fn deliverable(&mut self) -> Vec<Arc<Block>> {
        let Some((_, digest)) = self.decided else { return Vec::new() };
        let mut path = self.tree.path_to(&digest).expect("final blocks extend the committed block");
        let whole = path.iter().take_while(|block| self.first_absent(block).is_none()).count();
        self.stuck = path.get(whole).and_then(|block| self.stuck_on(block));
        if whole == path.len() {
            self.decided = None;
        }
        path.truncate(whole);
        path
    }

    /// Returns whether the bundles of a final block are stored. If not, ask again after [`Store::take_supplied`]
    /// returns true.
    pub fn is_deliverable(&mut self, block: &Arc<Block>) -> bool {
        self.stuck = self.stuck_on(block);
        self.stuck.is_none()
    }

    fn stuck_on(&self, block: &Arc<Block>) -> Option<Stuck> {
        let (position, bundle) = self.first_absent(block)?;
        Some(Stuck { block: block.clone(), position, bundle })
    }

    fn first_absent(&self, block: &Block) -> Option<(usize, Digest)> {
        if self.certifies { self.absent_bundles(block).next() } else { None }
    }

    /// Returns the missing bundles of a block that are not void, each with its position.
    fn absent_bundles(&self, block: &Block) -> impl Iterator<Item = (usize, Digest)> {
        let absent = block.payload.iter().copied().enumerate().filter(|(_, bundle)| self.pool.is_absent(bundle));
        absent.filter(|(position, _)| !self.absence.is_void(block.height, *position))
    }

    /// Returns, once, whether the bundle for which the execution of final blocks waits has arrived or is void.
    pub fn take_supplied(&mut self) -> bool {
        let Store { stuck, pool, absence, .. } = self;
        let waits =
            |stuck: &Stuck| pool.is_absent(&stuck.bundle) && !absence.is_void(stuck.block.height, stuck.position);
        stuck.take_if(|stuck| !waits(stuck)).is_some()
    }

    /// Returns the final block whose execution waits for bundles.
    pub fn stuck_block(&self) -> Option<&Arc<Block>> {
        self.stuck.as_ref().map(|stuck| &stuck.block)
    }

    /// Returns the first missing bundles of a block, at most `most`, each with its position.
    pub fn absent_of(&self, block: &Block, most: usize) -> Vec<(usize, Digest)> {
        self.absent_bundles(block).take(most).collect()
    }

    /// Returns whether final blocks wait for bundles.
    pub fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Returns whether more than [`MAX_UNEXECUTED_BLOCKS`] final blocks wait for bundles.
    pub fn lags(&self) -> bool {
        self.certifies && self.tree.decided().0 > self.committed().0 + MAX_UNEXECUTED_BLOCKS
    }

    /// Returns whether a block and its bundles are stored.
    pub fn holds(&self, digest: &Digest) -> bool {
        self.tree.get(digest).is_some_and(|block| self.first_absent(block).is_none())
    }

    /// Returns the missing bundle for which the execution of final blocks waits.
    pub fn awaited(&self) -> Option<Digest> {
        self.stuck.as_ref().map(|stuck| stuck.bundle)
    }

    /// Adds a batch, all of whose bundles are stored. Returns false if its spreader has too many.
    pub fn list(&mut self, now: Time, batch: Arc<Batch>) -> bool {
        self.batches.add(now, batch)
    }

    /// Returns whether a bundle of a batch is stored, or `None` if its size differs from the size that the batch
    /// states.
    pub fn has_listed(&self, entry: &Entry) -> Option<bool> {
        match self.pool.get(&entry.bundle) {
            Some(bundle) => (Entry::of(bundle) == *entry).then_some(true),
            None => Some(false),
        }
    }

    /// Takes out the batches of a spreader whose bundles have arrived since, each with the time at which it arrived.
    pub fn take_awaited(&mut self, spreader: ReplicaId) -> Vec<(Time, Arc<Batch>)> {
        let Store { early, pool, .. } = self;
        early.take_whole(spreader, |entry| pool.contains(&entry.bundle))
    }

    /// Adds a batch with its verified certificate. Returns the number of commands that become pending. Appends the
    /// blocks that become whole to `whole`.
    pub fn cover(&mut self, now: Time, cover: Cover, leaders: &LeaderElection, whole: &mut Vec<Digest>) -> usize {
        let (name, batch) = (cover.name(), cover.batch.clone());
        self.early.forget(&batch);
        self.batches.cover(now, cover);
        let (mut commands, mut helped) = (0, BTreeSet::new());
        for entry in batch.entries() {
            match self.pool.contains(&entry.bundle) {
                true => commands += self.pool.certify(&entry.bundle),
                false => helped.extend(self.blocks_waiting_for(&entry.bundle)),
            }
        }
        let names_it = |digest: &Digest| {
            let waiting = self.waiting.get(digest);
            waiting.is_some_and(|waiting| waiting.block.covers().names().contains(&name)) || bug!(AnyCertificate)
        };
        helped.retain(names_it);
        for block in helped {
            self.look_again(&block, leaders, whole);
        }
        commands
    }

    /// Lets a waiting block proceed without those bundles for which a certificate named in the block is now known.
    fn look_again(&mut self, digest: &Digest, leaders: &LeaderElection, whole: &mut Vec<Digest>) {
        let Some(waiting) = self.waiting.get(digest) else { return };
        let (block, is_proposal) = (waiting.block.clone(), waiting.is_proposal);
        for (position, bundle) in block.payload.iter().enumerate() {
            let Some(users) = self.users.get_mut(bundle) else { continue };
            let Some(at) = users.iter().position(|user| user == digest) else { continue };
            let Some(load) = self.vouch(&block, position, is_proposal) else { continue };
            let users = self.users.get_mut(bundle).expect("the bundle was found just now");
            users.swap_remove(at);
            if users.is_empty() {
                self.users.remove(bundle);
            }
            self.supply_user(digest, load, leaders, whole);
        }
    }

    /// Returns a block that names the certificates of its bundles.
    pub fn name_covers(&self, block: Block) -> Block {
        let names = self.certifies.then(|| self.batches.names(&block.payload)).filter(|names| !names.is_empty());
        match names {
            Some(names) => block.with_covers(names),
            None => block,
        }
    }

    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Lets waiting blocks that turned out to be certified proceed. Appends those that become whole to `whole`.
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

    /// Returns the size of the missing bundle at this position of a block if a vote need not wait for it. The
    /// certificate that the block names for the bundle shows that an honest voter has it. The same holds if the block
    /// itself is certified; then its limits need no check.
    fn vouch(&self, block: &Block, position: usize, is_proposal: bool) -> Option<Load> {
        if !self.certifies {
            return None;
        }
        if is_proposal { self.batches.vouch(block, position) } else { Some(Load::default()) }
    }

    /// Returns the bundles of a block that are missing and covered by no certificate, and the total load of the others.
    pub(super) fn look_at_payload(&self, block: &Block, is_proposal: bool) -> (Vec<Digest>, Load) {
        let (mut lacking, mut load) = (Vec::new(), Load::default());
        self.pool.warm(block.payload.iter().copied());
        for (position, digest) in block.payload.iter().enumerate() {
            match self.pool.load_of(digest).or_else(|| self.vouch(block, position, is_proposal)) {
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

    /// Drops batches that are no longer needed, and uncertified bundles after [`MAX_SWEEPS`] calls. Returns the
    /// spreader of each batch that has waited too long for its bundles.
    pub fn sweep(&mut self, now: Time) -> Vec<ReplicaId> {
        let pool = &self.pool;
        self.batches.sweep(now, |bundle| pool.is_waiting(bundle) || pool.is_absent(bundle));
        self.pool.sweep(MAX_SWEEPS);
        self.early.expire(now)
    }

    pub fn batches(&self) -> &Batches {
        &self.batches
    }

    /// Returns those bundles of these blocks that arrived after their blocks were journaled and are not in the journal
    /// otherwise.
    pub fn late_bundles(&self, blocks: &[Arc<Block>]) -> Vec<Bundle> {
        let named = blocks.iter().flat_map(|block| &block.payload).filter(|bundle| self.pool.came_late(bundle));
        named.filter(|bundle| !self.kept.contains(bundle)).filter_map(|bundle| self.pool.get(bundle).cloned()).collect()
    }

    /// Records which bundles of a block in the tree are missing.
    pub(super) fn note_absent(&mut self, block: &Block) {
        if !self.certifies {
            return;
        }
        for bundle in &block.payload {
            if self.pool.is_absent(bundle) && !self.restore_kept(std::slice::from_ref(bundle)) {
                self.fresh_absent.push((*bundle, block.height));
            }
        }
    }

    /// Resumes from an adopted state at `height`. Blocks above it that were final remain final.
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

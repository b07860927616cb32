//! The blocks and bundles that a replica holds, and the ones it is still missing.
//!
//! A block enters the tree only when it is whole: the tree has its parent, and each of its bundles is stored here or,
//! if leaders propose certified bundles, certified to be stored elsewhere (see `store/delivery.rs`). Until then it
//! waits in the store, and the store requests the missing parts. Fetched blocks need no signature, because they are
//! requested by a digest that a certificate or a child block names.
//!
//! A lagging replica fetches blocks from the newest down. It fetches the bundles of a block only once it holds every
//! block between that one and the tree; otherwise it might request bundles it can never use, because its peers no
//! longer keep the blocks in between.

mod adoption;
pub(crate) mod answers;
mod aside;
mod certified;
pub(crate) mod delivery;
mod expected;
mod keeping;
mod voids;
pub mod wants;

use crate::config::Config;
use crate::data::batches::Batches;
use crate::data::block_limits::{BlockLimits, Load};
use crate::data::block_tree::BlockTree;
use crate::data::digest_map::{DigestMap, Salt};
use crate::data::early::EarlyBatches;
use crate::data::kept::Kept;
use crate::data::lateness::Lateness;
use crate::data::ledger::Ledger;
use crate::data::pool::{Need, Offered, Pool, Source};
use crate::recovery::absence::Absence;
use crate::recovery::frontier::Frontier;
use crate::seam::{Envelope, MAX_FETCHED_BLOCKS};
use crate::store::wants::Wants;
use crate::voting::leader::LeaderElection;
use crate::voting::spreading::PATIENCE;
pub use delivery::MAX_UNEXECUTED_BLOCKS;
use delivery::Stuck;
use quorate_types::{Block, Bundle, Digest, Height, Quorum, ReplicaId, Time, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of waiting blocks. At the limit, the highest one is evicted.
const MAX_WAITING_BLOCKS: usize = 16_384;
/// Bookkeeping cost of a bundle besides its body: table and queue entries, and its share of a receive buffer.
const BUNDLE_OVERHEAD_BYTES: usize = 256;

struct Waiting {
    block: Arc<Block>,
    source: ReplicaId,
    lacks_parent: bool,
    lacks_bundles: usize,
    /// Total load of its stored bundles.
    load: Load,
    /// Whether the block is known only from a proposal. Then the block limits apply to it.
    is_proposal: bool,
    /// Whether all blocks between this one and the tree are stored. Only then are its bundles requested.
    is_rooted: bool,
}

/// Store of blocks and bundles, with the committed ledger and the outstanding fetches.
pub struct Store {
    me: ReplicaId,
    quorum: Quorum,
    limits: BlockLimits,
    delay: Duration,
    lateness: Lateness,
    /// Blocks whose bundles and ancestors are all here.
    pub tree: BlockTree,
    pub pool: Pool,
    /// Tip of the branch on which this replica would build. Bundles of other branches are pending again, because
    /// perhaps no leader ever commits on those branches.
    tip: Digest,
    /// Tip at the last check of the invariants.
    checked_tip: Option<Digest>,
    ledger: Ledger,
    /// The unlinked blocks that are not chosen for their slots.
    aside: DigestMap<()>,
    waiting: DigestMap<Waiting>,
    children: DigestMap<Vec<Digest>>,
    users: DigestMap<Vec<Digest>>,
    wants: Wants,
    checkpoint_interval: u64,
    /// Whether leaders propose only bundles whose storage is certified. A block may then enter the tree before its
    /// bundles arrive.
    certifies: bool,
    batches: Batches,
    /// Batches that arrived before their bundles.
    pub early: EarlyBatches,
    kept: Kept,
    /// Last block that is known to be final, if it is above the committed one.
    decided: Option<(Height, Digest)>,
    /// Missing bundle for which the execution of final blocks waits.
    stuck: Option<Stuck>,
    /// Bundles of final blocks that perhaps no replica has.
    pub absence: Absence,
    /// Missing bundles of blocks in the tree that are still to be requested, with their heights.
    fresh_absent: Vec<(Digest, Height)>,
    /// Waiting blocks that turned out to be certified and no longer wait for bundles.
    released: Vec<Digest>,
    /// Parents of optimistic proposals that arrived without them, by view and digest of the proposal.
    ahead: BTreeMap<(View, Digest), Digest>,
    /// Requested blocks that nothing proves to be certified, because only optimistic proposals or claims of peers name
    /// them.
    supposed: BTreeSet<Digest>,
}

/// Result of offering a block to the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The block is in the tree.
    Whole,
    /// The block waits for missing parts.
    Waiting,
    /// Its height is already committed.
    Late,
    /// Too many blocks are waiting.
    Overload,
    /// Its bundles exceed the block limits.
    TooLarge,
    /// It misstates the view or the height of its parent.
    Mislinked,
}

impl Store {
    /// Creates a store that contains only genesis.
    pub fn new(config: &Config, quorum: Quorum, me: ReplicaId, genesis: Digest, salt: Salt) -> Self {
        let lookback = LeaderElection::new(config.leader, quorum).lookback();
        let repairs = config.protocol.facts().repairs_losses;
        Store {
            me,
            quorum,
            limits: BlockLimits::new(config),
            delay: Duration::from_millis(config.fetch_delay_ms),
            lateness: Lateness::new(config, salt),
            tree: BlockTree::new(genesis, salt),
            pool: Pool::new(config, quorum, salt),
            tip: genesis,
            checked_tip: None,
            ledger: Ledger::new(config.retained_blocks, config.retained_bytes, lookback),
            aside: DigestMap::with_hasher(salt),
            waiting: DigestMap::with_hasher(salt),
            children: DigestMap::with_hasher(salt),
            users: DigestMap::with_hasher(salt),
            wants: Wants::new(quorum, me, Duration::from_millis(config.fetch_retry_ms), salt),
            // Without checkpoints, no height is a multiple of the interval.
            checkpoint_interval: if repairs { config.checkpoint_interval } else { u64::MAX },
            certifies: config.dissemination.is_certified(),
            // Half of the time for which an honest spreader waits, because messages may be late.
            batches: Batches::new(quorum, me, config.view_timeout() * PATIENCE / 2, salt),
            early: EarlyBatches::new(quorum, config.view_timeout() * PATIENCE),
            kept: Kept::new(config, quorum, salt),
            decided: None,
            stuck: None,
            absence: Absence::new(config, quorum),
            fresh_absent: Vec::new(),
            released: Vec::new(),
            ahead: BTreeMap::new(),
            supposed: BTreeSet::new(),
        }
    }

    /// Returns the height of the last committed block.
    pub fn committed(&self) -> Height {
        self.ledger.height()
    }

    /// Returns the height above which every committed block is kept with its bundles.
    pub fn whole_above(&self) -> Height {
        self.ledger.whole_above()
    }

    /// Keeps the committed blocks above `height` for peers that fetch the state at that height.
    pub fn keep_above(&mut self, height: Height) {
        self.ledger.keep_above(height);
    }

    /// Restores a committed block without its bundles, at or below the height at which the store begins.
    pub fn recall_ancestor(&mut self, block: Arc<Block>, candidates: Arc<[ReplicaId]>) {
        self.ledger.recall(block.clone());
        self.tree.recall_committed(block, candidates);
    }

    /// Returns the last committed blocks that leader election considers, oldest first, each with its candidates for
    /// leader.
    pub fn ancestors(&self) -> impl Iterator<Item = (&Arc<Block>, &[ReplicaId])> {
        let candidates = |block: &Arc<Block>| self.tree.candidates(&block.digest()).map_or(&[][..], |found| &found[..]);
        self.ledger.latest().map(move |block| (block, candidates(block)))
    }

    /// Restores a block from the journal, with the bundles that precede it there. Returns false if something is
    /// missing.
    pub fn recall(&mut self, block: Arc<Block>, bundles: Vec<Bundle>, leaders: &LeaderElection) -> bool {
        let digest = block.digest();
        if block.height <= self.committed() {
            return true;
        }
        let mut whole = Vec::new();
        for bundle in bundles {
            self.pool.offer(bundle, Need::Certified);
        }
        let kept: Vec<Digest> = block.payload.iter().filter(|bundle| self.kept.contains(bundle)).copied().collect();
        self.restore_kept(&kept);
        let source = self.me;
        let taken = self.offer(Time(0), block, source, leaders, &mut whole);
        self.tree.take_unjournaled(&digest);
        taken == Taken::Whole
    }

    /// Returns whether a block is being fetched.
    pub fn wants_block(&self, digest: &Digest) -> bool {
        self.wants.has_block(digest)
    }

    /// Returns whether a bundle is being fetched.
    pub fn wants_bundle(&self, digest: &Digest) -> bool {
        self.wants.has_bundle(digest)
    }

    /// Accepts a block, and appends the blocks that become whole, possibly itself, to `whole`.
    ///
    /// A peer's block that was not requested is a proposal. If it exceeds the block limits, it never becomes whole, so
    /// this replica does not vote for it.
    pub fn offer(
        &mut self,
        now: Time,
        block: Arc<Block>,
        source: ReplicaId,
        leaders: &LeaderElection,
        whole: &mut Vec<Digest>,
    ) -> Taken {
        let is_certified = self.wants.has_block(&block.digest()) && !self.supposed.contains(&block.digest());
        let is_proposal = source != self.me && !is_certified;
        self.take(now, block, source, is_proposal, leaders, whole)
    }

    fn take(
        &mut self,
        now: Time,
        block: Arc<Block>,
        source: ReplicaId,
        is_proposal: bool,
        leaders: &LeaderElection,
        whole: &mut Vec<Digest>,
    ) -> Taken {
        let digest = block.digest();
        if self.tree.contains(&digest) {
            return Taken::Whole;
        }
        if block.height <= self.committed() {
            return Taken::Late;
        }
        if self.waiting.contains_key(&digest) {
            return Taken::Waiting;
        }
        let lacks_parent = !block.is_unlinked() && !self.tree.contains(&block.parent());
        if !lacks_parent && !self.tree.links(&block) {
            return Taken::Mislinked;
        }
        let (mut lacking, mut load) = self.look_at_payload(&block, is_proposal);
        if self.restore_kept(&lacking) {
            (lacking, load) = self.look_at_payload(&block, is_proposal);
        }
        if is_proposal && !self.limits.allow(&load) {
            return Taken::TooLarge;
        }
        if is_proposal {
            self.lateness.on_proposal(now, block.payload.len(), &lacking);
        }
        if !lacks_parent && lacking.is_empty() {
            self.forget_want(&digest);
            self.admit(block, leaders, whole);
            return Taken::Whole;
        }
        if self.waiting.len() >= MAX_WAITING_BLOCKS && !self.evict_above(block.height) {
            return Taken::Overload;
        }
        let was_fetched = self.wants.has_block(&digest);
        self.forget_want(&digest);
        let is_rooted = !lacks_parent || self.waiting.get(&block.parent()).is_some_and(|parent| parent.is_rooted);
        if lacks_parent {
            self.children.entry(block.parent()).or_default().push(digest);
            match block.is_optimistic() && is_proposal {
                true => self.suppose_parent(now, &block, source),
                false => self.want_block(now, block.parent(), Height(block.height.0 - 1), source),
            }
        }
        for bundle in &lacking {
            self.users.entry(*bundle).or_default().push(digest);
        }
        // The sender of a block has the block's bundles. A replica that is far behind lacks many bundles that every
        // peer has, so it distributes its requests over all of them.
        let is_far_behind = was_fetched && self.waiting.len() >= MAX_FETCHED_BLOCKS;
        let source = if is_far_behind { self.any_peer(&digest) } else { source };
        let lacks_bundles = lacking.len();
        let waiting = Waiting { block, source, lacks_parent, lacks_bundles, load, is_proposal, is_rooted: false };
        self.waiting.insert(digest, waiting);
        if is_rooted {
            self.root(Some(now), digest);
        }
        Taken::Waiting
    }

    /// Makes room for a block at `height` by evicting the highest waiting block, if that block is higher. A lagging
    /// replica learns of blocks from the newest down, but it can use the blocks right above its committed block first.
    fn evict_above(&mut self, height: Height) -> bool {
        let highest = self.waiting.iter().map(|(digest, waiting)| (waiting.block.height, *digest)).max();
        let Some((_, digest)) = highest.filter(|(highest, _)| *highest > height) else { return false };
        self.give_up(&digest);
        true
    }

    /// Returns the number of blocks that wait for missing parts.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Drops a waiting block and the requests that only this block needs. No certified block may build on it.
    fn give_up(&mut self, digest: &Digest) {
        let Some(waiting) = self.waiting.remove(digest) else { return };
        for bundle in &waiting.block.payload {
            let Some(users) = self.users.get_mut(bundle) else { continue };
            users.retain(|user| user != digest);
            if users.is_empty() {
                self.users.remove(bundle);
                self.wants.remove_bundle(bundle);
            }
        }
        if let Some(siblings) = self.children.get_mut(&waiting.block.parent()) {
            siblings.retain(|child| child != digest);
        }
    }

    /// Accepts a bundle from a client or a fetched bundle from a peer. Appends the blocks that become whole to `whole`.
    pub fn supply(&mut self, bundle: Bundle, leaders: &LeaderElection, whole: &mut Vec<Digest>) -> Offered {
        self.supply_for(bundle, Need::Offered(Source::Unnamed), leaders, whole)
    }

    /// Accepts a bundle like [`Store::supply`]. If no block needs the bundle, it is accepted for the given need.
    pub fn supply_for(
        &mut self,
        bundle: Bundle,
        need: Need,
        leaders: &LeaderElection,
        whole: &mut Vec<Digest>,
    ) -> Offered {
        let (digest, load) = (bundle.digest(), Load::of(&bundle));
        if self.absence.refuses(&digest) {
            return Offered::Full;
        }
        self.wants.remove_bundle(&digest);
        let users = self.users.remove(&digest).unwrap_or_default();
        let is_proposal = |user: &Digest| self.waiting.get(user).is_none_or(|waiting| waiting.is_proposal);
        let need = match users.iter().all(is_proposal) {
            _ if self.pool.is_absent(&digest) => Need::Certified,
            true if users.is_empty() => need,
            true => Need::Proposed,
            false => Need::Certified,
        };
        // No honest leader proposes a larger bundle, and the journal is not sized for one.
        let offered = match need == Need::Certified || self.limits.allow_bundle(&bundle) {
            true => self.pool.offer(bundle, need),
            false => Offered::Full,
        };
        if self.certifies && self.batches.cover_of(&digest).is_some() {
            self.pool.certify(&digest);
        }
        for user in users {
            match offered {
                Offered::Full => self.give_up(&user),
                _ => self.supply_user(&user, load, leaders, whole),
            }
        }
        offered
    }

    /// Tells a waiting block that one of its bundles is no longer missing.
    fn supply_user(&mut self, user: &Digest, load: Load, leaders: &LeaderElection, whole: &mut Vec<Digest>) {
        let Some(waiting) = self.waiting.get_mut(user) else { return };
        waiting.lacks_bundles -= 1;
        waiting.load.add(load);
        if waiting.is_proposal && !self.limits.allow(&waiting.load) {
            return self.give_up(user);
        }
        if let Some(block) = self.take_whole(user) {
            self.admit(block, leaders, whole);
        }
    }

    /// Returns a waiting block once nothing is missing, and ends its wait. A bundle that was stored when the block
    /// arrived may be gone, together with the executed block that kept it; it is then requested.
    fn take_whole(&mut self, digest: &Digest) -> Option<Arc<Block>> {
        let waiting = self.waiting.get(digest).filter(|waiting| !waiting.lacks_parent && waiting.lacks_bundles == 0)?;
        let (block, source, is_proposal) = (waiting.block.clone(), waiting.source, waiting.is_proposal);
        let (mut gone, _) = self.look_at_payload(&block, is_proposal);
        if self.restore_kept(&gone) {
            (gone, _) = self.look_at_payload(&block, is_proposal);
        }
        if gone.is_empty() {
            self.waiting.remove(digest);
            return Some(block);
        }
        for bundle in &gone {
            self.users.entry(*bundle).or_default().push(*digest);
            self.wants.add_bundle(Time(0), *bundle, block.height, source);
        }
        self.waiting.get_mut(digest).expect("the block is waiting").lacks_bundles = gone.len();
        None
    }

    /// Inserts a whole block into the tree, followed by the children that waited for it.
    fn admit(&mut self, block: Arc<Block>, leaders: &LeaderElection, whole: &mut Vec<Digest>) {
        let mut ready = vec![block];
        while let Some(block) = ready.pop() {
            let digest = block.digest();
            match block.author == self.me {
                true => block.payload.iter().for_each(|bundle| self.pool.on_own_proposal(bundle)),
                false => block.payload.iter().for_each(|bundle| self.pool.on_proposal(bundle)),
            }
            let candidates = leaders.candidates(&block, &self.tree);
            let newest = self.tree.get(&self.tip).is_none_or(|tip| block.view > tip.view);
            self.note_absent(&block);
            let (extends_tip, payload) = (block.parent() == self.tip, block.clone());
            self.tree.insert(block, candidates);
            if extends_tip {
                self.tip = digest;
            } else if !payload.is_unlinked() {
                payload.payload.iter().rev().for_each(|bundle| self.pool.set_aside(bundle));
                if newest {
                    self.follow(digest);
                }
            }
            whole.push(digest);
            for child in self.children.remove(&digest).unwrap_or_default() {
                let Some(waiting) = self.waiting.get_mut(&child) else { continue };
                waiting.lacks_parent = false;
                if !self.tree.links(&waiting.block) {
                    self.give_up(&child);
                    continue;
                }
                ready.extend(self.take_whole(&child));
                self.root(None, child);
            }
        }
    }

    /// Makes the branch that ends in `tip` the one on which to build. `tip` must be in the tree, at or above the
    /// committed height.
    pub fn follow(&mut self, tip: Digest) {
        const MEET: &str = "branches meet at the last commit";
        let (mut old, mut new) = (self.tip, tip);
        let mut joined = Vec::new();
        while old != new {
            let height = |digest: &Digest| self.tree.get(digest).map_or(Height(0), |block| block.height);
            if height(&old) >= height(&new) {
                let block = self.tree.get(&old).expect(MEET);
                block.payload.iter().rev().for_each(|bundle| self.pool.set_aside(bundle));
                old = block.parent();
            } else {
                let block = self.tree.get(&new).expect(MEET);
                joined.push(block.clone());
                new = block.parent();
            }
        }
        joined.iter().flat_map(|block| &block.payload).for_each(|bundle| self.pool.taken_up(bundle));
        self.tip = tip;
    }

    /// Commits every block up to `digest`. Calls `commit` for each block with its bundles, and with the frontier if a
    /// checkpoint follows the block. Returns false if `digest` does not extend the committed chain.
    pub fn commit(
        &mut self,
        digest: &Digest,
        mut commit: impl FnMut(Arc<Block>, Vec<Bundle>, Option<Frontier>),
    ) -> bool {
        let Some(path) = self.tree.path_to(digest) else { return false };
        let (height, tip) = (path.last().map(|block| block.height), self.tree.get(&self.tip));
        let on_branch = |height| tip.is_some_and(|tip| self.tree.extends(tip, *digest, height));
        if path.last().is_some_and(|block| block.is_unlinked()) {
            self.take_up(digest);
        } else if height.is_some_and(|height| !on_branch(height)) {
            self.follow(*digest);
        }
        for block in path {
            for orphan in self.tree.commit(&block) {
                self.set_block_aside(&orphan);
                self.aside.remove(&orphan.digest());
                orphan.payload.iter().for_each(|bundle| self.pool.on_drop(bundle));
            }
            self.pool.warm(block.payload.iter().copied());
            let bundles = self.execute(&block);
            let bytes = bundles.iter().map(|bundle| bundle.body().len() + BUNDLE_OVERHEAD_BYTES).sum();
            self.ledger.append(block.clone(), bytes);
            self.pool.on_commit(block.height);
            if self.certifies {
                block.payload.iter().for_each(|bundle| self.kept.release(bundle));
                self.kept.on_commit(block.height);
                self.absence.on_commit(block.height);
            }
            let frontier = block.height.0.is_multiple_of(self.checkpoint_interval).then(|| self.frontier());
            commit(block, bundles, frontier);
        }
        while let Some(block) = self.ledger.strip() {
            self.pool.warm(block.payload.iter().copied());
            self.release_bundles(&block);
        }
        while let Some(block) = self.ledger.retire() {
            self.tree.retire(&block);
        }
        self.forget_overtaken();
        true
    }

    fn frontier(&self) -> Frontier {
        Frontier::new(self.ancestors().map(|(block, candidates)| (block.clone(), candidates.into())).collect())
    }

    /// Drops waiting blocks and requests that will never be needed: those at or below the committed height, or on an
    /// abandoned fork.
    fn forget_overtaken(&mut self) {
        if self.waiting.is_empty() && self.wants.is_empty() {
            return;
        }
        let committed = self.committed();
        let tree = &self.tree;
        let on_fork = |waiting: &Waiting| {
            !waiting.lacks_parent && !waiting.block.is_unlinked() && !tree.contains(&waiting.block.parent())
        };
        self.waiting.retain(|_, waiting| waiting.block.height > committed && !on_fork(waiting));
        let waiting = &self.waiting;
        self.users.retain(|_, users| {
            users.retain(|user| waiting.contains_key(user));
            !users.is_empty()
        });
        self.children.retain(|_, children| {
            children.retain(|child| waiting.contains_key(child));
            !children.is_empty()
        });
        let (users, pool) = (&self.users, &self.pool);
        self.wants.retain(|height| height > committed, |bundle| users.contains_key(bundle) || pool.is_absent(bundle));
        let wants = &self.wants;
        self.supposed.retain(|block| wants.has_block(block));
    }

    /// Appends the requests that are due, each with its recipient.
    pub fn requests<M>(&mut self, now: Time, out: &mut Vec<(ReplicaId, Envelope<M>)>) {
        self.wants.requests(now, self.ledger.height(), out);
    }

    /// Returns the earliest time at which a request may be due, or `None` if nothing is wanted.
    pub fn next_request(&self) -> Option<Time> {
        self.wants.next_request()
    }

    /// Records that `peer` answered with some of the bundles requested from it.
    pub fn on_answer(&mut self, now: Time, peer: ReplicaId) {
        self.wants.on_answer(now, peer);
    }

    /// Checks the invariants after a step. Looks up blocks in the tree only if the step may have removed some.
    pub fn invariants(&mut self) {
        let shrunk = self.tree.take_shrunk();
        self.tree.invariants(shrunk);
        self.pool.invariants();
        self.ledger.invariants();
        self.lateness.invariants();
        self.kept.invariants();
        if shrunk || self.checked_tip != Some(self.tip) {
            assert!(self.tree.contains(&self.tip), "the tip is in the tree");
            self.checked_tip = Some(self.tip);
        }
        assert_eq!(self.tree.committed().0, self.ledger.height(), "tree and ledger agree on the committed height");
        assert!(self.waiting.len() <= MAX_WAITING_BLOCKS, "waiting blocks are bounded");
        assert!(self.decided.is_none_or(|(height, _)| height > self.ledger.height()), "what is final waits");
    }
}

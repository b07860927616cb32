//! Reconstructs the chain of a journal: checks that each block matches its digest and extends another, and determines
//! which blocks are committed and by which proof.

use super::place::Place;
use quorate_consensus::Protocol;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::data::block_tree::BlockTree;
use quorate_consensus::data::digest_map::Salt;
use quorate_consensus::facts::Shape;
use quorate_consensus::replica::{ForProtocol, MakeReplica, for_protocol};
use quorate_consensus::voting::leader::{Duties, LeaderElection};
use quorate_crypto::{BundleVerifier, ClientAuthentication, DEFAULT_CACHE_BUNDLES};
use quorate_types::{Block, Bundle, Certificate, Digest, Domain, Height, ReplicaId, View};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Committed blocks to keep in addition to those read by leader election: a commit rule reads a block's ancestors.
const MAX_KEPT_BLOCKS: usize = 8;
/// Number of heights between two scans for acknowledged bundles on which no block may rely any more.
const KEPT_SCAN_BLOCKS: u64 = 256;

/// A committed block and its bundles.
pub(super) struct Committed {
    pub block: Arc<Block>,
    /// Its bundles, except for the void ones.
    pub bundles: Vec<Bundle>,
    /// Certificates of the absence of the others.
    pub voids: Vec<Certificate>,
}

/// Proof that a block and its ancestors are committed.
pub(super) struct Proof {
    pub height: Height,
    pub digest: Digest,
    /// Certifies this block or a descendant of it.
    pub certificate: Certificate,
}

/// Blocks read so far.
pub(super) struct Chain {
    protocol: ProtocolKind,
    genesis: Certificate,
    pub tree: BlockTree,
    leaders: LeaderElection,
    verifier: BundleVerifier,
    /// Whether a block may be journaled before all its bundles.
    certifies: bool,
    bundles: BTreeMap<Digest, Vec<Bundle>>,
    /// Bundles that were journaled after their blocks.
    late: BTreeMap<Digest, Bundle>,
    /// Acknowledged bundles, which later blocks need not repeat, and the heights up to which they are kept.
    kept: BTreeMap<Digest, (Height, Bundle)>,
    /// Certificates of the absence of bundles, by block and position.
    voids: BTreeMap<(Digest, u64), Certificate>,
    /// The last committed blocks, oldest first.
    latest: VecDeque<Arc<Block>>,
    /// Whether the next blocks may precede the start of the chain.
    pub awaits_ancestors: bool,
    /// Certificates of blocks that are not in the chain yet.
    early: BTreeMap<Digest, Certificate>,
    pub proof: Option<Proof>,
    pub blocks: u64,
    pub bundles_checked: u64,
}

/// Returns the client authentication that an auditor can check. MACs convince only the replicas.
fn provable(clients: ClientAuthentication) -> ClientAuthentication {
    match clients {
        ClientAuthentication::Mac => ClientAuthentication::None,
        other => other,
    }
}

impl Chain {
    pub fn new(place: &Place) -> Chain {
        let (config, cluster) = (&place.config, place.committee.cluster);
        let protocol = config.consensus.protocol;
        let genesis = Certificate::genesis(&place.committee.epoch);
        let leaders = LeaderElection::new(config.consensus.leader, place.committee.quorum);
        Chain {
            protocol,
            tree: BlockTree::new(genesis.subject.digest, Salt(0)),
            genesis,
            leaders: leaders.with_duties(for_protocol(protocol, DutiesOf)),
            verifier: BundleVerifier::new(provable(config.client_authentication), cluster, DEFAULT_CACHE_BUNDLES),
            certifies: config.consensus.dissemination.is_certified(),
            bundles: BTreeMap::new(),
            late: BTreeMap::new(),
            kept: BTreeMap::new(),
            voids: BTreeMap::new(),
            latest: VecDeque::new(),
            awaits_ancestors: false,
            early: BTreeMap::new(),
            proof: None,
            blocks: 0,
            bundles_checked: 0,
        }
    }

    /// Returns whether blocks are ordered by slot and do not extend each other.
    fn is_by_slot(&self) -> bool {
        self.protocol.has_slots()
    }

    pub fn committed(&self) -> (Height, Digest) {
        self.tree.committed()
    }

    /// Returns the last committed blocks read by leader election, oldest first, each with its candidates for leader.
    pub fn frontier(&self) -> Vec<(Arc<Block>, Arc<[ReplicaId]>)> {
        let surplus = self.latest.len().saturating_sub(self.leaders.lookback());
        let with_candidates = |block: &Arc<Block>| {
            let candidates = self.tree.candidates(&block.digest()).cloned();
            (block.clone(), candidates.unwrap_or_default())
        };
        self.latest.iter().skip(surplus).map(with_candidates).collect()
    }

    /// Begins the chain on a committed block that is not in the journal.
    pub fn begin_on(&mut self, height: Height, digest: Digest) {
        self.tree = BlockTree::new(self.genesis.subject.digest, Salt(0));
        self.tree.begin_on(height, digest);
        self.latest.clear();
        self.bundles.clear();
        self.awaits_ancestors = true;
    }

    /// Adds a block that was committed before the journal begins. A replica that adopted a state and commits nothing
    /// until it truncates its journal writes two summaries of the same height, the second with the same blocks.
    pub fn ancestor(&mut self, block: Arc<Block>, candidates: Vec<ReplicaId>) -> Result<(), String> {
        let (height, digest) = self.committed();
        let name = name_of(&block);
        if block.height > height || (block.height == height && block.digest() != digest) {
            return Err(format!("{name} is not an ancestor of the block on which the summary begins"));
        }
        let digest = block.digest();
        if self.latest.iter().any(|known| known.digest() == digest) {
            return Ok(());
        }
        if let Some(last) = self.latest.back() {
            let follows = last.height.next() == block.height;
            let linked = self.is_by_slot() || block.parent() == last.digest();
            if !follows || !linked {
                return Err(format!("{name} does not extend its predecessor {}", last.digest()));
            }
        }
        self.latest.push_back(block.clone());
        self.tree.recall_committed(block, candidates.into());
        Ok(())
    }

    /// Adds a block whose certificate is verified, with the bundles that precede it.
    pub fn insert(&mut self, block: Arc<Block>, bundles: Vec<Bundle>) -> Result<(), String> {
        let digest = block.digest();
        if self.tree.contains(&digest) || block.height <= self.committed().0 {
            return Ok(());
        }
        self.check_link(&block)?;
        let here: BTreeMap<Digest, Bundle> = bundles.into_iter().map(|bundle| (bundle.digest(), bundle)).collect();
        let mut in_order = Vec::with_capacity(block.payload.len());
        for wanted in &block.payload {
            match here.get(wanted).or_else(|| self.kept.get(wanted).map(|(_, bundle)| bundle)) {
                Some(bundle) => in_order.push(bundle.clone()),
                None if self.certifies => {}
                None => return Err(format!("{} lacks its bundle {wanted}", name_of(&block))),
            }
        }
        self.check_bundles(&in_order).map_err(|why| format!("{}: {why}", name_of(&block)))?;
        self.blocks += 1;
        self.bundles.insert(digest, in_order);
        let candidates = self.leaders.candidates(&block, &self.tree);
        self.tree.insert(block, candidates);
        match self.early.remove(&digest) {
            Some(certificate) => self.learn(&certificate),
            None => Ok(()),
        }
    }

    /// Adds bundles that were journaled after their blocks, immediately before the blocks are committed.
    pub fn add_late(&mut self, bundles: Vec<Bundle>) -> Result<(), String> {
        self.check_bundles(&bundles)?;
        self.late.extend(bundles.into_iter().map(|bundle| (bundle.digest(), bundle)));
        Ok(())
    }

    /// Adds bundles acknowledged by the replica.
    pub fn keep(&mut self, until: Height, bundles: Vec<Bundle>) -> Result<(), String> {
        self.check_clients(&bundles)?;
        self.kept.extend(bundles.into_iter().map(|bundle| (bundle.digest(), (until, bundle))));
        Ok(())
    }

    fn check_bundles(&mut self, bundles: &[Bundle]) -> Result<(), String> {
        self.check_clients(bundles)?;
        self.bundles_checked += bundles.len() as u64;
        Ok(())
    }

    fn check_clients(&mut self, bundles: &[Bundle]) -> Result<(), String> {
        let forged: BTreeSet<Digest> = self.verifier.forged(bundles);
        if let Some(forged) = forged.first() {
            return Err(format!("bundle {forged} is not signed by the client it names"));
        }
        Ok(())
    }

    /// Returns all bundles of a block in order, given those that were journaled before it.
    fn complete(&mut self, block: &Block, early: Vec<Bundle>) -> Result<Vec<Bundle>, String> {
        if early.len() == block.payload.len() && self.voids.is_empty() {
            return Ok(early);
        }
        let digest = block.digest();
        let mut here: BTreeMap<Digest, Bundle> = early.into_iter().map(|bundle| (bundle.digest(), bundle)).collect();
        let mut take = |wanted: &Digest| {
            let kept = || self.kept.get(wanted).map(|(_, bundle)| bundle.clone());
            let bundle = here.remove(wanted).or_else(|| self.late.remove(wanted)).or_else(kept);
            bundle.ok_or_else(|| format!("{} lacks its bundle {wanted}", name_of(block)))
        };
        let executed =
            block.payload.iter().zip(0..).filter(|(_, position)| !self.voids.contains_key(&(digest, *position)));
        executed.map(|(wanted, _)| take(wanted)).collect()
    }

    /// Records that a bundle of a block is void: the block is executed without it.
    pub fn void(&mut self, certificate: Certificate) {
        let subject = certificate.subject;
        if subject.domain == Domain::Absent {
            self.voids.insert((subject.digest, subject.view.0), certificate);
        }
    }

    fn take_voids(&mut self, block: &Digest) -> Vec<Certificate> {
        let of_block = self.voids.range((*block, 0)..=(*block, u64::MAX)).map(|(place, _)| *place);
        let places: Vec<(Digest, u64)> = of_block.collect();
        places.iter().filter_map(|place| self.voids.remove(place)).collect()
    }

    /// Checks that a block extends one of the chain.
    fn check_link(&self, block: &Arc<Block>) -> Result<(), String> {
        let name = name_of(block);
        if self.is_by_slot() {
            let of_slot = Block::of_slot(block.view, block.author, block.height, block.payload.clone(), block.time_ms)
                .with_covers(block.covers().clone());
            return if **block == of_slot { Ok(()) } else { Err(format!("{name} is not a slot's block")) };
        }
        let justify = &block.justify.subject;
        if block.parent() == self.genesis.subject.digest {
            let from_genesis = block.justify == self.genesis;
            return if from_genesis { Ok(()) } else { Err(format!("{name} has a false genesis certificate")) };
        }
        if !self.tree.contains(&block.parent()) {
            return Err(format!("the parent of {name}, {}, does not precede it in the journal", block.parent()));
        }
        let as_parent = self
            .tree
            .get(&block.parent())
            .is_none_or(|parent| (parent.view, parent.height) == (justify.view, justify.height));
        let builds = match self.protocol.facts().shape {
            Shape::Phases => {
                matches!(justify.domain, Domain::Prepare | Domain::PreCommit | Domain::Commit)
            }
            _ => justify.domain == Domain::Vote,
        };
        match as_parent && builds && justify.view < block.view {
            true => Ok(()),
            false => Err(format!(
                "{name} has a certificate that is not its parent's, or of a kind that blocks cannot extend"
            )),
        }
    }

    /// Processes a verified certificate, which may prove that a block is committed.
    pub fn learn(&mut self, certificate: &Certificate) -> Result<(), String> {
        let subject = certificate.subject;
        if self.is_by_slot() || subject.domain != self.protocol.facts().shape.decides() || subject.view == View(0) {
            return Ok(());
        }
        let Some(certified) = self.tree.get(&subject.digest) else {
            if subject.height > self.committed().0 {
                self.early.insert(subject.digest, certificate.clone());
            }
            return Ok(());
        };
        if (certified.view, certified.height) != (subject.view, subject.height) {
            return Err(format!("the certificate of {} has a different view or height", name_of(certified)));
        }
        let Some(decided) = self.decided_by(certified) else { return Ok(()) };
        if self.proof.as_ref().is_none_or(|proof| proof.height < decided.height) {
            let (height, digest) = (decided.height, decided.digest());
            self.proof = Some(Proof { height, digest, certificate: certificate.clone() });
        }
        Ok(())
    }

    /// Returns the block that is committed once `certified` is certified: the first of a chain in consecutive views.
    fn decided_by<'a>(&'a self, certified: &'a Arc<Block>) -> Option<&'a Arc<Block>> {
        (1..self.protocol.chain_length())
            .try_fold(certified, |block, _| self.tree.parent(block).filter(|parent| parent.view.next() == block.view))
    }

    /// Returns the blocks that become committed with this one, oldest first.
    pub fn path_to(&self, height: Height, digest: &Digest) -> Result<Vec<Arc<Block>>, String> {
        let (last, head) = self.committed();
        if height <= last {
            return Ok(Vec::new());
        }
        let known = self.tree.get(digest).is_some_and(|block| block.height == height);
        self.tree.path_to(digest).filter(|_| known).ok_or_else(|| {
            format!("it commits {digest} at height {height}, which leaves a gap after {head} at height {last}")
        })
    }

    /// Commits the next block of a path returned by [`Chain::path_to`].
    pub fn commit(&mut self, block: Arc<Block>) -> Result<Committed, String> {
        let digest = block.digest();
        self.awaits_ancestors = false;
        for orphan in self.tree.commit(&block) {
            self.bundles.remove(&orphan.digest());
        }
        let early = self.bundles.remove(&digest).unwrap_or_default();
        let bundles = self.complete(&block, early)?;
        self.forget_kept(&block);
        let voids = self.take_voids(&digest);
        self.latest.push_back(block.clone());
        while self.latest.len() > self.leaders.lookback() + MAX_KEPT_BLOCKS {
            let oldest = self.latest.pop_front().expect("it was counted");
            self.tree.retire(&oldest);
        }
        self.early.retain(|_, certificate| certificate.subject.height > block.height);
        let contradicts = |proof: &Proof| proof.height == block.height && proof.digest != digest;
        match self.proof.as_ref().is_some_and(contradicts) {
            true => Err(format!("it commits {}, but a certificate commits another there", name_of(&block))),
            false => Ok(Committed { block, bundles, voids }),
        }
    }

    fn forget_kept(&mut self, committed: &Block) {
        for bundle in &committed.payload {
            self.kept.remove(bundle);
        }
        if committed.height.0.is_multiple_of(KEPT_SCAN_BLOCKS) {
            self.kept.retain(|_, (until, _)| *until > committed.height);
        }
    }

    /// Returns the uncommitted blocks on which a proof relies, oldest first.
    pub fn beyond_commit(&self) -> Result<Vec<Arc<Block>>, String> {
        let Some(proof) = &self.proof else { return Ok(Vec::new()) };
        let certified = proof.certificate.subject;
        if certified.height <= self.committed().0 {
            return Ok(Vec::new());
        }
        let path = self.tree.path_to(&certified.digest);
        path.ok_or_else(|| "the last block that a certificate commits does not extend the committed chain".to_owned())
    }
}

/// Describes a block, for messages.
pub(super) fn name_of(block: &Block) -> String {
    format!("the block {} at height {}", block.digest(), block.height)
}

/// Returns the method of leader election of a protocol.
struct DutiesOf;

impl ForProtocol for DutiesOf {
    type Output = Duties;

    fn run<P: Protocol + 'static>(self, _make: MakeReplica<P>) -> Duties {
        P::duties()
    }
}

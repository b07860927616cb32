//! Who has signed what, and which blocks are certified and final by it.

use quorate_consensus::config::ProtocolKind;
use quorate_types::{Block, Certificate, Digest, Domain, Height, ReplicaId, Signers, Subject, View};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Subjects and blocks that are remembered; what is older is taken for true.
const REMEMBERED: usize = 1 << 14;
/// Views whose timeouts are remembered.
const REMEMBERED_TIMEOUTS: usize = 1 << 10;

/// The smallest number of replicas of which any two sets share more than f members, so that one of them is honest.
pub fn quorum(replicas: usize, faults: usize) -> usize {
    (1..=replicas).find(|size| 2 * size > replicas + faults).unwrap_or(replicas)
}

/// Takes a word as it is: the keys begin as digests.
#[derive(Default)]
struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("the keys are words");
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// A table that forgets its oldest entries. Nobody looks at its order.
struct Table<V> {
    entries: HashMap<u64, V, BuildHasherDefault<Plain>>,
    order: VecDeque<u64>,
    /// Whether anything was forgotten.
    forgets: bool,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { entries: HashMap::default(), order: VecDeque::new(), forgets: false }
    }
}

impl<V> Table<V> {
    fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.forgets = false;
    }

    /// The entry of a key, made if it is new.
    fn enter(&mut self, key: u64, make: impl FnOnce() -> V) -> &mut V {
        if self.order.len() == REMEMBERED
            && !self.entries.contains_key(&key)
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
            self.forgets = true;
        }
        let order = &mut self.order;
        self.entries.entry(key).or_insert_with(|| {
            order.push_back(key);
            make()
        })
    }
}

/// 2^64 divided by the golden ratio, odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

fn key(domain: Domain, view: View, digest: &Digest) -> u64 {
    digest.prefix() ^ (view.0 << 3 | domain as u64 & 7).wrapping_mul(MULTIPLIER)
}

/// What is known of a block that was proposed.
#[derive(Clone, Copy, Debug)]
pub struct Proposed {
    /// In which view.
    pub view: View,
    /// What its certificate is of: the block below.
    pub base: Subject,
    /// Whether it was shown with genuine timeouts that allow that base, to whomever.
    pub allowed: bool,
    /// Whether votes make it final.
    final_: bool,
}

/// The timeouts of a view: who, and the view of the highest certificate that they tell of.
#[derive(Default)]
struct GaveUp {
    told: Vec<(ReplicaId, Option<View>)>,
}

/// Votes, blocks and timeouts.
pub struct Tallies {
    protocol: ProtocolKind,
    quorum: usize,
    replicas: usize,
    /// Who may have signed anything.
    free: Signers,
    votes: Table<Signers>,
    blocks: Table<Proposed>,
    /// Slots that are decided, where votes go by slots.
    decided: Table<()>,
    timeouts: BTreeMap<View, GaveUp>,
    /// Up to here timeouts may have been forgotten.
    forgotten: View,
    /// The last certificate of timeouts that was found genuine: its view, its signers, and a sum over what they tell of.
    last_genuine: Option<(View, Signers, u64)>,
}

impl Tallies {
    pub fn new(protocol: ProtocolKind, replicas: usize, faults: usize) -> Tallies {
        Tallies {
            protocol,
            quorum: quorum(replicas, faults),
            replicas,
            free: Signers::empty(),
            votes: Table::default(),
            blocks: Table::default(),
            decided: Table::default(),
            timeouts: BTreeMap::new(),
            forgotten: View(0),
            last_genuine: None,
        }
    }

    pub fn clear(&mut self) {
        self.free = Signers::empty();
        self.votes.clear();
        self.blocks.clear();
        self.decided.clear();
        self.timeouts.clear();
        (self.forgotten, self.last_genuine) = (View(0), None);
    }

    /// Assumes from now on that a replica has signed whatever helps.
    pub fn free(&mut self, replica: ReplicaId) {
        self.free.insert(replica);
    }

    /// A block is proposed; `allowed` says whether what is shown with it allows its base.
    pub fn propose(&mut self, block: &Block, allowed: bool) {
        let (view, base) = (block.view, block.justify.subject);
        let proposed = || Proposed { view, base, allowed: false, final_: false };
        self.blocks.enter(block.digest().prefix(), proposed).allowed |= allowed;
    }

    pub fn block(&self, digest: &Digest) -> Option<&Proposed> {
        self.blocks.entries.get(&digest.prefix())
    }

    /// Whether a block extends another, if all between them is remembered.
    pub fn extends(&self, digest: &Digest, ancestor: (View, Digest)) -> Option<bool> {
        let mut at = *digest;
        while at != ancestor.1 {
            let block = self.block(&at)?;
            // Views fall from each block to the one below.
            if block.base.view < ancestor.0 {
                return Some(false);
            }
            at = block.base.digest;
        }
        Some(true)
    }

    /// A replica votes. Whether it had not done so before.
    pub fn vote(&mut self, voter: ReplicaId, subject: &Subject) -> bool {
        let Subject { domain, view, digest, .. } = *subject;
        let voters = self.votes.enter(key(domain, view, &digest), Signers::empty);
        let first = voters.insert(voter);
        if !first || self.free.contains(voter) {
            return first;
        }
        let mut whole = *voters;
        whole.union(&self.free);
        if whole.len() >= self.quorum {
            self.certified(domain, &digest);
        }
        true
    }

    /// A quorum of votes is there: marks what they make final.
    fn certified(&mut self, domain: Domain, digest: &Digest) {
        match (self.protocol, domain) {
            (ProtocolKind::Pbft, Domain::Commit) => *self.decided.enter(digest.prefix(), || ()) = (),
            (ProtocolKind::BasicHotStuff, Domain::Commit) => self.finish(digest),
            (ProtocolKind::Pbft | ProtocolKind::BasicHotStuff, _) => {}
            (_, Domain::Vote) => {
                let mut head = *digest;
                for _ in 1..self.chain_length() {
                    let Some(block) = self.block(&head) else { return };
                    if block.base.view.next() != block.view {
                        return;
                    }
                    head = block.base.digest;
                }
                self.finish(&head);
            }
            _ => {}
        }
    }

    /// Blocks of consecutive views, all of them certified, of which the first is final.
    fn chain_length(&self) -> usize {
        match self.protocol {
            ProtocolKind::ChainedHotStuff | ProtocolKind::SimpleHotStuff => 3,
            ProtocolKind::FastHotStuff | ProtocolKind::Jolteon => 2,
            ProtocolKind::BasicHotStuff | ProtocolKind::Pbft => 1,
        }
    }

    fn finish(&mut self, digest: &Digest) {
        if let Some(block) = self.blocks.entries.get_mut(&digest.prefix()) {
            block.final_ = true;
        }
    }

    /// Whether signed votes make a block final by themselves, and not as an ancestor of another. What is forgotten is taken for final.
    pub fn is_final(&self, digest: &Digest) -> bool {
        if self.protocol == ProtocolKind::Pbft {
            return self.decided.entries.contains_key(&digest.prefix()) || self.decided.forgets;
        }
        self.block(digest).map_or(self.blocks.forgets, |block| block.final_)
    }

    /// How many may have signed a statement: those who did, and those who may have signed anything.
    pub fn voters(&self, subject: &Subject) -> usize {
        let Subject { domain, view, digest, .. } = *subject;
        let mut whole = self.votes.entries.get(&key(domain, view, &digest)).copied().unwrap_or_default();
        whole.union(&self.free);
        whole.len()
    }

    /// Whether a quorum has signed a statement. What is forgotten is taken for signed.
    pub fn is_backed(&self, subject: &Subject) -> bool {
        subject.view == View(0) && subject.domain == Domain::Vote
            || subject.height == Height(0) && subject.domain == Domain::Checkpoint
            || self.voters(subject) >= self.quorum
            || self.votes.forgets
                && !self.votes.entries.contains_key(&key(subject.domain, subject.view, &subject.digest))
    }

    /// A replica gives a view up. Whether it had not done so before.
    pub fn gives_up(&mut self, replica: ReplicaId, view: View, told: Option<View>) -> bool {
        let gave_up = &mut self.timeouts.entry(view).or_default().told;
        let first = !gave_up.contains(&(replica, told));
        if first {
            gave_up.push((replica, told));
        }
        if self.timeouts.len() > REMEMBERED_TIMEOUTS
            && let Some((view, _)) = self.timeouts.pop_first()
        {
            self.forgotten = view;
        }
        first
    }

    /// Whether a quorum has given a view up, each telling of the certificate that is said.
    pub fn is_timed_out(&mut self, certificate: &Certificate) -> bool {
        let (view, signers) = (certificate.view(), certificate.signers);
        let told = certificate.attachments.iter().map(|told| told.high_view().map_or(0, |view| view.0.wrapping_add(1)));
        let sum = told.fold(0, |sum: u64, told| (sum ^ told).wrapping_mul(MULTIPLIER).rotate_left(23));
        if self.last_genuine == Some((view, signers, sum)) || view <= self.forgotten {
            return true;
        }
        let nobody = GaveUp::default();
        let gave_up = self.timeouts.get(&view).unwrap_or(&nobody);
        let did = |(at, signer): (usize, ReplicaId)| {
            self.free.contains(signer) || gave_up.told.contains(&(signer, certificate.attachment(at).high_view()))
        };
        let members = signers.highest().is_some_and(|highest| highest.index() < self.replicas);
        let genuine = members && signers.len() >= self.quorum && signers.iter().enumerate().all(did);
        if genuine {
            self.last_genuine = Some((view, signers, sum));
        }
        genuine
    }

    /// How many are a quorum.
    pub fn quorum(&self) -> usize {
        self.quorum
    }
}

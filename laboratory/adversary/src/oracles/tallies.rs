//! Signed votes and timeouts, and the blocks that they certify and make final.

use crate::oracles::words::Words;
use quorate_consensus::config::ProtocolKind;
use quorate_consensus::facts::Shape;
use quorate_types::{Block, Certificate, Digest, Domain, Height, ReplicaId, Signers, Subject, View};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of remembered subjects, and of remembered blocks. Older ones count as signed.
const MAX_REMEMBERED: usize = 1 << 14;
/// Maximum number of views with remembered timeouts.
const MAX_REMEMBERED_TIMEOUTS: usize = 1 << 10;

/// Returns the smallest size for which any two sets of replicas share more than f members, and therefore an honest one.
pub fn quorum(replicas: usize, faults: usize) -> usize {
    (1..=replicas).find(|size| 2 * size > replicas + faults).unwrap_or(replicas)
}

/// Table of at most [`MAX_REMEMBERED`] entries; drops the oldest when it is full.
struct Table<V> {
    entries: Words<V>,
    order: VecDeque<(u64, Height)>,
    /// Greatest height of a dropped entry, if entries have been dropped.
    dropped: Option<Height>,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { entries: Words::default(), order: VecDeque::new(), dropped: None }
    }
}

impl<V> Table<V> {
    fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.dropped = None;
    }

    /// Returns the entry of a key, creating it if necessary.
    fn enter(&mut self, key: u64, height: Height, make: impl FnOnce() -> V) -> &mut V {
        if self.order.len() == MAX_REMEMBERED
            && !self.entries.contains_key(&key)
            && let Some((oldest, height)) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
            self.dropped = self.dropped.max(Some(height));
        }
        let order = &mut self.order;
        self.entries.entry(key).or_insert_with(|| {
            order.push_back((key, height));
            make()
        })
    }

    /// Returns whether an entry is missing and may have been dropped.
    fn may_have_dropped(&self, key: u64, height: Height) -> bool {
        self.dropped.is_some_and(|dropped| height <= dropped) && !self.entries.contains_key(&key)
    }
}

/// 2^64 divided by the golden ratio, odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

fn key(domain: Domain, view: View, digest: &Digest) -> u64 {
    digest.prefix() ^ (view.0 << 4 | domain as u64 & 15).wrapping_mul(MULTIPLIER)
}

/// Facts about a proposed block that the oracle compares with the votes for it.
#[derive(Clone, Copy, Debug)]
pub struct Proposed {
    pub view: View,
    /// Subject of the certificate of its parent.
    pub base: Subject,
    /// Whether it was sent with genuine timeouts that permit its base.
    pub allowed: bool,
    /// Whether votes make it final.
    final_: bool,
}

/// Signers of a view's timeouts, with the view of the highest certificate that each of them reports.
type Timeouts = Vec<(ReplicaId, Option<View>)>;

/// Votes, blocks and timeouts.
pub struct Tallies {
    protocol: ProtocolKind,
    quorum: usize,
    replicas: usize,
    /// Replicas that may have signed anything.
    liars: Signers,
    votes: Table<Signers>,
    blocks: Table<Proposed>,
    /// Decided slots, in PBFT.
    decided: Table<()>,
    timeouts: BTreeMap<View, Timeouts>,
    /// Highest view whose timeouts may have been dropped.
    forgotten: View,
    /// View, signers and checksum of the last timeout certificate found to be genuine.
    last_genuine: Option<(View, Signers, u64)>,
}

impl Tallies {
    pub fn new(protocol: ProtocolKind, replicas: usize, faults: usize) -> Tallies {
        Tallies {
            protocol,
            quorum: quorum(replicas, faults),
            replicas,
            liars: Signers::empty(),
            votes: Table::default(),
            blocks: Table::default(),
            decided: Table::default(),
            timeouts: BTreeMap::new(),
            forgotten: View(0),
            last_genuine: None,
        }
    }

    pub fn clear(&mut self) {
        self.liars = Signers::empty();
        self.votes.clear();
        self.blocks.clear();
        self.decided.clear();
        self.timeouts.clear();
        (self.forgotten, self.last_genuine) = (View(0), None);
    }

    /// Assumes from now on that a replica has signed every statement.
    pub fn add_liar(&mut self, replica: ReplicaId) {
        self.liars.insert(replica);
    }

    /// Adds a proposed block. `allowed` is set if the evidence sent with it permits its base.
    pub fn add_block(&mut self, block: &Block, allowed: bool) {
        let (view, base) = (block.view, block.justify.subject);
        let proposed = || Proposed { view, base, allowed: false, final_: false };
        self.blocks.enter(block.digest().prefix(), block.height, proposed).allowed |= allowed;
    }

    pub fn block(&self, digest: &Digest) -> Option<&Proposed> {
        self.blocks.entries.get(&digest.prefix())
    }

    /// Returns whether a block extends another; `None` if a block between them is unknown.
    pub fn extends(&self, digest: &Digest, ancestor: (View, Digest)) -> Option<bool> {
        let mut at = *digest;
        while at != ancestor.1 {
            let block = self.block(&at)?;
            // Views decrease from each block to its parent.
            if block.base.view < ancestor.0 {
                return Some(false);
            }
            at = block.base.digest;
        }
        Some(true)
    }

    /// Adds a vote. Returns whether it is new and newer than dropped ones.
    pub fn add_vote(&mut self, voter: ReplicaId, subject: &Subject) -> bool {
        let Subject { domain, view, height, digest } = *subject;
        let key = key(domain, view, &digest);
        // A replica that was paused sends votes on thousands of heights at once, which would displace newer ones.
        if height > Height(0) && self.votes.may_have_dropped(key, height) {
            return false;
        }
        let voters = self.votes.enter(key, height, Signers::empty);
        let first = voters.insert(voter);
        if !first || self.liars.contains(voter) {
            return first;
        }
        let mut whole = *voters;
        whole.union(&self.liars);
        if whole.len() >= self.quorum {
            self.on_certified(subject);
        }
        true
    }

    /// Marks the block that a quorum of votes makes final.
    fn on_certified(&mut self, subject: &Subject) {
        let Subject { domain, height, digest, .. } = subject;
        let shape = self.protocol.facts().shape;
        if *domain != shape.decides() {
            return;
        }
        match shape {
            Shape::Slots => *self.decided.enter(digest.prefix(), *height, || ()) = (),
            Shape::Phases => self.finish(digest),
            Shape::Chain(length) => {
                let mut head = *digest;
                for _ in 1..length {
                    let Some(block) = self.block(&head) else { return };
                    if block.base.view.next() != block.view {
                        return;
                    }
                    head = block.base.digest;
                }
                self.finish(&head);
            }
        }
    }

    /// Marks a block and its ancestors.
    fn finish(&mut self, digest: &Digest) {
        let mut at = *digest;
        while let Some(block) = self.blocks.entries.get_mut(&at.prefix())
            && !block.final_
        {
            block.final_ = true;
            at = block.base.digest;
        }
    }

    /// Returns whether signed votes make a block final, directly or as an ancestor of another. Dropped blocks count as
    /// final.
    pub fn is_final(&self, digest: &Digest) -> bool {
        if self.protocol.has_slots() {
            return self.decided.entries.contains_key(&digest.prefix()) || self.decided.dropped.is_some();
        }
        self.block(digest).map_or(self.blocks.dropped.is_some(), |block| block.final_)
    }

    /// Returns the number of replicas that may have signed a statement, including all liars.
    fn voters(&self, subject: &Subject) -> usize {
        let Subject { domain, view, digest, .. } = *subject;
        let mut whole = self.votes.entries.get(&key(domain, view, &digest)).copied().unwrap_or_default();
        whole.union(&self.liars);
        whole.len()
    }

    /// Returns whether a quorum has signed a statement. Dropped statements count as signed.
    pub fn is_backed(&self, subject: &Subject) -> bool {
        subject.view == View(0) && subject.domain == Domain::Vote
            || subject.height == Height(0) && subject.domain == Domain::Checkpoint
            || self.voters(subject) >= self.quorum
            || self.votes.may_have_dropped(key(subject.domain, subject.view, &subject.digest), subject.height)
    }

    /// Returns whether a quorum is known to have signed a statement, or may have with the liars' help.
    pub fn is_agreed(&self, subject: &Subject) -> bool {
        self.voters(subject) >= self.quorum
    }

    /// Adds a timeout. Returns whether it is new.
    pub fn add_timeout(&mut self, replica: ReplicaId, view: View, reported: Option<View>) -> bool {
        let timeouts = self.timeouts.entry(view).or_default();
        let first = !timeouts.contains(&(replica, reported));
        if first {
            timeouts.push((replica, reported));
        }
        if self.timeouts.len() > MAX_REMEMBERED_TIMEOUTS
            && let Some((view, _)) = self.timeouts.pop_first()
        {
            self.forgotten = view;
        }
        first
    }

    /// Returns whether a quorum has timed out of a view, each reporting the attached certificate.
    pub fn is_timed_out(&mut self, certificate: &Certificate) -> bool {
        let (view, signers) = (certificate.view(), certificate.signers);
        let reported = certificate
            .attachments
            .iter()
            .map(|reported| reported.high_view().map_or(0, |view| view.0.wrapping_add(1)));
        let sum = reported.fold(0, |sum: u64, reported| (sum ^ reported).wrapping_mul(MULTIPLIER).rotate_left(23));
        if self.last_genuine == Some((view, signers, sum)) || view <= self.forgotten {
            return true;
        }
        let timeouts: &[_] = self.timeouts.get(&view).map_or(&[], Vec::as_slice);
        let did = |(at, signer): (usize, ReplicaId)| {
            self.liars.contains(signer) || timeouts.contains(&(signer, certificate.attachment(at).high_view()))
        };
        let members = signers.highest().is_some_and(|highest| highest.index() < self.replicas);
        let genuine = members && signers.len() >= self.quorum && signers.iter().enumerate().all(did);
        if genuine {
            self.last_genuine = Some((view, signers, sum));
        }
        genuine
    }

    pub fn quorum(&self) -> usize {
        self.quorum
    }
}

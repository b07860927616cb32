//! Checkpoints: at a fixed interval of blocks, replicas vote on the state that they have executed, and a quorum of
//! votes makes a certificate.
//!
//! With the certificate, agreement no longer needs anything older (PBFT then discards its votes), and a lagging replica
//! knows the correct state. The states of some checkpoints are kept and can be fetched from any replica that has them.

use crate::config::Config;
use crate::drops::Drop;
use crate::voting::tally::{Counting, Tally};
use quorate_types::{Attachment, Certificate, Digest, Domain, Height, Quorum, ReplicaId, Subject, View, Vote};
use std::collections::BTreeMap;

/// Number of certified states kept for lagging replicas: two, because a replica may still be fetching the older one.
pub const MAX_STATES_KEPT: usize = 2;
/// Maximum number of certificates that wait until this replica reaches their checkpoint. The oldest one is evicted.
const MAX_AWAITED: usize = 64;

/// Checkpoints that a replica knows: votes, certificates and the states it keeps.
pub struct Checkpoints {
    interval: u64,
    /// Number of heights above the committed height for which the votes of others are counted.
    ahead: u64,
    /// Votes on checkpoints, one per voter and height.
    pub tally: Tally,
    stable: Certificate,
    /// State digests of the checkpoints executed above the last stable one, and whether each state is kept.
    executed: BTreeMap<Height, (Digest, bool)>,
    /// Certificates, other than the newest, of checkpoints that this replica has not reached. While it hashes a large
    /// state, a quorum may finish that checkpoint and the next one.
    awaited: BTreeMap<Height, Certificate>,
    /// The last checkpoint that this replica reached.
    last_executed: Height,
    /// Stable checkpoints whose state is kept here, oldest first.
    offered: Vec<Certificate>,
}

/// Meaning of a checkpoint certificate for the replica that receives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Nothing to compare: a newer checkpoint is known, or none yet.
    Old,
    /// Stable: it does not contradict the state executed here, and that state is not kept here.
    Stable,
    /// The state is kept here and is the newest that this replica offers.
    Kept,
    /// It contradicts the state executed here.
    Diverged(Height),
}

impl Checkpoints {
    /// Creates the state of a replica that knows no checkpoint yet.
    pub fn new(config: &Config, quorum: Quorum, genesis: Certificate) -> Self {
        let counting = |_| Counting { by_height: true, certified: true };
        Checkpoints {
            interval: config.checkpoint_interval,
            ahead: config.window,
            tally: Tally::with(quorum, counting),
            stable: genesis,
            executed: BTreeMap::new(),
            awaited: BTreeMap::new(),
            last_executed: Height(0),
            offered: Vec::new(),
        }
    }

    /// Returns the newest certified checkpoint, or genesis.
    pub fn stable(&self) -> &Certificate {
        &self.stable
    }

    /// Returns whether the block at `height` is followed by a checkpoint.
    pub fn is_due(&self, height: Height) -> bool {
        height.0.is_multiple_of(self.interval)
    }

    /// Returns the newest stable checkpoint whose state is kept here.
    pub fn offered(&self) -> Option<&Certificate> {
        self.offered.last()
    }

    /// Returns the height above which blocks are still needed by replicas that fetch a state kept here.
    pub fn needed_above(&self) -> Height {
        self.offered.first().map(|certificate| certificate.subject.height).unwrap_or_default()
    }

    /// Returns the reason for not counting a vote, or `None` if it counts.
    pub fn refuses(&self, from: ReplicaId, vote: &Vote, committed: Height) -> Option<Drop> {
        let height = vote.subject.height;
        if vote.voter != from {
            return Some(Drop::NotTheSender);
        }
        if !self.is_one(&vote.subject) || vote.attachment != Attachment::None {
            return Some(Drop::Malformed);
        }
        if height <= self.stable.subject.height {
            return Some(Drop::Late);
        }
        let base = committed.max(self.stable.subject.height);
        (height.0 > base.0.saturating_add(self.ahead)).then_some(Drop::TooFarAhead)
    }

    /// Returns whether `subject` has the form of a checkpoint.
    pub fn is_one(&self, subject: &Subject) -> bool {
        let Subject { domain, view, height, .. } = *subject;
        domain == Domain::Checkpoint && view == View(0) && height > Height(0) && self.is_due(height)
    }

    /// Records the state after the execution of `height`. Returns the meaning of the certificate for this height, if
    /// there is one.
    pub fn on_execution(&mut self, height: Height, state: Digest, kept: bool) -> Meaning {
        self.tally.forget_up_to(Height(height.0.saturating_sub(self.ahead)));
        self.executed = self.executed.split_off(&Height(height.0.saturating_sub(self.ahead)));
        self.executed.insert(height, (state, kept));
        self.last_executed = height;
        let awaited = self.awaited.remove(&height);
        self.awaited = self.awaited.split_off(&height);
        let stable = (self.stable.subject.height == height).then(|| self.stable.clone());
        stable.or(awaited).map_or(Meaning::Old, |certificate| self.compare(certificate))
    }

    /// Handles a verified checkpoint certificate.
    pub fn raise(&mut self, certificate: Certificate) -> Meaning {
        if !self.is_one(&certificate.subject) || certificate.subject.height <= self.stable.subject.height {
            return Meaning::Old;
        }
        self.tally.forget_up_to(certificate.subject.height);
        let before = std::mem::replace(&mut self.stable, certificate.clone());
        if before.subject.height > self.last_executed {
            self.awaited.insert(before.subject.height, before);
            if self.awaited.len() > MAX_AWAITED {
                self.awaited.pop_first();
            }
        }
        match self.compare(certificate) {
            Meaning::Old => Meaning::Stable,
            meaning => meaning,
        }
    }

    /// Compares a certificate with the state executed here.
    fn compare(&mut self, certificate: Certificate) -> Meaning {
        let Subject { height, digest, .. } = certificate.subject;
        let own = self.executed.get(&height).copied();
        self.executed = self.executed.split_off(&height);
        match own {
            None => Meaning::Old,
            Some((state, _)) if state != digest => Meaning::Diverged(height),
            Some((_, false)) => Meaning::Stable,
            Some((_, true)) => {
                self.offer(certificate);
                Meaning::Kept
            }
        }
    }

    /// Records that the state of a stable checkpoint is kept here.
    pub fn offer(&mut self, certificate: Certificate) {
        let newest = self.offered.last().map(|certificate| certificate.subject.height);
        if newest < Some(certificate.subject.height) && self.is_one(&certificate.subject) {
            self.offered.push(certificate);
            let surplus = self.offered.len().saturating_sub(MAX_STATES_KEPT);
            self.offered.drain(..surplus);
        }
    }

    /// Checks the invariants after a step.
    pub fn invariants(&mut self) {
        self.tally.invariants();
        let heights = self.offered.iter().map(|certificate| certificate.subject.height);
        assert!(
            heights.is_sorted() && self.offered.len() <= MAX_STATES_KEPT,
            "at most two states are offered, in ascending heights"
        );
        assert!(self.awaited.len() <= MAX_AWAITED, "the certificates of checkpoints not reached are bounded");
        let first = self.executed.first_key_value().map_or(0, |(height, _)| height.0);
        let last = self.executed.last_key_value().map_or(0, |(height, _)| height.0);
        assert!(last - first <= self.ahead, "the executed states without a certificate are bounded");
    }
}

//! Checkpoints: after every so many blocks replicas vouch for what they have executed, and a quorum of such votes is a certificate.
//!
//! It tells a replica that nobody needs what came before to agree (PBFT forgets its votes then), and one that was away what the
//! right state is: at some checkpoints the state is kept, and can be fetched from whoever has it.

use crate::config::Config;
use crate::seam::Drop;
use crate::tally::{Counting, Tally};
use quorate_types::{Attachment, Certificate, Digest, Domain, Height, Quorum, ReplicaId, Subject, View, Vote};
use std::collections::BTreeMap;

/// How many of the states that a quorum vouches for are kept for those who were away: one of them may have begun to fetch the last
/// but one.
pub const STATES_KEPT: usize = 2;

/// What a replica knows of checkpoints.
pub struct Checkpoints {
    interval: u64,
    /// How far above what is executed here others' votes are counted.
    ahead: u64,
    /// Votes on checkpoints: a voter has one for each height.
    pub tally: Tally,
    stable: Certificate,
    /// What this replica vouches for above the last stable checkpoint, and whether the state is kept there.
    executed: BTreeMap<Height, (Digest, bool)>,
    /// Stable checkpoints whose state is kept here, oldest first.
    offered: Vec<Certificate>,
}

/// What a checkpoint's certificate means to a replica that hears of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// A newer one is known.
    Old,
    /// It is the newest.
    Stable,
    /// It is the newest, and the state is kept here.
    Kept,
    /// It is the newest, and contradicts what was executed here.
    Diverged,
}

impl Checkpoints {
    /// Nothing but genesis.
    pub fn new(config: &Config, quorum: Quorum, genesis: Certificate) -> Self {
        let counting = |_| Counting { by_height: true, certified: true };
        Checkpoints {
            interval: config.checkpoint_interval,
            ahead: config.window,
            tally: Tally::with(quorum, counting),
            stable: genesis,
            executed: BTreeMap::new(),
            offered: Vec::new(),
        }
    }

    /// The newest checkpoint that a quorum vouches for, or genesis.
    pub fn stable(&self) -> &Certificate {
        &self.stable
    }

    /// Whether there is a checkpoint after the block of a height.
    pub fn is_due(&self, height: Height) -> bool {
        height.0.is_multiple_of(self.interval)
    }

    /// The newest stable checkpoint whose state is kept here.
    pub fn offered(&self) -> Option<&Certificate> {
        self.offered.last()
    }

    /// Whoever fetches a state that is kept here needs the blocks above this height.
    pub fn needed_above(&self) -> Height {
        self.offered.first().map(|certificate| certificate.subject.height).unwrap_or_default()
    }

    /// Why a vote is not counted, if it is not.
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

    /// Whether this can be a checkpoint at all.
    pub fn is_one(&self, subject: &Subject) -> bool {
        let Subject { domain, view, height, .. } = *subject;
        domain == Domain::Checkpoint && view == View(0) && height > Height(0) && self.is_due(height)
    }

    /// This replica has executed all up to a height. Returns what the certificate of this height means, if it is the newest.
    pub fn executed(&mut self, height: Height, state: Digest, kept: bool) -> Meaning {
        self.tally.forget_up_to(Height(height.0.saturating_sub(self.ahead)));
        self.executed = self.executed.split_off(&Height(height.0.saturating_sub(self.ahead)));
        self.executed.insert(height, (state, kept));
        match self.stable.subject.height == height {
            true => self.compare(),
            false => Meaning::Old,
        }
    }

    /// Takes a genuine certificate of a checkpoint in.
    pub fn raise(&mut self, certificate: Certificate) -> Meaning {
        if !self.is_one(&certificate.subject) || certificate.subject.height <= self.stable.subject.height {
            return Meaning::Old;
        }
        self.tally.forget_up_to(certificate.subject.height);
        self.stable = certificate;
        match self.compare() {
            Meaning::Old => Meaning::Stable,
            meaning => meaning,
        }
    }

    /// What the newest certificate means beside what was executed here.
    fn compare(&mut self) -> Meaning {
        let Subject { height, digest, .. } = self.stable.subject;
        let own = self.executed.get(&height).copied();
        self.executed = self.executed.split_off(&height);
        match own {
            None => Meaning::Old,
            Some((state, _)) if state != digest => Meaning::Diverged,
            Some((_, false)) => Meaning::Stable,
            Some((_, true)) => {
                self.offer(self.stable.clone());
                Meaning::Kept
            }
        }
    }

    /// The state of a stable checkpoint is kept here.
    pub fn offer(&mut self, certificate: Certificate) {
        let newest = self.offered.last().map(|certificate| certificate.subject.height);
        if newest < Some(certificate.subject.height) && self.is_one(&certificate.subject) {
            self.offered.push(certificate);
            let surplus = self.offered.len().saturating_sub(STATES_KEPT);
            self.offered.drain(..surplus);
        }
    }

    /// Holds after every step.
    pub fn invariants(&self) {
        self.tally.invariants();
        let heights = self.offered.iter().map(|certificate| certificate.subject.height);
        assert!(heights.is_sorted() && self.offered.len() <= STATES_KEPT, "two states are offered");
        let first = self.executed.first_key_value().map_or(0, |(height, _)| height.0);
        let last = self.executed.last_key_value().map_or(0, |(height, _)| height.0);
        assert!(last - first <= self.ahead, "what waits for a certificate is bounded");
    }
}

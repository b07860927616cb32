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
/// Most certificates that wait until this replica has its own of the same checkpoint; then the oldest goes.
const MAX_AWAITED: usize = 64;

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
    /// Certificates before the newest, of checkpoints that this replica has not come to yet: to digest a large state takes long, and a
    /// quorum may be done with it and with the next one before.
    awaited: BTreeMap<Height, Certificate>,
    /// The last checkpoint that this replica has come to.
    last_executed: Height,
    /// Stable checkpoints whose state is kept here, oldest first.
    offered: Vec<Certificate>,
}

/// What a checkpoint's certificate means to a replica that hears of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Nothing: a newer one is known, or there is none.
    Old,
    /// Nothing that was executed here contradicts it, and the state is not kept here.
    Stable,
    /// The state is kept here: it is the newest that is offered.
    Kept,
    /// It contradicts what was executed here.
    Diverged(Height),
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
            awaited: BTreeMap::new(),
            last_executed: Height(0),
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

    /// This replica has executed all up to a height. Returns what the certificate of this height means, if there is one.
    pub fn executed(&mut self, height: Height, state: Digest, kept: bool) -> Meaning {
        self.tally.forget_up_to(Height(height.0.saturating_sub(self.ahead)));
        self.executed = self.executed.split_off(&Height(height.0.saturating_sub(self.ahead)));
        self.executed.insert(height, (state, kept));
        self.last_executed = height;
        let awaited = self.awaited.remove(&height);
        self.awaited = self.awaited.split_off(&height);
        let stable = (self.stable.subject.height == height).then(|| self.stable.clone());
        stable.or(awaited).map_or(Meaning::Old, |certificate| self.compare(certificate))
    }

    /// Takes a genuine certificate of a checkpoint in.
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

    /// What a certificate means beside what was executed here.
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
    pub fn invariants(&mut self) {
        self.tally.invariants();
        let heights = self.offered.iter().map(|certificate| certificate.subject.height);
        assert!(heights.is_sorted() && self.offered.len() <= STATES_KEPT, "two states are offered");
        assert!(self.awaited.len() <= MAX_AWAITED, "certificates that wait are bounded");
        let first = self.executed.first_key_value().map_or(0, |(height, _)| height.0);
        let last = self.executed.last_key_value().map_or(0, |(height, _)| height.0);
        assert!(last - first <= self.ahead, "what waits for a certificate is bounded");
    }
}

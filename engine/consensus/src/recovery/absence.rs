//! Missing bundles of final blocks: signatures that a replica lacks a bundle, and the certificates that make a bundle
//! void.
//!
//! A replica whose execution has waited long for bundles signs that it lacks them ([`Domain::Absent`]). A quorum of
//! such signatures makes a bundle of one block void: every replica executes the block without it. As long as at most f
//! replicas lie or have lost their disks, f+1 honest replicas keep each bundle, so no such quorum exists. A replica
//! that has signed accepts the bundle only once f+1 replicas have shown it, so that a single late copy does not split
//! the replicas that signed. For the proof see `docs/adr/093-absence-certificates.md`.

use crate::config::Config;
use crate::voting::tally::{Counting, Tally};
use quorate_types::{Block, Certificate, Digest, Domain, Height, Quorum, ReplicaId, Signers, Subject, Time, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// A replica signs that it lacks a bundle after this many times `fetch_retry_ms`: 10 s by default. During that time it
/// asks each peer several times.
const PATIENCE_RETRIES: u32 = 100;
/// In a large committee, each peer is asked at least this many times first.
const MIN_ROUNDS: u32 = 5;
/// A signature is first repeated after 1/N of the patience, then at intervals that double up to the patience.
const FIRST_REPEAT_DIVISOR: u32 = 8;
/// Maximum number of bundles per block for which a replica signs at a time. The others follow later.
pub const MAX_SIGNED: usize = 64;
/// Maximum number of void bundles kept for blocks. Further certificates are accepted later.
const MAX_VOIDS: usize = 1 << 16;

/// Bundle of a final block, given by the block's height and the bundle's position in the block.
type Place = (Height, u64);

/// Returns the statement that a replica lacks a bundle of a final block. The statement's view is the bundle's position.
pub fn absence(block: &Block, position: usize) -> Subject {
    block_absence(block.height, block.digest(), position as u64)
}

fn block_absence(height: Height, digest: Digest, position: u64) -> Subject {
    Subject { domain: Domain::Absent, view: View(position), height, digest }
}

fn place(subject: &Subject) -> Place {
    (subject.height, subject.view.0)
}

/// First final block whose execution waits.
struct Waiting {
    block: Digest,
    /// When to sign or to repeat the signatures.
    due: Time,
    pause: Duration,
}

/// Signatures and certificates about missing bundles of final blocks.
pub struct Absence {
    quorum: Quorum,
    patience: Duration,
    waiting: Option<Waiting>,
    /// Bundles for which this replica has signed that it lacks them.
    signed: BTreeMap<Place, (Subject, Digest)>,
    /// Replicas that have shown each of these bundles since.
    shown: BTreeMap<Digest, Signers>,
    /// Absence certificates of blocks that are not executed yet or are kept.
    voids: BTreeMap<Place, Certificate>,
    /// Number of bundles executed as void, and the last of them with the height of its block.
    executed: (u64, Option<(Height, Digest)>),
    /// Void bundles that were not reported yet.
    fresh: Vec<(Height, Digest)>,
    /// Signatures about the first final block whose execution waits.
    pub tally: Tally,
}

impl Absence {
    pub fn new(config: &Config, quorum: Quorum) -> Absence {
        let counting = |_| Counting { by_height: true, certified: true };
        let retries = PATIENCE_RETRIES.max(MIN_ROUNDS * quorum.replicas() as u32);
        Absence {
            quorum,
            patience: Duration::from_millis(config.fetch_retry_ms) * retries,
            waiting: None,
            signed: BTreeMap::new(),
            shown: BTreeMap::new(),
            voids: BTreeMap::new(),
            executed: (0, None),
            fresh: Vec::new(),
            tally: Tally::with(quorum, counting),
        }
    }

    /// Returns how long execution waits before this replica signs.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Returns when to act next.
    pub fn next_act(&self) -> Option<Time> {
        self.waiting.as_ref().map(|waiting| waiting.due)
    }

    /// Records the first final block whose execution waits, if any. Returns whether to sign now.
    pub fn is_due(&mut self, now: Time, stuck: Option<Digest>) -> bool {
        let Some(block) = stuck else {
            self.waiting = None;
            return false;
        };
        let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.block == block) else {
            self.waiting =
                Some(Waiting { block, due: now + self.patience, pause: self.patience / FIRST_REPEAT_DIVISOR });
            return false;
        };
        if waiting.due > now {
            return false;
        }
        waiting.due = now + waiting.pause;
        waiting.pause = (waiting.pause * 2).min(self.patience);
        true
    }

    /// Records that this replica signs, or signed before a restart, that it lacks a bundle. Returns false if this was
    /// already recorded.
    pub fn sign(&mut self, subject: Subject, bundle: Digest) -> bool {
        self.shown.entry(bundle).or_default();
        self.signed.insert(place(&subject), (subject, bundle)).is_none()
    }

    /// Returns the statements of this replica about blocks that are not executed.
    pub fn signed(&self) -> impl Iterator<Item = &Subject> {
        self.signed.values().map(|(subject, _)| subject)
    }

    /// Records that a replica shows a bundle. Returns whether this replica may accept it.
    pub fn may_take(&mut self, from: ReplicaId, bundle: &Digest) -> bool {
        if let Some(shown) = self.shown.get_mut(bundle) {
            shown.insert(from);
        }
        !self.refuses(bundle)
    }

    /// Returns whether this replica must not accept a bundle, because it has signed that it lacks it and too few others
    /// have shown it.
    pub fn refuses(&self, bundle: &Digest) -> bool {
        !self.shown.is_empty() && self.shown.get(bundle).is_some_and(|shown| shown.len() < self.quorum.weak())
    }

    /// Records that this replica has accepted a bundle, according to its journal.
    pub fn took(&mut self, bundle: &Digest) {
        self.shown.remove(bundle);
    }

    /// Returns whether a bundle of a final block is void.
    pub fn is_void(&self, height: Height, position: usize) -> bool {
        !self.voids.is_empty() && self.voids.contains_key(&(height, position as u64))
    }

    /// Returns the certificate for an absence statement.
    pub fn certificate(&self, subject: &Subject) -> Option<&Certificate> {
        self.voids.get(&place(subject)).filter(|certificate| certificate.subject == *subject)
    }

    /// Returns the absence certificates for a block.
    pub fn certificates(&self, height: Height) -> impl Iterator<Item = &Certificate> {
        self.voids.range((height, 0)..=(height, u64::MAX)).map(|(_, certificate)| certificate)
    }

    /// Returns the absence certificates for all blocks above a height.
    pub fn certificates_above(&self, height: Height) -> impl Iterator<Item = &Certificate> {
        self.voids.range((height.next(), 0)..).map(|(_, certificate)| certificate)
    }

    pub fn has_any(&self) -> bool {
        !self.voids.is_empty()
    }

    pub fn has_room(&self) -> bool {
        self.voids.len() < MAX_VOIDS
    }

    /// Adds a verified certificate. Returns false if it was already known.
    pub fn add(&mut self, certificate: Certificate) -> bool {
        self.voids.insert(place(&certificate.subject), certificate).is_none()
    }

    /// Records that a block is executed without a bundle.
    pub fn execute(&mut self, height: Height, bundle: Digest) {
        self.executed = (self.executed.0 + 1, Some((height, bundle)));
        self.fresh.push((height, bundle));
    }

    /// Returns the void bundles of blocks executed since the last call, each with the height of its block.
    pub fn take_fresh(&mut self) -> Vec<(Height, Digest)> {
        std::mem::take(&mut self.fresh)
    }

    /// Returns the number of bundles executed as void since the start, and the last of them with the height of its
    /// block.
    pub fn executed(&self) -> (u64, Option<(Height, Digest)>) {
        self.executed
    }

    /// Forgets the signatures about blocks up to an executed height.
    pub fn on_commit(&mut self, height: Height) {
        if self.signed.first_key_value().is_some_and(|((first, _), _)| *first <= height) {
            self.signed = self.signed.split_off(&(height.next(), 0));
            let signed = &self.signed;
            self.shown.retain(|bundle, _| signed.values().any(|(_, other)| other == bundle));
        }
        if self.tally.rounds() > 0 {
            self.tally.forget_up_to(height);
        }
    }

    /// Forgets the certificates about blocks up to a height, as those blocks are no longer kept.
    pub fn forget_up_to(&mut self, height: Height) {
        if !self.voids.is_empty() {
            self.voids = self.voids.split_off(&(height.next(), 0));
        }
    }
}

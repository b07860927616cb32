//! Client bundles whose signatures are verified together.

use quorate_types::{Bundle, Digest};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// A client bundle that the desk has accepted.
pub(super) struct Arrival<K> {
    pub link: K,
    pub bundle: Bundle,
    /// Whether it was verified, or being verified, before it arrived on this link.
    pub was_known: bool,
}

/// Bundles that are verified together, in order of arrival.
struct Batch<K> {
    arrivals: Vec<Arrival<K>>,
    /// The forged ones, once they are known.
    forged: Option<BTreeSet<Digest>>,
}

/// Batches being verified. They leave in the order in which their bundles arrived.
pub(super) struct Batches<K> {
    batches: VecDeque<Batch<K>>,
    /// Number of batches that have left.
    left: u64,
    /// Bundles in the batches, and in the next one.
    pending: HashSet<Digest>,
}

impl<K> Default for Batches<K> {
    fn default() -> Self {
        Batches { batches: VecDeque::new(), left: 0, pending: HashSet::new() }
    }
}

impl<K: Copy + Eq> Batches<K> {
    /// Registers a bundle for the next batch. Returns false if it is already in a batch.
    pub fn note(&mut self, bundle: Digest) -> bool {
        self.pending.insert(bundle)
    }

    /// Adds a batch, with its forged bundles if they are known. Returns its number.
    pub fn push(&mut self, arrivals: Vec<Arrival<K>>, forged: Option<BTreeSet<Digest>>) -> u64 {
        self.batches.push_back(Batch { arrivals, forged });
        self.left + self.batches.len() as u64 - 1
    }

    /// Records the forged bundles of a batch.
    pub fn settle(&mut self, number: u64, forged: BTreeSet<Digest>) {
        let at = usize::try_from(number - self.left).expect("the batch is here");
        let known = self.batches[at].forged.replace(forged);
        assert!(known.is_none(), "a batch is verified once");
    }

    pub fn is_next_checked(&self) -> bool {
        self.batches.front().is_some_and(|batch| batch.forged.is_some())
    }

    /// Returns the next batch if it has been verified.
    pub fn pop(&mut self) -> Option<(Vec<Arrival<K>>, BTreeSet<Digest>)> {
        self.batches.front()?.forged.as_ref()?;
        let Batch { arrivals, forged } = self.batches.pop_front()?;
        self.left += 1;
        for arrival in &arrivals {
            self.pending.remove(&arrival.bundle.digest());
        }
        Some((arrivals, forged?))
    }

    /// Drops the bundles of a closed link. Nobody waits for their replies, and the replica knows that the link is
    /// closed.
    pub fn forget(&mut self, link: K) {
        for batch in &mut self.batches {
            for gone in batch.arrivals.extract_if(.., |arrival| arrival.link == link) {
                self.pending.remove(&gone.bundle.digest());
            }
        }
    }
}

//! Bundles that wait in a pool only because one peer relayed them.
//!
//! A replica may have other reasons to keep a bundle: a client also sent it, f+1 peers relayed it, or a proposal names
//! it. Such bundles do not count here, so the sum is at most the amount that the replica itself must attribute to the
//! peer's share.

use crate::oracles::work::Weight;
use quorate_consensus::data::digest_map::{DigestMap, Salt};
use quorate_types::{Digest, ReplicaId};

/// Relays received by each replica.
pub struct Relays {
    replicas: usize,
    /// The relaying peer, by replica and bundle; `None` if there is another source.
    sources: Vec<DigestMap<Option<ReplicaId>>>,
    /// Relayed bundles that entered the pool, by replica and peer.
    entered: Vec<Entered>,
}

/// Bundles of one peer. Bundles that no longer wait are removed only when `weight` exceeds the limit, because finding
/// them takes time proportional to their number.
#[derive(Clone, Default)]
struct Entered {
    bundles: Vec<(Digest, Weight)>,
    weight: Weight,
}

impl Relays {
    pub fn new(replicas: usize) -> Relays {
        Relays {
            replicas,
            sources: (0..replicas).map(|_| DigestMap::with_hasher(Salt(0))).collect(),
            entered: vec![Entered::default(); replicas * replicas],
        }
    }

    /// Records that clients sent bundles to a replica.
    pub fn clients_send(&mut self, to: ReplicaId, bundles: &[Digest]) {
        let sources = &mut self.sources[to.index()];
        if sources.is_empty() {
            return;
        }
        for bundle in bundles {
            if let Some(source) = sources.get_mut(bundle) {
                *source = None;
            }
        }
    }

    /// Records that a peer relayed bundles to a replica, and which of them `entered` its pool. `waits` returns whether
    /// a bundle is in the pool and not proposed. Returns the bundles that wait only because this peer relayed them.
    /// Bundles that no longer wait may be included if the total is `few` enough.
    pub fn relays(
        &mut self,
        to: ReplicaId,
        from: ReplicaId,
        bundles: impl Iterator<Item = Digest>,
        entered: impl Iterator<Item = (Digest, Weight)>,
        waits: impl Fn(&Digest) -> bool,
        few: impl Fn(&Weight) -> bool,
    ) -> Weight {
        let sources = &mut self.sources[to.index()];
        for bundle in bundles {
            let source = sources.entry(bundle).or_insert(Some(from));
            *source = source.filter(|source| *source == from);
        }
        let share = &mut self.entered[to.index() * self.replicas + from.index()];
        for (bundle, weight) in entered {
            share.bundles.push((bundle, weight));
            share.weight = [share.weight, weight].into_iter().sum();
        }
        if !few(&share.weight) {
            share.bundles.retain(|(bundle, _)| waits(bundle) && sources.get(bundle) == Some(&Some(from)));
            share.weight = share.bundles.iter().map(|(_, weight)| *weight).sum();
        }
        share.weight
    }
}

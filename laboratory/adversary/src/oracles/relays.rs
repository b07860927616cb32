//! Bundles that wait in a pool only because one peer relayed them.
//!
//! A replica may keep a bundle for other reasons: a client sent it too, f+1 peers relayed it, or a proposal names it.
//! Such bundles do not count here, so the sum is at most what the replica itself must count in the peer's share.

use crate::oracles::work::Weight;
use quorate_consensus::data::digest_map::{DigestMap, Salt};
use quorate_types::{Digest, ReplicaId};

/// Relays that each replica has received.
pub struct Relays {
    replicas: usize,
    /// By replica and bundle, the peer that relayed it; `None` if there is another source.
    sources: Vec<DigestMap<Option<ReplicaId>>>,
    /// By replica and peer, the bundles that entered the pool as relays.
    entered: Vec<Entered>,
}

/// Bundles of one peer. Those that no longer wait are removed only when `weight` seems too much, because looking for
/// them takes time in proportion to their number.
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

    /// Notes that clients sent bundles to a replica.
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

    /// Notes that a peer relayed bundles to a replica, and which of them `entered` its pool. `waits` returns whether a
    /// bundle waits and is not proposed. Returns the bundles that wait there only because this peer relayed them,
    /// possibly with some that no longer do if together they are `few` enough.
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

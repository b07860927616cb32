//! Bundles that wait in a pool only because one peer relayed them.
//!
//! A replica may keep a bundle for other reasons: a client sent it too, f+1 peers relayed it, or a proposal names it.
//! Such bundles do not count here, so the sum is at most what the replica itself must count in the peer's share.

use crate::work::Weight;
use quorate_consensus::data::digest_map::{DigestMap, Salt};
use quorate_types::{Digest, ReplicaId};

/// Relays that each replica has received.
pub struct Relays {
    replicas: usize,
    /// By replica and bundle, the peer that relayed it; `None` if there is another source.
    sources: Vec<DigestMap<Option<ReplicaId>>>,
    /// By replica and peer, the bundles that entered the pool as relays and still wait.
    waiting: Vec<Vec<(Digest, Weight)>>,
}

impl Relays {
    pub fn new(replicas: usize) -> Relays {
        Relays {
            replicas,
            sources: (0..replicas).map(|_| DigestMap::with_hasher(Salt(0))).collect(),
            waiting: vec![Vec::new(); replicas * replicas],
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

    /// Notes that a peer relayed bundles to a replica, and which of them `entered` its pool. Returns the bundles that
    /// wait there only because this peer relayed them; `waits` returns whether a bundle waits and is not proposed.
    pub fn relays(
        &mut self,
        to: ReplicaId,
        from: ReplicaId,
        bundles: impl Iterator<Item = Digest>,
        entered: impl Iterator<Item = (Digest, Weight)>,
        waits: impl Fn(&Digest) -> bool,
    ) -> Weight {
        let sources = &mut self.sources[to.index()];
        for bundle in bundles {
            let source = sources.entry(bundle).or_insert(Some(from));
            *source = source.filter(|source| *source == from);
        }
        let waiting = &mut self.waiting[to.index() * self.replicas + from.index()];
        waiting.extend(entered);
        waiting.retain(|(bundle, _)| waits(bundle) && sources.get(bundle) == Some(&Some(from)));
        waiting.iter().map(|(_, weight)| *weight).sum()
    }
}

//! What waits in pools because one peer relayed it.
//!
//! A replica may keep a bundle for other reasons: a client sent it too, f+1 peers relayed it, a proposal names it. What has one of these
//! is left out, so what remains is at most what the replica itself has to count in the peer's share.

use crate::work::Weight;
use quorate_consensus::digest_map::{DigestMap, Salt};
use quorate_types::{Digest, ReplicaId};

/// The relays that each replica has heard.
pub struct Relays {
    replicas: usize,
    /// By replica and bundle, the peer that relayed it; none if that was not the only source.
    sources: Vec<DigestMap<Option<ReplicaId>>>,
    /// By replica and peer, what entered the pool as a relay and has waited since.
    waiting: Vec<Vec<(Digest, Weight)>>,
}

impl Relays {
    /// Nobody has relayed anything.
    pub fn new(replicas: usize) -> Relays {
        Relays {
            replicas,
            sources: (0..replicas).map(|_| DigestMap::with_hasher(Salt(0))).collect(),
            waiting: vec![Vec::new(); replicas * replicas],
        }
    }

    /// Clients send bundles to a replica.
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

    /// A peer relays bundles to a replica, and of these some entered its pool. Returns what waits there for no other reason than that
    /// this peer relayed it; `waits` says whether a bundle waits and nobody proposed it.
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

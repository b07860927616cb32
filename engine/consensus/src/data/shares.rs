//! Shares of the pool: bounds on the space for the bundles of one peer, or of this replica's own clients.

use crate::config::Config;
use crate::data::lanes::Source;
use quorate_types::{Quorum, ReplicaId};

/// The relays of all peers together may use 1/N of the pool.
const RELAYS_PART: usize = 2;
/// Spread bundles of all replicas may use 1/N of the pool. Each replica keeps to its share by refusing its clients.
const SPREADS_PART: usize = 1;

/// Reason for accepting a bundle; it determines how much space the bundle may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A client wants it ordered. It is refused if the pool or the share of its source is full.
    Offered(Source),
    /// A peer relays it. Relays may use only a share of the pool, so that no single peer crowds out clients.
    Relayed(ReplicaId),
    /// A peer spreads it for its clients. Each spreader has the same share of the pool, and keeps to it by refusing its
    /// clients.
    Spread(ReplicaId),
    /// f+1 replicas relayed it as their longest-waiting bundle: it is never refused.
    Owed,
    /// A proposal names it. It is refused only if the unexecuted bundles, proposed or not, would exceed twice the
    /// pool's limit. So a flood of commands cannot keep a proposal incomplete, and a flood of proposals cannot exhaust
    /// the memory.
    Proposed,
    /// It belongs to a certified block or to this replica's own block: it is never refused.
    Certified,
}

impl Need {
    /// Returns the source under which the bundle waits.
    pub(crate) fn source(self) -> Source {
        match self {
            Need::Offered(source) => source,
            Need::Relayed(peer) => Source::Peer(peer),
            Need::Spread(peer) => Source::Spreader(peer),
            Need::Owed | Need::Proposed | Need::Certified => Source::Unnamed,
        }
    }

    /// Returns whether a bundle about to expire is refused because no block names it yet.
    pub(crate) fn refuses_late(self) -> bool {
        matches!(self, Need::Offered(_) | Need::Relayed(_) | Need::Spread(_) | Need::Owed)
    }
}

/// Index of a share: the number of a peer, or n for this replica's own clients.
pub(crate) type Share = u16;

/// Number and bytes of the unexecuted bundles in each share.
pub(crate) struct Shares {
    used: Vec<(usize, usize)>,
    max_bundles: usize,
    max_bytes: usize,
    /// Whether replicas spread bundles.
    pub spreads: bool,
}

impl Shares {
    pub fn new(config: &Config, quorum: Quorum) -> Shares {
        Shares {
            used: vec![(0, 0); quorum.replicas() + 1],
            max_bundles: config.pool_bundles,
            max_bytes: config.pool_bytes,
            spreads: config.dissemination.is_spread(),
        }
    }

    fn peers(&self) -> usize {
        self.used.len() - 1
    }

    /// Returns the share to which a bundle is charged.
    pub fn of(&self, need: Need) -> Option<Share> {
        match need {
            Need::Offered(_) => self.spreads.then_some(self.peers() as Share),
            Need::Relayed(peer) | Need::Spread(peer) => Some(peer.0),
            Need::Owed | Need::Proposed | Need::Certified => None,
        }
    }

    /// Returns the peer to which a share belongs.
    pub fn peer(&self, share: Share) -> Option<ReplicaId> {
        (usize::from(share) < self.peers()).then_some(ReplicaId(share))
    }

    /// Returns whether the share for a need has no space for another `size` bytes. It always has space for one bundle.
    pub fn is_used_up(&self, need: Need, size: usize) -> bool {
        let Some(share) = self.of(need) else { return false };
        let part = if matches!(need, Need::Relayed(_)) { RELAYS_PART } else { SPREADS_PART };
        let ((bundles, bytes), parts) = (self.used[usize::from(share)], part * self.peers());
        bundles > 0 && (bundles >= self.max_bundles.div_ceil(parts) || bytes + size > self.max_bytes / parts)
    }

    pub fn add(&mut self, share: Share, size: usize) {
        let (bundles, bytes) = &mut self.used[usize::from(share)];
        (*bundles, *bytes) = (*bundles + 1, *bytes + size);
    }

    pub fn remove(&mut self, share: Share, size: usize) {
        let (bundles, bytes) = &mut self.used[usize::from(share)];
        (*bundles, *bytes) = (*bundles - 1, *bytes - size);
    }

    pub fn clear(&mut self) {
        self.used.fill((0, 0));
    }
}

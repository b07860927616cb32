//! Queries of a host to a replica.

use super::Replica;
use crate::protocols::parts::Parts;
use crate::protocols::protocol::Protocol;
use crate::seam::{Drop, Evidence};
use quorate_types::{Digest, Domain, Height, ReplicaId, Time, View};
use std::collections::BTreeMap;
use std::time::Duration;

impl<P: Protocol> Replica<P> {
    /// Returns the current view.
    pub fn view(&self) -> View {
        self.parts.pacemaker.view()
    }

    /// Returns the leader of the current view. While that depends on a missing block, returns the last known leader, if
    /// any.
    pub fn leader(&self) -> Option<ReplicaId> {
        self.protocol.leader(&self.parts).or_else(|| self.parts.fairness.leader())
    }

    /// Returns how long clients' frames may stay unread to save wake-ups, or `None` if they are needed now.
    pub fn patience(&self, now: Time) -> Option<Duration> {
        self.protocol.patience(now, &self.parts)
    }

    /// Returns the height of the last committed block.
    pub fn committed_height(&self) -> Height {
        self.parts.store.committed()
    }

    /// Returns the height up to which agreement no longer needs blocks.
    pub fn settled_height(&self) -> Height {
        self.protocol.settled(&self.parts)
    }

    /// Returns how many views this replica has timed out of.
    pub fn view_timeouts(&self) -> u64 {
        self.parts.pacemaker.timeouts()
    }

    /// Returns the number of ignored messages, by reason.
    pub fn dropped(&self) -> &BTreeMap<Drop, u64> {
        &self.out.dropped
    }

    /// Returns the proofs of misbehaviour.
    pub fn evidence(&self) -> &[Evidence] {
        &self.evidence
    }

    /// Returns whether a bundle is waiting, proposed or recently executed.
    pub fn is_known(&self, bundle: &Digest) -> bool {
        self.parts.store.pool.contains(bundle)
    }

    /// Returns whether a peer delivered a bundle before its client did. It may be executed already. When it arrives
    /// from the client, the host still submits it, so that the replica learns how late it is.
    pub fn expects(&self, bundle: &Digest) -> bool {
        self.parts.store.expects(bundle)
    }

    /// Returns whether honest replicas have accepted a bundle, because agreement has decided a block that names it. If
    /// clients authenticate bundles to each replica separately, the host then accepts it without the MAC for this
    /// replica.
    pub fn is_decided(&self, bundle: &Digest) -> bool {
        self.protocol.is_decided(bundle, &self.parts)
    }

    /// Returns whether a bundle was executed recently.
    pub fn is_executed(&self, bundle: &Digest) -> bool {
        self.parts.store.pool.is_executed(bundle)
    }

    /// Returns the number of replicas that have voted in a round that is still open.
    pub fn voters(&self, domain: Domain, view: View) -> usize {
        self.parts.tally.voters(domain, view)
    }

    /// Returns the shared parts, for inspection.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Consumes the replica and returns the shared parts. The replica takes no further step, so no vote
    /// can break its promises.
    pub fn into_parts(self) -> Parts {
        self.parts
    }

    /// Returns the protocol, for inspection.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }
}

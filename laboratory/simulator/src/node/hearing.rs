//! Peers' messages at a simulated replica: read, decoded, hashed and verified, then passed to its state machine.

use super::network::charge_hashes;
use super::{Node, Parts, Surroundings, WORDS};
use crate::work::Work;
use quorate_consensus::{Envelope, Input, Protocol};
use quorate_types::{Bundle, Digest, ReplicaId};
use std::sync::Arc;

impl<P: Protocol> Node<P> {
    pub(super) fn hear_peers(&mut self, world: &mut Surroundings<'_, P::Message>) {
        let mut read_from = [0u64; WORDS];
        while let Some((from, bytes, message)) = self.peers.pop_front() {
            let (word, bit) = (usize::from(from) / 64, 1 << (from % 64));
            if self.network.is_none() && read_from[word] & bit == 0 {
                read_from[word] |= bit;
                self.ledger.charge(Work::Reads, 1, world.charges.read_call);
            }
            let message = Arc::unwrap_or_clone(message);
            let place = self.ledger.enter(message.kind(), 1);
            self.ledger.charge(Work::Handled, 1, world.charges.handle);
            if self.network.is_none() {
                self.ledger.received(u64::from(bytes));
                self.ledger.charge(Work::Received, 1, world.charges.receive);
                self.ledger.charge(Work::ReceivedBytes, u64::from(bytes), world.charges.receive_byte);
                world.charges.receive_frame(&mut self.ledger, u64::from(bytes));
                charge_hashes(&message, u64::from(bytes), world.charges, &mut self.ledger);
            }
            match message {
                Envelope::Relay(_) | Envelope::Spread(_) => self.hear_relay(ReplicaId(from), message, world),
                message => self.hear(ReplicaId(from), message, world),
            }
            self.ledger.leave(place);
        }
    }

    /// Verifies the bundles in a message, and charges for signatures that are not in the cache. Passes the message on
    /// if they are genuine.
    fn hear(&mut self, from: ReplicaId, mut message: Envelope<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let (Parts { replica, executor, .. }, desk) = (&self.parts, self.desk.as_mut().expect("nobody is at the desk"));
        let before = desk.verifications();
        let is_genuine = desk.judge_message(replica, executor, &mut message);
        let verified = desk.verifications() - before;
        world.charges.clients.verify(verified).charge(&mut self.ledger);
        if is_genuine {
            self.feed(Input::Receive { from, message }, world);
        }
    }

    /// Passes a peer's relayed or spread bundles to the replica, then reports to the oracle which of them are in the
    /// pool.
    fn hear_relay(&mut self, from: ReplicaId, message: Envelope<P::Message>, world: &mut Surroundings<'_, P::Message>) {
        let me = self.parts.me;
        let digests = message.bundles().iter().map(Bundle::digest);
        let relayed: Vec<(Digest, bool)> =
            digests.map(|digest| (digest, self.parts.replica.is_known(&digest))).collect();
        self.hear(from, message, world);
        let pool = &self.parts.replica.parts().store.pool;
        world.oracle.heard_relay(me, from, &relayed, |digest| pool.is_pending(digest) || pool.is_uncertified(digest));
    }
}

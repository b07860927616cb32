//! Bundles that peers relay because they have waited long, and bundles that peers disseminate for their clients.

use super::{Event, Protocol, Replica};
use crate::data::pool::{Need, Offered};
use crate::seam::{Action, Drop, Envelope, MAX_SPREAD_BUNDLES, MAX_SPREAD_BYTES, To};
use quorate_types::{Bundle, Digest, ReplicaId, Time};

impl<P: Protocol> Replica<P> {
    /// Removes already executed bundles from a peer's relayed or disseminated bundles. As with bundles from clients,
    /// only the host remembers all executed ones. Anyone can replay a bundle, and it must not be ordered again.
    pub fn screen(&self, message: &mut Envelope<P::Message>, mut is_executed: impl FnMut(&Bundle) -> bool) {
        #[cfg(feature = "mutants")]
        let _having = crate::mutants::having(self.bug);
        if bug!(RelaysUnscreened) {
            return;
        }
        match message {
            Envelope::Relay(bundles) => bundles.retain(|bundle| !is_executed(bundle)),
            Envelope::Spread(bundles) => {
                bundles.retain(|bundle| self.expects(&bundle.digest()) || !is_executed(bundle));
            }
            _ => {}
        }
    }

    /// Handles a relay. Its first bundle has waited longest at that peer. It is proposed next if f+1 peers say so, and
    /// the peer is told that it has arrived.
    pub(super) fn on_relay(&mut self, now: Time, from: ReplicaId, bundles: Vec<Bundle>) {
        let Some(first) = bundles.first().cloned() else { return };
        let (digest, fairness) = (first.digest(), &mut self.parts.fairness);
        fairness.on_note(now, from, &digest);
        let owed = fairness.claim(from, digest);
        let leader = fairness.leader();
        if leader != Some(self.parts.me) && leader != Some(from) {
            fairness.on_relay(now, from, first.clone());
        }
        if owed && !bug!(BlamedUnheard) {
            self.owe(now, first);
        }
        self.submit(now, from, bundles.into_iter().map(|bundle| (bundle, Need::Relayed(from))));
        self.note(from, digest);
    }

    /// Sends bundles of this replica's clients to peers, in as few messages as possible.
    pub(super) fn spread(&mut self, to: To, bundles: Vec<Bundle>) {
        let (mut message, mut bytes) = (Vec::new(), 0);
        for bundle in bundles {
            let size = bundle.body().len();
            if message.len() == MAX_SPREAD_BUNDLES || !message.is_empty() && bytes + size > MAX_SPREAD_BYTES {
                self.send_spread(to, std::mem::take(&mut message));
                bytes = 0;
            }
            bytes += size;
            message.push(bundle);
        }
        if !message.is_empty() {
            self.send_spread(to, message);
        }
    }

    fn send_spread(&mut self, to: To, bundles: Vec<Bundle>) {
        let message = Envelope::Spread(bundles);
        self.out.actions.push(Action::Send { to, message, after: None, sign: false });
    }

    pub(super) fn on_spread(&mut self, now: Time, from: ReplicaId, bundles: Vec<Bundle>) {
        if !self.parts.config.dissemination.is_spread() {
            return self.drop_message(from, Drop::Unasked);
        }
        self.submit(now, from, bundles.into_iter().map(|bundle| (bundle, Need::Spread(from))));
        self.accept_awaited(from);
    }

    /// Queues a bundle relayed by f+1 replicas ahead of all others, without a limit on their number.
    fn owe(&mut self, now: Time, bundle: Bundle) {
        let (digest, commands) = (bundle.digest(), bundle.len());
        let offered = self.parts.store.supply_for(bundle, Need::Owed, &self.parts.leaders, &mut self.out.whole);
        self.parts.store.pool.promote(&digest);
        if offered == Offered::New {
            self.tell(now, Event::Work(commands));
        }
    }

    fn note(&mut self, to: ReplicaId, bundle: Digest) {
        if self.parts.store.pool.is_pending(&bundle) {
            let message = Envelope::Noted { bundle };
            self.out.actions.push(Action::Send { to: To::One(to), message, after: None, sign: false });
        }
    }
}

//! Bundles that peers relay because they have waited long.

use super::{Event, Protocol, Replica};
use crate::data::pool::{Need, Offered};
use crate::seam::{Action, Envelope, To};
use quorate_types::{Bundle, Digest, ReplicaId, Time};

impl<P: Protocol> Replica<P> {
    /// Removes bundles from a peer's relay that were executed before. Only the host remembers all executed bundles,
    /// here as for those from clients. Anyone can replay a bundle; it must not be ordered again.
    pub fn screen(&self, message: &mut Envelope<P::Message>, mut is_executed: impl FnMut(&Bundle) -> bool) {
        #[cfg(feature = "mutants")]
        let _having = crate::mutants::having(self.bug);
        if let Envelope::Relay(bundles) = message
            && !bug!(RelaysUnscreened)
        {
            bundles.retain(|bundle| !is_executed(bundle));
        }
    }

    /// Handles a relay. Its first bundle has waited longest at that peer: it is proposed next if f+1 peers say so, and
    /// the peer learns that it has arrived.
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

    /// Queues a bundle relayed by f+1 replicas ahead of all others; there is always room for it.
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

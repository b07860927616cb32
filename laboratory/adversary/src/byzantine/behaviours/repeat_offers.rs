//! The fault `repeat-offers`.

use crate::byzantine::kind::{Facts, Kind, Needs};
use crate::byzantine::malleable::Malleable;
use crate::byzantine::step::{Sent, Step, Tactic, unsigned};
use quorate_consensus::{Envelope, To};
use quorate_types::ReplicaId;
use std::collections::BTreeMap;

/// `repeat-offers`: after each message to a replica, repeats its last state offer to that replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RepeatOffers;

impl Kind for RepeatOffers {
    const FACTS: Facts = Facts { needs: Needs::States, ..Facts::omits("repeat-offers") };
    const DEFAULT: RepeatOffers = RepeatOffers;

    fn tactic<M: Malleable>(self) -> impl Tactic<M> + 'static {
        Offered { last: BTreeMap::new() }
    }
}

struct Offered<M> {
    /// Last offer to each replica.
    last: BTreeMap<ReplicaId, Envelope<M>>,
}

impl<M: Malleable> Tactic<M> for Offered<M> {
    fn send(&mut self, sent: Sent<M>, step: &mut Step<'_, M>) {
        if let (To::One(one), Envelope::Offer { .. }) = (sent.to, &sent.message) {
            self.last.insert(one, sent.message.clone());
        }
        let again = self.last.iter().filter(|(one, _)| sent.reaches(**one));
        let again: Vec<_> = again.map(|(one, offer)| unsigned(To::One(*one), offer.clone())).collect();
        step.pass(sent);
        step.out.extend(again);
    }
}

//! Hostile clients in the world, and whether the honest are served beside them.

use super::{Event, World};
use crate::hostile::{Attacker, Hostility, Request, TICK};
use crate::node::HONEST_LINK;
use quorate_consensus::Protocol;
use quorate_types::{Bundle, Height, Time};

/// A hostile client, the link it comes over, and until when it works.
pub(super) struct Attack {
    attacker: Attacker,
    link: u16,
    until: Time,
}

impl<P: Protocol> World<'_, P> {
    /// A hostile client begins. From then on it is looked after the honest in each tick.
    pub(super) fn attack(&mut self, kind: Hostility, shares_link: bool, until: Time) {
        let number = self.attacks.len() as u16;
        let link = if shares_link { HONEST_LINK } else { 1 + number };
        self.attacks.push(Attack { attacker: Attacker::new(kind, number), link, until });
        self.schedule.push(self.now, Event::Hostile(number));
    }

    /// Hostile clients hear what the honest send.
    pub(super) fn overhear(&mut self, bundle: &Bundle) {
        self.attacks.iter_mut().for_each(|attack| attack.attacker.overhears(bundle));
    }

    pub(super) fn hostile_tick(&mut self, number: usize) {
        self.oracle.is_served(self.now);
        self.schedule.push(self.now + TICK, Event::Hostile(number as u16));
        let replicas = self.replicas();
        let height = Height((0..replicas).map(|replica| self.oracle.height(replica)).max().unwrap_or_default());
        let Attack { attacker, link, until } = &mut self.attacks[number];
        if self.now >= *until {
            return;
        }
        let (link, only, hangs_up) = (*link, attacker.only_to(replicas), attacker.ends_a_lease());
        let sends = attacker.sends(height);
        self.trace.add(self.now.0, 1 << 33 | number as u64, sends.len() as u64);
        for (request, _) in &sends {
            if let Request::Bundle(bundle) = request {
                self.oracle.submitted(bundle);
                if attacker.repeats() {
                    self.oracle.repeats(bundle);
                }
            }
        }
        for to in (0..replicas).filter(|to| only.is_none_or(|only| only == *to)) {
            if self.nodes[to].alive {
                if hangs_up {
                    self.nodes[to].hang_up();
                }
                sends.iter().for_each(|(request, bytes)| self.nodes[to].ask(link, request.clone(), *bytes));
                self.wake(to);
            }
        }
    }
}

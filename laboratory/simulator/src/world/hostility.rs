//! Hostile clients, and the check that honest clients are served despite them.

use super::{Event, World};
use crate::hostile::{Attacker, Hostility, Request, TICK};
use crate::node::HONEST_LINK;
use quorate_consensus::Protocol;
use quorate_types::{Bundle, Height, ReplicaId, Time};

/// Hostile client with its link and the end of its attack.
pub(super) struct Attack {
    attacker: Attacker,
    link: u16,
    until: Time,
}

impl<P: Protocol> World<'_, P> {
    /// Starts a hostile client. From now on, each tick checks the service of the honest clients.
    pub(super) fn attack(&mut self, kind: Hostility, shares_link: bool, until: Time) {
        let number = self.attacks.len() as u16;
        // The honest client machines have the first links.
        let link = if shares_link { HONEST_LINK } else { self.clients.machines() as u16 + number };
        self.attacks.push(Attack {
            attacker: Attacker::new(kind, self.client_keys.identity(Attacker::owner(number))),
            link,
            until,
        });
        self.schedule.push(self.now, Event::Hostile(number));
    }

    /// Reveals an honest client's bundle to the hostile clients.
    pub(super) fn overhear(&mut self, bundle: &Bundle) {
        self.attacks.iter_mut().for_each(|attack| attack.attacker.on_honest_bundle(bundle));
    }

    pub(super) fn on_hostile_tick(&mut self, number: usize) {
        self.oracle.check_service(self.now);
        self.schedule.push(self.now + TICK, Event::Hostile(number as u16));
        let replicas = self.replicas();
        let height = Height((0..replicas).map(|replica| self.oracle.height(replica)).max().unwrap_or_default());
        let ahead = self.nodes.iter().filter(|node| node.alive).max_by_key(|node| node.view());
        let leader = ahead.and_then(|node| node.leader()).unwrap_or(ReplicaId(0));
        let Attack { attacker, link, until } = &mut self.attacks[number];
        if self.now >= *until {
            return;
        }
        let (link, only, hangs_up) = (*link, attacker.only_target(replicas, leader), attacker.on_tick());
        let requests = attacker.requests(height, leader);
        self.trace.add(self.now.0, 1 << 33 | number as u64, requests.len() as u64);
        for (request, _) in &requests {
            if let Request::Bundle(bundle) = request {
                self.oracle.submitted(bundle);
                if attacker.is_repeating() {
                    self.oracle.repeats(bundle);
                }
            }
        }
        for to in (0..replicas).filter(|to| only.is_none_or(|only| only == *to)) {
            if self.nodes[to].alive {
                if hangs_up {
                    self.nodes[to].hang_up();
                }
                requests.iter().for_each(|(request, bytes)| self.nodes[to].ask(link, request.clone(), *bytes));
                self.wake(to);
            }
        }
    }
}
